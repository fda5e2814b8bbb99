"""How a setting is declared, with its default and its documentation; and secrets, which do not print."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any, TypeVar, cast

T = TypeVar("T")
Names = tuple[str, ...]
NONE_LISTED = ("(none)",)
"""Replaces an unreadable list where an empty one would allow everybody: nobody has this name."""
EVERY_ONE = ("*",)
"""Replaces an unreadable list of exceptions: everything is one."""
STAND_IN = "‹secret›"
"""What is shown instead of a secret. A model may copy it into a command or a file, so it is no pattern of a
shell, needs no escape in JSON, and nobody writes it by chance."""


class Secret:
    """A value that prints as `***`; `reveal()` is the only way to it."""

    __slots__ = ("_value",)

    def __init__(self, value: str) -> None:
        self._value = value

    def reveal(self) -> str:
        return self._value

    def __repr__(self) -> str:
        return "***"

    __str__ = __repr__

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Secret) and other._value == self._value

    def __hash__(self) -> int:
        return hash(self._value)

    def __bool__(self) -> bool:
        return bool(self._value)

    def __reduce__(self) -> tuple[type[Secret], tuple[str]]:
        raise TypeError("a secret is not written down")


@dataclass(frozen=True, slots=True, kw_only=True)
class SettingDoc:
    """What a setting means, which variables set it, and which values it takes.

    `form` names a further check: `url`, `timezone` or `patterns`. Where the default allows more than other
    values do, a wrong value counts as `instead`; with `empty_denies`, so does a list set to be empty.
    Where an empty value is a mistake, `if_empty` says what follows from it."""

    doc: str
    env: Names = ()
    choices: Names = ()
    least: float = -math.inf
    most: float = math.inf
    form: str = ""
    instead: Any = None
    empty_denies: bool = False
    if_empty: str = ""


def setting(default: T, doc: str, *, env: str = "", **rules: Any) -> T:
    """A dataclass field that is a setting. `env` lists its variables: `<P>` is the platform's prefix, `*` the
    field's own name in capitals. `rules` are further fields of `SettingDoc`."""
    about = SettingDoc(doc=doc, env=tuple(env.split()), **rules)
    if default == {}:
        made: Any = field(default_factory=dict, metadata={"about": about})
    else:
        made = field(default=default, metadata={"about": about})
    # Typed as its default, so that the type checker holds it against the annotation.
    return cast(T, made)


def own_setting(default: T, doc: str, *, also: str = "", **rules: Any) -> T:
    """A setting of a platform that has a variable of its own name, and those of `also`."""
    return setting(default, doc, env=f"<P>_* {also}", **rules)
