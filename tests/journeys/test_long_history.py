"""Long sessions: an actor reads from the last summary on; what was said before it, and what was allowed
there, still counts where it should."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from datetime import datetime
from functools import partial
from pathlib import Path

import pytest

from hermes.control.handoff.requests import opening_words
from hermes.control.sessions.callers import look_up
from hermes.control.sessions.submission import SessionTarget, Submission
from hermes.control.turn.claim import next_session
from hermes.domain.chats.address import Address, Source, SourceKind
from hermes.domain.ids import MAIN_AGENT, SessionId, TurnId
from hermes.domain.ports.store import Tx
from hermes.domain.turns.event import Entry, Finished, ModelSaid, Summarised, UserSaid
from hermes.domain.turns.session import session_key
from hermes.domain.turns.transcript import number_records, visible
from hermes.domain.turns.turn import TurnInput
from hermes.state.store.tables import journal
from hermes.testing.harness import Journey
from hermes.testing.model import obedient, say
from hermes.testing.world import Deed
from tests.journeys.cut import cut_everywhere

WORDS = ("one", "two", "three", "four")


class Decoded:
    """Counts the records that are decoded."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.count = 0
        real = journal.decode_record

        def decode(kind: str, data: bytes | str) -> object:
            self.count += 1
            return real(kind, data)

        monkeypatch.setattr(journal, "decode_record", decode)


async def session_of(chat: Journey) -> SessionId:
    [known] = await chat.database.read(lambda tx: tx.sessions.find("", 1))
    return known.id


async def history(chat: Journey) -> list[Entry]:
    session = await session_of(chat)
    return await chat.database.read(lambda tx: tx.journal.read(session))


async def summarise(chat: Journey, upto: Callable[[list[Entry]], int], text: str) -> None:
    """As compression will: a turn of its own that appends a summary."""
    session = await session_of(chat)

    def unit(tx: Tx) -> None:
        whole = tx.journal.read(session)
        records = (Summarised(upto=upto(whole), text=text), Finished())
        tx.journal.append(session, number_records(whole, TurnId(f"turn_{text}"), records, chat.clock.now()))

    await chat.database.write(unit)


async def talk(chat: Journey, *words: str) -> None:
    for word in words:
        chat.world.write(word)
        await chat.until_seen(f"You said: {word}")
        await chat.until_idle()


async def command(chat: Journey, line: str, seen: str) -> None:
    chat.world.write(line)
    await chat.until_seen(seen)
    await chat.until_idle()


def told(chat: Journey) -> list[str]:
    """What the model was told last: words of people, and summaries in brackets."""
    found = []
    for entry in chat.model.requests[-1].entries:
        if isinstance(entry.record, UserSaid):
            found.append(entry.record.text)
        elif isinstance(entry.record, Summarised):
            found.append(f"[{entry.record.text}]")
    return found


def effects(chat: Journey) -> list[str]:
    return [done.chat for done in chat.world.log if done.deed is Deed.EFFECT]


def before(word: str) -> Callable[[list[Entry]], int]:
    """The last record before somebody said this."""

    def find(whole: list[Entry]) -> int:
        return max(e.seq for e in whole if isinstance(e.record, UserSaid) and e.record.text == word) - 1

    return find


async def test_a_cold_actor_reads_from_the_last_summary_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with Journey(folder=tmp_path) as chat:
        await talk(chat, *WORDS)
        await summarise(chat, before("three"), "S1")
        world = chat.world
    async with Journey(folder=tmp_path, world=world) as chat:
        await talk(chat, "five")
        assert told(chat) == ["[S1]", "three", "four", "five"]
        await summarise(chat, before("five"), "S2")
    async with Journey(folder=tmp_path, world=world) as chat:
        decoded = Decoded(monkeypatch)
        await talk(chat, "six")
        assert told(chat) == ["[S2]", "five", "six"]
        # Two marks, and what is behind the second: five with its answer, the mark itself with its end.
        assert decoded.count == 2 + 5
        whole = await history(chat)
        said = [entry.record.text for entry in whole if isinstance(entry.record, UserSaid)]
        assert said == [*WORDS, "five", "six"]
        assert [entry.seq for entry in whole] == list(range(1, len(whole) + 1))


