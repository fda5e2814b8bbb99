"""A restart under load: what runs is drained or gone on with, and no answer is missing or comes twice."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from hermes.control.outbound.answers import REPEAT_MARK
from hermes.domain.settings.settings import DisplaySettings
from hermes.domain.turns.turn import BusyMode
from hermes.domain.word import replace
from hermes.testing.clock import settle
from hermes.testing.harness import Journey, open_settings
from hermes.testing.history import check_history
from hermes.testing.model import Say, obedient
from tests.acceptance.telling import KINDS, find_test
from tests.journeys.cut import cut_everywhere

SETTINGS = open_settings(display=DisplaySettings(busy_input_mode=BusyMode.QUEUE))


def journey(folder: Path, kind: str = "edits") -> Journey:
    return Journey(folder=folder, kind=kind, script=obedient, settings=SETTINGS)


def load(chat: Journey, chats: int, each: int) -> None:
    """Everybody writes several messages at once; some need tools."""
    if chat.world.updates:
        return
    for number in range(chats * each):
        tools = ("", " read", " once", " keyed")[number % 4]
        chat.world.write(f"m{number}{tools}", chat=f"c{number % chats}", user=f"u{number % chats}")


async def talk(chat: Journey) -> None:
    load(chat, 3, 1)
    await chat.until_seen(*(f"answer to m{number}:" for number in range(len(chat.world.updates))))
    await chat.until_idle()
    assert check_history(chat.world) == []


@pytest.mark.parametrize("kind", KINDS)
async def test_three_restarts_under_load(tmp_path: Path, kind: str) -> None:
    chat = journey(tmp_path, kind)
    load(chat, 8, 6)
    world = chat.world
    for answered in (1, 9, 17):
        async with replace(chat) as life:
            await life.until(lambda least=answered: len(world.seen()) >= least)  # type: ignore[misc]
            await life.gateway.stop(grace=40.0)
    async with replace(chat) as life:
        await talk(life)
    assert not any(REPEAT_MARK in text for text in chat.world.seen()), "a stop in order repeats nothing"


@pytest.mark.parametrize("after", [True, False], ids=["after", "before"])
async def test_stopped_at_each_write(tmp_path: Path, full: bool, after: bool) -> None:
    await cut_everywhere(tmp_path, journey, talk, after=after, full=full)


async def test_a_stop_lets_an_answer_come_to_its_end(tmp_path: Path) -> None:
    hold = asyncio.Event()
    chat = Journey(folder=tmp_path, script=lambda request: Say(text="a whole answer", pieces=2, hold=hold))
    async with chat:
        chat.world.write("tell me")
        await chat.until_seen("a whole")
        stopping = asyncio.create_task(chat.gateway.stop(grace=40.0))
        chat.world.write("and this?")
        await settle()
        hold.set()
        await stopping
        assert chat.world.seen() == ["a whole answer"], "it was waited for, and nothing else was begun"
    async with replace(chat) as chat:
        await chat.until(lambda: len(chat.world.seen()) == 2)
        await chat.until_idle()
        assert chat.world.seen() == ["a whole answer", "a whole answer"]


@pytest.mark.parametrize(
    "path",
    [
        "tests.journeys.test_restarts.test_a_restart_from_a_chat",
        "tests.journeys.test_restarts.test_a_stop_tells_only_chats_whose_answer_is_unfinished",
        "tests.cli.test_bad_homes.test_a_second_gateway",
        "tests.cli.test_background.test_another_gateway_takes_over_when_told_to",
        "tests.crash.test_random_kills.test_asked_to_stop_while_busy_it_exits_cleanly_and_goes_on_later",
    ],
)
def test_with_processes_it_is_told_elsewhere(path: str) -> None:
    """Notices, a second gateway that is refused, one that takes over: they are about whole processes."""
    find_test(path)
