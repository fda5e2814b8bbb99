"""Approvals and clarifications: parked as rows, answered by words, commands or buttons, once."""

from __future__ import annotations

from pathlib import Path

import pytest

from hermes.domain.settings.settings import ApprovalSettings
from hermes.testing.clock import FakeClock
from hermes.testing.harness import Journey, open_settings
from hermes.testing.model import call, say
from hermes.testing.world import Deed

DANGER = [call("danger", '{"token": "x"}'), say("it is done")]


@pytest.mark.parametrize("word", ["yes", "Yes!", "ok", "/approve", "👍", "session"])
async def test_a_yes_lets_the_tool_run(tmp_path: Path, word: str) -> None:
    async with Journey(folder=tmp_path, script=DANGER, kind="plain") as chat:
        chat.world.write("do it")
        await chat.until_seen("May I do x?")
        assert not chat.world.did(Deed.EFFECT)
        await chat.until(lambda: len(chat.gateway.feeds) == 0)
        chat.world.write(word)
        await chat.until_seen("it is done")
        await chat.until_idle()
        assert len(chat.world.did(Deed.EFFECT)) == 1


async def test_what_is_asked_is_shown_sign_by_sign(tmp_path: Path) -> None:
    """Nothing in an action is taken for markup: `rm *a* b` is not shown as `rm a b`."""
    script = [call("danger", '{"token": "rm *a* b_c_d [ls](https://x.example)"}'), say("it is done")]
    async with Journey(folder=tmp_path, script=script, kind="plain") as chat:
        chat.world.write("do it")
        await chat.until_seen("May I do rm *a* b_c_d [ls](https://x.example)?")


@pytest.mark.parametrize("word", ["no", "/deny too risky"])
async def test_a_no_keeps_the_tool_from_running(tmp_path: Path, word: str) -> None:
    async with Journey(folder=tmp_path, script=DANGER, kind="plain") as chat:
        chat.world.write("do it")
        await chat.until_seen("May I do x?")
        chat.world.write(word)
        await chat.until_seen("it is done")
        await chat.until_idle()
        assert not chat.world.did(Deed.EFFECT)


async def test_a_button_answers_and_a_second_press_is_told_the_true_state(tmp_path: Path) -> None:
    async with Journey(folder=tmp_path, script=DANGER) as chat:
        chat.world.write("do it")
        await chat.until_seen("May I do x?")
        prompt = next(message for message in chat.world.messages.values() if message.buttons)
        once = next(value for value in prompt.buttons if value.endswith(":once"))
        chat.world.write("", button=once)
        await chat.until_seen("it is done")
        chat.world.write("", button=once)
        await chat.until_seen("already answered")
        await chat.until_idle()
        assert len(chat.world.did(Deed.EFFECT)) == 1


async def test_another_person_cannot_answer(tmp_path: Path) -> None:
    async with Journey(folder=tmp_path, script=DANGER) as chat:
        chat.world.write("do it", chat="7", user="owner")
        await chat.until_seen("May I do x?")
        prompt = next(message for message in chat.world.messages.values() if message.buttons)
        chat.world.write("", button=prompt.buttons[0], chat="7", user="stranger")
        await chat.until_seen("Only the person who was asked")
        assert not chat.world.did(Deed.EFFECT)


async def test_other_words_withdraw_the_question_and_are_answered(tmp_path: Path) -> None:
    script = [call("danger", '{"token": "x"}'), say("as you like")]
    async with Journey(folder=tmp_path, script=script, kind="plain") as chat:
        chat.world.write("do it")
        await chat.until_seen("May I do x?")
        chat.world.write("forget it, what time is it?")
        await chat.until_seen("as you like")
        chat.world.write("/approve")
        await chat.until_seen("Nothing waits for a decision.")
        assert not chat.world.did(Deed.EFFECT)


async def test_the_answer_of_a_clarification_is_the_tools_result(tmp_path: Path) -> None:
    question = '{"question": "Which colour?", "options": ["red", "blue"]}'
    script = [call("clarify", question), say("I heard you")]
    async with Journey(folder=tmp_path, script=script, kind="plain") as chat:
        chat.world.write("paint it")
        await chat.until_seen("Which colour?")
        chat.world.write("2")
        await chat.until_seen("I heard you")
        results = [entry.record for entry in chat.model.requests[-1].entries]
        assert any(getattr(record, "text", "") == "blue" for record in results)


async def test_silence_denies_after_the_time_is_over(tmp_path: Path) -> None:
    clock = FakeClock()
    settings = open_settings(approvals=ApprovalSettings(timeout=600.0))
    async with Journey(folder=tmp_path, script=DANGER, kind="plain", clock=clock, settings=settings) as chat:
        chat.world.write("do it")
        await chat.until_seen("May I do x?")
        await clock.advance(590)
        assert not any("done" in text for text in chat.world.seen())
        await clock.advance(20)
        await chat.until_seen("it is done")
        assert not chat.world.did(Deed.EFFECT)
        chat.world.write("yes")
        await chat.until_idle()
        assert not chat.world.did(Deed.EFFECT)


async def test_a_session_grant_is_not_asked_again(tmp_path: Path) -> None:
    script = [
        call("danger", '{"token": "x"}', id="c1"),
        say("first time"),
        call("danger", '{"token": "x"}', id="c2"),
        say("second time"),
    ]
    async with Journey(folder=tmp_path, script=script, kind="plain") as chat:
        chat.world.write("do it")
        await chat.until_seen("May I do x?")
        chat.world.write("session")
        await chat.until_seen("first time")
        chat.world.write("again")
        await chat.until_seen("second time")
        assert len(chat.world.did(Deed.EFFECT)) == 2
        assert sum("May I" in text for text in chat.world.seen()) == 1
