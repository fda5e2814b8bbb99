"""Starting the browser: which walls stand around it, how it is kept off every network but the egress proxy.

The strongest way that works here is taken: in namespaces of its own (bubblewrap) with Chromium's own sandbox
inside; else the one of the two that works; else none. A page of a stranger is shown only if the way holds
them."""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

from msgspec import Struct

from hermes.domain.errors import HermesError, Unreachable, UserError
from hermes.domain.ports.world import NO_NETWORK, Boundary
from hermes.domain.text import one_line
from hermes.execution.browser.cdp import CdpConnection, PipeLink
from hermes.execution.sandboxes import box
from hermes.execution.sandboxes.bubblewrap import Walls, find_bwrap
from hermes.execution.sandboxes.interpreter import PLACE, moved_interpreter, own_interpreter

log = logging.getLogger("hermes.browser")
_NO_SANDBOX = "--no-sandbox"
# https://github.com/GoogleChrome/chrome-launcher/blob/main/docs/chrome-flags-for-tools.md
_FLAGS = (
    "--headless=new", "--remote-debugging-pipe", "--disable-gpu", "--no-first-run", "--disable-sync",
    "--disable-background-networking", "--disable-component-update", "--disable-extensions",
    "--disable-breakpad", "--disable-default-apps", "--disable-dev-shm-usage", "--password-store=basic",
    "--use-mock-keychain", "--mute-audio", "--metrics-recording-only", "--window-size=1280,900",
    "--js-flags=--max-old-space-size=512",
    "--disable-features=Translate,MediaRouter,OptimizationHints,InterestFeedContentSuggestions",
    # All that leaves goes through the proxy: also to this machine, nothing by UDP, no name is looked up here.
    "--proxy-bypass-list=<-loopback>", "--disable-quic", "--dns-prefetch-disable",
    "--force-webrtc-ip-handling-policy=disable_non_proxied_udp",
    "--host-resolver-rules=MAP * ~NOTFOUND , EXCLUDE 127.0.0.1",
)  # fmt: skip
_START = (
    "import sys; sys.path[:0] = sys.argv.pop(1).split(':'); "
    "from hermes.execution.browser import keeper; keeper.main()"
)
_READY_SECONDS = 20.0
_END_SECONDS = 5.0


class Way(Struct, frozen=True, kw_only=True):
    """One way to start the browser, and how strongly it holds pages in."""

    name: str
    boundary: Boundary
    walled: bool = False
    own_sandbox: bool = True


def ways(environ: Mapping[str, str]) -> Iterator[Way]:
    """The strongest first."""
    if sys.platform == "linux":
        try:
            find_bwrap(environ)
        except UserError:
            pass
        else:
            yield Way(name="bubblewrap and Chromium's sandbox", boundary=Boundary.SANDBOX, walled=True)
            yield Way(name="bubblewrap", boundary=Boundary.WEAK, walled=True, own_sandbox=False)
    if os.getuid() != 0:  # Chromium refuses to use its sandbox as root
        # It holds pages. The browser itself, which commands of the protocol are for, can read every file.
        yield Way(name="Chromium's sandbox", boundary=Boundary.WEAK)
    yield Way(name="no sandbox", boundary=Boundary.NONE, own_sandbox=False)


class RunningBrowser(Struct, kw_only=True):
    """A browser of ours ends with its keeper, and that with this process. Another's has no keeper."""

    connection: CdpConnection
    way: Way
    keeper: asyncio.subprocess.Process | None = None

    async def close(self) -> None:
        await self.connection.close()
        if self.keeper is None:
            return
        if self.keeper.stdin is not None:
            self.keeper.stdin.close()
        try:
            async with asyncio.timeout(_END_SECONDS):
                await self.keeper.wait()
        except TimeoutError:
            self.keeper.kill()
            await self.keeper.wait()


async def start_best(
    program: str, egress: Path, environ: Mapping[str, str], only: Way | None = None
) -> RunningBrowser:
    """In the strongest way that works, or in this `only` one; a `UserError` if none does."""
    trouble = ""
    for way in ways(environ) if only is None else (only,):
        try:
            return await _start(program, egress, environ, way)
        except (Unreachable, OSError) as error:
            trouble = str(error)
            log.warning("browser.not_started way=%s why=%s", way.name, trouble)
    raise UserError(trouble, hint=f"Run `{program} --headless --dump-dom about:blank` and look what it says.")


async def try_browser(program: str, environ: Mapping[str, str]) -> Way:
    """Start it for a moment."""
    with tempfile.TemporaryDirectory() as folder:
        browser = await start_best(program, Path(folder, "s"), environ)
        await browser.close()
        return browser.way


async def _start(program: str, egress: Path, environ: Mapping[str, str], way: Way) -> RunningBrowser:
    """`Unreachable` if it does not come up this way."""
    ours, theirs = socket.socketpair()
    with theirs, tempfile.TemporaryFile() as complaint:
        argv = await asyncio.to_thread(_command_line, program, egress, environ, way, theirs.fileno())
        keeper = await asyncio.create_subprocess_exec(
            *argv,
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=complaint,
            pass_fds=(theirs.fileno(),),
            env={"PATH": environ.get("PATH") or box.PATH, "LANG": environ.get("LANG", "C.UTF-8")},
            start_new_session=True,
            cwd="/",
        )
        theirs.close()
        browser = RunningBrowser(connection=CdpConnection(await PipeLink.open(ours)), keeper=keeper, way=way)
        try:
            await browser.connection.call("Browser.getVersion", seconds=_READY_SECONDS)
        except BaseException as error:
            await browser.close()
            if not isinstance(error, HermesError):
                raise
            complaint.seek(0)
            lines = complaint.read(20_000).decode("utf-8", "replace").strip().splitlines()
            why = next((line for line in lines if "FATAL" in line or "sandbox" in line), (lines or [""])[-1])
            raise Unreachable(f"The browser does not start ({one_line(why or str(error), 200)}).") from None
    return browser


def _command_line(program: str, egress: Path, environ: Mapping[str, str], way: Way, pipe: int) -> list[str]:
    """Looks at files, so it runs in a thread."""
    flags = [*_FLAGS, *(() if way.own_sandbox else (_NO_SANDBOX,))]
    if not way.walled:
        inside = own_interpreter()
        keeper = [inside.program, "-I", "-S", "-c", _START, inside.sources, str(pipe), str(egress)]
        return [*keeper, program, *flags]
    inside, bwrap = moved_interpreter(), find_bwrap(environ)
    walls = Walls(
        program=bwrap,
        abilities=frozenset(),
        interpreter=inside,
        workspace="",
        tools="",
        network=NO_NETWORK,
        limits=box.Limits(),
    )
    args = [bwrap, "--unshare-all", "--unshare-user", "--uid", "1000", "--gid", "1000", "--cap-drop", "ALL"]
    args += ["--as-pid-1", "--die-with-parent", "--new-session", *walls.system({})]
    for name in ("chromium", "chromium.d"):
        args += ["--ro-bind-try", f"/etc/{name}", f"/etc/{name}"]
    home = os.path.dirname(os.path.realpath(program))
    args += [] if home.startswith("/usr/") else ["--ro-bind", home, home]
    args += [
        *walls.python(),
        "--ro-bind",
        str(egress.parent),
        f"{PLACE}/egress",
        "--remount-ro",
        "/",
        "--chdir",
        "/",
    ]
    keeper = [inside.program, "-I", "-S", "-c", _START, inside.sources, str(pipe)]
    return [*args, "--", *keeper, f"{PLACE}/egress/{egress.name}", os.path.realpath(program), *flags]
