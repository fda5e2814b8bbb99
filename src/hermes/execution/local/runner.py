"""The small process that runs commands for the gateway; it imports nothing but a few modules.

It keeps one spare keeper waiting. Being handed a connection, the spare keeps the command that comes over it
and a new spare is forked, so that neither a fork nor the start of a shell stands between a command and its
result. What goes over a connection is described in `frames`."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import socket
import struct
import sys
from typing import NoReturn

from hermes.domain.process_mark import AGENT, step_down
from hermes.execution.local.command_supervisor import CommandSupervisor
from hermes.execution.process_tree import become_reaper, children_of, send_signal


def _keep(doorbell: int, door: socket.socket, shell: str) -> NoReturn:
    """The life of one spare: wait for a connection, tell the runner that a new spare is needed, keep."""
    keeper = CommandSupervisor(shell)
    _, fds, _, _ = socket.recv_fds(door, 1, 1)
    if fds:
        door.close()
        keeper.take(socket.socket(fileno=fds[0]))
        keeper.live(lambda: os.close(doorbell) if os.write(doorbell, struct.pack("i", os.getpid())) else None)
    os._exit(0)


def main() -> None:
    """Arguments: the number of an open socket, the shell."""
    door, shell = socket.socket(fileno=int(sys.argv[1])), sys.argv[2]
    step_down(AGENT)
    become_reaper()
    bell, doorbell = os.pipe()
    keepers: set[int] = set()

    def reap(*_: object) -> None:
        with contextlib.suppress(ChildProcessError):
            while True:
                pid, _status = os.waitpid(-1, os.WNOHANG)
                if not pid:
                    break
                if pid in keepers:
                    keepers.discard(pid)
                    os.write(doorbell, struct.pack("i", pid))
        # What a killed keeper left behind comes here, and is nobody's.
        for pid in children_of(os.getpid()):
            if pid not in keepers:
                send_signal(pid, signal.SIGKILL)

    signal.signal(signal.SIGCHLD, reap)
    poll = select.poll()
    poll.register(bell, select.POLLIN)
    poll.register(door, 0)
    spare = 0
    while True:
        if not spare:
            signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGCHLD})
            spare = os.fork()
            if spare == 0:
                signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGCHLD})
                _keep(doorbell, door, shell)
            keepers.add(spare)
            signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGCHLD})
        ready = dict(poll.poll())
        if door.fileno() in ready:
            return
        # Each keeper rings when it is handed a command and again when it has ended, in this order.
        (rang,) = struct.unpack("i", os.read(bell, 4))
        if rang == spare:
            spare = 0
