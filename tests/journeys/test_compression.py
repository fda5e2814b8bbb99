"""Long conversations: compressed in the background, at once where a model reads no more, and by hand. Nothing
is lost and nothing is done again, whatever happens."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from hermes.agent.context.tokens import fixed_tokens, tokens_of
from hermes.agent.context.transcript_messages import Role, messages
from hermes.control.sessions.submission import Submission
from hermes.control.turn.claim import next_session
from hermes.domain.chats.address import Address, Source, SourceKind
from hermes.domain.errors import FaultKind, ModelFault
from hermes.domain.ids import MAIN_AGENT, TurnId
from hermes.domain.ports.agent import ModelRequest
from hermes.domain.ports.store import Tx
from hermes.domain.settings.compression import CompressionSettings
from hermes.domain.tools.tool import Effect, Tool, ToolContext, ToolResult
from hermes.domain.turns.event import (
    Cleared,
    Entry,
    Failed,
    Finished,
    ModelSaid,
    Record,
    Restored,
    Summarised,
    ToolFinished,
    UserSaid,
)
from hermes.domain.turns.session import Session, session_key
from hermes.domain.turns.transcript import number_records, visible
from hermes.domain.turns.turn import TurnInput
from hermes.domain.word import replace
from hermes.testing.clock import FakeClock, settle
from hermes.testing.harness import Journey, open_settings
from hermes.testing.model import Say, call, is_summary, last_words, say, within
from hermes.testing.tools import DELEGATE
from tests.journeys.cut import cut_everywhere
from tests.journeys.test_long_history import Decoded

WINDOW = 4000
LONG = "x" * 1200
"""About 300 tokens."""


def summing(request: ModelRequest) -> Say:
    if is_summary(request):
        return say("## Done\n1. everything up to here")
    return say(f"You said: {last_words(request)[:20]}")


def settings(**changes: Any) -> Any:
    return open_settings(compression=CompressionSettings(**{"protect_last_n": 4, **changes}))


def journey(folder: Path, script: Callable[[ModelRequest], Say] = summing, **options: Any) -> Journey:
    options.setdefault("settings", settings())
    options.setdefault("window", WINDOW)
    return Journey(folder=folder, script=within(options["window"] or WINDOW, script), **options)


async def history(chat: Journey) -> list[Entry]:
    [known] = await chat.database.read(lambda tx: tx.sessions.find("", 1))
    return await chat.database.read(lambda tx: tx.journal.read(known.id))


async def kept(chat: Journey, *kinds: type[Record]) -> list[Any]:
    return [entry.record for entry in await history(chat) if isinstance(entry.record, kinds)]


async def talk(chat: Journey, first: int, last: int, text: str = LONG) -> None:
    for number in range(first, last + 1):
        chat.world.write(f"m{number} {text}")
        await chat.until(lambda number=number: _has(chat, f"You said: m{number} "))  # type: ignore[misc]
        await chat.until_idle()


def _has(chat: Journey, text: str) -> bool:
    return any(text in seen for seen in chat.world.seen())


async def command(chat: Journey, line: str, seen: str) -> None:
    chat.world.write(line)
    await chat.until_seen(seen)
    await chat.until_idle()


async def until_applied(chat: Journey, count: int = 1) -> None:
    """Wait for what the background makes."""
    for _ in range(2000):
        if len(await kept(chat, Summarised, Cleared)) >= count:
            await chat.until_idle()
            return
        await asyncio.sleep(0.003)
    raise AssertionError("nothing was compressed")


async def summaries_paid_for(chat: Journey) -> int:
    [known] = await chat.database.read(lambda tx: tx.sessions.find("", 1))
    groups = await chat.database.read(lambda tx: tx.usage.of_session(known.id))
    return sum(group.used.calls for group in groups if "summary" in group.key)


def told(request: ModelRequest) -> str:
    return "\n".join(message.text for message in messages(request.entries))


def spoken(chat: Journey) -> list[ModelRequest]:
    """The requests that were no summaries."""
    return [request for request in chat.model.requests if not is_summary(request)]


# --- in the background -----------------------------------------------------------------------------


async def test_a_session_that_fills_the_window_is_summarised_beside_it(tmp_path: Path) -> None:
    async with journey(tmp_path) as chat:
        await talk(chat, 1, 7)
        await until_applied(chat)
        await talk(chat, 8, 8)
        [summary] = await kept(chat, Summarised)
        assert summary.text == "## Done\n1. everything up to here"
        assert summary.usage is not None and summary.usage.prompt > 0
        request = spoken(chat)[-1]
        assert isinstance(request.entries[0].record, Summarised)
        words = told(request)
        assert "It is history" in words and "User: m1 " in words and "m8 " in words
        assert "m3 " not in words
        # Everybody was answered, nobody was kept waiting or told of it, and every record is still there.
        assert len(chat.world.seen()) == 8
        assert len(await kept(chat, UserSaid)) == 8
        hits = await chat.database.read(lambda tx: tx.search.find("m3"))
        assert hits


async def test_people_go_on_while_a_summary_is_made(tmp_path: Path) -> None:
    """The summary covers what it read; what was said meanwhile stays as it is."""
    held = asyncio.Event()

    def script(request: ModelRequest) -> Say:
        said = summing(request)
        return replace(said, hold=held) if is_summary(request) else said

    async with journey(tmp_path, script) as chat:
        await talk(chat, 1, 7)
        await chat.until(lambda: any(map(is_summary, chat.model.requests)))
        await talk(chat, 8, 9, "short")
        assert await kept(chat, Summarised) == []
        held.set()
        await until_applied(chat)
        await talk(chat, 10, 10, "short")
        words = told(spoken(chat)[-1])
        assert "m8 short" in words and "m9 short" in words and "m3 " not in words
        assert sum(map(is_summary, chat.model.requests)) == 1


async def test_a_summary_joins_the_turn_that_runs(tmp_path: Path) -> None:
    """A long turn does not wait for its end to get its room back, and goes on with what it was asked for."""

    def script(request: ModelRequest) -> Say:
        summed = any(isinstance(entry.record, Summarised) for entry in request.entries)
        if is_summary(request) or summed or not last_words(request).startswith("work"):
            return summing(request)
        number = len(request.entries)
        return call("read", f'{{"token": "{number}"}}', id=f"c{number}")

    async with journey(tmp_path, script, tools=[reader(400)]) as chat:
        await talk(chat, 1, 5)
        chat.world.write("work")
        await chat.until_seen("You said:")
        await chat.until(lambda: len(chat.world.seen()) == 6)
        await chat.until_idle()
        entries = await history(chat)
        [summary] = [entry for entry in entries if isinstance(entry.record, Summarised)]
        [work] = [e for e in entries if isinstance(e.record, UserSaid) and e.record.text == "work"]
        assert summary.turn == work.turn
        # Either it was not summed up, or it stands behind the summary, word for word.
        assert "work" in told(spoken(chat)[-1]).partition("[End of the summary.")[2]
        assert isinstance([e for e in entries if e.turn == work.turn][-1].record, Finished)


def reader(size: int) -> Tool:
    """A tool whose results have so many characters."""

    async def run(context: ToolContext, arguments: Mapping[str, object]) -> ToolResult:
        return ToolResult(text="r" * size)

    return Tool(name="read", description="", parameters={}, run=run, effect=Effect.READ)


async def test_what_was_undone_meanwhile_is_not_summarised(tmp_path: Path) -> None:
    held = asyncio.Event()

    def script(request: ModelRequest) -> Say:
        said = summing(request)
        return replace(said, hold=held) if is_summary(request) else said

    async with journey(tmp_path, script) as chat:
        await talk(chat, 1, 7)
        await chat.until(lambda: any(map(is_summary, chat.model.requests)))
        await command(chat, "/undo 6", "Undone: the last 6 turns.")
        held.set()
        await settle()
        await chat.until_idle()
        await talk(chat, 8, 8)
        assert await kept(chat, Summarised) == []
        assert "m1 " in told(spoken(chat)[-1])
        assert await chat.database.read(lambda tx: tx.compressions.due(chat.clock.now(), 0, 9)) == []
        assert await summaries_paid_for(chat) == 1


async def test_old_results_are_cleared_in_one_step_before_anything_is_summarised(tmp_path: Path) -> None:
    def script(request: ModelRequest) -> Say:
        answered = isinstance(request.entries[-1].record, ToolFinished)
        number = sum(isinstance(entry.record, UserSaid) for entry in request.entries)
        return summing(request) if answered else call("read", id=f"c{number}")

    async with journey(tmp_path, script, tools=[reader(1600)]) as chat:
        await talk(chat, 1, 6, "short")
        await until_applied(chat)
        await talk(chat, 7, 7, "short")
        [cleared] = await kept(chat, Cleared)
        assert await kept(chat, Summarised) == []
        assert not any(map(is_summary, chat.model.requests))
        results = [m.text for m in messages(spoken(chat)[-1].entries) if m.role is Role.TOOL]
        # One change of the beginning: all up to one record are cleared, and those behind it whole.
        whole = [text == "r" * 1600 for text in results]
        assert whole == sorted(whole) and whole[0] is False and whole[-1] is True
        assert "1600 characters" in results[0] and "Call the tool again" in results[0]
        stored = await kept(chat, ToolFinished)
        assert all(result.text == "r" * 1600 for result in stored)
        assert cleared.upto < (await history(chat))[-1].seq


async def test_a_failed_summary_removes_nothing_and_is_tried_again_later(tmp_path: Path) -> None:
    """hermes#29559, #12131, #11753: the summary call failed, and 110 of 124 messages were gone."""
    broken = True

    def script(request: ModelRequest) -> Say:
        if is_summary(request) and broken:
            return Say(error=ModelFault("no key", kind=FaultKind.BAD_KEY))
        return summing(request)

    clock = FakeClock()
    async with journey(tmp_path, script, clock=clock) as chat:
        await talk(chat, 1, 7)
        await chat.until(lambda: any(map(is_summary, chat.model.requests)))
        await settle()
        await talk(chat, 8, 8, "short")
        assert await kept(chat, Summarised, Cleared) == []
        words = told(spoken(chat)[-1])
        assert all(f"m{number} " in words for number in range(1, 9))
        asked = sum(map(is_summary, chat.model.requests))
        broken = False
        await clock.advance(61)
        await talk(chat, 9, 9, "short")
        await until_applied(chat)
        assert sum(map(is_summary, chat.model.requests)) == asked + 1


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
async def test_compression_in_the_background_may_be_cut_off_anywhere(
    tmp_path: Path, full: bool, after: bool
) -> None:
    folder = tmp_path / "first"
    folder.mkdir()
    async with Journey(folder=folder) as chat:
        await chat.database.write(partial(_told_before, chat.clock.now()))

    async def live(chat: Journey) -> None:
        if not chat.world.updates:
            chat.world.write("m8 short")
        await chat.until_seen("You said: m8 ")
        await until_applied(chat)
        # Also a second life makes only one, and it hides what it was made of.
        records = [entry.record for entry in await history(chat)]
        assert sum(isinstance(record, Summarised) for record in records) == 1
        assert sum(isinstance(record, UserSaid) for record in records) == 8
        assert await chat.database.read(lambda tx: tx.compressions.due(chat.clock.now(), 0, 9)) == []
        shown = [entry.record for entry in visible(await history(chat))]
        assert isinstance(shown[0], Summarised) and not shown[0].request
        assert any(isinstance(record, UserSaid) and "m8 " in record.text for record in shown)

    def make(place: Path) -> Journey:
        shutil.copy(folder / "state.db", place)
        return journey(place)

    await cut_everywhere(tmp_path, make, live, after=after, full=full)


