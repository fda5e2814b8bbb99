"""Tools, how often their effects may happen, and what is allowed without asking."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Protocol

from msgspec import Struct

from hermes.domain.chats.address import Source
from hermes.domain.chats.message import Attachment
from hermes.domain.errors import UserError
from hermes.domain.ids import AgentId, CallId, SessionId, TurnId
from hermes.domain.models.usage import Usage


class Effect(StrEnum):
    """What repeating a call means. Unknown tools are `once`."""

    READ = "read"
    KEYED = "keyed"
    ONCE = "once"


class Approval(StrEnum):
    NEVER = "never"
    ASK = "ask"


class ToolCall(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A call as the model wrote it; the arguments are its JSON text, right or wrong. One that was `withheld`
    held a secret, is not what the model wrote any more, and is never run. One that is `bridged` was made
    through `tool_call`, and the model sees it again as it made it."""

    id: CallId
    name: str
    arguments: str = "{}"
    withheld: bool = False
    bridged: bool = False


class Clarification(Struct, frozen=True, kw_only=True):
    """A question to the person whose answer is the call's result."""

    text: str
    options: tuple[str, ...] = ()


class ToolResult(Struct, frozen=True, kw_only=True):
    """What came of a call. `text` is for the model, and `outside` says that it was written elsewhere: it is
    data, whatever it says. `attachments` are pictures and files, by their hash in the media store. `data` is
    for code that calls tools and never stored; `usage` is what models took beside those that were asked
    through the context, which are counted anyway. `note` is for the person, shown under the answer. With
    `wants` there is no result yet: the person is asked, and the call is made again with their answer and what
    is `kept` here. `unknown` says that nobody knows whether it was done, and `ended_badly` that the tool did
    its part, but not the program that it ran: the same again leads nowhere."""

    text: str
    attachments: tuple[Attachment, ...] = ()
    data: object = None
    failed: bool = False
    outside: bool = False
    usage: Usage | None = None
    note: str = ""
    wants: Clarification | None = None
    kept: str = ""
    unknown: bool = False
    ended_badly: bool = False


class AskModel(Protocol):
    """Puts words, and pictures where it takes some, to the model of a role (“summary”, “vision”)."""

    async def __call__(self, role: str, text: str, attachments: Sequence[Attachment] = ()) -> str: ...


async def no_inner_calls(name: str, arguments: Mapping[str, object]) -> ToolResult:
    """Stands where nobody runs calls for a tool."""
    raise UserError(f"{name} cannot be called from here.")


async def no_models(role: str, text: str, attachments: Sequence[Attachment] = ()) -> str:
    """Stands where there are no models for tools."""
    raise UserError(f"There is no model here for {role}.")


