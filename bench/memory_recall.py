"""Memory: which share of questions about earlier sessions finds its answer, and how many tokens that takes.

Two baselines on the same conversations: all of them in the prompt, and a full-text search of what was said.
The reader is no model: it knows an answer if the newest of the sentences it is given that name the person and
the thing says so. Also how long a search takes among 100,000 entries, for a rare word and for one that most
hold."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path

from bench.figure import Better, Figure
from bench.stopwatch import run
from hermes.control.people.memory import EditMemory, MemoryAction
from hermes.control.turn.claim import next_session
from hermes.domain.chats.address import Address, Source, SourceKind
from hermes.domain.ids import MAIN_AGENT, TurnId
from hermes.domain.knowledge.memory import OWNER, MemoryEntry, MemoryShelf, MemoryTarget
from hermes.domain.ports.store import Tx
from hermes.domain.turns.event import Entry, Finished, ModelSaid, UserSaid
from hermes.domain.turns.session import session_key
from hermes.domain.turns.transcript import number_records
from hermes.state.store.writer import SqliteStore

_figure = partial(Figure, bench="memory_recall")
PEOPLE = ("Ann", "Bob", "Cid", "Dan", "Eve", "Fay", "Gus", "Hal")
THINGS = ("tea", "song", "train", "street", "tree", "bread", "colour", "river")
VALUES = ("oolong", "nocturne", "express", "harbour", "linden", "rye", "indigo", "danube", "maple", "jade")
FILLER = "we talked for a while about the weather, the trains and what there was to do that day. " * 6
NOW = datetime(2026, 1, 1, tzinfo=UTC)
SHELF = MemoryShelf(target=MemoryTarget.USER, person=OWNER)
ENTRIES = 100_000
Fact = tuple[str, str, str]


def measure(folder: Path, quick: bool) -> list[Figure]:
    return run(partial(_all, folder, 40 if quick else 200, ENTRIES // 10 if quick else ENTRIES))


async def _all(folder: Path, facts: int, entries: int) -> list[Figure]:
    store = await SqliteStore(folder / "recall.db").open()
    try:
        told = _facts(facts)
        for number, fact in enumerate(told):
            await store.write(partial(_say, fact, number))
        figures = []
        newest = {fact[:2]: fact[2] for fact in told}
        for name, recall in (
            ("full context", _everything),
            ("full-text search", _search),
            ("memory", _notes),
        ):
            answers = [
                (value, *await store.read(partial(recall, person, thing)))
                for (person, thing), value in newest.items()
            ]
            right = sum(value == answer for value, answer, _ in answers)
            tokens = sum(size for _, _, size in answers) / len(answers)
            share = 100 * right / len(answers)
            figures.append(_figure(name=f"{name}: answers", value=share, unit="%", better=Better.MORE))
            figures.append(_figure(name=f"{name}: tokens per answer", value=tokens, unit="tokens"))
        return [*figures, *await _searches(store, entries)]
    finally:
        await store.close()


def _facts(count: int) -> list[Fact]:
    """In the order in which they are told; some are told anew, with another value."""
    chance = random.Random(17)
    return [(chance.choice(PEOPLE), chance.choice(THINGS), chance.choice(VALUES)) for _ in range(count)]


def _sentence(person: str, thing: str, value: str) -> str:
    return f"{person} likes this {thing} best: {value}."


def _say(fact: Fact, number: int, tx: Tx) -> None:
    """A session in which a fact comes up, and the note that an agent makes of it."""
    now = NOW + timedelta(hours=number)
    source = Source(address=Address(platform="fake", chat=str(number)), kind=SourceKind.PRIVATE, user="u")
    session = next_session(tx, session_key(source, MAIN_AGENT), source, now)
    whole: list[Entry] = []
    for words in (f"{FILLER}{_sentence(*fact)}", FILLER):
        said = (UserSaid(text=words), ModelSaid(text=FILLER), Finished())
        whole += number_records(whole, TurnId(f"turn_{number}"), said, now)
    tx.journal.append(session.id, whole)
    old = next((entry.text for entry in tx.memory.list(SHELF) if entry.text.startswith(_about(fact))), "")
    EditMemory(
        agent=MAIN_AGENT,
        action=MemoryAction.REPLACE if old else MemoryAction.ADD,
        shelf=SHELF,
        limit=1375,
        now=now,
        text=_sentence(*fact),
        old=old,
    ).unit(tx)


def _about(fact: Sequence[str]) -> str:
    return f"{fact[0]} likes this {fact[1]} best: "


def _read(person: str, thing: str, texts: Sequence[str]) -> tuple[str, int]:
    """What a reader answers who is told these texts, and how many tokens they take."""
    whole = "\n".join(texts)
    _, found, rest = whole.rpartition(_about((person, thing)))
    return rest.partition(".")[0] if found else "", len(whole) // 4


def _everything(person: str, thing: str, tx: Tx) -> tuple[str, int]:
    sessions = sorted(tx.sessions.find("", 10_000), key=lambda session: session.created_at)
    entries = [entry.record for session in sessions for entry in tx.journal.read(session.id)]
    return _read(
        person, thing, [record.text for record in entries if isinstance(record, UserSaid | ModelSaid)]
    )


def _search(person: str, thing: str, tx: Tx) -> tuple[str, int]:
    hits = tx.search.find(f"{person} likes {thing}", 5)
    return _read(person, thing, [hit.excerpt for hit in reversed(hits)])


def _notes(person: str, thing: str, tx: Tx) -> tuple[str, int]:
    """What the prompt tells, and what a search finds."""
    told = [entry for entry in tx.memory.list(SHELF) if entry.in_prompt]
    hits = tx.memory.find(f"{person} likes {thing}", [OWNER], 5)
    return _read(person, thing, [entry.text for entry in (*told, *reversed(hits))])


async def _searches(store: SqliteStore, entries: int) -> list[Figure]:
    people = ["fake:ann", "fake:bob", OWNER]

    def fill(first: int, tx: Tx) -> None:
        for number in range(first, min(first + 5000, entries)):
            text = f"note {number} of the work on machine m{number % 997} and shelf s{number % 31}"
            person = people[number % 3]
            entry = MemoryEntry(
                target=MemoryTarget.MEMORY, person=person, text=text, at=NOW, used_at=NOW, in_prompt=False
            )
            tx.memory.add(entry)

    for first in range(0, entries, 5000):
        await store.write(partial(fill, first))
    queries = (("a rare word", "m501"), ("several words", "machine m501"), ("a word in all", "note"))
    return [
        _figure(
            name=f"search of {entries:,} entries, {name}",
            value=await store.read(partial(_milliseconds, lambda tx, q=q: tx.memory.find(q, people[:1], 20))),
            unit="ms",
            target=20.0,
        )
        for name, q in queries
    ]


def _milliseconds(find: Callable[[Tx], object], tx: Tx) -> float:
    best = float("inf")
    for _ in range(5):
        began = time.perf_counter()
        find(tx)
        best = min(best, time.perf_counter() - began)
    return best * 1e3
