"""What the words of the program are made of. A word is a frozen msgspec `Struct`; a few classes that need
more of their fields are dataclasses. These functions take both."""

from __future__ import annotations

import threading
from dataclasses import fields, is_dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from msgspec import Struct, convert, structs, to_builtins

T = TypeVar("T")
LEARNING = threading.Lock()
"""Held while msgspec may meet a class for the first time. It keeps there what it learns of it before it has
learnt all: a second thread that needs the class meanwhile gets half of it and crashes the process."""

if TYPE_CHECKING:
    # The type checker knows the changes that this function accepts, also for Structs.
    from dataclasses import replace as replace
else:
    from dataclasses import replace as _replace

    def replace(value, /, **changes):
        """The same with other values in these fields."""
        return structs.replace(value, **changes) if isinstance(value, Struct) else _replace(value, **changes)


def is_word(value: object) -> bool:
    """Whether this is a word or a type of words: something with named fields."""
    return hasattr(value, "__struct_fields__") or is_dataclass(value)


def field_names(kind: Any) -> tuple[str, ...]:
    """The names of its fields, in their order."""
    if hasattr(kind, "__struct_fields__"):
        names: tuple[str, ...] = kind.__struct_fields__
        return names
    return tuple(item.name for item in fields(kind))


def check_word(word: object, kind: type[T]) -> T:
    """A word from foreign code with what its fields must hold, or a `ValueError`. Nothing is checked when a
    word is made, and everything can be stored: a wrong one would make its session unreadable for good."""
    try:
        plain = to_builtins(word, builtin_types=(bytes, bytearray))
        with LEARNING:
            return convert(plain, kind)
    except (TypeError, ValueError, AttributeError, ArithmeticError, RecursionError) as error:
        raise ValueError(str(error)) from error
