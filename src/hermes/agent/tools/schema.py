"""From a function to what a model is told of it, and from what the model wrote to the function's arguments.

The schema is the signature; the description is the docstring; a line `name: words` in it describes that
parameter."""

from __future__ import annotations

import inspect
import json
import re
import types
import typing
from collections.abc import Callable, Mapping
from typing import Any

from msgspec import Struct

from hermes.domain.errors import UserError

_PRIMITIVES: dict[object, str] = {str: "string", int: "integer", float: "number", bool: "boolean"}
_PARAMETER = re.compile(r"(\w+): (.+)")


class ToolSignature(Struct, frozen=True, kw_only=True):
    """What is known of a tool's function. `kinds` are the types its arguments are read as."""

    description: str
    parameters: Mapping[str, object]
    kinds: Mapping[str, object]
    required: tuple[str, ...]


def read_signature(function: Callable[..., Any]) -> ToolSignature:
    """The first parameter is the tool's own business and not the model's."""
    description, words = _documentation(function)
    hints = typing.get_type_hints(function)
    properties: dict[str, object] = {}
    required: list[str] = []
    kinds: dict[str, object] = {}
    for name, parameter in list(inspect.signature(function).parameters.items())[1:]:
        kinds[name] = hints[name]
        schema = type_schema(hints[name])
        if name in words:
            schema["description"] = words[name]
        if parameter.default is inspect.Parameter.empty:
            required.append(name)
        properties[name] = schema
    parameters: dict[str, object] = {"type": "object", "properties": properties}
    if required:
        parameters["required"] = required
    return ToolSignature(
        description=description, parameters=parameters, kinds=kinds, required=tuple(required)
    )


def _documentation(function: Callable[..., Any]) -> tuple[str, dict[str, str]]:
    lines = (inspect.getdoc(function) or "").splitlines()
    names = set(inspect.signature(function).parameters)
    words: dict[str, str] = {}
    text: list[str] = []
    for line in lines:
        match = _PARAMETER.match(line)
        if match and match[1] in names:
            words[match[1]] = match[2]
        else:
            text.append(line)
    return " ".join(" ".join(text).split()), words


def type_schema(kind: object) -> dict[str, object]:
    if kind in _PRIMITIVES:
        return {"type": _PRIMITIVES[kind]}
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if origin is typing.Literal:
        return {"type": "string", "enum": list(arguments)}
    if origin is list:
        return {"type": "array", "items": type_schema(arguments[0])}
    if origin in (typing.Union, types.UnionType):
        return type_schema(next(one for one in arguments if one is not type(None)))
    if typing.is_typeddict(kind):
        properties = {name: type_schema(hint) for name, hint in typing.get_type_hints(kind).items()}
        return {"type": "object", "properties": properties, "required": _required(kind)}
    raise TypeError(f"no schema for {kind}")


def read_values(name: str, signature: ToolSignature, given: Mapping[str, object]) -> dict[str, Any]:
    """Arguments as the function takes them; small slips of a model ("42", "true") are put right."""
    unknown = [key for key in given if key not in signature.kinds]
    if unknown:
        known = ", ".join(signature.kinds)
        raise UserError(f"{name} has no argument “{unknown[0]}”.", hint=f"It takes: {known}.")
    missing = [key for key in signature.required if given.get(key) is None]
    if missing:
        raise UserError(f"{name} needs “{missing[0]}”.")
    values = {key: value for key, value in given.items() if value is not None}
    return {key: read_value(f"{name}: {key}", signature.kinds[key], value) for key, value in values.items()}


def read_value(where: str, kind: object, value: object) -> object:
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if origin in (typing.Union, types.UnionType):
        return read_value(where, next(one for one in arguments if one is not type(None)), value)
    if origin is typing.Literal:
        if value in arguments:
            return value
        raise UserError(f"{where} must be one of {', '.join(map(str, arguments))}.")
    if isinstance(value, str) and (origin is list or typing.is_typeddict(kind)):
        value = _from_json(where, value)
    if origin is list:
        items = value if isinstance(value, list) else [value]
        return [read_value(where, arguments[0], item) for item in items]
    if typing.is_typeddict(kind):
        if not isinstance(value, dict):
            raise UserError(f"{where} must be an object.")
        fields = typing.get_type_hints(kind)
        lost = [key for key in _required(kind) if key not in value]
        if lost:
            raise UserError(f"{where} needs “{lost[0]}” in each item.")
        given = {key: value[key] for key in fields if value.get(key) is not None}
        return {key: read_value(f"{where}.{key}", fields[key], one) for key, one in given.items()}
    return _primitive(where, kind, value)


def _required(kind: Any) -> list[str]:
    """The fields of a typed dict that each item needs, as they are written."""
    hints = typing.get_type_hints(kind, include_extras=True)
    return [name for name, hint in hints.items() if typing.get_origin(hint) is not typing.NotRequired]


def _primitive(where: str, kind: object, value: object) -> object:
    try:
        if kind is bool and isinstance(value, str) and value.lower() in ("true", "false"):
            return value.lower() == "true"
        if kind is bool and isinstance(value, bool):
            return value
        if kind is int and not isinstance(value, bool) and isinstance(value, int | float | str):
            return int(float(value))
        if kind is float and not isinstance(value, bool) and isinstance(value, int | float | str):
            return float(value)
    except (ValueError, OverflowError):
        pass
    if kind is str:
        return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    raise UserError(f"{where} must be of the type {_PRIMITIVES[kind]}.")


def _from_json(where: str, text: str) -> object:
    try:
        return json.loads(text)
    except ValueError:
        return text
