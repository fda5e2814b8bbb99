"""Two things at once in one process: a stop, a ring or an end between two writes, and what the same session
does one step later."""

from __future__ import annotations

import asyncio
import logging
import time
from pathlib import Path

import pytest

from hermes.control.outbound.answers import REPEAT_MARK
from hermes.control.sessions.submission import SessionTarget, Submission
from hermes.domain.chats.address import Address, Source, SourceKind
from hermes.domain.chats.message import Body
from hermes.domain.errors import Unreachable
from hermes.domain.ids import MAIN_AGENT, TurnId
from hermes.domain.ports.agent import ModelRequest
from hermes.domain.settings.settings import ApprovalSettings, DisplaySettings, StreamingSettings
from hermes.domain.turns.event import Entry, FeedItem, Reset, TextDelta
from hermes.domain.turns.session import Session
from hermes.domain.turns.turn import BusyMode, TurnInput
from hermes.domain.word import replace
from hermes.testing.clock import FakeClock, settle
from hermes.testing.harness import PATIENCE, Journey, open_settings
from hermes.testing.model import Say, last_words, say
from hermes.testing.platform import EDITS, EditingFake
from hermes.testing.world import Deed, World
from tests.journeys.between import Between

PNG = b"\x89PNG\r\n\x1a\n" + bytes(64)
FINAL = "SessionActor._record"


async def session_of(chat: Journey) -> Session:
    return (await chat.database.read(lambda tx: tx.sessions.find("")))[0]


async def test_an_interruption_works_in_the_turn_after_one_with_a_file(tmp_path: Path) -> None:
    hold = asyncio.Event()

    def script(request: ModelRequest) -> Say:
        words = last_words(request)
        return Say(text=f"answer to {words}", hold=hold if words == "long" else None)

    world = World(holding=asyncio.Event())
    async with Journey(folder=tmp_path, world=world, script=script) as chat:
        world.write("look", uploads=(world.photo(PNG),))
        await chat.until(lambda: bool(world.did(Deed.FETCHED)))
        world.write("/queue long")  # one actor takes both
        await chat.until_taken()
        assert world.holding is not None
        world.holding.set()
        await chat.until(lambda: any(last_words(one) == "long" for one in chat.model.requests))
        world.write("no, this")
        await chat.until_seen("answer to no, this")
        await chat.until_idle()
        assert "⏹ (stopped here)" in "\n".join(world.seen())


async def test_a_deletion_in_a_session_that_nobody_holds_forgets_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "hermes.session")
    async with Journey(folder=tmp_path) as chat:
        chat.world.write("my name is Ann")
        await chat.until_seen("You said: my name is Ann")
        await chat.until_idle()
        chat.gateway.actors.warm.take((await session_of(chat)).id)
        chat.gateway.detach("fake")
        photo = chat.world.write("look", uploads=(chat.world.photo(PNG),))
        await chat.until_taken()
        await chat.until(lambda: not chat.gateway.actors.workers.active)
        chat.gateway.actors.warm.take((await session_of(chat)).id)
        chat.world.write("", deletes=photo.delivery)
        await chat.until_taken()
        chat.gateway.attach("fake", chat.platform)
        chat.world.write("who am I?")
        await chat.until_seen("You said: who am I?")
        said = [getattr(one.record, "text", "") for one in chat.model.requests[-1].entries]
        assert said[0] == "my name is Ann" and "look" not in said
        assert "session.lost" not in caplog.text


async def test_a_confirmed_new_session_bears_its_title(tmp_path: Path) -> None:
    settings = open_settings(approvals=ApprovalSettings(destructive_slash_confirm=True))
    async with Journey(folder=tmp_path, settings=settings) as chat:
        chat.world.write("hello")
        await chat.until_seen("You said: hello")
        await chat.until_idle()
        before = await session_of(chat)
        chat.world.write("/new The garden")
        await chat.until_seen("Shall I begin a new session?")
        chat.world.write("yes")
        await chat.until_seen("New session “The garden”")
        chat.world.write("roses")
        await chat.until_seen("You said: roses")
        after = await session_of(chat)
        assert after.id != before.id and after.title == "The garden"
        assert (await chat.database.read(lambda tx: tx.sessions.get(before.id))) is not None


async def test_a_stop_in_the_collecting_window_is_heard_at_once(tmp_path: Path) -> None:
    clock = FakeClock()
    async with Journey(folder=tmp_path, clock=clock) as chat:
        chat.world.write("x" * 4090)  # cut at the platform's limit: more may come
        await chat.until_taken()
        assert not chat.model.requests
        chat.world.write("/stop")
        await chat.until_seen("Stopped.")
        await chat.until_idle()
        end = time.monotonic() + PATIENCE
        while chat.gateway.actors.workers.active:  # the clock stands still: the window alone would never end
            assert time.monotonic() < end
            await asyncio.sleep(0.005)
        assert not chat.model.requests


async def test_an_interruption_during_the_last_commit_is_void(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "hermes.session")
    between = Between()

    async def interrupt() -> None:
        chat.world.write("second")
        await asyncio.wait_for(looked.wait(), PATIENCE)
        await settle()

    looked = asyncio.Event()
    between.before(FINAL, interrupt).after("SessionActor._look", looked.set)
    async with Journey(folder=tmp_path, kind="plain", wrap_store=between.wrap) as chat:
        chat.world.write("first")
        await chat.until_seen("You said: second")
        await chat.until_idle()
        assert chat.world.seen() == ["You said: first", "You said: second"] and between.acted()
        assert "session.lost" not in caplog.text


