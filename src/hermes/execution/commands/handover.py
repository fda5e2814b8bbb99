"""Connections that are handed over at a door, taken without the module `socket`, which would take a runner
longer to load than all else that it needs."""

from __future__ import annotations

import _socket
import os
import sys


def open_door(descriptor: int) -> _socket.socket:
    """The end at which connections come. A command that had it could take those of others."""
    os.set_inheritable(descriptor, False)
    return _socket.socket(fileno=descriptor)


def take_connection(door: _socket.socket) -> int | None:
    """Wait for the next one; None when there will be no more."""
    for level, kind, data in door.recvmsg(1, _socket.CMSG_LEN(4))[1]:
        if (level, kind) == (_socket.SOL_SOCKET, _socket.SCM_RIGHTS):
            descriptor = int.from_bytes(data[:4], sys.byteorder)
            os.set_inheritable(descriptor, False)
            return descriptor
    return None
