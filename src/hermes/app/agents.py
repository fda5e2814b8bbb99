"""The agents of a gateway: which model each has, and its runtime with tools, backend, prompt and loop."""

from __future__ import annotations

import asyncio
import json
import logging
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

from hermes import plugins
from hermes.agent.danger.paths import CommandScope
from hermes.agent.models.choose import NO_PROBE, ModelAccess, ModelChoice, stand_in
from hermes.agent.models.images import ImageAttachingProvider
from hermes.agent.models.registry import ModelRoute, Models, RoutedProvider
from hermes.agent.run.loop import AgentLoop, LoopLimits
from hermes.agent.tools.registry import Workbench
from hermes.app.homes import MEDIA, WORKSPACE, closed_homes, homes_for, is_wide, user_home
from hermes.app.jobs import HomeJobs, job_tool
from hermes.app.messaging import Messaging
from hermes.app.prompt import SystemPrompt
from hermes.app.tools import Inject, InjectingProvider, Toolsets, check_toolsets, choose_tools, redacting
from hermes.control.chores import HOURLY, Chore
from hermes.control.core import Runtime
from hermes.control.gateway import Gateway
from hermes.control.hooks.dispatch import Hooks
from hermes.control.turn.gates import gate_tools
from hermes.domain.clock import Clock, SystemClock, zone_named
from hermes.domain.errors import UserError
from hermes.domain.ids import MAIN_AGENT, AgentId
from hermes.domain.ports.agent import Provider
from hermes.domain.ports.platform import Platform
from hermes.domain.ports.store import Store, Tx
from hermes.domain.ports.world import Backend, Media, ProcessView
from hermes.domain.settings.settings import ModelSettings, Profile, Settings
from hermes.domain.text import one_line
from hermes.domain.tool import Tool, ToolContext
from hermes.domain.turn import Turn
from hermes.execution.local.backend import LocalBackend
from hermes.state.files.media import MediaFiles
from hermes.state.home.homes import INSIDE, agent_home
from hermes.state.settings.loader import LoadedSettings, model_of, model_routes
from hermes.state.store.tables.search import recall_from

log = logging.getLogger("hermes.app")
_REAL_MODEL = "model.real."
_KEPT = ("way", "model", "provider", "title", "base_url")


@dataclass(frozen=True, slots=True, kw_only=True)
class AppOverrides:
    """What a test or an embedding program brings along, instead of what settings and plugins say.

    `workspace` is where the agents' commands start, `toolsets` are the main agent's, `change` has the last
    word on the settings, `inject` on what a model is told, `in_memory` keeps nothing, and only where it
    `boots` do hooks hear of the start and BOOT.md runs."""

    provider: Provider | None = None
    tools: Sequence[Tool] | None = None
    platforms: Mapping[str, Platform] | None = None
    clock: Clock = field(default_factory=SystemClock)
    workspace: Path | None = None
    toolsets: Toolsets = field(default_factory=Toolsets)
    change: Callable[[Settings], Settings] | None = None
    inject: Inject | None = None
    in_memory: bool = False
    boots: bool = True