async def watched(chat: Journey, turn: TurnId) -> list[FeedItem]:
    return [one async for one in chat.gateway.watch(MAIN_AGENT, turn)]


async def test_whoever_watches_a_turn_that_begins_again_is_told_first(tmp_path: Path) -> None:
    hold = asyncio.Event()
    source = Source(address=Address(platform="local", chat="tty"), kind=SourceKind.PRIVATE)
    words = Submission(
        agent=MAIN_AGENT,
        source=source,
        input=TurnInput(text="hi"),
        place=SessionTarget(begin=True, bind=True),
    )
    async with Journey(folder=tmp_path, script=[Say(text="one two", pieces=2, hold=hold)]) as chat:
        turn = await chat.gateway.submit(words)
        watching = asyncio.create_task(watched(chat, turn.id))
        first: list[FeedItem] = []
        async for one in chat.gateway.watch(MAIN_AGENT, turn.id):
            first.append(one)
            if "".join(seen.text for seen in first if isinstance(seen, TextDelta)) == "one two":
                break
        assert not any(isinstance(one, Reset) for one in first)
        await chat.abandon()
        await asyncio.gather(watching, return_exceptions=True)
    begin = asyncio.Event()
    async with Journey(folder=tmp_path, script=[Say(text="one two", halt=begin)]) as chat:
        watching = asyncio.create_task(watched(chat, turn.id))
        await chat.until(lambda: len(chat.model.requests) == 1)
        await settle()
        begin.set()
        live = [one for one in await asyncio.wait_for(watching, PATIENCE) if not isinstance(one, Entry)]
        assert live == [Reset(), TextDelta(text="one two")]


async def test_a_session_knows_when_it_was_used_last(tmp_path: Path) -> None:
    clock = FakeClock()
    async with Journey(folder=tmp_path, clock=clock) as chat:
        chat.world.write("one")
        await chat.until_seen("You said: one")
        await chat.until_idle()
        assert (await session_of(chat)).updated_at == clock.now()
        await clock.advance(500)
        chat.world.write("two")
        await chat.until_seen("You said: two")
        assert (await session_of(chat)).updated_at == clock.now()


async def test_a_gateway_that_stops_takes_no_more_rows(tmp_path: Path) -> None:
    go_on = asyncio.Event()
    between = Between().before("TakeInbound.unit", go_on.wait)
    async with Journey(folder=tmp_path, wrap_store=between.wrap) as chat:
        chat.world.write("hello")
        await chat.until(lambda: any("TakeInbound.unit" in name for name in between.names))
        await chat.disconnect()
        await chat.gateway.stop(grace=1.0)
        assert not [task for task in asyncio.all_tasks() if task.get_name().startswith("intake")]
        names = len(between.names)
        go_on.set()
        await settle()
        assert len(between.names) == names
        [row] = await chat.database.read(lambda tx: tx.inbox.find("d1"))
        assert row.outcome is None
    async with Journey(folder=tmp_path, world=chat.world) as chat:
        await chat.until_seen("You said: hello")


# --- drafts whose edit or preview is in doubt ---

LOST = Unreachable("no answer", maybe_done=True)


class Previewing(EditingFake):
    """Shows where the words have come to beside the chat; the first time nobody knows whether it did."""

    def __init__(self, world: World) -> None:
        super().__init__(world, replace(EDITS, preview_seconds=20.0))
        self.previews: list[str] = []

    async def preview(self, to: Address, ident: int, body: Body) -> None:
        self.previews.append(body.text)
        if len(self.previews) == 1:
            raise LOST


async def test_a_draft_whose_edit_is_in_doubt_is_left_alone(tmp_path: Path) -> None:
    failed = 0

    def trouble(what: str, chat: str) -> Unreachable | None:
        nonlocal failed
        failed += what == "edit"
        return LOST if what == "edit" and failed == 1 else None

    async def beat() -> None:
        if not world.messages or failed < 1:
            await asyncio.sleep(0.01)

    world = World(trouble=trouble)
    streaming = StreamingSettings(edit_interval=0.0, buffer_threshold=1)
    settings = open_settings(streaming=streaming, display=DisplaySettings(busy_input_mode=BusyMode.QUEUE))
    text = "one two three four five six seven eight nine ten"
    script = [Say(text=text, pieces=10, beat=beat), say("fine")]
    async with Journey(folder=tmp_path, world=world, script=script, settings=settings) as chat:
        world.write("talk")
        await chat.until(lambda: text in world.seen())
        await chat.until_idle()
        assert failed == 2, "after the one in doubt only the answer is edited in"
        assert not any(REPEAT_MARK in one for one in world.seen())
        world.write("more")
        await chat.until_seen("fine")


async def test_a_preview_in_doubt_is_shown_again(tmp_path: Path) -> None:
    world, hold = World(), asyncio.Event()
    platform = Previewing(world)
    streaming = StreamingSettings(edit_interval=0.0, buffer_threshold=1, transport="draft")

    async def beat() -> None:
        await chat.until(lambda: bool(platform.previews))

    script = [Say(text="one two three four", pieces=4, beat=beat, hold=hold)]
    settings = open_settings(streaming=streaming)
    async with Journey(
        folder=tmp_path, world=world, script=script, settings=settings, connect_platform=lambda: platform
    ) as chat:
        world.write("talk")
        await chat.until(lambda: len(platform.previews) > 1)
        hold.set()
        await chat.until_seen("one two three four")
