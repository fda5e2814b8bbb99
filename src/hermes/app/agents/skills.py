"""The skills of one agent: those of its home, of further folders, of a project that the owner works in, and
those that come with Hermes. The earlier ones take the place of later ones of the same name.

What is there is looked at again after a second, in a thread; who asks meanwhile is answered from memory."""

from __future__ import annotations

import asyncio
import logging
import os
import sys
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path

from msgspec import Struct

from hermes.control.people.standing import is_owner, is_trusted
from hermes.domain.chats.address import LOCAL_DOOR, Source, SourceKind
from hermes.domain.clock import Clock
from hermes.domain.errors import HermesError, UserError
from hermes.domain.knowledge.skill import (
    SKILL_FILE,
    PlannedChange,
    Skill,
    SkillChange,
    SkillTrust,
    catalogue,
    find_skills,
    pick_skill,
    slug,
)
from hermes.domain.ports.world import Backend, World
from hermes.domain.safety.injection import Scan, all_findings, findings
from hermes.domain.settings.settings import Profile, Settings
from hermes.domain.settings.skills import SkillSettings
from hermes.domain.text import one_line
from hermes.domain.tools.tool import ToolContext
from hermes.domain.tools.toolbox import ToolsetLimit
from hermes.state.home.homes import SKILLS_FOLDER
from hermes.state.skills.editing import apply_change, plan_change
from hermes.state.skills.installing import InstalledSkills
from hermes.state.skills.manifest import read_manifest
from hermes.state.skills.package import LARGEST_FILE, check_file_path
from hermes.state.skills.places import BUNDLED, OPT_OUT, PROJECT_FOLDERS
from hermes.state.skills.shelf import SkillFault, SkillShelf, list_files, read_file, read_text, with_trust

log = logging.getLogger("hermes.skills")
_GOOD_FOR = 1.0
_MOST_PROJECTS = 32
_MOST_NAMED = 60
_LONG = 0.05
_COPIES = ".hermes-skills"
_NO_SKILLS = ToolsetLimit(disabled=("skills",))
_OTHER_NAMES = {LOCAL_DOOR: "cli"}
_SYSTEM = {"darwin": "macos", "win32": "windows"}.get(sys.platform, sys.platform)
_LACKS = (
    "\n\n[It wants {names}, which commands here do not have. Where that matters, tell the user:"
    " security.broker lets commands use a secret that they never see, terminal.env_passthrough gives them"
    " other variables. Do not ask for a secret in the conversation.]"
)
_Offer = tuple[tuple[Skill, ...], str]


class SkillPlace(Struct, frozen=True, kw_only=True):
    """Where somebody asks from: their source, and the folder of a project whose skills are theirs."""

    source: Source | None = None
    project: str = ""


