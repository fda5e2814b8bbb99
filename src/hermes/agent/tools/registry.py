"""The one registry of tools: each is a function that registers itself with what must be known about it.

A function takes its `ToolInvocation` first, then the model's arguments, and returns plain text.
`ToolRegistry.make` turns the registered functions into the tools of one agent."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import Any, Protocol

from msgspec import Struct, field

from hermes.agent.danger.scope import CommandScope
from hermes.agent.tools.approval_text import bind_to_world
from hermes.agent.tools.schema import ToolSignature, read_signature, read_values
from hermes.agent.tools.trail import SessionTrail
from hermes.domain.chats.rows import SearchHit
from hermes.domain.errors import HermesError, UserError, as_user_error
from hermes.domain.ids import SessionId
from hermes.domain.knowledge.skill import PlannedChange, SkillChange
from hermes.domain.ports.world import Backend, Command, ProcessView, World
from hermes.domain.settings.settings import ApprovalSettings
from hermes.domain.tools.services import ToolServices
from hermes.domain.tools.tool import (
    Approval,
    ApprovalCheck,
    ApprovalPrompt,
    Effect,
    Tool,
    ToolContext,
    ToolResult,
    Waiting,
)
from hermes.domain.word import replace

LONGEST_RESULT = 100_000
_LONGEST_MARK = 60


# --- what tools may need, beside the ports of `domain` ---


class Recall(Protocol):
    """Searches the agent's conversations: at most so many places where the words of a query were said, the
    best first, as far as the call's session may see them and without what its own turn said. Without words it
    gives what was said whole, in a session around a record, or the newest of all (no session)."""

    async def __call__(
        self, query: str, limit: int, context: ToolContext, session: str, around: int, /
    ) -> Sequence[SearchHit]: ...


class MemoryBook(Protocol):
    """What the agent notes. `asks` says whether a person is asked before each note."""

    def asks(self) -> bool: ...

    async def search(self, context: ToolContext, words: str) -> ToolResult: ...

    async def edit(
        self, context: ToolContext, action: str, target: str, text: str, old: str
    ) -> ToolResult: ...


class SkillBook(Protocol):
    """The skills that an agent has for whoever a call is for. `asks` says whether a person is asked before
    one is changed; `preview` tells what a change would do, and what is odd about its words."""

    def asks(self) -> bool: ...

    async def list(self, context: ToolContext, query: str, limit: int) -> str: ...

    async def view(self, context: ToolContext, name: str, file_path: str) -> str: ...

    async def preview(self, change: SkillChange) -> tuple[PlannedChange, Sequence[str]]: ...

    async def change(self, context: ToolContext, change: SkillChange) -> str: ...


class JobActions(Protocol):
    """Does with jobs what an action and what is said of a job ask for."""

    async def __call__(self, context: ToolContext, action: str, fields: Mapping[str, Any], /) -> str: ...


class ProcessNews(Protocol):
    """Tells a session of background processes that it started: that one ended, or wrote what is watched for.
    With `notify` the end is told in any case."""

    def check(self, context: ToolContext) -> None:
        """A `UserError` in a conversation that is over with this answer."""

    async def expect(self, context: ToolContext, process: ProcessView, notify: bool) -> None:
        """From now on it is waited for, also in the next life of the gateway."""

    def wrote(
        self, context: ToolContext, process: ProcessView, lines: tuple[str, ...], outside: bool
    ) -> None: ...

    def ended(self, context: ToolContext, process: ProcessView, notify: bool) -> None: ...


class SudoPassword(Protocol):
    """Gives the password that sudo wants in a call, after so many wrong ones. A `UserError` says why there is
    none, and what a person can do about it."""

    async def __call__(self, context: ToolContext, wrong: int, /) -> str: ...


async def _no(session: str) -> bool:
    return False


class CommandRules(Struct, frozen=True, kw_only=True):
    """`scope_in` tells what commands may do without asking in the backend's world. While `asks` says no,
    nobody is asked, except for what is asked for always, and what is never run is refused."""

    scope_in: Callable[[World], Awaitable[CommandScope]]
    asks: Callable[[], bool] = field(default=lambda: True)
    asks_all: Callable[[str], Awaitable[bool]] = field(default=_no)
    """Whether a person is asked before every command of a session."""
    approvals: Callable[[str], Awaitable[ApprovalSettings]] | None = None
    """What is denied or asked for in a session beside what `scope_in` says."""
    seconds: Callable[[], float] = field(default=lambda: Command(text="").timeout)
    """How long a command may take if the model does not say."""
    trail: SessionTrail = field(default_factory=SessionTrail)


_NOWHERE = CommandScope(cwd="/", workspace="/", home="/", wide=True, ask_all=True)


async def scope_of(services: ToolServices, session: str, *, opens: bool = True) -> CommandScope:
    """What a session's next command may do without asking, and where it would run. What touches no file there
    (not `opens`) is judged without opening that place."""
    backend, rules = services.get(Backend), services.get(CommandRules)
    world, cwd = await backend.place(session), await backend.cwd(session)
    ignored = await _ignored(backend, session, world) if opens else ()
    scope = await rules.scope_in(world)
    ask_all = scope.ask_all or await rules.asks_all(session)
    if rules.approvals is not None:
        given = await rules.approvals(session)
        scope = replace(scope, deny=(*scope.deny, *given.deny), ask=(*scope.ask, *given.ask))
    return replace(scope, cwd=cwd, elsewhere=world.elsewhere, ask_all=ask_all, ignored=ignored)


async def _ignored(backend: Backend, session: str, world: World) -> tuple[str, ...]:
    """What the workspace keeps from agents; a file that is there but cannot be read keeps everything."""
    from hermes.agent.danger.ignored import EVERYTHING, FILE, LARGEST, read_lines

    path = f"{world.workspace.rstrip('/')}/{FILE}"
    try:
        if await backend.files.stat(session, path) is None:
            return ()
    except HermesError as error:
        raise as_user_error(error) from error
    try:
        return read_lines(await backend.files.read(session, path, limit=LARGEST + 1))
    except UserError:
        return EVERYTHING


# --- tools ---


class ToolInvocation(Struct, frozen=True, kw_only=True):
    """A call that runs, and what its tool works with."""

    services: ToolServices
    context: ToolContext

    @property
    def backend(self) -> Backend:
        return self.services.get(Backend)

    @property
    def session(self) -> str:
        return self.context.session

    async def scope(self) -> CommandScope:
        return await scope_of(self.services, self.session)


class ApprovalCase(Struct, frozen=True, kw_only=True):
    """A call that is about to be judged: whose it is, and where its session's shell stands."""

    services: ToolServices
    session: SessionId
    scope: CommandScope


