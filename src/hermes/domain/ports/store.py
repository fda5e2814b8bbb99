"""The store as control sees it. It hands out transactions: a unit of work is a function of a `Tx` that runs
in the writer, inside its own savepoint, so it may decide on what it reads. `Tx` is scoped to one agent:
sessions, turns, transcripts, questions and search are its alone; the queues belong to the gateway. What the
gateway asks over all agents is one query through a handle that is scoped to `EVERY_AGENT`."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from datetime import date, datetime
from typing import Protocol, TypeVar

from msgspec import Struct

from hermes.domain.chats.address import Address, Source
from hermes.domain.chats.channels import Channel
from hermes.domain.chats.handoff import Handoff
from hermes.domain.chats.message import Inbound
from hermes.domain.chats.pairing import Account, PairedUser, PairingCode, PairingCounter
from hermes.domain.chats.rows import (
    AwaitedProcess,
    Boot,
    DueSession,
    InboxRow,
    JournalRow,
    MediaItem,
    OpenWork,
    OutboxRow,
    OutState,
    OverheardMessage,
    PendingCompression,
    PendingFlush,
    SearchHit,
    SessionStanding,
)
from hermes.domain.ids import AgentId, JobId, QuestionId, SessionId, TurnId
from hermes.domain.knowledge.memory import MemoryEntry, MemoryShelf
from hermes.domain.models.spending import BudgetStanding, Spent
from hermes.domain.models.usage import AuxiliaryCall, UsageGroup
from hermes.domain.tools.checkpoint import Checkpoint
from hermes.domain.tools.tool import Grant
from hermes.domain.turns.event import Entry
from hermes.domain.turns.job import DueJobs, Job, JobRun, Slot
from hermes.domain.turns.session import EVERY_SESSION, Session, SessionFilter, SessionKey, Viewer
from hermes.domain.turns.turn import Answer, Question, Request, Turn, TurnState

T = TypeVar("T")


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


class OpenTurns(Protocol):
    """What is unfinished in a session, by looks that cost what is open and not what ever was."""

    def any_open(self, session: SessionId) -> bool: ...

    def standing(self, session: SessionId) -> SessionStanding: ...


class Turns(TurnRepair, OpenTurns, Protocol):
    def add(self, turn: Turn, *, epoch: int = 0, since: int | None = None) -> None:
        """A new turn. For one that is running from the start, `epoch` is the life that runs it and `since`
        the number of its first record."""

    def get(self, turn: TurnId) -> Turn | None: ...

    def open_of(self, session: SessionId, limit: int = 64) -> list[Turn]:
        """The oldest turns of a session that have not ended; `UnreadableTurn` as in `mend`."""

    def save(self, turn: Turn, *, attempt: int, epoch: int | None = None, since: int | None = None) -> None:
        """Write what may change, `input.guidance` may not; `Lost` if it has ended or was started again.
        Who writes its first record with it says so by `since`, so that its records are found at once."""

    def advance(self, turn: TurnId, *, attempt: int, records: int, state: TurnState) -> None:
        """Count new records and move the state; `Lost` as in `save`."""


class JournalSums(Protocol):
    """What is asked of a session's records without reading them all."""

    def marks(self, session: SessionId) -> list[Entry]:
        """Its summaries and undoings alone, in order: they say what is visible of all others."""

    def span(self, turn: TurnId) -> tuple[int, int]:
        """The numbers of a turn's first and last record; zeros if it has none."""


class Journal(JournalSums, Protocol):
    def append(self, session: SessionId, entries: Iterable[Entry]) -> None: ...

    def read(
        self, session: SessionId, after: int = 0, most: int = -1, *, newest: bool = False
    ) -> list[Entry]:
        """Those after a number, all of them unless `most` says how many, the oldest or the `newest`."""

    def of_turn(self, turn: TurnId) -> list[Entry]: ...

    def copy(self, session: SessionId, into: SessionId, upto: int, without: Collection[TurnId]) -> None:
        """Begin a session with the records of another one up to a number, those of some turns left out, and
        with what was allowed in them for the session. They belong to turns of their own there."""


