"""A thousand agents cost what one costs: the statements of a message, a command, a tick, a deletion and a
media clean-up are counted at the store, and an agent that nobody speaks to is never built."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import pytest

from hermes.domain.ids import MAIN_AGENT, AgentId
from hermes.domain.ports.store import Store, Tx
from hermes.domain.settings.settings import ResetMode, ResetSettings
from hermes.state.store.sqlite import SqliteDb
from hermes.testing.clock import FakeClock, settle
from hermes.testing.harness import Journey, open_settings
from hermes.testing.world import Update

T = TypeVar("T")
MANY = tuple(f"agent{n}" for n in range(1000))


class CountingStore:
    """Counts the statements of each unit that the gateway gives to the store."""

    here = threading.local()

    def __init__(self, store: Store, statements: Counter[str]) -> None:
        self._store = store
        self._statements = statements

    async def write(self, unit: Callable[[Tx], T], *, first: bool = False, ends: bool = False) -> T:
        return await self._store.write(self._counted(unit), first=first, ends=ends)

    async def read(self, query: Callable[[Tx], T]) -> T:
        return await self._store.read(self._counted(query))

    def scoped(self, agent: AgentId) -> Store:
        return CountingStore(self._store.scoped(agent), self._statements)

    def _counted(self, unit: Callable[[Tx], T]) -> Callable[[Tx], T]:
        def run(tx: Tx) -> T:
            self.here.statements = self._statements
            try:
                return unit(tx)
            finally:
                self.here.statements = None

        return run


@pytest.fixture(autouse=True)
def counted(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("all", "one", "run"):
        plain = getattr(SqliteDb, name)

        def run(db: SqliteDb, sql: str, *values: Any, plain: Any = plain) -> Any:
            statements = getattr(CountingStore.here, "statements", None)
            if statements is not None:
                statements[" ".join(sql.split())] += 1
            return plain(db, sql, *values)

        monkeypatch.setattr(SqliteDb, name, run)


class Gateway:
    """A gateway with these agents, whose statements are counted step by step."""

    def __init__(self, folder: Path, agents: tuple[str, ...]) -> None:
        self.statements: Counter[str] = Counter()
        self.steps: dict[str, Counter[str]] = {}
        folder.mkdir()
        self.chat = Journey(
            folder=folder,
            kind="plain",
            agents=agents,
            clock=FakeClock(),
            settings=open_settings(session_reset=ResetSettings(mode=ResetMode.IDLE)),
            wrap_store=lambda store: CountingStore(store, self.statements),
        )

    @contextmanager
    def step(self, name: str) -> Iterator[None]:
        self.statements.clear()
        yield
        self.steps[name] = Counter(self.statements)

    async def live(self) -> None:
        async with self.chat as chat:
            chat.world.write("hello")
            await chat.until_seen("You said: hello")
            await self._rest()
            with self.step("message"):
                said = chat.world.write("again")
                await chat.until_seen("You said: again")
                await self._rest()
            with self.step("command"):
                chat.world.write("/status")
                await chat.until_taken()
                await self._rest()
            with self.step("tick"):
                await chat.gateway.cron.tick()
            with self.step("deletion"):
                self._delete(said)
                await chat.until_taken()
                await self._rest()
            with self.step("media"):
                await chat.gateway.chores.run("media clean-up")
            with self.step("expiry"):
                await chat.gateway.sessions_expiry.sweep()
            with self.step("hand-offs"):
                await chat.gateway.handoffs.look()
            self.built = [agent for agent in chat.gateway.agents if chat.gateway.agents.built(agent)]

    def _delete(self, message: Update) -> None:
        self.chat.world.write("", deletes=message.delivery, user="")

    async def _rest(self) -> None:
        await self.chat.until_idle()
        await settle()


async def test_a_thousand_agents_cost_what_one_costs(tmp_path: Path) -> None:
    alone, crowd = Gateway(tmp_path / "one", ("main",)), Gateway(tmp_path / "many", ("main", *MANY))
    await alone.live()
    await crowd.live()
    for name, statements in alone.steps.items():
        assert crowd.steps[name] == statements, name
        assert sum(statements.values()) > 0, f"{name}: nothing was counted"
    assert crowd.built == [MAIN_AGENT], "an agent was built that nobody spoke to"