JudgeCall = Callable[[ApprovalCase, Mapping[str, Any]], Awaitable[ApprovalPrompt | None]]
"""What a person must approve before a call with these arguments."""


ToolFunction = Callable[..., Awaitable[str | ToolResult]]


class RegisteredTool(Struct, frozen=True, kw_only=True):
    """A registered tool. An agent without what it `needs` does not have it."""

    name: str
    signature: ToolSignature
    run: ToolFunction
    toolset: str
    effect: Effect
    parallel: bool = False
    seconds: float = 0.0
    approval_check: JudgeCall | None = None
    asks: Callable[[ToolServices, Mapping[str, object]], Waiting] | None = None
    describe: Callable[[ToolServices], str] | None = None
    """What its description says of the agent's own."""
    after_outside: JudgeCall | Approval | None = None
    needs: tuple[type, ...] = ()
    opens: bool = False
    """Whether it works with files or commands of the backend, not only in its name."""


class ToolRegistry(dict[str, RegisteredTool]):
    """Functions as tools, by name. A plugin has one of its own, whose `make` is its entry point."""

    def tool(
        self, toolset: str, effect: Effect, *, needs: type | tuple[type, ...] = (), **facts: Any
    ) -> Callable[[ToolFunction], ToolFunction]:
        """Register a function under its own name; `facts` are further fields of `RegisteredTool`."""

        wanted = needs if isinstance(needs, tuple) else (needs,)
        if "approval_check" in facts or callable(facts.get("after_outside")):
            wanted += (Backend, CommandRules)

        def register(run: ToolFunction) -> ToolFunction:
            self[run.__name__] = RegisteredTool(
                name=run.__name__,
                signature=read_signature(run),
                run=run,
                toolset=toolset,
                effect=effect,
                needs=wanted,
                opens=needs is Backend or (isinstance(needs, tuple) and Backend in needs),
                **facts,
            )
            return run

        return register

    def make(self, services: ToolServices) -> list[Tool]:
        """The tools of an agent: those that find what they need among its services."""
        return [_bind(spec, services) for spec in self.values() if services.has(spec.needs)]


