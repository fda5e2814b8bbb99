"""Titles: a session gets one after its first exchange, once, and whoever names it wins."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest

from hermes.control.core import MakeTitle
from hermes.control.sessions.submission import SessionTarget, Submission
from hermes.domain.chats.address import Address, Source, SourceKind
from hermes.domain.errors import FaultKind, ModelFault
from hermes.domain.ids import MAIN_AGENT, SessionId
from hermes.domain.models.usage import Usage, total_of
from hermes.domain.settings.budgets import Budget
from hermes.domain.turns.session import Session
from hermes.domain.turns.turn import TurnInput
from hermes.testing.harness import PATIENCE, Journey, open_settings
from tests.journeys.cut import cut_everywhere


class Titler:
    """Makes the same title for everything, and knows how often it was asked."""

    def __init__(self, *faults: Exception, gate: Callable[[], asyncio.Event | None] = lambda: None) -> None:
        self.faults = list(faults)
        self.asked: list[tuple[str, str, bool]] = []
        self.gate = gate

    async def __call__(self, said: str, answered: str, local: bool, model: str) -> tuple[str, Usage | None]:
        self.asked.append((said, answered, local))
        hold = self.gate()
        if hold is not None:
            await hold.wait()
        if self.faults and not local:
            raise self.faults.pop(0)
        return (
            ("First words", None) if local else ("Trip to Rome", Usage(prompt=40, completion=4, model="tiny"))
        )


def journey(folder: Path, title: MakeTitle, **more: object) -> Journey:
    return Journey(folder=folder, title=title, **more)  # type: ignore[arg-type]


async def sessions(chat: Journey) -> list[Session]:
    return await chat.database.read(lambda tx: tx.sessions.find(""))


async def titled(chat: Journey, *titles: str) -> None:
    async with asyncio.timeout(PATIENCE):
        while True:
            if sorted(str(session.title) for session in await sessions(chat)) == sorted(titles):
                return
            await asyncio.sleep(0.01)


async def test_a_session_gets_a_title_once_and_it_is_counted(tmp_path: Path) -> None:
    titler = Titler()
    async with journey(tmp_path, titler) as chat:
        chat.world.write("where shall we go?")
        await titled(chat, "Trip to Rome")
        chat.world.write("and then?")
        await chat.until_seen("You said: and then?")
        chat.world.write("another person", chat="2", user="u2")
        await titled(chat, "Trip to Rome", "Trip to Rome #2")
        await chat.until_idle()
        assert [asked[:2] for asked in titler.asked] == [
            ("where shall we go?", "You said: where shall we go?"),
            ("another person", "You said: another person"),
        ]
        first = min(await sessions(chat), key=lambda session: session.created_at)
        groups = await chat.database.read(lambda tx: tx.usage.of_session(first.id))
        assert {group.key: group.used.calls for group in groups} == {
            ("scripted", "main"): 2,
            ("tiny", "title"): 1,
        }
        assert total_of(groups).calls == 3


async def test_who_names_a_session_wins(tmp_path: Path) -> None:
    hold = asyncio.Event()
    titler = Titler(gate=lambda: hold)
    async with journey(tmp_path, titler) as chat:
        chat.world.write("hello")
        await chat.until(lambda: bool(titler.asked))
        chat.world.write("/title Mine")
        await titled(chat, "Mine")
        hold.set()
        chat.world.write("more")
        await chat.until_seen("You said: more")
        await chat.until_idle()
        assert [session.title for session in await sessions(chat)] == ["Mine"] and len(titler.asked) == 1


async def test_a_model_that_fails_is_asked_again_and_then_the_first_words_do(tmp_path: Path) -> None:
    titler = Titler(*(ModelFault("no", kind=FaultKind.BUSY) for _ in range(9)))
    async with journey(tmp_path, titler) as chat:
        for number in range(4):
            chat.world.write(f"word {number}")
            await chat.until(lambda: len(titler.asked) > number)  # noqa: B023
        await titled(chat, "First words")
        assert [local for _, _, local in titler.asked] == [False, False, False, True]


async def test_a_spent_budget_makes_no_model_call_for_a_title(tmp_path: Path) -> None:
    titler = Titler()
    chosen = open_settings(budgets={"all": Budget(calls=1)})
    async with journey(tmp_path, titler, settings=chosen) as chat:
        chat.world.write("hello")
        await titled(chat, "First words")
        assert [local for _, _, local in titler.asked] == [True]


async def test_requests_of_api_clients_get_no_title(tmp_path: Path) -> None:
    titler = Titler()
    async with journey(tmp_path, titler) as chat:
        address = Address(platform="api_server", chat="c")
        source = Source(address=address, kind=SourceKind.API, user="key")
        for name in ("mine", "20260105_120000_0123abcd"):
            place = SessionTarget(session=SessionId(name), begin=True)
            words = Submission(agent=MAIN_AGENT, source=source, input=TurnInput(text="hi"), place=place)
            turn = await chat.gateway.submit(words)
            async with asyncio.timeout(PATIENCE):
                [_ async for _ in chat.gateway.watch(MAIN_AGENT, turn.id)]
        chat.world.write("hello")
        await titled(chat, "None", "None", "Trip to Rome")
        assert len(titler.asked) == 1


@pytest.mark.parametrize("after", [True, False], ids=["after", "before"])
async def test_however_it_is_stopped_there_is_one_title(tmp_path: Path, full: bool, after: bool) -> None:
    async def live(chat: Journey) -> None:
        if not chat.world.updates:
            chat.world.write("hello")
        await chat.until_seen("You said: hello")
        await titled(chat, "Trip to Rome")
        await chat.until_idle()
        (session,) = await sessions(chat)
        groups = await chat.database.read(lambda tx: tx.usage.of_session(session.id))
        assert {group.key[1]: group.used.calls for group in groups} == {"main": 1, "title": 1}

    await cut_everywhere(tmp_path, lambda folder: journey(folder, Titler()), live, after=after, full=full)
