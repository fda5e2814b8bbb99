"""Tools, how often their effects may happen, and what is allowed without asking."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

from hermes.domain.ids import AgentId, CallId, SessionId, TurnId


class Effect(StrEnum):
    """What repeating a call means. Unknown tools are `once`."""

    READ = "read"
    KEYED = "keyed"
    ONCE = "once"


class Approval(StrEnum):
    NEVER = "never"
    ASK = "ask"


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCall:
    """A call as the model wrote it; the arguments are its JSON text, right or wrong."""

    id: CallId
    name: str
    arguments: str = "{}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolContext:
    """What a running call may know: whose call it is, and the key that makes a repeat harmless."""

    agent: AgentId
    session: SessionId
    turn: TurnId
    call: CallId
    key: str
    output: Callable[[str], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolResult:
    text: str
    failed: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ApprovalPrompt:
    """What a tool needs decided by a person before it runs. One about writing to chats alone has `spelled`:
    for each chat the ways to write it that mean no other. It is not asked where the person's own words name
    them all. `more` is shown below the text; it is looked up, for a session, only when somebody is really
    asked."""

    text: str
    digest: str
    spelled: Callable[[AgentId, TurnId], Awaitable[Sequence[Sequence[str]]]] | None = field(
        default=None, compare=False
    )
    more: Callable[[SessionId], Awaitable[str]] | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Clarification:
    """A question to the person whose answer is the call's result."""

    text: str
    options: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Tool:
    """Something the agent can do. `approval` may be a function of the session and the arguments; a tool that
    is not `parallel` is a barrier between the calls before and after it; one that `asks` is answered by a
    person and never run."""

    name: str
    description: str
    parameters: Mapping[str, object]
    run: Callable[[ToolContext, Mapping[str, object]], Awaitable[ToolResult]]
    toolset: str = "core"
    effect: Effect = Effect.ONCE
    approval: Approval | Callable[[SessionId, Mapping[str, object]], ApprovalPrompt | None] = Approval.NEVER
    parallel: bool = False
    asks: Callable[[Mapping[str, object]], Clarification] | None = None


# --- what is allowed without asking ---


@dataclass(frozen=True, slots=True, kw_only=True)
class Grant:
    """An action that was allowed always, by the `digest` of the exact action; listed and revoked by its id.
    `person` is whose action is allowed, `by` who allowed it, both told as in `owner_of`."""

    id: str
    agent: AgentId
    person: str
    digest: str
    text: str
    by: str
    at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class StandingGrants:
    """What a turn may do without asking: everything, or the actions with these digests."""

    everything: bool = False
    digests: frozenset[str] = frozenset()

    def allows(self, digest: str) -> bool:
        return self.everything or digest in self.digests


NO_STANDING = StandingGrants()


async def no_standing() -> StandingGrants:
    """Stands where nobody keeps grants."""
    return NO_STANDING
