"""A house as agents use it: its devices and sensors, as far as the owner has exposed them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from msgspec import Struct


class HouseEntity(Struct, frozen=True, kw_only=True):
    """A device or a sensor (`light.kitchen`); what it says of itself was written by others."""

    id: str
    name: str
    state: str
    attributes: Mapping[str, Any]

    @property
    def domain(self) -> str:
        return self.id.partition(".")[0]


class House(Protocol):
    """What cannot be done is a `UserError` with the reason. Of an entity that is not exposed nothing is told,
    and nothing is done with it."""

    async def entities(self) -> Sequence[HouseEntity]: ...

    async def act(self, entity: str, service: str, data: Mapping[str, Any]) -> HouseEntity:
        """Call a service of the entity's own domain (`turn_on`); how the entity is afterwards."""