class JournalTail(Protocol):
    """The journal across agents, in the order in which records were added: for whoever keeps a cursor."""

    def after(self, cursor: int, limit: int) -> tuple[list[JournalRow], int]:
        """Of so many records the ones of sessions that stay, and the cursor behind the last of them all."""

    def end(self) -> int:
        """The cursor behind the newest record."""


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
        chats; of each agent those that were used longest ago come first. `after` is the last one of the page
        before."""


class OutboxMessages(Protocol):
    """Single messages, for who sends once by a key and for who looks after them."""

    def get(self, key: str) -> OutboxRow | None: ...

    def begun(self, prefix: str) -> list[OutboxRow]:
        """The rows whose keys begin so, in order."""

    def find(self, states: Collection[OutState], limit: int = 100) -> list[OutboxRow]:
        """Messages in these states, oldest first; drafts are none."""

    def retry(self, key: str, at: datetime) -> bool:
        """Send a message again that is given up or waits, with all its time before it; False if there is no
        such message."""

    def drop(self, key: str, why: str) -> bool:
        """Give up a message; False if there is none that could still be sent."""


class Outbox(OutboxMessages, Protocol):
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

    def latest(self, owner: str | None, conversation: str) -> Request | None:
        """The latest of a chain; without an owner, of all chains of this name."""

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

    def said(
        self, limit: int, viewer: Viewer, session: SessionId | None = None, around: int = 0
    ) -> list[SearchHit]:
        """What was said, whole: in one session around a record, in its order, or last of all, the newest
        first. The viewer counts as in `find`."""


class MediaIndex(Protocol):
    def add(self, item: MediaItem) -> None: ...

    def get(self, sha256: str) -> MediaItem | None: ...

    def unused(self, before: datetime, limit: int) -> list[tuple[AgentId, MediaItem]]:
        """Files stored before a moment that nothing names (no message, turn, record or job), and whose."""

    def remove(self, sha256: str, before: datetime) -> bool:
        """Forget a file, unless it was stored again since."""

    def copies(self, sha256: str) -> list[tuple[AgentId, MediaItem]]:
        """Who has a file with this content, of all agents."""


class Talk(Protocol):
    """What was said in shared chats and not to us, the latest of each place; and what we said there."""

    def keep(self, to: Address, message: OverheardMessage, most: int) -> None: ...

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


class WorkCounts(Protocol):
    def open_work(self) -> OpenWork: ...


class Recovery(WorkCounts, Protocol):
    """What the gateway itself asks, across agents: at start, and to find work."""

    def boot(self, now: datetime) -> Boot: ...

    def close(self, epoch: int, now: datetime) -> None: ...

    def due(self, after: int, limit: int) -> list[DueSession]:
        """A page of turns to go on with, from the beginning if `after` is 0; those that were begun come
        first and have numbers below 0."""

    def expired(self, now: datetime, limit: int) -> list[tuple[AgentId, Question]]: ...

    def prune(self, before: datetime, now: datetime) -> int: ...


class SeenChats(Protocol):
    def note(self, channel: Channel, *, exact: bool = False) -> None:
        """Keep what was seen last of a chat; a name that is known stays if none is given. When somebody wrote
        there is kept to the hour, or exactly."""

    def seen(self, to: Address) -> datetime | None:
        """When somebody who may speak last wrote there."""


class Directory(SeenChats, Protocol):
    """Chats and home channels belong to the gateway; `bound` tells of the sessions of one agent."""

    def channels(self, limit: int = 5000, inside: Address | None = None) -> list[Channel]:
        """The latest first; of all chats, or only the threads of one."""

    def homes(self) -> dict[str, Address]:
        """The home channels that were chosen in a chat, by account."""

    def set_home(self, account: str, to: Address | None, at: datetime) -> None:
        """None takes back what was chosen."""

    def bound(self, to: Address) -> list[SessionId]:
        """The agent's sessions that people in this chat speak in."""


class Grants(Protocol):
    def add(self, grant: Grant) -> None:
        """Keep a grant; one for the same person and action is there already, and stays as it is."""

    def list(self, person: str | None = None) -> list[Grant]:
        """Everybody's, or a person's; the oldest first."""

    def add_for_session(self, session: SessionId, person: str, digest: str, seq: int) -> None:
        """A person allowed an action for the rest of a session; `seq` is the record of the answer."""

    def of_session(self, session: SessionId, person: str) -> frozenset[str]:
        """Digests of the actions that a person allowed for the rest of a session."""

    def revoke(self, grant: str) -> bool:
        """False if there is none with this id."""


class Handoffs(Protocol):
    def add(self, handoff: Handoff) -> bool:
        """False if its session is being handed over already."""

    def get(self, handoff: str) -> Handoff | None: ...

    def change(self, was: Handoff, now: Handoff) -> bool:
        """Write `now` if it still is in the state and at the attempt of `was`; False changes nothing."""

    def open(self) -> list[Handoff]:
        """Those that are not settled, the oldest first."""

    def latest(self, session: SessionId | None, limit: int) -> list[Handoff]:
        """Of one session or of all, the newest first."""


