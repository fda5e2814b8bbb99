"""Conversations of another program become sessions: each message of a person begins a turn that is over."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from msgspec import Struct, field

from hermes.domain.chats.address import Address, Source, SourceKind
from hermes.domain.errors import UserError
from hermes.domain.ids import AgentId, CallId, SessionId, TurnId, new_turn_id
from hermes.domain.ports.store import Tx
from hermes.domain.tools.tool import Effect, ToolCall
from hermes.domain.turns.event import (
    Ending,
    Entry,
    Finished,
    ModelSaid,
    Record,
    ToolFinished,
    ToolStarted,
    UserSaid,
)
from hermes.domain.turns.moving import MovedMessage, MovedSession
from hermes.domain.turns.session import Session, SessionKey, owner_of
from hermes.domain.turns.turn import Cause, Speaker, Turn, TurnInput, TurnState
from hermes.domain.word import replace

NO_RESULT = "The result was not kept."


class MovedTurn(Struct):
    """A turn on its way: its records, and the calls whose results have not come yet."""

    first: MovedMessage
    records: list[tuple[MovedMessage, Record]] = field(default_factory=list)
    open: dict[str, ToolCall] = field(default_factory=dict)

    def take(self, message: MovedMessage, model: str) -> None:
        if message.by is Speaker.TOOL:
            call = self.open.pop(message.call, None)
            if call is not None:
                self._result(message, call, message.text)
            return
        self.settle(message)
        if message.by is Speaker.USER:
            self.records.append((message, UserSaid(text=message.text)))
            return
        self.open = {call.id: call for call in message.calls}
        said = ModelSaid(
            text=message.text,
            calls=tuple(self.open.values()),
            thought=message.thought,
            model=model,
            ending=Ending.CALLS if message.calls else Ending.STOP,
        )
        self.records.append((message, said))

    def settle(self, message: MovedMessage) -> None:
        """Every call has a result: services refuse a conversation in which one has none."""
        for call in self.open.values():
            self._result(message, call, NO_RESULT)
        self.open = {}

    def _result(self, message: MovedMessage, call: ToolCall, text: str) -> None:
        started = ToolStarted(call=call.id, name=call.name, effect=Effect.READ, key="")
        finished = ToolFinished(call=CallId(call.id), text=text, outside=True)
        self.records += [(message, started), (message, finished)]


def move_in(tx: Tx, moved: MovedSession, agent: AgentId) -> bool:
    """Write a session, and bind it to its chat if no other is bound there; False if it is here already."""
    ident = SessionId(moved.id)
    if tx.sessions.get(ident) is not None:
        return False
    key = _key(moved.key, agent)
    source = None if key is None else _source(key)
    session = Session(
        id=ident,
        agent=agent,
        created_at=moved.created_at,
        updated_at=moved.updated_at,
        title=moved.title or None,
        owner=None if source is None or key is None or key.shared else owner_of(source),
        place=None if source is None else str(source.address),
    )
    tx.sessions.add(session)
    entries: list[Entry] = []
    for turn in _turns(moved.messages, moved.model):
        made, first = new_turn_id(), len(entries) + 1
        tx.turns.add(_over(made, session, source, turn.first), since=first)
        entries += [
            Entry(seq=first + place, turn=made, at=said.at, record=record)
            for place, (said, record) in enumerate(turn.records)
        ]
    tx.journal.append(ident, entries)
    if key is not None and source is not None and tx.bindings.get(key) is None:
        tx.bindings.bind(key, ident, source, moved.updated_at)
    return True


def _turns(messages: Sequence[MovedMessage], model: str) -> Iterator[MovedTurn]:
    turn: MovedTurn | None = None
    for message in messages:
        if turn is None or message.by is Speaker.USER:
            if turn is not None:
                yield _ended(turn)
            turn = MovedTurn(first=message)
        turn.take(message, model)
    if turn is not None:
        yield _ended(turn)


def _ended(turn: MovedTurn) -> MovedTurn:
    last = turn.records[-1][0] if turn.records else turn.first
    turn.settle(last)
    turn.records.append((last, Finished()))
    return turn


def _over(ident: TurnId, session: Session, source: Source | None, first: MovedMessage) -> Turn:
    return Turn(
        id=ident,
        session=session.id,
        agent=session.agent,
        cause=Cause.MESSAGE,
        input=TurnInput(text=first.text if first.by is Speaker.USER else ""),
        created_at=first.at,
        source=source,
        state=TurnState.DONE,
    )


def _key(text: str, agent: AgentId) -> SessionKey | None:
    try:
        return replace(SessionKey.parse(text), agent=agent) if text else None
    except UserError:
        return None


def _source(key: SessionKey) -> Source:
    address = Address(platform=key.platform, account=key.account, chat=key.chat, thread=key.thread)
    person = key.chat if key.kind is SourceKind.PRIVATE else None
    return Source(address=address, kind=key.kind, user=key.user or person)
