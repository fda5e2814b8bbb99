"""A gateway to be measured: the real store on a real file, a model without delay, a chat service that counts.

The parts cost as little as they can, so that the figures are the gateway's own."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import TypeVar

from hermes.agent.run.loop import AgentLoop
from hermes.app.agents.registry import AgentRegistry
from hermes.control.core import Runtime
from hermes.control.gateway import Gateway
from hermes.control.turn.claim import Claim, NextStep
from hermes.control.wiring import GatewayParts
from hermes.control.workers import Supervisor
from hermes.domain.chats.address import Address, Source, SourceKind
from hermes.domain.chats.message import Inbound
from hermes.domain.clock import SystemClock
from hermes.domain.ids import MAIN_AGENT, AgentId, CallId, DeliveryId
from hermes.domain.ports.agent import ModelEnd, ModelPiece, ModelRequest, Provider
from hermes.domain.ports.store import Store, Tx
from hermes.domain.settings.live import LiveSettings
from hermes.domain.settings.settings import (
    DisplaySettings,
    GatewaySettings,
    Profile,
    Settings,
    StreamingSettings,
)
from hermes.domain.tools.tool import ToolCall
from hermes.domain.tools.toolbox import Toolbox
from hermes.domain.turns.event import Entry, TextDelta, ToolFinished, UserSaid
from hermes.domain.turns.turn import BusyMode
from hermes.state.store.sqlite import StoreOptions
from hermes.state.store.writer import SqliteStore
from hermes.testing.crash import unit_name
from hermes.testing.harness import open_settings
from hermes.testing.platform import KINDS, fake_platform
from hermes.testing.tools import world_tools
from hermes.testing.world import Update

T = TypeVar("T")
ACCOUNT = "fake"
LAST_WORDS = "and that is all there is to say about it."
_MOMENT = datetime(2026, 1, 5, tzinfo=UTC)
Rounds = tuple[tuple[str, ...], ...]
"""The tools that a turn uses: one tuple for each reply of the model that calls some."""


def inbound(chat: str, token: str) -> Inbound:
    """A message of ordinary length whose first word is its token."""
    return Inbound(
        delivery=DeliveryId(f"d-{token}"),
        source=Source(
            address=Address(platform="fake", chat=chat),
            kind=SourceKind.PRIVATE,
            user=f"u{chat}",
            user_name="Ada",
        ),
        at=_MOMENT,
        ref=f"r-{token}",
        text=f"{token} please look up when the next train to the sea leaves and tell me what it costs",
    )


def answer_to(token: str) -> str:
    return f"{token} was heard: the next train leaves at nine and costs twelve, {LAST_WORDS}"


class QuickModel:
    """Uses the tools of each round, then answers in a few pieces; a function of the transcript alone."""

    def __init__(self, rounds: Rounds = (), pieces: int = 4) -> None:
        self._rounds = rounds
        self._pieces = pieces

    async def call(self, request: ModelRequest) -> AsyncIterator[ModelPiece]:
        token, done = look_back(request.entries)
        for names in self._rounds:
            if done < len(names):
                calls = [
                    ToolCall(id=CallId(f"{token}-{name}-{n}"), name=name, arguments=f'{{"token": "{token}"}}')
                    for n, name in enumerate(names)
                ]
                yield ModelEnd(calls=tuple(calls), model="quick")
                return
            done -= len(names)
        text = answer_to(token)
        size = -(-len(text) // self._pieces)
        for at in range(0, len(text), size):
            yield TextDelta(text=text[at : at + size])
        yield ModelEnd(model="quick")


def look_back(entries: Sequence[Entry]) -> tuple[str, int]:
    """The token of the last words of a person, and how many tools finished since."""
    done = 0
    for entry in reversed(entries):
        record = entry.record
        if isinstance(record, UserSaid):
            return record.text.partition(" ")[0], done
        done += isinstance(record, ToolFinished)
    return "", done


class Desk:
    """The chat service. It counts complete answers by token and wakes whoever waits for one."""

    def __init__(self) -> None:
        self.answers: Counter[str] = Counter()
        self.keys: Counter[str] = Counter()
        self._waiters: dict[str, asyncio.Future[None]] = {}
        self._refs = 0

    async def wait(self, token: str) -> None:
        if token not in self.answers:
            waiter = self._waiters[token] = asyncio.get_running_loop().create_future()
            await waiter

    def _see(self, text: str) -> None:
        if not text.endswith(LAST_WORDS):
            return
        token = text.partition(" ")[0]
        self.answers[token] += 1
        waiter = self._waiters.pop(token, None)
        if waiter is not None and not waiter.done():
            waiter.set_result(None)

    async def poll(self, after: int, limit: int = 100) -> Sequence[Update]:
        raise NotImplementedError("messages are handed to the gateway directly")

    async def ack(self, upto: int) -> None:
        raise NotImplementedError("messages are handed to the gateway directly")

    async def send(self, chat: str, text: str, key: str, *more: object) -> str:
        self.keys[key] += 1
        self._refs += 1
        self._see(text)
        return f"r{self._refs}"

    async def edit(self, ref: str, text: str) -> None:
        self._see(text)

    async def delete(self, ref: str) -> None:
        return None

    async def find(self, chat: str, key: str) -> str | None:
        return None


@dataclass(slots=True)
class CountingStore:
    """Counts units by name as they commit, and tells `seen` of each."""

    store: Store
    units: Counter[str] = field(default_factory=Counter)
    seen: Callable[[str], None] = lambda name: None

    async def write(self, unit: Callable[[Tx], T], *, first: bool = False) -> T:
        result = await self.store.write(unit, first=first)
        name = _name(unit, result)
        self.units[name] += 1
        self.seen(name)
        return result

    async def read(self, query: Callable[[Tx], T]) -> T:
        return await self.store.read(query)

    def scoped(self, agent: AgentId) -> Store:
        return CountingStore(self.store.scoped(agent), self.units, self.seen)


def _name(unit: Callable[..., object], result: object) -> str:
    """The unit's name; a claim that found nothing and an attempt without a row write little or nothing."""
    name = unit_name(unit) or getattr(unit, "__qualname__", "other").rpartition(".")[2]
    if name == "claim" and isinstance(result, Claim) and result.next is NextStep.NOTHING:
        return "look"
    if name == "attempt" and getattr(result, "row", None) is None:
        return "settle"
    return name


