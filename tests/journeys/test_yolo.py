"""`/yolo` is judged by the place of the turn: what one person said in private never counts among others."""

from __future__ import annotations

from pathlib import Path

import pytest

from hermes.control.sessions.submission import SessionTarget, Submission
from hermes.domain.chats.address import Address, Source, SourceKind
from hermes.domain.ids import MAIN_AGENT
from hermes.domain.ports.agent import ModelRequest
from hermes.domain.turns.session import Session
from hermes.domain.turns.turn import TurnInput
from hermes.testing.harness import Journey, open_settings
from hermes.testing.model import Say, call, last_words, say
from hermes.testing.world import Deed


def script(request: ModelRequest) -> Say:
    words = last_words(request)
    done = type(request.entries[-1].record).__name__ == "ToolFinished"
    if words.startswith("danger") and not done:
        return call("danger", f'{{"token": "{words}"}}', id=f"c{len(request.entries)}")
    return say(f"answer to {words}")


def admins(source: Source) -> bool:
    return source.person == "root"


def journey(folder: Path, **changes: object) -> Journey:
    return Journey(folder=folder, script=script, settings=open_settings(**changes), is_admin=admins)


def in_channel(chat: Journey, user: str, text: str) -> None:
    chat.world.write(text, chat="room", kind="channel", user=user, mentions_us=True)


async def the_session(chat: Journey) -> Session:
    found = await chat.database.read(lambda tx: tx.sessions.find(""))
    return next(one for one in found if one.owner == "fake:ann")


async def off_in_private(chat: Journey) -> str:
    """Ann switches approvals off in her own chat, and uses it."""
    chat.world.write("/yolo", chat="a", user="ann")
    await chat.until_seen("Nothing is asked in this session", chat="a")
    chat.world.write("danger one", chat="a", user="ann")
    await chat.until_seen("answer to danger one", chat="a")
    return (await the_session(chat)).id


async def test_it_ends_when_the_session_is_resumed_among_others(tmp_path: Path) -> None:
    async with journey(tmp_path) as chat:
        ident = await off_in_private(chat)
        in_channel(chat, "ann", f"/resume {ident}")
        await chat.until_seen("Back in", chat="room")
        in_channel(chat, "mallory", "danger two")
        await chat.until_seen("May I do danger two?", chat="room")
        assert len(chat.world.did(Deed.EFFECT)) == 1
        assert not (await the_session(chat)).yolo


async def test_said_again_in_private_it_counts_there_alone(tmp_path: Path) -> None:
    """The session is bound to both places by now."""
    async with journey(tmp_path) as chat:
        ident = await off_in_private(chat)
        in_channel(chat, "ann", f"/resume {ident}")
        await chat.until_seen("Back in", chat="room")
        chat.world.write("/yolo", chat="a", user="ann")
        await chat.until(lambda: sum("Nothing is asked" in text for text in chat.world.seen("a")) == 2)
        in_channel(chat, "mallory", "danger two")
        await chat.until_seen("May I do danger two?", chat="room")
        in_channel(chat, "mallory", "/background danger three")
        await chat.until_seen("May I do danger three?", chat="room")
        assert len(chat.world.did(Deed.EFFECT)) == 1


@pytest.mark.parametrize("user", ["mallory", "ann", "root"])
async def test_nobody_switches_approvals_off_for_a_session_from_elsewhere(user: str, tmp_path: Path) -> None:
    async with journey(tmp_path) as chat:
        chat.world.write("hello", chat="a", user="ann")
        await chat.until_seen("answer to hello")
        in_channel(chat, "ann", f"/resume {(await the_session(chat)).id}")
        await chat.until_seen("Back in", chat="room")
        in_channel(chat, user, "/yolo")
        told = "approvals stay on here" if user == "root" else "only an admin may switch approvals off"
        await chat.until_seen(told, chat="room")
        assert not (await the_session(chat)).yolo


async def test_an_admin_may_for_a_place_and_anybody_switches_them_on_again(tmp_path: Path) -> None:
    async with journey(tmp_path) as chat:
        in_channel(chat, "root", "/yolo")
        await chat.until_seen("Nothing is asked in this session", chat="room")
        in_channel(chat, "bob", "danger one")
        await chat.until_seen("answer to danger one", chat="room")
        in_channel(chat, "bob", "/yolo")
        await chat.until_seen("asked first again", chat="room")
        in_channel(chat, "bob", "danger two")
        await chat.until_seen("May I do danger two?", chat="room")


async def test_a_persons_own_session_in_a_group_is_theirs(tmp_path: Path) -> None:
    async with journey(tmp_path) as chat:
        ident = await off_in_private(chat)
        chat.world.write(f"/resume {ident}", chat="g", kind="group", user="ann")
        await chat.until_seen("Back in", chat="g")
        chat.world.write("danger two", chat="g", kind="group", user="ann", mentions_us=True)
        await chat.until_seen("answer to danger two", chat="g")


async def test_a_group_that_shares_its_session_is_a_shared_place(tmp_path: Path) -> None:
    async with journey(tmp_path, group_sessions_per_user=False) as chat:
        ident = await off_in_private(chat)
        chat.world.write(f"/resume {ident}", chat="g", kind="group", user="ann")
        await chat.until_seen("Back in", chat="g")
        chat.world.write("danger two", chat="g", kind="group", user="bob", mentions_us=True)
        await chat.until_seen("May I do danger two?", chat="g")


async def test_it_does_not_count_for_a_client_of_the_api(tmp_path: Path) -> None:
    async with journey(tmp_path) as chat:
        session = await off_in_private(chat)
        source = Source(
            address=Address(platform="api_server", account="key", chat="x"), kind=SourceKind.API, user="key"
        )
        place = SessionTarget(session=session)  # type: ignore[arg-type]
        words = TurnInput(text="danger two")
        await chat.gateway.submit(Submission(agent=MAIN_AGENT, source=source, input=words, place=place))
        await chat.until(lambda: len(chat.model.requests) > 2)
        await chat.until_taken()
        assert len(chat.world.did(Deed.EFFECT)) == 1
        assert len(await chat.database.read(lambda tx: tx.questions.open_of(None))) == 1
