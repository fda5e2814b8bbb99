"""The skills in a folder, found again only where something changed.

A shelf is a folder with skills in it, in categories or not. It is looked through to a depth, for a number of
folders and for a time that are bounded, so that whatever lies there delays nobody."""

from __future__ import annotations

import logging
import os
import stat
import time
from collections.abc import Iterator
from pathlib import Path

from msgspec import Struct

from hermes.domain.errors import UserError
from hermes.domain.knowledge.skill import SKILL_FILE, Skill, SkillTrust
from hermes.domain.text import one_line, trouble_told
from hermes.domain.word import replace
from hermes.state.skills.manifest import LARGEST, read_manifest

log = logging.getLogger("hermes.skills")
DEEPEST, MOST_FOLDERS, SECONDS = 6, 2000, 2.0
_SKIPPED = frozenset({"node_modules", "__pycache__"})
_Stamp = tuple[int, int, int]


class SkillFault(Struct, frozen=True, kw_only=True):
    """A skill that is not offered, and why."""

    folder: str
    why: str


class SkillShelf:
    """The skills below a folder. `scan` reads files: call it off the loop."""

    def __init__(self, folder: Path, trust: SkillTrust) -> None:
        self.folder = folder
        self.trust = trust
        self.skills: tuple[Skill, ...] = ()
        self.faults: tuple[SkillFault, ...] = ()
        self._read: dict[str, tuple[_Stamp, Skill | SkillFault]] = {}
        self._warned: set[tuple[str, str]] = set()

    def scan(self) -> None:
        """Bring the skills up to date."""
        ends, fresh = time.monotonic() + SECONDS, dict[str, tuple[_Stamp, Skill | SkillFault]]()
        faults: list[SkillFault] = []
        for count, folder in enumerate(self._folders(), 1):
            if count > MOST_FOLDERS or time.monotonic() > ends:
                why = f"more than {MOST_FOLDERS:,} folders or {SECONDS:g} s: the rest was not looked at"
                faults.append(SkillFault(folder=str(self.folder), why=why))
                break
            stamp = _stamp_of(os.path.join(folder, SKILL_FILE))
            if stamp is not None:
                kept = self._read.get(folder)
                fresh[folder] = kept if kept is not None and kept[0] == stamp else (stamp, self._load(folder))
        self._read = fresh
        named: dict[str, Skill] = {}
        for _, each in fresh.values():
            if isinstance(each, SkillFault):
                faults.append(each)
            elif each.name in named:
                why = f"another skill is called {each.name}: {named[each.name].folder}"
                faults.append(SkillFault(folder=each.folder, why=why))
            else:
                named[each.name] = each
        self.skills = tuple(named[name] for name in sorted(named))
        self.faults = tuple(faults)
        self._report()

    def _folders(self) -> Iterator[str]:
        """Those below, without what lies in a skill; links are not followed."""
        waiting = [(str(self.folder), 0)]
        while waiting:
            folder, depth = waiting.pop()
            try:
                with os.scandir(folder) as inside:
                    entries = sorted(inside, key=lambda entry: entry.name, reverse=True)
            except OSError:
                continue
            yield folder
            if depth < DEEPEST and not any(entry.name == SKILL_FILE for entry in entries):
                waiting += [
                    (entry.path, depth + 1)
                    for entry in entries
                    if entry.is_dir(follow_symlinks=False)
                    and not entry.name.startswith(".")
                    and entry.name not in _SKIPPED
                ]

    def _load(self, folder: str) -> Skill | SkillFault:
        try:
            manifest = read_manifest(read_text(Path(folder), SKILL_FILE), os.path.basename(folder))
            if not manifest.name:
                raise UserError("It has no name that one could call it by.")
        except UserError as error:
            return SkillFault(folder=folder, why=error.message)
        above = os.path.relpath(os.path.dirname(folder), self.folder)
        return Skill(
            name=manifest.name,
            description=manifest.description,
            folder=folder,
            category=manifest.category or ("" if above == "." or above.startswith("..") else above),
            trust=self.trust,
            wants=manifest.wants,
            systems=manifest.systems,
            warnings=manifest.warnings,
        )

    def _report(self) -> None:
        """Each trouble once, not once a second."""
        odd = [(skill.folder, why) for skill in self.skills for why in skill.warnings]
        for folder, why in [*odd, *((fault.folder, fault.why) for fault in self.faults)]:
            if (folder, why) not in self._warned:
                log.warning("skill.odd folder=%s why=%s", folder, one_line(why, 200))
                self._warned.add((folder, why))


def _stamp_of(path: str) -> _Stamp | None:
    try:
        facts = os.lstat(path)
    except OSError:
        return None
    return (facts.st_mtime_ns, facts.st_size, facts.st_ino)


def with_trust(skill: Skill, trust: SkillTrust) -> Skill:
    return skill if skill.trust is trust else replace(skill, trust=trust)


def read_file(folder: Path, name: str, most: int = LARGEST) -> bytes:
    """A regular file of a skill. A `UserError` if it is none, too large, or reached through a link."""
    path, here = folder, os.path.realpath(folder)
    try:
        path = folder / name
        if os.path.realpath(path) != os.path.join(here, *Path(name).parts):
            raise UserError(f"{one_line(name)} is reached through a link, so it is not read.")
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        with os.fdopen(descriptor, "rb") as file:
            facts = os.fstat(file.fileno())
            if not stat.S_ISREG(facts.st_mode):
                raise UserError(f"{one_line(name)} is not a file.")
            if facts.st_size > most:
                raise UserError(f"{one_line(name)} is larger than {most // 1024} KB.")
            return file.read(most + 1)
    except (OSError, ValueError) as error:
        raise UserError(f"{one_line(name)} cannot be read: {trouble_told(error)}.") from error


def read_text(folder: Path, name: str, most: int = LARGEST) -> str:
    try:
        return read_file(folder, name, most).decode("utf-8")
    except UnicodeDecodeError as error:
        raise UserError(f"{one_line(name)} is not UTF-8 text.") from error


def list_files(folder: Path, most: int = 200) -> list[str]:
    """The files of a skill beside its SKILL.md, without hidden ones; links are not followed. At most so many:
    those of the outer folders first."""
    names, waiting = list[str](), [(str(folder), 0)]
    for here, depth in waiting:
        with os.scandir(here) as inside:
            entries = sorted(
                (entry for entry in inside if entry.name[0] != "."), key=lambda entry: entry.name
            )
        names += [
            os.path.relpath(each.path, folder) for each in entries if each.is_file(follow_symlinks=False)
        ]
        if len(names) > most:
            break
        if depth < DEEPEST:
            folders = [each for each in entries if each.is_dir(follow_symlinks=False)]
            waiting += [(each.path, depth + 1) for each in folders if each.name not in _SKIPPED]
    return [name for name in names if name != SKILL_FILE][:most]
