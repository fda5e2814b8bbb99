"""Rows of the durable queues: what was accepted, and what is to be sent."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from enum import StrEnum

from msgspec import Struct

from hermes.domain.chats.address import Address
from hermes.domain.chats.message import Attachment, Body, Inbound, Receipt, media_kind
from hermes.domain.errors import Refused
from hermes.domain.ids import AgentId, SessionId, TurnId
from hermes.domain.turns.event import Cleared, Entry, Summarised


class OutcomeKind(StrEnum):
    TURN = "turn"
    COMMAND = "command"
    ANSWER = "answer"
    BUTTON = "button"
    EDIT = "edit"
    DELETION = "deletion"
    WITHDRAWN = "withdrawn"
    MOVED = "moved"
    UNDELIVERED = "undelivered"
    PAIRING = "pairing"
    PAIRED = "paired"
    NEEDS_PAIRING = "needs pairing"
    NOT_FOR_US = "not for us"
    DENIED = "denied"
    IGNORED = "ignored"
    REFUSED = "refused"
    FAILED = "failed"


class InboundOutcome(Struct, frozen=True, kw_only=True):
    """How a row of the inbox ends. Stored and shown as `kind: detail`."""

    kind: OutcomeKind
    detail: str = ""

    def __str__(self) -> str:
        return f"{self.kind.value}: {self.detail}" if self.detail else self.kind.value


TAKEN_AS_TURN = InboundOutcome(kind=OutcomeKind.TURN)
EDITED = InboundOutcome(kind=OutcomeKind.EDIT)
EDIT_TAKEN = InboundOutcome(kind=OutcomeKind.EDIT, detail="taken with its message")
DELETED = InboundOutcome(kind=OutcomeKind.DELETION)
WITHDRAWN = InboundOutcome(kind=OutcomeKind.WITHDRAWN, detail="it was deleted")


def ignored(why: str) -> InboundOutcome:
    return InboundOutcome(kind=OutcomeKind.IGNORED, detail=why)


class SessionStanding(Struct, frozen=True, kw_only=True):
    """How a session stands: the number of its last record, whether turns are unfinished in it, and whether
    one of its questions is open."""

    last: int = 0
    busy: bool = False
    asks: bool = False


class InboxRow(Struct, frozen=True, kw_only=True):
    """An accepted happening. `n` is the order of arrival; `outcome` says what became of it
    (an `InboundOutcome` as text)."""

    n: int
    account: str
    inbound: Inbound
    accepted_at: datetime
    outcome: str | None = None
    turn: TurnId | None = None

    def ended(self, *outcomes: InboundOutcome) -> bool:
        return any(self.outcome == str(outcome) for outcome in outcomes)


class UnreadableRow(Refused):
    """A row of the inbox that cannot be read; `n` says which."""

    def __init__(self, message: str, *, n: int) -> None:
        super().__init__(message)
        self.n = n


class UnreadableTurn(Refused):
    def __init__(self, message: str, *, agent: AgentId, session: SessionId) -> None:
        super().__init__(message)
        self.agent = agent
        self.session = session


class OutState(StrEnum):
    """due → attempting → sent · dead; `unknown` is an attempt whose end nobody saw. An `unspoken` one is to
    be spoken first: then it is `gone`, and a row with the voice message is due.

    A draft goes attempting → shown, and → gone when it was removed or is an orphan."""

    DUE = "due"
    ATTEMPTING = "attempting"
    UNKNOWN = "unknown"
    SENT = "sent"
    DEAD = "dead"
    SHOWN = "shown"
    GONE = "gone"
    UNSPOKEN = "unspoken"

    @property
    def open(self) -> bool:
        return self in (OutState.DUE, OutState.ATTEMPTING, OutState.UNKNOWN)


class OutboxRow(Struct, frozen=True, kw_only=True):
    """One message on its way. Finals and drafts are rows of the same table; a final with the `part` of
    a shown draft edits it. `key` stays the same over retries and names the row to the platform. `transfers`
    counts how often its files broke on their way or nobody saw the end of it."""

    key: str
    to: Address
    body: Body
    created_at: datetime
    n: int = 0
    turn: TurnId | None = None
    part: int = 0
    draft: bool = False
    reply_to: str | None = None
    state: OutState = OutState.DUE
    attempts: int = 0
    transfers: int = 0
    next_at: datetime | None = None
    receipt: Receipt | None = None
    error: str = ""


class Boot(Struct, frozen=True, kw_only=True):
    """One life of the process. `unclean` says that the life before it was cut off."""

    epoch: int
    unclean: bool


class DueSession(Struct, frozen=True, kw_only=True):
    """A session with work to do, and the place from where the next page is read."""

    n: int
    session: SessionId
    agent: AgentId


class JournalRow(Struct, frozen=True, kw_only=True):
    """A record of any agent's session."""

    agent: AgentId
    session: SessionId
    entry: Entry


class PendingCompression(Struct, frozen=True, kw_only=True):
    """A session whose conversation is to be compressed in the background, not before a time. Once that was
    prepared, `made` waits to be added to the session; it counts for the records up to `base`."""

    n: int
    agent: AgentId
    session: SessionId
    not_before: datetime
    tries: int = 0
    base: int = 0
    made: Summarised | Cleared | None = None


class AwaitedProcess(Struct, frozen=True, kw_only=True):
    """A background process that a session waits to hear of, what it wrote that is watched for and was not
    told yet, and whether its end is told too (`notify`). With `outside`, what it writes comes from there."""

    id: str
    agent: AgentId
    session: SessionId
    turn: TurnId
    command: str
    lines: tuple[str, ...] = ()
    notify: bool = False
    outside: bool = False


class PendingFlush(Struct, frozen=True, kw_only=True):
    """A session from which lasting things are to be noted: of what was said after the record `upto`."""

    n: int
    agent: AgentId
    session: SessionId
    upto: int = 0


class SearchHit(Struct, frozen=True, kw_only=True):
    """Something that was said, found again."""

    session: SessionId
    seq: int
    at: datetime
    title: str | None
    who: str
    excerpt: str


class MediaItem(Struct, frozen=True, kw_only=True):
    """A fetched file, named by its content."""

    sha256: str
    path: str
    size: int
    mime: str
    stored_at: datetime

    def attached(self, name: str | None = None) -> Attachment:
        kind, ref = media_kind(self.mime), f"sha256:{self.sha256}"
        return Attachment(kind=kind, ref=ref, name=name, mime=self.mime, size=self.size, sha256=self.sha256)


class OverheardMessage(Struct, frozen=True, kw_only=True):
    """Something that was said in a shared chat, and not to us."""

    author: str
    text: str
    at: datetime
    ref: str | None = None


class OpenWork(Struct, frozen=True, kw_only=True):
    """How much is not done yet: turns and messages on their way by state, happenings nobody has looked at,
    questions without an answer."""

    turns: Mapping[str, int]
    outbox: Mapping[str, int]
    inbox: int
    questions: int


def outbox_rows(
    bodies: Iterable[Body],
    *,
    key: str,
    to: Address,
    now: datetime,
    reply_to: str | None = None,
    turn: TurnId | None = None,
    first: int = 0,
) -> tuple[OutboxRow, ...]:
    """One row per body, in order, with numbered keys. Those of a turn are its parts from `first` on."""
    return tuple(
        OutboxRow(
            key=f"{key}:{number}",
            to=to,
            body=body,
            created_at=now,
            turn=turn,
            part=0 if turn is None else number,
            reply_to=reply_to if number == first else None,
        )
        for number, body in enumerate(bodies, first)
    )
