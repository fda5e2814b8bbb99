"""Where layers meet. Control reaches agents, stores, platforms and backends only through these.

A store hands out transactions. A unit of work is a function of a `Tx`: it runs in the writer, inside
its own savepoint, so what it reads it may decide on. `Tx` is scoped to one agent: sessions, turns,
transcripts, questions and search are that agent's alone; the queues belong to the gateway."""

from __future__ import annotations

from collections.abc import (
    AsyncIterator,
    Awaitable,
    Callable,
    Collection,
    Coroutine,
    Iterable,
    Mapping,
    Sequence,
)
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Protocol, TypeVar, runtime_checkable

from hermes.domain.address import Address, Source
from hermes.domain.capabilities import Capabilities, MenuEntry
from hermes.domain.directory import DeliveryTables
from hermes.domain.event import AgentEvent, Ending, Entry, TextDelta, ThoughtDelta, Usage
from hermes.domain.grants import Grants, StandingGrants, no_standing
from hermes.domain.handoff import Handoffs
from hermes.domain.ids import AgentId, QuestionId, SessionId, TurnId
from hermes.domain.job import JobRuns, Jobs
from hermes.domain.message import Body, Inbound, Receipt
from hermes.domain.pairing import PairingCodes, Pairings
from hermes.domain.ports.world import (
    Sink,
)
from hermes.domain.rows import (
    Boot,
    DueSession,
    InboxRow,
    MediaItem,
    OpenWork,
    OutboxRow,
    OverheardMessage,
    SearchHit,
)
from hermes.domain.session import EVERY_SESSION, Session, SessionFilter, SessionKey, Viewer
from hermes.domain.tool import Tool, ToolCall
from hermes.domain.turn import Answer, EarlierMessage, Question, Request, Turn, TurnState

T = TypeVar("T")

# --- the store -----------------------------------------------------------------------------------


class Inbox(Protocol):
    def add(self, account: str, items: Sequence[Inbound], cursor: str | None, at: datetime) -> int: ...

    def pending(self, after: int, limit: int) -> list[InboxRow]:
        """The oldest rows that nobody has taken; one that cannot be read is an `UnreadableRow`."""

    def finish(self, n: int, outcome: str, turn: TurnId | None = None) -> None: ...

    def cursor(self, account: str) -> str | None: ...

    def find(self, text: str, limit: int = 20) -> list[InboxRow]: ...


class TurnRepair(Protocol):
    def mend(self, session: SessionId, now: datetime) -> list[TurnId]:
        """Put neutral values in place of what cannot be read of a session's open turns; which these are."""


class Turns(TurnRepair, Protocol):
    def add(self, turn: Turn, *, epoch: int = 0) -> None:
        """A new turn; `epoch` is the life that runs it, for one that is running from the start."""

    def get(self, turn: TurnId) -> Turn | None: ...

    def open_of(self, session: SessionId, limit: int = 64) -> list[Turn]:
        """The oldest turns of a session that have not ended; `UnreadableTurn` as in `mend`."""

    def save(self, turn: Turn, *, attempt: int, epoch: int | None = None) -> None:
        """Write what may change, `input.guidance` may not; `Lost` if it has ended or was started again."""

    def advance(self, turn: TurnId, *, attempt: int, records: int, state: TurnState) -> None:
        """Count new records and move the state; `Lost` as in `save`."""


class Journal(Protocol):
    def append(self, session: SessionId, entries: Iterable[Entry]) -> None: ...

    def read(
        self, session: SessionId, after: int = 0, most: int = -1, *, newest: bool = False
    ) -> list[Entry]:
        """Those after a number, all of them unless `most` says how many, the oldest or the `newest`."""

    def of_turn(self, turn: TurnId) -> list[Entry]: ...

    def usage(self, session: SessionId) -> tuple[int, Usage]:
        """How many model calls a session made, and what they took together."""

    def copy(self, session: SessionId, into: SessionId, upto: int, without: Collection[TurnId]) -> None:
        """Begin a session with the records of another one up to a number, those of some turns left out. They
        belong to turns of their own there."""


class Sessions(Protocol):
    def add(self, session: Session) -> None: ...

    def get(self, session: SessionId) -> Session | None: ...

    def save(self, session: Session) -> None: ...

    def find(self, text: str, limit: int = 20, among: SessionFilter = EVERY_SESSION) -> list[Session]:
        """By id, unique start of an id, or title; everything, newest first, for an empty text."""

    def delete(self, session: SessionId) -> None: ...


class Bindings(Protocol):
    def get(self, key: SessionKey) -> SessionId | None: ...

    def bind(self, key: SessionKey, session: SessionId, source: Source, at: datetime) -> None: ...

    def of(self, session: SessionId) -> list[tuple[SessionKey, Source]]: ...

    def unused(
        self, since: datetime, limit: int, after: Session | None = None
    ) -> list[tuple[Session, SessionKey, Source]]:
        """A page of sessions that chats are bound to, not ended and not used since then, with each of these
        chats; those that were used longest ago come first. `after` is the last one of the page before."""


