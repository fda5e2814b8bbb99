"""What lasts of a conversation is noted before it is left or shortened: once, beside everything else, and by
nobody but the person's own words."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import Any

import pytest

from hermes.control.sessions.flush import FLUSH, TASK
from hermes.domain.chats.address import SourceKind
from hermes.domain.ids import EVERY_AGENT
from hermes.domain.ports.agent import ModelRequest
from hermes.domain.settings.compression import CompressionSettings
from hermes.domain.settings.memory import MemorySettings
from hermes.domain.settings.settings import ApprovalSettings, ResetMode, ResetSettings
from hermes.domain.tools.tool import Effect, Tool, ToolContext, ToolResult
from hermes.domain.turns.event import ToolFinished, UserSaid
from hermes.domain.turns.session import Session
from hermes.testing.clock import FakeClock
from hermes.testing.harness import PATIENCE, Journey, open_settings
from hermes.testing.model import Say, call, is_summary, last_words, say, within
from hermes.testing.tools import effect_tool
from hermes.testing.world import Deed, World
from tests.journeys.cut import cut_everywhere

LEAST = 3


def noting(request: ModelRequest) -> Say:
    """Notes one thing of each conversation that it is to look through."""
    if is_summary(request):
        return say("## Done\n1. everything")
    last, words = request.entries[-1].record, last_words(request)
    if isinstance(last, ToolFinished):
        return say("nothing more" if words.startswith(TASK) else f"You said: {words}")
    if words.startswith(TASK):
        return call("memory", '{"token": "tea"}')
    return call("fetch", "{}") if words == "fetch" else say(f"You said: {words[:20]}")


async def _fetch(context: ToolContext, arguments: object) -> ToolResult:
    return ToolResult(text="from a page", outside=True)


FETCH = Tool(name="fetch", description="Read a page.", parameters={"type": "object"}, run=_fetch)


def journey(folder: Path, **options: Any) -> Journey:
    world = options.pop("world", None) or World()
    options.setdefault("script", noting)
    memory = effect_tool("memory", Effect.KEYED, world.effect)
    options["settings"] = open_settings(
        memory=options.pop("memory", MemorySettings(flush_min_turns=LEAST)), **options.pop("more", {})
    )
    return Journey(folder=folder, world=world, tools=[memory, FETCH], **options)


def notes(chat: Journey) -> list[str]:
    return [logged.text for logged in chat.world.log if logged.deed is Deed.EFFECT]


def flushes(chat: Journey) -> list[str]:
    """What the model was given to look through."""
    asked = [request for request in chat.model.requests if last_words(request).startswith(TASK)]
    return [
        last_words(request).removeprefix(TASK)
        for request in asked
        if isinstance(request.entries[-1].record, UserSaid)
    ]


async def talk(chat: Journey, /, *words: str, **where: Any) -> None:
    """`where` says in which chat, and by whom."""
    for text in words:
        chat.world.write(text, **where)
        await chat.until_seen(f"You said: {text}")
        await chat.until_idle()


async def command(chat: Journey, /, line: str, seen: str, **where: Any) -> None:
    chat.world.write(line, **where)
    await chat.until_seen(seen)
    await chat.until_idle()


async def settled(chat: Journey) -> None:
    """Wait until no session is to be flushed and no turn is open."""
    chat.gateway.flushes.workers.search()
    end = time.monotonic() + PATIENCE
    while await chat.database.read(lambda tx: tx.flushes.wanted(0, 9)) or not await chat.idle():
        assert time.monotonic() < end, "it was never flushed"
        await asyncio.sleep(0.005)


async def flush_sessions(chat: Journey) -> list[Session]:
    everybody = chat.database.scoped(EVERY_AGENT)
    return [one for one in await everybody.read(lambda tx: tx.sessions.find("")) if one.id.startswith(FLUSH)]


async def test_new_answers_at_once_and_the_old_session_is_looked_through(tmp_path: Path) -> None:
    async with journey(tmp_path) as chat:
        await talk(chat, "one", "two", "I like tea")
        await command(chat, "/new", "New session")
        await settled(chat)
        assert notes(chat) == ["tea"]
        [words] = flushes(chat)
        assert words == "\n".join(f"Person: {t}\nYou: You said: {t}" for t in ("one", "two", "I like tea"))
        request = next(r for r in chat.model.requests if last_words(r).startswith(TASK))
        assert [tool.name for tool in request.tools] == ["memory"]
        assert not any("nothing more" in text for text in chat.world.seen()), "nobody is answered"
        [session] = await flush_sessions(chat)
        assert session.expires_at is not None
        await talk(chat, "again")
        await command(chat, "/new", "New session")
        await settled(chat)
        assert len(flushes(chat)) == 1, "too short"


async def test_a_session_is_looked_through_again_only_for_what_is_new(tmp_path: Path) -> None:
    async with journey(tmp_path) as chat:
        await talk(chat, "one", "two", "three")
        await command(chat, "/new", "New session")
        await settled(chat)
        old = next(text for text in chat.world.seen() if "/resume " in text).split("/resume ")[1].split()[0]
        await command(chat, f"/resume {old}", "Back in")
        await command(chat, "/new again", "“again”")
        await settled(chat)
        assert len(flushes(chat)) == 1
        await command(chat, f"/resume {old}", "Back in")
        await talk(chat, "four", "five", "six")
        await command(chat, "/resume again", "Back in “again”")
        await settled(chat)
        assert len(flushes(chat)) == 2, "/resume leaves a session, too"
        assert "four" in flushes(chat)[1] and "three" not in flushes(chat)[1]


async def test_what_is_over_by_itself_is_looked_through(tmp_path: Path) -> None:
    clock = FakeClock()
    more = {"session_reset": ResetSettings(mode=ResetMode.IDLE, idle_minutes=60)}
    async with journey(tmp_path, clock=clock, more=more) as chat:
        await talk(chat, "one", "two", "three")
        clock.jump(7200)
        assert await chat.gateway.sessions_expiry.sweep() == 1
        await settled(chat)
        assert notes(chat) == ["tea"]
        await talk(chat, "four", "five", "six")
        clock.jump(7200)
        await talk(chat, "seven")
        await settled(chat)
        assert "six" in flushes(chat)[-1] and "seven" not in flushes(chat)[-1] and len(flushes(chat)) == 2


async def test_what_a_summary_hides_is_looked_through(tmp_path: Path) -> None:
    more = {"compression": CompressionSettings(protect_last_n=4)}
    long = "x" * 1200
    async with journey(tmp_path, more=more, window=4000, script=within(4000, noting)) as chat:
        for number in range(8):
            chat.world.write(f"m{number} {long}")
            await chat.until_seen(f"You said: m{number} ")
            await chat.until_idle()
        await chat.until(lambda: any(map(is_summary, chat.model.requests)))
        end = time.monotonic() + PATIENCE
        while not flushes(chat):
            assert time.monotonic() < end
            await settled(chat)
        assert "m0 " in flushes(chat)[0]


async def test_without_consent_or_with_several_people_nothing_is_noted(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    for name, kept in (
        ("a", MemorySettings(flush_min_turns=0)),
        ("b", MemorySettings(flush_min_turns=1, write_approval=True)),
    ):
        async with journey(tmp_path / name, memory=kept) as chat:
            await talk(chat, "one", "two", "three")
            await command(chat, "/new", "New session")
            await settled(chat)
            assert not flushes(chat)
    shared = {"chat": "room", "kind": SourceKind.CHANNEL}
    async with journey(tmp_path) as chat:
        await talk(chat, "one", "two", user="u1", **shared)
        await talk(chat, "three", "four", user="u2", **shared)
        await command(chat, "/new", "New session", user="u2", **shared)
        await settled(chat)
        assert not flushes(chat), "a note would have to be one person's"


async def test_answers_that_may_repeat_words_from_outside_are_left_out(tmp_path: Path) -> None:
    async with journey(tmp_path) as chat:
        await talk(chat, "one", "fetch", "three")
        await command(chat, "/new", "New session")
        await settled(chat)
        assert flushes(chat) == ["Person: one\nPerson: fetch\nPerson: three"]
        assert notes(chat) == ["tea"]


async def test_deleting_a_session_leaves_no_notes_of_it(tmp_path: Path) -> None:
    async with journey(tmp_path) as chat:
        await talk(chat, "one", "two", "three")
        [session] = await chat.database.read(lambda tx: tx.sessions.find(""))
        await chat.database.write(lambda tx: tx.flushes.want(session.id, chat.clock.now()))
        await chat.gateway.delete_session(session.agent, session.id)
        await settled(chat)
        assert not flushes(chat)


@pytest.mark.parametrize("confirm", [False, True], ids=["at once", "confirmed"])
async def test_a_confirmed_new_session_flushes_too(tmp_path: Path, confirm: bool) -> None:
    more = {"approvals": ApprovalSettings(destructive_slash_confirm=confirm)}
    async with journey(tmp_path, more=more) as chat:
        await talk(chat, "one", "two", "three")
        if confirm:
            await command(chat, "/new", "Shall I begin a new session?")
            await command(chat, "yes", "New session")
        else:
            await command(chat, "/new", "New session")
        await settled(chat)
        assert notes(chat) == ["tea"]


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
async def test_a_flush_may_be_cut_off_anywhere(tmp_path: Path, full: bool, after: bool) -> None:
    async def live(chat: Journey) -> None:
        if not chat.world.updates:
            for text in ("one", "two", "three"):
                chat.world.write(f"/queue {text}")
            await chat.until_seen("You said: three")
        if not any(update.text == "/new" for update in _written(chat)):
            await chat.until_seen("You said: three")
            await chat.until_idle()
            chat.world.write("/new")
        await chat.until_seen("New session")
        await settled(chat)
        assert len(set(_keys(chat))) == 1, "it was noted, and by one call"
        assert len(await flush_sessions(chat)) == 1

    await cut_everywhere(tmp_path, journey, live, after=after, full=full)


def _written(chat: Journey) -> list[Any]:
    return list(chat.world.updates)


def _keys(chat: Journey) -> list[str]:
    return [logged.key for logged in chat.world.log if logged.deed is Deed.EFFECT]
