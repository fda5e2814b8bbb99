"""Made-up rows for the checks of stores: each function makes one, whole, with what the caller cares about."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from datetime import UTC, datetime, timedelta

from hermes.domain.chats.address import Address, Source, SourceKind
from hermes.domain.chats.message import Body, Inbound
from hermes.domain.chats.rows import OutboxRow
from hermes.domain.ids import MAIN_AGENT, AgentId, DeliveryId, JobId, QuestionId, SessionId, TurnId
from hermes.domain.ports.store import Store, Tx
from hermes.domain.turns.event import Entry, QuestionKind, Record, UserSaid
from hermes.domain.turns.job import Job, JobRun, RunState
from hermes.domain.turns.session import Session
from hermes.domain.turns.turn import Cause, Question, Turn, TurnInput

NOW = datetime(2026, 1, 5, 12, 0, tzinfo=UTC)
OTHER_AGENT = AgentId("other")

OpenStore = Callable[[], AbstractAsyncContextManager[Store]]
"""Each call opens the same database, empty at first; leaving the context closes it."""


def after(seconds: float) -> datetime:
    return NOW + timedelta(seconds=seconds)


def address(chat: str = "42", *, thread: str | None = None, platform: str = "fake") -> Address:
    return Address(platform=platform, chat=chat, thread=thread)


def source(chat: str = "42", user: str = "ann") -> Source:
    return Source(address=address(chat), kind=SourceKind.PRIVATE, user=user)


def inbound(delivery: str, text: str = "hello", chat: str = "42") -> Inbound:
    return Inbound(
        delivery=DeliveryId(delivery), source=source(chat), at=NOW, text=text, ref=f"ref-{delivery}"
    )


def session(ident: str = "s1", agent: AgentId = MAIN_AGENT, title: str | None = None) -> Session:
    return Session(id=SessionId(ident), agent=agent, created_at=NOW, updated_at=NOW, title=title)


def turn(ident: str, of: str = "s1", agent: AgentId = MAIN_AGENT, *, ephemeral: bool = False) -> Turn:
    return Turn(
        id=TurnId(ident),
        session=SessionId(of),
        agent=agent,
        cause=Cause.MESSAGE,
        input=TurnInput(text=f"words of {ident}"),
        created_at=NOW,
        source=source(),
        ephemeral=ephemeral,
    )


def entry(seq: int, of: str = "t1", record: Record | None = None) -> Entry:
    said = record if record is not None else UserSaid(text=f"word {seq}")
    return Entry(seq=seq, turn=TurnId(of), at=after(seq), record=said)


def out(key: str, chat: str = "42", *, of: str | None = None, draft: bool = False) -> OutboxRow:
    return OutboxRow(
        key=key,
        to=address(chat),
        body=Body(text=f"body of {key}"),
        created_at=NOW,
        turn=None if of is None else TurnId(of),
        draft=draft,
    )


def question(ident: str, of: str = "t1", within: str = "s1", expires_at: datetime | None = None) -> Question:
    return Question(
        id=QuestionId(ident),
        turn=TurnId(of),
        session=SessionId(within),
        kind=QuestionKind.APPROVAL,
        text="May I?",
        expires_at=expires_at,
    )


def job(ident: str, agent: AgentId = MAIN_AGENT, next_due: datetime | None = None) -> Job:
    return Job(
        id=JobId(ident),
        agent=agent,
        schedule="every 1h",
        prompt="look",
        created_at=NOW,
        anchor=NOW,
        next_due=next_due,
    )


def job_run(of: str, due: datetime = NOW, name: str = "") -> JobRun:
    return JobRun(job=JobId(of), due=due, began_at=NOW, state=RunState.CLAIMED, name=name)


def add_talk(tx: Tx, of: str = "s1", turn_id: str = "t1", agent: AgentId = MAIN_AGENT) -> None:
    """A session with one turn, the least that most rows hang on."""
    tx.sessions.add(session(of, agent))
    tx.turns.add(turn(turn_id, of, agent))
