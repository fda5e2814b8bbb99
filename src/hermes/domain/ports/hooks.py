"""The port behind which user hooks run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from hermes.domain.hooks import Hook, HookAnswer


class HookRunner(Protocol):
    """Calls hooks where they can do no harm. A call that gives no answer in time, for whatever reason, is
    raised as `Unreachable`, in words for the operator."""

    async def call(self, hook: Hook, event: str, context: Mapping[str, object]) -> HookAnswer: ...

    async def close(self) -> None: ...
