"""Whatever is said or stopped while the actor of a turn that was begun with its submission still starts, or
reads a long transcript first, is heard all the same."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from hermes.control.sessions.submission import Submission
from hermes.control.turn.actor import SessionActor
from hermes.control.turn.actors import WarmSession
from hermes.control.turn.claim import Claim
from hermes.domain.chats.address import Address, Source, SourceKind
from hermes.domain.ids import MAIN_AGENT
from hermes.domain.ports.agent import ModelRequest
from hermes.domain.turns.event import Entry, Stopped
from hermes.domain.turns.turn import BusyMode, Turn, TurnInput
from hermes.testing.harness import PATIENCE, Journey
from hermes.testing.model import Say, last_words, say

CLIENT = Source(address=Address(platform="api", chat="s1"), kind=SourceKind.API, user="ann")


def words(text: str, busy: BusyMode = BusyMode.QUEUE) -> Submission:
    return Submission(agent=MAIN_AGENT, source=CLIENT, input=TurnInput(text=text), busy=busy)


async def _stop(chat: Journey, turn: Turn) -> None:
    await chat.gateway.stop_turn(MAIN_AGENT, turn.id, "enough")


async def _interrupt(chat: Journey, turn: Turn) -> None:
    await chat.gateway.ask(words("second", BusyMode.INTERRUPT))


@pytest.mark.parametrize("cut_off", [_stop, _interrupt])
async def test_a_turn_is_cut_off_while_its_actor_still_reads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cut_off: Callable[[Journey, Turn], Awaitable[None]]
) -> None:
    go, held = asyncio.Event(), asyncio.Event()

    def script(request: ModelRequest) -> Say:
        return Say(text="slow", hold=held) if last_words(request) == "first" else say("ok")

    read = SessionActor._before

    async def read_slowly(actor: SessionActor, claim: Claim) -> WarmSession:
        await go.wait()
        return await read(actor, claim)

    async with Journey(folder=tmp_path, script=script) as chat:
        await chat.gateway.ask(words("hello"))
        await chat.until_idle()
        await chat.until(lambda: not chat.gateway.actors.workers.active)
        monkeypatch.setattr(SessionActor, "_before", read_slowly)
        begun = await chat.gateway.ask(words("first"))
        assert begun.claim is not None, "it was to be begun with its submission"
        await cut_off(chat, begun.turn)
        go.set()
        async with asyncio.timeout(PATIENCE):
            seen = [each async for each in chat.gateway.watch(MAIN_AGENT, begun.turn.id)]
        assert isinstance(seen[-1], Entry) and isinstance(seen[-1].record, Stopped)
