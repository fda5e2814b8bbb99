"""What an answer that is no success means for the caller. Each platform lists its own cases as rows; what
all services have in common stands around them: too fast, a fault of theirs, too large, refused."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from hermes.domain.errors import HermesError, NeedsLogin, Refused, Unreachable

TOO_FAST = 429
_SECONDS = re.compile(r"[0-9]{1,5}(\.[0-9]{1,6})?", re.ASCII)


@dataclass(frozen=True, slots=True, kw_only=True)
class FailedCall:
    """An answer that is no success: its status, the vendor's own name for the error (or `HTTP 404` where it
    gives none), a line to show, and the seconds to wait if it names them."""

    status: int
    code: str
    why: str
    after: float | None = None


@dataclass(frozen=True, slots=True)
class ErrorRow:
    """An error of ours, and the statuses and codes that mean it; without either, it means every one. `{why}`
    and `{code}` in the text are the vendor's."""

    error: type[HermesError]
    text: str
    statuses: Collection[int] = ()
    codes: Collection[str] = ()
    waits: bool = False
    maybe_done: bool = False

    def matches(self, call: FailedCall) -> bool:
        anything = not self.statuses and not self.codes
        return anything or call.status in self.statuses or call.code in self.codes

    def made(self, call: FailedCall) -> HermesError:
        text = self.text.format(why=call.why, code=call.code)
        if issubclass(self.error, Unreachable):
            return self.error(text, after=call.after if self.waits else None, maybe_done=self.maybe_done)
        return self.error(text)


def error_rows(service: str, *own: ErrorRow, too_large: Collection[str] = ()) -> tuple[ErrorRow, ...]:
    """A service's own rows, between those that mean the same everywhere; `too_large`: its codes for that."""
    # A refused login stays one at any status: trying again would not help.
    logins = [row for row in own if issubclass(row.error, NeedsLogin)]
    return (
        ErrorRow(Unreachable, f"{service} wants us to be slower ({{why}})", {TOO_FAST}, waits=True),
        *logins,
        ErrorRow(
            Unreachable, f"{service} has a fault of its own ({{why}})", range(500, 1000), maybe_done=True
        ),
        *(row for row in own if row not in logins),
        ErrorRow(Refused, f"It is too large for {service} ({{why}})", {413}, too_large),
        ErrorRow(Refused, f"{service} refuses it ({{why}})"),
    )


def error_from(rows: Sequence[ErrorRow], call: FailedCall) -> HermesError:
    """The error of the first row that fits."""
    return next(row for row in rows if row.matches(call)).made(call)


def seconds_of(text: str | None) -> float | None:
    """The seconds that a header names; None if it names none that are believable."""
    return float(text) if text is not None and _SECONDS.fullmatch(text) else None


def retry_after(headers: Mapping[str, str]) -> float | None:
    return seconds_of(headers.get("Retry-After"))
