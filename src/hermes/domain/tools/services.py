"""What tools work with, found by its type: the backend, messages to chats, whatever an agent has. Tools of
plugins are given the same as those that Hermes brings along."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, TypeVar

from hermes.domain.errors import UserError

T = TypeVar("T")


class ToolServices:
    """A mapping from a type to the one instance of it that an agent has."""

    def __init__(self, given: Mapping[Any, Any]) -> None:
        self._given = {kind: instance for kind, instance in given.items() if instance is not None}

    def has(self, kinds: Collection[Any]) -> bool:
        return all(kind in self._given for kind in kinds)

    def get(self, kind: type[T]) -> T:
        """A `UserError` if the agent has none."""
        if kind not in self._given:
            raise UserError(f"There is no {kind.__name__} here.")
        instance: T = self._given[kind]
        return instance

    def plus(self, kind: type[T], instance: T) -> ToolServices:
        """These, and one more."""
        return ToolServices({**self._given, kind: instance})
