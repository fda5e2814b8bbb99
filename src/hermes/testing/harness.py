"""A whole gateway for a journey: a scripted model, the fake world, a real store, a clock. Reads like a
conversation: people write, `settle()` lets everything happen, and `world.seen()` is what they see."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from hermes import plugins
from hermes.agent.context.compress import BeforeCompress, Compressor, Summariser
from hermes.agent.context.transcript_messages import Role, messages
from hermes.agent.models.images import ImageAttachingProvider
from hermes.agent.models.roles import ChosenModel
from hermes.agent.run.loop import AgentLoop, LoopLimits
from hermes.app.agents.compression import summariser
from hermes.app.agents.registry import AgentRegistry
from hermes.app.agents.rewinding import AgentCheckpoints, able_to_rewind
from hermes.control.commands.registry import GatewayInfo
from hermes.control.core import MakeTitle, PersonOf, Runtime
from hermes.control.gateway import Gateway
from hermes.control.hooks.dispatch import Hooks
from hermes.control.outbound.targets import Aliases
from hermes.control.people.routing import agent_chooser
from hermes.control.turn.gates import gate_tool
from hermes.control.wiring import GatewayParts
from hermes.control.workers import Supervisor
from hermes.domain.chats.address import Source, read_platform
from hermes.domain.chats.message import Attachment
from hermes.domain.clock import Clock, SystemClock
from hermes.domain.errors import HermesError
from hermes.domain.ids import AgentId
from hermes.domain.models.model_facts import ModelFacts
from hermes.domain.models.usage import Usage
from hermes.domain.ports.agent import Agent, ModelRequest
from hermes.domain.ports.memory import MemoryProvider
from hermes.domain.ports.models import ModelOption, pick_model
from hermes.domain.ports.platform import Platform
from hermes.domain.ports.store import Store, Tx
from hermes.domain.ports.world import JobWorld, ProcessView
from hermes.domain.settings.live import LiveSettings
from hermes.domain.settings.platforms import PlatformSettings
from hermes.domain.settings.settings import Profile, Settings, StreamingSettings
from hermes.domain.tools.tool import Tool
from hermes.domain.tools.toolbox import Limits, Toolbox
from hermes.domain.turns.references import Expansion
from hermes.domain.turns.session import FrozenPrompt, Session
from hermes.domain.turns.turn import Turn
from hermes.state.files.media import MediaFiles
from hermes.state.files.outgoing import OutgoingFiles
from hermes.state.store.writer import SqliteStore
from hermes.testing.backends import fixed_rules, local_backend
from hermes.testing.clock import settle, working
from hermes.testing.crash import StoppingStore
from hermes.testing.model import Say, ScriptedModel, echo
from hermes.testing.platform import fake_platform
from hermes.testing.tools import world_tools
from hermes.testing.world import World

T = TypeVar("T")
PATIENCE = 40.0
SYSTEM = "You are a test."


async def _prompt(session: Session | None, source: Source | None) -> FrozenPrompt:
    return FrozenPrompt(text=SYSTEM)


def open_settings(**changes: object) -> Settings:
    """Settings of a gateway where everybody on the fake platform may speak, with quick drafts."""
    chosen: dict[str, object] = {
        "platforms": {"fake": PlatformSettings(allow_all_users=True)},
        "streaming": StreamingSettings(edit_interval=0.0, buffer_threshold=1),
        **changes,
    }
    return Settings(**chosen)  # type: ignore[arg-type]


class ListedModels:
    """A directory of models with fixed names."""

    def __init__(self, offered: Sequence[str], own: str) -> None:
        self._names = [*filter(None, (own,)), *offered]

    def names(self, agent: AgentId) -> Sequence[str]:
        return self._names

    def providers(self, agent: AgentId) -> Sequence[str]:
        return ()

    def describe(self, agent: AgentId, name: str) -> ModelOption:
        return ModelOption(name=name)

    async def find(self, agent: AgentId, text: str, provider: str, refresh: bool) -> ModelOption:
        return ModelOption(name=pick_model(text, self._names))

    async def adopt(self, option: ModelOption) -> str:
        return f"The default model is now {option.name}."


@dataclass(slots=True, kw_only=True)
class Journey:
    """One life of a gateway over a database file. Start another over the same file to see it recover."""

    folder: Path
    world: World = field(default_factory=World)
    script: Sequence[Say] | Callable[[ModelRequest], Say] = echo
    kind: str = "edits"
    settings: Settings = field(default_factory=open_settings)
    clock: Clock = field(default_factory=SystemClock)
    tools: Sequence[Tool] | None = None
    limits: LoopLimits | None = None
    window: int | None = None
    """How many tokens the model reads; with it conversations are compressed."""
    before_compress: BeforeCompress | None = None
    limits_of: Limits = lambda session, source: ()
    """What narrows the tools of a turn."""
    agents: Sequence[str] = ("main",)
    hooks: Hooks = field(default_factory=Hooks)
    jobs: JobWorld | None = None
    wrap_store: Callable[[Store], Store] = lambda store: store
    wrap_agent: Callable[[Agent], Agent] = lambda agent: agent
    keep: Callable[[Profile, Store], AgentCheckpoints] | None = None
    """Makes the checkpoints of an agent."""
    is_admin: Callable[[Source], bool] = lambda source: False
    restart: Callable[[], None] | None = None
    check_start: Callable[[], Awaitable[None]] | None = None
    update: Callable[[], Awaitable[str]] | None = None
    offered: Sequence[str] = ()
    processes: Callable[[str], Awaitable[list[ProcessView]]] | None = None
    transcribe: Callable[[Attachment], Awaitable[tuple[str, Usage | None]]] | None = None
    speak: Callable[[str, Sequence[str]], Awaitable[tuple[Attachment, Usage | None]]] | None = None
    expand: Callable[[Session, Turn], Awaitable[Expansion]] | None = None
    facts: ModelFacts = field(default_factory=ModelFacts)
    person: PersonOf | None = None
    memory_provider: MemoryProvider | None = None
    title: MakeTitle | None = None
    """Makes titles for sessions."""
    describe: Callable[[Attachment], Awaitable[tuple[str, Usage]]] | None = None
    """Describes pictures for a model that sees none."""
    channel_names: Callable[[], Aliases] = dict
    account: str = "fake"
    connect_platform: Callable[[], Platform] | None = None
    """Makes the adapter of a platform of its own, anew at every connection; the fake one if nobody says."""
    model: ScriptedModel = field(init=False)
    database: SqliteStore = field(init=False)
    store: Store = field(init=False)
    gateway: Gateway = field(init=False)
    platform: Platform = field(init=False)
    loops: Supervisor = field(init=False)
    _host: asyncio.Task[None] | None = field(init=False, default=None)
    _abandoned: bool = field(init=False, default=False)
    _before: set[asyncio.Task[object]] = field(init=False, default_factory=set)

    async def __aenter__(self) -> Journey:
        self._before = set(asyncio.all_tasks())
        plugins.load_commands()
        self.database = await SqliteStore(self.folder / "state.db").open()
        self.store = self.wrap_store(_Minded(self.database))
        self.model = ScriptedModel(self.script)
        self.loops = Supervisor(self.clock)
        self.platform = self._made()
        self.gateway = Gateway(
            GatewayParts(
                store=self.store,
                agents=AgentRegistry(map(AgentId, self.agents), self._runtime),
                live=LiveSettings(self.settings),
                clock=self.clock,
                loops=self.loops,
                capabilities={read_platform(self.account)[0]: self.platform.capabilities},
                around=GatewayInfo(
                    is_admin=self.is_admin,
                    can_restart=self.restart is not None,
                    check_start=self.check_start or _settings_are_fine,
                    update=self.update,
                    directory=ListedModels(self.offered, self.settings.model.default),
                ),
                restart=self.restart or _nobody,
                titled=self.title is not None,
                hooks=self.hooks,
                channel_names=self.channel_names,
                select=agent_chooser(self.hooks),
            )
        )
        await self.gateway.start()
        self.connect()
        return self

    async def __aexit__(self, *exc: object) -> None:
        if self._abandoned:
            return
        await self.disconnect()
        await self.gateway.stop(grace=1.0)
        await self.database.close()

    async def abandon(self) -> None:
        """End this life as a crash does: nothing is finished, nothing is told; only the file remains."""
        self._abandoned = True
        if isinstance(self.store, StoppingStore):
            self.store.kill()
        here = asyncio.current_task()
        tasks = [task for task in asyncio.all_tasks() if task is not here and task not in self._before]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self.database.close()

    async def _runtime(self, agent: AgentId) -> Runtime:
        tools = self.tools if self.tools is not None else world_tools(self.world.effect)
        store = self.store.scoped(agent)
        profile = Profile(agent=agent, home=self.folder, settings=self.settings)
        checkpoints = None if self.keep is None else self.keep(profile, store)
        if checkpoints is not None:
            tools = checkpoints.dress(tools)
        toolbox = Toolbox(tools, limits=self.limits_of, dress=lambda tool: gate_tool(self.hooks, tool))

        async def prompt(session: Session | None, source: Source | None) -> FrozenPrompt:
            frozen = await _prompt(session, source)
            tools = toolbox.freeze(session, source) if frozen.tool_list is None else frozen.tool_list
            return FrozenPrompt(text=frozen.text, tool_list=tools)

        media = MediaFiles(self.folder / "media", store, self.clock)
        compressor = None if self.window is None else self._compressor()
        loop = AgentLoop(
            provider=ImageAttachingProvider(self.model, media, lambda model: self.facts),
            toolbox=toolbox,
            model="scripted",
            system=SYSTEM,
            clock=self.clock,
            limits=self.limits or LoopLimits(silence=self.settings.agent.gateway_timeout),
            facts=lambda model: self.facts,
            compressor=compressor,
        )
        workspace = self.folder / "workspace"
        files = OutgoingFiles(
            media=media,
            backend=local_backend(home=self.folder, workspace=workspace, environ={"HOME": str(self.folder)}),
            rules=fixed_rules(allowed=[workspace, self.folder / "media"], homes=[self.folder]),
        )
        return Runtime(
            profile=profile,
            agent=self.wrap_agent(able_to_rewind(loop, checkpoints)),
            checkpoints=checkpoints,
            store=store,
            toolbox=toolbox,
            media=media,
            processes=self.processes,
            jobs=self.jobs,
            take_file=files.take,
            prompt=prompt,
            compression=compressor,
            transcribe=self.transcribe,
            speak=self.speak,
            person=self.person,
            memory_provider=self.memory_provider,
            title=self.title,
            describe=self.describe,
            expand=self.expand,
            facts=lambda model: self.facts,
        )

    def _compressor(self) -> Compressor:
        async def choose(model: str) -> Summariser:
            chosen = ChosenModel(provider=self.model, model=model, facts=ModelFacts(window=self.window))
            return summariser(chosen, self.clock)

        return Compressor(
            model="scripted",
            settings=lambda: self.settings.compression,
            facts=lambda model: ModelFacts(window=self.window),
            choose=choose,
            before=self.before_compress,
        )

    # --- the platform's connection ---

    def _made(self) -> Platform:
        if self.connect_platform is not None:
            return self.connect_platform()
        return fake_platform(self.kind, self.world, self.account)

    def connect(self) -> None:
        if self.connect_platform is None:
            self.gateway.attach(self.account, self.platform)
        self._host = asyncio.create_task(self._receive(), name="fake platform")

    async def disconnect(self) -> None:
        self.gateway.detach(self.account)
        if self._host is not None:
            self._host.cancel()
            await asyncio.wait([self._host])
            self._host = None

    async def _receive(self) -> None:
        while True:
            cursor = await self.gateway.cursor(self.account)
            if self.connect_platform is not None:
                # As the host does: what is sent opens connections, which only an adapter that runs closes.
                self.gateway.attach(self.account, self.platform)
            try:
                await self.platform.run(self._accept, cursor)
            except HermesError:
                await asyncio.sleep(0.01)
            if self.connect_platform is not None:
                self.platform = self._made()

    async def _accept(self, items: Sequence[object], cursor: str | None) -> None:
        if items or cursor is not None:
            await self.gateway.accept(self.account, items, cursor)  # type: ignore[arg-type]

    # --- reading ---

    async def until(self, what: Callable[[], bool], patience: float = PATIENCE) -> None:
        """Wait for something to become true; fail with what people see if it does not."""
        end = time.monotonic() + patience
        while not what():
            if time.monotonic() > end:
                raise AssertionError(f"it did not come to it; people see {self.world.seen()}")
            await asyncio.sleep(0.003)

    def heard(self, nth: int = -1) -> str:
        """The last message of a person as the model was told it, in the latest request or the nth."""
        request = self.model.requests[nth]
        told = messages(request.entries, shared=request.shared)
        return [message for message in told if message.role is Role.USER][-1].text

    async def until_seen(self, *texts: str, chat: str | None = None) -> list[str]:
        """Wait until each text stands in some message that people see."""
        await self.until(lambda: all(any(text in seen for seen in self.world.seen(chat)) for text in texts))
        return self.world.seen(chat)

    async def until_idle(self) -> None:
        """Wait until no row is waiting anywhere."""
        end = time.monotonic() + PATIENCE
        while not await self.idle():
            if time.monotonic() > end:
                raise AssertionError(f"it did not come to rest; people see {self.world.seen()}")
            await asyncio.sleep(0.005)

    async def idle(self) -> bool:
        """Everything was acknowledged, and no row waits for somebody to act on it."""

        def look(tx: Tx) -> bool:
            waiting = tx.outbox.waiting(self.account, 0, 1)
            return not (tx.inbox.pending(0, 1) or tx.recovery.due(0, 1) or waiting)

        return self.world.all_acked and await self.database.read(look)

    async def until_taken(self) -> None:
        """Wait until everything that was written is acknowledged and out of the inbox."""
        end = time.monotonic() + PATIENCE
        while not self.world.all_acked or await self.database.read(lambda tx: bool(tx.inbox.pending(0, 1))):
            if time.monotonic() > end:
                raise AssertionError("the inbox did not become empty")
            await asyncio.sleep(0.003)
        await settle()


class _Minded:
    """The store, with word to `settle` of what its threads still have to do."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def write(self, unit: Callable[[Tx], T], *, first: bool = False, ends: bool = False) -> T:
        with working("store"):
            return await self._store.write(unit, first=first, ends=ends)

    async def read(self, query: Callable[[Tx], T]) -> T:
        with working("store"):
            return await self._store.read(query)

    def scoped(self, agent: AgentId) -> Store:
        return _Minded(self._store.scoped(agent))


async def _settings_are_fine() -> None:
    """Stands where nothing would keep the gateway from starting again."""


def _nobody() -> None:
    """Stands where nobody begins the gateway anew."""
