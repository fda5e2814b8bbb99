"""Tools of each effect that act on a test's world, and a few for questions."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping

from hermes.agent.danger.scope import CommandScope
from hermes.agent.tools import make_tools
from hermes.agent.tools.code import CodeRules
from hermes.agent.tools.registry import CommandRules, JobActions, ProcessNews, Recall, SudoPassword
from hermes.domain.chats.channels import MessagingPort
from hermes.domain.ids import SessionId
from hermes.domain.ports.world import Backend, ProcessView
from hermes.domain.ports.world import World as BackendWorld
from hermes.domain.settings.tool_limits import CodeExecution
from hermes.domain.tools.services import ToolServices
from hermes.domain.tools.tool import (
    Approval,
    ApprovalPrompt,
    ChildTask,
    Clarification,
    Effect,
    Tool,
    ToolContext,
    ToolResult,
)

Act = Callable[[str, str, str], Awaitable[None]]
"""What happens to the world: (tool, key, token)."""
_TOKEN = {"type": "object", "properties": {"token": {"type": "string"}}}


def effect_tool(name: str, effect: Effect, act: Act, *, approval: Approval = Approval.NEVER) -> Tool:
    async def run(context: ToolContext, arguments: Mapping[str, object]) -> ToolResult:
        context.output(f"{name} works")
        token = str(arguments.get("token", ""))
        await act(name, context.key, token)
        return ToolResult(text=f"{name} did {token}")

    return Tool(
        name=name,
        description=f"A test tool with the effect {effect.value}.",
        parameters=_TOKEN,
        run=run,
        effect=effect,
        parallel=effect is Effect.READ,
        approval=_guard if approval is Approval.ASK else Approval.NEVER,
    )


async def _guard(session: SessionId, arguments: Mapping[str, object]) -> ApprovalPrompt | None:
    token = str(arguments.get("token", ""))
    return ApprovalPrompt(text=f"May I do {token}?", digest=f"do:{token}")


async def _never(context: ToolContext, arguments: Mapping[str, object]) -> ToolResult:
    raise AssertionError("a tool that asks is never run")


CLARIFY = Tool(
    name="clarify",
    description="Ask the person.",
    parameters={"type": "object", "properties": {"question": {"type": "string"}}},
    run=_never,
    asks=lambda arguments: Clarification(
        text=str(arguments.get("question", "Which one?")),
        options=tuple(str(option) for option in _options(arguments)),
    ),
)


DELEGATE = Tool(
    name="delegate",
    description="Let a turn of its own do something.",
    parameters={"type": "object", "properties": {"task": {"type": "string"}}},
    run=_never,
    asks=lambda arguments: ChildTask(text=str(arguments.get("task", "Do it."))),
)
"""Its calls are answered by child turns."""


class SilentNews:
    """Notes what a session would be told of its background processes."""

    def __init__(self) -> None:
        self.ends: list[ProcessView] = []
        self.lines: list[str] = []

    def check(self, context: ToolContext) -> None: ...

    async def expect(self, context: ToolContext, process: ProcessView, notify: bool) -> None: ...

    def wrote(
        self, context: ToolContext, process: ProcessView, lines: tuple[str, ...], outside: bool
    ) -> None:
        self.lines += lines

    def ended(self, context: ToolContext, process: ProcessView, notify: bool) -> None:
        self.ends.append(process)


def tool_services(
    *,
    backend: Backend,
    recall: Recall,
    scope_in: Callable[[BackendWorld], Awaitable[CommandScope]],
    asks: bool = True,
    news: ProcessNews | None = None,
    jobs: JobActions | None = None,
    post: MessagingPort | None = None,
    sudo: SudoPassword | None = None,
) -> ToolServices:
    """What the tools of a test's agent work with."""
    rules = CommandRules(scope_in=scope_in, asks=lambda: asks)
    given = {Backend: backend, Recall: recall, CommandRules: rules, ProcessNews: news or SilentNews()}
    given[CodeRules] = CodeRules(now=CodeExecution)
    return ToolServices({**given, JobActions: jobs, MessagingPort: post, SudoPassword: sudo})


def tools_of(services: ToolServices, *toolsets: str) -> list[Tool]:
    """The tools that Hermes brings along, of these toolsets if any are named."""
    return [tool for tool in make_tools(services) if not toolsets or tool.toolset in toolsets]


def _options(arguments: Mapping[str, object]) -> list[object]:
    options = arguments.get("options", [])
    return list(options) if isinstance(options, list) else []


def world_tools(act: Act) -> list[Tool]:
    """One tool of each effect, one that needs approval, and one that asks."""
    return [
        effect_tool("read", Effect.READ, act),
        effect_tool("keyed", Effect.KEYED, act),
        effect_tool("once", Effect.ONCE, act),
        effect_tool("danger", Effect.ONCE, act, approval=Approval.ASK),
        CLARIFY,
    ]
