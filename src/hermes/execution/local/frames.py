"""The frames between the gateway and the supervisor of a command, on a connection of their own: a length (4
bytes), a letter and a payload. They do not depend on what carries them. The supervisor closes the connection
when nothing of the command is left, and ends the command when the gateway closes it."""

from __future__ import annotations

import struct

# From the gateway. The request is JSON; a kill says how many seconds pass between the polite and the final
# signal; what is written goes to the command's standard input.
REQUEST = b"r"
KILL = b"k"
POLL = b"p"
WRITE = b"w"
CLOSE_STDIN = b"c"
# From the supervisor. The request is accepted before anything happens. A poll is answered with UNREAD and
# POLL (JSON); the end of the command is told by HEAD, TAIL, SHELL_STATE and then ENDED (JSON).
ACCEPTED = b"a"
LIVE_OUTPUT = b"o"
UNREAD = b"u"
HEAD = b"h"
TAIL = b"t"
SHELL_STATE = b"s"
ENDED = b"x"


def pack_frame(letter: bytes, payload: bytes) -> bytes:
    return struct.pack(">I", len(payload) + 1) + letter + payload
