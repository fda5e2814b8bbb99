"""The process beside the browser, in its sandbox where there is one: it leads the browser's connections to
the gateway's egress proxy, and ends the browser with everything below it when the gateway is gone, however
that ended. It imports little. Arguments: the descriptor of the DevTools pipe, the socket of the proxy, the
browser's command line."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import subprocess
import sys
import tempfile

from hermes.domain.system.process_mark import AGENT, step_down
from hermes.execution.egress.forwarder import MOST, forward
from hermes.execution.process_tree import become_reaper, descendants, send_signal

_KILL_ROUNDS = 20
_ENVIRONMENT = ("PATH", "LANG", "LC_ALL", "TZ")
_PIPE = (3, 4)
"""Where a browser reads and writes the DevTools protocol when it is started with --remote-debugging-pipe:
https://chromium.googlesource.com/chromium/src/+/main/content/public/browser/devtools_agent_host.h"""


async def keep(egress: str, command: list[str], profile: str) -> None:
    """Returns when the browser or the gateway has ended."""
    free, over, loop = asyncio.Semaphore(MOST), asyncio.Event(), asyncio.get_running_loop()

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await forward(reader, writer, egress, free)

    server = await asyncio.start_server(connected, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    browser = subprocess.Popen(  # noqa: ASYNC220 - nobody else runs in this process
        [*command, f"--proxy-server=http://127.0.0.1:{port}", f"--user-data-dir={profile}", "about:blank"],
        env={name: os.environ[name] for name in _ENVIRONMENT if name in os.environ} | {"HOME": profile},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        pass_fds=_PIPE,
    )
    for descriptor in _PIPE:
        os.close(descriptor)

    def reap() -> None:
        try:
            while pid := os.waitpid(-1, os.WNOHANG)[0]:
                if pid == browser.pid:
                    over.set()
        except ChildProcessError:
            over.set()

    loop.add_signal_handler(signal.SIGCHLD, reap)
    loop.add_reader(0, over.set)  # nobody writes to it: it ends with the gateway
    reap()
    await over.wait()


def main() -> None:
    step_down(AGENT)
    become_reaper()
    pipe = int(sys.argv[1])
    for descriptor in _PIPE:
        if descriptor == pipe:
            os.set_inheritable(pipe, True)
        else:
            os.dup2(pipe, descriptor)
    if pipe not in _PIPE:
        os.close(pipe)
    profile = tempfile.mkdtemp(prefix="hermes-browser-")
    try:
        asyncio.run(keep(sys.argv[2], sys.argv[3:], profile))
    finally:
        for _ in range(_KILL_ROUNDS):
            below = descendants()
            if not below:
                break
            for pid in below:
                send_signal(pid, signal.SIGKILL)
                try:
                    os.waitpid(pid, 0)
                except ChildProcessError:
                    pass  # it becomes our child when its parent is gone
        shutil.rmtree(profile, ignore_errors=True)
    os._exit(0)
