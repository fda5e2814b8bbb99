"""Something in a loop of the gateway breaks once: it is logged, shown, and the loop goes on. A row that
breaks keeps its place and is tried again; one that always breaks is given up, and its person hears of it."""

from __future__ import annotations

import asyncio
import logging
import sqlite3
from collections.abc import Callable
from contextlib import closing
from itertools import pairwise
from pathlib import Path

import pytest

from hermes.control.inbound.intake import GIVEN_UP, NOT_TAKEN
from hermes.control.jobs.editing import JobSpec
from hermes.control.outbound.answers import REPEAT_MARK
from hermes.control.sessions.submission import SessionTarget, Submission
from hermes.control.turn.stopping import UNREADABLE
from hermes.control.workers import MOST_FAILURES, pause_after
from hermes.domain.chats.address import Address, Source, SourceKind
from hermes.domain.chats.message import Inbound
from hermes.domain.errors import Refused, Unreachable
from hermes.domain.ids import MAIN_AGENT, AgentId
from hermes.domain.ports.agent import ModelRequest
from hermes.domain.ports.store import Tx
from hermes.domain.settings.settings import ApprovalSettings, DisplaySettings
from hermes.domain.turns.event import Entry, Failed
from hermes.domain.turns.job import JobRun
from hermes.domain.turns.turn import BusyMode, ReplyPlace, TurnInput
from hermes.testing.clock import QuickClock
from hermes.testing.harness import Journey, open_settings
from hermes.testing.jobs import FakeJobWorld
from hermes.testing.model import Say, call, echo, last_words, say
from tests.journeys.between import Between
from tests.journeys.test_handoff import Terminal, owned, set_home

ERRORS = [Unreachable("the disk hiccups"), Refused("a row of another version"), RuntimeError("a fault")]
ANN = Source(address=Address(platform="fake", chat="1"), kind=SourceKind.PRIVATE, user="u1")
QUEUED = DisplaySettings(busy_input_mode=BusyMode.QUEUE)


def quick(folder: Path, between: Between, **more: object) -> Journey:
    chosen: dict[str, object] = {"settings": open_settings(display=QUEUED), "clock": QuickClock(), **more}
    return Journey(folder=folder, wrap_store=between.wrap, **chosen)  # type: ignore[arg-type]


