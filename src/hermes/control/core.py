"""What every part of a gateway works with: the agents it hosts, its store, its settings."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field

from hermes.control.hooks.dispatch import Hooks
from hermes.control.workers import Supervisor
from hermes.domain.clock import Clock
from hermes.domain.ids import AgentId
from hermes.domain.message import Attachment
from hermes.domain.ports.agent import Agent
from hermes.domain.ports.store import Store
from hermes.domain.ports.world import JobWorld, Media, ProcessView
from hermes.domain.settings.settings import Profile, Settings
from hermes.domain.tool import Tool

TakeFile = Callable[[str], Awaitable[Attachment]]
"""Copies the file at a path to where it is kept until it is sent; a `UserError` says why it may not go."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Runtime:
    """One hosted agent: its profile, its core, its part of the store."""

    profile: Profile
    agent: Agent
    store: Store
    model: str = ""
    """The model that answers where a session names none, as people call it."""
    prompt: Callable[[], Awaitable[str]] | None = None
    """Gives the system prompt that a session keeps from its first turn on."""
    tools: Sequence[Tool] = ()
    """What the agent can do, for doors that tell of it."""
    media: Media | None = None
    """Where files are kept that come with messages."""
    processes: Callable[[str], Awaitable[list[ProcessView]]] | None = None
    """What runs in the background for a session."""
    jobs: JobWorld | None = None
    """Where the scripts, folders and outputs of its jobs are."""
    take_file: TakeFile | None = None
    """Lets a file go out with an answer, or says why it may not."""
    transcribe: Callable[[Attachment], Awaitable[str]] | None = None
    """Writes down what is said in a voice message; None where nothing can."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GatewayCore:
    store: Store
    runtimes: Mapping[AgentId, Runtime]
    settings: Settings
    clock: Clock
    loops: Supervisor
    """Keeps the long-lived loops going, also those of whoever builds the gateway."""
    hooks: Hooks = field(default_factory=Hooks)
