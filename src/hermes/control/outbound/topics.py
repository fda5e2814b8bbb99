"""Topics by name: a chat's thread that somebody called by a name, and the thread that the name got.

The directory keeps it: the thread is a known chat with that name. An adapter that makes names into threads
(`Outfit.find_topic`, `Outfit.keep_topic`) opens one and has it kept before it sends, so a crash between the
two leaves an empty thread and no message less."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from hermes.domain.address import Address, SourceKind
from hermes.domain.channels import Channel
from hermes.domain.clock import Clock
from hermes.domain.ids import AgentId
from hermes.domain.ports.store import Store, Tx

_GONE = "(gone) {name}"


def find_topic(tx: Tx, named: Address) -> Address | None:
    """The thread that the name in a place's thread got."""
    if named.thread is None:
        return None
    threads = tx.directory.channels(inside=named)
    return next((one.address for one in threads if one.name == named.thread), None)


def lane_of(tx: Tx, to: Address) -> Address:
    """Where what is sent to a place has to queue. A thread has one queue, called by its name or its number;
    the name's own is for the first messages, and for those behind them while they wait."""
    found = find_topic(tx, to)
    return to if found is None or tx.outbox.head(to) is not None else found


def real_place(tx: Tx, to: Address) -> Address:
    """Where people see what is sent to a place."""
    return find_topic(tx, to) or to


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedTopics:
    """The names of all chats, for adapters. `agents` are those who may have conversations there."""

    store: Store
    clock: Clock
    agents: Sequence[AgentId]

    async def find(self, named: Address) -> Address | None:
        return await self.store.read(lambda tx: find_topic(tx, named))

    async def name(self, opened: Address) -> Address | None:
        """What a thread is called, or was called before it was gone."""

        def look(tx: Tx) -> Address | None:
            names = {one.address: one.name for one in tx.directory.channels(inside=opened)}
            name = names.get(opened, "").removeprefix(_GONE.format(name=""))
            return replace(opened, thread=name) if name else None

        return await self.store.read(look)

    async def keep(self, named: Address, opened: Address) -> None:
        """From now on the name means this thread. Conversations of the thread that had it go on in this one;
        they follow first, so that whoever stopped in between does it all again."""
        now = self.clock.now()
        for agent in self.agents:
            await self.store.scoped(agent).write(lambda tx: _follow(tx, named, opened, now))
        await self.store.write(lambda tx: _keep(tx, named, opened, now))


def _follow(tx: Tx, named: Address, opened: Address, now: datetime) -> None:
    old = find_topic(tx, named)
    for session in () if old is None else tx.directory.bound(old):
        for key, bound in tx.bindings.of(session):
            if bound.address == old:
                there = replace(bound, address=opened)
                tx.bindings.bind(replace(key, thread=opened.thread), session, there, now)


def _keep(tx: Tx, named: Address, opened: Address, now: datetime) -> None:
    name = named.thread or ""
    old = find_topic(tx, named)
    fresh = Channel(address=opened, name=name, kind=SourceKind.PRIVATE, seen_at=now)
    if old is not None:
        tx.directory.note(replace(fresh, address=old, name=_GONE.format(name=name)))
    tx.directory.note(fresh)
