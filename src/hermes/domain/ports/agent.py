"""The agent and its models, as the gateway and the loop see them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Coroutine, Mapping, Sequence
from typing import Any, Protocol

from msgspec import Struct, field

from hermes.domain.chats.address import Source
from hermes.domain.knowledge.skill import Skill
from hermes.domain.models.call_options import NO_OPTIONS, CallOptions
from hermes.domain.models.usage import CacheMiss, Usage
from hermes.domain.tools.checkpoint import Checkpoint, CheckpointView
from hermes.domain.tools.tool import StandingGrants, Tool, ToolCall, no_standing
from hermes.domain.turns.event import (
    AgentEvent,
    Cleared,
    Ending,
    Entry,
    Kept,
    Live,
    Notice,
    Summarised,
    TextDelta,
    ThoughtDelta,
)
from hermes.domain.turns.session import Session
from hermes.domain.turns.turn import EarlierMessage, Turn


class Scope(Protocol):
    """Where what goes on beside a run lives; closed, with everything in it, when the run ends."""

    def spawn(self, work: Coroutine[Any, Any, None], name: str, broke: Callable[[str], None]) -> None:
        """Run beside the run; `broke` is told what happened if the work dies of something unforeseen."""


PersonNotes = Callable[[Collection[int]], Awaitable[Mapping[int, str]]]
"""Gives the entries of people's memory with these row ids, as they are now; what is forgotten is missing."""


async def no_notes(ids: Collection[int]) -> Mapping[int, str]:
    return {}


def nobody_hears(live: Live) -> None:
    """Stands where nobody reads along."""


async def nothing_wasted(usage: Usage) -> None:
    """Stands where nobody counts what models took."""


class CallUnderWay(Struct, kw_only=True):
    """The call of a model that is under way. If the run is cut off meanwhile, `estimate` tells what it will
    have taken, from how many characters of its reply were heard: services bill that too."""

    estimate: Callable[[int], Usage] | None = None


class Run(Struct, frozen=True, kw_only=True):
    """What a run is given. `transcript` is the actor's append-only list: reread its tail after a yield."""

    session: Session
    turn: Turn
    transcript: Sequence[Entry]
    scope: Scope
    memory: dict[str, object] = field(default_factory=dict)
    """What the agent keeps between runs of a warm session (the encoded prompt); may be empty any time."""
    call: CallUnderWay = field(default_factory=CallUnderWay)
    person_notes: PersonNotes = no_notes
    standing: Callable[[], Awaitable[StandingGrants]] = no_standing
    """What this turn may do without asking, as it is now."""
    late: Callable[[Live], None] = nobody_hears
    """Is told words that were heard and that no pull takes any more, because the run was stopped."""
    wasted: Callable[[Usage], Awaitable[None]] = nothing_wasted
    """Counts what a summary took that no record tells of, because it was of no use."""


class Agent(Protocol):
    def run(self, run: Run) -> AsyncIterator[AgentEvent]: ...


class CompressionResult(Struct, frozen=True, kw_only=True):
    """What makes a conversation shorter, and how many tokens its prompt takes before and after. Without a
    record `why` says why there is none, and `usage` what models took in vain. `messages` is how many a
    summary tells of."""

    before: int
    after: int
    record: Summarised | Cleared | None = None
    messages: int = 0
    why: str = ""
    usage: Usage | None = None


class Compression(Protocol):
    """Compresses sessions beside their turns."""

    def is_due(
        self,
        session: Session,
        transcript: Sequence[Entry],
        new: Sequence[Entry],
        memory: dict[str, object],
    ) -> bool:
        """Whether a session with these and some new records is nearly too long; `memory` is `Run.memory`."""

    async def prepare(self, session: Session, transcript: Sequence[Entry]) -> CompressionResult: ...


