"""What the terminal answers when it is asked about itself: its background and its name. The answers come with
the keys, and are taken out before anything takes them for something typed. Pastes are put together here:
prompt_toolkit searches a long one again for each piece of it."""

from __future__ import annotations

import asyncio
import contextlib
import re
from collections.abc import Callable

from prompt_toolkit.input.vt100 import Vt100Input
from prompt_toolkit.key_binding.key_processor import KeyPress
from prompt_toolkit.keys import Keys

ASK = "\x1b]11;?\x1b\\\x1b[>0q\x1b[c"
"""Background, name, and what every terminal answers: with the last all answers are there."""
_BACKGROUND = re.compile(r"\x1b\]11;(?:rgba?:|#)([0-9a-fA-F/]+)(?:\x1b\\|\x07)")
_NAME = re.compile(r"\x1bP>\|([^\x1b\x07]{0,80})(?:\x1b\\|\x07)")
_LAST = re.compile(r"\x1b\[\?[0-9;]*c")
_BEGUN = re.compile(r"\x1b(?:\](?:1(?:1[^\x1b\x07]*)?)?|P[^\x1b\x07]*|\[(?:\?[0-9;]*)?)?\x1b?\Z")
_PASTE_BEGINS, _PASTE_ENDS = "\x1b[200~", "\x1b[201~"
_NO_REFLOW = ("xterm",)
_LIGHT_FROM = 0.5


class TerminalReplies:
    """What was answered: `light` is the background, `reflows` whether the terminal wraps its rows anew when
    its width changes; `complete` says that nothing more comes."""

    def __init__(self, completed: Callable[[], None] = lambda: None) -> None:
        self.light: bool | None = None
        self.reflows = False
        self.complete = True
        self._completed = completed
        self._asked = False
        self._ahead = ""
        self._done = asyncio.Event()

    def ask(self) -> str:
        """What to ask the terminal, once."""
        asked, self._asked = self._asked, True
        self.complete = self.complete and asked
        return "" if asked else ASK

    async def wait(self, seconds: float) -> None:
        """Until all is answered: what came later would be typed into the shell."""
        if not self.complete:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._done.wait(), seconds)

    def strip(self, data: str) -> str:
        """The keys in it; an answer that is cut in two waits for its rest."""
        if self.complete:
            return data
        text, self._ahead = self._ahead + data, ""
        if background := _BACKGROUND.search(text):
            self.light = is_light(background[1])
        if name := _NAME.search(text):
            self.reflows = not name[1].lower().startswith(_NO_REFLOW)
        last = _LAST.search(text)
        text = _LAST.sub("", _NAME.sub("", _BACKGROUND.sub("", text)))
        if last is not None:
            self.complete = True
            self._done.set()
            self._completed()
        elif (begun := _BEGUN.search(text)) and begun[0] != "\x1b":
            text, self._ahead = text[: begun.start()], begun[0]
        return text


def is_light(colour: str) -> bool | None:
    """Of `ffff/ffff/ffff` or `ffffff`."""
    size = len(colour) // 3
    parts = (
        colour.split("/")[:3] if "/" in colour else [colour[at * size : (at + 1) * size] for at in range(3)]
    )
    try:
        red, green, blue = (int(part, 16) / float(16 ** len(part) - 1) for part in parts)
    except (ValueError, ZeroDivisionError):
        return None
    return bool(0.299 * red + 0.587 * green + 0.114 * blue > _LIGHT_FROM)


class ReplyingInput(Vt100Input):
    """Keys without answers; a paste is one key."""

    def __init__(self, stdin: object, replies: TerminalReplies) -> None:
        super().__init__(stdin)  # type: ignore[arg-type]
        self._replies = replies
        self._pasted: list[str] | None = None
        self._cut = ""

    def read_keys(self) -> list[KeyPress]:
        text = self._cut + self._replies.strip(self.stdin_reader.read())
        self._cut = ""
        while text:
            if self._pasted is None:
                keys, begins, text = text.partition(_PASTE_BEGINS)
                self.vt100_parser.feed(keys)
                self._pasted = [] if begins else None
            else:
                text = self._paste(self._pasted, text)
        keys_read, self._buffer = self._buffer, []
        return keys_read

    def _paste(self, pasted: list[str], text: str) -> str:
        words, end, rest = text.partition(_PASTE_ENDS)
        if end:
            self._pasted = None
            whole = "".join((*pasted, words)).replace("\r\n", "\n").replace("\r", "\n")
            self._buffer.append(KeyPress(Keys.BracketedPaste, whole))
            return rest
        kept = text.rfind("\x1b", max(0, len(text) - len(_PASTE_ENDS) + 1))
        self._cut = "" if kept < 0 else text[kept:]
        pasted.append(text if kept < 0 else text[:kept])
        return ""
