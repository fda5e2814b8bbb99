"""How a slash command is written (a prefix, its name, and the arguments behind it), and what it answers."""

from __future__ import annotations

import re

from msgspec import Struct

from hermes.domain.ids import AgentId, SessionId
from hermes.domain.models.manner import Manner
from hermes.domain.turns.turn import Turn

_WORD = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]*")
_DASHES = str.maketrans({"\u2014": "--", "\u2013": "-"})


def read_command(text: str, prefix: str = "/") -> tuple[str, str] | None:
    """A line as (name, arguments), or None if it is plain text (a file path is plain text)."""
    if not text.startswith((prefix, "/")):
        return None
    first, _, rest = (
        text[1:].partition(" ") if "\n" not in text.split(" ", 1)[0] else text[1:].partition("\n")
    )
    name = first.partition("@")[0]
    if not _WORD.fullmatch(name):
        return None
    return name.lower().replace("_", "-"), rest.strip().translate(_DASHES)


class CallerReply(Struct, frozen=True, kw_only=True):
    """What a command answered: words, perhaps a turn to watch, another to watch `beside` it, and the sessions
    that the caller was in before and is in now. With `over` the conversation goes on elsewhere, so whoever
    called can leave; with `agent` the next words are for that one."""

    text: str
    session: SessionId
    before: SessionId
    turn: Turn | None = None
    wakes: tuple[SessionId, ...] = ()
    beside: Turn | None = None
    handoff: str = ""
    over: bool = False
    agent: AgentId | None = None
    manner: Manner | None = None
    """How the session is to behave now."""