class ModelRequest(Struct, frozen=True, kw_only=True):
    """One call of the model: what is visible of the transcript, in order."""

    model: str
    system: str
    entries: Sequence[Entry]
    tools: Sequence[Tool]
    deferred: Sequence[Tool] = ()
    """Tools that the model may find, as they were when the session began. A service that can add tools to a
    conversation is told of them in its own way; for all others the bridge is among `tools`."""
    spoken: str = ""
    """Words of this very reply that were already heard before the stream broke: go on from here."""
    note: str = ""
    """Words of ours for the model, after everything else and in this one request only."""
    shared: bool = False
    """Several people speak in this session, so the model is told who says what."""
    has_files: bool = True
    """Whether files may be attached to something in the transcript."""
    memory: dict[str, object] = field(default_factory=dict)
    """`Run.memory`: where a provider may keep the encoded prompt of a warm session."""
    notes: Mapping[int, str] = field(default_factory=dict)
    """The entries of people's memory that the transcript names, as far as they are not forgotten."""
    history: Sequence[EarlierMessage] = ()
    """What a client says came before the transcript; it is told first."""
    options: CallOptions = NO_OPTIONS
    retries_left: int = 0
    """How often the call is still made again if it fails in passing; with none left, others are asked."""
    cache_key: str = ""
    """Leads requests with the same beginning to the same cache of a service; tells nothing else."""
    cache_ttl: str = ""
    """How long a service keeps what it cached, `5m` or `1h`; empty is as it likes."""
    images: Mapping[str, str] | None = field(default_factory=dict)
    """The attached images that could be read, as data URLs by their `sha256`; None if the model takes none at
    all, not even by their addresses."""


class ModelEnd(Struct, frozen=True, kw_only=True):
    """The last thing a model call yields. `kept` is stored with the reply and handed back unread; `via` and
    `cache_miss` are as in `ModelSaid`; `refused` if the words say that the model will not answer."""

    calls: tuple[ToolCall, ...] = ()
    ending: Ending = Ending.STOP
    usage: Usage = field(default_factory=Usage)
    model: str = ""
    kept: Kept | None = None
    via: str = ""
    cache_miss: CacheMiss | None = None
    refused: bool = False


ModelPiece = TextDelta | ThoughtDelta | Notice | ModelEnd
"""What a provider yields. A `Notice` is shown as it passes by, such as that another model answers now."""


class Provider(Protocol):
    def call(self, request: ModelRequest) -> AsyncIterator[ModelPiece]: ...


class MemoryCare(Protocol):
    """The entries of an agent's memory, with the files that print them."""

    async def forget(self, person: str) -> int:
        """Forget all about a person; how many entries that were."""

    async def read_back(self) -> None:
        """Take over what somebody wrote into the files."""

    async def print_files(self) -> None:
        """Show in the files what is in the store by now."""


class CheckpointCare(Protocol):
    """The checkpoints of an agent's workspaces. What cannot be done is a `UserError`."""

    async def find(self, source: Source, session: Session) -> list[Checkpoint]:
        """Those of the folder that a session works in, the newest first."""

    async def diff(self, checkpoint: Checkpoint) -> str:
        """What its turn changed, as text."""

    async def tend(self, action: str) -> list[CheckpointView]:
        """`prune` or `clear` them; what is left of them, by folder (`status`)."""


class SkillCare(Protocol):
    """The skills of an agent. They are asked for from memory; what takes files is awaited."""

    def all(self) -> Sequence[Skill]:
        """Those of the agent, whoever asks."""

    async def load(self, names: Sequence[str], source: Source | None, session: str) -> str:
        """The instructions of the named skills, as a model is told them before somebody's words. One that is
        not there, or not for them, is said in its place."""

    async def act(self, words: str) -> str:
        """Do for an admin what `/skills` asks for; the answer."""


class Memory(Protocol):
    """What an agent knows beyond a session."""

    async def notes(self) -> Mapping[str, str]:
        """What the prompt of every new session tells, by title. It may take a few seconds and may fail."""