def bench_settings(cache_mb: int = GatewaySettings().cache_mb) -> Settings:
    """Everybody may speak and messages wait their turn; the rest is as it comes, the pace of drafts too."""
    return open_settings(
        display=DisplaySettings(busy_input_mode=BusyMode.QUEUE),
        gateway=GatewaySettings(cache_mb=cache_mb),
        streaming=StreamingSettings(),
    )


@dataclass(slots=True, kw_only=True)
class Rig:
    """One life of a gateway over `folder/state.db`."""

    folder: Path
    kind: str = "plain"
    provider: Provider = field(default_factory=QuickModel)
    settings: Settings = field(default_factory=bench_settings)
    count: bool = False
    seen: Callable[[str], None] = lambda name: None
    vfs: str | None = None
    desk: Desk = field(default_factory=Desk)
    units: Counter[str] = field(default_factory=Counter)
    database: SqliteStore = field(init=False)
    gateway: Gateway = field(init=False)

    async def __aenter__(self) -> Rig:
        self.database = await SqliteStore(self.folder / "state.db", StoreOptions(vfs=self.vfs)).open()
        store: Store = self.database
        if self.count:
            store = CountingStore(self.database, self.units, self.seen)
        clock = SystemClock()
        agent = AgentLoop(
            provider=self.provider,
            toolbox=Toolbox(world_tools(_nothing)),
            model="quick",
            system="",
            clock=clock,
        )
        profile = Profile(agent=MAIN_AGENT, home=self.folder, settings=self.settings)
        runtime = Runtime(profile=profile, agent=agent, store=store.scoped(MAIN_AGENT))

        async def build(name: AgentId) -> Runtime:
            return runtime

        self.gateway = Gateway(
            GatewayParts(
                store=store,
                agents=AgentRegistry([MAIN_AGENT], build),
                live=LiveSettings(self.settings),
                clock=clock,
                loops=Supervisor(clock),
                capabilities={"fake": KINDS[self.kind]},
            )
        )
        await self.gateway.start()
        self.gateway.attach(ACCOUNT, fake_platform(self.kind, self.desk))
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.gateway.stop(grace=5.0)
        await self.database.close()

    async def say(self, chat: str, token: str) -> None:
        await self.gateway.accept(ACCOUNT, [inbound(chat, token)], token)

    async def talk(self, chat: str, turns: int, begin: str = "t") -> None:
        """A person who waits for each answer before the next message."""
        for n in range(turns):
            token = f"{begin}{chat}.{n}"
            await self.say(chat, token)
            await self.desk.wait(token)

    async def rest(self) -> None:
        """Wait until nothing is left to do, the marks of the last deliveries included."""

        def left(tx: Tx) -> bool:
            waiting = tx.outbox.waiting(ACCOUNT, 0, 1)
            return bool(tx.inbox.pending(0, 1) or tx.recovery.due(0, 1) or waiting)

        while await self.database.read(left):  # noqa: ASYNC110 - nobody could ring for it
            await asyncio.sleep(0.01)


async def _nothing(tool: str, key: str, token: str) -> None:
    return None
