"""What happens in the gateway, for whoever listens: frozen hints that name agents and rows by their ids and
carry no texts. They are sent after the commit and are lost in a crash, so whoever may miss nothing keeps a
cursor and reads rows. What happens inside a turn is in `event.py`."""

from __future__ import annotations

from datetime import datetime

from msgspec import Struct

from hermes.domain.chats.address import Address, Source
from hermes.domain.chats.rows import OutState
from hermes.domain.ids import AgentId, JobId, QuestionId, SessionId, TurnId
from hermes.domain.turns.event import QuestionKind, Verdict
from hermes.domain.turns.session import Session, SessionKey
from hermes.domain.turns.turn import TurnState

# --- turns ---


class TurnHint(Struct, frozen=True, kw_only=True):
    """Something about a turn."""

    agent: AgentId
    session: SessionId
    turn: TurnId


class RecordsStored(TurnHint, frozen=True, kw_only=True):
    """Records of a turn are in the journal, from number `first` to number `last` of its session."""

    first: int
    last: int


class TurnBegan(TurnHint, frozen=True, kw_only=True):
    """What was said is stored, and the agent starts to work on it."""


class TurnEnded(TurnHint, frozen=True, kw_only=True):
    """A turn is `done`, `failed` or `stopped`."""

    state: TurnState


class TurnWoken(TurnHint, frozen=True, kw_only=True):
    """A session was told of something that it waited for, in a turn that no door began."""


class QuestionAsked(TurnHint, frozen=True, kw_only=True):
    """A turn waits for an answer from outside."""

    question: QuestionId
    kind: QuestionKind


class QuestionAnswered(TurnHint, frozen=True, kw_only=True):
    """A question has its verdict and the turn goes on, also if it has expired or was withdrawn."""

    question: QuestionId
    verdict: Verdict


# --- sessions ---


class SessionRemoved(Struct, frozen=True, kw_only=True):
    """A session and its records are gone."""

    agent: AgentId
    session: SessionId


class SessionHint(Struct, frozen=True, kw_only=True):
    """Something about the session of a chat or a caller."""

    agent: AgentId
    session: SessionId
    key: str
    account: str = ""
    user: str | None = None


class SessionBegan(SessionHint, frozen=True, kw_only=True):
    """A chat or a caller has a new session. `account` and `user` tell who began it, where that is known."""


class SessionEnded(SessionHint, frozen=True, kw_only=True):
    """A session is over; if it was `replaced`, somebody asked for a new one."""

    replaced: bool = False


class HandoffCompleted(Struct, frozen=True, kw_only=True):
    """A conversation of the terminal goes on in a chat."""

    agent: AgentId
    session: SessionId
    to: Address


class CommandRun(Struct, frozen=True, kw_only=True):
    """A slash command was run; it may have changed jobs, accounts or sessions."""

    agent: AgentId


# --- messages, accounts, jobs, settings ---


class DeliveryEnded(Struct, frozen=True, kw_only=True):
    """A message was `sent`, or was given up: `dead`."""

    key: str
    to: Address
    turn: TurnId | None
    state: OutState


class AccountChanged(Struct, frozen=True, kw_only=True):
    """A platform account is in another state, such as `connected` or `retrying`."""

    account: str
    state: str


class JobRunHint(Struct, frozen=True, kw_only=True):
    """Something about a job's run for one due time."""

    agent: AgentId
    job: JobId
    due: datetime


class JobRunBegan(JobRunHint, frozen=True, kw_only=True):
    """A job's run for one due time was claimed."""


class JobRunEnded(JobRunHint, frozen=True, kw_only=True):
    """A job's run is settled, with a `status` such as `ok` or `error`."""

    status: str


class SettingsAdopted(Struct, frozen=True, kw_only=True):
    """The gateway works with another generation of its settings."""

    generation: int


class EventsMissed(Struct, frozen=True, kw_only=True):
    """So many events were left out, because whoever follows them did not keep up."""

    count: int


GatewayEvent = (
    RecordsStored
    | TurnBegan
    | TurnEnded
    | TurnWoken
    | QuestionAsked
    | QuestionAnswered
    | SessionBegan
    | SessionEnded
    | SessionRemoved
    | HandoffCompleted
    | CommandRun
    | DeliveryEnded
    | AccountChanged
    | JobRunBegan
    | JobRunEnded
    | SettingsAdopted
    | EventsMissed
)


# --- the sessions of chats ---


def session_began(source: Source | None, session: Session, key: SessionKey) -> SessionBegan:
    account, user = ("", None) if source is None else (source.address.credential, source.user)
    return SessionBegan(agent=session.agent, session=session.id, key=str(key), account=account, user=user)


def session_replaced(
    source: Source, before: Session, after: Session, key: SessionKey
) -> tuple[GatewayEvent, ...]:
    """Somebody asked for a new session: the old one ends, and the new one begins."""
    return _ended(source, before, key, replaced=True), session_began(source, after, key)


def session_lapsed(source: Source, session: Session, key: SessionKey) -> tuple[GatewayEvent, ...]:
    """A session is over by itself. Nothing if that was told before: the chore that looks for such sessions
    may have ended it already."""
    return () if session.ended is not None else (_ended(source, session, key, replaced=False),)


def session_renewed(
    source: Source, before: Session, after: Session, key: SessionKey
) -> tuple[GatewayEvent, ...]:
    """A session was over by itself, and a message begins the next one."""
    return (*session_lapsed(source, before, key), session_began(source, after, key))


def _ended(source: Source, session: Session, key: SessionKey, *, replaced: bool) -> SessionEnded:
    return SessionEnded(
        agent=session.agent,
        session=session.id,
        key=str(key),
        account=source.address.credential,
        user=source.user,
        replaced=replaced,
    )
