"""What settings are made of: secrets that do not print, and what is said beside each field."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

NONE_LISTED = ("(none)",)
"""Counts for a list that cannot be read, where an empty one would allow everybody: nobody is called so."""
EVERY_ONE = ("*",)
"""Counts for a list of exceptions that cannot be read: everything is one."""


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
    """What is said beside a field: its meaning, its variables, and what it may hold."""

    doc: str
    env: tuple[str, ...] = ()
    choices: tuple[str, ...] = ()
    least: float | None = None
    most: float | None = None
    form: str = ""
    instead: Any = None
    empty_denies: bool = False


def about(
    doc: str,
    *,
    env: tuple[str, ...] = (),
    choices: tuple[str, ...] = (),
    least: float | None = None,
    most: float | None = None,
    form: str = "",
) -> dict[str, Any]:
    """Metadata of one field. `form` names a further check: `url`, `timezone` or `patterns`."""
    told = SettingDoc(doc=doc, env=env, choices=choices, least=least, most=most, form=form)
    return {"about": told, "doc": doc, "env": env}


def closed(instead: Any, metadata: dict[str, Any], *, empty_denies: bool = False) -> dict[str, Any]:
    """The same for a field whose default allows more than others: a wrong value counts as `instead`, and with
    `empty_denies` so does a list that is written and empty."""
    told = replace(metadata["about"], instead=instead, empty_denies=empty_denies)
    return {**metadata, "about": told}
