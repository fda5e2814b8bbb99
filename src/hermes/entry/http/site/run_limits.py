"""How many turns of API clients may run at once: in all, and for each key. A turn counts from the moment its
request is let in until it ends or waits for an answer: what waits is a row, and holds up nobody. Turns of
chats, terminals and jobs do not count here."""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Callable, Iterator
from datetime import UTC, datetime

from hermes.domain.ids import TurnId
from hermes.entry.http.site.admission import Principal
from hermes.entry.http.site.errors import ApiError

_LONGEST_WAIT = 60
_UNKNOWN_WAIT = 5.0
_MOST_TURNED_AWAY = 1_000
_NEVER = datetime.min.replace(tzinfo=UTC)


class TurnedAway:
    """When requests were last turned away unheard, by what is asked in them."""

    def __init__(self) -> None:
        self._at: dict[str, datetime] = {}

    def note(self, asked: str, now: datetime) -> None:
        self._at.pop(asked, None)
        self._at[asked] = now
        if len(self._at) > _MOST_TURNED_AWAY:
            del self._at[next(iter(self._at))]

    def at(self, asked: str) -> datetime:
        return self._at.get(asked, _NEVER)


class RunLimits:
    """`is_running` tells whether a turn is worked on, or is about to be."""

    def __init__(
        self, most: int, per_key: int, is_running: Callable[[TurnId], bool], now: Callable[[], float]
    ) -> None:
        self._most = most
        self._per_key = per_key
        self._is_running = is_running
        self._now = now
        self._running: dict[TurnId, tuple[str, float]] = {}
        self._beginning: Counter[str] = Counter()

    @contextlib.contextmanager
    def hold(self, principal: Principal) -> Iterator[None]:
        """Keep a place for a key while its turn is made; an error for the client if there is none."""
        refused = self.refusal(principal)
        if refused is not None:
            raise refused
        self._beginning[principal.name] += 1
        try:
            yield
        finally:
            self._beginning[principal.name] -= 1

    def note(self, principal: Principal, turn: TurnId) -> None:
        """The turn was made, or goes on."""
        self._running.setdefault(turn, (principal.name, self._now()))

    def refusal(self, principal: Principal) -> ApiError | None:
        """Why a key may begin nothing at this moment."""
        name = principal.name
        most = self._per_key if principal.max_runs is None else principal.max_runs
        if len(self._running) + self._beginning.total() < min(most, self._most):
            return None  # even if all that were noted still run
        self._running = {turn: entry for turn, entry in self._running.items() if self._is_running(turn)}
        own = [since for key, since in self._running.values() if key == name]
        if len(own) + self._beginning[name] >= most:
            return self._too_busy(f"The key “{name}” may have {most} runs at once.", own)
        if len(self._running) + self._beginning.total() >= self._most:
            return self.too_busy(f"API clients may have {self._most} runs at once.")
        return None

    def too_busy(self, why: str) -> ApiError:
        return self._too_busy(why, [since for _, since in self._running.values()])

    def _too_busy(self, why: str, began: list[float]) -> ApiError:
        """A place becomes free when one of these runs ends: by their age so far, after about this time."""
        age = sum(self._now() - since for since in began)
        seconds = age / len(began) ** 2 if began else _UNKNOWN_WAIT
        after = str(min(int(seconds) + 1, _LONGEST_WAIT))
        why = f"{why} Try again in {after} s."
        return ApiError(429, "rate_limit_exceeded", why, headers={"Retry-After": after})
