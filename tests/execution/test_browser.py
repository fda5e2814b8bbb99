"""The browser of agents, judged by Debian's Chromium on pages of every kind: forms, frames, shadow trees,
dialogs, popups, downloads, pages that are too large or never end, and pages that reach for private hosts."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from hermes.domain.errors import UserError
from hermes.domain.ports.browser import LONGEST_VIEW, PageView
from hermes.domain.ports.world import Boundary
from hermes.execution.browser import launch
from hermes.execution.browser.host import BrowserHost
from hermes.testing.clock import FakeClock
from tests.execution.beds import install
from tests.execution.browser_site import Pages, open_browser, open_pages
from tests.execution.egress_site import INSIDE

pytestmark = pytest.mark.server


class Visitor:
    """Uses the page of one session, as a stranger does."""

    def __init__(self, host: BrowserHost, pages: Pages, session: str = "s") -> None:
        self.host, self.pages, self._key = host, pages, ("main", session)

    def use(self, work: Callable[[Any], Any]) -> Any:
        return self.host.use(self._key, work, opens=True, stranger=True)

    async def go(self, path: str, **where: str) -> PageView:
        view: PageView = await self.use(lambda page: page.navigate(self.pages.url(path, **where)))
        return view

    async def act(self, *words: str) -> str:
        told: str = await self.use(lambda page: page.act(*words))
        return told

    async def view(self, **how: bool) -> PageView:
        view: PageView = await self.use(lambda page: page.view(**how))
        return view

    async def fails(self, work: Callable[[Any], Any]) -> str:
        with pytest.raises(UserError) as caught:
            await self.use(work)
        return str(caught.value)


@pytest.fixture
async def visitor(tmp_path: Path) -> AsyncIterator[Visitor]:
    install("chromium", "chromium")
    install("bubblewrap", "bwrap")
    environ = dict(os.environ)
    async with open_pages() as pages, open_browser(tmp_path, environ, command_timeout=24.0) as host:
        yield Visitor(host, pages)


def _navigate(url: str, page: Any) -> Any:
    return page.navigate(url)


def _ask(method: str, page: Any) -> Any:
    return page.ask(method, {}, "", 5.0)


def _picture(annotate: bool, page: Any) -> Any:
    return page.picture(annotate=annotate)


def ref(view: PageView, words: str) -> str:
    (line,) = [line for line in view.text.splitlines() if words in line and "@e" in line]
    return line.split()[-1]


async def test_forms_shadow_trees_and_frames(visitor: Visitor) -> None:
    view = await visitor.go("/form")
    typed = {"Name": "Ann <b>", "Note": "two\nlines", "Size": "large", '- date "Day"': "2026-01-02"}
    for label, text in {**typed, "Pass": "s3cret", "Free": ""}.items():
        at = ref(view, f'"{label}"' if label in typed and "date" not in label else label)
        assert await visitor.act("type", at, text) == "Typed."
    await visitor.act("click", ref(view, "Gift"))
    after = await visitor.view(full=True)
    assert '"Name": Ann <b> @' in after.text and "s3cret" not in after.text and "before" not in after.text
    assert '"Gift" [checked] @' in after.text
    assert "not a field" in await visitor.fails(lambda page: page.act("type", ref(view, "Send"), "x"))
    assert "does not take" in await visitor.fails(lambda page: page.act("type", ref(view, "- date"), "x"))
    await visitor.act("click", ref(view, "Send"))
    done = await visitor.view(full=True)
    assert done.title == "Done" and "('day', '2026-01-02')" in done.text and "('size', 'L')" in done.text
    assert "There is no element @e99" in await visitor.fails(lambda page: page.act("click", "@e99"))
    assert await visitor.act("back") == "Went back."
    assert (await visitor.view(text=False)).title == "Form"
    view = await visitor.go("/frames")
    for words in ("open button", "closed button"):  # in a frame of another site
        await visitor.act("click", ref(view, words))
    await visitor.act("type", ref(view, '"Name"'), "inner")
    await visitor.act("press", "", "Enter")
    told = await visitor.act("console")
    assert "open was clicked" in told and "closed was clicked" in told
    assert any("name=inner" in path for path in visitor.pages.seen)


async def test_dialogs_popups_and_downloads(visitor: Visitor) -> None:
    view = await visitor.go("/dialogs")
    await visitor.act("click", ref(view, "Ask"))
    (note,) = (await visitor.view()).notes
    assert "d1 is open" in note and "prompt “How many?”, default “3”" in note
    assert "d1 is open" in await visitor.fails(lambda page: page.picture())
    await visitor.act("accept", "d1", "7")
    assert "said 7" in await visitor.act("console")
    assert "No such dialog" in await visitor.fails(lambda page: page.act("accept"))
    await visitor.act("click", ref(view, "Loop"))
    for _ in range(3):
        await visitor.act("dismiss")
    assert (await visitor.view()).notes, "it asks again and again"
    view = await visitor.go("/popups")  # and is left nevertheless
    await visitor.act("click", ref(view, "One"))
    assert (await visitor.view(text=False)).title == "Form"
    view = await visitor.go("/popups")
    await visitor.act("click", ref(view, "Many"))
    shown = await visitor.view(text=False)
    assert shown.title == "Shadow"
    targets = await visitor.host._browser.connection.call("Target.getTargets")  # type: ignore[union-attr]
    assert sum(target["type"] == "page" for target in targets["targetInfos"]) <= 6
    assert "A download was denied: a.zip" in await visitor.fails(
        lambda page: page.navigate(visitor.pages.url("/file"))
    )


async def test_nothing_private_is_reached(visitor: Visitor) -> None:
    pages = visitor.pages
    secret = pages.url("/secret", INSIDE)
    for url in (secret, "http://127.0.0.2/", "http://169.254.169.254/latest", "file:///etc/passwd"):
        assert await visitor.fails(partial(_navigate, url))
    view = await visitor.go(f"/to?u={secret}")
    assert "403" in view.text and "not the open one" in view.text
    await visitor.go("/reach")
    async with asyncio.timeout(40):
        told = ""
        while "echo hi" not in told or "socket refused" not in told:
            told = await visitor.act("console")
            await asyncio.sleep(0.1)
    assert not pages.inside
    run = f"fetch('http://127.0.0.2:{pages.port}/').then(answer => answer.text())"
    assert "Failed to fetch" in await visitor.fails(lambda page: page.act("evaluate", "", run))
    for method in ("Page.navigate", "Target.createBrowserContext", "Browser.close"):
        assert "not allowed" in await visitor.fails(partial(_ask, method))
    assert not pages.inside
    other = Visitor(visitor.host, pages, "another session")
    await visitor.act("evaluate", "", "document.cookie = 'a=1'")
    await other.go("/bare")
    assert await other.act("evaluate", "", "document.cookie") == ""


async def test_pages_that_are_large_or_never_end(visitor: Visitor) -> None:
    view = await visitor.go("/bare")
    assert view.text.count("text: word") == 3 and 'image "a picture"' in view.text
    assert "a.png" in await visitor.act("images")
    assert "Scrolled to" in await visitor.act("scroll", "down")
    assert "[warning] careful" in (told := await visitor.act("clear")) and "TypeError" in told
    assert await visitor.act("console") == "No messages."
    assert await visitor.act("evaluate", "", "({a: [1]})") == '{"a":[1]}'
    assert len(await visitor.act("evaluate", "", "'x'.repeat(1e6)")) < LONGEST_VIEW + 50
    assert "The expression failed" in await visitor.fails(lambda page: page.act("evaluate", "", "null.x"))
    for annotate in (False, True):
        picture = await visitor.use(partial(_picture, annotate))
        assert picture.startswith(b"\x89PNG")
    view = await visitor.go("/endless")
    assert "First words" in view.text and "The page is still loading." in view.notes
    view = await visitor.go("/large")
    assert "too large" in view.text and "begins here" in view.text and len(view.text) <= LONGEST_VIEW
    await visitor.fails(lambda page: page.act("evaluate", "", "for (;;);"))
    assert (await visitor.go("/small")).title == "Small"


async def test_the_browser_ends_when_it_is_not_used(visitor: Visitor) -> None:
    await visitor.go("/small")
    clock = visitor.host._clock
    browser: Any = visitor.host._browser
    assert isinstance(clock, FakeClock)
    await clock.advance(121)
    assert await visitor.host.tend() == "1 closed"
    assert browser.keeper.returncode is not None
    await visitor.go("/small")
    again: Any = visitor.host._browser
    os.kill(again.keeper.pid, signal.SIGKILL)  # as if it had crashed
    await again.keeper.wait()
    async with asyncio.timeout(40):
        while again.connection.alive:  # noqa: ASYNC110
            await asyncio.sleep(0.05)
    with pytest.raises(UserError, match=r"No page is open|has ended"):
        await visitor.host.use(("main", "s"), lambda page: page.view(), stranger=True)
    assert (await visitor.go("/small")).title == "Small"


LIFE = """
import asyncio, os, sys
from pathlib import Path
from hermes.execution.browser import launch
from hermes.execution.browser.program import find_browser
async def main():
    way = [way for way in launch.ways(os.environ) if way.name == sys.argv[2]][0]
    program = find_browser("", os.environ)
    browser = await launch.start_best(program, Path(sys.argv[1], "s"), os.environ, way)
    print(browser.keeper.pid, flush=True)
    await asyncio.sleep(600)
