"""Skills that came from elsewhere: put into a home whole, pinned to their digest, replaced and removed in one
step.

An installation is staged in a folder beside the others and synced; then the lock file names it as decided;
then it takes its place. Whatever was decided and not done when the machine died is done by the next who looks
(`recover`), so there is the old skill or the new one, never half of one."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path, PurePosixPath
from typing import Any

import msgspec
from msgspec import Struct

from hermes.domain.errors import UserError
from hermes.domain.knowledge.skill import SKILL_FILE, SkillTrust
from hermes.domain.text import one_line
from hermes.domain.word import replace
from hermes.state.home.homes import SKILLS_FOLDER
from hermes.state.home.jsonfile import read_mapping
from hermes.state.home.wholefile import sync_folder, write_whole
from hermes.state.skills.package import SkillPackage, check_file_path, pack_folder
from hermes.state.skills.shelf import SkillShelf

LOCK_FILE = ".lock.json"
_STAGING, _TRASH = ".staging-", ".trash-"


class PinnedSkill(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An installed skill: where it came from, what it is pinned to, where it is below the folder of skills.
    `staged` is a folder that is to take its place."""

    name: str
    source: str
    digest: str
    trust: SkillTrust
    folder: str
    installed_at: datetime
    staged: str = ""


class InstalledSkills:
    """Those of one home. Blocking: use it off the loop."""

    def __init__(self, home: Path) -> None:
        self._home = home
        self._shelf = home / SKILLS_FOLDER

    def pins(self) -> dict[str, PinnedSkill]:
        return {name: pin for name, pin in self._read().items() if self._is_there(pin)}

    def files(self, pin: PinnedSkill) -> Mapping[str, bytes]:
        return pack_folder(self._shelf / pin.folder).files

    def files_or_none(self, pin: PinnedSkill) -> Mapping[str, bytes]:
        """Its files; none if it has been made something that is no skill."""
        try:
            return self.files(pin)
        except UserError:
            return {}

    def is_changed(self, pin: PinnedSkill) -> bool:
        """Whether somebody changed it since it was installed."""
        try:
            return pack_folder(self._shelf / pin.folder).digest != pin.digest
        except UserError:
            return True

    def recover(self) -> None:
        """Finish what was decided, and clear away what was not."""
        if self._shelf.is_dir():
            with self._alone():
                pins = self._read()
                for pin in [pin for pin in pins.values() if pin.staged]:
                    self._take_place(pins, pin)
                gone = [name for name, pin in pins.items() if not self._is_there(pin)]
                if gone:
                    self._write({name: pin for name, pin in pins.items() if name not in gone})
                for left in (*self._shelf.glob(f"{_STAGING}*"), *self._shelf.glob(f"{_TRASH}*")):
                    shutil.rmtree(left, ignore_errors=True)
                for part in self._shelf.glob(f".{LOCK_FILE}.*.part"):
                    part.unlink(missing_ok=True)

    def install(
        self,
        package: SkillPackage,
        source: str,
        trust: SkillTrust,
        category: str,
        now: datetime,
        *,
        seen: Mapping[str, bytes] | None = None,
    ) -> PinnedSkill:
        """Put a skill in place, instead of the one that was installed under its name before: `seen` are the
        files of that one which somebody agreed to lose."""
        self._shelf.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.recover()
        with self._alone():
            pins = self._read()
            before = pins.get(package.name)
            folder = before.folder if before else str(PurePosixPath(category, package.name))
            if before is None and (own := self._own_place(package.name, folder)):
                raise UserError(
                    f"There is a skill {package.name} of your own already.", hint=f"Move {own} away first."
                )
            if before is not None and seen is not None and self.files_or_none(before) != seen:
                raise UserError(f"{package.name} was changed meanwhile.", hint="Look at it again.")
            staged = self._stage(package)
            pin = PinnedSkill(
                name=package.name,
                source=source,
                digest=package.digest,
                trust=trust,
                folder=folder,
                installed_at=now,
                staged=staged.name,
            )
            pins[pin.name] = pin
            self._write(pins)
            return self._take_place(pins, pin)

    def remove(self, name: str) -> None:
        if name in self.pins():
            with self._alone():
                pins = self._read()
                if pin := pins.pop(name, None):
                    self._put_away(self._shelf / pin.folder)
                    self._write(pins)
                    return
        raise UserError(f"The skill {name} was not installed.", hint="hermes skills list shows them.")

    # --- steps ---

    def _own_place(self, name: str, folder: str) -> str:
        """Where a skill of this name lies that was not installed, wherever in the home."""
        shelf = SkillShelf(self._shelf, SkillTrust.LOCAL)
        shelf.scan()
        places = [skill.folder for skill in shelf.skills if skill.name == name]
        place = str(self._shelf / folder)
        return next(iter(places), place if os.path.lexists(place) else "")

    def _stage(self, package: SkillPackage) -> Path:
        staged = self._shelf / f"{_STAGING}{os.urandom(6).hex()}"
        folders = {staged}
        for name, data in package.files.items():
            path = staged / name
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            folders.update(folder for folder in path.parents if staged in (folder, *folder.parents))
            write_whole(path, data, 0o700 if data.startswith(b"#!") else 0o600)
        for folder in folders:
            sync_folder(folder)
        sync_folder(self._shelf)
        return staged

    def _take_place(self, pins: dict[str, PinnedSkill], pin: PinnedSkill) -> PinnedSkill:
        """From here on it is the new one, whatever happens: this can be done again from any step."""
        staged, place = self._shelf / pin.staged, self._shelf / pin.folder
        if staged.is_dir():
            place.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            if place.exists():
                self._put_away(place)
            staged.rename(place)
            sync_folder(place.parent)
        done = replace(pin, staged="")
        pins[pin.name] = done
        self._write(pins)
        return done

    def _put_away(self, place: Path) -> None:
        if place.is_dir():
            trash = self._shelf / f"{_TRASH}{os.urandom(6).hex()}"
            place.rename(trash)
            sync_folder(place.parent)
            shutil.rmtree(trash, ignore_errors=True)

    def _is_there(self, pin: PinnedSkill) -> bool:
        return bool(pin.staged) or (self._shelf / pin.folder / SKILL_FILE).exists()

    def _read(self) -> dict[str, PinnedSkill]:
        tree: Any = read_mapping(self._shelf / LOCK_FILE).get("skills", {})
        try:
            pins = msgspec.convert(tree, dict[str, PinnedSkill])
            for pin in pins.values():  # who wrote it was perhaps not us, and what it names is deleted
                check_file_path(pin.folder)
                if pin.staged and (not pin.staged.startswith(_STAGING) or "/" in pin.staged):
                    raise UserError(f"“{one_line(pin.staged)}” is no folder of an installation.")
            return pins
        except (msgspec.ValidationError, UserError) as error:
            message = f"{self._shelf / LOCK_FILE} is not a list of installed skills."
            raise UserError(message, hint="Mend it, or move it away.") from error

    def _write(self, pins: Mapping[str, PinnedSkill]) -> None:
        data = msgspec.json.format(msgspec.json.encode({"version": 1, "skills": pins}), indent=2)
        write_whole(self._shelf / LOCK_FILE, data)

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """One process at a time changes what is installed."""
        import fcntl

        descriptor = os.open(self._shelf, os.O_RDONLY)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            yield
        finally:
            os.close(descriptor)
