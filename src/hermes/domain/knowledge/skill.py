"""Skills: what is known of one without opening it, how a model is told of them, and how they are found.

A skill is a folder with a SKILL.md (agentskills.io). What it says is read when somebody uses it."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from enum import StrEnum
from hashlib import sha256

from msgspec import Struct

from hermes.domain.errors import UserError
from hermes.domain.text import closest, one_line
from hermes.domain.tools.deferral import rank_texts

SKILL_FILE = "SKILL.md"
MOST_CATALOGUE = 1200
"""Bytes of a prompt that tell which skills there are: with them and every tool it stays below 8 KB."""
LONGEST_NAME, LONGEST_DESCRIPTION = 64, 1024
NAME = re.compile(r"[a-z0-9]+(?:-[a-z0-9]+)*")
NAME_RULE = "Use up to 64 small letters, digits and single hyphens, like code-review."
_TO_SLUG = re.compile(r"[^\w-]+|_+")
_HYPHENS = re.compile(r"-{2,}")
_HEAD = "# Skills"
_TELL = "If one fits, load it with `skill_view` and follow it."
_WHERE = "The tool skills_list and `hermes skills list` show them, the latter also those that are disabled."
_SEARCH = "Ways of working that you can load: `skills_list` finds one for a task, `skill_view` loads it."


class SkillTrust(StrEnum):
    """Where a skill comes from: with Hermes, by its makers, from a publisher whom the owner trusts, from
    anybody; made here; or lying in a project."""

    BUNDLED = "bundled"
    OFFICIAL = "official"
    TRUSTED = "trusted"
    COMMUNITY = "community"
    LOCAL = "local"
    PROJECT = "project"


class Skill(Struct, frozen=True, kw_only=True):
    """A skill that can be loaded; `name` is what it is called by. `wants` says what it asks for (tools,
    variables), `systems` on which systems it works (none named: all), `warnings` what is odd about it."""

    name: str
    description: str
    folder: str
    category: str = ""
    trust: SkillTrust = SkillTrust.LOCAL
    wants: tuple[str, ...] = ()
    systems: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()


def slug(name: str) -> str:
    """A name as a command and a folder can have it."""
    return _HYPHENS.sub("-", _TO_SLUG.sub("-", name.strip().lower())).strip("-")


def check_name(name: str) -> None:
    if len(name) > LONGEST_NAME or not NAME.fullmatch(name):
        raise UserError(f"A skill cannot be called “{one_line(name, 70)}”.", hint=NAME_RULE)


def catalogue(skills: Sequence[Skill]) -> str:
    """What a prompt says of the skills there are: in full if that fits, else in fewer words, else only that
    they can be searched for. Those that come with Hermes are named alone: their names say enough, and every
    request pays for this text. Nothing if there are none."""
    if not skills:
        return ""
    shipped = ", ".join(skill.name for skill in skills if skill.trust is SkillTrust.BUNDLED)
    others = [skill for skill in skills if skill.trust is not SkillTrust.BUNDLED]
    for words in (160, 110, 80, 55, 0):
        lines = [f"- {skill.name}: {one_line(skill.description, words)}" for skill in others if words]
        bare = ", ".join(skill.name for skill in others if not words)
        block = "\n".join([_HEAD, _TELL, *lines, *(f"- {names}" for names in (bare, shipped) if names)])
        if len(block.encode()) <= MOST_CATALOGUE:
            return block
    return f"{_HEAD}\n{_SEARCH} There are {len(skills)}."


def find_skills(query: str, skills: Collection[Skill], limit: int) -> list[Skill]:
    """Those that fit some words best, or simply the first ones."""
    if not query.strip():
        return list(skills)[:limit]
    by_name = {skill.name: skill for skill in skills}
    texts = {skill.name: (f"{skill.name} {skill.category}", skill.description) for skill in skills}
    return [by_name[name] for name in rank_texts(query, texts, limit)]


def pick_skill(name: str, skills: Iterable[Skill]) -> Skill:
    by_name = {skill.name: skill for skill in skills}
    wanted = slug(name.rpartition("/")[2])
    if wanted in by_name:
        return by_name[wanted]
    near = closest(wanted, by_name)
    raise UserError(
        f"There is no skill “{one_line(name, 70)}”.",
        hint=f"Did you mean {near}?" if near else _WHERE,
    )


class SkillChange(Struct, frozen=True, kw_only=True):
    """What an agent wants to do with a skill of its home. `content` is the whole text of SKILL.md, or of the
    file that `file_path` names."""

    action: str
    name: str
    content: str = ""
    category: str = ""
    file_path: str = ""
    old_string: str = ""
    new_string: str = ""


class PlannedChange(Struct, frozen=True, kw_only=True):
    """What a change would do: the file that is written, below the folder of skills, and its text before and
    after; None if there is none."""

    path: str
    before: str | None
    after: str | None


def digest_of(files: Mapping[str, bytes]) -> str:
    """The digest of a skill as Agent Skills Discovery v0.2.0 defines it, over the files by their paths."""
    lines = (f"{path}\0{sha256(data).hexdigest()}\n".encode() for path, data in sorted(files.items()))
    return f"sha256:{sha256(b''.join(lines)).hexdigest()}"
