"""The first process of ours inside a sandbox: it gives up what is left to give up, then becomes the runner of
commands, with a second process that serves files. It imports nothing but a few modules.

The order matters: what commands must not be able to do is forbidden before anything of theirs begins, and the
forwarder to the gateway's egress proxy is started before sockets of its kind are forbidden."""

from __future__ import annotations

import marshal
import os
import resource
import sys
import time

from hermes.execution.commands import runner
from hermes.execution.commands.handover import open_door
from hermes.execution.process_tree import hide_memory
from hermes.execution.sandboxes import seccomp

_OUTPUT_DAYS = 7
_NO_DESCRIPTOR = 1 << 20
TYPE_CHECKING = False
if TYPE_CHECKING:
    import _socket


def main() -> None:
    """Arguments: what to give up, by `marshal`; then those of the runner, and the number of the socket for
    files. If there is a cgroup, the number of a socket at which to ask to be taken into it."""
    plan = marshal.loads(bytes.fromhex(sys.argv.pop(1)))
    cage = int(sys.argv.pop()) if len(sys.argv) > 4 else None
    files = open_door(int(sys.argv.pop()))
    _close_all_but(int(sys.argv[1]), files.fileno(), *(() if cage is None else (cage,)))
    if cage is not None:
        os.write(cage, b"?")
        if not os.read(cage, 1):
            sys.exit("the gateway has let go of the sandbox")
        os.close(cage)
    for name, most in plan["limits"].items():
        limit = getattr(resource, name)
        hard = resource.getrlimit(limit)[1]
        most = most if hard == resource.RLIM_INFINITY else min(most, hard)
        resource.setrlimit(limit, (most, most))
    # Nothing of the same user may look into these processes or steer them.
    hide_memory()
    seccomp.give_up_rights()
    beside = [_start_forwarder(plan["forward"], files)] if plan["forward"] else []
    if plan["landlock"]:
        from hermes.execution.sandboxes.landlock_rules import confine

        confine(**plan["landlock"])
    seccomp.install_filter(seccomp.seccomp_filter(tuple(plan["families"]), shared=bool(plan["landlock"])))
    if plan["only_try"]:
        shell = os.posix_spawn(sys.argv[2], ["bash", "--norc", "--noprofile", "-c", "exit 0"], {})
        if os.waitpid(shell, 0)[1] == 0:
            os.write(files.fileno(), b"!")
        return
    beside.append(os.fork())
    if beside[-1] == 0:
        from hermes.execution.commands.file_server import serve_files  # while the other goes on

        os.close(int(sys.argv[1]))
        _tidy(plan["output"])
        serve_files(files)
        os._exit(0)
    files.close()
    runner.main(beside)


def _close_all_but(*doors: int) -> None:
    """What the sandbox was made with: an open folder of the machine is a way out."""
    begin = 3
    for door in (*sorted(doors), _NO_DESCRIPTOR):
        os.closerange(begin, door)
        begin = door + 1


def _start_forwarder(arguments: list[str], files: _socket.socket) -> int:
    """`arguments` are its port and the path of the proxy's socket. It listens when this returns; if it
    cannot, whoever wants a host finds nobody there."""
    ready, told = os.pipe()
    if pid := os.fork():
        os.close(told)
        os.read(ready, 1)
        os.close(ready)
        return pid
    for door in (ready, files.fileno(), int(sys.argv[1])):
        os.close(door)
    os.dup2(told, 1)
    sys.argv[1:] = arguments
    import runpy

    runpy.run_module("hermes.execution.egress.forwarder", run_name="__main__")
    os._exit(1)


def _tidy(folder: str) -> None:
    """Remove saved outputs nobody will ask for any more. Here inside, where no link leads out."""
    limit = time.time() - _OUTPUT_DAYS * 86_400
    try:
        saved = [entry for entry in os.scandir(folder) if entry.name.startswith("proc_")]
        for entry in saved:
            if entry.stat(follow_symlinks=False).st_mtime < limit:
                os.unlink(entry.path)
    except OSError:
        return
