"""How fast messages may go to each chat, where a platform takes only so many (`send_interval`). Kept in
memory: after a restart the platform itself says what is too fast."""

from __future__ import annotations

from hermes.domain.chats.address import Address
from hermes.domain.chats.capabilities import Capabilities

_MOST = 10_000


class SendPace:
    """For each chat the time at which all that was sent would have been sent without a burst."""

    def __init__(self) -> None:
        self._even: dict[Address, float] = {}

    def wait(self, to: Address, able: Capabilities, now: float) -> float:
        """Seconds until the next message may go."""
        ahead = self._even.get(to, now) - now
        return ahead - able.send_interval * (able.send_burst - 1)

    def count(self, to: Address, able: Capabilities, now: float) -> None:
        if len(self._even) >= _MOST:
            self._even = {chat: even for chat, even in self._even.items() if even > now}
        self._even[to] = max(self._even.get(to, now), now) + able.send_interval
