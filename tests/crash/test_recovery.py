"""What a new life makes of the old one: copies, parked questions, poison, clients that are gone."""

from __future__ import annotations

import asyncio
import random
import signal
from pathlib import Path

import pytest

from hermes.control.sessions.submission import Submission
from hermes.control.turn.claim import GIVEN_UP
from hermes.domain.chats.address import Address, Source, SourceKind
from hermes.domain.ids import MAIN_AGENT
from hermes.domain.ports.agent import ModelRequest
from hermes.domain.settings.settings import ApprovalSettings, DisplaySettings
from hermes.domain.turns.event import Entry, Finished, Stopped, TextDelta
from hermes.domain.turns.turn import CRASHES_ALONE, CRASHES_BESIDE, BusyMode, TurnInput
from hermes.testing.clock import FakeClock
from hermes.testing.harness import Journey, open_settings
from hermes.testing.history import check_history
from hermes.testing.model import Say, call, last_words, obedient
from hermes.testing.world import Deed, World
from tests.crash.lives import Lives

QUEUE = DisplaySettings(busy_input_mode=BusyMode.QUEUE)
TERMINAL = Source(address=Address(platform="terminal", chat="t"), kind=SourceKind.PRIVATE, user="local")


async def test_five_copies_of_each_message_across_three_restarts_are_one_turn_each(
    tmp_path: Path, full: bool
) -> None:
    count = 1000 if full else 100
    chance = random.Random("copies")
    world = World()
    copies = [number for number in range(count) for _ in range(4)]
    chance.shuffle(copies)
    settings = open_settings(display=QUEUE)
    for life in range(4):
        async with Journey(
            folder=tmp_path, world=world, script=obedient, kind="plain", settings=settings
        ) as chat:
            if life == 0:
                for number in range(count):
                    room = str(number % 50)
                    world.write(f"m{number + 1}", chat=room, user=f"u{room}")
            for number in copies[life * count : (life + 1) * count]:
                world.repeat(world.updates[number])
            if life < 3:
                await asyncio.sleep(chance.uniform(0.05, 0.3))
                await chat.abandon()
            else:
                await chat.until(lambda: len(world.did(Deed.ACKED)) >= 5 * count, patience=120.0)
                await chat.until_idle()
                rows = await chat.database.read(lambda tx: [tx.inbox.find(f"d{n + 1}") for n in range(count)])
                assert len({row.turn for found in rows for row in found}) == count
                assert all(len(found) == 1 for found in rows)
    assert check_history(world) == []


async def test_a_hundred_parked_questions_survive_a_kill(tmp_path: Path, full: bool) -> None:
    count = 100 if full else 20
    async with Lives(folder=tmp_path, kind="plain") as lives:
        for number in range(1, count + 1):
            lives.world.write(f"m{number} danger", chat=f"c{number}", user=f"u{number}")
        await lives.begin()
        await lives.until(lambda: sum("May I do" in text for text in lives.world.seen()) == count)
        await lives.kill()
        await lives.begin()
        for number in range(1, count + 1):
            word = "yes" if number % 3 else "no"
            lives.world.write(word, chat=f"c{number}", user=f"u{number}")
        await lives.until_answered(count)
        assert await lives.end() == 0
        done = sorted(entry.text for entry in lives.world.did(Deed.EFFECT))
        assert done == sorted(f"m{number}" for number in range(1, count + 1) if number % 3)
        assert check_history(lives.world) == []


async def test_nothing_is_held_in_memory_while_questions_wait(tmp_path: Path) -> None:
    async with Journey(folder=tmp_path, script=obedient, kind="plain") as chat:
        chat.world.write("m0", chat="c0", user="u0")
        await chat.until_seen("answer to m0:")
        await chat.until_idle()
        before = len(asyncio.all_tasks())
        for number in range(1, 31):
            chat.world.write(f"m{number} danger", chat=f"c{number}", user=f"u{number}")
        await chat.until(lambda: len(chat.world.seen()) == 31)
        await chat.until_idle()
        await chat.until(lambda: len(asyncio.all_tasks()) <= before)
        assert len(chat.gateway.feeds) == 0


