"""How the gateway is: what it tells of itself and its platforms, for whoever follows that (the state file),
and what is looked up anew each time (the store, the disk, the process), for `/health/detailed` and
`/metrics`."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from hermes import plugins
from hermes.control.chores import ChoreState
from hermes.control.events import Events
from hermes.control.gateway import Gateway
from hermes.control.jobs.ticker import LONGEST_SLEEP
from hermes.control.workers import LoopState, Supervisor
from hermes.domain.ids import AgentId
from hermes.domain.safety.concealing import concealed_data
from hermes.domain.turns.gateway_event import AccountChanged
from hermes.entry.host import AdapterHost, HostState
from hermes.state.settings.loader import LoadedSettings
from hermes.state.store.writer import StoreFacts

StatusListener = Callable[[Mapping[str, Any]], None]
"""Hears all that the gateway tells of itself, whenever some of it has changed. `gateway_state` is starting,
running, draining, stopped or startup_failed."""


class LiveStatus:
    def __init__(
        self,
        home: Path,
        loaded: LoadedSettings,
        listener: StatusListener,
        loops: Supervisor,
        events: Events,
    ) -> None:
        self._home = home
        self._loaded = loaded
        self._listener = listener
        self._loops = loops
        self._events = events
        self._clock = loops.clock
        self._platforms: dict[str, dict[str, str]] = {}
        self._state: dict[str, Any] = {
            "platforms": self._platforms,
            "gateway_state": "starting",
            "approvals": loaded.settings.approvals.mode,
        }
        self._started_at = 0.0
        self._store = StoreFacts()
        self._hosts: Mapping[str, AdapterHost] = {}
        self._gateway: Gateway | None = None
        self._backends: Callable[[], Mapping[str, Any]] = dict
        self._left_out: Callable[[], Mapping[AgentId, str]] = dict

    def begin(self, store: StoreFacts) -> None:
        """The store is open."""
        self._store, self._started_at = store, self._clock.now().timestamp()

    def watch(
        self,
        hosts: Mapping[str, AdapterHost],
        gateway: Gateway,
        backends: Callable[[], Mapping[str, Any]],
        left_out: Callable[[], Mapping[AgentId, str]],
    ) -> None:
        """Whose progress is looked up when somebody asks; `left_out` are agents that could not be built."""
        self._hosts, self._gateway = hosts, gateway
        self._backends, self._left_out = backends, left_out

    def tell(self, state: str, **facts: Any) -> None:
        redact = self._loaded.secrets.redact
        self._state.update({name: concealed_data(value, redact) for name, value in facts.items()})
        self._state["gateway_state"] = state
        self._changed()

    def tell_more(self, facts: Mapping[str, Any]) -> None:
        self.tell(self._state["gateway_state"], **facts)

    def adopt(self, loaded: LoadedSettings, **facts: Any) -> None:
        """The gateway works with other settings."""
        self._loaded = loaded
        self.tell_more({"approvals": loaded.settings.approvals.mode, **facts})

    def tell_hooks(self, hooks: list[dict[str, Any]]) -> None:
        """A hook is left alone, or called again."""
        self.tell_more({"hooks": hooks})

    def tell_platform(self, account: str, state: HostState, why: str) -> None:
        moment = _spell(self._clock.now())
        why = self._loaded.secrets.redact(why)
        self._platforms[account] = {"state": state.value, "error_message": why, "updated_at": moment}
        self._changed()
        self._events.emit(AccountChanged(account=account, state=state.value))

    def _changed(self) -> None:
        self._state["updated_at"] = _spell(self._clock.now())
        self._listener(self._state)

    def facts(self) -> Mapping[str, Any]:
        store = self._store
        return {
            **self._state,
            **self._backends(),
            "started_at": self._started_at,
            "pid": os.getpid(),
            "platforms": {name: self._platform(name) for name in tuple(self._platforms)},
            "chores": self._chores(),
            "loops": [_loop_facts(state, self._clock.now()) for state in tuple(self._loops.states.values())],
            "agents_left_out": dict(self._left_out()),
            "plugins_broken": dict(plugins.broken),
            "config_problems": len(self._loaded.problems),
            "disk_free_bytes": shutil.disk_usage(self._home).free,
            "store_trouble": store.trouble,
            "store_commits": store.commits,
            "store_units": store.units,
            "store_seconds": store.seconds,
        }

    def _platform(self, account: str) -> dict[str, str]:
        """An account, and when its adapter last gave a sign of life."""
        facts, host = self._platforms[account], self._hosts.get(account)
        heard = None if host is None else host.heard_at
        return {
            "state": facts["state"],
            "detail": facts["error_message"],
            "updated_at": facts["updated_at"],
            "heard_at": "" if heard is None else heard.isoformat(),
        }

    def _chores(self) -> list[dict[str, Any]]:
        if self._gateway is None:
            return []
        ticked = self._gateway.cron.ticked_at
        cron = ChoreState(name="cron", every=LONGEST_SLEEP, last_at=ticked, outcome="looked for due jobs")
        return [_chore_facts(state) for state in (cron, *self._gateway.chores.states.values())]


def _spell(at: datetime) -> str:
    return at.astimezone(UTC).isoformat()


def _loop_facts(state: LoopState, now: datetime) -> dict[str, Any]:
    at = None if state.last_at is None else _spell(state.last_at)
    return {
        "name": state.name,
        "ok": state.is_well(now),
        "failures": state.failures,
        "last_at": at,
        "why": state.why,
    }


def _chore_facts(state: ChoreState) -> dict[str, Any]:
    at = None if state.last_at is None else _spell(state.last_at)
    outcome = state.outcome if at is not None else ""
    return {"name": state.name, "every": state.every, "last_at": at, "outcome": outcome, "ok": state.ok}