class ToolContext(Struct, frozen=True, kw_only=True):
    """What a running call may know and do: whose call it is, who speaks (nobody, for a job), the key that
    makes a repeat harmless, and by when it has to be done. One that is `repeated` was begun before and cut
    off by a crash, so that some of it may be done.

    `call` runs another tool of the turn as the model could, by the same rules; what somebody would have to be
    asked for is a `UserError`. `ask_model` asks a model by its role."""

    agent: AgentId
    session: SessionId
    turn: TurnId
    call_id: CallId
    key: str
    output: Callable[[str], None]
    repeated: bool = False
    source: Source | None = None
    maker: Source | None = None
    """Whoever had the job made, or caused what woke the session: what the call does is theirs."""
    deadline: datetime | None = None
    safe_links: Callable[[str], str] = str
    """A text for others without links that could carry data away, if the turn has read words from outside."""
    call: Callable[[str, Mapping[str, object]], Awaitable[ToolResult]] = no_inner_calls
    tools: Callable[[], Mapping[str, Tool]] = dict
    """Those that `call` reaches, the deferred ones too."""
    ask_model: AskModel = no_models
    answer: tuple[str, str] | None = None
    """In a call that asked for something before: what it kept, and what the person said."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ApprovalPrompt:
    """What a tool needs decided by a person before it runs. One about writing to chats alone has `spelled`:
    for each chat the ways to write it that mean no other; one about reaching other machines alone has their
    `hosts`. It is not asked where the person's own words name them all. `more` is shown below the text; it is
    looked up, for a session, only when somebody is really asked. A `locked` one is put to a person each time,
    whatever was allowed before; one that goes `to_model` may be allowed by a second model instead."""

    text: str
    digest: str
    locked: bool = False
    to_model: bool = False
    spelled: Callable[[AgentId, TurnId], Awaitable[Sequence[Sequence[str]]]] | None = field(
        default=None, compare=False
    )
    hosts: tuple[str, ...] = ()
    more: Callable[[SessionId], Awaitable[str]] | None = field(default=None, compare=False)


ApprovalCheck = Callable[[SessionId, Mapping[str, object]], Awaitable[ApprovalPrompt | None]]
"""What a person must approve before a session makes a call with these arguments; None if nobody is asked."""


class ChildTask(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Work for a turn of its own, whose answer is the call's result. It has the tools of the turn that asks
    for it, or of these toolsets alone, `without` those that are named, and can have children only as an
    `orchestrator`, down to `depth`. `agent` does it, or else the one that asks, with `model`, `effort` and
    `steps`, if they are set, in so many `seconds` (0: any). Of one turn's children `at_once` run together
    (0: all)."""

    text: str
    toolsets: tuple[str, ...] = ()
    without: tuple[str, ...] = ()
    orchestrator: bool = False
    agent: str = ""
    model: str = ""
    effort: str = ""
    steps: int = 0
    seconds: float = 0.0
    at_once: int = 0
    depth: int = 1


class ChildTasks(Struct, frozen=True, kw_only=True):
    """Several of them, whose answers together are the call's result."""

    tasks: tuple[ChildTask, ...]


class ClientCall(Struct, frozen=True, kw_only=True):
    """A call of a function that the client has, and whose result it gives."""


Waiting = Clarification | ChildTask | ChildTasks | ClientCall
"""What a call waits for that is answered from outside."""


class Tool(Struct, frozen=True, kw_only=True, weakref=True):
    """Something the agent can do. `approval` may be a function of the session and the arguments; a tool that
    is not `parallel` is a barrier between the calls before and after it; one that `asks` is answered
    from outside and never run. `seconds` is how long a call may take (0: what the loop allows). The model's
    service is asked to hold a `strict` tool's arguments to its schema. `after_outside` is what is
    asked for as well once a turn has read words from outside; if a tool does not say (None), `once` calls."""

    name: str
    description: str
    parameters: Mapping[str, object]
    run: Callable[[ToolContext, Mapping[str, object]], Awaitable[ToolResult]]
    toolset: str = "core"
    effect: Effect = Effect.ONCE
    approval: Approval | ApprovalCheck = Approval.NEVER
    parallel: bool = False
    asks: Callable[[Mapping[str, object]], Waiting] | None = None
    seconds: float = 0.0
    strict: bool = False
    after_outside: Approval | ApprovalCheck | None = None


# --- what is allowed without asking ---


class Grant(Struct, frozen=True, kw_only=True):
    """An action that was allowed always, by the `digest` of the exact action; listed and revoked by its id.
    `person` is whose action is allowed, `by` who allowed it, both told as in `owner_of`."""

    id: str
    agent: AgentId
    person: str
    digest: str
    text: str
    by: str
    at: datetime


class StandingGrants(Struct, frozen=True, kw_only=True):
    """What a turn may do without asking: everything, or the actions with these digests."""

    everything: bool = False
    digests: frozenset[str] = frozenset()

    def allows(self, digest: str) -> bool:
        return self.everything or digest in self.digests


NO_STANDING = StandingGrants()


async def no_standing() -> StandingGrants:
    """Stands where nobody keeps grants."""
    return NO_STANDING
