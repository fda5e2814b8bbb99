"""A hand-off that is cut off at each of its writes: in the end the conversation is in the chat, once and for
everybody there, or still at the terminal; never in both, and never in neither."""

from __future__ import annotations

from pathlib import Path

import pytest

from hermes.control.handoff import worker
from hermes.domain.chats.handoff import HandoffState
from hermes.domain.ids import MAIN_AGENT, SessionId
from hermes.domain.settings.platforms import PlatformSettings
from hermes.domain.turns.event import UserSaid
from hermes.entry.terminal.door import TerminalState
from hermes.entry.terminal.served_door import ServedDoor, local_caller
from hermes.testing.harness import Journey, open_settings
from hermes.testing.world import World
from tests.journeys.cut import cut_everywhere

FOLDER = "/tmp"


def make(place: Path) -> Journey:
    own = PlatformSettings(allow_all_users=True, home_channel="9")
    return Journey(folder=place, kind="plain", world=World(), settings=open_settings(platforms={"fake": own}))


_written: list[tuple[World, str]] = []


def write_once(world: World, user: str, text: str) -> None:
    """In the first life that comes so far; what was not accepted then is delivered again."""
    if not any(known is world and before == text for known, before in _written):
        _written.append((world, text))
        world.write(text, chat="9", kind="group", user=user, mentions_us=True)


async def begin(chat: Journey) -> SessionId:
    """Somebody has a session of their own in the group, and the conversation has begun at the terminal."""
    world = chat.world
    write_once(world, "ann", "my own business")
    await chat.until(lambda: bool(world.seen("9")))
    caller = local_caller(folder=FOLDER)
    turn = await ServedDoor(chat.gateway, caller, TerminalState(folder=FOLDER)).say("plan the garden", "k")
    session = await chat.database.read(lambda tx: tx.sessions.get(turn.session))
    assert session is not None and session.workspace == FOLDER
    async for _ in chat.gateway.watch(MAIN_AGENT, turn.id):
        pass
    return turn.session


async def hand_over(chat: Journey, session: SessionId) -> HandoffState:
    if not await chat.database.read(lambda tx: tx.handoffs.latest(None, 9)):
        terminal = TerminalState(session=session, folder=FOLDER)
        await ServedDoor(chat.gateway, local_caller(folder=FOLDER), terminal).command("/handoff fake")
    [row] = await chat.database.read(lambda tx: tx.handoffs.latest(None, 9))
    settled = await chat.gateway.handoffs.settled(MAIN_AGENT, row.id, 60.0)
    assert settled is not None
    return settled.state


async def said(chat: Journey, session: SessionId) -> list[str]:
    entries = await chat.database.read(lambda tx: tx.journal.read(session))
    return [entry.record.text for entry in entries if isinstance(entry.record, UserSaid)]


async def go_on_in_chat(chat: Journey, session: SessionId) -> None:
    world = chat.world
    for user in ("ann", "cid"):
        write_once(world, user, f"{user} asks")
        await chat.until(lambda user=user: any(f"{user} asks" in one for one in world.seen("9")))
    await chat.until_idle()
    words = await said(chat, session)
    assert sum("was handed over from the terminal" in one for one in words) == 1, words
    assert sorted(words[2:]) == ["ann asks", "cid asks"] and words[0] == "plan the garden"


@pytest.mark.parametrize("after", [False, True])
async def test_a_hand_off_to_a_group(
    after: bool, tmp_path: Path, full: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worker, "LEASE_SECONDS", 0.1)
    monkeypatch.setattr(worker, "_LONGEST_SLEEP", 0.1)

    async def live(chat: Journey) -> None:
        session = await begin(chat)
        assert await hand_over(chat, session) is HandoffState.COMPLETED
        await go_on_in_chat(chat, session)

    assert await cut_everywhere(tmp_path, make, live, after=after, full=full) > 10


@pytest.mark.parametrize("after", [False, True])
async def test_a_hand_off_that_takes_too_long(
    after: bool, tmp_path: Path, full: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The platform is away until it is too late, and the conversation stays, whenever the plug is pulled."""
    monkeypatch.setattr(worker, "LEASE_SECONDS", 0.1)
    monkeypatch.setattr(worker, "_LONGEST_SLEEP", 0.1)
    monkeypatch.setattr("hermes.control.handoff.requests.HANDOFF_SECONDS", 0.0)

    async def live(chat: Journey) -> None:
        session = await begin(chat)
        if not await chat.database.read(lambda tx: tx.handoffs.latest(None, 9)):
            await chat.disconnect()
            await hand_over(chat, session)
            chat.connect()
        assert await hand_over(chat, session) is HandoffState.FAILED
        words = await said(chat, session)
        assert words[0] == "plan the garden" and set(words[1:]) <= {"still here"}
        terminal = TerminalState(session=session, folder=FOLDER)
        turn = await ServedDoor(chat.gateway, local_caller(folder=FOLDER), terminal).say("still here", "k2")
        assert turn.session == session

    assert await cut_everywhere(tmp_path, make, live, after=after, full=full) > 10