class AgentSkills:
    def __init__(
        self,
        profile: Profile,
        settings: Callable[[], Settings],
        clock: Clock,
        redact: Callable[[str], str] = str,
        act: Callable[[str], Awaitable[str]] | None = None,
    ) -> None:
        self._home: Path = profile.home
        self._agent = profile.agent
        self._settings = settings
        self._clock = clock
        self._redact = redact
        self._act = act
        self._own = SkillShelf(profile.home / SKILLS_FOLDER, SkillTrust.LOCAL)
        self._installed = InstalledSkills(profile.home)
        self._bundled = SkillShelf(BUNDLED, SkillTrust.BUNDLED)
        self._others: dict[str, SkillShelf] = {}
        self._projects: dict[str, list[SkillShelf]] = {}
        self._bare: set[str] = set()
        """Workspaces that had no skills of their own at the last scan."""
        self._offers: dict[tuple[frozenset[str], str], _Offer] = {}
        self._offered_by: SkillSettings | None = None
        self._until = float("-inf")
        self._alone = asyncio.Lock()
        self.backend: Backend | None = None

    # --- what there is ---

    def scan(self) -> None:
        """Reads files: call it off the loop."""
        self._bare = set()
        settings = self._settings().skills
        bundled = settings.bundled and not (self._home / OPT_OUT).exists()
        self._others = {name: self._others.get(name) or _external(name) for name in settings.external_dirs}
        shelves = [self._own, *self._others.values(), *([self._bundled] if bundled else [])]
        before = [shelf.skills for shelf in shelves]
        for shelf in shelves:
            shelf.scan()
        self._mark_installed()
        if not bundled:
            self._bundled.skills = ()
        for project in self._projects.values():
            for shelf in project:
                shelf.scan()
        if before != [shelf.skills for shelf in shelves] or self._projects:
            self._offers = {}

    def recover(self) -> None:
        """Finish what an earlier life began to install."""
        try:
            self._installed.recover()
        except (UserError, OSError) as error:
            log.warning("skills.not_recovered why=%s", error)

    def _mark_installed(self) -> None:
        """What was installed is as far to be trusted as where it came from."""
        try:
            pins = {str(self._own.folder / pin.folder): pin for pin in self._installed.pins().values()}
        except UserError as error:
            log.warning("skills.no_pins why=%s", error)
            return
        self._own.skills = tuple(
            with_trust(skill, pins[skill.folder].trust) if skill.folder in pins else skill
            for skill in self._own.skills
        )

    async def refresh(self) -> None:
        """See what has changed, at most once a second."""
        if self._clock.monotonic() < self._until:
            return
        async with self._alone:
            if self._clock.monotonic() >= self._until:
                began = self._clock.monotonic()
                await asyncio.to_thread(self.scan)
                took = self._clock.monotonic() - began
                # Thousands of folders are not looked through every second.
                self._until = began + took + (_GOOD_FOR if took < _LONG else took * 20)

    @property
    def faults(self) -> tuple[SkillFault, ...]:
        return tuple(fault for shelf in (self._own, *self._others.values()) for fault in shelf.faults)

    def all(self) -> Sequence[Skill]:
        return self._offer(SkillPlace())[0]

    def limits(self, source: Source | None) -> Sequence[ToolsetLimit]:
        """Where there is no skill, there are no tools for them."""
        return () if self._offer(SkillPlace(source=source))[0] or self._projects else (_NO_SKILLS,)

    async def catalogue(self, source: Source | None, world: World | None) -> str:
        """What a new session is told of them."""
        place = await self._place(source, world)
        return self._offer(place)[1]

    def _offer(self, place: SkillPlace) -> _Offer:
        """The skills for whoever asks from there, and how a prompt tells of them."""
        settings, names = self._settings().skills, _platform_names(place.source)
        if settings is not self._offered_by:
            self._offers, self._offered_by = {}, settings
        key = (names, place.project)
        offer = self._offers.get(key)
        if offer is None:
            disabled = {slug(name) or name for name in settings.disabled}
            for name in names & settings.platform_disabled.keys():
                disabled |= {slug(each) or each for each in settings.platform_disabled[name].disabled}
            shelves = [
                *self._projects.get(place.project, ()),
                self._own,
                *self._others.values(),
                self._bundled,
            ]
            named: dict[str, Skill] = {}
            for skill in (skill for shelf in shelves for skill in shelf.skills):
                if (not skill.systems or _SYSTEM in skill.systems) and not _gives_orders(skill):
                    named.setdefault(skill.name, skill)
            kept = () if "*" in disabled else sorted(named.keys() - disabled)
            skills = tuple(named[name] for name in kept)
            if len(self._offers) > 64:
                self._offers = {}
            offer = self._offers[key] = (skills, catalogue(skills))
        return offer

    async def _place(self, source: Source | None, world: World | None) -> SkillPlace:
        """Brings what is there up to date, the project of the owner's own sessions too."""
        project = ""
        await self.refresh()
        if world is not None and world.host_files and self._is_own(source):
            project = "" if world.workspace in self._bare else world.workspace
            if project and project not in self._projects:
                shelves = [SkillShelf(Path(project, name), SkillTrust.PROJECT) for name in PROJECT_FOLDERS]
                if await asyncio.to_thread(lambda: any(shelf.folder.is_dir() for shelf in shelves)):
                    while len(self._projects) >= _MOST_PROJECTS:
                        self._projects.pop(next(iter(self._projects)))
                    self._projects[project], self._until = shelves, float("-inf")
                    await self.refresh()
                else:
                    self._bare.add(project)
                    project = ""
        return SkillPlace(source=source, project=project)

    def _is_own(self, source: Source | None) -> bool:
        """Whether only the owner or an admin takes part."""
        if source is None or source.kind not in (SourceKind.PRIVATE, SourceKind.API):
            return source is not None and is_owner(source)
        return is_trusted(source, self._settings())

    async def _for_call(self, context: ToolContext) -> tuple[Sequence[Skill], World | None]:
        world = None
        if self.backend is not None:
            try:
                world = await self.backend.place(context.session)
            except HermesError:
                world = None  # skills are read by the gateway; only a project needs the place
        return self._offer(await self._place(context.source, world))[0], world

    # --- the tools ---

    def asks(self) -> bool:
        return self._settings().skills.write_approval

    async def list(self, context: ToolContext, query: str, limit: int) -> str:
        skills, _ = await self._for_call(context)
        hits = find_skills(query, skills, limit)
        if not hits:
            return f"No skill fits “{one_line(query, 80)}”; there are {len(skills)}."
        lines = [
            f"- {skill.name} ({skill.category or skill.trust}): {one_line(skill.description, 300)}"
            for skill in hits
        ]
        more = len(skills) - len(hits)
        return "\n".join([*lines, *([f"{more} more; narrow it down with query."] if more > 0 else [])])

    async def view(self, context: ToolContext, name: str, file_path: str) -> str:
        skills, world = await self._for_call(context)
        skill = pick_skill(name, skills)
        place = await self._copied(skill, context.session, world)
        if file_path and file_path != SKILL_FILE:
            return await asyncio.to_thread(self._read_part, skill, file_path)
        return await asyncio.to_thread(self._told, skill, context.session, place)

    async def preview(self, change: SkillChange) -> tuple[PlannedChange, Sequence[str]]:
        await self.refresh()
        there = next((skill for skill in self.all() if skill.name == change.name), None)
        plan = await asyncio.to_thread(plan_change, self._home, change, there)
        if plan.after is not None and self._redact(plan.after) != plan.after:
            raise UserError("It holds a secret, so it is not written.", hint="Leave the secret out.")
        return plan, all_findings(plan.after or "", Scan.CONTEXT)

    async def change(self, context: ToolContext, change: SkillChange) -> str:
        if not all(is_trusted(person, self._settings()) for person in (context.source, context.maker)):
            raise UserError("Only the owner and admins may change skills.")
        plan, _ = await self.preview(change)
        async with self._alone:
            await asyncio.to_thread(apply_change, self._home, plan)
            self._until = float("-inf")
        await self.refresh()
        does = "Deleted" if plan.after is None else "Created" if plan.before is None else "Changed"
        return f"{does} {plan.path}. New sessions are told of it; `skill_view` shows it now."

    # --- what is told ---

    async def load(self, names: Sequence[str], source: Source | None, session: str) -> str:
        await self.refresh()
        skills, parts = self._offer(SkillPlace(source=source))[0], list[str]()
        for name in dict.fromkeys(names):
            try:
                skill = pick_skill(name, skills)
                text = await asyncio.to_thread(self._told, skill, session, skill.folder)
                parts.append(f"[Follow this skill:]\n{text}\n[End of the skill {skill.name}]")
            except UserError as error:
                parts.append(f"[{error.message} Go on without it, and say so.]")
        return "\n\n".join(parts)

    async def act(self, words: str) -> str:
        if self._act is None:
            raise UserError("Skills cannot be changed here.")
        text = await self._act(words)
        self._until = float("-inf")
        await self.refresh()
        return text

    def _told(self, skill: Skill, session: str, place: str) -> str:
        text = read_text(Path(skill.folder), SKILL_FILE)
        body = read_manifest(text, Path(skill.folder).name).body
        if skill.trust is SkillTrust.PROJECT and (hits := all_findings(text, Scan.CONTEXT)):
            raise UserError(
                f"The skill {skill.name} of this project was not loaded, for it {', '.join(hits)}."
            )
        if self._settings().skills.template_vars:
            body = body.replace("${HERMES_SKILL_DIR}", place).replace("${HERMES_SESSION_ID}", session)
        names = list_files(Path(skill.folder))
        files = f"\n\nIts files, in {place} (skill_view with file_path reads them): " if names else ""
        more = f" and {len(names) - _MOST_NAMED} more" if len(names) > _MOST_NAMED else ""
        lacks = _LACKS.format(names=", ".join(lacking)) if (lacking := self._lacking(skill)) else ""
        return f"# Skill {skill.name}\n\n{body}{files}{', '.join(names[:_MOST_NAMED])}{more}{lacks}"

    def _lacking(self, skill: Skill) -> Sequence[str]:
        """Variables that a skill wants and commands of this agent are not given."""
        settings = self._settings()
        mine = (each for each in settings.security.broker.values() if {self._agent, "*"} & {*each.agents})
        given = {*settings.terminal.env_passthrough, *(each.variable for each in mine)}
        wanted = (want.removeprefix("variable ") for want in skill.wants if want.startswith("variable "))
        return [name for name in wanted if name.isascii() and name.isidentifier() and name not in given]

    def _read_part(self, skill: Skill, name: str) -> str:
        check_file_path(name)
        if any(part.startswith(".") for part in Path(name).parts):
            raise UserError(f"{one_line(name)} is hidden, so it is not read.")
        text = read_text(Path(skill.folder), name)
        if skill.trust is SkillTrust.PROJECT and (hits := all_findings(text, Scan.CONTEXT)):
            raise UserError(f"{name} was not loaded, for it {', '.join(hits)}.")
        return text

    async def _copied(self, skill: Skill, session: str, world: World | None) -> str:
        """Where commands find the skill's files: in a world of its own, in a copy in the workspace."""
        if world is None or world.host_files or self.backend is None:
            return skill.folder
        folder, place = Path(skill.folder), f"{world.workspace.rstrip('/')}/{_COPIES}/{skill.name}"
        for name in await asyncio.to_thread(list_files, folder):
            data = await asyncio.to_thread(read_file, folder, name, LARGEST_FILE)
            await self.backend.files.write(session, f"{place}/{name}", data, follow=False)
        return place


def _gives_orders(skill: Skill) -> bool:
    """A description stands in every prompt of its project, so an odd one costs the skill its place."""
    return skill.trust is SkillTrust.PROJECT and bool(findings(skill.description, Scan.CONTEXT))


def _external(name: str) -> SkillShelf:
    return SkillShelf(Path(os.path.expanduser(name)), SkillTrust.LOCAL)


def _platform_names(source: Source | None) -> frozenset[str]:
    """What the settings may call the platform that somebody writes from."""
    if source is None:
        return frozenset()
    credential, platform = source.address.credential, source.address.platform
    return frozenset((credential, platform, _OTHER_NAMES.get(platform, platform)))