TOOLS = ToolRegistry()
"""Those that Hermes brings along."""
tool = TOOLS.tool


def toolsets() -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for spec in TOOLS.values():
        found.setdefault(spec.toolset, []).append(spec.name)
    return found


def _bind(spec: RegisteredTool, services: ToolServices) -> Tool:
    async def run(context: ToolContext, arguments: Mapping[str, object]) -> ToolResult:
        values = read_values(spec.name, spec.signature, arguments)
        result = await spec.run(ToolInvocation(services=services, context=context), **values)
        if isinstance(result, str):
            result = ToolResult(text=result)
        moved = await _moved(services, context.session) if spec.opens else ""
        return replace(result, text=f"{moved}\n{cap(result.text)}" if moved else cap(result.text))

    async def place_of(session: SessionId, asks: bool) -> CommandScope:
        try:
            return await scope_of(services, session, opens=asks and spec.opens)
        except UserError:
            if spec.opens:
                raise
            return _NOWHERE  # whatever keeps commands from running: this one needs no place

    def checked_by(judge: JudgeCall) -> ApprovalCheck:
        async def approval(session: SessionId, arguments: Mapping[str, object]) -> ApprovalPrompt | None:
            asks = services.get(CommandRules).asks()
            scope = await place_of(session, asks)
            if not asks and not scope.ask:
                return None
            values = read_values(spec.name, spec.signature, arguments)
            case = ApprovalCase(services=services, session=session, scope=scope)
            prompt = await judge(case, values)
            if spec.opens:
                prompt = bind_to_world(prompt, case.scope.elsewhere)
            return prompt if asks or (prompt is not None and prompt.locked) else None

        return approval

    after = spec.after_outside
    return Tool(
        name=spec.name,
        description=spec.signature.description + (spec.describe(services) if spec.describe else ""),
        parameters=spec.signature.parameters,
        run=run,
        toolset=spec.toolset,
        effect=spec.effect,
        approval=Approval.NEVER if spec.approval_check is None else checked_by(spec.approval_check),
        parallel=spec.parallel,
        seconds=spec.seconds,
        asks=None if spec.asks is None else partial(spec.asks, services),
        after_outside=after if after is None or isinstance(after, Approval) else checked_by(after),
    )


async def _moved(services: ToolServices, session: str) -> str:
    """What a session hears of a world that is not the one it worked in before."""
    if not services.has((CommandRules,)):
        return ""
    world = await services.get(Backend).place(session)
    return await services.get(CommandRules).trail.enter(session, world)


def cap(text: str, limit: int = LONGEST_RESULT, *, missing: int = 0) -> str:
    """At most so many characters: the beginning, the end, and a word about what is left out, with the
    `missing` ones that were cut out of its middle before. What was capped once stays as it is."""
    if not missing and len(text) <= limit + _LONGEST_MARK:
        return text
    head, tail = limit * 2 // 5, limit * 3 // 5
    return f"{text[:head]}\n[… {len(text) + missing - head - tail} characters left out …]\n{text[-tail:]}"
