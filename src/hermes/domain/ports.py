"""Where layers meet. Control reaches agents, stores, platforms and backends only through these.

A store hands out transactions. A unit of work is a function of a `Tx`: it runs in the writer, inside
its own savepoint, so what it reads it may decide on. `Tx` is scoped to one agent: sessions, turns,
transcripts, questions and search are that agent's alone; the queues belong to the gateway."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Protocol, TypeVar, runtime_checkable

from hermes.domain.address import Address, Source
from hermes.domain.capabilities import Capabilities
from hermes.domain.clock import Clock as Clock
from hermes.domain.directory import DeliveryTables
from hermes.domain.event import AgentEvent, Ending, Entry, TextDelta, ThoughtDelta, Usage
from hermes.domain.ids import AgentId, JobId, QuestionId, SessionId, TurnId
from hermes.domain.message import Body, Inbound, Receipt
from hermes.domain.rows import Boot, DueSession, Hit, InboxRow, MediaItem, OpenWork, OutboxRow, Slot
from hermes.domain.session import EVERY_SESSION, Among, Session, SessionKey, Viewer
from hermes.domain.tool import Tool, ToolCall
from hermes.domain.turn import Answer, Earlier, Job, Question, Request, Turn, TurnState

T = TypeVar("T")

# --- the store -----------------------------------------------------------------------------------


class Inbox(Protocol):
    def add(self, account: str, items: Sequence[Inbound], cursor: str | None, at: datetime) -> int: ...

    def pending(self, after: int, limit: int) -> list[InboxRow]: ...

    def finish(self, n: int, outcome: str, turn: TurnId | None = None) -> None: ...

    def cursor(self, account: str) -> str | None: ...

    def find(self, text: str) -> list[InboxRow]: ...


class Turns(Protocol):
    def add(self, turn: Turn) -> None: ...

    def get(self, turn: TurnId) -> Turn | None: ...

    def open_of(self, session: SessionId, limit: int = 64) -> list[Turn]: ...

    def save(self, turn: Turn, *, attempt: int, epoch: int | None = None) -> None:
        """Write what may change (`input.guidance` may not); `Lost` if the turn has ended or was started again
        since."""

    def advance(self, turn: TurnId, *, attempt: int, records: int, state: TurnState) -> None:
        """Count new records and move the state; `Lost` as in `save`."""


class Journal(Protocol):
    def append(self, session: SessionId, entries: Iterable[Entry]) -> None: ...

    def read(self, session: SessionId, after: int = 0) -> list[Entry]: ...

    def of_turn(self, turn: TurnId) -> list[Entry]: ...


class Sessions(Protocol):
    def add(self, session: Session) -> None: ...

    def get(self, session: SessionId) -> Session | None: ...

    def save(self, session: Session) -> None: ...

    def find(self, text: str, limit: int = 20, among: Among = EVERY_SESSION) -> list[Session]:
        """By id, unique start of an id, or title; everything, newest first, for an empty text."""

    def delete(self, session: SessionId) -> None: ...


class Bindings(Protocol):
    def get(self, key: SessionKey) -> SessionId | None: ...

    def bind(self, key: SessionKey, session: SessionId, source: Source, at: datetime) -> None: ...

    def of(self, session: SessionId) -> list[tuple[SessionKey, Source]]: ...


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


class Jobs(Protocol):
    def save(self, job: Job) -> None: ...

    def get(self, job: JobId) -> Job | None: ...

    def list(self) -> list[Job]: ...

    def claim(self, slot: Slot) -> bool: ...

    def remove(self, job: JobId) -> None: ...


class Search(Protocol):
    def find(self, query: str, limit: int = 20, viewer: Viewer | Among = EVERY_SESSION) -> list[Hit]:
        """What was said, the best first; for a viewer only what it may see, without its own turn's words."""


class MediaIndex(Protocol):
    def add(self, item: MediaItem) -> None: ...

    def get(self, sha256: str) -> MediaItem | None: ...


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


class Census(Protocol):
    """How much is open, across agents."""

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
    def requests(self) -> Requests: ...
    @property
    def jobs(self) -> Jobs: ...
    @property
    def search(self) -> Search: ...
    @property
    def media(self) -> MediaIndex: ...
    @property
    def leases(self) -> Leases: ...
    @property
    def recovery(self) -> Recovery: ...
    @property
    def census(self) -> Census: ...


class Store(Protocol):
    """A handle on the database, scoped to one agent."""

    async def write(self, unit: Callable[[Tx], T], *, first: bool = False) -> T:
        """Run the unit and return after its commit. `first` is the lane of accepts: it goes ahead of
        other work, and fails at once with `Unreachable` when nothing can be stored."""
        ...

    async def read(self, query: Callable[[Tx], T]) -> T: ...

    def scoped(self, agent: AgentId) -> Store: ...


# --- platforms -----------------------------------------------------------------------------------

