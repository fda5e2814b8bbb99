"""The sessions of a home as a command finds them: in its database, or, while a gateway runs, by asking it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, TypeVar

import msgspec

from hermes.admin.gateway import on_store
from hermes.admin.running import Running, find_running
from hermes.control.doors import look_up
from hermes.control.trace import trace_message
from hermes.domain.event import Entry
from hermes.domain.ids import AgentId
from hermes.domain.ports import Tx
from hermes.domain.rows import Hit
from hermes.domain.session import Session
from hermes.state.sqlite import SqliteStore
from hermes.stream.wire import EntryWords, read_entry

T = TypeVar("T")


class Shelf(Protocol):
    """The sessions of some agents."""

    def latest(self, limit: int) -> list[Session]: ...

    def search(self, words: str, limit: int) -> list[Hit]: ...

    def look_up(self, name: str) -> list[tuple[Session, list[Entry]]]:
        """What a name fits, with the visible transcript if it fits one."""

    def delete(self, session: Session) -> None: ...

    def trace(self, message: str) -> list[str]: ...


def open_shelf(
    home: Path, environ: Mapping[str, str], agents: Sequence[AgentId], what: str, *, of_all: bool = True
) -> Shelf:
    """`what` names the command to whoever wants the home meanwhile; `of_all` if all agents are meant."""
    running = find_running(home, environ)
    if running is not None:
        return LiveShelf(running=running, agent=None if of_all else agents[0])
    return StoredShelf(home=home, agents=agents, what=what)


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredShelf:
    """The database of a home that nobody works on."""

    home: Path
    agents: Sequence[AgentId]
    what: str

    def latest(self, limit: int) -> list[Session]:
        found = self._collect(lambda tx: tx.sessions.find("", limit))
        return sorted(found, key=lambda session: session.updated_at, reverse=True)[:limit]

    def search(self, words: str, limit: int) -> list[Hit]:
        # It brings the index up to date first.
        return self._collect(lambda tx: tx.search.find(words, limit), writing=True)[:limit]

    def look_up(self, name: str) -> list[tuple[Session, list[Entry]]]:
        return self._collect(lambda tx: look_up(tx, name))

    def delete(self, session: Session) -> None:
        def remove(tx: Tx) -> list[None]:
            tx.sessions.delete(session.id)
            return []

        self._collect(remove, writing=True)

    def trace(self, message: str) -> list[str]:
        # The inbox is everybody's, so several agents may tell the same line.
        return list(dict.fromkeys(self._collect(lambda tx: trace_message(tx, message))))

    def _collect(self, query: Callable[[Tx], list[T]], *, writing: bool = False) -> list[T]:
        """What a query finds with each agent."""

        async def ask(store: SqliteStore) -> list[T]:
            found: list[T] = []
            for agent in self.agents:
                handle = store.scoped(agent)
                found += await (handle.write(query) if writing else handle.read(query))
            return found

        return on_store(self.home, self.what, ask) or []


class _Found(msgspec.Struct, kw_only=True):
    session: Session
    entries: list[EntryWords]


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveShelf:
    """A gateway that runs. `agent` None is all it hosts."""

    running: Running
    agent: AgentId | None = None

    def latest(self, limit: int) -> list[Session]:
        return self.running.get("/control/sessions", list[Session], agent=self.agent, limit=limit)

    def search(self, words: str, limit: int) -> list[Hit]:
        return self.running.get("/control/search", list[Hit], agent=self.agent, words=words, limit=limit)

    def look_up(self, name: str) -> list[tuple[Session, list[Entry]]]:
        found = self.running.get("/control/session", list[_Found], agent=self.agent, name=name)
        return [(one.session, [read_entry(entry) for entry in one.entries]) for one in found]

    def delete(self, session: Session) -> None:
        self.running.delete("/control/session", dict[str, Any], agent=session.agent, name=session.id)

    def trace(self, message: str) -> list[str]:
        return self.running.get("/control/trace", list[str], message=message)