def broke(chat: Journey, loop: str) -> int:
    return chat.loops.states[loop].failures


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
@pytest.mark.parametrize(
    ("loop", "unit"),
    [
        ("intake", "Intake.live"),
        ("intake", "TakeInbound.unit"),
        ("session", "ClaimTurn.unit"),
        ("lane", "Lane._next"),
    ],
)
async def test_every_message_is_answered_though_one_thing_breaks(
    tmp_path: Path, loop: str, unit: str, error: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    between = Between().before(unit, error)
    async with quick(tmp_path, between, kind="plain") as chat:
        chat.world.write("one")
        await chat.until_seen("You said: one")
        for text in ("two", "three"):
            chat.world.write(text)
        await chat.until_seen("You said: two", "You said: three")
        await chat.until_idle()
        assert chat.world.seen() == ["You said: one", "You said: two", "You said: three"]
        assert between.acted() and broke(chat, loop) == 1
        assert chat.loops.states[loop].why == f"{type(error).__name__}: {error}"
        assert chat.loops.states[loop].is_well(chat.clock.now())
    assert f"loop.broke loop={loop}" in caplog.text and str(error) in caplog.text


async def test_what_earlier_lives_left_is_found_though_the_first_look_breaks(tmp_path: Path) -> None:
    between = Between()
    hold = asyncio.Event()
    async with quick(tmp_path, between, script=[Say(text="never", hold=hold)], kind="plain") as chat:
        chat.world.write("one")
        await chat.until(lambda: len(chat.model.requests) == 1)
        await chat.abandon()
    between.before("actors.Actors._due", ERRORS[0]).before("Delivery._waiting", ERRORS[0])
    async with quick(tmp_path, between, world=chat.world, kind="plain") as chat:
        await chat.until_seen("You said: one")
        assert between.acted() and broke(chat, "session refill") == 1 and broke(chat, "lane refill") == 1


def _asking(request: ModelRequest) -> Say:
    return call("danger") if last_words(request) == "ask" and len(request.entries) < 2 else echo(request)


@pytest.mark.parametrize("unit", ["Expiry.sweep", "QuestionExpiry._expire"])
async def test_questions_expire_though_a_look_breaks(tmp_path: Path, unit: str) -> None:
    between = Between().before(unit, ERRORS[2])
    settings = open_settings(approvals=ApprovalSettings(timeout=30))
    async with quick(tmp_path, between, script=_asking, settings=settings) as chat:
        chat.world.write("ask")
        await chat.until_seen("You said: ask")
        assert between.acted() and broke(chat, "expiry") == 1


@pytest.mark.parametrize("unit", ["Cron._look", "runs.fire", "Cron._settle"])
async def test_jobs_run_though_a_look_breaks(tmp_path: Path, unit: str) -> None:
    between = Between().before(unit, ERRORS[1])
    async with quick(tmp_path, between, kind="plain", jobs=FakeJobWorld()) as chat:
        await chat.gateway.jobs(MAIN_AGENT).create(JobSpec(schedule="1m", prompt="look"), ANN)
        await chat.until(lambda: any("look" in text for text in chat.world.seen()))
        assert between.acted() and broke(chat, "cron") == 1


async def test_a_run_that_cannot_be_settled_stops_no_other_job_and_no_other_agent(tmp_path: Path) -> None:
    async with quick(tmp_path, Between(), kind="plain", jobs=FakeJobWorld(), agents=("main", "bee")) as chat:
        cron, bee = chat.gateway.cron, AgentId("bee")
        bad = await chat.gateway.jobs(MAIN_AGENT).create(JobSpec(schedule="1m", prompt="bad"), ANN)
        settle = cron._settle

        async def settle_others(agent: AgentId, run: JobRun) -> None:
            if run.job == bad.id:
                raise RuntimeError("one bad run")
            await settle(agent, run)

        cron._settle = settle_others  # type: ignore[method-assign]
        await chat.until(lambda: broke(chat, "cron") > 0)
        await chat.gateway.jobs(MAIN_AGENT).create(JobSpec(schedule="2m", prompt="innocent"), ANN)
        await chat.gateway.jobs(bee).create(JobSpec(schedule="1m", prompt="of another agent"), ANN)
        await chat.until_seen("innocent", "of another agent")
        assert broke(chat, "cron") > 1, "the bad run is tried again and told of"


@pytest.mark.parametrize("unit", ["HandoffWorker.look", "worker._claim"])
async def test_conversations_are_handed_over_though_a_look_breaks(tmp_path: Path, unit: str) -> None:
    between = Between()
    settings = open_settings(platforms={"fake": owned()})
    async with quick(tmp_path, between, kind="plain", settings=settings) as chat:
        await set_home(chat)
        terminal = Terminal(chat)
        await terminal.say("plan the garden")
        between.before(unit, ERRORS[2])
        await terminal.command("/handoff fake")
        await chat.until_seen("handed over", chat="9")
        assert between.acted() and broke(chat, "handoffs") == 1


async def test_a_hand_off_that_breaks_again_and_again_is_tried_after_pauses_that_grow(tmp_path: Path) -> None:
    between, tries = Between(), 4  # more take longer than the minute that a hand-off has
    began: list[float] = []
    settings = open_settings(platforms={"fake": owned()})
    async with quick(tmp_path, between, kind="plain", settings=settings) as chat:
        await set_home(chat)
        terminal = Terminal(chat)
        await terminal.say("plan the garden")

        def fail() -> None:
            began.append(chat.clock.monotonic())
            chat.gateway.handoffs.ring()  # as others do that come and go meanwhile
            raise ERRORS[2]

        between.before("worker._claim", fail, range(tries))
        await terminal.command("/handoff fake")
        await chat.until_seen("handed over", chat="9")
        pauses = [after - before for before, after in pairwise(began)]
        assert len(began) == tries and all(
            pause >= pause_after(failures) for failures, pause in enumerate(pauses, 1)
        )
        assert not chat.gateway.handoffs._pauses


async def test_a_stop_is_heard_though_the_first_look_at_the_mail_breaks(tmp_path: Path) -> None:
    between = Between().before("SessionActor._look", ERRORS[0])
    hold = asyncio.Event()
    script = [Say(text="a long story", hold=hold), say("fine")]
    async with quick(tmp_path, between, script=script) as chat:
        chat.world.write("tell")
        await chat.until(lambda: len(chat.model.requests) == 1)
        chat.world.write("/stop")
        await chat.until_seen("stopped here")
        chat.world.write("and now?")
        await chat.until_seen("fine")
        assert between.acted() and broke(chat, "mail") == 1


# --- rows that break ---


def _selecting(breaks: Callable[[int], bool], error: Exception) -> Callable[[Inbound], object]:
    tries = 0

    async def select(message: Inbound) -> str | None:
        nonlocal tries
        if message.text == "bad":
            tries += 1
            if breaks(tries):
                raise error
        return None

    return select


def _set_select(chat: Journey, select: object) -> None:
    intake = chat.gateway.intake
    assert intake is not None
    intake.select = select


@pytest.mark.parametrize(
    ("error", "most"), [(ValueError("no"), MOST_FAILURES - 1), (Unreachable("no"), 2 * MOST_FAILURES)]
)
async def test_a_row_that_breaks_keeps_its_place_in_the_chat(
    tmp_path: Path, error: Exception, most: int
) -> None:
    async with quick(tmp_path, Between(), kind="plain") as chat:
        _set_select(chat, _selecting(lambda tries: tries <= most, error))
        for text in ("bad", "good"):
            chat.world.write(text)
        chat.world.write("other", chat="2", user="u2")
        await chat.until_seen("You said: bad", "You said: good", "You said: other")
        await chat.until_idle()
        assert chat.world.seen("1") == ["You said: bad", "You said: good"]
        assert broke(chat, "intake") == most


async def test_a_row_that_always_breaks_is_given_up_and_its_person_told(tmp_path: Path) -> None:
    async with quick(tmp_path, Between(), kind="plain") as chat:
        _set_select(chat, _selecting(lambda tries: True, ValueError("bad manners")))
        for text in ("bad", "good"):
            chat.world.write(text)
        await chat.until_seen("You said: good")
        await chat.until_idle()
        assert chat.world.seen("1") == [NOT_TAKEN, "You said: good"]
        [row] = await chat.database.read(lambda tx: tx.inbox.find("d1"))
        assert row.ended(GIVEN_UP) and broke(chat, "intake") == MOST_FAILURES


async def test_in_a_group_nobody_hears_of_a_row_that_was_not_for_us(tmp_path: Path) -> None:
    async with quick(tmp_path, Between(), kind="plain") as chat:
        _set_select(chat, _selecting(lambda tries: True, ValueError("bad manners")))
        chat.world.write("bad", kind="group")
        chat.world.write("good", chat="2", user="u2")
        await chat.until_seen("You said: good")
        await chat.until_idle()
        assert chat.world.seen("1") == []


async def test_a_row_that_cannot_be_read_holds_up_nobody(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.ERROR)
    async with quick(tmp_path, Between(), kind="plain") as chat:
        await chat.disconnect()

        def spoil(tx: Tx) -> None:
            insert = (
                "INSERT INTO inbox (account, delivery, body, accepted_at) VALUES ('fake', 'd0', '{', 1.0)"
            )
            tx.inbox._db.run(insert)  # type: ignore[attr-defined]

        await chat.database.write(spoil)
        chat.connect()
        for text in ("one", "two"):
            chat.world.write(text)
        await chat.until_seen("You said: one", "You said: two")
        [row] = await chat.database.read(
            lambda tx: tx.inbox._db.all("SELECT outcome FROM inbox WHERE delivery = 'd0'")  # type: ignore[attr-defined]
        )
        assert row[0].startswith("failed: a stored Inbound cannot be read")
        assert broke(chat, "intake") == 1


@pytest.mark.parametrize("state", ["running", "waiting"])
@pytest.mark.parametrize(
    ("damage", "is_told"),
    [
        ("input = CAST('{bad' AS BLOB)", True),
        ("reply = CAST('{bad' AS BLOB), busy = 'no such mode'", True),
        ("busy = CAST(x'ff' AS TEXT)", True),
        ("source = CAST('[]' AS BLOB), reply = 7, created_at = 'today'", False),
    ],
)
async def test_a_turn_that_cannot_be_read_is_ended_and_holds_up_nobody(
    tmp_path: Path, state: str, damage: str, is_told: bool
) -> None:
    def hang(request: ModelRequest) -> Say:
        return Say(text="x", hold=asyncio.Event()) if last_words(request) == "hang" else echo(request)

    async with quick(tmp_path, Between(), kind="plain", script=hang) as chat:
        chat.world.write("hang")
        await chat.until(lambda: len(chat.model.requests) == 1)
        await chat.abandon()
    with closing(sqlite3.connect(tmp_path / "state.db")) as db:
        assert db.execute(f"UPDATE turns SET state = '{state}', {damage}").rowcount == 1
        db.commit()
    async with quick(tmp_path, Between(), kind="plain", world=chat.world, script=hang) as chat:
        chat.world.write("hello")
        await chat.until_seen("You said: hello")
        await chat.until_idle()
        seen = chat.world.seen()
        assert sum(UNREADABLE in text for text in seen) == is_told and NOT_TAKEN not in seen
    with closing(sqlite3.connect(tmp_path / "state.db")) as db:
        assert db.execute("SELECT state FROM turns ORDER BY n").fetchall()[0] == ("failed",)


@pytest.mark.parametrize("unit", ["ClaimTurn.unit", "SessionActor._load"])
async def test_a_turn_whose_actor_always_breaks_is_given_up_and_its_person_told(
    tmp_path: Path, unit: str
) -> None:
    between = Between().before(unit, ERRORS[2], range(MOST_FAILURES))
    async with quick(tmp_path, between, kind="plain") as chat:
        chat.gateway.actors.warm.keep = lambda session, warm: None  # type: ignore[method-assign]
        turn = await chat.gateway.submit(words("bad"))
        seen = [one async for one in chat.gateway.watch(MAIN_AGENT, turn.id, live=False)]
        assert isinstance(seen[-1], Entry) and isinstance(seen[-1].record, Failed)
        chat.world.write("good")
        await chat.until_seen("⚠️ Something went wrong inside Hermes (RuntimeError)", "You said: good")
        await chat.until_idle()
        assert between.acted() and broke(chat, "session") == MOST_FAILURES
        assert len(chat.world.seen()) == 2


def words(text: str) -> Submission:
    """Somebody asks through a door, and is answered in the chat."""
    here = Address(platform="fake", chat="1")
    return Submission(
        agent=MAIN_AGENT,
        source=Source(address=here, kind=SourceKind.GROUP, user="u1"),
        input=TurnInput(text=text),
        place=SessionTarget(bind=True),
        reply=ReplyPlace(to=here),
    )


async def test_a_turn_is_not_given_up_while_the_store_cannot_be_reached(tmp_path: Path) -> None:
    between = Between().before("ClaimTurn.unit", ERRORS[0], range(2 * MOST_FAILURES))
    async with quick(tmp_path, between, kind="plain") as chat:
        chat.world.write("one")
        await chat.until_seen("You said: one")
        await chat.until_idle()
        assert chat.world.seen() == ["You said: one"] and between.acted()


@pytest.mark.parametrize(("fault", "seconds_back"), [(False, 0.0), (True, 0.0), (False, 60.0)])
async def test_a_possible_repeat_is_marked_whatever_happens_before_it_is_sent(
    tmp_path: Path, fault: bool, seconds_back: float
) -> None:
    """As after a kill between a send and its commit; then the first look breaks, or the clock is set back."""
    between, clock = Between(), QuickClock()
    async with quick(tmp_path, between, kind="forgetful", clock=clock) as chat:
        chat.world.write("hello")
        await chat.until_seen("You said: hello")
        await chat.until_idle()
    with closing(sqlite3.connect(tmp_path / "state.db")) as db:
        later = f"created_at = created_at + {seconds_back}"
        db.execute("DELETE FROM outbox WHERE draft = 1")
        db.execute(f"UPDATE outbox SET state = 'attempting', attempts = 1, receipt = NULL, {later}")
        db.commit()
    if fault:
        between.before("Lane._next", ERRORS[0])
    async with quick(tmp_path, between, kind="forgetful", clock=clock, world=chat.world) as chat:
        await chat.until(lambda: len(chat.world.seen()) == 2)
        assert between.acted() and REPEAT_MARK in chat.world.seen()[1]
