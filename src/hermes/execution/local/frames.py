"""The frames between the gateway and the supervisor of a command: a length, a letter, a payload."""

from __future__ import annotations

import struct

# From the gateway.
REQUEST = b"r"
KILL = b"k"
POLL = b"p"
WRITE = b"w"
CLOSE_STDIN = b"c"
# From the supervisor. A poll is answered with UNREAD and POLL.
ACCEPTED = b"a"
LIVE_OUTPUT = b"o"
UNREAD = b"u"
HEAD = b"h"
TAIL = b"t"
SHELL_STATE = b"s"
ENDED = b"x"


def pack_frame(letter: bytes, payload: bytes) -> bytes:
    return struct.pack(">I", len(payload) + 1) + letter + payload
