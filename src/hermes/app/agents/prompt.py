"""The system prompt of an agent, made from its files, settings and memories. New sessions ask for it; it is
read anew when it is older than a moment, so a crowd of new sessions reads it once."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path

from hermes import plugins
from hermes.agent.context.project_files import (
    BLOCKED,
    PROJECT_NAMES,
    RULES,
    UPWARD,
    ProjectFile,
    find_project_files,
    most_chars,
)
from hermes.agent.context.prompt import IDENTITY, PromptTiers, build_prompt, describe_world, join_blocks
from hermes.domain.chats.address import Source
from hermes.domain.clock import Clock, zone_named
from hermes.domain.errors import HermesError
from hermes.domain.ports.agent import Memory
from hermes.domain.ports.world import Files, World
from hermes.domain.safety.concealing import Conceal
from hermes.domain.safety.injection import Scan, all_findings
from hermes.domain.settings.declaring import Secret
from hermes.domain.settings.settings import Profile
from hermes.domain.system.border import Border, describe
from hermes.domain.text import one_line
from hermes.domain.tools.toolbox import Toolbox
from hermes.domain.turns.session import FrozenPrompt, Session
from hermes.domain.word import replace
from hermes.state.memory.files import read_soul
from hermes.state.settings.loader import LoadedSettings

log = logging.getLogger("hermes.app")
BUILT_IN = "files"
"""The memory that each agent has: its own files."""
_GOOD_FOR = 1.0
_READS_SKILLS = "skill_view"
NOTES_SECONDS = 8.0
"""How long a new session waits for a memory."""
FILES_SECONDS = 5.0
"""How long it waits for what its project says."""
_Reading = tuple[World | None, bool, bool]
"""What the tiers are read for: a world, without rules or with them, with a project's files or without."""


@dataclass(slots=True, kw_only=True)
class SystemPrompt:
    profile: Profile
    toolbox: Toolbox
    place: Callable[[Source | None, str | None, str], Awaitable[World | None]]
    """Where the commands of what comes from there run, in a session with this folder and id; None if that is
    not known yet."""
    files: Callable[[Source | None, str | None, str], Files | None]
    """The files there, as those commands see them; None for people whose folders hold no project."""
    model: str
    clock: Clock
    memories: Mapping[str, Memory]
    """By the names of their plugins, in the order of the prompt."""
    window: Callable[[], int | None] = lambda: None
    skills: Callable[[Source | None, World | None], Awaitable[str]] | None = None
    """Tells which skills there are, for what comes from there."""
    conceal: Conceal = str
    """Takes loaded secrets out of it."""
    _notes: dict[str, Mapping[str, str]] = field(init=False, default_factory=dict)
    _tiers: dict[_Reading, tuple[float, PromptTiers]] = field(init=False, default_factory=dict)
    _alone: dict[_Reading, asyncio.Lock] = field(init=False, default_factory=dict)

    async def freeze(self, session: Session | None, source: Source | None) -> FrozenPrompt:
        """The prompt as it is now, give or take a second; its texts are the same for every session of the
        agent whose commands run in the same world, and its tools for all that come from the same place."""
        folder = source.folder if session is None and source is not None else None
        folder = folder if session is None else session.workspace
        name, plain = "" if session is None else session.id, source is not None and source.ignore_rules
        world = await self._world(source, folder, name)
        files = None if world is None or plain else self.files(source, folder, name)
        key = (world, plain, files is not None)
        tiers = self._fresh(key) or await self._read_once(key, files)
        skills = "" if self.skills is None else self.conceal(await self.skills(source, world))
        if _READS_SKILLS not in self.toolbox.usable_for(source):
            skills = ""
        context = join_blocks(tiers.context, skills, tiers.volatile)
        tool_list = self.toolbox.freeze(session, source)
        return FrozenPrompt(text=tiers.stable, context=context, tool_list=tool_list)

    async def measure(self, source: Source | None) -> PromptTiers:
        """The tiers as they would be told now."""
        world = await self._world(source, None, "")
        return await self._read_all(world, self.files(source, None, ""), plain=False)

    def _fresh(self, key: _Reading) -> PromptTiers | None:
        until, tiers = self._tiers.get(key, (float("-inf"), None))
        return tiers if self.clock.monotonic() < until else None

    async def _read_once(self, key: _Reading, files: Files | None) -> PromptTiers:
        """Whoever comes while it is being read waits for that reading."""
        lock = self._alone.setdefault(key, asyncio.Lock())
        async with lock:
            tiers = self._fresh(key)
            if tiers is None:
                tiers = await self._read_all(key[0], files, plain=key[1])
                self._forget_old()
                self._tiers[key] = (self.clock.monotonic() + _GOOD_FOR, tiers)
        self._alone.pop(key, None)
        return tiers

    async def _read_all(self, world: World | None, files: Files | None, *, plain: bool) -> PromptTiers:
        """Side by side: a new session waits for all of it."""
        reading = _nothing() if plain else asyncio.to_thread(self._identity)
        identity, project, _ = await asyncio.gather(
            reading, self._project(world, files), asyncio.gather(*map(self._recall, self.memories))
        )
        return self._build(identity, world, project)

    async def _project(self, world: World | None, files: Files | None) -> Sequence[ProjectFile]:
        """What the project in the workspace says. Nobody waits long for it, and no sandbox is opened for
        files that are not there."""
        if world is None or files is None or not self.profile.settings.agent.context_files:
            return ()
        if world.host_folder and not await asyncio.to_thread(_may_hold_project, world.host_folder):
            return ()
        most = most_chars(self.profile.settings.context_file_max_chars, self.window())
        try:
            async with asyncio.timeout(FILES_SECONDS):
                return await find_project_files(files, world.workspace, most)
        except (HermesError, TimeoutError) as error:
            log.warning("prompt.no_project agent=%s why=%s", self.profile.agent, describe(error))
            return ()

    async def _recall(self, name: str) -> None:
        """Ask a memory for its notes; one that fails keeps nobody from talking, and its last notes stand."""
        try:
            async with asyncio.timeout(NOTES_SECONDS):
                with Border():
                    notes = await self.memories[name].notes()
                    self._notes[name] = {str(title): str(text) for title, text in notes.items()}
        except Exception as error:  # a plugin's code may raise anything
            why = one_line(describe(error), 200)
            log.warning("memory.failed memory=%s why=%s", name, why)

    def forget(self) -> None:
        """Read everything anew for the next session."""
        self._tiers.clear()

    def _forget_old(self) -> None:
        """Folders of sessions come and go."""
        now = self.clock.monotonic()
        self._tiers = {key: kept for key, kept in self._tiers.items() if now < kept[0]}

    async def _world(self, source: Source | None, folder: str | None, session: str) -> World | None:
        """None where the backend does not say; its commands will, when they are tried."""
        try:
            return await self.place(source, folder, session)
        except HermesError as error:
            log.warning("prompt.no_world agent=%s why=%s", self.profile.agent, error)
            return None

    def build(self) -> str:
        """For a session that has none of its own."""
        return str(self._build(self._identity(), None, ()))

    def _identity(self) -> str:
        text = read_soul(self.profile.home)
        if hits := all_findings(text, Scan.CONTEXT):
            log.warning("prompt.blocked file=SOUL.md why=%s", "; it ".join(hits))
            return f"{IDENTITY}\n\n{BLOCKED.format(name='SOUL.md', why=', '.join(hits))}"
        return text

    def _build(self, identity: str, world: World | None, project: Sequence[ProjectFile]) -> PromptTiers:
        settings = self.profile.settings
        tiers = build_prompt(
            today=_today(self.clock, settings.timezone),
            identity=identity,
            tools=[tool.name for tool in self.toolbox.loaded],
            environment=None if world is None else describe_world(world),
            files=project,
            instructions=settings.agent.system_prompt,
            memory={
                title: text for name in self.memories for title, text in self._notes.get(name, {}).items()
            },
            model=self.model,
        )
        return PromptTiers(
            stable=self.conceal(tiers.stable),
            context=self.conceal(tiers.context),
            volatile=self.conceal(tiers.volatile),
        )


