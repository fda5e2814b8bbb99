"""From text to the value of one field, checked against what the field may hold; and back to text."""

from __future__ import annotations

import math
import re
import types
import typing
from dataclasses import MISSING, Field, dataclass, fields, is_dataclass, replace
from enum import StrEnum
from functools import cache
from typing import Any

from hermes.domain.pattern_size import why_too_large
from hermes.domain.settings.declaring import Secret, SettingDoc
from hermes.domain.text import one_line, plain_braces
from hermes.state.settings.findings import nearest
from hermes.state.settings.yaml_tree import YamlScalar

_WHOLE = re.compile(r"[+-]?[0-9][0-9_]{0,17}")
_NUMBER = re.compile(r"[+-]?(?:[0-9][0-9_]{0,17}(?:\.[0-9]{0,17})?|\.[0-9]{1,17})(?:[eE][+-]?[0-9]{1,3})?")
_WORDS = {"true": True, "yes": True, "on": True, "1": True} | {
    "false": False,
    "no": False,
    "off": False,
    "0": False,
}


class WrongValue(Exception):
    """The text is not what the field may hold; `expected` completes "must be …"."""

    def __init__(self, expected: str, meant: str = "") -> None:
        super().__init__(expected)
        self.expected = expected
        self.meant = meant


@dataclass(frozen=True, slots=True, kw_only=True)
class SettingSpec:
    """One field of a settings class that holds a value, not a further section."""

    name: str
    kind: type
    many: bool
    default: Any
    about: SettingDoc


@cache
def knobs(section: type) -> dict[str, SettingSpec]:
    """The values of a settings class, by name."""
    hints = typing.get_type_hints(section)
    found = [_knob(item, hints[item.name]) for item in fields(section)]
    return {knob.name: knob for knob in found if knob is not None}


@cache
def sections(section: type) -> dict[str, type]:
    """The settings classes inside a settings class, by the name of their field."""
    hints = typing.get_type_hints(section)
    return {item.name: hints[item.name] for item in fields(section) if is_dataclass(hints[item.name])}


def _knob(item: Field[Any], hint: Any) -> SettingSpec | None:
    about = item.metadata.get("about")
    if not isinstance(about, SettingDoc) or typing.get_origin(hint) is dict:
        return None
    if isinstance(hint, types.UnionType):
        hint = typing.get_args(hint)[0]
    many = typing.get_origin(hint) is tuple
    if many:
        hint = typing.get_args(hint)[0]
    kind = getattr(hint, "__supertype__", hint)
    if is_dataclass(kind):
        return None
    default = item.default if item.default_factory is MISSING else item.default_factory()
    env = tuple(variable.replace("*", item.name.upper()) for variable in about.env)
    return SettingSpec(name=item.name, kind=kind, many=many, default=default, about=replace(about, env=env))


def expected(knob: SettingSpec) -> str:
    """What the field may hold, as the end of "must be …"."""
    choices = _choices(knob)
    if choices:
        return ("a list of " if knob.many else "one of ") + ", ".join(filter(None, choices))
    if knob.many:
        return "a list of regular expressions" if knob.about.form else "a list of texts"
    if knob.about.form:
        return {
            "url": "an address that begins with http:// or https://",
            "timezone": "a time zone that this machine knows",
        }[knob.about.form]
    word = {bool: "true or false", int: "a whole number", float: "a number"}.get(knob.kind, "a text")
    least, most = knob.about.least, knob.about.most
    if least is not None and most is not None:
        return f"{word} from {least:g} to {most:g}"
    return word if least is None else f"{word} of at least {least:g}"


def _choices(knob: SettingSpec) -> tuple[str, ...]:
    if issubclass(knob.kind, StrEnum):
        return tuple(member.value for member in knob.kind)
    return knob.about.choices


def convert(knob: SettingSpec, text: str) -> Any:
    """The value that the text stands for; a list is written with commas."""
    if knob.many:
        inner = text.strip().removeprefix("[").removesuffix("]")
        items = (item.strip().strip("\"'").strip() for item in inner.split(","))
        return checked(knob, tuple(items) if inner.strip() else ())
    if knob.kind is Secret:
        return Secret(text.strip())
    if choices := _choices(knob):
        return knob.kind(_choose(knob, choices, text.strip()))
    if knob.kind is bool:
        if (word := text.strip().lower()) not in _WORDS:
            raise WrongValue(expected(knob))
        return _WORDS[word]
    if knob.kind in (int, float):
        return _number(knob, text.strip())
    if knob.about.form and text.strip():
        _check_form(knob, text.strip())
        return text.strip()
    return text


def checked(knob: SettingSpec, written: tuple[str, ...]) -> tuple[str, ...]:
    """A list whose every item is of the field's form. One of empty items only is no list: where an empty list
    allows everything, `[""]` must not."""
    items = tuple(item for item in written if item)
    if written and not items:
        raise WrongValue(expected(knob))
    if not items and knob.about.empty_denies:
        return tuple(knob.about.instead)
    if knob.about.choices:
        return tuple(_choose(knob, knob.about.choices, item) for item in items)
    if knob.about.form == "patterns" and items:
        import regex

        for item in items:
            if why := why_too_large(item):
                raise WrongValue(f"{expected(knob)} that can be used ({why})")
            try:
                regex.compile(plain_braces(item))
            except (regex.error, RecursionError, OverflowError) as error:
                raise WrongValue(expected(knob)) from error
    return items


def _choose(knob: SettingSpec, choices: tuple[str, ...], text: str) -> str:
    lowered = {choice.lower(): choice for choice in choices}
    if text.lower() in lowered:
        return lowered[text.lower()]
    raise WrongValue(expected(knob), meant=nearest(text, list(choices)))


def _number(knob: SettingSpec, text: str) -> int | float:
    form = _WHOLE if knob.kind is int else _NUMBER
    if not form.fullmatch(text) or "__" in text or text.endswith("_"):
        raise WrongValue(expected(knob))
    value: int | float = knob.kind(text.replace("_", ""))
    least, most = knob.about.least, knob.about.most
    low, high = -math.inf if least is None else least, math.inf if most is None else most
    if not math.isfinite(value) or not low <= value <= high:
        raise WrongValue(expected(knob))
    return value


def _check_form(knob: SettingSpec, text: str) -> None:
    if knob.about.form == "url":
        if not re.fullmatch(r"https?://[^\s/]\S*", text):
            raise WrongValue(expected(knob))
        return
    from zoneinfo import ZoneInfo

    try:
        ZoneInfo(text)
    except (KeyError, ValueError, OSError) as error:
        raise WrongValue(expected(knob)) from error


def typed(node: YamlScalar, text: str) -> str | int | float | bool | None:
    """What an unquoted scalar stands for where no field says what it should be."""
    if not node.plain or text != node.text:
        return text
    if node.empty:
        return None
    if text.lower() in ("true", "false"):
        return text.lower() == "true"
    if _WHOLE.fullmatch(text) and "_" not in text:
        return int(text)
    return float(text) if _NUMBER.fullmatch(text) and "_" not in text else text


def shown(value: Any) -> str:
    """A value in a sentence or on a terminal; a secret stays one."""
    if value is None or value in ("", ()):
        return "empty"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, tuple):
        return ", ".join(map(str, value))
    return f"{value:g}" if isinstance(value, float) else one_line(str(value))