async def test_a_question_that_expired_while_we_were_down_is_denied(tmp_path: Path) -> None:
    clock = FakeClock()
    world = World()
    settings = open_settings(approvals=ApprovalSettings(timeout=600.0))
    async with Journey(
        folder=tmp_path, world=world, script=obedient, kind="plain", clock=clock, settings=settings
    ) as chat:
        world.write("m1 danger")
        await chat.until_seen("May I do m1?")
        await chat.abandon()
    await clock.advance(3600)
    async with Journey(
        folder=tmp_path, world=world, script=obedient, kind="plain", clock=clock, settings=settings
    ) as chat:
        await chat.until_seen("answer to m1:")
        assert not world.did(Deed.EFFECT)
        world.write("/approve")
        await chat.until_seen("Nothing waits for a decision.")


async def test_a_message_that_kills_the_process_is_given_up_after_three_times(tmp_path: Path) -> None:
    async with Lives(folder=tmp_path, kind="plain") as lives:
        lives.world.write("m1 poison", chat="p", user="p")
        for _ in range(CRASHES_ALONE):
            await lives.begin(kill="poison:1")
            assert await lives.died() == -signal.SIGKILL
        await lives.begin(kill="poison:1")
        await lives.until(lambda: any(GIVEN_UP in text for text in lives.world.seen("p")))
        await lives.until_at_rest()
        assert await lives.end() == 0
        assert await lives.leftovers() == []


@pytest.mark.parametrize("place", [1, 11, 21])
async def test_a_message_that_kills_the_process_is_found_among_twenty(tmp_path: Path, place: int) -> None:
    async with Lives(folder=tmp_path, kind="plain") as lives:
        world = lives.world

        def given_up() -> list[str]:
            return [message.chat for message in world.messages.values() if GIVEN_UP in message.text]

        for number in range(1, 22):
            words = " poison" if number == place else ""
            world.write(f"m{number}{words}", chat=f"c{number}", user=f"u{number}")
        crashes = 0
        await lives.begin(kill="poison:1")
        while not given_up():
            await lives.until(lambda: bool(given_up()) or lives.is_dead)
            if lives.is_dead:
                assert await lives.died() == -signal.SIGKILL
                crashes += 1
                await lives.begin(kill="poison:1")
        await lives.until_answered(21)
        assert await lives.end() == 0
        assert given_up() == [f"c{place}"]
        assert CRASHES_ALONE <= crashes <= CRASHES_BESIDE + CRASHES_ALONE
        assert check_history(world) == []


async def test_turns_that_are_cut_off_together_three_times_are_all_answered(tmp_path: Path) -> None:
    world = World()
    for number in range(1, 6):
        world.write(f"m{number}", chat=f"c{number}", user=f"u{number}")
    for life in range(3):
        silent = [Say(text="", hold=asyncio.Event()) for _ in range(5)]
        async with Journey(folder=tmp_path, world=world, script=silent, kind="plain") as chat:
            # From the third life on each is tried alone, so that only one of them can be under way.
            under_way = 5 if life < CRASHES_BESIDE else 1
            await chat.until(lambda count=under_way: len(chat.model.requests) == count)  # type: ignore[misc]
            await chat.abandon()
    async with Journey(folder=tmp_path, world=world, script=obedient, kind="plain") as chat:
        await chat.until_seen(*[f"answer to m{number}:" for number in range(1, 6)])
        await chat.until_idle()
    assert check_history(world) == []
    assert not any(GIVEN_UP in text for text in world.seen())


