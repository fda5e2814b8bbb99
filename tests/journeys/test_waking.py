"""A session that waited for something is told when it happens, in a turn of its own."""

from __future__ import annotations

from pathlib import Path

from hermes.domain.ids import MAIN_AGENT
from hermes.domain.turn import Turn
from hermes.testing.harness import Journey


async def test_the_answer_goes_to_the_chat_that_the_session_is_bound_to(tmp_path: Path) -> None:
    async with Journey(folder=tmp_path, kind="plain") as chat:
        chat.world.write("start the build", chat="7", user="ann")
        await chat.until_seen("You said: start the build", chat="7")
        await chat.until_idle()
        heard: list[Turn] = []
        chat.gateway.listen(heard.append)
        session = (await chat.database.read(lambda tx: tx.sessions.find("")))[0]
        turn = await chat.gateway.wake(MAIN_AGENT, session.id, "[Background process p1 ended with code 0]")
        await chat.until_seen("You said: [Background process p1 ended with code 0]", chat="7")
        assert turn is not None and heard == [turn]


async def test_a_session_that_is_gone_is_not_woken(tmp_path: Path) -> None:
    async with Journey(folder=tmp_path) as chat:
        session = await chat.database.read(lambda tx: tx.sessions.find(""))
        assert session == []
        assert await chat.gateway.wake(MAIN_AGENT, "20260101_000000_deadbeef", "x") is None  # type: ignore[arg-type]
