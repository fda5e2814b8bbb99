"""The settings as a JSON Schema, for editors: completion, descriptions, and typing mistakes seen at once. It
is made from the same declarations as the reader, which checks more than a schema can say."""

from __future__ import annotations

import math
from enum import StrEnum
from typing import Any

from msgspec import NODEFAULT

from hermes.domain.settings.declaring import Secret, Section, is_section
from hermes.domain.settings.platforms import PlatformSettings
from hermes.domain.settings.settings import GatewaySettings, Settings
from hermes.state.settings.key_places import ALIASES, ALSO_UNDER_GATEWAY
from hermes.state.settings.names import LATER, VERSION_KEY, PlatformNames
from hermes.state.settings.values import SettingSpec, specs

_VARIABLE = {"$ref": "#/$defs/variable"}
_UNUSED = {"description": "Known, but not used yet.", "deprecated": True}
_TYPES = {bool: "boolean", int: "integer", float: "number"}
_OLDER = ("fallback_model", "custom_providers")


def settings_schema(platforms: PlatformNames) -> dict[str, Any]:
    """The schema of `config.yaml`."""
    root = _section(Settings)
    keys = root["properties"]
    blocks = {f"^({'|'.join(sorted(platforms.names))})(@[a-z0-9-]+)?$": {"$ref": "#/$defs/platform"}}
    keys["platforms"] = {"type": ["object", "null"], "patternProperties": blocks}
    gateway = specs(GatewaySettings)
    keys |= {name: _held(spec) for name, spec in gateway.items() if name not in keys}
    inner = keys["gateway"]["properties"]
    inner |= {name: {"$ref": f"#/properties/{name}"} for name in ALSO_UNDER_GATEWAY}
    for name in sorted(LATER):
        section, _, key = name.partition(".")
        holder = keys.get(section, {}).get("properties") if key else keys
        if holder is not None:
            holder.setdefault(key or section, _UNUSED)
    for section, older in ALIASES:
        keys[section]["properties"][older] = {"description": f"An older name: {ALIASES[section, older]}."}
    keys["model"] |= {"type": ["object", "string", "null"]}
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "config.yaml of Hermes",
        "$defs": {
            "variable": {"type": ["string", "null"], "pattern": r"\$\{[A-Za-z_][A-Za-z0-9_]*"},
            "platform": _section(PlatformSettings, open_ended=True),
        },
        **root,
        "properties": keys
        | dict.fromkeys(_OLDER, True)
        | {VERSION_KEY: {"type": "integer", "minimum": 0, "description": "Which program wrote this file."}},
        "patternProperties": blocks,
    }


def _section(kind: type[Section], *, open_ended: bool = False) -> dict[str, Any]:
    """Of a class of settings. Entries may be written in short, as a list or one value: the reader knows."""
    made: dict[str, Any] = {
        "type": ["object", "null"],
        "properties": {name: _held(spec) for name, spec in specs(kind).items()},
    }
    if kind.__doc__:
        made["description"] = " ".join(kind.__doc__.split())
    return made if open_ended else made | {"additionalProperties": False}


def _held(spec: SettingSpec) -> dict[str, Any]:
    if not is_section(spec.kind):
        return _value(spec)
    loose = spec.holder is not None
    inner = _section(spec.kind, open_ended=loose)
    if spec.holder is None:
        return inner | {"type": ["object", "string", "boolean", "null"]}
    inner["type"] = ["object", "string", "boolean", "array", "null"]
    if spec.holder is tuple:
        return {"type": ["array", "null"], "items": inner}
    return {"type": ["object", "null"], "additionalProperties": inner}


def _value(spec: SettingSpec) -> dict[str, Any]:
    about = spec.about
    text: dict[str, Any] = {"type": "string"}
    if issubclass(spec.kind, StrEnum) or about.choices:
        # `off` and `no` are truth values for a reader of YAML.
        words = [member.value for member in spec.kind] if issubclass(spec.kind, StrEnum) else about.choices
        text = {"enum": [*words, *([False] if "off" in words else ()), *([True] if "on" in words else ())]}
    elif spec.kind in _TYPES:
        text = {"type": _TYPES[spec.kind]}
        text |= {"minimum": about.least} if math.isfinite(about.least) else {}
        text |= {"maximum": about.most} if math.isfinite(about.most) else {}
    elif spec.kind is str and not spec.many:
        text = {"type": ["string", "number", "boolean"] if not about.form else ["string", "object"]}
    if spec.many:
        item = {"anyOf": [text, {"type": ["number", "boolean"]}]} if text.get("type") == "string" else text
        text = {"anyOf": [{"type": "array", "items": item}, {"type": ["string", "number", "object"]}]}
    made: dict[str, Any] = {"description": about.doc, "anyOf": [text, _VARIABLE]}
    if spec.default is not NODEFAULT and spec.kind is not Secret and spec.default is not None:
        default = spec.default
        made["default"] = list(default) if isinstance(default, tuple) else default
    return made