class Jobs(Protocol):
    def save(self, job: Job) -> None: ...

    def get(self, job: JobId) -> Job | None: ...

    def list(self) -> list[Job]: ...

    def due(self, now: datetime, among: Iterable[AgentId] | None = None) -> DueJobs:
        """Of these agents, if some are named; so many of each that none hides the jobs of another."""

    def remove(self, job: JobId) -> None: ...


class JobRuns(Protocol):
    def claim(self, run: JobRun) -> bool:
        """True for the one that got the slot; there must be such a job."""

    def save(self, run: JobRun) -> None: ...

    def get(self, slot: Slot) -> JobRun | None: ...

    def open(self) -> list[tuple[AgentId, JobRun]]:
        """Those that are not over, the oldest first, and whose they are."""

    def of(self, job: JobId | None, limit: int) -> list[JobRun]:
        """Of one job or of all, the newest first."""


class Compressions(Protocol):
    """Sessions to compress in the background, each at most once at a time."""

    def want(self, session: SessionId, at: datetime) -> None:
        """Note that a session is to be compressed; if that is noted already, it stays as it is."""

    def get(self, session: SessionId) -> PendingCompression | None: ...

    def save(self, pending: PendingCompression) -> None: ...

    def remove(self, session: SessionId) -> None: ...

    def due(self, now: datetime, after: int, limit: int) -> list[PendingCompression]:
        """Those of all agents whose time has come, in the order in which they were noted."""


class AwaitedProcessRows(Protocol):
    """Background processes that sessions wait to hear of."""

    def put(self, process: AwaitedProcess) -> None:
        """Store it, in the place of an earlier one of its id; nothing if its session is gone."""

    def get(self, process: str) -> AwaitedProcess | None: ...

    def remove(self, process: str) -> None: ...

    def all(self) -> list[AwaitedProcess]:
        """Those of all agents."""


class Flushes(Protocol):
    """Sessions from which lasting things are to be noted, because they are over or get shorter."""

    def want(self, session: SessionId, at: datetime) -> None: ...

    def get(self, session: SessionId) -> PendingFlush | None:
        """None if it is not to be flushed now."""

    def settle(self, session: SessionId, upto: int) -> None:
        """It was flushed up to a record."""

    def wanted(self, after: int, limit: int) -> list[PendingFlush]:
        """Those of all agents, in the order in which they were noted first."""


class Pairings(Protocol):
    """People, by the account they wrote to and their id there."""

    def get(self, account: Account, user: str) -> PairedUser | None: ...

    def add(self, paired: PairedUser) -> None: ...

    def remove(self, account: Account, user: str) -> bool: ...

    def list(self) -> list[PairedUser]: ...


class PairingCodes(Protocol):
    """Codes and what is counted about them."""

    def add(self, code: PairingCode) -> None: ...

    def list(self) -> list[PairingCode]:
        """All that were not used, the expired ones of the last day too; oldest first."""

    def remove(self, code: str) -> bool:
        """True for the one who took it: a code is used once."""

    def mark(self, name: str) -> PairingCounter | None: ...

    def put_mark(self, mark: PairingCounter) -> None: ...


class UsageCounts(Protocol):
    """What models took. The sums of days follow the records: who reads them counts first."""

    def note(self, call: AuxiliaryCall) -> None:
        """Write down a call that no record tells of."""

    def count(self) -> int:
        """Add the next records and calls of all agents to the sums; 0 when there was nothing left."""

    def of_session(self, session: SessionId) -> list[UsageGroup]:
        """By model and role; without what a copy of another session began with."""

    def sums(self, by: tuple[str, ...], first: date, last: date, person: str = "") -> list[UsageGroup]:
        """From one day to another, by some of day, agent, person, job, model, role."""


class BudgetCare(Protocol):
    def tidy(self) -> int:
        """Forget what turns held that are over."""


class Budgets(BudgetCare, Protocol):
    """What was spent of budgets, of whatever agent, by the keys of `BudgetAccount`."""

    def standing(self, budget: str, period: str, beside: TurnId | None = None) -> BudgetStanding:
        """With what turns hold, but for the one `beside`. `Refused` if it cannot be read."""

    def hold(self, turn: TurnId, budget: str, period: str, share: Spent) -> None:
        """Keep a share for a turn until it ends; what it held of this budget before is replaced."""

    def spend(self, turn: TurnId, spent: Spent) -> None:
        """Count against every budget of which the turn holds a share."""

    def spend_beside(self, budget: str, period: str, spent: Spent) -> None:
        """Count what no turn held a share for."""

    def release(self, turn: TurnId) -> None:
        """The turn ends."""


