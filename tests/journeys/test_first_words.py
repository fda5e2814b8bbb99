"""Words for a session in which nothing is unfinished are taken in the commit that stores them, wherever that
is cut off."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import TypeVar

import pytest

from hermes.control.sessions.submission import SessionTarget, Submission
from hermes.control.turn.actors import Actors
from hermes.control.turn.claim import Claim
from hermes.domain.chats.address import Address, Source, SourceKind
from hermes.domain.ids import MAIN_AGENT, AgentId, SessionId, TurnId
from hermes.domain.ports.store import Store, Tx
from hermes.domain.settings.settings import GatewaySettings
from hermes.domain.turns.event import Entry, Finished, ModelSaid, UserSaid
from hermes.domain.turns.turn import Turn, TurnInput, TurnState
from hermes.domain.word import replace
from hermes.testing.crash import unit_name
from hermes.testing.harness import Journey, open_settings
from hermes.testing.model import Say, say
from tests.journeys.cut import one_life

T = TypeVar("T")
LATER = datetime(2100, 1, 1, tzinfo=UTC)


def first_words(text: str) -> Submission:
    source = Source(address=Address(platform="api_server", chat="-"), kind=SourceKind.API)
    return Submission(
        agent=MAIN_AGENT, source=source, input=TurnInput(text=text), place=SessionTarget(until=LATER)
    )


def named_words(text: str, session: str = "tea") -> Submission:
    place = SessionTarget(session=SessionId(session), begin=True)
    return replace(first_words(text), place=place)


async def hear(chat: Journey, turn: TurnId, *, live: bool = False) -> list[Entry]:
    return [seen async for seen in chat.gateway.watch(MAIN_AGENT, turn, live=live) if isinstance(seen, Entry)]


async def stored(chat: Journey, turn: TurnId) -> Turn:
    found = await chat.database.read(lambda tx: tx.turns.get(turn))
    assert found is not None
    return found


class Naming:
    """Writes down the names of the units that were committed."""

    def __init__(self, store: Store, names: list[str]) -> None:
        self._store = store
        self._names = names

    async def write(self, unit: Callable[[Tx], T], *, first: bool = False, ends: bool = False) -> T:
        self._names.append(unit_name(unit))
        return await self._store.write(unit, first=first, ends=ends)

    async def read(self, query: Callable[[Tx], T]) -> T:
        return await self._store.read(query)

    def scoped(self, agent: AgentId) -> Store:
        return Naming(self._store.scoped(agent), self._names)


async def test_a_turn_that_begins_its_session_takes_two_commits(tmp_path: Path) -> None:
    names: list[str] = []
    async with Journey(folder=tmp_path, wrap_store=lambda store: Naming(store, names)) as chat:
        names.clear()
        asked = await chat.gateway.ask(first_words("hello"))
        said = [entry.record for entry in await hear(chat, asked.turn.id)]
        await chat.until_idle()
        assert [type(record) for record in said] == [UserSaid, ModelSaid, Finished]
        assert [name for name in names if name] == ["submit", "record"]
        turn = await stored(chat, asked.turn.id)
        assert (turn.state, turn.attempt) == (TurnState.DONE, 1)


@pytest.mark.parametrize("warm", [True, False], ids=["warm", "cold"])
async def test_a_turn_in_a_session_takes_two_commits_new_or_not(tmp_path: Path, warm: bool) -> None:
    names: list[str] = []
    async with Journey(folder=tmp_path, wrap_store=lambda store: Naming(store, names)) as chat:
        for number in range(1, 4):
            names.clear()
            asked = await chat.gateway.ask(named_words(f"words {number}"))
            await hear(chat, asked.turn.id)
            await chat.until_idle()
            assert [name for name in names if name] == ["submit", "record"], number
            turn = await stored(chat, asked.turn.id)
            assert (turn.state, turn.attempt, turn.session) == (TurnState.DONE, 1, "tea")
            if not warm:
                chat.gateway.actors.warm.take(turn.session)
        entries = await chat.database.read(lambda tx: tx.journal.read(SessionId("tea")))
        assert [entry.seq for entry in entries] == list(range(1, 10))
        assert [type(entry.record) for entry in entries] == [UserSaid, ModelSaid, Finished] * 3
        asked_last = [entry.record for entry in chat.model.requests[-1].entries]
        assert [said.text for said in asked_last if isinstance(said, UserSaid)] == [
            "words 1", "words 2", "words 3",
        ]  # fmt: skip


async def test_two_at_once_are_answered_one_after_the_other(tmp_path: Path) -> None:
    async with Journey(folder=tmp_path) as chat:
        await hear(chat, (await chat.gateway.ask(named_words("before"))).turn.id)
        await chat.until_idle()
        both = await asyncio.gather(*(chat.gateway.ask(named_words(text)) for text in ("one", "two")))
        for asked in both:
            await hear(chat, asked.turn.id)
            assert (await stored(chat, asked.turn.id)).attempt == 1
        entries = await chat.database.read(lambda tx: tx.journal.read(SessionId("tea")))
        assert [type(entry.record) for entry in entries] == [UserSaid, ModelSaid, Finished] * 3


async def test_an_actor_that_looked_too_early_looks_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Somebody rings between the commit and the actor that is to have the claim: the turn is taken over with
    its words, not without them."""
    async with Journey(folder=tmp_path) as chat:
        await hear(chat, (await chat.gateway.ask(named_words("before"))).turn.id)
        await chat.until_idle()
        real = Actors.enter

        def late(actors: Actors, claim: Claim) -> None:
            # It works with the transcript that was warm before the words came.
            actors.ring(MAIN_AGENT, SessionId("tea"))
            real(actors, claim)

        monkeypatch.setattr(Actors, "enter", late)
        asked = await chat.gateway.ask(named_words("now"))
        said = [entry.record for entry in await hear(chat, asked.turn.id)]
        assert [type(record) for record in said] == [UserSaid, ModelSaid, Finished]
        last = [entry.record for entry in chat.model.requests[-1].entries]
        assert isinstance(last[-1], UserSaid) and last[-1].text == "now"
        assert len(chat.model.requests) == 2


