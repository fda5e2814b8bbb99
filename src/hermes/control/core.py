"""What every part of a gateway works with: the agents it hosts, its store, its settings."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Sequence
from typing import Protocol

from msgspec import Struct, field

from hermes.control.events import Events
from hermes.control.hooks.dispatch import Hooks
from hermes.control.workers import Supervisor
from hermes.domain.chats.address import Source
from hermes.domain.chats.message import Attachment
from hermes.domain.chats.rows import MediaItem
from hermes.domain.clock import Clock
from hermes.domain.errors import UserError
from hermes.domain.ids import AgentId
from hermes.domain.models.model_facts import ModelFacts
from hermes.domain.models.usage import Usage
from hermes.domain.ports.agent import (
    Agent,
    CheckpointCare,
    Compression,
    MemoryCare,
    PersonNotes,
    Run,
    SkillCare,
    no_notes,
)
from hermes.domain.ports.memory import MemoryProvider
from hermes.domain.ports.store import Store
from hermes.domain.ports.world import JobWorld, Media, ProcessView
from hermes.domain.safety.concealing import NOTHING_CONCEALED, Concealing
from hermes.domain.settings.live import LiveSettings
from hermes.domain.settings.settings import Profile
from hermes.domain.tools.toolbox import Toolbox
from hermes.domain.turns.event import AgentEvent
from hermes.domain.turns.references import Expansion
from hermes.domain.turns.session import FrozenPrompt, Session
from hermes.domain.turns.turn import Turn

TakeFile = Callable[[str, str], Awaitable[Attachment]]
"""Copies the file at a path of a session's world to where it is kept until it is sent; a `UserError` says why
it may not go."""
BringFile = Callable[[Turn, MediaItem, str, str | None], Awaitable[str]]
"""Puts a file that came with a turn, and is kept at a path of ours, where the turn's commands see it, which
start in the folder of its session, if that has one; tells its path there."""


MakeTitle = Callable[[str, str, bool, str], Awaitable[tuple[str, Usage | None]]]
"""A title for words and their answer, and what a model took for it; without a model
if the flag is true, else beside the session's model, which is named last."""
PersonOf = Callable[[Turn], str | None]
"""Who speaks in a turn, as the entries of memory name them; None if nobody is known."""


class Runtime(Struct, frozen=True, kw_only=True):
    """One hosted agent: its profile, its core, its part of the store."""

    profile: Profile
    agent: Agent
    store: Store
    model: str = ""
    """The model that answers where a session names none, as people call it."""
    prompt: Callable[[Session | None, Source | None], Awaitable[FrozenPrompt]] | None = None
    """Gives what a session keeps for the model from its first turn on. The session is None if these words
    begin it, the source None if nobody spoke."""
    workspace: str = ""
    """Where its commands start, unless a session says otherwise."""
    person_notes: PersonNotes = no_notes
    """Gives the entries of people's memory that a transcript names."""
    compression: Compression | None = None
    """Shortens sessions that are nearly too long; None where nothing can."""
    person: PersonOf | None = None
    """Who speaks in a turn; None where nothing is noted about people."""
    memory: MemoryCare | None = None
    memory_provider: MemoryProvider | None = None
    """The memory that a plugin brings."""
    skills: SkillCare | None = None
    checkpoints: CheckpointCare | None = None
    """States of the workspace to go back to; None where none are kept."""
    toolbox: Toolbox = field(default_factory=Toolbox)
    """Which tools each turn has."""
    media: Media | None = None
    """Where files are kept that come with messages."""
    processes: Callable[[str], Awaitable[list[ProcessView]]] | None = None
    """What runs in the background for a session."""
    jobs: JobWorld | None = None
    """Where the scripts, folders and outputs of its jobs are."""
    take_file: TakeFile | None = None
    """Lets a file go out with an answer, or says why it may not."""
    bring_file: BringFile | None = None
    """Puts files that came with messages where commands see them; None where they see the media folder."""
    facts: Callable[[str], ModelFacts] = lambda model: ModelFacts()
    """What is known of a model, or of the agent's own (an empty name)."""
    describe: Callable[[Attachment], Awaitable[tuple[str, Usage]]] | None = None
    """Describes a picture in words, for a model that sees none; None where no model is set for that."""
    title: MakeTitle | None = None
    """Makes titles for its sessions; None where they get none."""
    expand: Callable[[Session, Turn], Awaitable[Expansion]] | None = None
    """Looks up what references in a person's words stand for; None where nothing can."""
    transcribe: Callable[[Attachment], Awaitable[tuple[str, Usage | None]]] | None = None
    """Writes down what is said in a voice message; None where that is switched off."""
    speak: Callable[[str, Sequence[str]], Awaitable[tuple[Attachment, Usage | None]]] | None = None
    """Speaks words, as one of these types of sound if any are named; None where nothing can."""


class Agents(Protocol):
    """The agents of a gateway: a collection of their ids, which has the runtime of each. What only asks the
    store needs no runtime, but `store.scoped(agent)`."""

    def __contains__(self, agent: object) -> bool: ...

    def __iter__(self) -> Iterator[AgentId]: ...

    def __len__(self) -> int: ...

    async def get(self, agent: AgentId) -> Runtime:
        """The runtime, built if this is its first use; a `UserError` if there is no such agent, or if it
        cannot be built (`AgentUnavailable`). Then nobody else answers in its place."""

    def built(self, agent: AgentId) -> Runtime | None:
        """The runtime, if it is there: only such an agent can have something going on."""


class GatewayCore(Struct, frozen=True, kw_only=True):
    store: Store
    agents: Agents
    live: LiveSettings
    """The settings, as `live.now`; whoever needs them again later asks again."""
    clock: Clock
    loops: Supervisor
    """Keeps the long-lived loops going, also those of whoever builds the gateway."""
    hooks: Hooks = field(default_factory=Hooks)
    events: Events = field(default_factory=Events)
    conceal: Concealing = NOTHING_CONCEALED
    """Takes secrets out of what comes in, is stored and goes out."""


class AgentUnavailable(UserError):
    """The agent is declared, but cannot be built at the moment."""

    def __init__(self, agent: AgentId, why: str) -> None:
        words = f"The agent “{agent}” cannot be used: {why}"
        super().__init__(words, hint="Put that right, then: hermes config apply")


class UnavailableAgent(Struct, frozen=True, kw_only=True):
    """Stands in an agent's place where only its part of the store is needed; it runs nothing."""

    why: AgentUnavailable

    def run(self, run: Run) -> AsyncIterator[AgentEvent]:
        raise self.why


def no_such_agent(agent: str, agents: Iterable[AgentId]) -> UserError:
    names = ", ".join(sorted(agents)[:20])
    return UserError(f"There is no agent “{agent}”.", hint=f"Known: {names}.")
