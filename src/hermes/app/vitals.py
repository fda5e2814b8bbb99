"""How the gateway is at this moment: what it told of itself and its platforms, and what is looked up anew
each time (the store, the disk, the process). For `/health/detailed` and `/metrics`."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Protocol

from hermes.control.chores import ChoreState
from hermes.control.gateway import Gateway
from hermes.control.jobs.ticker import LONGEST_SLEEP
from hermes.control.workers import LoopState, Supervisor
from hermes.entry.host import AdapterHost, HostState
from hermes.state.settings.loader import LoadedSettings
from hermes.state.store.writer import StoreFacts


class StatusListener(Protocol):
    """Told what the gateway is doing: starting, running, draining, stopped, and how each platform is."""

    def tell(self, state: str, **facts: Any) -> None: ...

    def tell_platform(self, account: str, state: HostState, why: str) -> None: ...


class _Nobody:
    def tell(self, state: str, **facts: Any) -> None:
        pass

    def tell_platform(self, account: str, state: HostState, why: str) -> None:
        pass


NOBODY: StatusListener = _Nobody()


class LiveStatus:
    """Stands between the gateway and whoever watches it, and remembers what was said."""

    def __init__(self, home: Path, loaded: LoadedSettings, watch: StatusListener, loops: Supervisor) -> None:
        self._home = home
        self._loaded = loaded
        self._watch = watch
        self._loops = loops
        self._clock = clock = loops.clock
        self._facts: dict[str, Any] = {}
        self._state: dict[str, Any] = {"gateway_state": "starting", "started_at": clock.now().timestamp()}
        self._platforms: dict[str, dict[str, str]] = {}
        self.store: StoreFacts | None = None
        self._hosts: Mapping[str, AdapterHost] = {}
        self._gateway: Gateway | None = None

    def watch(self, hosts: Mapping[str, AdapterHost], gateway: Gateway) -> None:
        """Whose progress is looked up when somebody asks."""
        self._hosts, self._gateway = hosts, gateway

    def tell(self, state: str, **facts: Any) -> None:
        self._facts = facts
        self._state.update(facts, gateway_state=state, updated_at=self._moment())
        self._watch.tell(state, **facts)

    def tell_hooks(self, hooks: list[dict[str, Any]]) -> None:
        """A hook is left alone, or called again."""
        self.tell(self._state["gateway_state"], **self._facts | {"hooks": hooks})

    def tell_platform(self, account: str, state: HostState, why: str) -> None:
        self._platforms[account] = {"state": state.value, "detail": why, "updated_at": self._moment()}
        self._watch.tell_platform(account, state, why)

    def facts(self) -> Mapping[str, Any]:
        store = self.store or StoreFacts()
        return {
            **self._state,
            "pid": os.getpid(),
            "platforms": {name: told | self._heard(name) for name, told in self._platforms.items()},
            "chores": self._chores(),
            "loops": [_loop_facts(state, self._clock.now()) for state in tuple(self._loops.states.values())],
            "config_problems": len(self._loaded.problems),
            "disk_free_bytes": shutil.disk_usage(self._home).free,
            "store_trouble": store.trouble,
            "store_commits": store.commits,
            "store_units": store.units,
            "store_seconds": store.seconds,
        }

    def _heard(self, account: str) -> dict[str, str]:
        """When its adapter last gave a sign of life."""
        host = self._hosts.get(account)
        heard = None if host is None else host.heard_at
        return {"heard_at": "" if heard is None else heard.isoformat()}

    def _chores(self) -> list[dict[str, Any]]:
        if self._gateway is None:
            return []
        ticked = self._gateway.cron.ticked_at
        cron = ChoreState(name="cron", every=LONGEST_SLEEP, last_at=ticked, outcome="looked for due jobs")
        return [_told(state) for state in (cron, *self._gateway.chores.states.values())]

    def _moment(self) -> str:
        return self._clock.now().astimezone(UTC).isoformat()


def _loop_facts(state: LoopState, now: datetime) -> dict[str, Any]:
    at = None if state.last_at is None else state.last_at.astimezone(UTC).isoformat()
    return {
        "name": state.name,
        "ok": state.is_well(now),
        "failures": state.failures,
        "last_at": at,
        "why": state.why,
    }


def _told(state: ChoreState) -> dict[str, Any]:
    at = None if state.last_at is None else state.last_at.astimezone(UTC).isoformat()
    outcome = state.outcome if at is not None else ""
    return {"name": state.name, "every": state.every, "last_at": at, "outcome": outcome, "ok": state.ok}