asyncio.run(main())
"""


@pytest.mark.parametrize("way", list(launch.ways(os.environ)), ids=lambda way: way.name)
def test_nothing_is_left_of_it_after_a_kill(tmp_path: Path, way: launch.Way) -> None:
    install("chromium", "chromium")
    mark = {**os.environ, "TMPDIR": str(tmp_path), "PATH": f"{os.environ['PATH']}:/test{os.getpid()}"}
    argv = [sys.executable, "-c", LIFE, str(tmp_path), way.name]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, env=mark) as gateway:
        assert gateway.stdout is not None and gateway.stdout.readline().strip().isdigit()
        assert len(_marked(mark["PATH"])) >= 3
        gateway.kill()
    for _ in range(400):
        if not _marked(mark["PATH"]):
            break
        signal.sigtimedwait([], 0.1)
    assert not _marked(mark["PATH"]) and not list(tmp_path.glob("hermes-browser-*"))


def _marked(path: str) -> list[str]:
    """The processes that run with this search path."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if f"PATH={path}".encode() in (process / "environ").read_bytes().split(b"\0"):
                found.append((process / "cmdline").read_bytes().decode())
        except OSError:
            continue
    return found


async def test_a_way_without_walls_is_not_for_strangers(visitor: Visitor) -> None:
    visitor.host._working = launch.Way(name="no sandbox", boundary=Boundary.NONE, own_sandbox=False)
    assert "no sandbox" in await visitor.fails(lambda page: page.navigate(visitor.pages.url("/small")))
    view = await visitor.host.use(
        ("main", "s"), lambda page: page.navigate(visitor.pages.url("/small")), opens=True, stranger=False
    )
    assert view.title == "Small"