def _told_before(now: datetime, tx: Tx) -> None:
    """A long conversation of the chat that no message of it tells of any more."""
    source = Source(address=Address(platform="fake", chat="1"), kind=SourceKind.PRIVATE, user="u1")
    session = next_session(tx, session_key(source, MAIN_AGENT), source, now)
    whole: list[Entry] = []
    for number in range(1, 8):
        words = (UserSaid(text=f"m{number} {LONG}"), ModelSaid(text=f"You said: m{number} "), Finished())
        whole += number_records(whole, TurnId(f"turn_{number}"), words, now)
    tx.journal.append(session.id, whole)


# --- at once -----------------------------------------------------------------------------------------


async def test_a_model_that_says_too_long_is_asked_again_with_less(tmp_path: Path) -> None:
    """Nothing is known of the window before the model tells it."""
    small = within(2500, summing)
    chat = Journey(folder=tmp_path, script=small, settings=settings(background=False), window=1_000_000)
    async with chat:
        await talk(chat, 1, 9)
        assert len(await kept(chat, Summarised)) >= 1
        assert await kept(chat, Failed) == []
        # What it said of its window counts from then on: no further call was too long.
        refused = [r for r in spoken(chat) if _size(r) > 2500]
        assert len(refused) == 1


def _size(request: ModelRequest) -> int:
    return fixed_tokens(request.system, request.tools) + tokens_of(request.entries)


