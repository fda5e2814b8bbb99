"""The client of the DevTools protocol, on a fake and, by the same questions, on Debian's Chromium."""

from __future__ import annotations

import asyncio
import json
import os
import socket
import subprocess
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from hermes.domain.errors import Refused, Unreachable, UserError
from hermes.execution.browser import launch
from hermes.execution.browser.cdp import MOST_BYTES, CdpConnection, PipeLink
from hermes.execution.browser.host import BrowserHost
from hermes.execution.browser.keys import key_events
from hermes.execution.browser.program import find_browser
from hermes.execution.browser.snapshot import tree_lines, write_lines
from hermes.testing.clock import FakeClock
from tests.execution.beds import install
from tests.execution.browser_site import open_browser, open_pages
from tests.execution.egress_site import INSIDE, OTHER
from tests.execution.fake_cdp import NODES, FakeChromium, open_fake

KEY = ("main", "s")
_FLAGS = """--headless=new --no-sandbox --disable-gpu --no-first-run --disable-background-networking
    --disable-component-update --disable-sync --disable-quic"""


async def walk(host: BrowserHost, here: str, inside: str) -> list[Any]:
    """What a session sees of the small page; the fake and Chromium must say the same."""

    def use(work: Any, **how: Any) -> Any:
        return host.use(KEY, work, stranger=False, **how)

    seen: list[Any] = []
    view = await use(lambda page: page.navigate(here), opens=True)
    seen.append((view.url, view.title, view.text, view.notes))
    seen.append(await use(lambda page: page.act("click", "@e1")))
    seen.append((await use(lambda page: page.view())).notes)
    with pytest.raises(UserError) as waiting:
        await use(lambda page: page.act("click", "@e2"))
    seen.append(str(waiting.value))
    seen.append(await use(lambda page: page.act("accept")))
    seen.append((await use(lambda page: page.view())).notes)
    with pytest.raises(UserError) as refused:
        await use(lambda page: page.navigate(inside))
    seen.append(str(refused.value))
    with pytest.raises(UserError) as unknown:
        await use(lambda page: page.ask("Overlay.noSuchThing", {}, "", 5.0))
    seen.append(str(unknown.value))
    return seen


def expected(here: str) -> list[Any]:
    dialog = "Dialog d1 is open and must be answered with browser_dialog: alert “hi”"
    text = '- heading "Hello" [level=1]\n- button "Greet" @e1\n- textbox "Name": Ann @e2\n'
    text += '- link "On" @e3\n- text: words'
    return [
        (here, "Small", text, ()),
        "Clicked.",
        (dialog,),
        dialog,
        "Accepted: alert “hi”",
        (),
        f"{INSIDE} leads into a network that is not the open one.",
        "'Overlay.noSuchThing' wasn't found",
    ]


FILES = (
    "DOM.setFileInputFiles",
    "DOM.getFileInfo",
    "Input.dispatchDragEvent",
    "Page.setInterceptFileChooserDialog",
)


@pytest.mark.parametrize("method", [*FILES, "Page.navigate", "Input.whatComesWithTheNextVersion"])
async def test_commands_that_concern_more_than_the_page_are_refused(method: str, tmp_path: Path) -> None:
    """Some have the browser read a file of its machine and give it to the page."""
    async with open_pages() as pages, open_fake() as (_, address):
        async with open_browser(tmp_path, {}, cdp_url=address) as host:
            await host.use(KEY, lambda page: page.navigate(pages.url("/small")), stranger=False, opens=True)
            with pytest.raises(UserError, match="not allowed"):
                await host.use(KEY, lambda page: page.ask(method, {}, "", 5.0), stranger=False)


async def test_the_address_is_that_of_now(tmp_path: Path) -> None:
    """A person is asked about the site that the page has gone to by itself."""
    async with open_pages() as pages, open_fake() as (_, address):
        async with open_browser(tmp_path, {}, cdp_url=address) as host:
            assert await host.url_of(KEY) == ""
            await host.use(KEY, lambda page: page.navigate(pages.url("/small")), stranger=False, opens=True)
            go = {"url": (other := pages.url("/other"))}
            await host._pages[KEY].page._call("Page.navigate", go)
            assert await host.url_of(KEY) == other


