"""What the control plane has of one hosted agent: its profile, its core, its part of the store."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

from hermes.domain.message import Attachment
from hermes.domain.ports.agent import Agent
from hermes.domain.ports.store import Store
from hermes.domain.ports.world import JobWorld, Media, ProcessView
from hermes.domain.settings.settings import Profile
from hermes.domain.tool import Tool

TakeFile = Callable[[str], Awaitable[Attachment]]
"""Copies the file at a path to where it is kept until it is sent; a `UserError` says why it may not go."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Runtime:
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
