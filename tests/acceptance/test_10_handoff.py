"""A conversation of the terminal goes on in a chat and comes back with /resume, whatever dies on the way."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest

from hermes.control.handoff.worker import LEASE_SECONDS
from hermes.domain.chats.handoff import HandoffState
from hermes.domain.ids import SessionId
from hermes.testing.clock import FakeClock, settle
from hermes.testing.harness import Journey
from hermes.testing.world import Deed
from tests.acceptance.telling import KINDS, seen_once, write
from tests.journeys.cut import cut_everywhere
from tests.journeys.test_handoff import Terminal, rows, settled, spoken
from tests.journeys.test_handoff import journey as with_owner


def journey(folder: Path, kind: str = "edits") -> Journey:
    return with_owner(folder, kind=kind, clock=FakeClock())


async def say(terminal: Terminal, text: str) -> SessionId:
    """Said at the machine; under the same key a second time is the first."""
    turn = await terminal.door.say(text, text)
    async for _ in terminal.door.watch(turn.id, 0):
        pass
    return turn.session


async def hand_over(chat: Journey, terminal: Terminal) -> None:
    """Asked for once; where it was under way when the gateway died, its lease ends and it is done again."""
    if not await rows(chat):
        await terminal.command("/handoff fake")
    elif (await rows(chat))[0].state is not HandoffState.COMPLETED:
        await settle()
        assert isinstance(chat.clock, FakeClock)
        await chat.clock.advance(LEASE_SECONDS + 1)


async def talk(chat: Journey) -> None:
    write(chat.world, "/sethome", chat="9", user="ann")
    await chat.until_seen("now the home channel", chat="9")
    terminal = Terminal(chat)
    session = await say(terminal, "plan the garden")
    await hand_over(chat, terminal)
    place = (await settled(chat)).to
    assert place is not None and place.chat == "9"
    who = {"chat": "9", "user": "ann"} | ({} if place.thread is None else {"thread": place.thread})
    write(chat.world, "and the roses?", **who)
    await chat.until_seen("You said: and the roses?", chat="9")
    await chat.until_idle()
    back = Terminal(chat)
    assert "Back in “plan the garden”" in (await back.command(f"/resume {session}")).text
    assert await say(back, "here again") == session
    await chat.until_idle()
    said = await spoken(chat, session)
    assert (said[0], *said[2:]) == ("plan the garden", "and the roses?", "here again")
    assert "handed over" in said[1] and len(await rows(chat)) == 1
    assert len(chat.world.did(Deed.OPENED)) <= 2
    seen_once(chat.world, "You said: and the roses?", chat="9")


@pytest.mark.parametrize("kind", KINDS)
async def test_to_a_chat_and_back(tmp_path: Path, kind: str) -> None:
    async with journey(tmp_path, kind) as chat:
        await talk(chat)


@pytest.mark.parametrize("after", [True, False], ids=["after", "before"])
@pytest.mark.parametrize("kind", ["edits", "plain"])
async def test_stopped_at_each_write(tmp_path: Path, full: bool, kind: str, after: bool) -> None:
    await cut_everywhere(tmp_path, partial(journey, kind=kind), talk, after=after, full=full)
