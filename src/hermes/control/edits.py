"""Messages that people change after they sent them. As long as nobody has begun to answer, the new words take
the place of the old ones: in the inbox, where the message is taken as its last edit has it, or in the turn it
became. Later nothing changes, and the row of the edit says why. Files stay those that came with the message.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from hermes.domain.ids import TurnId
from hermes.domain.message import Inbound, What
from hermes.domain.ports import Tx
from hermes.domain.rows import InboxRow
from hermes.domain.turn import TurnState

TURN = "turn"
EDITED = "edit"
WITH_ITS_MESSAGE = "edit: taken with its message"
_MOST = 200
"""Messages of other chats can have the same ref."""


def edits_of(row: InboxRow, behind: Iterable[InboxRow]) -> tuple[InboxRow, ...]:
    """The edits of a message among the rows that wait behind it."""
    if row.inbound.what is not What.MESSAGE:
        return ()
    return tuple(one for one in behind if one.inbound.what is What.EDIT and _same(one.inbound, row.inbound))


def amended(row: InboxRow, edits: tuple[InboxRow, ...]) -> InboxRow:
    """The message as its last edit has it."""
    if not edits:
        return row
    last = edits[-1].inbound
    changed = replace(
        row.inbound, text=last.text, mentions_me=last.mentions_me, mentions_others=last.mentions_others
    )
    return replace(row, inbound=changed)


def reword(tx: Tx, row: InboxRow, *, command: bool) -> tuple[str, TurnId | None]:
    """Put the new words of a message into the turn it became; how the edit's row ends."""
    known = tx.inbox.find(row.inbound.ref or "", _MOST)
    versions = [one for one in known if one.n < row.n and _same(one.inbound, row.inbound)]
    message = next((one for one in versions if one.inbound.what is What.MESSAGE), None)
    turn = None
    if message is not None and message.turn is not None and message.outcome == TURN:
        turn = tx.turns.get(message.turn)
    if turn is None:
        return "ignored: edit of something that is no message to the agent", None
    if turn.state is not TurnState.ACCEPTED:
        return "ignored: edit, its turn has begun", turn.id
    if command:
        return "ignored: edit, a message does not become a command", turn.id
    # The newest first: what the turn has of this message now.
    current = next(one for one in versions if one is message or one.outcome in (EDITED, WITH_ITS_MESSAGE))
    text = _with(turn.input.text, current.inbound.text, row.inbound.text)
    if text is None:
        return "ignored: edit, its message was taken together with others", turn.id
    tx.turns.save(replace(turn, input=replace(turn.input, text=text)), attempt=turn.attempt)
    return EDITED, turn.id


def _same(one: Inbound, other: Inbound) -> bool:
    same_place = one.source.address == other.source.address and one.source.person == other.source.person
    return same_place and one.ref is not None and one.ref == other.ref


def _with(text: str, before: str, after: str) -> str | None:
    """A text with other words for some of it; None if one cannot tell which."""
    if not before:
        return "\n".join(part for part in (text, after) if part)
    return text.replace(before, after) if text.count(before) == 1 else None
