"""The head of a SKILL.md. It is read leniently, for others write other dialects, and written strictly, as
agentskills.io specifies it."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Mapping
from typing import Any

from msgspec import Struct

from hermes.domain.errors import UserError
from hermes.domain.knowledge.skill import LONGEST_DESCRIPTION, LONGEST_NAME, check_name, slug
from hermes.domain.safety.late_pattern import late_pattern
from hermes.domain.text import one_line

LARGEST = 256 * 1024
_FENCE = late_pattern(
    r"\A\ufeff?\s*---[ \t]*\r?\n(.*?)\r?\n?^---[ \t]*(?:\r?\n|\Z)", re.DOTALL | re.MULTILINE
)
_SIMPLE = late_pattern(r"([A-Za-z][\w-]*):[ \t]+([^\s\"'\[\]{}>|&*!%@`#,?-][^#]*?)[ \t]*")
_UNQUOTED = late_pattern(r"^([A-Za-z][\w-]*):[ \t]+(?![\"'\[{>|])(.*:(?:[ \t].*)?)$")
_MOST_WANTS = 20
_LONGEST_HEAD = 16 * 1024
_NESTING, _MOST_NESTED = ("[", "{", "- ", "? ", ": "), 500
_VARIABLES = "required_environment_variables"
_KEYS = ("name", "description", "license", "compatibility", "metadata", "allowed-tools")


class SkillManifest(Struct, frozen=True, kw_only=True):
    """What the head of a SKILL.md says, and the text behind it."""

    name: str
    description: str
    body: str
    category: str = ""
    wants: tuple[str, ...] = ()
    systems: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()


def read_manifest(text: str, folder: str) -> SkillManifest:
    """A wrong name is a warning; a `UserError` if it cannot be used. `folder` is the name of its folder."""
    match = _FENCE.match(text[:_LONGEST_HEAD])
    if match is None:
        raise UserError("SKILL.md does not begin with a head between two lines of ---.")
    head = _read_head(match[1])
    description = one_line(_text(head.get("description")), LONGEST_DESCRIPTION * 2)
    if not description:
        raise UserError("SKILL.md has no description.", hint="Say what it does and when to use it.")
    name = _text(head.get("name")) or folder
    metadata = _mapping(head.get("metadata"))
    ours = _mapping(metadata.get("hermes"))
    return SkillManifest(
        name=slug(name)[:LONGEST_NAME],
        description=description[:LONGEST_DESCRIPTION],
        body=text[match.end() :].strip(),
        category=slug(_text(ours.get("category") or metadata.get("category"))),
        wants=tuple(_wants(head, ours))[:_MOST_WANTS],
        systems=tuple(word.lower() for word in _words(head.get("platforms"))),
        warnings=tuple(_warnings(name, folder, description)),
    )


def check_strict(text: str, folder: str) -> SkillManifest:
    """As `read_manifest`, for what is written here: a `UserError` also for what others might not read."""
    if len(text.encode()) > LARGEST:
        raise UserError("SKILL.md is larger than 256 KB.", hint="Move parts of it to references/.")
    manifest = read_manifest(text, folder)
    match = _FENCE.match(text)
    head = _parse_yaml("" if match is None else match[1])
    name, unknown = _text(head.get("name")), sorted(set(map(str, head)) - {*_KEYS})
    check_name(name)
    if name != folder:
        raise UserError(f"SKILL.md calls the skill “{name}”, its folder “{folder}”.", hint="Use one name.")
    if unknown:
        hint = (
            "Put it under metadata, as text." if len(unknown) == 1 else "Put them under metadata, as texts."
        )
        raise UserError(f"The head of SKILL.md has what no standard knows: {', '.join(unknown)}.", hint=hint)
    if len(_text(head.get("description"))) > LONGEST_DESCRIPTION:
        raise UserError(f"A description has at most {LONGEST_DESCRIPTION:,} characters.")
    return manifest


def write_manifest(name: str, description: str, body: str) -> str:
    """The text of a SKILL.md."""
    import json

    check_name(name)
    quoted = json.dumps(description, ensure_ascii=False)
    return f"---\nname: {name}\ndescription: {quoted}\n---\n\n{body.strip()}\n"


def _read_head(text: str) -> Mapping[str, Any]:
    """Most heads are plain lines, which need no parser. What a parser refuses for a colon in it is tried
    again with that line in quotes."""
    simple = {}
    for line in text.splitlines():
        match = _SIMPLE.fullmatch(line)
        if match is None or ": " in match[2] or match[2].endswith(":"):
            break
        simple[match[1]] = match[2]
    else:
        return simple
    try:
        return _parse_yaml(text)
    except UserError:
        quoted = "\n".join(map(_quoted, text.splitlines()))
        if quoted == text:
            raise
        return _parse_yaml(quoted)


def _quoted(line: str) -> str:
    match = _UNQUOTED.match(line)
    if match is None:
        return line
    value = match[2].replace("'", "''")
    return f"{match[1]}: '{value}'"


def _parse_yaml(text: str) -> Mapping[str, Any]:
    import yaml

    if sum(map(text.count, _NESTING)) > _MOST_NESTED:  # the parser's time grows with the square of them
        raise UserError("The head of SKILL.md is too deeply nested.", hint="Write it plainly.")
    try:
        for event in yaml.parse(text, Loader=yaml.BaseLoader):
            if isinstance(event, yaml.AliasEvent) or getattr(event, "tag", None):
                raise UserError("The head of SKILL.md uses anchors or tags.", hint="Write it plainly.")
        # Every value is text: what is made of numbers and dates stumbles over too many of them.
        head = yaml.load(text, Loader=yaml.BaseLoader)
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        mark = getattr(error, "problem_mark", None)
        line = "" if mark is None else f" (line {mark.line + 2})"
        raise UserError(f"The head of SKILL.md is not YAML{line}.", hint="Put texts in quotes.") from error
    if not isinstance(head, Mapping):
        raise UserError("The head of SKILL.md is not a list of `name: value` lines.")
    return head


def _warnings(name: str, folder: str, description: str) -> Iterator[str]:
    plain = unicodedata.normalize("NFKC", name)
    if plain != slug(plain) or len(plain) > LONGEST_NAME:
        yield f"its name “{one_line(name, 70)}” is not one that the standard allows"
    elif plain != unicodedata.normalize("NFKC", folder):
        yield f"its name {plain} is not that of its folder, {one_line(folder, 70)}"
    if len(description) > LONGEST_DESCRIPTION:
        yield "its description is too long, and was cut"


def _wants(head: Mapping[str, Any], ours: Mapping[str, Any]) -> Iterator[str]:
    """What it says that it needs: shown to whoever installs it, and never given by itself."""
    for tool in _words(head.get("allowed-tools")):
        yield f"tool {one_line(tool, 60)}"
    for each in (*_words(ours.get("requires_toolsets")), *_words(ours.get("requires_tools"))):
        yield f"tool {one_line(each, 60)}"
    variables = head.get(_VARIABLES)
    legacy = _mapping(head.get("prerequisites")).get("env_vars")
    for source in (variables, legacy):
        for each in source if isinstance(source, list) else []:
            yield f"variable {one_line(_text(each.get('name') if isinstance(each, Mapping) else each), 60)}"
    if compatibility := _text(head.get("compatibility")):
        yield one_line(compatibility, 120)


def _text(value: object) -> str:
    return "" if value is None or isinstance(value, (Mapping, list)) else str(value).strip()


def _words(value: object) -> list[str]:
    if isinstance(value, list):
        return [_text(each) for each in value if _text(each)]
    return _text(value).replace(",", " ").split()


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}
