"""A question that is over loses its buttons, wherever and however it ended, and says so."""

from __future__ import annotations

from pathlib import Path

import pytest

from hermes.control.outbound.question_messages import closed_body
from hermes.domain.chats.address import Address
from hermes.domain.chats.capabilities import Capabilities
from hermes.domain.chats.message import Body
from hermes.domain.chats.rows import OutboxRow
from hermes.domain.errors import HermesError, Refused, Unreachable
from hermes.domain.ids import AgentId, QuestionId
from hermes.domain.settings.settings import ApprovalSettings
from hermes.domain.turns.event import ToolFinished, Verdict
from hermes.domain.turns.turn import Answer
from hermes.testing.clock import FakeClock
from hermes.testing.harness import Journey, open_settings
from hermes.testing.model import call, say
from hermes.testing.world import Message

DANGER = [call("danger", '{"token": "x"}'), say("it is done")]


def prompt(chat: Journey) -> Message:
    return next(message for message in chat.world.messages.values() if "May I do x?" in message.text)


async def asked(chat: Journey) -> Message:
    chat.world.write("do it", name="Ann")
    await chat.until_seen("May I do x?")
    assert prompt(chat).buttons
    return prompt(chat)


async def closed(chat: Journey, words: str) -> None:
    await chat.until(lambda: prompt(chat).text.endswith(words) and not prompt(chat).buttons)


@pytest.mark.parametrize(
    ("option", "words"),
    [
        ("once", "✅ Approved by Ann B."),
        ("session", "✅ Approved for this session by Ann B."),
        ("always", "✅ Approved from now on by Ann B."),
        ("deny", "🚫 Denied by Ann B."),
    ],
)
async def test_a_press_takes_the_buttons_away_and_says_whose_it_was(
    tmp_path: Path, option: str, words: str
) -> None:
    async with Journey(folder=tmp_path, script=DANGER) as chat:
        message = await asked(chat)
        value = next(one for one in message.buttons if one.endswith(option))
        chat.world.write("", button=value, name="*Ann*\n[B]")
        await chat.until_seen("it is done")
        await closed(chat, words)
        await chat.until_idle()
        assert chat.world.seen() == [f"May I do x?\n\n{words}", "it is done"], "and nothing is said twice"
        place = Address(platform="fake", chat="1")
        said = await chat.store.read(lambda tx: tx.talk.sent(place, message.ref))
        assert said == "May I do x?", "who replies to it replies to what was asked"


async def test_a_strangers_press_leaves_them(tmp_path: Path) -> None:
    async with Journey(folder=tmp_path, script=DANGER) as chat:
        message = await asked(chat)
        chat.world.write("", button=message.buttons[0], user="stranger")
        await chat.until_seen("Only the person who was asked")
        assert prompt(chat).buttons and prompt(chat).text == "May I do x?"


@pytest.mark.parametrize(
    ("word", "words"), [("yes", "✅ Approved by Ann."), ("/deny too risky", "🚫 Denied by Ann.")]
)
async def test_words_and_commands_do_so_too(tmp_path: Path, word: str, words: str) -> None:
    async with Journey(folder=tmp_path, script=DANGER) as chat:
        await asked(chat)
        chat.world.write(word, name="Ann")
        await chat.until_seen("it is done")
        await closed(chat, words)


async def test_the_chosen_option_stands_below_what_was_asked(tmp_path: Path) -> None:
    question = '{"question": "May I do x? How?", "options": ["fast", "with *care*"]}'
    async with Journey(folder=tmp_path, script=[call("clarify", question), say("I heard you")]) as chat:
        chat.world.write("do it")
        await chat.until_seen("How?")
        chat.world.write("2", name="Ann")
        await chat.until_seen("I heard you")
        await closed(chat, "💬 Ann: with care")


async def test_an_answer_at_another_door_closes_it_here(tmp_path: Path) -> None:
    async with Journey(folder=tmp_path, script=DANGER) as chat:
        message = await asked(chat)
        question = QuestionId(message.buttons[0].partition(":")[0])
        given = Answer(question=question, verdict=Verdict.DENY, by="u1")
        found = await chat.gateway.answer(AgentId("main"), given)
        assert found.closed, found.text
        await chat.until_seen("it is done")
        await closed(chat, "🚫 Denied.")


async def test_other_words_close_it(tmp_path: Path) -> None:
    async with Journey(folder=tmp_path, script=DANGER) as chat:
        await asked(chat)
        chat.world.write("forget it")
        await closed(chat, "↩️ Withdrawn.")


async def test_where_there_are_no_buttons_it_is_said_once_that_other_words_withdrew_it(
    tmp_path: Path,
) -> None:
    script = [*DANGER[:1], say("as you like")]
    async with Journey(folder=tmp_path, script=script, kind="plain") as chat:
        chat.world.write("do it")
        await chat.until_seen("May I do x?")
        chat.world.write("Yes, please do")
        await chat.until_seen("as you like")
        await chat.until_idle()
        seen = chat.world.seen()
        assert [text.startswith("↩️ The question above is withdrawn") for text in seen] == [False, True, False]


async def test_a_pressed_denial_is_told_to_the_agent_without_a_reason(tmp_path: Path) -> None:
    async with Journey(folder=tmp_path, script=DANGER) as chat:
        message = await asked(chat)
        chat.world.write("", button=next(one for one in message.buttons if one.endswith("deny")))
        await chat.until_seen("it is done")
        records = [entry.record for entry in chat.model.requests[-1].entries]
        assert [one.text for one in records if isinstance(one, ToolFinished)] == ["Denied by the user."]


async def test_silence_closes_it(tmp_path: Path) -> None:
    clock = FakeClock()
    settings = open_settings(approvals=ApprovalSettings(timeout=5.0))
    async with Journey(folder=tmp_path, script=DANGER, clock=clock, settings=settings) as chat:
        await asked(chat)
        await clock.advance(8)
        await closed(chat, "⌛ Nobody answered in time.")


async def test_it_comes_about_after_a_kill(tmp_path: Path) -> None:
    async with Journey(folder=tmp_path, script=DANGER) as chat:
        message = await asked(chat)
        chat.world.trouble = lambda what, where: Unreachable("later") if what == "edit" else None
        chat.world.write("", button=message.buttons[0], name="Ann")
        await chat.until_taken()
        await chat.abandon()
        chat.world.trouble = None
        again = Journey(folder=tmp_path, script=DANGER[1:], world=chat.world)
        async with again:
            await again.until_seen("it is done")
            await closed(again, "✅ Approved by Ann.")


async def test_a_prompt_that_cannot_be_edited_holds_nothing_up(tmp_path: Path) -> None:
    def refuse(what: str, where: str) -> HermesError | None:
        return Refused("too old") if what == "edit" else None

    async with Journey(folder=tmp_path, script=DANGER) as chat:
        message = await asked(chat)
        chat.world.trouble = refuse
        chat.world.write("", button=message.buttons[0])
        await chat.until_seen("it is done")
        await chat.until_idle()
        assert chat.gateway.counters.undeliverable == 0, "nobody is told of it"


def test_a_long_prompt_is_cut_so_that_it_stays_one_message() -> None:
    able = Capabilities(max_text=2000)
    row = OutboxRow(
        key="q:0",
        to=Address(platform="fake", chat="1"),
        body=Body(text="word " * 399),
        created_at=FakeClock().now(),
    )
    text = closed_body(row, Body(text="🚫 Denied.", replaces="q:0"), able).text
    assert len(text) <= 2000 and text.endswith("word\n\n…\n\n🚫 Denied.") and text.startswith("word word")
