"""What changes after it was sent: messages that people edit or delete, and chats that get a new id.

Until the turn of a message begins, an edit replaces the words in the inbox or in the turn, and a deletion
withdraws them. Later nothing changes, and the row of the edit or the deletion says why. An edit never changes
the files of a message."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import datetime
from functools import partial

from hermes.control.core import GatewayCore
from hermes.domain.chats.address import Source
from hermes.domain.chats.channels import seen_channel
from hermes.domain.chats.message import Inbound, InboundKind, deletes
from hermes.domain.chats.rows import (
    DELETED,
    EDIT_TAKEN,
    EDITED,
    TAKEN_AS_TURN,
    WITHDRAWN,
    InboundOutcome,
    InboxRow,
    ignored,
)
from hermes.domain.chats.voice_modes import move_voice_mode
from hermes.domain.ids import EVERY_AGENT, AgentId, SessionId, TurnId
from hermes.domain.ports.store import Tx
from hermes.domain.settings.settings import Settings
from hermes.domain.turns.turn import WITHDRAWN as MESSAGE_DELETED
from hermes.domain.turns.turn import Turn, TurnState
from hermes.domain.word import field_names, replace

_NO_MESSAGE = ignored("deletion of something that is no message to the agent")
_MOST = 200
"""Messages of other chats can have the same ref."""


def edits_of(
    row: InboxRow, behind: Iterable[InboxRow], is_command: Callable[[Inbound], bool]
) -> tuple[InboxRow, ...]:
    """The edits of a message among the rows that wait behind it. An edit cannot make a command of
    a plain message: such edits stay in the queue and are ignored there."""
    if row.inbound.what is not InboundKind.MESSAGE:
        return ()
    edits = [
        edit for edit in behind if edit.inbound.what is InboundKind.EDIT and _same(edit.inbound, row.inbound)
    ]
    if not edits or is_command(row.inbound):
        return tuple(edits)
    return tuple(edit for edit in edits if not is_command(edit.inbound))


def amended(row: InboxRow, edits: tuple[InboxRow, ...]) -> InboxRow:
    """The message as its last edit has it."""
    if not edits:
        return row
    last = edits[-1].inbound
    changed = replace(
        row.inbound, text=last.text, mentions_me=last.mentions_me, mentions_others=last.mentions_others
    )
    return replace(row, inbound=changed)


def reword(tx: Tx, row: InboxRow, *, command: bool) -> tuple[InboundOutcome, TurnId | None]:
    """Put the new words of a message into the turn it became; how the edit's row ends."""
    rows = tx.inbox.find(row.inbound.ref or "", _MOST)
    versions = [other for other in rows if other.n < row.n and _same(other.inbound, row.inbound)]
    message = next((other for other in versions if other.inbound.what is InboundKind.MESSAGE), None)
    turn = None
    if message is not None and message.turn is not None and message.ended(TAKEN_AS_TURN):
        turn = tx.turns.get(message.turn)
    if turn is None:
        return ignored("edit of something that is no message to the agent"), None
    if turn.state is not TurnState.ACCEPTED:
        return ignored("edit, its turn has begun"), turn.id
    if command:
        return ignored("edit, a message does not become a command"), turn.id
    text = _with(turn.input.text, _current(versions), row.inbound.text)
    if text is None:
        return ignored("edit, its message was taken together with others"), turn.id
    tx.turns.save(replace(turn, input=replace(turn.input, text=text)), attempt=turn.attempt)
    return EDITED, turn.id


# --- deletions -------------------------------------------------------------------------------------


async def take_deletion(
    row: InboxRow, core: GatewayCore, ring: Callable[[AgentId, SessionId, bool], None]
) -> None:
    """Withdraw a message, and wake the session that waits to answer it. Who wrote it is often not told with
    its deletion, and so not whose it is: it is looked for with all agents."""
    turn = await core.store.scoped(EVERY_AGENT).write(partial(_withdraw, row=row))
    if turn is not None:
        ring(turn.agent, turn.session, False)


