"""A session that waited for something is told when it happens, in a turn of its own."""

from __future__ import annotations

import asyncio
from pathlib import Path

from hermes.control.sessions.submission import SessionTarget, Submission
from hermes.domain.chats.address import Address, Source, SourceKind
from hermes.domain.ids import MAIN_AGENT, SessionId
from hermes.domain.turns.turn import Guidance, Turn, TurnInput
from hermes.domain.word import replace
from hermes.testing.harness import Journey


async def test_the_answer_goes_to_the_chat_that_the_session_is_bound_to(tmp_path: Path) -> None:
    async with Journey(folder=tmp_path, kind="plain") as chat:
        chat.world.write("start the build", chat="7", user="ann")
        await chat.until_seen("You said: start the build", chat="7")
        await chat.until_idle()
        heard: list[Turn] = []
        chat.gateway.show_woken(heard.append)
        await asyncio.sleep(0)  # from its first step on it hears
        session = (await chat.database.read(lambda tx: tx.sessions.find("")))[0]
        turn = await chat.gateway.wake(MAIN_AGENT, session.id, "[Background process p1 ended with code 0]")
        await chat.until_seen("You said: [Background process p1 ended with code 0]", chat="7")
        await chat.until(lambda: bool(heard))
        assert turn is not None and [shown.id for shown in heard] == [turn.id]


async def test_a_session_that_is_gone_is_not_woken(tmp_path: Path) -> None:
    async with Journey(folder=tmp_path) as chat:
        session = await chat.database.read(lambda tx: tx.sessions.find(""))
        assert session == []
        assert await chat.gateway.wake(MAIN_AGENT, "20260101_000000_deadbeef", "x") is None  # type: ignore[arg-type]


async def test_a_woken_turn_may_do_what_the_turn_that_caused_it_might(tmp_path: Path) -> None:
    source = Source(address=Address(platform="api", chat="s1"), kind=SourceKind.API, user="ann")
    place = SessionTarget(session=SessionId("tea"), begin=True)
    bounds = Guidance(
        backend="box", unattended="deny", toolsets=("web",), withheld=("cronjob",), origin=source
    )
    narrow = Submission(
        agent=MAIN_AGENT,
        source=source,
        input=TurnInput(text="start the build", guidance=replace(bounds, instructions="Be brief.")),
        place=place,
    )
    async with Journey(folder=tmp_path) as chat:
        cause = await chat.gateway.submit(narrow)
        await chat.until_idle()
        woken = await chat.gateway.wake(MAIN_AGENT, cause.session, "[It ended]")
        assert woken is not None and (woken.input.guidance, woken.source) == (bounds, source)
        await chat.gateway.submit(replace(narrow, input=TurnInput(text="and now as I like")))
        await chat.until_idle()
        woken = await chat.gateway.wake(MAIN_AGENT, cause.session, "[It ended, too]", cause.id)
        assert woken is not None and woken.input.guidance == bounds
        assert woken.reply is None


async def test_what_wakes_a_shared_place_is_limited_like_who_caused_it(tmp_path: Path) -> None:
    """A place that people share has been bound by one of them; whose process it was is another matter."""
    async with Journey(folder=tmp_path, kind="plain") as chat:
        for person in ("ann", "bob"):
            chat.world.write(
                f"I am {person}", chat="7", user=person, kind="thread", thread="1", mentions_us=True
            )
            await chat.until_seen(f"I am {person}", chat="7")
            await chat.until_idle()
        session = (await chat.database.read(lambda tx: tx.sessions.find("")))[0]
        entries = await chat.database.read(lambda tx: tx.journal.read(session.id))
        for person in ("ann", "bob"):
            cause = next(
                each.turn for each in entries if f"I am {person}" in getattr(each.record, "text", "")
            )
            woken = await chat.gateway.wake(MAIN_AGENT, session.id, "[It ended]", cause)
            assert woken is not None and woken.input.guidance.origin is not None
            assert woken.input.guidance.origin.user == person
