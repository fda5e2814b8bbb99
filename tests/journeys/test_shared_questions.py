"""A question in a place that several people share is between the agent and who was asked: nobody else's words
answer it or withdraw it."""

from __future__ import annotations

from pathlib import Path

import pytest

from hermes.domain.ports.agent import ModelRequest
from hermes.domain.settings.settings import DisplaySettings
from hermes.domain.turns.event import Entry, ToolFinished, UserSaid
from hermes.domain.turns.turn import BusyMode
from hermes.testing.harness import Journey, open_settings
from hermes.testing.model import Say, call, last_words, say
from hermes.testing.world import Deed

CLARIFY = '{"question": "Which colour?", "options": ["red", "blue"]}'
MODES = list(BusyMode)


def journey(folder: Path, mode: BusyMode, kind: str = "plain") -> Journey:
    settings = open_settings(display=DisplaySettings(busy_input_mode=mode))
    return Journey(folder=folder, script=script, kind=kind, settings=settings)


def script(request: ModelRequest) -> Say:
    """Each message gets what it asks for, and else an answer."""
    results = [entry.record for entry in request.entries if isinstance(entry.record, ToolFinished)]
    since = [entry.record for entry in request.entries if isinstance(entry.record, UserSaid | ToolFinished)]
    if isinstance(since[-1], ToolFinished):
        return say(f"result: {results[-1].text}")
    words = last_words(request)
    if "delete it" in words:
        return call("danger", '{"token": "x"}', id=f"c{len(results)}")
    if "paint it" in words:
        return call("clarify", CLARIFY, id=f"c{len(results)}")
    return say(f"You said: {words}")


def write(chat: Journey, user: str, text: str, **more: object) -> None:
    chat.world.write(text, chat="7", kind="thread", thread="t", user=user, name=user.title(), **more)


async def open_questions(chat: Journey) -> int:
    return len(await chat.database.read(lambda tx: tx.questions.open_of(None)))


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("word", ["yes", "no", "sounds good", "always"])
async def test_words_of_others_leave_an_approval_to_who_was_asked(
    mode: BusyMode, word: str, tmp_path: Path
) -> None:
    async with journey(tmp_path, mode) as chat:
        write(chat, "ann", "delete it")
        await chat.until_seen("May I do x?")
        write(chat, "bob", word)
        write(chat, "cleo", "what is going on?", reply_to_us=True)
        await chat.until_taken()
        assert await open_questions(chat) == 1 and not chat.world.did(Deed.EFFECT)
        write(chat, "ann", "yes")
        await chat.until(lambda: bool(chat.world.did(Deed.EFFECT)))
        await chat.until_idle()
        assert len(chat.world.did(Deed.EFFECT)) == 1
        assert not any("ithdrawn" in seen or "stopped here" in seen for seen in chat.world.seen())
        heard = [entry.record.text for entry in await journal(chat) if isinstance(entry.record, UserSaid)]
        assert heard == ["delete it", word, "what is going on?"]


async def journal(chat: Journey) -> list[Entry]:
    sessions = await chat.database.read(lambda tx: tx.sessions.find(""))
    return await chat.database.read(lambda tx: tx.journal.read(sessions[0].id))


@pytest.mark.parametrize("mode", [BusyMode.INTERRUPT, BusyMode.STEER])
async def test_who_was_asked_withdraws_it_as_ever(mode: BusyMode, tmp_path: Path) -> None:
    async with journey(tmp_path, mode) as chat:
        write(chat, "ann", "delete it")
        await chat.until_seen("May I do x?")
        write(chat, "bob", "wait")
        await chat.until_taken()
        write(chat, "ann", "rather not, how are you?")
        await chat.until(lambda: any("how are you?" in seen for seen in chat.world.seen()))
        await chat.until_idle()
        assert await open_questions(chat) == 0 and not chat.world.did(Deed.EFFECT)


@pytest.mark.parametrize("mode", MODES)
async def test_a_clarification_is_answered_by_who_was_asked(mode: BusyMode, tmp_path: Path) -> None:
    async with journey(tmp_path, mode) as chat:
        write(chat, "ann", "paint it")
        await chat.until_seen("Which colour?")
        write(chat, "bob", "2")
        await chat.until_taken()
        assert await open_questions(chat) == 1
        write(chat, "ann", "1")
        await chat.until(lambda: len(chat.model.requests) > 1)
        await chat.until_idle()
        results = [one.record.text for one in await journal(chat) if isinstance(one.record, ToolFinished)]
        assert results == ["red"]


@pytest.mark.parametrize("mode", [BusyMode.INTERRUPT, BusyMode.STEER])
async def test_it_is_the_same_after_a_restart(mode: BusyMode, tmp_path: Path) -> None:
    first = journey(tmp_path, mode)
    async with first as chat:
        write(chat, "ann", "delete it")
        await chat.until_seen("May I do x?")
        write(chat, "bob", "yes")
        await chat.until_taken()
        await chat.abandon()
    second = Journey(folder=tmp_path, script=script, kind="plain", world=first.world, settings=first.settings)
    async with second as chat:
        assert await open_questions(chat) == 1
        write(chat, "ann", "/approve")
        await chat.until(lambda: bool(chat.world.did(Deed.EFFECT)))
        await chat.until_idle()
        assert len(chat.world.did(Deed.EFFECT)) == 1
        assert not any("ithdrawn" in seen or "stopped here" in seen for seen in chat.world.seen())


async def test_what_waited_is_answered_when_nobody_decides(tmp_path: Path) -> None:
    """A denial lets those go on who wrote meanwhile, in their order."""
    async with journey(tmp_path, BusyMode.INTERRUPT) as chat:
        write(chat, "ann", "delete it")
        await chat.until_seen("May I do x?")
        write(chat, "bob", "hello")
        write(chat, "cleo", "me too")
        await chat.until_taken()
        write(chat, "ann", "no")
        await chat.until(lambda: any("me too" in seen for seen in chat.world.seen()))
        await chat.until_idle()
        assert not chat.world.did(Deed.EFFECT)
        answers = [seen for seen in chat.world.seen() if seen.startswith(("result", "You said"))]
        assert [answer.split()[-1] for answer in answers][-2:] == ["hello", "too"]
