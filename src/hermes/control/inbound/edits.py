"""Messages that people change or delete after they sent them. As long as nobody has begun to answer, the new
words take the place of the old ones: in the inbox, where the message is taken as its last edit has it, or in
the turn it became; and what is deleted is withdrawn, from either. Later nothing changes, and the row of the
edit or the deletion says why. Files stay those that came with the message.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from functools import partial

from hermes.control.runtime import Runtime
from hermes.domain.ids import AgentId, SessionId, TurnId
from hermes.domain.message import Inbound, InboundKind, deletion_of
from hermes.domain.ports.store import Tx
from hermes.domain.rows import InboxRow
from hermes.domain.turn import WITHDRAWN, Turn, TurnState

TURN = "turn"
EDITED = "edit"
WITH_ITS_MESSAGE = "edit: taken with its message"
DELETED = "deletion"
GONE = "withdrawn: it was deleted"
_NO_MESSAGE = "ignored: deletion of something that is no message to the agent"
_MOST = 200
"""Messages of other chats can have the same ref."""


def edits_of(
    row: InboxRow, behind: Iterable[InboxRow], is_command: Callable[[Inbound], bool]
) -> tuple[InboxRow, ...]:
    """The edits of a message among the rows that wait behind it, but for those that would make a command of
    one that is none: they are left behind, and come to nothing."""
    if row.inbound.what is not InboundKind.MESSAGE:
        return ()
    edits = [
        one for one in behind if one.inbound.what is InboundKind.EDIT and _same(one.inbound, row.inbound)
    ]
    if not edits or is_command(row.inbound):
        return tuple(edits)
    return tuple(one for one in edits if not is_command(one.inbound))


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
    message = next((one for one in versions if one.inbound.what is InboundKind.MESSAGE), None)
    turn = None
    if message is not None and message.turn is not None and message.outcome == TURN:
        turn = tx.turns.get(message.turn)
    if turn is None:
        return "ignored: edit of something that is no message to the agent", None
    if turn.state is not TurnState.ACCEPTED:
        return "ignored: edit, its turn has begun", turn.id
    if command:
        return "ignored: edit, a message does not become a command", turn.id
    text = _with(turn.input.text, _current(versions), row.inbound.text)
    if text is None:
        return "ignored: edit, its message was taken together with others", turn.id
    tx.turns.save(replace(turn, input=replace(turn.input, text=text)), attempt=turn.attempt)
    return EDITED, turn.id


# --- deletions -------------------------------------------------------------------------------------


def is_deleted(tx: Tx, message: Inbound) -> bool:
    """Whether a message that is about to be taken is gone; its deletion may have come before it."""
    deletion = deletion_of(message.source.address.chat, message.ref or "")
    return any(_deletes(one.inbound, message) for one in tx.inbox.find(deletion))


async def take_deletion(
    row: InboxRow, runtimes: Mapping[AgentId, Runtime], ring: Callable[[AgentId, SessionId, bool], None]
) -> None:
    """Withdraw a message, and wake the session that waits to answer it. Who wrote it is often not told with
    its deletion, and so not whose it is: each agent is asked."""
    for place, (agent, runtime) in enumerate(runtimes.items(), start=1):
        turn = await runtime.store.write(partial(_withdraw, row=row, last=place == len(runtimes)))
        if turn is not None:
            return ring(agent, turn.session, False)


def _withdraw(tx: Tx, *, row: InboxRow, last: bool) -> Turn | None:
    """End the row if its message is this agent's, or if no other agent is left to be asked."""
    known = tx.inbox.find(row.inbound.ref or "", _MOST)
    message = next((one for one in known if _deletes(row.inbound, one.inbound)), None)
    turn, outcome = None, _NO_MESSAGE
    if message is not None:
        tx.talk.forget(message.inbound.source.address, message.inbound.ref or "")
        turn = tx.turns.get(message.turn) if message.turn and message.outcome == TURN else None
        outcome = DELETED if message.outcome in (None, GONE) else outcome
        outcome = _removed(tx, turn, message, known) if turn is not None else outcome
    if turn is not None or last:
        tx.inbox.finish(row.n, outcome, None if turn is None else turn.id)
    return turn


def _removed(tx: Tx, turn: Turn, message: InboxRow, known: Iterable[InboxRow]) -> str:
    """Take a message out of the turn it became, alone or together with others."""
    if turn.state is not TurnState.ACCEPTED:
        return "ignored: deletion, its turn has begun"
    rows = tx.inbox.find(turn.id, _MOST)
    gone = {one.inbound.ref for one in rows if one.inbound.what is InboundKind.DELETED}
    pieces = [one for one in rows[::-1] if one.outcome == TURN and one.inbound.ref not in gone]
    if all(one.n == message.n for one in pieces):
        tx.turns.save(replace(turn, stop=WITHDRAWN), attempt=turn.attempt)
        return DELETED
    text = _with(turn.input.text, _current(one for one in known if _same(one.inbound, message.inbound)), "")
    if text is None:
        return "ignored: deletion, its message was taken together with others"
    before = sum(len(one.inbound.attachments) for one in pieces if one.n < message.n)
    files = turn.input.attachments
    files = files[:before] + files[before + len(message.inbound.attachments) :]
    left = replace(turn.input, text=text, attachments=files)
    tx.turns.save(replace(turn, input=left), attempt=turn.attempt)
    return DELETED


def _deletes(one: Inbound, message: Inbound) -> bool:
    """A deletion does not always say in which thread the message was."""
    there, here = one.source.address, message.source.address
    same_chat = (there.credential, there.chat) == (here.credential, here.chat)
    return (
        same_chat
        and one.what is InboundKind.DELETED
        and message.what is InboundKind.MESSAGE
        and one.ref == message.ref
    )


# --- which is which --------------------------------------------------------------------------------


def _current(versions: Iterable[InboxRow]) -> str:
    """What a turn has of a message now; of its rows the newest come first."""
    return next(one.inbound.text for one in versions if one.outcome in (TURN, EDITED, WITH_ITS_MESSAGE))


def _same(one: Inbound, other: Inbound) -> bool:
    same_place = one.source.address == other.source.address and one.source.person == other.source.person
    return same_place and one.ref is not None and one.ref == other.ref


def _with(text: str, before: str, after: str) -> str | None:
    """A text with other words for some of it; None if one cannot tell which."""
    if not before:
        return "\n".join(part for part in (text, after) if part)
    return text.replace(before, after) if text.count(before) == 1 else None
