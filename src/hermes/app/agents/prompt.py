"""The system prompt of an agent, made from its files, settings and memories. New sessions ask for it; it is
read anew when it is older than a moment, so a crowd of new sessions reads it once."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from datetime import date

from hermes import plugins
from hermes.agent.context.prompt import IDENTITY, build_prompt, describe_world
from hermes.domain.address import Source
from hermes.domain.border import Border, describe
from hermes.domain.clock import Clock, zone_named
from hermes.domain.concealing import Conceal
from hermes.domain.errors import HermesError
from hermes.domain.injection import Scan, findings
from hermes.domain.ports.agent import Memory
from hermes.domain.ports.world import World
from hermes.domain.session import FrozenPrompt, Session
from hermes.domain.settings.settings import Profile
from hermes.domain.text import one_line
from hermes.domain.toolbox import Toolbox
from hermes.state.memory.files import read_file
from hermes.state.settings.loader import LoadedSettings

log = logging.getLogger("hermes.app")
BUILT_IN = "files"
"""The memory that each agent has: its own files."""
_GOOD_FOR = 1.0
BLOCKED = "[BLOCKED: SOUL.md is left out, for it {why}.]"
NOTES_SECONDS = 8.0
"""How long a new session waits for a memory."""


@dataclass(slots=True, kw_only=True)
class SystemPrompt:
    profile: Profile
    toolbox: Toolbox
    place: Callable[[Source | None, str | None, str], Awaitable[World | None]]
    """Where the commands of what comes from there run, in a session with this folder and id; None if that is
    not known yet."""
    model: str
    clock: Clock
    memories: Mapping[str, Memory]
    """By the names of their plugins, in the order of the prompt."""
    conceal: Conceal = str
    """Takes loaded secrets out of it."""
    _notes: dict[str, Mapping[str, str]] = field(init=False, default_factory=dict)
    _texts: dict[World | None, tuple[float, str]] = field(init=False, default_factory=dict)

    async def freeze(self, session: Session | None, source: Source | None) -> FrozenPrompt:
        """The prompt as it is now, give or take a second; its text is the same for every session of the agent
        whose commands run in the same world, and its tools for all that come from the same place."""
        began_in = None if source is None else source.folder
        world = await self._world(
            source, began_in if session is None else session.workspace, "" if session is None else session.id
        )
        until, text = self._texts.get(world, (float("-inf"), ""))
        if self.clock.monotonic() >= until:
            # Side by side: a new session waits for all of it.
            reading = asyncio.to_thread(self._identity)
            identity, _ = await asyncio.gather(reading, asyncio.gather(*map(self._recall, self.memories)))
            text = self._build(identity, world)
            self._forget_old()
            self._texts[world] = (self.clock.monotonic() + _GOOD_FOR, text)
        return FrozenPrompt(text=text, tool_list=self.toolbox.freeze(session, source))

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

    def _forget_old(self) -> None:
        """Folders of sessions come and go."""
        now = self.clock.monotonic()
        self._texts = {world: kept for world, kept in self._texts.items() if now < kept[0]}

    async def _world(self, source: Source | None, folder: str | None, session: str) -> World | None:
        """None where the backend does not say; its commands will, when they are tried."""
        try:
            return await self.place(source, folder, session)
        except HermesError as error:
            log.warning("prompt.no_world agent=%s why=%s", self.profile.agent, error)
            return None

    def build(self) -> str:
        """For a session that has none of its own."""
        return self._build(self._identity(), None)

    def _identity(self) -> str:
        text = read_file(self.profile.home, "SOUL.md")
        if hits := findings(text, Scan.CONTEXT):
            log.warning("prompt.blocked file=SOUL.md why=%s", "; it ".join(hits))
            return f"{IDENTITY}\n\n{BLOCKED.format(why=', '.join(hits))}"
        return text

    def _build(self, identity: str, world: World | None) -> str:
        settings = self.profile.settings
        prompt = build_prompt(
            today=_today(self.clock, settings.timezone),
            identity=identity,
            tools=[tool.name for tool in self.toolbox.loaded],
            environment=None if world is None else describe_world(world),
            instructions=settings.agent.system_prompt,
            memory={
                title: text for name in self.memories for title, text in self._notes.get(name, {}).items()
            },
            model=self.model,
        )
        return self.conceal(prompt)


def _today(clock: Clock, timezone: str) -> date:
    return clock.now().astimezone(zone_named(timezone)).date()


def make_memories(profile: Profile, loaded: LoadedSettings) -> dict[str, Memory]:
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
    made = {name: plugins.make_memory(name, makers[name], profile) for name in (BUILT_IN, wanted) if name}
    return {name: memory for name, memory in made.items() if memory is not None}
