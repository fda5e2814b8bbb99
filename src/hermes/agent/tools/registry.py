"""The one registry of tools: each is a function that registers itself with what must be known about it.

A function takes its `ToolInvocation` first, then the model's arguments, and returns plain text.
`default_tools` turns the registered functions into tools of one agent."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import Any

from hermes.agent.danger.paths import CommandScope
from hermes.agent.tools.schema import ToolSignature, read_signature, read_values
from hermes.domain.channels import MessagingPort
from hermes.domain.errors import UserError
from hermes.domain.ids import SessionId
from hermes.domain.ports.world import Backend, ProcessView
from hermes.domain.rows import SearchHit
from hermes.domain.tool import Approval, ApprovalPrompt, Clarification, Effect, Tool, ToolContext, ToolResult

NO_TOOLSET = "none"
_ABSENT = """web search browser vision image_gen tts skills memory code_execution delegation safe project
    homeassistant spotify discord discord_admin video video_gen x_search kanban computer_use yuanbao moa"""
ABSENT = frozenset(_ABSENT.split())
"""Toolsets of Hermes Agent that are not here: to enable or to disable one changes nothing."""
_LONGEST_RESULT = 100_000

Recall = Callable[[str, int, ToolContext], Awaitable[Sequence[SearchHit]]]
"""At most so many places where the words of a query were said, the best first, as far as the call's session
may see them and without what its own turn said."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Workbench:
    """What the tools of one agent work with. `recall` searches its conversations; `ended` is told when a
    background process has ended, and `find_process` tells of one by its id.

    `scope` is where commands start and what they may do there without asking. If `asks` is false, nobody is
    asked, and only what is never run is refused."""

    backend: Backend
    recall: Recall
    scope: CommandScope
    asks: bool = True
    ended: Callable[[ToolContext, ProcessView], None] = field(default=lambda context, view: None)
    find_process: Callable[[str], ProcessView | None] = field(default=lambda process: None)
    jobs: Callable[[ToolContext, str, Mapping[str, Any]], Awaitable[str]] | None = None
    """Does with jobs what an action and what is said of a job ask for."""
    post: MessagingPort | None = None
    """How messages to other chats are sent; none where there is no gateway."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolInvocation:
    bench: Workbench
    context: ToolContext

    @property
    def backend(self) -> Backend:
        return self.bench.backend

    @property
    def session(self) -> str:
        return self.context.session


ApprovalCheck = Callable[[Workbench, str, Mapping[str, Any]], ApprovalPrompt | None]
"""What a person must approve before a call. It is given the folder that the session's shell is in."""


ToolFunction = Callable[..., Awaitable[str | ToolResult]]


@dataclass(frozen=True, slots=True, kw_only=True)
class RegisteredTool:
    """A registered tool. A workbench without what it `needs` does not have it."""

    name: str
    signature: ToolSignature
    run: ToolFunction
    toolset: str
    effect: Effect
    parallel: bool = False
    approval_check: ApprovalCheck | None = None
    asks: Callable[[Mapping[str, object]], Clarification] | None = None
    needs: Callable[[Workbench], bool] = lambda bench: True


TOOLS: dict[str, RegisteredTool] = {}


def tool(toolset: str, effect: Effect, **facts: Any) -> Callable[[ToolFunction], ToolFunction]:
    """Register the function under its own name; `facts` are further fields of `RegisteredTool`."""

    def register(run: ToolFunction) -> ToolFunction:
        name, signature = run.__name__, read_signature(run)
        TOOLS[name] = RegisteredTool(
            name=name, signature=signature, run=run, toolset=toolset, effect=effect, **facts
        )
        return run

    return register


def toolsets() -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for spec in TOOLS.values():
        found.setdefault(spec.toolset, []).append(spec.name)
    return found


def default_tools(
    bench: Workbench, *, enabled: Collection[str] = (), disabled: Collection[str] = ()
) -> list[Tool]:
    """The registered tools of the enabled toolsets (all if none is named), without the disabled ones."""
    known = toolsets()
    for name in (*enabled, *disabled):
        if name not in known and name not in (NO_TOOLSET, *ABSENT):
            raise unknown_toolset(name, known)
    if NO_TOOLSET in enabled:
        return []
    wanted = (set(enabled) or set(known)) - set(disabled)
    return [_bind(spec, bench) for spec in TOOLS.values() if spec.toolset in wanted and spec.needs(bench)]


def unknown_toolset(name: str, toolsets: Collection[str]) -> UserError:
    near = get_close_matches(name, list(toolsets), n=1)
    hint = f"Did you mean {near[0]}?" if near else f"Known: {', '.join(sorted(toolsets))}, {NO_TOOLSET}."
    return UserError(f"There is no toolset “{name}”.", hint=hint)


def _bind(spec: RegisteredTool, bench: Workbench) -> Tool:
    async def run(context: ToolContext, arguments: Mapping[str, object]) -> ToolResult:
        values = read_values(spec.name, spec.signature, arguments)
        result = await spec.run(ToolInvocation(bench=bench, context=context), **values)
        if isinstance(result, str):
            result = ToolResult(text=result)
        return ToolResult(text=cap(result.text), failed=result.failed)

    def approval(session: SessionId, arguments: Mapping[str, object]) -> ApprovalPrompt | None:
        if spec.approval_check is None or not bench.asks:
            return None
        values = read_values(spec.name, spec.signature, arguments)
        return spec.approval_check(bench, bench.backend.cwd(session), values)

    return Tool(
        name=spec.name,
        description=spec.signature.description,
        parameters=spec.signature.parameters,
        run=run,
        toolset=spec.toolset,
        effect=spec.effect,
        approval=Approval.NEVER if spec.approval_check is None else approval,
        parallel=spec.parallel,
        asks=spec.asks,
    )


def cap(text: str, limit: int = _LONGEST_RESULT) -> str:
    """At most so many characters: the beginning, the end, and a word about what is missing."""
    if len(text) <= limit:
        return text
    head, tail = limit * 2 // 5, limit * 3 // 5
    return f"{text[:head]}\n[… {len(text) - head - tail} characters left out …]\n{text[-tail:]}"
