"""From text to the value of one field, checked against what the field may hold; and back to text."""

from __future__ import annotations

import json
import math
import re
import types
import typing
from enum import StrEnum
from functools import cache
from typing import Any

from msgspec import NODEFAULT, Struct

from hermes.domain.safety.pattern_size import why_too_large
from hermes.domain.settings.declaring import DeclaredSetting, Secret, Section, SettingDoc, is_section
from hermes.domain.text import one_line, plain_braces
from hermes.domain.turns.job import quiet_until
from hermes.domain.word import replace
from hermes.state.home.findings import nearest
from hermes.state.settings.yaml_tree import YamlScalar

_WHOLE = re.compile(r"[+-]?[0-9][0-9_]{0,17}")
_NUMBER = re.compile(r"[+-]?(?:[0-9][0-9_]{0,17}(?:\.[0-9]{0,17})?|\.[0-9]{1,17})(?:[eE][+-]?[0-9]{1,3})?")
_WORDS = dict.fromkeys(("true", "yes", "on", "1"), True) | dict.fromkeys(("false", "no", "off", "0"), False)
_FORMS = {
    "url": "an address that begins with http:// or https://",
    "timezone": "a time zone that this machine knows",
    "patterns": "a list of regular expressions",
    "hours": "hours like 22:00-07:00",
    "json": "`name: value` lines",
}


class SettingSpec(Struct, frozen=True, kw_only=True):
    """A field of a settings class: a value or a section of the class `kind`, or several in the `holder`."""

    name: str
    kind: type
    holder: type | None
    default: Any
    about: SettingDoc

    @property
    def many(self) -> bool:
        return self.holder is tuple


_UNDECLARED = DeclaredSetting(default=NODEFAULT, about=SettingDoc(doc=""))


@cache
def specs(section: type[Section]) -> dict[str, SettingSpec]:
    """Everything that a settings class holds, by name."""
    declared = section.declared
    return {
        name: _spec(name, declared.get(name, _UNDECLARED), hint)
        for name, hint in typing.get_type_hints(section).items()
        if name in declared or is_section(hint)
    }


@cache
def knobs(section: type[Section]) -> dict[str, SettingSpec]:
    """The values of a settings class, by name."""
    return {name: spec for name, spec in specs(section).items() if not is_section(spec.kind)}


@cache
def sections(section: type[Section], holder: type | None = None) -> dict[str, type[Section]]:
    """The settings classes inside a settings class, by the name of their field; with `dict`, those of which
    it holds any number, each under a name of its own."""
    held = specs(section).items()
    return {name: spec.kind for name, spec in held if is_section(spec.kind) and spec.holder is holder}


def _spec(name: str, declared: DeclaredSetting, hint: Any) -> SettingSpec:
    if isinstance(hint, types.UnionType):
        hint = typing.get_args(hint)[0]
    holder = typing.get_origin(hint)
    if holder is not None:
        hint = typing.get_args(hint)[1 if holder is dict else 0]
    variables = tuple(variable.replace("*", name.upper()) for variable in declared.about.env)
    return SettingSpec(
        name=name,
        kind=getattr(hint, "__supertype__", hint),
        holder=holder,
        default=declared.default,
        about=replace(declared.about, env=variables),
    )


MEANWHILE = "Until you fix it, "
"""How a remedy begins that only says what counts instead, where the rest is adopted all the same."""


class WrongValue(Exception):
    """Not what the setting takes: `expected` completes "must be …", `meant` is a choice that resembles it."""

    def __init__(self, knob: SettingSpec, meant: str = "", why: str = "") -> None:
        self.expected = expected(knob) + (f" that can be used ({why})" if why else "")
        self.meant = meant
        used = fallback(knob)
        if meant:
            self.remedy = f"Did you mean “{meant}”?"
        else:
            self.remedy = "" if used is NODEFAULT else f"{MEANWHILE}{shown(used)} is used."
        super().__init__(self.expected)