class AgentFactory:
    """Makes the runtimes of a gateway's agents, and owns what they share: models, routes, backends."""

    def __init__(
        self,
        *,
        home: Path,
        environ: Mapping[str, str],
        loaded: LoadedSettings,
        overrides: AppOverrides,
        messaging: Messaging,
        gateway: Callable[[], Gateway | None],
        stopping: Callable[[], bool],
    ) -> None:
        self._home = home
        self._environ = environ
        self._loaded = loaded
        self._overrides = overrides
        self._messaging = messaging
        self._gateway = gateway
        self._stopping = stopping
        self._waking: set[asyncio.Task[Turn | None]] = set()
        self._models = Models()
        self._choices: dict[AgentId, ModelChoice] = {}
        self._routes: dict[str, ModelRoute] = {}
        self._backends: list[Backend] = []
        self._closed: tuple[str, ...] = ()
        self._hooks = Hooks()

    @property
    def choice(self) -> ModelChoice:
        """The main agent's model."""
        return self._choices.get(MAIN_AGENT) or ModelChoice.given(self._loaded.settings.model.default)

    @property
    def aliases(self) -> dict[str, str]:
        return {name: route.model for name, route in self._routes.items()}

    def offered(self, agent: AgentId) -> Sequence[str]:
        """The models that the agent's server offers."""
        return self._models.offered.get(agent, ())

    def model_name(self, profile: Profile) -> str:
        choice = self._choices.get(profile.agent)
        return profile.settings.model.default if choice is None else choice.model

    async def close(self) -> None:
        for backend in self._backends:
            await backend.close()
        await self._models.close()

    # --- models ---

    async def choose_models(self, store: Store, chores: list[Chore]) -> None:
        settings = self._loaded.settings
        routes = model_routes(self._loaded)
        given = self._overrides.provider
        if given is not None:
            self._routes = {
                name: ModelRoute(provider=given, model=one.default) for name, one in routes.items()
            }
            return
        makers = await asyncio.to_thread(plugins.providers)
        self._models = Models(makers, probe=not self._loaded.variables.get(NO_PROBE))
        wanted = {
            agent: model_of(agent, self._loaded) for agent in (MAIN_AGENT, *map(AgentId, settings.agents))
        }
        chosen = {agent: await self._models.choose(model) for agent, model in wanted.items()}
        self._choices = await keep_real_models(store, chosen, wanted)
        self._routes = await self._models.routes(routes)
        refresh = partial(self._models.refresh, self._choices)
        chores.append(Chore(name="model list", every=HOURLY, run=refresh, first=30.0))
        log.info("model.chosen %s", self.choice.line)

    def model_facts(self) -> dict[str, str]:
        choice = self.choice
        return {
            "model": choice.line,
            "model_name": choice.model,
            "model_provider": choice.provider,
            "model_why": choice.why,
        }

    def provider(self, profile: Profile, media: Media) -> Provider:
        provider = self._overrides.provider
        if provider is None:
            provider = self._models.provider(self._choices[profile.agent], profile.settings.model)
        provider = ImageAttachingProvider(RoutedProvider(provider, self._routes), media)
        return (
            provider
            if self._overrides.inject is None
            else InjectingProvider(provider, self._overrides.inject)
        )

    # --- agents ---

    def runtimes(self, store: Store, hooks: Hooks) -> dict[AgentId, Runtime]:
        """Reads plugins and makes folders, so it runs in a thread."""
        settings, self._hooks = self._loaded.settings, hooks
        plugins.load_commands()
        self._closed = closed_homes(self._home, self._environ, settings)
        added = plugins.tools() if self._overrides.tools is None else ()
        check_toolsets(self._loaded, added)
        runtimes: dict[AgentId, Runtime] = {}
        for agent in (MAIN_AGENT, *map(AgentId, settings.agents)):
            try:
                home = agent_home(self._home, agent, settings)
                home.mkdir(mode=0o700, parents=True, exist_ok=True)
                own = replace(settings, model=model_of(agent, self._loaded))
                runtimes[agent] = self._runtime(
                    Profile(agent=agent, home=home, settings=own), store.scoped(agent), added
                )
            except (UserError, OSError) as error:
                if agent == MAIN_AGENT:
                    raise error if isinstance(error, UserError) else UserError(str(error)) from error
                log.error("agent.left_out agent=%s why=%s", agent, error)
        return runtimes

    def _runtime(self, profile: Profile, store: Store, added: Sequence[Tool]) -> Runtime:
        settings = profile.settings
        workspace = self.workspace(profile)
        workspace.mkdir(mode=0o700, parents=True, exist_ok=True)
        tools = self._overrides.tools
        backend: LocalBackend | None = None
        if tools is None:
            backend = LocalBackend(
                home=profile.home,
                environ={**self._environ, INSIDE: "1"},
                workspace=workspace,
                passthrough=(INSIDE,),
            )
            self._backends.append(backend)
            tools = self.tools(profile, store, backend, workspace, added)
        choice = self._choices.get(profile.agent)
        model = self.model_name(profile)
        prompt = SystemPrompt(
            profile=profile,
            tools=[tool.name for tool in tools],
            workspace=workspace,
            model=model,
            clock=self._overrides.clock,
        )
        media = MediaFiles(profile.home / MEDIA, store, self._overrides.clock)
        loop = AgentLoop(
            provider=self.provider(profile, media),
            tools=gate_tools(self._hooks, redacting(tools, self._loaded.secrets.redact)),
            model=model,
            system=lambda session: prompt.build(),
            clock=self._overrides.clock,
            limits=LoopLimits(iterations=settings.agent.max_turns, retries=settings.agent.api_max_retries),
        )
        known_as = model if choice is None else f"{choice.model} ({choice.provider})"
        jobs = None if self._overrides.in_memory else HomeJobs(profile.home, self._environ, backend)
        return Runtime(
            profile=profile,
            agent=loop,
            store=store,
            model=known_as,
            prompt=prompt.current,
            tools=tools,
            media=media,
            jobs=jobs,
            take_file=self._messaging.files(profile, workspace, media, profile.home / MEDIA, self._closed),
            processes=None if backend is None else backend.processes.list,
        )

    def workspace(self, profile: Profile) -> Path:
        return self._overrides.workspace or profile.home / WORKSPACE

    def tools(
        self, profile: Profile, store: Store, backend: LocalBackend, workspace: Path, added: Sequence[Tool]
    ) -> list[Tool]:
        bench = Workbench(
            backend=backend,
            recall=recall_from(store, zone_named(profile.settings.timezone)),
            scope=CommandScope(
                cwd=str(workspace),
                workspace=str(workspace),
                home=user_home(self._environ),
                wide=is_wide(workspace, self._environ),
                homes=homes_for(profile, workspace, self._closed),
                own_pids=(os.getpid(),),
                deny=profile.settings.approvals.deny,
            ),
            find_process=backend.processes.find,
            asks=profile.settings.approvals.mode != "off",
            ended=self._tell_ended,
            jobs=None if self._overrides.in_memory else job_tool(self._gateway),
            post=self._messaging.office,
        )
        chosen = self._overrides.toolsets
        hosted = profile.settings.agents.get(profile.agent)
        if hosted is not None:
            chosen = Toolsets(enabled=hosted.enabled_toolsets, disabled=hosted.disabled_toolsets)
        return choose_tools(bench, chosen, added, profile.settings)

    def _tell_ended(self, context: ToolContext, process: ProcessView) -> None:
        """A background process is over: its session hears of it in a turn of its own."""
        gateway = None if self._stopping() else self._gateway()
        if gateway is None:
            return
        command = one_line(process.command, 200)
        words = f"[Background process {process.id} ended with code {process.code}: {command}]"
        work = gateway.wake(context.agent, context.session, words)
        task = asyncio.get_running_loop().create_task(work, name=f"wake {context.session}")
        self._waking.add(task)
        task.add_done_callback(self._waking.discard)


