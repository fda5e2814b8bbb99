"""What every store must do, as checks to be run over any of them: `await check(open_store)`.

`open_store()` gives a context that opens the same database each time, empty at first, and closes it at the
end. `LASTING_CHECKS` open it again and so need a database that outlives its opening. `machine` holds the
same promises against a plain model, with random operations (it needs hypothesis).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from hermes.testing.store_suite import (
    directory,
    handoffs,
    lives,
    pairing,
    preparing,
    queues,
    requests,
    scope,
    talk,
    units,
    usage,
    work,
)
from hermes.testing.store_suite.samples import OpenStore

Check = Callable[[OpenStore], Awaitable[None]]

CHECKS: tuple[Check, ...] = (
    *queues.CHECKS,
    *directory.CHECKS,
    *handoffs.CHECKS,
    *work.CHECKS,
    *talk.CHECKS,
    *requests.CHECKS,
    *pairing.CHECKS,
    *preparing.CHECKS,
    *lives.CHECKS,
    *units.CHECKS,
    *usage.CHECKS,
    *scope.CHECKS,
)
LASTING_CHECKS: tuple[Check, ...] = lives.LASTING_CHECKS

__all__ = ["CHECKS", "LASTING_CHECKS", "Check", "OpenStore"]