async def test_a_request_that_cannot_fit_is_shortened_before_it_is_sent(tmp_path: Path) -> None:
    async with journey(tmp_path, settings=settings(background=False)) as chat:
        await talk(chat, 1, 14)
        assert len(await kept(chat, Summarised)) >= 1
        assert all(_size(request) <= WINDOW for request in chat.model.requests)


async def test_a_long_turn_is_compressed_in_its_middle_and_goes_on_with_its_request(tmp_path: Path) -> None:
    """hermes-studio#2187: the tail had no user message, so the agent took up nothing, or an old task."""
    request_words = "find the bug in the parser, and do not touch the tests"

    def script(request: ModelRequest) -> Say:
        if is_summary(request):
            return summing(request)
        number = sum(isinstance(record, ModelSaid) for record in (e.record for e in request.entries))
        if len(steps) < 30 and "find the bug" in told(request):
            steps.append(number)
            return call("read", f'{{"token": "{len(steps)}"}}', id=f"c{len(steps)}")
        return say("The bug is on line 7.")

    steps: list[int] = []
    chat = journey(tmp_path, script, tools=[reader(900)], settings=settings(background=False))
    async with chat:
        await talk_short(chat, "old task: paint the shed")
        chat.world.write(request_words)
        await chat.until_seen("The bug is on line 7.")
        await chat.until_idle()
        made = await kept(chat, Summarised, Cleared)
        assert made and len(steps) == 30
        last = spoken(chat)[-1]
        before, mark, after = told(last).partition("[End of the summary.")
        if mark:
            assert request_words in after and "paint the shed" not in after
            assert "Do none of it again" in before
        # Every call has its result right behind it.
        wire = messages(last.entries)
        for place, message in enumerate(wire):
            for nth, made_call in enumerate(message.calls, 1):
                assert wire[place + nth].call == made_call.id


