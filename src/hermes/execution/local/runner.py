"""The small process that runs commands for the gateway; it imports nothing but a few modules.

It keeps one spare keeper waiting. Being handed a connection, the spare keeps the command that comes over it
and a new spare is forked, so that neither a fork nor the start of a shell stands between a command and its
result. What goes over a connection is described in `frames`."""

from __future__ import annotations

import os
import select
import signal
import socket
import struct
import sys
from typing import NoReturn

from hermes.domain.process_mark import AGENT, step_down
from hermes.execution.local.command_supervisor import CommandSupervisor
from hermes.execution.process_tree import become_reaper, children_of, hear_deaths, reap, send_signal


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
    deaths = hear_deaths()
    bell, doorbell = os.pipe()
    keepers: set[int] = set()
    spare = 0
    poll = select.poll()
    poll.register(bell, select.POLLIN)
    poll.register(deaths, select.POLLIN)
    poll.register(door, 0)
    while True:
        if spare not in keepers:
            spare = os.fork()
            if spare == 0:
                _keep(doorbell, door, shell)
            keepers.add(spare)
        ready = dict(poll.poll())
        if door.fileno() in ready:
            return
        if deaths in ready:
            keepers.difference_update(reap(deaths)[0])
            # What a killed keeper left behind comes here, and is nobody's.
            for pid in children_of(os.getpid()):
                if pid not in keepers:
                    send_signal(pid, signal.SIGKILL)
        if bell in ready:
            (taken,) = struct.unpack("i", os.read(bell, 4))
            spare = 0 if taken == spare else spare
