"""What user hooks can follow, what a hook is, and the port behind which they run.

Most events are told: a hook that follows them observes. Some are asked: who follows those decides, and
where it gives no proper answer in time the answer is no. What is in a context is told in the docs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from msgspec import Struct

STARTUP = "gateway:startup"
SESSION_START = "session:start"
SESSION_END = "session:end"
SESSION_RESET = "session:reset"
SESSION_COMPRESS = "session:compress"
AGENT_START = "agent:start"
AGENT_STEP = "agent:step"
AGENT_END = "agent:end"
COMMAND = "command"
GATE_TURN = "gate:turn"
GATE_TOOL = "gate:tool"
GATE_SEND = "gate:send"
SELECT_AGENT = "select_agent"

EVENTS = (
    STARTUP,
    SESSION_START,
    SESSION_END,
    SESSION_RESET,
    SESSION_COMPRESS,
    AGENT_START,
    AGENT_STEP,
    AGENT_END,
    f"{COMMAND}:*",
    GATE_TURN,
    GATE_TOOL,
    GATE_SEND,
    SELECT_AGENT,
)
OBSERVER_SECONDS = 5.0
GATE_SECONDS = 2.0
MOST_SECONDS = 60.0


def family(event: str) -> str:
    """What stands before the colon."""
    return event.partition(":")[0]


def is_asked(event: str) -> bool:
    """Whether somebody waits for what hooks say to this event."""
    return family(event) in (COMMAND, "gate", SELECT_AGENT)


def is_event(name: str) -> bool:
    """Whether a manifest may name this: an event, one command's, or all of a family."""
    before, colon, after = name.partition(":")
    if after == "*" and colon:
        return before in {family(event) for event in EVENTS if ":" in event}
    return name in EVENTS or (before == COMMAND and bool(after))


class Hook(Struct, frozen=True, kw_only=True):
    """One hook as its manifest tells it. `folder` is where its `handler.py` is; `timeout` is how many seconds
    one call may take, where it says so itself."""

    name: str
    folder: str
    events: tuple[str, ...]
    description: str = ""
    timeout: float | None = None

    def follows(self, event: str) -> bool:
        return event in self.events or f"{family(event)}:*" in self.events

    def seconds(self, event: str) -> float:
        return self.timeout or (GATE_SECONDS if is_asked(event) else OBSERVER_SECONDS)


class HookAnswer(Struct, frozen=True, kw_only=True):
    """What a hook answered (anything JSON can tell), and what it printed meanwhile."""

    answer: object = None
    output: str = ""


class HookRunner(Protocol):
    """Calls hooks where they can do no harm. A call that gives no answer in time, for whatever reason, is
    raised as `Unreachable`, in words for the operator."""

    async def call(self, hook: Hook, event: str, context: Mapping[str, object]) -> HookAnswer: ...

    async def close(self) -> None: ...