class Outbox(Protocol):
    def add(self, row: OutboxRow) -> None: ...

    def save(self, row: OutboxRow) -> None: ...

    def head(self, to: Address) -> OutboxRow | None:
        """The oldest row of a chat that is not settled."""

    def of_turn(self, turn: TurnId) -> list[OutboxRow]: ...

    def waiting(self, account: str, after: int, limit: int) -> list[tuple[int, Address]]:
        """Chats of an account that have something to send, oldest first."""


class Questions(Protocol):
    def add(self, question: Question) -> None: ...

    def get(self, question: QuestionId) -> Question | None: ...

    def of_turn(self, turn: TurnId) -> list[Question]: ...

    def close(self, answer: Answer) -> bool:
        """True for the answer that closed it; an answer to a closed question changes nothing."""

    def open_of(self, session: SessionId | None) -> list[Question]: ...  # None: of every session


class Requests(Protocol):
    """Requests by their id, by their owner, and the latest of a named chain."""

    def add(self, request: Request) -> None: ...

    def get(self, request: str) -> Request | None: ...

    def find(self, owner: str, *, key: str | None = None, prefix: str = "", limit: int = 1) -> list[Request]:
        """An owner's requests, newest first: all, with this key, or with ids that begin so."""

    def latest(self, owner: str, conversation: str) -> Request | None: ...

    def remove(self, request: str) -> None: ...


class Facts(Protocol):
    """What the gateway has to remember of itself, by name."""

    def get(self, name: str) -> str | None: ...

    def put(self, name: str, value: str) -> None: ...


class Search(Protocol):
    def find(
        self, query: str, limit: int = 20, viewer: Viewer | SessionFilter = EVERY_SESSION
    ) -> list[SearchHit]:
        """What was said, the best first; for a viewer only what it may see, without its own turn's words."""


class MediaIndex(Protocol):
    def add(self, item: MediaItem) -> None: ...

    def get(self, sha256: str) -> MediaItem | None: ...

    def unused(self, before: datetime, limit: int) -> list[MediaItem]:
        """Files stored before a moment that nothing names: no message, turn, record or job."""

    def remove(self, sha256: str, before: datetime) -> bool:
        """Forget a file, unless it was stored again since."""

    def kept(self, sha256: str) -> bool: ...  # by whichever agent


class Talk(Protocol):
    """What was said in shared chats and not to us, the latest of each place; and what we said there."""

    def keep(self, to: Address, said: OverheardMessage, most: int) -> None: ...

    def take(self, session: SessionId, to: Address, since: datetime | None = None) -> list[OverheardMessage]:
        """What a session has not been given yet, oldest first; now it has. One that was given nothing before
        gets what was said `since` then."""

    def forget(self, to: Address, ref: str) -> None:
        """A message is gone: nobody is told of it who was not told before."""

    def sent(self, to: Address, ref: str) -> str | None:
        """The words of a message of ours, if it is among the latest there."""


class Leases(Protocol):
    def take(self, name: str, owner: str, now: datetime, seconds: float) -> int | None:
        """The fencing epoch, or None while somebody else holds it."""

    def release(self, name: str, owner: str) -> None: ...


class Recovery(Protocol):
    """What the gateway itself asks, across agents: at start, and to find work."""

    def boot(self, now: datetime) -> Boot: ...

    def close(self, epoch: int, now: datetime) -> None: ...

    def due(self, after: int, limit: int) -> list[DueSession]: ...

    def expired(self, now: datetime, limit: int) -> list[tuple[AgentId, Question]]: ...

    def prune(self, before: datetime, now: datetime) -> int: ...


class WorkCounts(Protocol):
    def count(self) -> OpenWork: ...


class Tx(DeliveryTables, Protocol):
    """One transaction, scoped to one agent."""

    @property
    def inbox(self) -> Inbox: ...
    @property
    def turns(self) -> Turns: ...
    @property
    def journal(self) -> Journal: ...
    @property
    def sessions(self) -> Sessions: ...
    @property
    def bindings(self) -> Bindings: ...
    @property
    def outbox(self) -> Outbox: ...
    @property
    def questions(self) -> Questions: ...
    @property
    def grants(self) -> Grants: ...
    @property
    def requests(self) -> Requests: ...
    @property
    def jobs(self) -> Jobs: ...
    @property
    def job_runs(self) -> JobRuns: ...
    @property
    def facts(self) -> Facts: ...
    @property
    def search(self) -> Search: ...
    @property
    def media(self) -> MediaIndex: ...
    @property
    def talk(self) -> Talk: ...
    @property
    def leases(self) -> Leases: ...
    @property
    def pairings(self) -> Pairings: ...
    @property
    def pairing_codes(self) -> PairingCodes: ...
    @property
    def recovery(self) -> Recovery: ...
    @property
    def census(self) -> WorkCounts: ...
    @property
    def handoffs(self) -> Handoffs: ...


