"""How a setting is declared, with its default and its documentation; and secrets, which do not print."""

from __future__ import annotations

import math
from typing import Any, ClassVar, TypeGuard, TypeVar, cast, dataclass_transform

from msgspec import NODEFAULT, Struct, StructMeta, field

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


class SettingDoc(Struct, frozen=True, kw_only=True):
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


class DeclaredSetting(Struct, frozen=True, kw_only=True):
    """What `setting` gives a class until `Section` takes it apart; without a default, a value is needed."""

    default: Any
    about: SettingDoc


@dataclass_transform(kw_only_default=True, frozen_default=True, field_specifiers=(field,))
class _SectionMaker(StructMeta):
    """Leaves msgspec the defaults of the settings, and keeps what else was said of them in `declared`."""

    def __new__(
        cls, name: str, bases: tuple[type, ...], namespace: dict[str, Any], **options: Any
    ) -> _SectionMaker:
        declared = {key: value for key, value in namespace.items() if isinstance(value, DeclaredSetting)}
        for key, setting in declared.items():
            namespace[key] = field() if setting.default is NODEFAULT else setting.default
        return super().__new__(cls, name, bases, namespace | {"declared": declared}, **options)


class Section(Struct, metaclass=_SectionMaker, frozen=True, kw_only=True):
    """A class of settings: a Struct whose fields are declared with `setting`."""

    declared: ClassVar[dict[str, DeclaredSetting]]


def is_section(kind: object) -> TypeGuard[type[Section]]:
    return isinstance(kind, type) and issubclass(kind, Section)


def setting(default: T, doc: str, *, env: str = "", **rules: Any) -> T:
    """A field that is a setting. `env` lists its variables: `<P>` is the platform's prefix, `*` the field's
    own name in capitals. `rules` are further fields of `SettingDoc`."""
    about = SettingDoc(doc=doc, env=tuple(env.split()), **rules)
    # Typed as its default, so that the type checker holds it against the annotation.
    return cast(T, DeclaredSetting(default=default, about=about))


def own_setting(default: T, doc: str, *, also: str = "", **rules: Any) -> T:
    """A setting of a platform that has a variable of its own name, and those of `also`."""
    return setting(default, doc, env=f"<P>_* {also}", **rules)
