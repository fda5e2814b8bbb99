"""Events: one port, many listeners, none of which can hurt whoever emits or another listener."""

from __future__ import annotations

import asyncio
import contextlib
from datetime import UTC, datetime
from pathlib import Path
from typing import get_args

import pytest

from hermes.control.events import LOOP, EventCounters, Events
from hermes.control.workers import Supervisor
from hermes.domain.chats.address import Address
from hermes.domain.chats.rows import OutState
from hermes.domain.ids import MAIN_AGENT, QuestionId, SessionId, TurnId
from hermes.domain.turns.event import (
    Answered,
    Asked,
    Entry,
    Failed,
    Finished,
    ModelSaid,
    QuestionKind,
    Record,
    Stopped,
    UserSaid,
    Verdict,
)
from hermes.domain.turns.gateway_event import (
    AccountChanged,
    DeliveryEnded,
    EventsMissed,
    GatewayEvent,
    QuestionAnswered,
    QuestionAsked,
    RecordsStored,
    SessionBegan,
    TurnBegan,
    TurnEnded,
)
from hermes.domain.turns.turn import TurnState
from hermes.testing.harness import Journey

S, T = SessionId("s1"), TurnId("turn_1")


def ended(session: str = "s1", state: TurnState = TurnState.DONE) -> TurnEnded:
    return TurnEnded(agent=MAIN_AGENT, session=SessionId(session), turn=T, state=state)


def entries(*records: Record) -> list[Entry]:
    at = datetime(2026, 1, 1, tzinfo=UTC)
    return [Entry(seq=n, turn=T, at=at, record=record) for n, record in enumerate(records, 5)]


def test_everybody_hears_their_kinds_in_order() -> None:
    events = Events()
    first: list[GatewayEvent] = []
    second: list[GatewayEvent] = []
    events.listen(first.append, TurnEnded)
    leave = events.listen(second.append, TurnEnded, AccountChanged)
    connected = AccountChanged(account="telegram", state="connected")
    events.emit_all([ended("a"), connected, ended("b")])
    leave()
    events.emit(ended("c"))
    assert first == [ended("a"), ended("b"), ended("c")]
    assert second == [ended("a"), connected, ended("b")]


def test_a_listener_may_want_some_sessions_alone() -> None:
    events = Events()
    heard: list[TurnEnded] = []
    events.listen(heard.append, TurnEnded, sessions="cron_")
    events.emit_all([ended("cron_1"), ended("x"), ended("cron_2")])
    assert [event.session for event in heard] == ["cron_1", "cron_2"]


def test_a_listener_that_raises_hurts_nobody_and_is_shown(caplog: pytest.LogCaptureFixture) -> None:
    loops = Supervisor()
    events = Events(loops)
    heard: list[TurnEnded] = []

    def broken(event: TurnEnded) -> None:
        raise ZeroDivisionError("over nothing")

    events.listen(broken, TurnEnded)
    events.listen(heard.append, TurnEnded)
    for _ in range(3):
        events.emit(ended())
    state = loops.states[LOOP]
    assert len(heard) == 3 and state.failures == 3 and not state.is_well(loops.clock.now())
    assert "ZeroDivisionError" in state.why and "broken" in caplog.text


def test_a_listener_may_leave_while_it_hears() -> None:
    events = Events()
    heard: list[TurnEnded] = []

    def once(event: TurnEnded) -> None:
        heard.append(event)
        leave()

    leave = events.listen(once, TurnEnded)
    events.listen(heard.append, TurnEnded)
    events.emit(ended())
    events.emit(ended())
    assert len(heard) == 3


async def test_a_slow_follower_misses_events_and_is_told_how_many() -> None:
    events = Events()
    async with contextlib.aclosing(events.follow(TurnEnded, most=2)) as following:
        first = asyncio.ensure_future(anext(following))
        await asyncio.sleep(0)
        for name in "abcde":
            events.emit(ended(name))
        assert await first == ended("a")
        assert [await anext(following) for _ in range(2)] == [ended("b"), EventsMissed(count=3)]
        events.emit(ended("f"))
        assert await anext(following) == ended("f")
    assert not any(events._listeners.values()), "who has left is forgotten"


def test_records_are_told_by_what_they_mean() -> None:
    events = Events()
    heard: list[GatewayEvent] = []
    for kind in get_args(GatewayEvent):
        events.listen(heard.append, kind)
    question = QuestionId("q_1")
    events.emit_records(
        MAIN_AGENT,
        S,
        entries(
            UserSaid(text="hello"),
            UserSaid(text="and more", steering=True),
            ModelSaid(text="hm"),
            Asked(question=question, kind=QuestionKind.APPROVAL, text="may I?"),
            Answered(question=question, verdict=Verdict.EXPIRED),
            Finished(),
        ),
    )
    events.emit_records(MAIN_AGENT, S, [])
    where = {"agent": MAIN_AGENT, "session": S, "turn": T}
    assert heard == [
        RecordsStored(**where, first=5, last=10),
        TurnBegan(**where),
        QuestionAsked(**where, question=question, kind=QuestionKind.APPROVAL),
        QuestionAnswered(**where, question=question, verdict=Verdict.EXPIRED),
        TurnEnded(**where, state=TurnState.DONE),
    ]


def test_the_counters_count_ends() -> None:
    events = Events()
    counters = EventCounters(events)
    for record in (Finished(), Failed(reason="x"), Stopped(reason="y"), Finished()):
        events.emit_records(MAIN_AGENT, S, entries(record))
    to = Address(platform="telegram", chat="1")
    for state in (OutState.SENT, OutState.SENT, OutState.DEAD):
        events.emit(DeliveryEnded(key="k", to=to, turn=None, state=state))
    assert counters.ended == {TurnState.DONE: 2, TurnState.FAILED: 1, TurnState.STOPPED: 1}
    assert (counters.sent, counters.undeliverable) == (2, 1)


async def test_a_conversation_is_told_after_its_commits(tmp_path: Path) -> None:
    """What is told can be read, and no event carries what was said."""
    heard: list[GatewayEvent] = []
    async with Journey(folder=tmp_path, kind="plain") as chat:
        for kind in get_args(GatewayEvent):
            chat.gateway.events.listen(heard.append, kind)
        chat.world.write("a secret word")
        await chat.until_seen("You said: a secret word")
        await chat.until_idle()
        kinds = [type(event) for event in heard if not isinstance(event, RecordsStored)]
        assert kinds == [SessionBegan, TurnBegan, TurnEnded, DeliveryEnded]
        turn_end = next(event for event in heard if isinstance(event, TurnEnded))
        turn = await chat.gateway.read(turn_end.agent, lambda tx: tx.turns.get(turn_end.turn))
        assert turn is not None and turn.state is turn_end.state is TurnState.DONE
        stored = [event for event in heard if isinstance(event, RecordsStored)]
        journal = await chat.gateway.read(MAIN_AGENT, lambda tx: tx.journal.read(turn.session))
        assert stored[-1].last == journal[-1].seq and stored[0].first == journal[0].seq
        assert "secret" not in repr(heard)


async def test_a_listener_that_raises_holds_up_no_conversation(tmp_path: Path) -> None:
    def broken(event: GatewayEvent) -> None:
        raise RuntimeError("no")

    async with Journey(folder=tmp_path, kind="plain") as chat:
        for kind in get_args(GatewayEvent):
            chat.gateway.events.listen(broken, kind)
        chat.world.write("one")
        await chat.until_seen("You said: one")
        chat.world.write("two")
        await chat.until_seen("You said: one", "You said: two")