class Store(Protocol):
    """A handle on the database, scoped to one agent."""

    async def write(self, unit: Callable[[Tx], T], *, first: bool = False, ends: bool = False) -> T:
        """Run the unit and return after its commit. `first` is the lane of accepts and of whoever waits for
        an answer at a door: it goes ahead of other work, and fails at once with `Unreachable` when nothing
        can be stored. `ends` is for what ends, answers or takes back something: the same lane, but it is
        tried even while accepts are refused, since a plain write may still work then. Other work is tried
        until it can be."""

    async def read(self, query: Callable[[Tx], T]) -> T: ...

    def scoped(self, agent: AgentId) -> Store: ...


# --- platforms -----------------------------------------------------------------------------------

Accept = Callable[[Sequence[Inbound], str | None], Awaitable[None]]
"""Await this with what came and the platform's cursor; acknowledge when it returns, not before. With nothing
at all (`accept((), None)`) it is a sign of life: a poll came back empty, a heartbeat was answered."""


class Platform(Protocol):
    """One account on one platform. Further abilities are the small protocols below."""

    @property
    def capabilities(self) -> Capabilities: ...

    async def run(self, accept: Accept, cursor: str | None) -> None: ...

    async def send(self, to: Address, body: Body, *, key: str, reply_to: str | None) -> Receipt: ...


@runtime_checkable
class Edits(Protocol):
    async def edit(self, receipt: Receipt, body: Body) -> None: ...


@runtime_checkable
class Previews(Protocol):
    async def preview(self, to: Address, number: int, body: Body) -> None:
        """Show words that are still being written, as something that is no message and goes by itself; those
        with the same number are one that grows."""


@runtime_checkable
class Deletes(Protocol):
    async def delete(self, receipt: Receipt) -> None: ...


@runtime_checkable
class History(Protocol):
    async def find_sent(self, to: Address, key: str) -> Receipt | None: ...


@runtime_checkable
class Fetches(Protocol):
    async def fetch(self, ref: str, sink: Sink) -> None:
        """Put the file that an attachment's `ref` stands for into the sink, piece by piece, from the
        platform's own hosts alone. A `Refused` says why it is not to be had, in words that the person and
        the model are shown (“the link has expired”): no address and no token in them."""


@runtime_checkable
class Typing(Protocol):
    async def typing(self, to: Address) -> None: ...


@runtime_checkable
class Reactions(Protocol):
    async def react(self, receipt: Receipt, emoji: str, *, instead: str = "") -> None:
        """Put a reaction on a message, if one is named; `instead` is one of ours that goes. What is there
        already, or gone already, is fine."""
        ...


@runtime_checkable
class Threads(Protocol):
    async def open_thread(self, parent: Address, name: str) -> Address: ...


@runtime_checkable
class Menu(Protocol):
    async def show_menu(self, entries: Sequence[MenuEntry]) -> None:
        """Put these commands into the platform's own menu, in place of those that were there."""


# --- the agent -----------------------------------------------------------------------------------


class Scope(Protocol):
    """Where what goes on beside a run lives; closed, with everything in it, when the run ends."""

    def spawn(self, work: Coroutine[Any, Any, None], name: str, broke: Callable[[str], None]) -> None:
        """Run beside the run; `broke` is told what happened if the work dies of something unforeseen."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """What a run is given. `transcript` is the actor's append-only list: reread its tail after a yield."""

    session: Session
    turn: Turn
    transcript: Sequence[Entry]
    scope: Scope
    memory: dict[str, object] = field(default_factory=dict)
    """What the agent keeps between runs of a warm session (the encoded prompt); may be empty any time."""
    standing: Callable[[], Awaitable[StandingGrants]] = no_standing
    """What this turn may do without asking, as it is now."""


class Agent(Protocol):
    def run(self, run: Run) -> AsyncIterator[AgentEvent]: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelRequest:
    """One call of the model: what is visible of the transcript, in order."""

    model: str
    system: str
    entries: Sequence[Entry]
    tools: Sequence[Tool]
    said: str = ""
    """Words of this very reply that were already heard before the stream broke: go on from here."""
    note: str = ""
    """Words of ours for the model, after everything else and in this one request only."""
    shared: bool = False
    """Several people speak in this session, so the model is told who says what."""
    memory: dict[str, object] = field(default_factory=dict)
    """`Run.memory`: where a provider may keep the encoded prompt of a warm session."""
    history: Sequence[EarlierMessage] = ()
    """What a client says came before the transcript; it is told first."""
    images: Mapping[str, str] | None = field(default_factory=dict)
    """The attached images that could be read, as data URLs by their `sha256`; None if the model takes none at
    all, not even by their addresses."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelEnd:
    """The last thing a model call yields."""

    calls: tuple[ToolCall, ...] = ()
    ending: Ending = Ending.STOP
    usage: Usage = field(default_factory=Usage)
    model: str = ""


ModelPiece = TextDelta | ThoughtDelta | ModelEnd


class Provider(Protocol):
    def call(self, request: ModelRequest) -> AsyncIterator[ModelPiece]: ...
