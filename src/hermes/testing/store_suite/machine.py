"""A store beside a plain model of it: random operations on inbox, turns and outbox, restarts among them,
and after each the store must say what the model says. `machine(open_store)` makes the class to run."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from functools import partial
from typing import TypeVar

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from hermes.domain.chats.rows import OutboxRow, OutState
from hermes.domain.errors import HermesError, Lost, Refused
from hermes.domain.ids import SessionId, TurnId
from hermes.domain.ports.store import Store, Tx
from hermes.domain.turns.turn import Turn, TurnState
from hermes.domain.word import replace
from hermes.testing.store_suite.samples import NOW, OpenStore, address, inbound, out, session, turn

T = TypeVar("T")

CHATS = ("a", "b")
SESSIONS = ("s0", "s1")
deliveries = st.lists(st.integers(0, 12).map("d{}".format), max_size=4)
numbers = st.integers(0, 7)
states = st.sampled_from(list(TurnState))
sendings = st.sampled_from(list(OutState))


@dataclass
class Model:
    """What the store must hold, in plain lists and dictionaries in order of arrival."""

    inbox: dict[str, str | None] = field(default_factory=dict)
    cursor: str | None = None
    turns: dict[str, Turn] = field(default_factory=dict)
    outbox: dict[str, OutboxRow] = field(default_factory=dict)
    boots: int = 0
    unclean: bool = False

    def open_of(self, of: str) -> list[str]:
        return [one.id for one in self.turns.values() if one.session == of and one.state.open]

    def lane(self, chat: str) -> list[str]:
        return [
            row.key
            for row in self.outbox.values()
            if row.to == address(chat) and row.state.open and not row.draft
        ]

    def advance(self, one: Turn, attempt: int, records: int, state: TurnState) -> None:
        if one.state is not TurnState.RUNNING or one.attempt != attempt:
            raise Lost("stale")
        crashes = 0 if records else one.crashes
        self.turns[one.id] = replace(one, state=state, progress=one.progress + records, crashes=crashes)

    def save(self, one: Turn, attempt: int) -> None:
        known = self.turns[one.id]
        if not known.state.open or known.attempt != attempt:
            raise Lost("stale")
        self.turns[one.id] = one


def machine(open_store: Callable[[], OpenStore], *, lasting: bool = True) -> type[RuleBasedStateMachine]:
    """The state machine over stores that `open_store` makes, one empty database per run."""

    class StoreMachine(_StoreMachine):
        def __init__(self) -> None:
            super().__init__(open_store(), lasting=lasting)

    return StoreMachine


class _StoreMachine(RuleBasedStateMachine):
    def __init__(self, opening: OpenStore, *, lasting: bool) -> None:
        super().__init__()
        self._opening = opening
        self._lasting = lasting
        self._runner = asyncio.Runner()
        self._model = Model()
        self._context: AbstractAsyncContextManager[Store] | None = None
        self._open()

    def _open(self) -> None:
        self._context = self._opening()
        self._store = self._runner.run(self._context.__aenter__())

    def teardown(self) -> None:
        assert self._context is not None
        self._runner.run(self._context.__aexit__(None, None, None))
        self._runner.close()

    def _write(self, unit: Callable[[Tx], T]) -> T:
        return self._runner.run(self._store.write(unit))

    def _read(self, query: Callable[[Tx], T]) -> T:
        return self._runner.run(self._store.read(query))

    def _both(self, unit: Callable[[Tx], object], change: Callable[[], object]) -> None:
        """Do it to the store and to the model: both go through, or both refuse."""
        try:
            change()
            refused = False
        except HermesError:
            refused = True
        try:
            self._write(unit)
            assert not refused, "the store took what it must refuse"
        except HermesError as error:
            assert refused, f"the store refused what it must take: {error}"

    # --- what can happen ---

    @initialize()
    def begin(self) -> None:
        def add(tx: Tx) -> None:
            for ident in SESSIONS:
                tx.sessions.add(session(ident))

        self._write(add)

    @rule(names=deliveries, cursor=st.none() | numbers.map(str))
    def accept(self, names: list[str], cursor: str | None) -> None:
        new = [name for name in dict.fromkeys(names) if name not in self._model.inbox]
        items = [inbound(name) for name in names]
        assert self._write(lambda tx: tx.inbox.add("fake", items, cursor, NOW)) == len(new)
        self._model.inbox |= dict.fromkeys(new)
        self._model.cursor = cursor if cursor is not None else self._model.cursor

    @rule(names=deliveries)
    def accept_but_fail(self, names: list[str]) -> None:
        def fail(tx: Tx) -> None:
            tx.inbox.add("fake", [inbound(name) for name in names], "never", NOW)
            raise Refused("no")

        try:
            self._write(fail)
        except Refused:
            return

    @rule(number=numbers, of=st.sampled_from(SESSIONS))
    def take(self, number: int, of: str) -> None:
        """A row becomes a turn, in one unit."""
        rows = self._read(lambda tx: tx.inbox.pending(0, 100))
        if not rows:
            return
        row = rows[number % len(rows)]
        made = turn(f"t-{row.inbound.delivery}", of)

        def take(tx: Tx) -> None:
            tx.turns.add(made)
            tx.inbox.finish(row.n, "turn", made.id)

        self._write(take)
        self._model.turns[made.id] = made
        self._model.inbox[row.inbound.delivery] = "turn"

    @rule(number=numbers, stale=st.booleans())
    def start(self, number: int, stale: bool) -> None:
        if not self._model.turns:
            return
        known = list(self._model.turns.values())[number % len(self._model.turns)]
        attempt = known.attempt - 1 if stale else known.attempt
        started = replace(known, state=TurnState.RUNNING, attempt=known.attempt + 1, progress=0)
        self._both(
            lambda tx: tx.turns.save(started, attempt=attempt, epoch=self._model.boots),
            partial(self._model.save, started, attempt),
        )

    @rule(number=numbers, stale=st.booleans(), state=states, records=st.integers(0, 3))
    def advance(self, number: int, stale: bool, state: TurnState, records: int) -> None:
        if not self._model.turns:
            return
        known = list(self._model.turns.values())[number % len(self._model.turns)]
        attempt = known.attempt - 1 if stale else known.attempt
        self._both(
            lambda tx: tx.turns.advance(known.id, attempt=attempt, records=records, state=state),
            partial(self._model.advance, known, attempt, records, state),
        )

    @rule(key=numbers, chat=st.sampled_from(CHATS), draft=st.booleans())
    def send(self, key: int, chat: str, draft: bool) -> None:
        row = out(f"k{key}", chat, of="t-d1", draft=draft)

        def add() -> None:
            if row.key in self._model.outbox:
                raise Refused("there already")
            self._model.outbox[row.key] = row

        self._both(lambda tx: tx.outbox.add(row), add)

    @rule(number=numbers, state=sendings)
    def settle(self, number: int, state: OutState) -> None:
        if not self._model.outbox:
            return
        row = list(self._model.outbox.values())[number % len(self._model.outbox)]
        moved = replace(row, state=state, attempts=row.attempts + 1)
        self._write(lambda tx: tx.outbox.save(moved))
        self._model.outbox[row.key] = moved

    @rule(clean=st.booleans())
    def restart(self, clean: bool) -> None:
        if not self._lasting:
            return
        model = self._model
        if clean and model.boots:
            self._write(lambda tx: tx.recovery.close(model.boots, NOW))
            model.unclean = False
        assert self._context is not None
        self._runner.run(self._context.__aexit__(None, None, None))
        self._open()
        last = model.boots
        boot = self._write(lambda tx: tx.recovery.boot(NOW))
        assert boot.unclean is model.unclean
        assert boot.epoch == last + 1
        model.boots, model.unclean = boot.epoch, True
        for ident, known in model.turns.items():
            got = self._read(partial(_crashes, known.id))
            blamed = got > known.crashes
            assert not blamed or (known.state is TurnState.RUNNING and known.progress == 0 and boot.unclean)
            model.turns[ident] = replace(known, crashes=got)

    # --- what must hold ---

    @invariant()
    def same(self) -> None:
        if not self._read(lambda tx: tx.sessions.find("")):
            return
        model = self._model
        pending = self._read(lambda tx: [row.inbound.delivery for row in tx.inbox.pending(0, 100)])
        assert pending == [name for name, outcome in model.inbox.items() if outcome is None]
        assert self._read(lambda tx: tx.inbox.cursor("fake")) == model.cursor
        for of in SESSIONS:
            turns = self._read(partial(_open_turns, SessionId(of)))
            assert turns == [model.turns[ident] for ident in model.open_of(of)]
        due = self._read(lambda tx: [row.session for row in tx.recovery.due(0, 100)])
        expected = [
            one.session
            for state in (TurnState.RUNNING, TurnState.ACCEPTED)
            for one in model.turns.values()
            if one.state is state
        ]
        assert due == expected
        for chat in CHATS:
            head = self._read(partial(_head, chat))
            assert (head and head.key) == next(iter(model.lane(chat)), None)
        waiting = self._read(lambda tx: [to.chat for _, to in tx.outbox.waiting("fake", 0, 100)])
        assert sorted(waiting) == sorted(chat for chat in CHATS for _ in model.lane(chat))
        rows = self._read(lambda tx: tx.outbox.of_turn(TurnId("t-d1")))
        assert [replace(row, n=0) for row in rows] == list(model.outbox.values())


def _crashes(ident: TurnId, tx: Tx) -> int:
    found = tx.turns.get(ident)
    assert found is not None
    return found.crashes


def _open_turns(of: SessionId, tx: Tx) -> list[Turn]:
    return tx.turns.open_of(of, 100)


def _head(chat: str, tx: Tx) -> OutboxRow | None:
    return tx.outbox.head(address(chat))