class MemoryEntries(Protocol):
    """What an agent remembers."""

    def add(self, entry: MemoryEntry) -> MemoryEntry:
        """The entry with its number."""

    def change(self, before: MemoryEntry, after: MemoryEntry) -> None: ...

    def remove(self, entry: MemoryEntry) -> None: ...

    def find(self, words: str, persons: Collection[str], limit: int) -> list[MemoryEntry]:
        """Those that hold the words, of these people or shared."""

    def list(self, shelf: MemoryShelf | None = None) -> list[MemoryEntry]:
        """Those of a shelf, or of all; the oldest first."""


class PersonNoteNames(Protocol):
    """Which entries of people the words of a session name."""

    def name(self, session: SessionId, person: str) -> tuple[int, ...]:
        """What a person's words are to name now: what the model is told of them and the session has not named
        yet. It counts as named from now on."""

    def texts(self, notes: Collection[int]) -> dict[int, str]:
        """Entries as they are now; what was forgotten is missing."""

    def repeats(self, session: SessionId, key: str) -> bool:
        """Whether the last change that a session made had this key; from now on it has."""

    def printed(self, name: str) -> str | None:
        """A file of entries as it was last written or read; None before the first time."""

    def print(self, name: str, text: str) -> None: ...


class SessionTraces(Protocol):
    """What the tools of a session left behind, as texts by kind; gone with the session."""

    def of(self, session: str) -> list[tuple[str, str]]:
        """Kinds and texts."""

    def add(self, session: str, kind: str, texts: Iterable[str]) -> None: ...

    def put(self, session: str, kind: str, text: str) -> None:
        """In place of all of this kind."""


class Checkpoints(Protocol):
    """States of workspaces from before turns changed them, at most one for each turn."""

    def add(self, checkpoint: Checkpoint) -> None:
        """Unless the turn has one."""

    def of_turns(self, turns: Collection[TurnId]) -> list[Checkpoint]:
        """The newest first."""

    def of_root(self, root: str, most: int = 1000) -> list[Checkpoint]:
        """Those of a folder, the newest first."""

    def settle(self, turn: TurnId, after: str) -> None:
        """A turn left its folder in this state."""

    def remove(self, ids: Collection[int]) -> None: ...


class AgentRows(Protocol):
    """All rows of one agent, whatever the table."""

    def count(self) -> int:
        """How many sessions, jobs and entries of its memory there are."""

    def give_to(self, agent: AgentId) -> None:
        """Let them be another agent's. Where both have a row for the same thing, this one's counts."""

    def remove(self) -> None: ...


class Tx(Struct, frozen=True, kw_only=True):
    """One transaction, scoped to one agent: its tables. `scoped` is the same one for another agent, for what
    concerns both: an agent's task for another."""

    scoped: Callable[[AgentId], Tx]
    inbox: Inbox
    turns: Turns
    journal: Journal
    tail: JournalTail
    sessions: Sessions
    bindings: Bindings
    outbox: Outbox
    questions: Questions
    grants: Grants
    requests: Requests
    jobs: Jobs
    job_runs: JobRuns
    facts: Facts
    search: Search
    media: MediaIndex
    talk: Talk
    leases: Leases
    pairings: Pairings
    pairing_codes: PairingCodes
    recovery: Recovery
    handoffs: Handoffs
    compressions: Compressions
    flushes: Flushes
    processes: AwaitedProcessRows
    directory: Directory
    usage: UsageCounts
    budgets: Budgets
    memory: MemoryEntries
    notes: PersonNoteNames
    traces: SessionTraces
    checkpoints: Checkpoints
    rows: AgentRows


class Store(Protocol):
    """A handle on the database, scoped to one agent."""

    async def write(self, unit: Callable[[Tx], T], *, first: bool = False, ends: bool = False) -> T:
        """Run the unit and return after its commit; what fails is tried again until it works. `first` goes
        ahead of that, and fails at once with `Unreachable` while the store takes no new work. `ends` goes
        ahead too, but is tried even then, because finishing work may still succeed."""

    async def read(self, query: Callable[[Tx], T]) -> T: ...

    def scoped(self, agent: AgentId) -> Store: ...
