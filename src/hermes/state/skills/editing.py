"""Changes that an agent makes to the skills of its home: planned first, so that a person sees what they are,
then made in one step."""

from __future__ import annotations

import os
import shutil
from pathlib import Path, PurePosixPath

from hermes.domain.errors import UserError
from hermes.domain.knowledge.skill import (
    SKILL_FILE,
    PlannedChange,
    Skill,
    SkillChange,
    SkillTrust,
    check_name,
    slug,
)
from hermes.domain.text import one_line
from hermes.state.home.homes import SKILLS_FOLDER
from hermes.state.home.wholefile import sync_folder, write_whole
from hermes.state.skills.manifest import LARGEST, check_strict
from hermes.state.skills.shelf import read_text

_FOLDERS = ("references", "templates", "scripts", "assets")
_LONGEST_PATH = 120


def plan_change(home: Path, change: SkillChange, there: Skill | None) -> PlannedChange:
    """What a change would do; `there` is the skill of this name that the agent has. A `UserError` if it
    cannot be done."""
    if change.action == "create":
        return _plan_creation(home, change, there)
    if there is None:
        raise UserError(f"There is no skill “{one_line(change.name, 70)}”.", hint="skills_list shows them.")
    if there.trust in (SkillTrust.BUNDLED, SkillTrust.PROJECT) or home not in Path(there.folder).parents:
        raise UserError(
            f"{there.name} is not among the agent's own skills, so it stays as it is.",
            hint="Create one of the same name: it takes its place.",
        )
    folder = Path(there.folder)
    where = folder.relative_to(home / SKILLS_FOLDER)
    if change.action == "delete" and not change.file_path:
        return PlannedChange(path=str(where), before=read_text(folder, SKILL_FILE), after=None)
    name = check_path(change.file_path) if change.file_path else SKILL_FILE
    above = Path(os.path.realpath(folder), name).parent
    if os.path.realpath(above) != str(above):
        raise UserError(f"{name} is reached through a link, so it is not written.")
    before = read_text(folder, name) if os.path.lexists(folder / name) else None
    after = _after(change, name, before)
    if name == SKILL_FILE and after is not None:
        check_strict(after, folder.name)
    return PlannedChange(path=str(where / name), before=before, after=after)


def _plan_creation(home: Path, change: SkillChange, there: Skill | None) -> PlannedChange:
    check_name(change.name)
    category = slug(change.category)
    where = Path(category, change.name) if category else Path(change.name)
    replaces = there is None or there.trust in (SkillTrust.BUNDLED, SkillTrust.PROJECT)
    if not replaces or os.path.lexists(home / SKILLS_FOLDER / where):
        raise UserError(f"There is a skill “{change.name}” already.", hint="Change it with edit or patch.")
    check_strict(change.content, change.name)
    return PlannedChange(path=str(where / SKILL_FILE), before=None, after=change.content)


def _after(change: SkillChange, name: str, before: str | None) -> str | None:
    if change.action == "delete":
        if before is None or name == SKILL_FILE:
            raise UserError(f"There is no file {name} to delete.")
        return None
    if change.action == "edit":
        if not change.content.strip():
            raise UserError("edit needs content: the whole text.")
        after = change.content
    else:
        count = (before or "").count(change.old_string) if change.old_string else 0
        if count != 1:
            raise UserError(
                f"old_string occurs {count} times in {name}, but must occur once.",
                hint="Read the file with skill_view and quote it exactly.",
            )
        after = (before or "").replace(change.old_string, change.new_string)
    if len(after.encode()) > LARGEST:
        raise UserError(f"{name} would be larger than {LARGEST // 1024} KB.", hint="Split it.")
    return after


def apply_change(home: Path, plan: PlannedChange) -> None:
    """Do what was planned, if nothing changed since. Blocking: call it off the loop."""
    shelf = home / SKILLS_FOLDER
    path = shelf / plan.path
    if plan.before is None and plan.after is not None and path.name == SKILL_FILE:
        _create(shelf, path, plan.after)
    elif plan.after is not None:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        write_whole(path, plan.after.encode())
    elif path.is_dir():
        trash = shelf / f".trash-{os.urandom(6).hex()}"
        path.rename(trash)
        sync_folder(path.parent)
        shutil.rmtree(trash, ignore_errors=True)
    else:
        path.unlink()
        sync_folder(path.parent)


def _create(shelf: Path, path: Path, text: str) -> None:
    staged = shelf / f".new-{os.urandom(6).hex()}"
    staged.mkdir(mode=0o700, parents=True)
    try:
        write_whole(staged / SKILL_FILE, text.encode())
        path.parent.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        staged.rename(path.parent)
    except OSError as error:
        shutil.rmtree(staged, ignore_errors=True)
        raise UserError(f"{path.parent.name} was not made: {error.strerror}.") from error
    sync_folder(path.parent.parent)


def check_path(name: str) -> str:
    """The path of a file of a skill, as it is written below its folder; a `UserError` if it leads elsewhere
    or deeper than one folder."""
    path = PurePosixPath(name)
    plain = not path.is_absolute() and all(not part.startswith(".") for part in path.parts)
    if not plain or not 1 <= len(path.parts) <= 2 or "\\" in name or len(name) > _LONGEST_PATH:
        raise UserError(
            f"“{one_line(name, 80)}” is not a path of a skill's file.",
            hint=f"Use SKILL.md or a name in one of {', '.join(_FOLDERS)}, like references/api.md.",
        )
    return str(path)