@pytest.mark.parametrize(
    ("line", "seen", "left"),
    [
        ("/undo", "Undone: the last turn.", ["[S]", "more"]),
        ("/undo 2", "Undone: the last 2 turns.", ["one", "two", "more"]),
        ("/undo 3", "Undone: the last 3 turns.", ["one", "more"]),
        ("/undo 9", "Undone: the last 4 turns.", ["more"]),
    ],
)
async def test_undo_reaches_behind_a_summary(tmp_path: Path, line: str, seen: str, left: list[str]) -> None:
    async with Journey(folder=tmp_path) as chat:
        await talk(chat, *WORDS)
        await summarise(chat, before("four"), "S")
        world = chat.world
    async with Journey(folder=tmp_path, world=world) as chat:
        await command(chat, line, seen)
    async with Journey(folder=tmp_path, world=world) as chat:
        await talk(chat, "more")
        assert told(chat) == left


async def test_undo_of_a_second_summary_brings_back_the_first(tmp_path: Path) -> None:
    async with Journey(folder=tmp_path) as chat:
        await talk(chat, *WORDS)
        await summarise(chat, before("three"), "S1")
        world = chat.world
    async with Journey(folder=tmp_path, world=world) as chat:
        await talk(chat, "five")
        await summarise(chat, lambda whole: whole[-1].seq, "S2")
    async with Journey(folder=tmp_path, world=world) as chat:
        await command(chat, "/undo 2", "Undone: the last 2 turns.")
    async with Journey(folder=tmp_path, world=world) as chat:
        await talk(chat, "more")
        assert told(chat) == ["[S1]", "three", "more"]


async def test_retry_of_a_message_that_a_summary_tells_of(tmp_path: Path) -> None:
    async with Journey(folder=tmp_path) as chat:
        await talk(chat, "one", "two")
        await summarise(chat, lambda whole: whole[-1].seq, "S")
        world = chat.world
    async with Journey(folder=tmp_path, world=world) as chat:
        chat.world.write("/retry")
        await chat.until(lambda: chat.world.seen().count("You said: two") == 2)
        await chat.until_idle()
        assert told(chat) == ["one", "two"]


async def test_a_branch_has_the_summary_and_what_is_before_it(tmp_path: Path) -> None:
    async with Journey(folder=tmp_path) as chat:
        await talk(chat, *WORDS)
        await summarise(chat, before("four"), "S")
        await command(chat, "/branch", "a copy")
        await talk(chat, "five")
        assert told(chat) == ["[S]", "four", "five"]
        await command(chat, "/undo 3", "Undone: the last 3 turns.")
        await talk(chat, "six")
        assert told(chat) == ["one", "two", "six"]


async def test_going_on_after_a_turn_before_a_summary_has_nothing_of_it(tmp_path: Path) -> None:
    """As an API client does with an earlier response: the session as it was then."""
    async with Journey(folder=tmp_path) as chat:
        await talk(chat, *WORDS)
        await summarise(chat, before("four"), "S")
        whole = await history(chat)
        words = {e.record.text: e.turn for e in whole if isinstance(e.record, UserSaid)}
        for word, left in (
            ("two", ["one", "two", "more"]),
            ("four", ["one", "two", "three", "four", "more"]),
        ):
            address = Address(platform="api_server", chat=word)
            given = Submission(
                agent=MAIN_AGENT,
                source=Source(address=address, kind=SourceKind.API),
                input=TurnInput(text="more"),
                place=SessionTarget(after=words[word]),
            )
            turn = await chat.gateway.submit(given)
            assert [entry async for entry in chat.gateway.watch(MAIN_AGENT, turn.id)]
            assert told(chat) == left


async def test_everything_is_found_and_shown_where_it_should_be(tmp_path: Path) -> None:
    async with Journey(folder=tmp_path) as chat:
        await talk(chat, *WORDS)
        await summarise(chat, lambda whole: whole[-1].seq, "S")
        # Search knows what was said behind a summary; who looks at a session sees the summary instead.
        hits = await chat.database.read(lambda tx: tx.search.find("two"))
        assert len(hits) == 2
        session = await session_of(chat)
        [(_, entries)] = await chat.database.read(lambda tx: look_up(tx, session))
        assert [entry.record for entry in entries if isinstance(entry.record, UserSaid)] == []
        assert await chat.database.read(lambda tx: opening_words(tx, session)) == ""