async def talk_short(chat: Journey, text: str) -> None:
    seen = len(chat.world.seen())
    chat.world.write(text)
    await chat.until(lambda: len(chat.world.seen()) > seen)
    await chat.until_idle()


async def test_without_a_summary_a_turn_that_cannot_go_on_says_so(tmp_path: Path) -> None:
    def script(request: ModelRequest) -> Say:
        if is_summary(request):
            return Say(error=ModelFault("the key was refused.", kind=FaultKind.BAD_KEY))
        return summing(request)

    chat = Journey(
        folder=tmp_path, script=within(2500, script), settings=settings(background=False), window=1_000_000
    )
    async with chat:
        await talk(chat, 1, 7)
        chat.world.write(f"m8 {LONG}")
        seen = await chat.until_seen("longer than scripted can read")
        assert "no summary of it could be made (the key was refused)" in seen[-1]
        assert "Nothing was removed" in seen[-1] and "/new" in seen[-1] and "/model" in seen[-1]
        assert await kept(chat, Summarised, Cleared) == []


async def test_two_useless_tries_end_it_with_a_sentence(tmp_path: Path) -> None:
    """Loops and zero gain: a summary as long as what it tells of is not taken, and not tried for ever."""

    def script(request: ModelRequest) -> Say:
        return say("s" * 9000) if is_summary(request) else summing(request)

    chat = Journey(
        folder=tmp_path, script=within(2500, script), settings=settings(background=False), window=1_000_000
    )
    async with chat:
        await talk(chat, 1, 7)
        chat.world.write(f"m8 {LONG}")
        seen = await chat.until_seen("gained almost nothing")
        assert "Nothing was removed" in seen[-1]
        assert sum(map(is_summary, chat.model.requests)) <= 2
        assert await kept(chat, Summarised, Cleared) == []
        assert await summaries_paid_for(chat) == 1


