"""Who takes how much of an agent's first request, from settings, files and the tools that are installed. It
asks nobody: no gateway, no model, no server of tools."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any

from msgspec import Struct

from hermes import plugins
from hermes.agent.context.project_files import find_project_files, most_chars
from hermes.agent.context.prompt import join_blocks
from hermes.agent.tools.delegate import Delegation
from hermes.app.agents.mcp import known_tools
from hermes.app.agents.prompt import BUILT_IN, SystemPrompt
from hermes.app.agents.tools import TurnLimits
from hermes.app.homes import WORKSPACE
from hermes.control.turn.chat_prompt import place_prompt
from hermes.domain.chats.address import LOCAL_DOOR, Address, Source, SourceKind
from hermes.domain.chats.capabilities import NO_ABILITIES
from hermes.domain.clock import SystemClock
from hermes.domain.errors import UserError
from hermes.domain.ids import AgentId
from hermes.domain.ports.world import BackendRequest
from hermes.domain.settings.settings import DOORS, PluginOptions, Profile
from hermes.domain.text import closest, one_line
from hermes.domain.tools.deferral import BRIDGE, schema_size
from hermes.domain.tools.services import ToolServices
from hermes.domain.tools.tool import Tool
from hermes.domain.tools.toolbox import Toolbox
from hermes.domain.turns.session import begin_session, make_turn, session_key
from hermes.domain.turns.turn import Cause, TurnInput
from hermes.domain.word import replace
from hermes.execution.local.backend import make_local
from hermes.state.home.homes import agent_home
from hermes.state.memory.files import read_printed
from hermes.state.settings.loader import LoadedSettings
from hermes.state.settings.model_access import model_of


class PromptPart(Struct, frozen=True, kw_only=True):
    """`tier` is stable, context, volatile, place, tools (loaded) or deferred: those take nothing but their
    line in `tool_search`."""

    tier: str
    name: str
    bytes: int


class _AnyService(ToolServices):
    """Stands for whatever tools need: here they are only described."""

    def has(self, kinds: Collection[Any]) -> bool:
        return True

    def plus(self, kind: type[Any], instance: Any) -> ToolServices:
        return self


class _PrintedNotes:
    """The agent's own notes as its file has them; memories of plugins are not asked."""

    def __init__(self, profile: Profile) -> None:
        self._profile = profile

    async def notes(self) -> Mapping[str, str]:
        if not self._profile.settings.memory.memory_enabled:
            return {}
        return {"What you have noted": read_printed(self._profile.home, "MEMORY.md")}


async def measure_prompt(
    home: Path, environ: Mapping[str, str], loaded: LoadedSettings, agent: AgentId, platform: str
) -> list[PromptPart]:
    settings = replace(loaded.settings, model=model_of(agent, loaded))
    profile = Profile(agent=agent, home=agent_home(home, agent, settings), settings=settings)
    source, abilities = _find_place(platform), _abilities(platform)
    toolbox = Toolbox(
        _describe_tools(profile),
        limits=TurnLimits(settings=lambda: settings, agent=agent),
        loading=settings.tools.rule,
    )
    workspace = Path(source.folder) if source.folder else profile.home / WORKSPACE
    request = BackendRequest(
        profile=profile, workspace=workspace, environ=environ, share=lambda key, make: make()
    )
    backend = make_local(request)
    prompt = SystemPrompt(
        profile=profile,
        toolbox=toolbox,
        place=lambda source, folder, session: backend.place(),
        files=lambda source, folder, session: backend.files,
        model=settings.model.default,
        clock=SystemClock(),
        memories={BUILT_IN: _PrintedNotes(profile)},
        conceal=loaded.secrets.conceal,
    )
    tiers = await prompt.measure(source)
    now = prompt.clock.now()
    session = begin_session(session_key(source, agent), source, now)
    turn = make_turn(session, Cause.MESSAGE, TurnInput(), now, source=source)
    place = place_prompt(lambda to: abilities, session, turn, settings.platform_hints)
    most = most_chars(settings.context_file_max_chars, None)
    wanted = settings.agent.context_files
    files = await find_project_files(backend.files, str(workspace), most) if wanted else []
    told = sum(_size(file.text) for file in files)
    parts = [
        PromptPart(tier="stable", name="identity, rules, instructions", bytes=_size(tiers.stable)),
        PromptPart(tier="context", name="the machine and the folder", bytes=_size(tiers.context) - told),
        *(PromptPart(tier="context", name=file.name, bytes=_size(file.text)) for file in files),
        PromptPart(tier="volatile", name="memory, date, model", bytes=_size(tiers.volatile)),
        PromptPart(tier="place", name=platform, bytes=_size(place)),
        *_tool_parts(toolbox, source),
    ]
    return [part for part in parts if part.bytes or part.tier == "deferred"]


def _tool_parts(toolbox: Toolbox, source: Source) -> Iterator[PromptPart]:
    loaded = {tool.name: tool for tool in toolbox.loaded_for(source)}
    for tool in loaded.values():
        tier = "bridge" if tool.name in BRIDGE else "tools"
        yield PromptPart(tier=tier, name=tool.name, bytes=schema_size(tool))
    for name in toolbox.usable_for(source).keys() - loaded.keys():
        yield PromptPart(tier="deferred", name=name, bytes=0)


def _describe_tools(profile: Profile) -> list[Tool]:
    offered = plugins.tools(profile.settings.plugins)
    now = profile.settings
    children = Delegation(settings=lambda: now.delegation, agents=lambda: now.helpers_of(profile.agent))
    services = _AnyService({Profile: profile, PluginOptions: PluginOptions(), Delegation: children})
    made = [plugins.make_tools(name, make, services) for name, make in offered.makers.items()]
    own = [tool for tools in made if isinstance(tools, tuple) for tool in tools]
    return [*own, *offered.plain, *known_tools(profile)]


def _find_place(platform: str) -> Source:
    """Where the first message comes from."""
    known = {*DOORS, *(manifest.name for manifest in plugins.platform_manifests())}
    if platform not in known:
        near = closest(platform, known)
        hint = f"Did you mean {near}?" if near else "`hermes platforms list` names them."
        raise UserError(f"There is no platform “{one_line(platform, 40)}”.", hint=hint)
    name = LOCAL_DOOR if platform == "cli" else platform
    folder = os.path.realpath(os.getcwd()) if name == LOCAL_DOOR else None
    kinds = {"cron": SourceKind.JOB, "webhook": SourceKind.WEBHOOK, "api_server": SourceKind.API}
    kind = kinds.get(name, SourceKind.PRIVATE)
    return Source(address=Address(platform=name, chat="1"), kind=kind, user="1", folder=folder)


def _abilities(platform: str) -> Any:
    manifests = {manifest.name: manifest.capabilities for manifest in plugins.platform_manifests()}
    return manifests.get(platform, NO_ABILITIES)


def _size(text: str) -> int:
    return len(join_blocks(text).encode())
