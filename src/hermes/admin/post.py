"""Messages of a home as a command finds them: in its database, or, while a gateway runs, by asking it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Protocol, TypeVar

from hermes import plugins
from hermes.admin.gateway import hold_home
from hermes.admin.running import Running, find_running
from hermes.app.accounts import declared_accounts
from hermes.control.courier import Letter, Map, Posting
from hermes.control.outbox import drop_messages, list_outbox, retry_messages
from hermes.control.targets import known_targets
from hermes.domain.address import Address
from hermes.domain.capabilities import Capabilities
from hermes.domain.directory import Places
from hermes.domain.ports import Store, Tx
from hermes.domain.rows import OutboxRow
from hermes.entry.http.control_post import ChangeRequest, PlacesAnswer, SendAnswer, SendRequest
from hermes.state.aliases import ChannelAliases
from hermes.state.profiles import DATABASE_FILE, prepare_home
from hermes.state.settings import load_settings
from hermes.state.sqlite import SqliteStore

T = TypeVar("T")


class PostRoom(Protocol):
    """Where a command hands messages in and looks after them. `running`: they go out at once."""

    @property
    def running(self) -> Running | None: ...

    def send(self, letter: Letter) -> Sequence[Address]: ...

    def places(self) -> Places: ...

    def waiting(self, limit: int) -> list[OutboxRow]: ...

    def change(self, keys: Sequence[str], *, drop: bool) -> list[OutboxRow]: ...


def open_post(home: Path, environ: Mapping[str, str], what: str) -> PostRoom:
    running = find_running(home, environ)
    if running is not None:
        return LivePost(running=running)
    return StoredPost(home=home, environ=environ, what=what)


@dataclass(frozen=True, slots=True, kw_only=True)
class LivePost:
    """A gateway that runs."""

    running: Running

    def send(self, letter: Letter) -> Sequence[Address]:
        asked = SendRequest(target=letter.target, text=letter.body.text, key=letter.key)
        return [Address.parse(to) for to in self.running.post("/control/send", SendAnswer, asked).to]

    def places(self) -> Places:
        told = self.running.get("/control/places", PlacesAnswer)
        homes = {account: Address.parse(to) for account, to in told.homes.items()}
        return Places(homes=homes, channels=told.channels)

    def waiting(self, limit: int) -> list[OutboxRow]:
        return self.running.get("/control/outbox", list[OutboxRow], limit=limit)

    def change(self, keys: Sequence[str], *, drop: bool) -> list[OutboxRow]:
        asked = ChangeRequest(keys=list(keys), drop=drop)
        return self.running.post("/control/outbox", list[OutboxRow], asked)


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredPost:
    """The database of a home that nobody works on: what is handed in is sent at the next start."""

    home: Path
    environ: Mapping[str, str]
    what: str

    @property
    def running(self) -> Running | None:
        return None

    def send(self, letter: Letter) -> Sequence[Address]:
        posting = Posting(letter=letter, map=self._map(), now=datetime.now(UTC))
        return self._on_store(lambda store: store.write(posting.unit)).to

    def places(self) -> Places:
        around = self._map()

        def look(tx: Tx) -> Places:
            known = known_targets(tx, around.settings, around.accounts, around.aliases)
            return Places(homes=known.homes, channels=known.channels)

        return self._on_store(lambda store: store.read(look))

    def waiting(self, limit: int) -> list[OutboxRow]:
        return self._on_store(lambda store: store.read(lambda tx: list_outbox(tx, limit)))

    def change(self, keys: Sequence[str], *, drop: bool) -> list[OutboxRow]:
        now = datetime.now(UTC)

        def change(tx: Tx) -> list[OutboxRow]:
            return drop_messages(tx, keys) if drop else retry_messages(tx, keys, now)

        return self._on_store(lambda store: store.write(change))

    def _map(self) -> Map:
        manifests = plugins.platform_manifests()
        loaded = load_settings(self.home, self.environ, platforms=[one.name for one in manifests])
        able = {one.name: one.capabilities for one in manifests}
        return Map(
            settings=loaded.settings,
            accounts=[one.name for one in declared_accounts(manifests, loaded) if one.enabled],
            aliases=ChannelAliases(self.home).read(),
            capabilities=lambda to: able.get(to.platform) or Capabilities(),
        )

    def _on_store(self, work: Callable[[Store], Awaitable[T]]) -> T:
        async def opened() -> T:
            async with SqliteStore(self.home / DATABASE_FILE) as store:
                return await work(store)

        prepare_home(self.home)
        with hold_home(self.home, self.what):
            return asyncio.run(opened())
