"""A message during a run: `interrupt`, `queue` and `steer` do what they say, /stop always works, and nothing
that was accepted is lost."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from hermes.domain.ports.agent import ModelRequest
from hermes.domain.settings.settings import DisplaySettings
from hermes.domain.turns.event import UserSaid
from hermes.domain.turns.turn import BusyMode
from hermes.testing.harness import Journey, open_settings
from hermes.testing.model import Say, last_words
from tests.acceptance.telling import KINDS, seen_once, write
from tests.journeys.cut import Life, cut_everywhere
from tests.journeys.test_busy import transcript

MODES = tuple(BusyMode)


class Slow:
    """Thinks about the first message until it is let go, in every life anew."""

    def __init__(self) -> None:
        self.go = asyncio.Event()

    def __call__(self, request: ModelRequest) -> Say:
        words = last_words(request)
        return Say(text=f"answer to {words}", pieces=3, hold=self.go if words == "first" else None)


def slow(chat: Journey) -> Slow:
    assert isinstance(chat.script, Slow)
    return chat.script


def journey(folder: Path, mode: BusyMode, kind: str = "edits") -> Journey:
    settings = open_settings(display=DisplaySettings(busy_input_mode=mode))
    return Journey(folder=folder, kind=kind, settings=settings, script=Slow())


async def begin(chat: Journey) -> None:
    """The first message is being answered, or was in an earlier life."""
    slow(chat).go.clear()
    write(chat.world, "first")
    await chat.until(lambda: bool(chat.model.requests) or len(chat.world.updates) > 1)


async def talk(chat: Journey) -> None:
    await begin(chat)
    write(chat.world, "second")
    await chat.until_taken()
    slow(chat).go.set()
    await chat.until_seen("answer to second")
    await chat.until_idle()
    seen_once(chat.world, "answer to second")
    said = [record.text for record in await transcript(chat) if isinstance(record, UserSaid)]
    assert said == ["first", "second"], "nothing that was accepted is lost, and nothing counts twice"
    if chat.settings.display.busy_input_mode is BusyMode.QUEUE:
        seen_once(chat.world, "answer to first")
        assert chat.world.seen()[0].startswith("answer to first")


async def stop(chat: Journey) -> None:
    await begin(chat)
    write(chat.world, "/stop")
    await chat.until_seen("topped")
    slow(chat).go.set()
    write(chat.world, "second")
    await chat.until_seen("answer to second")
    await chat.until_idle()
    seen_once(chat.world, "answer to second")


STORIES: dict[str, tuple[BusyMode, Life]] = {
    **{mode.value: (mode, talk) for mode in MODES},
    "stop": (BusyMode.QUEUE, stop),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", STORIES)
async def test_a_message_comes_while_it_runs(tmp_path: Path, name: str, kind: str) -> None:
    mode, live = STORIES[name]
    async with journey(tmp_path, mode, kind) as chat:
        await live(chat)


@pytest.mark.parametrize("after", [True, False], ids=["after", "before"])
@pytest.mark.parametrize("name", STORIES)
async def test_stopped_at_each_write(tmp_path: Path, full: bool, name: str, after: bool) -> None:
    mode, live = STORIES[name]
    await cut_everywhere(tmp_path, lambda folder: journey(folder, mode), live, after=after, full=full)


@pytest.mark.parametrize("mode", MODES)
async def test_the_commands_that_always_work(tmp_path: Path, mode: BusyMode) -> None:
    async with journey(tmp_path, mode) as chat:
        await begin(chat)
        chat.world.write("/status")
        await chat.until_seen(": running, ")
        chat.world.write("/queue and then this")
        chat.world.write("/background this beside it")
        await chat.until_seen("answer to this beside it")
        chat.world.write("/approve")
        chat.world.write("/deny")
        await chat.until(lambda: sum("Nothing" in text for text in chat.world.seen()) >= 2)
        assert not any("answer to first" in text and "▉" not in text for text in chat.world.seen())
        chat.world.write("/model other")
        await chat.until_seen("/stop")
        slow(chat).go.set()
        await chat.until_seen("answer to first", "answer to and then this")
        chat.world.write("/new")
        await chat.until_seen("New session")
        await chat.until_idle()


async def test_words_that_steer_by_command_are_never_lost(tmp_path: Path) -> None:
    async with journey(tmp_path, BusyMode.QUEUE) as chat:
        chat.world.write("/steer")
        await chat.until_seen("/steer")
        await begin(chat)
        chat.world.write("/steer and hurry")
        await chat.until_taken()
        slow(chat).go.set()
        await chat.until_seen("answer to and hurry")
        await chat.until_idle()
        said = [record for record in await transcript(chat) if isinstance(record, UserSaid)]
        assert [record.text for record in said] == ["first", "and hurry"]