async def test_where_nobody_is_free_it_waits_like_any_other(tmp_path: Path) -> None:
    go = asyncio.Event()

    def script(request: object) -> Say:
        return Say(text="at last", hold=go)

    settings = open_settings(gateway=GatewaySettings(max_running=1))
    async with Journey(folder=tmp_path, script=script, settings=settings) as chat:
        first = await chat.gateway.ask(first_words("one"))
        second = await chat.gateway.ask(first_words("two"))
        await chat.until(lambda: len(chat.model.requests) == 1)
        assert (await stored(chat, first.turn.id)).state is TurnState.RUNNING
        assert (await stored(chat, second.turn.id)).state is TurnState.ACCEPTED
        go.set()
        for asked in (first, second):
            await hear(chat, asked.turn.id)
            turn = await stored(chat, asked.turn.id)
            assert (turn.state, turn.attempt) == (TurnState.DONE, 1)


async def test_what_is_said_next_comes_after_it(tmp_path: Path) -> None:
    go = asyncio.Event()
    script = [Say(text="first", hold=go), say("second")]
    async with Journey(folder=tmp_path, script=script) as chat:
        first = await chat.gateway.ask(first_words("one"))
        place = SessionTarget(session=first.turn.session, owner=None)
        words = Submission(
            agent=MAIN_AGENT, source=first_words("").source, input=TurnInput(text="two"), place=place
        )
        second = await chat.gateway.ask(words)
        go.set()
        assert len(await hear(chat, second.turn.id, live=True)) == 3
        entries = await chat.database.read(lambda tx: tx.journal.read(first.turn.session))
        assert [type(entry.record) for entry in entries] == [UserSaid, ModelSaid, Finished] * 2


@pytest.mark.parametrize("after", [False, True])
async def test_cut_off_in_a_session_that_exists_it_is_answered_once_or_never_said(
    tmp_path: Path, after: bool
) -> None:
    async def live(chat: Journey) -> None:
        for text in ("one", "two"):
            await hear(chat, (await chat.gateway.ask(named_words(text))).turn.id)
            await chat.until_idle()

    for number in range(1, 60):
        folder = tmp_path / str(number)
        folder.mkdir()
        crashed = await one_life(Journey(folder=folder), live, stop_at=number, after=after)
        async with Journey(folder=folder) as chat:
            await chat.until_idle()
            entries = await chat.database.read(lambda tx: tx.journal.read(SessionId("tea")))
            kinds = [type(entry.record) for entry in entries]
            assert kinds == [UserSaid, ModelSaid, Finished] * (len(entries) // 3), (
                f"stopped at write {number}"
            )
        if not crashed:
            assert number > 5 and len(entries) == 6
            return
    raise AssertionError("it never came to its end")


@pytest.mark.parametrize("after", [False, True])
async def test_cut_off_at_at_any_write_it_is_answered_once_or_never_said(tmp_path: Path, after: bool) -> None:
    async def live(chat: Journey) -> None:
        asked = await chat.gateway.ask(first_words("hello"))
        await hear(chat, asked.turn.id)
        await chat.until_idle()

    for number in range(1, 40):  # it is about seven; upkeep may write once more
        folder = tmp_path / str(number)
        folder.mkdir()
        crashed = await one_life(Journey(folder=folder), live, stop_at=number, after=after)
        async with Journey(folder=folder) as chat:
            await chat.until_idle()
            sessions = await chat.database.read(lambda tx: tx.sessions.find(""))
            for session in sessions:
                entries = await chat.database.read(lambda tx, id=session.id: tx.journal.read(id))
                told = [type(entry.record) for entry in entries]
                assert told == [UserSaid, ModelSaid, Finished], f"stopped at write {number}"
            assert len(sessions) <= 1
        if not crashed:
            assert number > 3 and len(sessions) == 1
            return
    raise AssertionError("it never came to its end")