def _withdraw(tx: Tx, *, row: InboxRow) -> Turn | None:
    versions = tx.inbox.find(row.inbound.ref or "", _MOST)
    message = next((other for other in versions if deletes(row.inbound, other.inbound)), None)
    turn, outcome = None, _NO_MESSAGE
    if message is not None:
        tx.talk.forget(message.inbound.source.address, message.inbound.ref or "")
        turn = tx.turns.get(message.turn) if message.turn and message.ended(TAKEN_AS_TURN) else None
        outcome = DELETED if message.outcome is None or message.ended(WITHDRAWN) else outcome
        outcome = _removed(tx, turn, message, versions) if turn is not None else outcome
    tx.inbox.finish(row.n, str(outcome), None if turn is None else turn.id)
    return turn


def _removed(tx: Tx, turn: Turn, message: InboxRow, versions: Iterable[InboxRow]) -> InboundOutcome:
    """Take a message out of the turn it became, alone or together with others."""
    if turn.state is not TurnState.ACCEPTED:
        return ignored("deletion, its turn has begun")
    rows = tx.inbox.find(turn.id, _MOST)
    gone = {row.inbound.ref for row in rows if row.inbound.what is InboundKind.DELETED}
    pieces = [row for row in rows[::-1] if row.ended(TAKEN_AS_TURN) and row.inbound.ref not in gone]
    if all(piece.n == message.n for piece in pieces):
        tx.turns.save(replace(turn, stop=MESSAGE_DELETED), attempt=turn.attempt)
        return DELETED
    text = _with(
        turn.input.text, _current(row for row in versions if _same(row.inbound, message.inbound)), ""
    )
    if text is None:
        return ignored("deletion, its message was taken together with others")
    before = sum(len(piece.inbound.attachments) for piece in pieces if piece.n < message.n)
    files = turn.input.attachments
    files = files[:before] + files[before + len(message.inbound.attachments) :]
    left = replace(turn.input, text=text, attachments=files)
    tx.turns.save(replace(turn, input=left), attempt=turn.attempt)
    return DELETED


# --- which is which --------------------------------------------------------------------------------


def _current(versions: Iterable[InboxRow]) -> str:
    """What a turn has of a message now; of its rows the newest come first."""
    return next(row.inbound.text for row in versions if row.ended(TAKEN_AS_TURN, EDITED, EDIT_TAKEN))


def _same(message: Inbound, other: Inbound) -> bool:
    same_place = message.source.address == other.source.address
    same_person = message.source.person == other.source.person
    return same_place and same_person and message.ref is not None and message.ref == other.ref


def _with(text: str, before: str, after: str) -> str | None:
    """A text with other words for some of it; None if one cannot tell which."""
    if not before:
        return "\n".join(part for part in (text, after) if part)
    return text.replace(before, after) if text.count(before) == 1 else None


# --- chats with a new id -----------------------------------------------------------------------------

_LISTS = ("allowed_chats", "group_allowed_chats", "ignored_channels", "free_response_channels")


def move_chat(tx: Tx, source: Source, new: str, now: datetime) -> None:
    """A chat gets a new id (a Telegram group becomes a supergroup): its sessions, its name and its role as
    home channel follow it, in the transaction that ends the row. `source` is the chat as it was."""
    old = source.address
    for session in tx.directory.bound(old):
        for key, bound in tx.bindings.of(session):
            if bound.address == old:
                there = replace(bound, address=replace(old, chat=new))
                tx.bindings.bind(replace(key, chat=new), session, there, now)
    tx.directory.note(seen_channel(replace(source, address=replace(old, chat=new)), now))
    move_voice_mode(tx, old, replace(old, chat=new))
    for account, home in tx.directory.homes().items():
        if home == old:
            tx.directory.set_home(account, replace(home, chat=new), now)


def words_on_settings(source: Source, new: str, settings: Settings) -> str:
    """What the operator has to change, whose settings still name the old id; nothing if no list does."""
    block = settings.block(source.address)
    lists = {name: getattr(block, name) for name in field_names(block) if name in _LISTS}
    old = source.address.chat
    stale = [name for name, listed in lists.items() if old in listed and new not in listed]
    if not stale:
        return ""
    return (
        f"⚠️ This group has a new id, {new}, and the settings still say {old} in {', '.join(stale)}. "
        "Whoever runs me has to change them."
    )
