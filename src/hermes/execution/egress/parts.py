"""What a way out is made of. Each part is asked for when it is used, so changed settings count at once."""

from __future__ import annotations

from collections.abc import Callable

from msgspec import Struct

from hermes.execution.egress.broker import AgentBroker
from hermes.execution.egress.reach import Reach
from hermes.execution.egress.wire import Wire


class EgressParts(Struct, frozen=True, kw_only=True):
    reach: Callable[[], Reach] = Reach
    wire: Callable[[], Wire] = Wire
    broker: Callable[[str], AgentBroker] = AgentBroker
