"""What the operator's commands ask of the agents' memory."""

from __future__ import annotations

from contextlib import suppress

from hermes.control.core import AgentUnavailable
from hermes.control.people.memory import change_entry, entries_about, forget_person
from hermes.domain.errors import UserError
from hermes.domain.ids import AgentId
from hermes.domain.knowledge.memory import MemoryEntry
from hermes.domain.ports.agent import MemoryCare
from hermes.domain.ports.store import Tx
from hermes.entry.desk import OperatorDesk, operation

MOST_FOUND = 200


@operation("GET", "memory", "What an agent remembers: all, of one person, or what holds some words.")
async def list_memory(
    desk: OperatorDesk, agent: str, person: str | None = None, words: str = ""
) -> list[MemoryEntry]:
    def read(tx: Tx) -> list[MemoryEntry]:
        entries = tx.memory.list() if person is None else entries_about(tx, person)
        if not words.strip():
            return entries
        persons = {entry.person for entry in entries}
        return tx.memory.find(words, persons, MOST_FOUND)

    if agent in desk.agents:
        with suppress(AgentUnavailable):  # what it remembers can be seen all the same
            await _read_back(desk, agent)
    # One that is removed may have left something that is remembered.
    return await desk.of(AgentId(agent)).read(read) or await desk.collect(read, agent)


@operation("POST", "memory", "Change an entry: its text, or who is told of it.")
async def edit_memory(
    desk: OperatorDesk, agent: str, entry: int, text: str | None = None, shared: bool | None = None
) -> MemoryEntry:
    settings, now = desk.courier.live.now, desk.courier.clock.now()
    memory = await _read_back(desk, agent)
    store = desk.of(AgentId(agent))
    changed = await store.write(lambda tx: change_entry(tx, entry, text, shared, settings, now))
    if memory is not None:
        await memory.print_files()
    return changed


@operation("POST", "memory/forget", "Forget an entry, or all about a person; how many there were.")
async def forget_memory(
    desk: OperatorDesk, agent: str, entry: int | None = None, person: str | None = None
) -> int:
    def forget(tx: Tx) -> int:
        if person is not None:
            return forget_person(tx, person)
        meant = [known for known in tx.memory.list() if known.id == entry]
        for known in meant:
            tx.memory.remove(known)
        return len(meant)

    if (entry is None) == (person is None):
        raise UserError("Name an entry or a person.")
    memory = await _read_back(desk, agent)
    count = await desk.of(AgentId(agent)).write(forget)
    if memory is not None:
        await memory.print_files()
    return count


async def _read_back(desk: OperatorDesk, agent: str) -> MemoryCare | None:
    """An agent's memory, with what somebody has written into its files since: it is shown, and not lost when
    they are printed again."""
    memory = await desk.memory_of(desk.check(agent))
    if memory is not None:
        await memory.read_back()
    return memory
