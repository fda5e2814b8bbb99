"""The small process that runs commands for the gateway; it imports nothing but a few modules.

One spare supervisor waits. Being handed a connection, it runs the command that comes over it and a new spare
is forked, so that neither a fork nor the start of a shell stands between a command and its result. One byte
says that a spare has the connection; then the frames of `commands/frames.py` go over it."""

from __future__ import annotations

import os
import select
import sys
import time

from hermes.domain.system.process_mark import AGENT, step_down
from hermes.execution.commands.handover import open_door, take_connection
from hermes.execution.commands.supervisor import CommandSupervisor, FrameLink
from hermes.execution.process_tree import become_reaper, children_of, hear_deaths, reap, send_signal

_LOOK_MILLISECONDS = 20
_LONGEST_REST = 1.0
_MOST_FAILURES = 4
TYPE_CHECKING = False  # as the one of `typing`, which takes longer to load than all of this


if TYPE_CHECKING:
    import _socket
    import signal
    from collections.abc import Collection
    from typing import NoReturn
else:
    import _signal as signal


def _supervise(doorbell: int, door: _socket.socket, shell: str) -> NoReturn:
    """The life of one spare: wait for a connection, then supervise the command that comes over it."""
    supervisor = CommandSupervisor(shell)
    connection = take_connection(door)
    if connection is not None:
        door.close()
        os.write(connection, b"!")
        supervisor.take(FrameLink(connection, connection))
        supervisor.live(lambda: os.write(doorbell, os.getpid().to_bytes(4, "little")))
    os._exit(0)


def main(beside: Collection[int] = ()) -> None:
    """Arguments: the number of an open socket, the shell. The processes `beside` are children too and none of
    its business."""
    door, shell = open_door(int(sys.argv[1])), sys.argv[2]
    step_down(AGENT)
    become_reaper()
    deaths = hear_deaths()
    bell, doorbell = os.pipe()
    supervisors: set[int] = set()
    spare, failures, rest_until = 0, 0, 0.0
    poll = select.poll()
    poll.register(bell, select.POLLIN)
    poll.register(deaths, select.POLLIN)
    poll.register(door.fileno(), 0)
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
            taken = int.from_bytes(os.read(bell, 4), "little")
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