async def test_others_wait_a_moment_for_a_suspect_and_then_go_on(tmp_path: Path) -> None:
    """A suspect whose model is silent holds up nobody for long, and is not given up for being slow."""
    world = World()
    world.write("m1", chat="slow", user="slow")
    async with Journey(
        folder=tmp_path, world=world, script=[Say(text="", hold=asyncio.Event())], kind="plain"
    ) as chat:
        await chat.until(lambda: len(chat.model.requests) == 1)
        await chat.abandon()
    hold = asyncio.Event()

    def script(request: ModelRequest) -> Say:
        return Say(text="", hold=hold) if "m1" in last_words(request) else obedient(request)

    async with Journey(folder=tmp_path, world=world, script=script, kind="plain") as chat:
        await chat.until(lambda: len(chat.model.requests) == 1)
        world.write("m2", chat="other", user="other")
        await chat.until_seen("answer to m2:")
        await chat.abandon()
    async with Journey(folder=tmp_path, world=world, script=obedient, kind="plain") as chat:
        await chat.until_seen("answer to m1:")
        await chat.until_idle()
    assert check_history(world) == []


async def test_a_turn_that_made_progress_is_not_blamed_for_crashes(tmp_path: Path) -> None:
    """Five crashes, each after a new record: the turn is still answered."""
    world = World()
    world.write("m1 read keyed read keyed read keyed")
    for life in range(1, 6):
        async with Journey(folder=tmp_path, world=world, script=obedient, kind="plain") as chat:
            await chat.until(lambda life=life: len(world.did(Deed.EFFECT)) >= life)  # type: ignore[misc]
            await chat.abandon()
    async with Journey(folder=tmp_path, world=world, script=obedient, kind="plain") as chat:
        await chat.until_seen("answer to m1:")


async def test_a_request_that_lived_with_its_client_is_settled_not_run_again(tmp_path: Path) -> None:
    hold = asyncio.Event()
    async with Journey(folder=tmp_path, script=[Say(text="slow", hold=hold)]) as chat:
        words = Submission(agent=MAIN_AGENT, source=TERMINAL, input=TurnInput(text="hi"), ephemeral=True)
        turn = await chat.gateway.submit(words)
        await chat.until(lambda: len(chat.model.requests) == 1)
        await chat.abandon()
    async with Journey(folder=tmp_path, script=[]) as chat:
        await chat.until_idle()
        seen = [item async for item in chat.gateway.watch(MAIN_AGENT, turn.id)]
        last = seen[-1]
        assert isinstance(last, Entry) and last.record == Stopped(reason="client gone")
        assert not chat.model.requests


async def test_a_watcher_sees_a_turn_across_a_crash(tmp_path: Path) -> None:
    hold = asyncio.Event()
    async with Journey(folder=tmp_path, script=[call("read"), Say(text="half", hold=hold)]) as chat:
        turn = await chat.gateway.submit(
            Submission(agent=MAIN_AGENT, source=TERMINAL, input=TurnInput(text="hi"))
        )
        first: list[object] = []
        async for item in chat.gateway.watch(MAIN_AGENT, turn.id):
            first.append(item)
            if isinstance(item, TextDelta):
                break
        await chat.abandon()
    after = max(item.seq for item in first if isinstance(item, Entry))
    # The words of a turn that has ended are in its records: it goes on until somebody watches.
    hold = asyncio.Event()
    async with Journey(folder=tmp_path, script=[Say(text="half and whole", pieces=3, hold=hold)]) as chat:
        rest: list[object] = []
        async for item in chat.gateway.watch(MAIN_AGENT, turn.id, after):
            rest.append(item)
            if isinstance(item, TextDelta):
                hold.set()
        numbers = [item.seq for item in rest if isinstance(item, Entry)]
        assert numbers == list(range(after + 1, after + 1 + len(numbers)))
        assert isinstance(rest[-1], Entry) and isinstance(rest[-1].record, Finished)
        words = "".join(item.text for item in rest if isinstance(item, TextDelta))
        assert words == "half and whole"


@pytest.mark.parametrize("kind", ["edits", "plain"])
async def test_messages_sent_while_we_were_down_are_answered(tmp_path: Path, kind: str) -> None:
    world = World()
    for number in range(1, 21):
        world.write(f"m{number}", chat=str(number), user=f"u{number}")
    async with Journey(folder=tmp_path, world=world, script=obedient, kind=kind) as chat:
        await chat.until_seen(*[f"answer to m{number}:" for number in range(1, 21)])
        await chat.until_idle()
    assert check_history(world) == []
