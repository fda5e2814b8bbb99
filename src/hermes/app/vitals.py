"""How the gateway is at this moment: what it told of itself and its platforms, and what is looked up anew
each time (the store, the disk, the process). For `/health/detailed` and `/metrics`."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from datetime import UTC
from pathlib import Path
from typing import Any, Protocol

from hermes.domain.clock import Clock
from hermes.entry.host import HostState
from hermes.state.settings import Loaded
from hermes.state.sqlite import StoreFacts


class Watching(Protocol):
    """As `app.Watch`."""

    def tell(self, state: str, **facts: Any) -> None: ...

    def tell_platform(self, account: str, state: HostState, why: str) -> None: ...


class Vitals:
    """Stands between the gateway and whoever watches it, and remembers what was said."""

    def __init__(self, home: Path, loaded: Loaded, watch: Watching, clock: Clock) -> None:
        self._home = home
        self._loaded = loaded
        self._watch = watch
        self._clock = clock
        self._facts: dict[str, Any] = {}
        self._said: dict[str, Any] = {"gateway_state": "starting", "started_at": clock.now().timestamp()}
        self._platforms: dict[str, dict[str, str]] = {}
        self.store: StoreFacts | None = None

    def tell(self, state: str, **facts: Any) -> None:
        self._facts = facts
        self._said.update(facts, gateway_state=state, updated_at=self._moment())
        self._watch.tell(state, **facts)

    def tell_hooks(self, hooks: list[dict[str, Any]]) -> None:
        """A hook is left alone, or called again."""
        self.tell(self._said["gateway_state"], **self._facts | {"hooks": hooks})

    def tell_platform(self, account: str, state: HostState, why: str) -> None:
        self._platforms[account] = {"state": state.value, "detail": why, "updated_at": self._moment()}
        self._watch.tell_platform(account, state, why)

    def facts(self) -> Mapping[str, Any]:
        store = self.store or StoreFacts()
        return {
            **self._said,
            "pid": os.getpid(),
            "platforms": self._platforms,
            "config_problems": len(self._loaded.problems),
            "disk_free_bytes": shutil.disk_usage(self._home).free,
            "store_trouble": store.trouble,
            "store_commits": store.commits,
            "store_units": store.units,
            "store_seconds": store.seconds,
        }

    def _moment(self) -> str:
        return self._clock.now().astimezone(UTC).isoformat()
