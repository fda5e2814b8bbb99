"""How fast messages may go to each chat, or from each account, where a platform takes only so many
(`send_interval`). Kept in memory: after a restart the platform itself says what is too fast."""

from __future__ import annotations

from hermes.domain.chats.address import Address
from hermes.domain.chats.capabilities import Capabilities

_MOST = 10_000


class SendPace:
    """For each chat or account the time at which all that was sent would have been sent without a burst."""

    def __init__(self) -> None:
        self._even: dict[Address | str, float] = {}

    def wait(self, to: Address, able: Capabilities, now: float) -> float:
        """Seconds until the next message may go."""
        ahead = self._even.get(_paced(to, able), now) - now
        return ahead - able.send_interval * (able.send_burst - 1)

    def count(self, to: Address, able: Capabilities, now: float) -> None:
        if len(self._even) >= _MOST:
            self._even = {paced: even for paced, even in self._even.items() if even > now}
        paced = _paced(to, able)
        self._even[paced] = max(self._even.get(paced, now), now) + able.send_interval


def _paced(to: Address, able: Capabilities) -> Address | str:
    return to.credential if able.paces_account else to
