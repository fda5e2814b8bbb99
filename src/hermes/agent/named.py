"""Whether a person's own words name the places that a call writes to. Then nobody has to be asked: it is what
they said. Words that others said, that came along as context, or that are the gateway's do not count."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from hermes.domain.address import Kind
from hermes.domain.event import UserSaid
from hermes.domain.ports import Run

_SHORTEST_NUMBER = 5
_OURS = "["
"""Words of the gateway's, like those that tell of the end of a process, begin so."""


def are_named(run: Run, places: Sequence[str]) -> bool:
    """There are places, and each is the chat of the turn or was named by who speaks in it."""
    if not places:
        return False
    reply = run.turn.reply
    here = set() if reply is None else {str(reply.to)}
    words = "\n".join(_own_words(run)).casefold()
    return all(place in here or _is_in(place, words) for place in places)


def _own_words(run: Run) -> Iterator[str]:
    """In a session that several share, only those of this turn are the person's for certain."""
    turn = run.turn
    if turn.source is not None and turn.source.kind is Kind.WEBHOOK:
        return
    for entry in run.transcript:
        said = entry.record
        if not isinstance(said, UserSaid) or said.author != turn.input.author or said.text.startswith(_OURS):
            continue
        if run.session.owner is not None or (entry.turn == turn.id and not said.steering):
            yield said.text


def _is_in(place: str, words: str) -> bool:
    """The whole place, or its chat by name or id; a short number may be any number."""
    chat = place.partition(":")[2].strip().lstrip("#")
    forms = [place, chat] if not chat.isdigit() or len(chat) >= _SHORTEST_NUMBER else [place]
    return any(_stands_alone(form.strip().casefold(), words) for form in forms)


def _stands_alone(form: str, words: str) -> bool:
    return len(form) > 1 and re.search(rf"(?<![\w.@-]){re.escape(form)}(?![\w@-]|\.\w)", words) is not None
