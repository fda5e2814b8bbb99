"""Bad input: one clear sentence that says what to do, and nothing has changed."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path

import apsw
import pytest

from hermes.domain.settings.platforms import PlatformSettings
from hermes.domain.settings.settings import Settings
from hermes.testing.clock import FakeClock
from hermes.testing.harness import Journey, open_settings
from hermes.testing.jobs import FakeJobWorld
from tests.acceptance.telling import button, deeds, find_test, obeys
from tests.journeys.test_pairing import code_in, owner_approves

PAPERWORK = (
    "inbox",
    "outbox",
    "cursors",
    "channels",
    "leases",
    "boots",
    "pairing_marks",
    "sqlite_",
    "words",
    "letters",
)
"""Tables that any message leaves its trace in: that it came, what was answered, that a code was tried. The
search index follows in its own time."""
ADMIN = open_settings(
    platforms={"fake": PlatformSettings(allowed_users=("boss", "ann"), allow_admin_from=("boss",))},
    timezone="UTC",
)
OPEN = open_settings(timezone="UTC")


def everything(folder: Path) -> dict[str, list[object]]:
    with apsw.Connection(str(folder / "state.db")) as db:
        names = [row[0] for row in db.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")]
        kept = [name for name in names if not name.startswith(PAPERWORK)]
        found = {name: db.execute(f"SELECT * FROM {name}").fetchall() for name in kept}
    found["facts"] = [row for row in found["facts"] if row[0] != "indexed"]
    return found


async def nothing(chat: Journey) -> None:
    chat.world.write("hello", user="ann")
    await chat.until_seen("answer to hello")


async def asked(chat: Journey) -> None:
    chat.world.write("hello", user="boss", chat="g", kind="group")
    await chat.until_seen("answer to hello")
    chat.world.write("do x", user="ann", chat="g", kind="group")
    await chat.until_seen("May I do x?")


def says(text: str, **who: str) -> Callable[[Journey], Awaitable[None]]:
    async def write(chat: Journey) -> None:
        chat.world.write(text, **{"user": "ann", **who})  # type: ignore[arg-type]

    return write


async def presses(chat: Journey) -> None:
    value = button(chat.world, "May I do x?", "once")
    chat.world.write("", user="boss", chat="g", kind="group", button=value)


@dataclass(frozen=True, slots=True, kw_only=True)
class Bad:
    """What somebody does, and what they are told."""

    does: Callable[[Journey], Awaitable[None]]
    told: str
    before: Callable[[Journey], Awaitable[None]] = nothing
    settings: Settings = OPEN


BAD = {
    "an unknown command": Bad(does=says("/statsu"), told="/status"),
    "a schedule that is none": Bad(does=says("/cron add whenever | look"), told="whenever"),
    "an hour that is none": Bad(does=says("/cron add 0 25 * * * | look"), told="the hour “25”"),
    "a moment that is past": Bad(does=says("/cron add 2020-01-01T00:00 | look"), told="2020-01-01"),
    "a session that is not there": Bad(does=says("/resume Nowhere"), told="Nowhere"),
    "a task that is not there": Bad(does=says("/stop bg_nothing"), told="bg_nothing"),
    "a grant that is not there": Bad(does=says("/grants revoke 7"), told="There is no grant “7” of yours."),
    "a mode that is none": Bad(does=says("/busy sometimes"), told="interrupt"),
    "somebody who may not": Bad(does=says("/pair"), told="You may not use /pair here.", settings=ADMIN),
    "somebody else's approval": Bad(
        does=says("/approve", user="boss", chat="g", kind="group"),
        told="Nothing",
        before=asked,
        settings=ADMIN,
    ),
    "somebody else's button": Bad(
        does=presses, told="Only the person who was asked can answer this.", before=asked, settings=ADMIN
    ),
}


@pytest.mark.parametrize("name", BAD)
async def test_one_sentence_and_nothing_changed(tmp_path: Path, name: str) -> None:
    bad = BAD[name]
    async with Journey(
        folder=tmp_path, script=obeys, settings=bad.settings, clock=FakeClock(), jobs=FakeJobWorld()
    ) as chat:
        await bad.before(chat)
        await chat.until_idle()
        before, heard = await asyncio.to_thread(everything, tmp_path), len(chat.world.seen())
        await bad.does(chat)
        await chat.until(lambda: len(chat.world.seen()) > heard)
        await chat.until_idle()
        [answer] = chat.world.seen()[heard:]
        assert bad.told in answer and len(answer) < 400 and answer.count("\n") < 4, answer
        after = await asyncio.to_thread(everything, tmp_path)
        assert [name for name in before if before[name] != after[name]] == []
        assert deeds(chat.world) == []


async def test_somebody_who_is_not_paired_is_told_how_and_nobody_is_let_in(tmp_path: Path) -> None:
    async with Journey(folder=tmp_path, script=obeys, settings=open_settings(platforms={})) as chat:
        chat.world.write("do x", user="eve")
        await chat.until_seen("I do not know you yet.")
        await chat.until_idle()
        assert chat.model.requests == []
        assert await chat.database.read(lambda tx: tx.pairings.list()) == []
        assert await chat.database.read(lambda tx: tx.sessions.find("")) == []


async def test_an_expired_code_is_told_and_lets_nobody_in(tmp_path: Path) -> None:
    clock = FakeClock()
    async with Journey(folder=tmp_path, settings=open_settings(platforms={}), clock=clock) as chat:
        chat.world.write("hello?", user="ann")
        code = code_in(await chat.until_seen("pairing code"))
        clock.jump(3601)
        approval = await owner_approves(chat, code)
        assert approval.paired is None and approval.text.count(".") <= 2
        assert await chat.database.read(lambda tx: tx.pairings.list()) == []


ELSEWHERE = {
    "a hook whose manifest is wrong": "tests.state.test_hook_files.test_a_mistake_leaves_one_hook_out",
    "an unknown target": (
        "tests.control.test_targets.test_an_unknown_target_is_one_sentence_that_names_what_there_is"
    ),
    "an unknown target of the agent": (
        "tests.journeys.test_sending."
        "test_targets_that_are_not_there_are_told_to_the_agent_and_nothing_is_sent"
    ),
    "wrong words about a job": "tests.journeys.test_cron.test_bad_wishes_change_nothing",
    "a schedule that is none": "tests.control.test_schedule.test_what_is_wrong_is_told_with_an_example",
    "a command that is none": "tests.journeys.test_commands.test_a_wrong_command_names_the_nearest",
}


@pytest.mark.parametrize("what", ELSEWHERE)
def test_it_is_tested_where_the_part_is(what: str) -> None:
    find_test(ELSEWHERE[what])
