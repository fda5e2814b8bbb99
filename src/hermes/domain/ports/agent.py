"""The agent and its models, as the gateway and the loop see them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from hermes.domain.event import AgentEvent, Ending, Entry, TextDelta, ThoughtDelta, Usage
from hermes.domain.session import Session
from hermes.domain.tool import StandingGrants, Tool, ToolCall, no_standing
from hermes.domain.turn import EarlierMessage, Turn


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
    spoken: str = ""
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