def fallback(knob: SettingSpec) -> Any:
    """What counts instead of a wrong value: the default, but a wrong `enabled` does not enable."""
    if knob.about.instead is not None:
        return knob.about.instead
    return False if knob.kind is bool and knob.default is None else knob.default


def expected(knob: SettingSpec) -> str:
    """What the field may hold, as the end of "must be …"."""
    choices = _choices(knob)
    if choices:
        return ("a list of " if knob.many else "one of ") + ", ".join(filter(None, choices))
    if knob.about.form:
        return _FORMS[knob.about.form]
    if knob.many:
        return "a list of texts"
    word = {bool: "true or false", int: "a whole number", float: "a number"}.get(knob.kind, "a text")
    least, most = knob.about.least, knob.about.most
    if math.isfinite(least) and math.isfinite(most):
        return f"{word} from {least:g} to {most:g}"
    return f"{word} of at least {least:g}" if math.isfinite(least) else word


def _choices(knob: SettingSpec) -> tuple[str, ...]:
    if issubclass(knob.kind, StrEnum):
        return tuple(member.value for member in knob.kind)
    return knob.about.choices


def convert(knob: SettingSpec, text: str) -> Any:
    """The value that the text stands for; a list is written with commas."""
    bare = text.strip()
    if knob.many:
        inner = bare.removeprefix("[").removesuffix("]")
        items = (item.strip().strip("\"'").strip() for item in inner.split(","))
        return checked(knob, tuple(items) if inner.strip() else ())
    if choices := _choices(knob):
        return knob.kind(_choose(knob, choices, bare))
    if knob.kind is str and not (knob.about.form and bare):
        return text
    try:
        return _converted(knob, bare)
    except (KeyError, ValueError, OSError) as error:
        raise WrongValue(knob) from error


def _converted(knob: SettingSpec, text: str) -> Any:
    if knob.kind is Secret:
        return Secret(text)
    if knob.kind is bool:
        return _WORDS[text.lower()]
    if knob.kind in (int, float):
        form = _WHOLE if knob.kind is int else _NUMBER
        value = knob.kind(text.replace("_", ""))
        in_range = knob.about.least <= value <= knob.about.most and math.isfinite(value)
        if not form.fullmatch(text) or "__" in text or text.endswith("_") or not in_range:
            raise ValueError(text)
        return value
    if knob.about.form == "url" and not re.fullmatch(r"https?://[^\s/]\S*", text):
        raise ValueError(text)
    if knob.about.form == "json" and not isinstance(json.loads(text), dict):
        raise ValueError(text)
    if knob.about.form == "hours":
        quiet_until(text)
    if knob.about.form == "timezone":
        from zoneinfo import ZoneInfo

        ZoneInfo(text)
    return text


def checked(knob: SettingSpec, written: tuple[str, ...]) -> tuple[str, ...]:
    """A list whose every item is of the field's form. One of empty items only is no list: where an empty list
    allows everything, `[""]` must not."""
    items = tuple(item for item in written if item)
    if written and not items:
        raise WrongValue(knob)
    if not items and knob.about.empty_denies:
        return tuple(knob.about.instead)
    if knob.about.choices:
        return tuple(_choose(knob, knob.about.choices, item) for item in items)
    if knob.about.form == "patterns" and items:
        import regex

        for item in items:
            if why := why_too_large(item):
                raise WrongValue(knob, why=why)
            try:
                regex.compile(plain_braces(item))
            except (regex.error, RecursionError, OverflowError) as error:
                raise WrongValue(knob) from error
    return items


def _choose(knob: SettingSpec, choices: tuple[str, ...], text: str) -> str:
    lowered = {choice.lower(): choice for choice in choices}
    text = "private" if text == "dm" and "private" in choices else text  # an older name
    if text.lower() in lowered:
        return lowered[text.lower()]
    raise WrongValue(knob, meant=nearest(text, list(choices)))


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
