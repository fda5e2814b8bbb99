"""Sessions that are over by themselves: the next message begins another, and says so."""

from __future__ import annotations

from pathlib import Path

import pytest

from hermes.domain.chats.address import Address, Source, SourceKind
from hermes.domain.ids import AgentId
from hermes.domain.ports.store import Tx
from hermes.domain.ports.world import ProcessView
from hermes.domain.settings.settings import ResetMode, ResetSettings, Settings
from hermes.domain.turns.event import UserSaid
from hermes.domain.turns.session import begin_session, session_key
from hermes.domain.word import replace
from hermes.testing.clock import FakeClock
from hermes.testing.harness import Journey, open_settings
from hermes.testing.model import call, say

HOUR = 3600.0


def settings(**changes: object) -> Settings:
    policy = ResetSettings(mode=ResetMode.IDLE, idle_minutes=60, **changes)  # type: ignore[arg-type]
    return open_settings(session_reset=policy)


def said(chat: Journey) -> list[str]:
    entries = chat.model.requests[-1].entries
    return [entry.record.text for entry in entries if isinstance(entry.record, UserSaid)]


async def talk(chat: Journey, text: str) -> None:
    chat.world.write(text)
    await chat.until_seen(f"You said: {text}")
    await chat.until_idle()


async def test_after_a_pause_a_new_session_begins_with_a_notice(tmp_path: Path) -> None:
    clock = FakeClock()
    async with Journey(folder=tmp_path, clock=clock, settings=settings()) as chat:
        await talk(chat, "one")
        clock.jump(0.9 * HOUR)
        await talk(chat, "two")
        assert said(chat) == ["one", "two"]
        clock.jump(1.1 * HOUR)
        await talk(chat, "three")
        assert said(chat) == ["three"]
        assert "A new conversation began" in chat.model.requests[-1].system
        notice = next(text for text in chat.world.seen() if "silent for more than 1 hour" in text)
        await talk(chat, "four")
        assert "A new conversation began" not in chat.model.requests[-1].system
        back = notice.split("/resume ")[1].split()[0]
        chat.world.write(f"/resume {back}")
        await chat.until_seen("Back in")
        await talk(chat, "five")
        assert said(chat) == ["one", "two", "five"]


async def test_nobody_is_told_if_it_is_not_wanted(tmp_path: Path) -> None:
    clock = FakeClock()
    quiet = settings(notify_exclude_platforms=("fake",))
    async with Journey(folder=tmp_path, clock=clock, settings=quiet) as chat:
        await talk(chat, "one")
        clock.jump(2 * HOUR)
        await talk(chat, "two")
        assert said(chat) == ["two"]
        assert chat.world.seen() == ["You said: one", "You said: two"]


async def test_a_session_that_waits_for_an_answer_goes_on(tmp_path: Path) -> None:
    clock = FakeClock()
    script = [call("danger", '{"token": "x"}'), say("done")]
    async with Journey(folder=tmp_path, clock=clock, settings=settings(), script=script) as chat:
        chat.world.write("do it")
        await chat.until_seen("May I do x?")
        clock.jump(0.99 * HOUR)
        chat.world.write("yes")
        await chat.until_seen("done")


async def test_a_command_does_not_reset(tmp_path: Path) -> None:
    clock = FakeClock()
    async with Journey(folder=tmp_path, clock=clock, settings=settings()) as chat:
        await talk(chat, "one")
        clock.jump(2 * HOUR)
        chat.world.write("/title Kept")
        await chat.until_seen("Kept")
        sessions = await chat.database.read(lambda tx: tx.sessions.find(""))
        assert len(sessions) == 1


async def test_a_session_with_a_background_process_goes_on(tmp_path: Path) -> None:
    clock = FakeClock()
    view = ProcessView(id="p1", command="serve", cwd="/", seconds=100.0, running=True)
    running = [view]

    async def processes(session: str) -> list[ProcessView]:
        return running

    chat = Journey(folder=tmp_path, clock=clock, settings=settings(), processes=processes)
    async with chat:
        await talk(chat, "one")
        clock.jump(2 * HOUR)
        await talk(chat, "two")
        assert said(chat) == ["one", "two"]
        running[0] = ProcessView(id="p1", command="serve", cwd="/", seconds=25 * HOUR, running=True)
        clock.jump(2 * HOUR)
        await talk(chat, "three")
        assert said(chat) == ["three"]


async def test_what_the_session_chose_ends_with_it(tmp_path: Path) -> None:
    clock = FakeClock()
    async with Journey(folder=tmp_path, clock=clock, settings=settings()) as chat:
        chat.world.write("/yolo")
        await chat.until_seen("Nothing is asked")
        await talk(chat, "one")
        clock.jump(2 * HOUR)
        await talk(chat, "two")
        sessions = await chat.database.read(lambda tx: tx.sessions.find(""))
        assert [(one.ended, one.yolo) for one in sessions] == [(None, False), ("idle", True)]


async def test_the_job_ends_what_is_over_and_the_next_message_begins_another(tmp_path: Path) -> None:
    clock = FakeClock()
    async with Journey(folder=tmp_path, clock=clock, settings=settings()) as chat:
        await talk(chat, "one")
        assert await chat.gateway.sessions_expiry.sweep() == 0
        clock.jump(2 * HOUR)
        assert await chat.gateway.sessions_expiry.sweep() == 1
        assert await chat.gateway.sessions_expiry.sweep() == 0
        await talk(chat, "two")
        assert said(chat) == ["two"]
        await chat.until_seen("A new session began because the last one was silent")


async def test_sessions_that_no_policy_ends_do_not_hide_others(tmp_path: Path) -> None:
    clock = FakeClock()
    never = ResetSettings(mode=ResetMode.NONE)
    kept = replace(settings(), reset_by_platform={"kept": never})
    async with Journey(folder=tmp_path, clock=clock, settings=kept) as chat:
        await talk(chat, "one")

        def fill(tx: Tx) -> None:
            for number in range(1100):
                source = Source(address=Address(platform="kept", chat=str(number)), kind=SourceKind.PRIVATE)
                begun = begin_session(session_key(source, AgentId("main")), source, clock.now())
                tx.sessions.add(begun)
                tx.bindings.bind(session_key(source, AgentId("main")), begun.id, source, clock.now())

        clock.jump(60)
        await chat.database.write(fill)
        clock.jump(60)
        chat.world.write("two", chat="2", user="u2")
        await chat.until_seen("You said: two")
        await chat.until_idle()
        clock.jump(2 * HOUR)
        assert await chat.gateway.sessions_expiry.sweep() == 2


@pytest.mark.parametrize(
    ("running", "hours", "ended"), [(True, 1, 0), (True, 25, 1), (False, 1, 1), (False, 25, 1)]
)
async def test_the_job_spares_a_session_with_a_background_process(
    tmp_path: Path, running: bool, hours: int, ended: int
) -> None:
    clock = FakeClock()
    view = ProcessView(id="p1", command="serve", cwd="/", seconds=hours * HOUR, running=running)

    async def processes(session: str) -> list[ProcessView]:
        return [view]

    async with Journey(folder=tmp_path, clock=clock, settings=settings(), processes=processes) as chat:
        await talk(chat, "one")
        clock.jump(2 * HOUR)
        assert await chat.gateway.sessions_expiry.sweep() == ended
