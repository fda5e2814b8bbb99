"""What an MCP server asks of a person in the middle of a call (elicitation): as a question in words, and from
the words of the answer to what the server wants. Pure functions; nothing here knows the SDK."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from hermes.domain.errors import UserError
from hermes.domain.text import one_line, showable
from hermes.domain.tools.tool import Clarification

YES, NO, DONE = "yes", "no", "done"
_NO_WORDS = frozenset(("no", "n", "nein", "decline", "deny", "cancel", "stop"))
_YES_WORDS = frozenset(("yes", "y", "ja", "ok", "true", "1", "accept", "confirm", "done"))
_LONGEST = 2000
_MOST_OPTIONS = 12


def as_question(server: str, asked: Mapping[str, Any], complaint: str = "") -> Clarification:
    """A server's request (`message`, and `requestedSchema` or `url`) as it is put to a person."""
    lines = [complaint] if complaint else []
    lines.append(f"The MCP server {server} asks: {_clean(asked.get('message'))}")
    if asked.get("mode") == "url":
        lines.append(f"Open this address, if you trust it: {_clean(asked.get('url'))}")
        return Clarification(text="\n".join(lines), options=(DONE, NO))
    fields = _fields(asked)
    if not fields:
        return Clarification(text="\n".join(lines), options=(YES, NO))
    if len(fields) == 1:
        name, field = next(iter(fields.items()))
        lines += filter(None, (_clean(field.get("description")) or _clean(field.get("title")) or name,))
        options = _choices(field) or ((YES, NO) if field.get("type") == "boolean" else ())
        return Clarification(text="\n".join(lines), options=options[:_MOST_OPTIONS])
    required = _required(asked)
    for name, field in fields.items():
        kind = ", ".join(_choices(field)) or field.get("type", "text")
        about = _clean(field.get("description") or field.get("title") or "")
        lines.append(f"- {name} ({kind}{'' if name in required else ', optional'}) {about}".rstrip())
    lines.append("Answer with a line “name: value” for each, or with “no”.")
    return Clarification(text="\n".join(lines))


def read_answer(asked: Mapping[str, Any], words: str) -> dict[str, Any]:
    """What the server is told; a `UserError` if the answer does not fit its question."""
    fields, plain = _fields(asked), words.strip()
    single = next(iter(fields.values())) if len(fields) == 1 else None
    fits_no = single is not None and (single.get("type") == "boolean" or plain in _choices(single))
    if plain.lower() in _NO_WORDS and not fits_no:
        return {"action": "decline"}
    if asked.get("mode") == "url":
        return {"action": "accept"}
    if not fields:
        return {"action": "accept" if plain.lower() in _YES_WORDS else "decline", "content": {}}
    given = {next(iter(fields)): plain} if single is not None else _read_lines(plain, fields)
    content = {name: _value(name, fields[name], text) for name, text in given.items() if text != ""}
    missing = [name for name in _required(asked) if name not in content]
    if missing:
        raise UserError(f"There is no value for {', '.join(missing)}.")
    return {"action": "accept", "content": content}


def _read_lines(words: str, fields: Mapping[str, Any]) -> dict[str, Any]:
    if words.startswith("{"):
        try:
            read = json.loads(words)
        except ValueError:
            raise UserError("This is no JSON.") from None
        return {name: value for name, value in read.items() if name in fields}
    given: dict[str, Any] = {}
    for line in words.splitlines():
        name, mark, value = line.lstrip("-* ").partition(":")
        if mark and name.strip() in fields:
            given[name.strip()] = value.strip()
    if not given:
        raise UserError("No line of it is “name: value” with one of the names.")
    return given


def _value(name: str, field: Mapping[str, Any], given: Any) -> Any:
    kind, text = field.get("type"), str(given).strip()
    try:
        if kind == "boolean":
            word = text.lower()
            if word not in _YES_WORDS | _NO_WORDS | {"false", "0"}:
                raise ValueError(text)
            return word in _YES_WORDS
        if kind == "integer":
            return int(text)
        if kind == "number":
            return float(text)
    except ValueError:
        raise UserError(f"{name} must be of the type {kind}.") from None
    if kind == "array":
        return (
            given if isinstance(given, list) else [part.strip() for part in text.split(",") if part.strip()]
        )
    choices = _choices(field)
    if choices and text not in choices:
        raise UserError(f"{name} must be one of: {', '.join(choices)}.")
    return text


def _fields(asked: Mapping[str, Any]) -> Mapping[str, Mapping[str, Any]]:
    schema = asked.get("requestedSchema")
    properties = schema.get("properties") if isinstance(schema, Mapping) else None
    if not isinstance(properties, Mapping):
        return {}
    return {str(name): field for name, field in properties.items() if isinstance(field, Mapping)}


def _required(asked: Mapping[str, Any]) -> list[str]:
    schema = asked.get("requestedSchema")
    required = schema.get("required") if isinstance(schema, Mapping) else None
    fields = _fields(asked)
    return (
        [name for name in required if isinstance(name, str) and name in fields]
        if isinstance(required, list)
        else []
    )


def _choices(field: Mapping[str, Any]) -> tuple[str, ...]:
    either = field.get("oneOf")
    titled = (
        [each.get("const") for each in either if isinstance(each, dict)] if isinstance(either, list) else []
    )
    named = field.get("enum") or titled
    return tuple(str(each) for each in named) if isinstance(named, list) else ()


def _clean(words: object) -> str:
    return one_line(showable(str(words or "")), _LONGEST)
