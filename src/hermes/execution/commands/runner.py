"""The small process that runs commands for the gateway; it imports nothing but a few modules.

One spare supervisor waits. Being handed a connection, it runs the command that comes over it and a new spare
is forked, so that neither a fork nor the start of a shell stands between a command and its result. One byte
says that a spare has the connection; then the frames of `commands/frames.py` go over it."""

from __future__ import annotations

import os
import select
import signal
import socket
import struct
import sys
import time
from collections.abc import Collection

from hermes.domain.process_mark import AGENT, step_down
from hermes.execution.commands.supervisor import CommandSupervisor, FrameLink
from hermes.execution.process_tree import become_reaper, children_of, hear_deaths, reap, send_signal

_LOOK_MILLISECONDS = 20
_LONGEST_REST = 1.0
_MOST_FAILURES = 4
TYPE_CHECKING = False  # as the one of `typing`, which takes longer to load than all of this


if TYPE_CHECKING:
    from typing import NoReturn


def _supervise(doorbell: int, door: socket.socket, shell: str) -> NoReturn:
    """The life of one spare: wait for a connection, then supervise the command that comes over it."""
    supervisor = CommandSupervisor(shell)
    _, fds, _, _ = socket.recv_fds(door, 1, 1)
    if fds:
        door.close()
        os.write(fds[0], b"!")
        supervisor.take(FrameLink(fds[0], fds[0]))
        supervisor.live(lambda: os.write(doorbell, struct.pack("i", os.getpid())))
    os._exit(0)


def main(beside: Collection[int] = ()) -> None:
    """Arguments: the number of an open socket, the shell. The processes `beside` are children too and none of
    its business."""
    door, shell = socket.socket(fileno=int(sys.argv[1])), sys.argv[2]
    door.set_inheritable(False)  # a command that had it could take the place of the next one's supervisor
    step_down(AGENT)
    become_reaper()
    deaths = hear_deaths()
    bell, doorbell = os.pipe()
    supervisors: set[int] = set()
    spare, failures, rest_until = 0, 0, 0.0
    poll = select.poll()
    poll.register(bell, select.POLLIN)
    poll.register(deaths, select.POLLIN)
    poll.register(door, 0)
    while True:
        if spare not in supervisors and time.monotonic() >= rest_until:
            spare = os.fork()
            if spare == 0:
                _supervise(doorbell, door, shell)
            supervisors.add(spare)
        ready = dict(poll.poll(None if spare in supervisors else _LOOK_MILLISECONDS))
        if door.fileno() in ready:
            return
        if bell in ready:
            (taken,) = struct.unpack("i", os.read(bell, 4))
            spare, failures = 0 if taken == spare else spare, 0
        if deaths in ready:
            dead = reap(deaths)[0]
            supervisors.difference_update(dead)
            if spare in dead:  # before anybody used it: perhaps no shell can be started
                failures += 1
                rest_until = time.monotonic() + min(0.01 * (2**failures - 2), _LONGEST_REST)
                if failures >= _MOST_FAILURES and not supervisors:
                    return
            # What a killed supervisor left behind comes here, and is nobody's.
            for pid in children_of(os.getpid()):
                if pid not in supervisors and pid not in beside:
                    send_signal(pid, signal.SIGKILL)
