"""Whether a person's own words name the chats that a call writes to. Then nobody has to be asked: it is what
they said. Words that others said, that came along as context, or that are the gateway's do not count."""

from __future__ import annotations

import re
from collections.abc import Iterator

from hermes.domain.address import SourceKind
from hermes.domain.event import UserSaid
from hermes.domain.ports.agent import Run
from hermes.domain.tool import ApprovalPrompt

_OPENING = r"(\[{<\"'«„“‘`*"
_CLOSING = r".;:!?)\]}>\"'»”’`*…"
_OURS = "["
"""Words of the gateway's, like those that tell of the end of a process, begin so."""


async def are_chats_named(run: Run, ask: ApprovalPrompt) -> bool:
    """It is about writing to chats, and each is the chat of the turn or was named by who speaks in it. What
    the model wrote does not count, only which chats it leads to."""
    chats = () if ask.spelled is None else await ask.spelled(run.turn.agent, run.turn.id)
    if not chats:
        return False
    reply = run.turn.reply
    here = "" if reply is None else str(reply.to)
    words = "\n".join(_own_words(run))
    return all(here in forms[:1] or any(_stands_alone(form, words) for form in forms) for forms in chats)


def _own_words(run: Run) -> Iterator[str]:
    """In a session that several share, only those of this turn are the person's for certain."""
    turn = run.turn
    if turn.source is not None and turn.source.kind is SourceKind.WEBHOOK:
        return
    for entry in run.transcript:
        said = entry.record
        if not isinstance(said, UserSaid) or said.author != turn.input.author or said.text.startswith(_OURS):
            continue
        if run.session.owner is not None or (entry.turn == turn.id and not said.steering):
            yield said.text


def _stands_alone(form: str, words: str) -> bool:
    """Whether it is written out, with nothing that could belong to it on either side."""
    pattern = rf"(?:^|(?<=[\s,{_OPENING}])){re.escape(form)}(?=[{_CLOSING}]*(?:[,\s]|$))"
    return re.search(pattern, words) is not None
