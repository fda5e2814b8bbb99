"""A home as a command finds it: the gateway that runs there is asked through its socket; where none runs, the
command opens the database for a moment and does the same itself. What can be asked is `entry.desk`'s."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar, get_type_hints

import msgspec

from hermes import plugins
from hermes.admin.gateway import hold_home
from hermes.admin.running import Running, find_running
from hermes.control.courier import Courier
from hermes.control.job_targets import named_targets
from hermes.control.jobs import JobDesk
from hermes.control.library import remove_session
from hermes.domain.capabilities import Capabilities, Manifest
from hermes.domain.clock import SystemClock, zone_named
from hermes.domain.ids import MAIN_AGENT, AgentId, SessionId
from hermes.domain.settings import Settings
from hermes.entry.desk import OPERATIONS, Desk
from hermes.state.aliases import ChannelAliases
from hermes.state.profiles import DATABASE_FILE, agent_home, prepare_home
from hermes.state.settings import Loaded, load_settings
from hermes.state.sqlite import SqliteStore
from hermes.stream.wire import decode, encode

T = TypeVar("T")


def open_home(home: Path, environ: Mapping[str, str], what: str, *, creating: bool = False) -> Place:
    """`what` names the command to whoever wants the home meanwhile; one that is `creating` makes a database
    where there is none."""
    running = find_running(home, environ)
    return running or Resting(home=home, environ=environ, what=what, creating=creating)


def agents_of(settings: Settings) -> list[AgentId]:
    return [MAIN_AGENT, *map(AgentId, settings.agents)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Resting:
    """A home that nobody works on. What is changed counts at the next start."""

    home: Path
    environ: Mapping[str, str]
    what: str
    creating: bool = False
    running = False

    @property
    def empty(self) -> bool:
        """Whether nothing ever happened here."""
        return not (self.home / DATABASE_FILE).exists()

    def get(self, path: str, kind: type[T], **query: Any) -> T:
        return self._ask("GET", path, kind, query)

    def delete(self, path: str, kind: type[T], **query: Any) -> T:
        return self._ask("DELETE", path, kind, query)

    def post(self, path: str, kind: type[T], body: object) -> T:
        return self._ask("POST", path, kind, body)

    def _ask(self, method: str, path: str, kind: type[T], given: object) -> T:
        """The same way as to a gateway, down to the words."""
        [perform] = [one.perform for one in OPERATIONS if (one.method, one.path) == (method, path)]
        hints = get_type_hints(perform)
        taken = {
            name: msgspec.convert(msgspec.to_builtins(given), hints[name])
            for name in ("body", "query")
            if name in hints
        }
        return decode(kind, encode(self._work(lambda desk: perform(desk, **taken))))

    def _work(self, work: Callable[[Desk], Awaitable[T]]) -> T:
        """Do something with the database; where there is none, with an empty one that is forgotten."""

        async def opened(path: Path | None) -> T:
            async with SqliteStore(path) as store:
                return await work(self._desk(store))

        if self.creating:
            prepare_home(self.home)
        elif self.empty:
            return asyncio.run(opened(None))
        with hold_home(self.home, self.what):
            return asyncio.run(opened(self.home / DATABASE_FILE))

    def _desk(self, store: SqliteStore) -> Desk:
        manifests = plugins.platform_manifests()
        loaded = load_settings(self.home, self.environ, platforms=[one.name for one in manifests])
        able = {one.name: one.capabilities for one in manifests}
        courier = Courier(
            store=store,
            clock=SystemClock(),
            settings=loaded.settings,
            accounts=lambda: _accounts(manifests, loaded),
            aliases=ChannelAliases(self.home).read,
            capabilities=lambda to: able.get(to.platform) or Capabilities(),
            ring=lambda to: None,
            wake=lambda agent, session: None,
        )

        async def delete(agent: AgentId, session: SessionId) -> None:
            await store.scoped(agent).write(lambda tx: remove_session(tx, session))

        return Desk(
            agents=agents_of(loaded.settings),
            default=loaded.settings.default_agent,
            courier=courier,
            jobs=lambda agent: self._jobs(courier, agent),
            delete=delete,
            sends=lambda to: False,
            carry=lambda: None,
        )

    def _jobs(self, courier: Courier, agent: AgentId) -> JobDesk:
        from hermes.app.jobs import HomeJobs

        settings = courier.settings
        return JobDesk(
            agent=agent,
            store=courier.store.scoped(agent),
            clock=courier.clock,
            zone=zone_named(settings.timezone),
            settings=settings,
            world=HomeJobs(agent_home(self.home, agent, settings), self.environ, None),
            targets=named_targets(courier.aliases, courier.accounts()),
        )


Place = Running | Resting


def _accounts(manifests: Sequence[Manifest], loaded: Loaded) -> list[str]:
    from hermes.app.accounts import declared_accounts  # brings all of the gateway along

    return [one.name for one in declared_accounts(manifests, loaded) if one.enabled]
