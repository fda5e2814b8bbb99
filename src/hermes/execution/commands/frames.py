"""The frames between the gateway and the supervisor of a command, on a stream of bytes of their own: a line
with a letter and the payload's length, then the payload. They do not depend on what carries them. A shell
script can read and write them too (`read -r letter length; head -c "$length"`): a payload is bytes as they
are, or numbers with spaces between them. The supervisor closes the stream when nothing of the command is
left, and ends the command when the gateway closes it."""

from __future__ import annotations

# From the gateway. A request is FOLDER, STATE (shell code that sets variables), KEEP (the file for a long
# output) and COMMAND, then RUN: seconds (0 = no limit), and 1 if it runs in the background. KILL says how
# many seconds pass between the polite and the final signal; WRITE goes to the command's standard input. With
# MAY_ASK in a request, sudo may have a PASSWORD, once it was ASKED for; an empty one says that there is none.
# With TERMINAL, it runs on a terminal of its own, which what is written to it is typed into.
# With WATCH (texts, a line each), UNREAD and POLL come without being asked for once it wrote one of them.
# With MAY_CALL, a command in the foreground has a standard input, and descriptor 247, whose bytes are CALLED.
# An empty one says that nobody takes answers any more; CLOSE_STDIN, that none is under way.
FOLDER = b"d"
STATE = b"e"
KEEP = b"f"
COMMAND = b"c"
RUN = b"r"
KILL = b"k"
POLL = b"p"
WRITE = b"w"
CLOSE_STDIN = b"z"
MAY_ASK = b"l"
MAY_CALL = b"m"
TERMINAL = b"1"
WATCH = b"2"
PASSWORD = b"j"
# From the supervisor. RUN is ACCEPTED before anything happens. A poll is answered with UNREAD, then POLL:
# how many bytes were dropped before it. The end of the command is told by HEAD, TAIL, SHELL_STATE, SAVED (the
# file with the whole output), GONE (the folder that is not there any more), then ENDED: exit code, timed out,
# something is left, bytes cut between head and tail, bytes dropped. ASKED says how often a password was
# wanted before.
ACCEPTED = b"a"
ASKED = b"n"
CALLED = b"b"
LIVE_OUTPUT = b"o"
UNREAD = b"u"
HEAD = b"h"
TAIL = b"t"
SHELL_STATE = b"s"
SAVED = b"v"
GONE = b"g"
ENDED = b"x"
# On a stream that carries one command after another (`execution/far`): the far end says READY when it waits
# for a request, so also when nothing of the last command is left. A request may be a QUERY instead: a script
# for `sh`, behind its INPUT; its whole output comes as UNREAD, then ENDED.
READY = b"y"
QUERY = b"q"
INPUT = b"i"

Frame = tuple[bytes, bytes]
_LONGEST_HEADER = 24
_LARGEST_FRAME = 64 << 20


def pack_frame(letter: bytes, payload: bytes = b"") -> bytes:
    return b"%s %d\n%s" % (letter, len(payload), payload)


def pack_numbers(*numbers: float) -> bytes:
    return " ".join(f"{number:.15g}" for number in numbers).encode()


class FrameDecoder:
    """Bytes in, whole frames out. What is no frame is a `ValueError`: nothing behind it can be read."""

    def __init__(self) -> None:
        self._data = bytearray()

    def feed(self, data: bytes) -> list[Frame]:
        self._data += data
        frames: list[Frame] = []
        while self._data:
            end = self._data.find(b"\n", 0, _LONGEST_HEADER)
            if end < 0 and len(self._data) < _LONGEST_HEADER:
                break
            letter, _, size = bytes(self._data[: max(end, 0)]).partition(b" ")
            length = int(size)
            if len(letter) != 1 or not 0 <= length <= _LARGEST_FRAME:
                raise ValueError("that is no frame")
            begin = end + 1
            if len(self._data) < begin + length:
                break
            frames.append((letter, bytes(self._data[begin : begin + length])))
            del self._data[: begin + length]
        return frames