async def test_what_summaries_took_that_are_of_no_use_is_counted(tmp_path: Path) -> None:
    """Empty ones and ones as long as what they tell of, beside turns and by hand: somebody pays for them."""
    answers = iter(["", "s" * 90_000])

    def script(request: ModelRequest) -> Say:
        return say(next(answers, "s" * 90_000)) if is_summary(request) else summing(request)

    clock = FakeClock()
    async with journey(tmp_path, script, clock=clock) as chat:
        await talk(chat, 1, 7)
        await chat.until(lambda: any(map(is_summary, chat.model.requests)))
        await settle()
        await chat.until_idle()
        assert await summaries_paid_for(chat) == 1
        await command(chat, "/compress", "Not compressed: ")
        assert await kept(chat, Summarised, Cleared) == []
        assert await summaries_paid_for(chat) == 2


async def test_a_window_smaller_than_the_instructions_is_one_clear_sentence(tmp_path: Path) -> None:
    async with journey(tmp_path, window=40) as chat:
        chat.world.write("hello")
        seen = await chat.until_seen("The instructions and tools alone take about")
        assert "scripted reads 40" in seen[-1] and "/model" in seen[-1]
        assert chat.model.requests == []


async def test_what_child_agents_brought_and_the_plan_are_not_forgotten(tmp_path: Path) -> None:
    """Lexus2016#1420: results of delegation were gone after a compression."""
    todo = Tool(name="todo", description="", parameters={}, run=_plan, effect=Effect.READ)

    def script(request: ModelRequest) -> Say:
        words = last_words(request)
        if is_summary(request) or isinstance(request.entries[-1].record, ToolFinished):
            return summing(request)
        if words.startswith("count the sheep"):
            return say("There are 42 sheep.")
        if words.startswith("m1 "):
            return call("delegate", '{"task": "count the sheep"}', id="d1")
        return call("todo", "{}", id="t1") if words.startswith("m2 ") else summing(request)

    async with journey(tmp_path, script, tools=[DELEGATE, todo]) as chat:
        await talk(chat, 1, 7)
        await until_applied(chat)
        await talk(chat, 8, 8)
        [summary, *_] = await kept(chat, Summarised)
        [result] = summary.results
        assert result.startswith("count the sheep: [done · ") and result.endswith("There are 42 sheep.")
        words = told(spoken(chat)[-1])
        assert "There are 42 sheep." in words
        assert "[ ] shear them" in words.partition("[End of the summary.")[2]
        assert "[x] count them" not in words


async def _plan(context: ToolContext, arguments: Mapping[str, object]) -> ToolResult:
    return ToolResult(text="[x] count them\n[ ] shear them\n1 of 2 done.")


async def test_memory_is_told_before_and_a_late_answer_is_left_out(tmp_path: Path) -> None:
    async def before(session: Session, hidden: Sequence[Entry]) -> str:
        assert hidden
        return "the person likes sheep"

    async with journey(tmp_path, before_compress=before) as chat:
        await talk(chat, 1, 7)
        await until_applied(chat)
        [asked] = [request for request in chat.model.requests if is_summary(request)]
        assert "the person likes sheep" in last_words(asked)


# --- by hand -----------------------------------------------------------------------------------------