# --- the real model that each agent had ---


async def keep_real_models(
    store: Store, choices: Mapping[AgentId, ModelChoice], settings: Mapping[AgentId, ModelSettings]
) -> dict[AgentId, ModelChoice]:
    """The choices without a demo model where a real one answered before; what is real now is remembered:
    after a lost key or an empty config.yaml the demo model must not answer people who were talking to it."""
    kept = await store.read(lambda tx: {agent: tx.facts.get(_REAL_MODEL + agent) for agent in choices})
    made = {
        agent: stand_in(
            choice, settings[agent], _read_choice(kept[agent]) or _read_choice(kept.get(MAIN_AGENT))
        )
        for agent, choice in choices.items()
    }
    real = {
        agent: _spell_choice(choice)
        for agent, choice in made.items()
        if choice.way in (ModelAccess.HTTP, ModelAccess.PLUGIN)
    }
    changed = {agent: text for agent, text in real.items() if text != kept[agent]}

    def write(tx: Tx) -> None:
        for agent, text in changed.items():
            tx.facts.put(_REAL_MODEL + agent, text)

    if changed:
        await store.write(write)
    return made


def _spell_choice(choice: ModelChoice) -> str:
    """Without its key."""
    return json.dumps({name: getattr(choice, name) for name in _KEPT})


def _read_choice(text: str | None) -> ModelChoice | None:
    try:
        fields = json.loads(text or "null")
        return ModelChoice(**{**fields, "way": ModelAccess(fields["way"])})
    except (ValueError, TypeError, LookupError):
        return None
