"""Hand-off: a conversation of the terminal goes on in a chat, and comes back."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from hermes.agent.context.transcript_messages import Role, messages
from hermes.control.handoff.requests import MOST_ATTEMPTS, cancel_handoff, retry_handoff
from hermes.domain.chats.address import Address
from hermes.domain.chats.command_line import CallerReply
from hermes.domain.chats.handoff import Handoff, HandoffState
from hermes.domain.errors import HermesError, Refused, Unreachable, UserError
from hermes.domain.ids import AgentId, SessionId
from hermes.domain.settings.platforms import PlatformSettings
from hermes.domain.settings.settings import Route, RouteMatch
from hermes.domain.turns.event import UserSaid
from hermes.domain.turns.turn import Turn
from hermes.domain.word import replace
from hermes.entry.terminal.door import TerminalState
from hermes.entry.terminal.served_door import ServedDoor, local_caller
from hermes.testing.clock import FakeClock, settle
from hermes.testing.harness import PATIENCE, Journey, open_settings
from hermes.testing.model import call
from hermes.testing.world import Deed, World

MAIN = AgentId("main")


def owned(**more: object) -> PlatformSettings:
    """Everybody may speak, and Ann may choose the home channel."""
    return PlatformSettings(allow_all_users=True, allowed_users=("ann",), **more)  # type: ignore[arg-type]


def journey(folder: Path, **more: Any) -> Journey:
    more.setdefault("settings", open_settings(platforms={"fake": owned()}))
    return Journey(folder=folder, **more)


class Terminal:
    """Somebody at the machine."""

    def __init__(self, journey: Journey, session: SessionId | None = None) -> None:
        self._journey = journey
        self.door = ServedDoor(journey.gateway, local_caller(), TerminalState(session=session))
        self._said = 0

    async def say(self, text: str) -> Turn:
        self._said += 1
        turn = await self.door.say(text, f"k{self._said}")
        async for _ in self.door.watch(turn.id, 0):
            pass
        return turn

    async def command(self, text: str) -> CallerReply:
        return await self.door.command(text)


async def rows(chat: Journey) -> Sequence[Handoff]:
    return await chat.database.read(lambda tx: tx.handoffs.latest(None, 9))


async def settled(chat: Journey) -> Handoff:
    [row] = await rows(chat)
    known = await chat.gateway.handoffs.settled(MAIN, row.id, PATIENCE)
    assert known is not None and known.state is HandoffState.COMPLETED, known
    return known


async def spoken(chat: Journey, session: SessionId) -> list[str]:
    entries = await chat.database.read(lambda tx: tx.journal.read(session))
    return [entry.record.text for entry in entries if isinstance(entry.record, UserSaid)]


async def set_home(chat: Journey, kind: str = "private", **more: object) -> None:
    chat.world.write("/sethome", chat="9", user="ann", kind=kind, **more)
    await chat.until_seen("now the home channel", chat="9")


async def test_a_conversation_goes_to_a_thread_and_comes_back(tmp_path: Path) -> None:
    world = World()
    async with journey(tmp_path, world=world) as chat:
        await set_home(chat, kind="channel")
        terminal = Terminal(chat)
        turn = await terminal.say("plan the garden")
        replied = await terminal.command("/handoff fake")
        assert "goes on in fake:9:t1" in replied.text and f"hermes --resume {turn.session}" in replied.text
        assert replied.over
        assert [(one.chat, one.text) for one in world.did(Deed.OPENED)] == [("9", "plan the garden")]
        await chat.until(lambda: any("handed over" in one for one in world.seen("9", "t1")))

        world.write("and the roses?", chat="9", thread="t1", kind="thread", user="ben")
        await chat.until_seen("and the roses?", chat="9")
        await chat.until_idle()
        said = await spoken(chat, turn.session)
        assert (said[0], said[-1]) == ("plan the garden", "and the roses?")

        elsewhere = await terminal.say("something else")
        assert elsewhere.session == replied.session != turn.session
        back = await terminal.command(f"/resume {turn.session}")
        assert "Back in “plan the garden”" in back.text and not back.over
        assert (await terminal.say("here again")).session == turn.session
        assert (await spoken(chat, turn.session))[-1] == "here again"


async def test_people_have_names_where_the_conversation_went(tmp_path: Path) -> None:
    """It was begun by one person at the terminal; in a thread several speak, and the model is told who."""
    world = World()
    async with journey(tmp_path, world=world) as chat:
        await set_home(chat, kind="channel")
        terminal = Terminal(chat)
        await terminal.say("plan the garden")
        await terminal.command("/handoff fake")
        await chat.until(lambda: any("handed over" in one for one in world.seen("9", "t1")))
        for name in ("Ann", "Bob"):
            world.write(f"{name} was here", chat="9", thread="t1", kind="thread", user=name, name=name)
            await chat.until_seen(f"{name} was here", chat="9")
        await chat.until_idle()
        request = chat.model.requests[-1]
        told = [one.text for one in messages(request.entries, shared=request.shared) if one.role is Role.USER]
        assert any("[Ann] Ann was here" in one for one in told)
        assert "[Bob] Bob was here" in told[-1]
        assert "plan the garden" in told[0] and not told[0].startswith("[")


async def test_a_thread_is_shared_even_where_people_have_their_own(tmp_path: Path) -> None:
    settings = open_settings(platforms={"fake": owned()}, thread_sessions_per_user=True)
    async with journey(tmp_path, settings=settings) as chat:
        await set_home(chat, kind="channel")
        terminal = Terminal(chat)
        turn = await terminal.say("plan the garden")
        assert (await terminal.command("/handoff fake")).over
        await chat.until(lambda: any("handed over" in one for one in chat.world.seen("9", "t1")))
        for user in ("ann", "ben"):
            chat.world.write(f"{user} is here", chat="9", thread="t1", kind="thread", user=user)
            await chat.until_seen(f"{user} is here", chat="9")
        await chat.until_idle()
        assert (await spoken(chat, turn.session))[-2:] == ["ann is here", "ben is here"]


@pytest.mark.parametrize("account", ["fake", "fake@work"])
async def test_without_threads_it_goes_to_the_home_channel(tmp_path: Path, account: str) -> None:
    settings = open_settings(platforms={account: owned()})
    async with journey(tmp_path, kind="plain", account=account, settings=settings) as chat:
        await set_home(chat)
        terminal = Terminal(chat)
        turn = await terminal.say("plan the garden")
        assert f"goes on in {account}:9." in (await terminal.command(f"/handoff {account}")).text
        await chat.until_seen("A conversation comes over from the terminal. /resume", "handed over", chat="9")
        chat.world.write("go on", chat="9", user="ann")
        await chat.until_seen("go on", chat="9")
        await chat.until_idle()
        assert (await spoken(chat, turn.session))[-1] == "go on"


async def test_a_chat_that_is_no_forum_is_used_as_it_is(tmp_path: Path) -> None:
    world = World(trouble=lambda what, chat: Refused("the chat is not a forum") if what == "open" else None)
    async with journey(tmp_path, world=world) as chat:
        await set_home(chat)
        terminal = Terminal(chat)
        await terminal.say("plan the garden")
        assert "goes on in fake:9." in (await terminal.command("/handoff fake")).text


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("/handoff", "Say where to. There is: fake."),
        ("/handoff moon", "There is no platform “moon” here. There is: fake."),
        ("/handoff fake", "fake has no home channel to hand this conversation to. Write /sethome"),
    ],
)
async def test_what_is_wrong_is_said_and_changes_nothing(tmp_path: Path, line: str, told: str) -> None:
    async with journey(tmp_path) as chat:
        terminal = Terminal(chat)
        turn = await terminal.say("plan the garden")
        replied = await terminal.command(line)
        assert told in replied.text and replied.session == turn.session
        assert await rows(chat) == []


async def test_nothing_to_hand_over_and_not_from_a_chat(tmp_path: Path) -> None:
    async with journey(tmp_path) as chat:
        await set_home(chat)
        assert "There is nothing to hand over yet." in (await Terminal(chat).command("/handoff fake")).text
        chat.world.write("/handoff fake", chat="9", user="ann")
        await chat.until_seen("/handoff works in the terminal alone.", chat="9")
        chat.world.write("/help", chat="9", user="ann")
        await chat.until_seen("/sethome", chat="9")
        assert not any("/handoff [platform]" in seen for seen in chat.world.seen("9"))


async def test_not_while_a_turn_runs(tmp_path: Path) -> None:
    async with journey(tmp_path, script=[call("clarify", '{"question": "Which one?"}')]) as chat:
        await set_home(chat)
        door = Terminal(chat).door
        await door.say("ask me", "k1")
        await settle()
        assert "/handoff does not work while a turn runs." in (await door.command("/handoff fake")).text
        assert await rows(chat) == []


async def test_in_a_group_everybody_goes_on_with_it_and_can_go_back(tmp_path: Path) -> None:
    """People have sessions of their own there: who had one can go back to it, and who begins one leaves."""
    async with journey(tmp_path, kind="plain") as chat:
        await set_home(chat, kind="group", mentions_us=True)

        async def say(user: str, text: str) -> None:
            chat.world.write(text, chat="9", kind="group", user=user, name=user, mentions_us=True)
            await chat.until_idle()

        await say("ann", "my own business")
        terminal = Terminal(chat)
        turn = await terminal.say("plan the garden")
        replied = await terminal.command("/handoff fake")
        assert replied.over and "goes on in fake:9." in replied.text
        await chat.until_seen("A conversation comes over from the terminal. /resume", "handed over", chat="9")
        await say("ann", "and the roses?")
        await say("cid", "and the tulips?")
        assert (await spoken(chat, turn.session))[-2:] == ["and the roses?", "and the tulips?"]
        request = chat.model.requests[-1]
        told = [one.text for one in messages(request.entries, shared=request.shared) if one.role is Role.USER]
        assert "[cid] and the tulips?" in told[-1]
        await say("cid", "/new")
        await say("cid", "something of mine")
        await say("ann", "still the roses")
        assert (await spoken(chat, turn.session))[-1] == "still the roses"


async def test_a_group_whose_people_had_one_session_does_not_share_it_again(tmp_path: Path) -> None:
    """Only what was handed over is for everybody: the setting is not undone by what was bound before it."""
    shared = open_settings(platforms={"fake": owned()}, group_sessions_per_user=False)
    world = World()
    async with journey(tmp_path, settings=shared, world=world) as chat:
        chat.world.write("for all", chat="9", kind="group", user="ann", mentions_us=True)
        await chat.until_idle()
    async with journey(tmp_path, world=world) as chat:
        chat.world.write("for me", chat="9", kind="group", user="ben", mentions_us=True)
        await chat.until_idle()
        sessions = await chat.database.read(lambda tx: tx.sessions.find("", 9))
        assert sorted([len(await spoken(chat, one.id)) for one in sessions]) == [1, 1]


@pytest.mark.parametrize("kind", ["private", "group", "channel"])
async def test_a_channel_from_the_settings_that_nobody_wrote_in_yet(tmp_path: Path, kind: str) -> None:
    settings = open_settings(platforms={"fake": owned(home_channel="9")})
    async with journey(tmp_path, kind="plain", settings=settings) as chat:
        terminal = Terminal(chat)
        turn = await terminal.say("plan the garden")
        replied = await terminal.command("/handoff fake")
        assert replied.over and "goes on in fake:9." in replied.text
        await chat.until_seen("handed over", chat="9")
        chat.world.write("go on", chat="9", kind=kind, user="ann", mentions_us=True)
        await chat.until_idle()
        assert (await spoken(chat, turn.session))[-1] == "go on"


async def test_a_chat_of_another_agent_is_refused(tmp_path: Path) -> None:
    route = Route(match=RouteMatch(platform="fake"), agent=AgentId("other"))
    settings = open_settings(platforms={"fake": owned(home_channel="9")}, routes=(route,))
    async with journey(tmp_path, settings=settings, agents=("main", "other")) as chat:
        terminal = Terminal(chat)
        await terminal.say("plan the garden")
        replied = await terminal.command("/handoff fake")
        assert "belongs to the agent “other”" in replied.text and not replied.over
        assert not chat.world.did(Deed.OPENED)


async def test_a_platform_that_does_not_come_back_keeps_nobody_waiting(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hermes.control.handoff.requests.HANDOFF_SECONDS", 0.0)
    async with journey(tmp_path) as chat:
        await set_home(chat)
        terminal = Terminal(chat)
        turn = await terminal.say("plan the garden")
        await chat.disconnect()
        replied = await terminal.command("/handoff fake")
        assert "not handed over to fake: fake took too long. It stays here." in replied.text
        assert not replied.over and replied.session == turn.session
        chat.connect()
        await settle()
        [row] = await rows(chat)
        assert row.state is HandoffState.FAILED and not chat.world.did(Deed.OPENED)
        assert (await terminal.say("still here")).session == turn.session
        monkeypatch.undo()
        assert (await terminal.command("/handoff fake")).over


@pytest.mark.parametrize("where", ["away", "opening"])
async def test_who_stops_waiting_finds_the_conversation_where_it_was(tmp_path: Path, where: str) -> None:
    """Ctrl-C or a closed window; the platform is back, or its thread open, when the minute is over."""
    world, clock = World(), FakeClock()
    opening, go_on = asyncio.Event(), asyncio.Event()

    async def open_late(*_: object) -> Address:
        opening.set()
        await go_on.wait()
        return Address(platform="fake", chat="9", thread="t1")

    async with journey(tmp_path, world=world, clock=clock) as chat:
        await set_home(chat, kind="channel")
        terminal = Terminal(chat)
        turn = await terminal.say("plan the garden")
        if where == "away":
            await chat.disconnect()
        else:
            chat.platform.open_thread = open_late  # type: ignore[method-assign]
        asking = asyncio.create_task(terminal.command("/handoff fake"))
        while not await rows(chat) or (where == "opening" and not opening.is_set()):
            await settle()
        asking.cancel()
        await asyncio.wait([asking])
        for _ in range(8):
            await clock.advance(10.0)
            await settle()
        chat.connect()
        go_on.set()
        await settle()
        await chat.until_idle()
        [row] = await rows(chat)
        why = "fake is not connected" if where == "away" else "fake took too long"
        assert (row.state, row.error) == (HandoffState.FAILED, why) and not world.seen("9", "t1")
        assert (await terminal.say("still here")).session == turn.session


async def test_it_is_asked_for_once(tmp_path: Path) -> None:
    async with journey(tmp_path) as chat:
        await set_home(chat)
        terminal = Terminal(chat)
        turn = await terminal.say("plan the garden")
        await chat.disconnect()
        asking = asyncio.create_task(terminal.command("/handoff fake"))
        while not await rows(chat):
            await settle()
        assert "being handed over already" in (await terminal.command("/handoff fake")).text
        assert "It is on its way to fake" in (await terminal.command("/handoff")).text
        chat.connect()
        assert (await asking).over
        [row] = await rows(chat)
        assert (row.state, row.session) == (HandoffState.COMPLETED, turn.session)


async def test_trouble_is_tried_three_times_then_told_and_can_be_tried_again(tmp_path: Path) -> None:
    troubles: list[HermesError] = [Unreachable("the line is busy", after=1.0)] * MOST_ATTEMPTS
    world = World()
    clock = FakeClock()
    async with journey(tmp_path, world=world, clock=clock) as chat:
        await set_home(chat)
        terminal = Terminal(chat)
        await terminal.say("plan the garden")
        world.trouble = lambda what, chat: troubles.pop() if what == "open" and troubles else None
        asking = asyncio.create_task(terminal.command("/handoff fake"))
        while not asking.done():
            await settle()
            await clock.advance(1.0)
        assert "not handed over to fake: the line is busy. It stays here." in (await asking).text
        [row] = await rows(chat)
        await chat.database.write(lambda tx: retry_handoff(tx, row.id, clock.now()))
        chat.gateway.handoffs.ring()
        await chat.until_seen("handed over", chat="9")
        with pytest.raises(UserError, match="has not failed"):
            await chat.database.write(lambda tx: retry_handoff(tx, row.id, clock.now()))
        with pytest.raises(UserError, match="is over"):
            await chat.database.write(lambda tx: cancel_handoff(tx, row.id))


async def test_one_that_was_cancelled_meanwhile_moves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with journey(tmp_path) as chat:
        await set_home(chat)
        terminal = Terminal(chat)
        turn = await terminal.say("plan the garden")
        opening, go_on = asyncio.Event(), asyncio.Event()

        async def slow(parent: Address, name: str) -> Address:
            opening.set()
            await go_on.wait()
            return replace(parent, thread="late")

        monkeypatch.setattr(chat.platform, "open_thread", slow)
        asking = asyncio.create_task(terminal.command("/handoff fake"))
        await opening.wait()
        [row] = await rows(chat)
        await chat.database.write(lambda tx: cancel_handoff(tx, row.id))
        go_on.set()
        assert "not handed over to fake: cancelled" in (await asking).text
        assert (await terminal.say("still here")).session == turn.session


async def test_what_is_allowed_at_the_machine_does_not_go_along(tmp_path: Path) -> None:
    async with journey(tmp_path) as chat:
        await set_home(chat)
        terminal = Terminal(chat)
        turn = await terminal.say("plan the garden")
        before = await chat.database.read(lambda tx: tx.sessions.get(turn.session))
        assert before is not None
        await chat.database.write(lambda tx: tx.sessions.save(replace(before, yolo=True)))
        await terminal.command("/handoff fake")
        session = await chat.database.read(lambda tx: tx.sessions.get(turn.session))
        assert session is not None and not session.yolo


# --- each at its own pace --------------------------------------------------------------------------


async def test_a_hand_off_that_cannot_reach_the_platform_is_tried_after_two_and_four_seconds(
    tmp_path: Path,
) -> None:
    world, clock = World(), FakeClock()
    attempts: list[float] = []

    def busy_twice(what: str, _: str) -> HermesError | None:
        if what != "open":
            return None
        attempts.append(clock.monotonic())
        return Unreachable("the line is busy") if len(attempts) < 3 else None

    async with journey(tmp_path, world=world, clock=clock) as chat:
        await set_home(chat)
        terminal = Terminal(chat)
        await terminal.say("plan the garden")
        world.trouble = busy_twice
        asking = asyncio.create_task(terminal.command("/handoff fake"))
        while not asking.done() and len(attempts) < 3:
            await settle()
            await clock.advance(1.0)
        await settle()
        assert (await asking).text.startswith("This conversation goes on in")
    first, second, third = attempts
    assert 2.0 <= second - first < 4.0 and 4.0 <= third - second < 6.0


async def test_a_slow_hand_off_holds_up_no_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with journey(tmp_path) as chat:
        await set_home(chat)
        terminal = Terminal(chat)
        await terminal.say("plan the garden")
        opening, opened = asyncio.Event(), asyncio.Event()
        names: list[str] = []

        async def open_thread(parent: Address, name: str) -> Address:
            names.append(name)
            if len(names) == 1:
                opening.set()
                await opened.wait()
            return replace(parent, thread=f"t{len(names)}")

        monkeypatch.setattr(chat.platform, "open_thread", open_thread)
        slow = asyncio.create_task(terminal.command("/handoff fake"))
        await opening.wait()
        await terminal.command("/new")
        await terminal.say("another thing")
        quick = await terminal.command("/handoff fake")
        assert "goes on in" in quick.text and not slow.done()
        opened.set()
        assert "goes on in" in (await slow).text