async def test_compress_and_undo_by_hand(tmp_path: Path) -> None:
    async with journey(tmp_path, settings=settings(enabled=False)) as chat:
        await talk(chat, 1, 6)
        await command(chat, "/compress --preview", "/compress would tell")
        assert await kept(chat, Summarised) == []
        await command(chat, "/compress sheep", "Compressed: ")
        assert "Above all, keep everything about this: sheep" in last_words(chat.model.requests[-1])
        await talk(chat, 7, 7, "short")
        assert "m2 " not in told(spoken(chat)[-1]).partition("[End of the summary.")[2]
        world = chat.world
    # Also an actor that has not read what was before the summary brings it back.
    async with journey(tmp_path, settings=settings(enabled=False), world=world) as chat:
        await command(chat, "/compress undo", "The last compression is undone")
        await talk(chat, 8, 8, "short")
        words = told(spoken(chat)[-1])
        assert all(f"m{number} " in words for number in range(1, 9)) and "It is history" not in words
        await command(chat, "/compress undo", "Nothing in this conversation is compressed.")
        world = chat.world
    async with journey(tmp_path, settings=settings(enabled=False), world=world) as chat:
        await talk(chat, 9, 9, "short")
        assert all(f"m{number} " in told(spoken(chat)[-1]) for number in range(1, 10))
        assert len(await kept(chat, Restored)) == 1


async def test_compress_here_keeps_the_last_turns_and_a_second_summary_updates_the_first(
    tmp_path: Path,
) -> None:
    async with journey(tmp_path, settings=settings(enabled=False)) as chat:
        await talk(chat, 1, 4)
        await command(chat, "/compress here 2", "Compressed: 4 messages")
        await talk(chat, 5, 5)
        assert [w for w in ("m2 ", "m3 ", "m4 ") if w in _behind(chat)] == ["m3 ", "m4 "]
        await talk_short(chat, "/compact here")
        assert "Compressed: 4 messages" in chat.world.seen()[-1]
        asked = [last_words(request) for request in chat.model.requests if is_summary(request)]
        assert "The summary so far" in asked[1] and "1. everything up to here" in asked[1]
        await talk(chat, 6, 6)
        assert [w for w in ("m4 ", "m5 ", "m6 ") if w in _behind(chat)] == ["m5 ", "m6 "]
        # Undoing goes back one summary at a time.
        await command(chat, "/compress undo", "is undone")
        await talk(chat, 7, 7)
        assert [w for w in ("m2 ", "m3 ", "m4 ") if w in _behind(chat)] == ["m3 ", "m4 "]


def _behind(chat: Journey) -> str:
    return told(spoken(chat)[-1]).partition("[End of the summary.")[2]


@pytest.mark.parametrize(
    ("line", "answer"),
    [
        ("/compress", "There is nothing to compress yet"),
        ("/compress undo", "Nothing in this conversation is compressed."),
        ("/compress here nowhere", "“nowhere” is not a number of turns."),
        ("/compress --force", "/compress does not know --force."),
    ],
)
async def test_what_cannot_be_compressed_is_said(tmp_path: Path, line: str, answer: str) -> None:
    async with journey(tmp_path) as chat:
        await command(chat, line, answer)