Accept = Callable[[Sequence[Inbound], str | None], Awaitable[None]]
"""Await this with what came and the platform's cursor; acknowledge when it returns, not before."""


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
class Deletes(Protocol):
    async def delete(self, receipt: Receipt) -> None: ...


@runtime_checkable
class History(Protocol):
    async def find_sent(self, to: Address, key: str) -> Receipt | None: ...


@runtime_checkable
class Typing(Protocol):
    async def typing(self, to: Address) -> None: ...


@runtime_checkable
class Reactions(Protocol):
    async def react(self, receipt: Receipt, emoji: str) -> None: ...


@runtime_checkable
class Threads(Protocol):
    async def open_thread(self, parent: Address, name: str) -> Address: ...


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
    history: Sequence[Earlier] = ()
    """What a client says came before the transcript; it is told first."""
    images: Mapping[str, str] = field(default_factory=dict)
    """The attached images that could be read, as data URLs by their `sha256`."""


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


# --- the world the agent acts on -------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """One command line for a shell. `cd` and `export` last for its session; `cwd` counts for it alone."""

    text: str
    session: str = ""
    cwd: str | None = None
    env: Mapping[str, str] = field(default_factory=dict)
    timeout: float = 180.0


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandResult:
    """How a command ended. A long output is cut in its middle and kept whole in the file `saved`; what the
    command left running has a process id of its own in `left`."""

    output: str
    code: int
    cut: bool = False
    saved: str = ""
    timed_out: bool = False
    left: str = ""
    cwd: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessView:
    """A background process as it is now; `output` is what came since it was last looked at."""

    id: str
    command: str
    cwd: str
    seconds: float
    running: bool
    code: int | None = None
    output: str = ""
    dropped: int = 0
    saved: str = ""


class Processes(Protocol):
    """What runs in the background for a session. An id that is not the session's is a `UserError`."""

    async def list(self, session: str) -> list[ProcessView]: ...

    async def poll(self, session: str, process: str) -> ProcessView: ...

    async def wait(self, session: str, process: str, seconds: float) -> ProcessView:
        """As `poll`, after its end or after so many seconds."""
        ...

    async def kill(self, session: str, process: str) -> ProcessView: ...

    async def write(self, session: str, process: str, data: bytes, *, close: bool = False) -> None:
        """To its standard input; `close` ends the input after that."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class FileView:
    """A file or folder; `path` is absolute and leads through no symbolic link."""

    path: str
    size: int
    folder: bool
    mode: int
    changed: float


@dataclass(frozen=True, slots=True, kw_only=True)
class FileSearch:
    """`pattern` is a regular expression for contents, and a glob for names (`names`)."""

    pattern: str
    under: str = "."
    session: str = ""
    names: bool = False
    glob: str = ""
    limit: int = 50


@dataclass(frozen=True, slots=True, kw_only=True)
class Match:
    """A place that matches; `line` is 0 when the name did."""

    path: str
    line: int = 0
    text: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """Matches as far as they were looked for; `more` says that there are others."""

    matches: tuple[Match, ...]
    more: bool = False
    files: int = 0


class Files(Protocol):
    """Files as the commands of the same backend see them; relative paths start where the session stands.

    What cannot be done is a `UserError` that says why."""

    async def read(self, session: str, path: str, *, start: int = 0, limit: int = 1 << 20) -> bytes: ...

    async def write(self, session: str, path: str, data: bytes) -> None:
        """Whole and at once: a reader sees the old file or the new one. Keeps the mode, makes folders."""
        ...

    async def stat(self, session: str, path: str) -> FileView | None: ...

    async def list(self, session: str, path: str) -> list[FileView]: ...

    async def search(self, search: FileSearch) -> Found: ...


class Backend(Protocol):
    """Where commands run and files live; the two always see the same world."""

    @property
    def files(self) -> Files: ...

    @property
    def processes(self) -> Processes: ...

    def cwd(self, session: str) -> str:
        """Where the session stands."""
        ...

    async def run(self, command: Command, output: Callable[[str], None]) -> CommandResult: ...

    async def start(self, command: Command, ended: Callable[[ProcessView], None]) -> ProcessView:
        """Run in the background until it ends by itself, its timeout (0 = none) or `kill`."""
        ...

    async def close(self) -> None:
        """End every process; nothing is left afterwards."""
        ...


class Media(Protocol):
    """Files by content hash, in the agent's home."""

    async def put(self, data: bytes, mime: str) -> MediaItem: ...

    async def open(self, sha256: str) -> bytes: ...


class Memory(Protocol):
    """What the agent knows beyond a session."""

    def read(self, name: str) -> str: ...

    def write(self, name: str, text: str) -> None: ...


class Egress(Protocol):
    """The one way to an address that came from a person, a model or outside content."""

    async def fetch(self, url: str, *, limit: int) -> tuple[bytes, str]: ...