async def _nothing() -> str:
    return ""


def _may_hold_project(workspace: str) -> bool:
    """A quick look by our own eyes. What is there is read by the session's."""
    here = Path(workspace)
    above = (folder / name for folder in (here, *here.parents) for name in UPWARD)
    names = (*PROJECT_NAMES, RULES)
    return any(os.path.lexists(path) for path in (*(here / name for name in names), *above))


def _today(clock: Clock, timezone: str) -> date:
    # The machine's own zone needs no rules, and to load them takes longer than the rest of a prompt.
    return clock.now().astimezone(zone_named(timezone) if timezone else None).date()


def make_memories(own: Memory, profile: Profile, loaded: LoadedSettings) -> dict[str, Memory]:
    """May import plugins: call it off the loop. A name that no plugin has is a `SettingsError`; a plugin that
    breaks is left out."""
    makers, wanted = plugins.memories(profile.settings.plugins), profile.settings.memory.provider
    wanted = "" if wanted == "none" else wanted
    if wanted and wanted not in makers and plugins.is_installed(plugins.MEMORY, wanted):
        wanted = ""  # it is broken or disabled, and that was told of
    if wanted and wanted not in makers:
        others = ", ".join(sorted(makers.keys() - {BUILT_IN})) or "none is installed"
        message = f"memory.provider: there is no memory “{wanted}”."
        raise loaded.wrong("memory.provider", message, f"Plugins that bring one: {others}.")
    made = plugins.make_memory(wanted, makers[wanted], _with_key(profile, loaded)) if wanted else None
    return {BUILT_IN: own} if made is None else {BUILT_IN: own, wanted: made}


def _with_key(profile: Profile, loaded: LoadedSettings) -> Profile:
    """Settings hold no secret of the environment; a memory is given its own."""
    settings = profile.settings
    for name in ("hindsight", "honcho"):
        chosen = getattr(settings, name)
        key = chosen.api_key or Secret(loaded.variable(f"{name.upper()}_API_KEY"))
        settings = replace(settings, **{name: replace(chosen, api_key=key)})
    return replace(profile, settings=settings)