async def test_what_was_restored_is_left_alone_until_it_does_not_fit(tmp_path: Path) -> None:
    async with journey(tmp_path) as chat:
        await talk(chat, 1, 7)
        await until_applied(chat)
        await command(chat, "/compress undo", "is undone")
        asked = sum(map(is_summary, chat.model.requests))
        await talk(chat, 8, 8, "short")
        await settle()
        assert sum(map(is_summary, chat.model.requests)) == asked


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
async def test_compress_by_hand_may_be_cut_off_anywhere(tmp_path: Path, full: bool, after: bool) -> None:
    folder = tmp_path / "first"
    folder.mkdir()
    async with Journey(folder=folder) as chat:
        await chat.database.write(partial(_told_before, chat.clock.now()))

    async def live(chat: Journey) -> None:
        if not chat.world.updates:
            chat.world.write("/compress here 2")
            chat.world.write("/compress undo")
            chat.world.write("m8 short")
        await chat.until_seen("Compressed: ", "The last compression is undone", "You said: m8 ")
        await chat.until_idle()
        assert len(await kept(chat, Summarised)) == len(await kept(chat, Restored)) == 1
        shown = [e.record for e in visible(await history(chat)) if isinstance(e.record, UserSaid)]
        assert len(shown) == 8

    def make(place: Path) -> Journey:
        shutil.copy(folder / "state.db", place)
        return journey(place, settings=settings(enabled=False))

    await cut_everywhere(tmp_path, make, live, after=after, full=full)


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
async def test_room_made_in_the_middle_of_a_turn_may_be_cut_off_anywhere(
    tmp_path: Path, full: bool, after: bool
) -> None:
    folder = tmp_path / "first"
    folder.mkdir()
    async with Journey(folder=folder) as chat:
        await chat.database.write(partial(_told_before, chat.clock.now()))

    async def live(chat: Journey) -> None:
        if not chat.world.updates:
            chat.world.write(f"m8 {LONG}")
        await chat.until_seen("You said: m8 ")
        await chat.until_idle()
        records = [entry.record for entry in await history(chat)]
        assert sum(isinstance(record, Summarised) for record in records) == 1
        assert sum(isinstance(record, ModelSaid) for record in records) == 8
        assert len(chat.world.seen()) == 1

    def make(place: Path) -> Journey:
        shutil.copy(folder / "state.db", place)
        script = within(2300, summing)
        return Journey(folder=place, script=script, settings=settings(background=False), window=1_000_000)

    await cut_everywhere(tmp_path, make, live, after=after, full=full)


async def test_a_message_waits_for_compress_and_stop_ends_it(tmp_path: Path) -> None:
    held = asyncio.Event()

    def script(request: ModelRequest) -> Say:
        said = summing(request)
        return replace(said, hold=held) if is_summary(request) else said

    async with journey(tmp_path, script, settings=settings(enabled=False)) as chat:
        await talk(chat, 1, 6)
        chat.world.write("/compress")
        await chat.until(lambda: any(map(is_summary, chat.model.requests)))
        chat.world.write("m7 short")
        await chat.until_taken()
        await command(chat, "/stop", "Stopped")
        assert await kept(chat, Summarised) == []
        chat.world.write("/compress")
        await chat.until(lambda: sum(map(is_summary, chat.model.requests)) == 2)
        chat.world.write("m8 short")
        await chat.until_taken()
        held.set()
        await chat.until_seen("Compressed: ", "You said: m8 short")
        await chat.until_idle()
        assert isinstance(spoken(chat)[-1].entries[0].record, Summarised)


# --- very long ---------------------------------------------------------------------------------------


async def test_a_session_of_thousands_of_turns_stays_usable_and_starts_from_its_tail(
    tmp_path: Path, full: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    turns = 2000 if full else 300
    source = Source(address=Address(platform="api", chat="long"), kind=SourceKind.API, user="u1")

    async def say_it(chat: Journey, number: int) -> None:
        words = TurnInput(text=f"m{number} {LONG[:400]}")
        turn = await chat.gateway.submit(Submission(agent=MAIN_AGENT, source=source, input=words))
        seen = [one async for one in chat.gateway.watch(MAIN_AGENT, turn.id) if isinstance(one, Entry)]
        assert isinstance(seen[-1].record, Finished)

    async with journey(tmp_path) as chat:
        for number in range(turns):
            await say_it(chat, number)
            assert all(_size(request) <= WINDOW for request in chat.model.requests)
            chat.model.requests.clear()
        await chat.until_idle()
    async with journey(tmp_path) as chat:
        await chat.until_idle()  # workers that catch up read pages of their own
        decoded = Decoded(monkeypatch)
        await say_it(chat, turns)
        read = decoded.count
        entries = await history(chat)
        summaries = sum(isinstance(entry.record, Summarised) for entry in entries)
        assert len(entries) > 3 * turns and summaries >= turns // 40
        # The marks, and what is behind the last of them.
        assert read <= summaries + 100
        assert await chat.database.read(lambda tx: tx.search.find("m5"))