def _told_before(now: datetime, tx: Tx) -> None:
    """A conversation of the chat that no message of it tells of any more."""
    source = Source(address=Address(platform="fake", chat="1"), kind=SourceKind.PRIVATE, user="u1")
    session = next_session(tx, session_key(source, MAIN_AGENT), source, now)
    whole: list[Entry] = []
    for word in WORDS:
        records = (UserSaid(text=word), ModelSaid(text=f"You said: {word}"), Finished())
        whole += number_records(whole, TurnId(f"turn_{word}"), records, now)
    tx.journal.append(session.id, whole)


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
async def test_an_undo_behind_a_summary_may_be_cut_off_anywhere(
    tmp_path: Path, full: bool, after: bool
) -> None:
    folder = tmp_path / "first"
    folder.mkdir()
    async with Journey(folder=folder) as chat:
        await chat.database.write(partial(_told_before, chat.clock.now()))
        await summarise(chat, before("four"), "S")

    async def live(chat: Journey) -> None:
        if not chat.world.updates:
            chat.world.write("/undo 3")
            chat.world.write("more")
        await chat.until_seen("Undone: the last 3 turns.", "You said: more")
        await chat.until_idle()
        shown = visible(await history(chat))
        said = [entry.record.text for entry in shown if isinstance(entry.record, UserSaid)]
        assert said == ["one", "more"]

    def make(place: Path) -> Journey:
        shutil.copy(folder / "state.db", place)
        return Journey(folder=place)

    await cut_everywhere(tmp_path, make, live, after=after, full=full)


async def test_a_turn_whose_own_beginning_was_summed_up_goes_on_after_a_crash(tmp_path: Path) -> None:
    """Compression may come in the middle of a long turn: all of its records are needed to go on with it."""
    async with Journey(folder=tmp_path, script=obedient) as chat:
        chat.world.write("m1 danger")
        await chat.until_seen("May I do m1?")
        session = await session_of(chat)

        def unit(tx: Tx) -> None:
            whole = tx.journal.read(session)
            record = Summarised(upto=whole[-2].seq, text="S")
            tx.journal.append(session, number_records(whole, whole[-1].turn, [record], chat.clock.now()))

        await chat.database.write(unit)
        await chat.abandon()
    async with Journey(folder=tmp_path, world=chat.world, script=[say("all done")]) as chat:
        await command(chat, "/approve", "all done")
        assert effects(chat) == ["danger"]


# --- what was allowed for the session ----------------------------------------------------------------


async def act(chat: Journey, times: int) -> None:
    """The person wants what was allowed once more, and nobody asks."""
    chat.world.write("m1 danger")
    await chat.until(lambda: len(effects(chat)) == times)
    await chat.until_idle()


async def test_what_was_allowed_for_the_session_outlives_a_summary(tmp_path: Path) -> None:
    async with Journey(folder=tmp_path, script=obedient) as chat:
        chat.world.write("m1 danger")
        await chat.until_seen("May I do m1?")
        await command(chat, "/approve session", "answer to m1")
        await summarise(chat, lambda whole: whole[-1].seq, "S")
    async with Journey(folder=tmp_path, world=chat.world, script=obedient) as chat:
        await act(chat, 2)
        # Undoing its turn does not take it back, and a copy of the session has it too.
        await command(chat, "/undo 2", "Undone: the last 2 turns.")
        await act(chat, 3)
        await command(chat, "/branch", "a copy")
        await act(chat, 4)
        # It goes with its session, and a new one begins without it.
        session = await session_of(chat)
        held = partial(_held, session)
        assert await chat.database.read(held) == {"do:m1"}
        await chat.gateway.delete_session(MAIN_AGENT, session)
        assert await chat.database.read(held) == frozenset()
        chat.world.write("m1 danger")
        await chat.until(lambda: sum("May I do m1?" in seen for seen in chat.world.seen()) == 2)
        assert len(effects(chat)) == 4


def _held(session: SessionId, tx: Tx) -> frozenset[str]:
    return tx.grants.of_session(session, "u1")
