"""`/new` and `/undo` ask first where the settings want it; the question survives a restart."""

from __future__ import annotations

from pathlib import Path

import pytest

from hermes.control.turn.questions import answer
from hermes.domain.settings.settings import ApprovalSettings
from hermes.domain.turns.event import UserSaid, Verdict
from hermes.domain.turns.turn import Answer, TurnState
from hermes.state.store.writer import SqliteStore
from hermes.testing.clock import FakeClock
from hermes.testing.harness import Journey, open_settings
from hermes.testing.world import World

SETTINGS = open_settings(approvals=ApprovalSettings(destructive_slash_confirm=True))


def journey(folder: Path, world: World, kind: str = "plain") -> Journey:
    return Journey(folder=folder, world=world, settings=SETTINGS, kind=kind)


async def talk(chat: Journey, text: str) -> list[str]:
    chat.world.write(text)
    await chat.until_seen(f"You said: {text}")
    await chat.until_idle()
    entries = chat.model.requests[-1].entries
    return [entry.record.text for entry in entries if isinstance(entry.record, UserSaid)]


async def test_undo_waits_for_a_yes_also_over_a_crash(tmp_path: Path) -> None:
    chat = journey(tmp_path, World())
    async with chat:
        await talk(chat, "one")
        await talk(chat, "two")
        chat.world.write("/undo")
        await chat.until_seen("Shall I forget the last turn?")
        await chat.until_idle()
        await chat.abandon()
    async with journey(tmp_path, chat.world) as again:
        again.world.write("/approve", user="eve")
        await again.until_seen("Only the person who was asked")
        again.world.write("yes")
        await again.until_seen("Undone: the last turn.")
        assert await talk(again, "three") == ["one", "three"]


async def test_a_crash_between_an_answer_and_its_turn_is_not_the_turn_s_fault(tmp_path: Path) -> None:
    async with journey(tmp_path, World()) as chat:
        await talk(chat, "one")
        chat.world.write("/new Plan")
        await chat.until_seen("Shall I begin a new session?")
        await chat.until_idle()
        (asked,) = await chat.database.read(lambda tx: tx.questions.open_of(None))
        yes = Answer(question=asked.id, verdict=Verdict.ONCE, by=asked.may_answer[0])
        # Straight into the store: no actor hears of it before the crash.
        outcome = await chat.database.write(lambda tx: answer(tx, yes, chat.clock.now()))
        assert outcome.closed
        await chat.abandon()
    store = await SqliteStore(tmp_path / "state.db").open()
    assert (await store.write(lambda tx: tx.recovery.boot(chat.clock.now()))).unclean
    turn = await store.read(lambda tx: tx.turns.get(asked.turn))
    assert turn is not None and (turn.state, turn.crashes) == (TurnState.RUNNING, 0)
    await store.close()


async def test_a_confirmed_session_bears_its_title(tmp_path: Path) -> None:
    async with journey(tmp_path, World()) as chat:
        await talk(chat, "one")
        chat.world.write("/new Plan")
        await chat.until_seen("Shall I begin a new session?")
        chat.world.write("yes")
        await chat.until_seen("New session “Plan”.")
        await chat.until_idle()
        assert await talk(chat, "two") == ["two"]
        sessions = await chat.database.read(lambda tx: tx.sessions.find(""))
        assert [session.title for session in sessions] == ["Plan", None]


@pytest.mark.parametrize("word", ["no", "/deny", "always"])
async def test_without_a_yes_nothing_changes(tmp_path: Path, word: str) -> None:
    async with journey(tmp_path, World()) as chat:
        await talk(chat, "one")
        chat.world.write("/new Plan")
        await chat.until_seen("Shall I begin a new session?")
        chat.world.write(word)
        await chat.until_taken()
        await chat.until_idle()
        chat.world.write("/approve always")
        await chat.until_taken()
        sessions = await chat.database.read(lambda tx: tx.sessions.find(""))
        assert len(sessions) == 1


async def test_new_begins_with_a_pressed_yes(tmp_path: Path) -> None:
    async with journey(tmp_path, World(), kind="edits") as chat:
        chat.world.write("/new")
        await chat.until_seen("New session.")
        await talk(chat, "one")
        chat.world.write("/new Plan")
        await chat.until_seen("Shall I begin a new session?")
        prompt = next(message for message in chat.world.messages.values() if message.buttons)
        chat.world.write("", button=next(value for value in prompt.buttons if value.endswith(":yes")))
        await chat.until_seen("New session “Plan”.")
        assert await talk(chat, "two") == ["two"]


async def test_silence_changes_nothing(tmp_path: Path) -> None:
    clock = FakeClock()
    async with Journey(folder=tmp_path, settings=SETTINGS, kind="plain", clock=clock) as chat:
        await talk(chat, "one")
        chat.world.write("/undo")
        await chat.until_seen("Shall I forget the last turn?")
        clock.jump(301)
        await clock.advance(2)
        await chat.until_seen("Nothing was changed.")
