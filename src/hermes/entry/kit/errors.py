"""What an answer that is no success means for the caller. Each platform lists its own cases in a table; what
all services have in common stands around them: too fast, a fault of theirs, too large, refused."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping

from hermes.domain.errors import HermesError, NeedsLogin, Refused, Unreachable

TOO_FAST = 429
_SECONDS = re.compile(r"[0-9]{1,5}(\.[0-9]{1,6})?", re.ASCII)
Case = int | str | Collection[int | str]
"""A status, the vendor's own code for an error, or several of them."""
Row = tuple[type[HermesError] | Callable[[str, float | None], HermesError], str]
"""An error of ours, or what makes one of a text and the seconds to wait; and the text, with `{why}` in it."""
ErrorFor = Callable[[int, str, str, float | None], HermesError]
"""Of a status, a code, a line to show and the seconds to wait."""


def slower(text: str, after: float | None) -> HermesError:
    return Unreachable(text, after=after)


def their_fault(text: str, after: float | None) -> HermesError:
    return Unreachable(text, maybe_done=True)


def error_table(service: str, own: Mapping[Case, Row], *, too_large: Collection[str] = ()) -> ErrorFor:
    """The first case that fits decides: a service's own ones stand between those that mean the same
    everywhere. `too_large`: its codes for that."""
    rows: list[tuple[Case, Row]] = [
        (TOO_FAST, (slower, f"{service} wants us to be slower ({{why}})")),
        # A refused login stays one at any status: trying again would not help.
        *((case, row) for case, row in own.items() if row[0] is NeedsLogin),
        (range(500, 1000), (their_fault, f"{service} has a fault of its own ({{why}})")),
        *own.items(),
        ((413, *too_large), (Refused, f"It is too large for {service} ({{why}})")),
    ]

    def error_for(status: int, code: str, why: str, after: float | None) -> HermesError:
        fitting = (row for case, row in rows if _fits(case, status) or _fits(case, code))
        error, text = next(fitting, (Refused, f"{service} refuses it ({{why}})"))
        text = text.format(why=why)
        return error(text) if isinstance(error, type) else error(text, after)

    return error_for


def _fits(case: Case, value: int | str) -> bool:
    return value == case if isinstance(case, int | str) else value in case


def seconds_of(text: str | None) -> float | None:
    """The seconds that a header names; None if it names none that are believable."""
    return float(text) if text is not None and _SECONDS.fullmatch(text) else None


def retry_after(headers: Mapping[str, str]) -> float | None:
    return seconds_of(headers.get("Retry-After") or headers.get("retry-after"))
