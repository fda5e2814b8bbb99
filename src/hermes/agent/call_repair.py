"""Repairs what models get wrong in their calls: names that are nearly right, arguments that are nearly JSON,
ids that are missing or used twice. What cannot be repaired safely is left as it is, above all arguments that
end too early: nobody knows what is missing."""

from __future__ import annotations

import ast
import json
import re
import warnings
from collections.abc import Collection, Iterable

from hermes.domain.ids import CallId, new_call_id
from hermes.domain.safety.late_pattern import late_pattern
from hermes.domain.text import storable, storable_all
from hermes.domain.tools.deferral import TOOL_CALL
from hermes.domain.tools.tool import ToolCall
from hermes.domain.word import replace

_LONGEST_LITERAL = 200_000
_ID = late_pattern(r"[A-Za-z0-9_.:-]{1,64}")
_CAMEL = late_pattern(r"(?<=[a-z0-9])(?=[A-Z])")
_FENCE = late_pattern(r"\A```[a-zA-Z]*\s*\n(.*)```\Z", re.DOTALL)
# A string as a whole, a comma before a closing bracket, or one of Python's words.
_PYTHONIC = late_pattern(r'("(?:[^"\\]|\\.?)*+"?)|,(?=\s*[}\]])|\b(True|False|None)\b', re.DOTALL)
_STRING_OR_BRACKET = late_pattern(r'"(?:[^"\\]|\\.?)*+(?:"|(?P<open>\Z))|[{}\[\]]', re.DOTALL)
_JSON_WORDS = {"True": "true", "False": "false", "None": "null"}
# How a call begins that is written into the text, bare, fenced or tagged, and what is around it.
_OPENING = late_pattern(r"""(?:```\w*\s*|<tool_call>\s*)?\{\s*"name"\s*:\s*"[\w.-]+\"""")
_NAME = late_pattern(r"[\w.-]+")
_TAG = late_pattern(r"\A<tool_call>(.*?)(?:</tool_call>)?\Z", re.DOTALL)
_LONGEST_OPENING = 80
_ESCAPED_SURROGATE = late_pattern(r"\\u[dD][89a-fA-F]")


def repair_calls(
    calls: Iterable[ToolCall], tools: Collection[str], taken: Iterable[str]
) -> tuple[ToolCall, ...]:
    """A reply's calls with names, arguments and ids mended; no id is used twice in a turn."""
    used = set(taken)
    mended = []
    for call in calls:
        identity = call.id if _ID.fullmatch(call.id) and call.id not in used else new_call_id()
        used.add(identity)
        arguments = repair_arguments(call.arguments)
        named = replace(
            call,
            id=CallId(identity),
            name=repair_name(call.name, tools),
            arguments=storable(call.arguments) if arguments is None else arguments,
        )
        mended.append(_unbridged(named, tools) if named.name == TOOL_CALL else named)
    return tuple(mended)


def _unbridged(call: ToolCall, tools: Collection[str]) -> ToolCall:
    """The call of a tool that was found, as if it had been made itself: everything that is checked, asked,
    recorded and shown is that of the tool."""
    given = read_arguments(call.arguments) or {}
    name, inner = given.get("name"), given.get("arguments", {})
    if not isinstance(name, str) or not name.strip():
        return call
    arguments = repair_arguments(inner) if isinstance(inner, str) else _dump(inner)
    if arguments is None:
        return call
    return replace(call, name=repair_name(name, tools), arguments=arguments, bridged=True)


def repair_name(name: str, tools: Collection[str]) -> str:
    """The tool whose name is only spelt in another way, or the name as it was written. A tool with a similar
    name is not the one that was meant: it may do the opposite, or be there where the other was excluded."""
    if name in tools:
        return name
    plain = _CAMEL.sub("_", name.strip().rpartition(".")[2]).replace("-", "_").replace(" ", "_").lower()
    for spelling in (plain, plain.removesuffix("_tool"), plain.replace("__", "_")):
        if spelling in tools:
            return spelling
    return storable(name)


def repair_arguments(text: str) -> str | None:
    """The arguments as the text of a JSON object, or None if they cannot be understood."""
    text = text.strip()
    if not text:
        return "{}"
    fenced = _FENCE.match(text)
    if fenced:
        text = fenced[1].strip()
    found = _load(text)
    if isinstance(found, str):
        text = found.strip()
        found = _load(text)
    if found is None and text.startswith("{"):
        found = _load(_PYTHONIC.sub(_as_json, text)) or _literal(text)
        if isinstance(found, dict):
            return _dump(found)
    return text if isinstance(found, dict) and _load(text, strict=True) is not None else _dump(found)


def written_call(text: str, tools: Collection[str]) -> ToolCall | None:
    """The call that a reply is which was written instead of made, as small models on local servers do: the
    whole text is one JSON object, with a name, arguments and nothing else. A tool that does not exist is told
    to the model like any other. Not read out of a longer text: words about a call are not a call."""
    text = text.strip()
    wrapped = _FENCE.match(text) or _TAG.match(text)
    found = _load(repair_arguments(wrapped[1] if wrapped else text) or "")
    if not isinstance(found, dict) or len(found) != 2:
        return None
    name, arguments = found.get("name"), found.get("arguments", found.get("parameters"))
    if not isinstance(name, str) or not _NAME.fullmatch(name) or not isinstance(arguments, dict):
        return None
    written = _dump(arguments)
    if written is None:
        return None
    return ToolCall(id=CallId(""), name=repair_name(name, tools), arguments=written)


def may_be_written_call(text: str) -> bool:
    """Whether a reply that begins like this may still become a written call."""
    text = text.lstrip()
    if _OPENING.match(text):
        return True
    if len(text) > _LONGEST_OPENING:
        return False
    return any(text.startswith(mark[: len(text)]) for mark in ("{", "```", "<tool_call>"))


def read_arguments(text: str) -> dict[str, object] | None:
    """The arguments as values, without half characters that no file and no wire can take."""
    arguments = _load(text or "{}")
    if not isinstance(arguments, dict):
        return None
    return dict(storable_all(arguments)) if _ESCAPED_SURROGATE.search(text) else arguments


def is_cut_short(text: str) -> bool:
    """Whether JSON ends before its brackets and strings do."""
    depth = 0
    for part in _STRING_OR_BRACKET.finditer(text):
        if part["open"] is not None:
            return True
        depth += (part[0] in "{[") - (part[0] in "}]")
    return depth > 0


def _as_json(match: re.Match[str]) -> str:
    return match[1] or _JSON_WORDS.get(match[2] or "", "")


def _load(text: str, *, strict: bool = False) -> object:
    try:
        value: object = json.loads(text, strict=strict)
    except (ValueError, RecursionError):
        return None
    return value


def _literal(text: str) -> object:
    if len(text) > _LONGEST_LITERAL:
        return None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # odd escapes in a model's text are nothing to warn an operator of
        try:
            found: object = ast.literal_eval(text)
        except (ValueError, TypeError, SyntaxError, RecursionError, MemoryError):
            return None
    return found


def _dump(value: object) -> str | None:
    if not isinstance(value, dict):
        return None
    try:
        return storable(json.dumps(value, ensure_ascii=False))
    except (TypeError, ValueError, RecursionError):
        return None