def test_strangers_get_a_browser_that_can_read_nothing_of_the_machine(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(os, "getuid", lambda: 1000)
    ways = list(launch.ways(os.environ))
    assert any(not way.walled and way.own_sandbox for way in ways)
    for way in ways:
        assert way.walled or not way.boundary.holds_strangers, way


async def test_a_browser_that_runs_already(tmp_path: Path) -> None:
    async with open_pages() as pages, open_fake() as (fake, address):
        async with open_browser(tmp_path, {}, cdp_url=address) as host:
            here = pages.url("/small")
            assert await walk(host, here, pages.url("/secret", INSIDE)) == expected(here)
            assert fake.checked == [here], "each request is asked about"
            assert await host.url_of(KEY) == here
            with pytest.raises(UserError, match="does not hold pages of strangers"):
                await host.use(KEY, lambda page: page.view(), stranger=True)
            await _check_idle(host, fake)


async def _check_idle(host: BrowserHost, fake: FakeChromium) -> None:
    assert await host.tend() == ""
    assert isinstance(host._clock, FakeClock)
    await host._clock.advance(121)
    assert await host.tend() == "1 closed" and "Target.disposeBrowserContext" in fake.asked
    with pytest.raises(UserError, match="No page is open"):
        await host.use(KEY, lambda page: page.view(), stranger=False)


@pytest.mark.server
async def test_chromium_says_the_same(tmp_path: Path) -> None:
    async with open_pages() as pages, _running(tmp_path, pages.port) as address:
        async with open_browser(tmp_path / "egress", {}, cdp_url=address) as host:
            here = pages.url("/small")
            assert await walk(host, here, pages.url("/secret", INSIDE)) == expected(here)
            await host.use(KEY, lambda page: page.navigate(pages.url("/reach")), stranger=False)
            await asyncio.sleep(0.5)
            assert not [each for each in pages.seen if each.startswith("/secret")]


@pytest.mark.server
async def test_nothing_begins_in_a_foreign_browser_before_its_requests_are_judged(tmp_path: Path) -> None:
    async with open_pages() as pages, _running(tmp_path, pages.port) as address:
        async with open_browser(tmp_path / "egress", {}, cdp_url=address) as host:
            notes: list[str] = []

            def use(work: Any) -> Any:
                return host.use(KEY, work, opens=True, stranger=False)

            async def has_noted(*ways: str) -> bool:
                notes.extend((await use(lambda page: page.view())).notes)
                return all(any(f"?{way}" in note for note in notes) for way in ways)

            notes.extend((await use(lambda page: page.navigate(pages.url("/ways-out")))).notes)
            await _until(lambda: use(lambda page: page.act("console")), "works")
            await use(lambda page: page.act("click", "@e1"))
            await _until(lambda: has_noted("frame", "popup"))
            theirs = f"{address}/json/new?{pages.url('/theirs')}"
            async with aiohttp.ClientSession() as session, session.put(theirs) as made:
                assert made.status == 200
            await _until(lambda: asyncio.sleep(0, pages.seen), "/theirs")
        assert not pages.asked_inside


async def test_a_foreign_browser_that_cannot_be_judged_is_not_used(tmp_path: Path) -> None:
    async with open_fake() as (fake, address), open_browser(tmp_path, {}, cdp_url=address) as host:
        fake.lacks = "Fetch.enable"
        with pytest.raises(Refused):
            await host.use(KEY, lambda page: page.view(), opens=True, stranger=False)
        assert "Runtime.runIfWaitingForDebugger" not in fake.asked
        await _until(lambda: asyncio.sleep(0, fake.asked), "Target.disposeBrowserContext")


async def test_a_foreign_browser_is_asked_again_to_wait_if_it_did_not_promise_to(tmp_path: Path) -> None:
    async with open_fake() as (fake, address), open_browser(tmp_path, {}, cdp_url=address) as host:
        fake.lacks = "Target.setAutoAttach"
        with pytest.raises(Refused):
            await host.use(KEY, lambda page: page.view(), opens=True, stranger=False)
        assert "Target.createBrowserContext" not in fake.asked
        fake.lacks = ""
        await host.use(KEY, lambda page: page.view(), opens=True, stranger=False)
        assert fake.asked.count("Target.setAutoAttach") == 3, "the browser twice, then the tab"


async def test_a_page_that_was_not_opened_to_the_end_leaves_nothing(tmp_path: Path) -> None:
    async with open_fake() as (fake, address), open_browser(tmp_path, {}, cdp_url=address) as host:
        fake.stuck = "Page.enable"
        opening = asyncio.create_task(host.use(KEY, lambda page: page.view(), opens=True, stranger=False))
        await _until(lambda: asyncio.sleep(0, fake.asked), "Page.enable")
        opening.cancel()
        await asyncio.wait((opening,))
        await _until(lambda: asyncio.sleep(0, fake.asked), "Target.disposeBrowserContext")


async def _until(ask: Callable[[], Any], wanted: object = None) -> None:
    """Until the answer is true, or has what is wanted in it."""
    async with asyncio.timeout(40):
        while not (found := await ask()) or (  # noqa: ASYNC110
            wanted is not None and wanted not in found
        ):
            await asyncio.sleep(0.05)


@asynccontextmanager
async def _running(folder: Path, port: int) -> AsyncIterator[str]:
    """Somebody's own Chromium, which finds the names of the test by itself."""
    install("chromium", "chromium")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        own = free.getsockname()[1]
    process = await asyncio.create_subprocess_exec(
        find_browser("", os.environ),
        *[
            "--headless=new",
            "--no-sandbox",
            "--disable-gpu",
            "--no-first-run",
            "--disable-background-networking",
        ],
        *["--disable-component-update", "--disable-sync", "--disable-quic"],
        f"--remote-debugging-port={own}",
        f"--user-data-dir={folder / 'profile'}",
        "--host-resolver-rules=MAP api.example.org 127.0.0.1, MAP inside.example.org 127.0.0.2, MAP "
        f"{OTHER} 127.0.0.1",
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        env={**os.environ, "HOME": str(folder)},
    )
    try:
        assert process.stderr is not None
        async with asyncio.timeout(60):
            while b"DevTools listening" not in await process.stderr.readline():
                pass
        yield f"http://127.0.0.1:{own}"
    finally:
        process.kill()
        await process.communicate()


# --- the client ---


@pytest.fixture
async def wire() -> AsyncIterator[tuple[CdpConnection, asyncio.StreamReader, asyncio.StreamWriter]]:
    ours, theirs = socket.socketpair()
    connection = CdpConnection(await PipeLink.open(ours))
    reader, writer = await asyncio.open_unix_connection(sock=theirs)
    yield connection, reader, writer
    writer.close()
    await connection.close()


async def test_answers_find_their_calls(wire: Any) -> None:
    connection, reader, writer = wire
    heard: list[str] = []
    connection.listeners["a"] = lambda method, params: heard.append(method)
    calls = [asyncio.create_task(connection.call(name)) for name in ("A.one", "A.two", "A.three")]
    numbers = [json.loads((await reader.readuntil(b"\0"))[:-1])["id"] for _ in calls]
    messages: list[dict[str, Any]] = [
        {"method": "X.y", "params": {}, "sessionId": "a"},
        {"method": "X.z", "params": {}, "sessionId": "b"},
        {"id": numbers[2], "error": {"message": "no"}},
        {"id": numbers[0], "result": {"value": 1}},
        {"id": 999, "result": {}},
    ]
    for message in messages:
        writer.write(json.dumps(message).encode() + b"\0")
    writer.write(b'{"id":%d,"result":{"text":"' % numbers[1] + b"x" * (MOST_BYTES + 1000) + b'"}}\0')
    assert await calls[0] == {"value": 1}
    with pytest.raises(Refused, match="no"):
        await calls[2]
    with pytest.raises(Refused, match="too long"):
        await calls[1]
    assert heard == ["X.y"]


async def test_a_browser_that_says_nothing_or_ends(wire: Any) -> None:
    connection, _, writer = wire
    with pytest.raises(Unreachable, match=r"did not answer A\.b"):
        await connection.call("A.b", seconds=0.05)
    waiting = asyncio.create_task(connection.call("A.c"))
    await asyncio.sleep(0)
    writer.close()
    with pytest.raises(Unreachable, match="has ended"):
        await waiting
    with pytest.raises(Unreachable, match="has ended"):
        await connection.call("A.d")


async def test_an_address_where_no_browser_is(tmp_path: Path) -> None:
    async with open_browser(tmp_path, {}, cdp_url="http://127.0.0.1:9") as host:
        with pytest.raises(UserError, match=r"browser\.cdp_url cannot be reached"):
            await host.use(KEY, lambda page: page.view(), opens=True, stranger=False)
    async with open_browser(tmp_path, {}, path="/no/such/program") as host:
        with pytest.raises(UserError, match="no browser on this machine"):
            await host.use(KEY, lambda page: page.view(), opens=True, stranger=False)


# --- lines and keys ---


def test_the_lines_of_a_tree() -> None:
    assert [line.text for line in tree_lines(NODES, full=True)][-1] == "text: words"
    assert "text: words" not in [line.text for line in tree_lines(NODES, full=False)]
    states = {"name": "checked", "value": {"value": "mixed"}}
    box = {**NODES[3], "parentId": "gone", "properties": [states], "ignored": False}
    assert [line.text for line in tree_lines([box], full=False)] == ['button "Greet" [checked=mixed]']
    assert not list(tree_lines([{**box, "ignored": True}], full=True))
    loud = [
        {"nodeId": "1", "role": {"value": "alert"}, "childIds": ["2", "lost"]},
        {"nodeId": "2", "parentId": "1", "role": {"value": "StaticText"}, "name": {"value": "Failed"}},
    ]
    assert [(line.depth, line.text) for line in tree_lines(loud, full=False)] == [
        (0, "alert"),
        (1, "text: Failed"),
    ]


def test_long_pages_are_cut_at_a_line() -> None:
    text = write_lines([f"- line {number}" for number in range(5000)], 15_000)
    assert len(text) <= 15_000 and "more lines" in text.splitlines()[-1]
    assert write_lines(["a", "b"], 15_000) == "a\nb"


def test_keys() -> None:
    down, up = key_events("enter")
    assert (down["type"], down["text"], down["windowsVirtualKeyCode"], up["type"]) == (
        "keyDown", "\r", 13, "keyUp",
    )  # fmt: skip
    assert key_events("a")[0]["text"] == "a" and key_events("+")[0]["text"] == "+"
    down = key_events("Control+A")[0]
    assert down["type"] == "rawKeyDown" and down["modifiers"] == 2 and down["commands"] == ["selectAll"]
    for wrong in ("Enterr", "Hyper+a", "", "Shift+"):
        with pytest.raises(UserError, match="There is no key"):
            key_events(wrong)
