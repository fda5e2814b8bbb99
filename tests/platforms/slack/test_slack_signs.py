"""Signs beside messages: that it works, shown in threads and gone when it should be; what an app is told of
itself and its channels."""

from __future__ import annotations

import asyncio
import logging

import pytest

from hermes.control.feed import Feed
from hermes.control.outbound.delivery import ActivityIndicator
from hermes.domain.chats.address import Address
from hermes.domain.chats.message import Body
from hermes.domain.errors import NeedsLogin, Refused, Unreachable
from hermes.domain.ids import MAIN_AGENT, SessionId, TurnId
from hermes.domain.settings.live import LiveSettings
from hermes.domain.settings.settings import Settings
from hermes.domain.turns.turn import Cause, ReplyPlace, Turn, TurnInput
from hermes.domain.word import replace
from hermes.entry.platforms.slack import adapter, status
from hermes.entry.platforms.slack.convert import is_farewell, new_name
from hermes.entry.platforms.slack.status import SlackStatus
from hermes.testing.clock import FakeClock, settle
from hermes.testing.platform_suite import PATIENCE, Does, Inboxes, running, until
from tests.platforms.slack.bed import SlackBed
from tests.platforms.slack.methods import Wrong
from tests.platforms.slack.samples import CHANNEL, PAYLOADS
from tests.platforms.slack.samples import ME as BOT

STATUS = "assistant.threads.setStatus"


def asked(bed: SlackBed) -> list[str]:
    return [told["status"] for name, told in bed.server.calls if name == STATUS]


async def test_it_is_seen_in_a_thread_until_something_is_said_there() -> None:
    async with SlackBed() as bed:
        platform, inboxes = bed.connect(), Inboxes()
        async with running(platform, inboxes.accept, None):
            await bed.listening()
            root = bed.server.say(CHANNEL, f"<@{BOT}> work")
            await until(lambda: len(inboxes.items) == 1, "it never came")
            thread = inboxes.items[0].source.address
            assert thread.thread == root["ts"]
            for _ in range(3):
                await platform.typing(thread)
            assert asked(bed) == ["is thinking…"], "once is enough: Slack shows it for two minutes"
            assert list(bed.server.statuses) == [(CHANNEL, root["ts"])]
            sent = await platform.send(thread, Body(text="a draft"), key="k", reply_to=None)
            await platform.typing(thread)
            await platform.edit(sent, Body(text="an answer"))
            assert asked(bed) == ["is thinking…"] and not bed.server.statuses, "the draft shows it"
            bed.server.say(CHANNEL, "and now?", thread_ts=root["ts"])
            await until(lambda: len(inboxes.items) == 2, "it never came")
            await platform.typing(thread)
            assert bed.server.statuses, "somebody spoke, and it works again"
            await platform.edit(sent, Body(text="a better answer"))
            assert not bed.server.statuses, "Slack does not take it away for an edit"
            await platform.typing(bed.chat)
            assert len(asked(bed)) == 3, "outside of threads there is nothing to show"


async def test_it_is_refreshed_before_slack_ends_it() -> None:
    clock = FakeClock()
    async with SlackBed() as bed:
        platform = bed.connect()
        platform._status = SlackStatus(platform.api, clock)
        for _ in range(30):
            await platform.typing(bed.typing_chat())
            await clock.advance(4)
        assert len(asked(bed)) == 2
        await platform.api.close()


async def test_threads_are_not_remembered_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(status, "_MOST", 3)
    async with SlackBed() as bed:
        platform = bed.connect()
        for number in range(20):
            platform._status.speak(Address(platform="slack", chat=CHANNEL, thread=f"1700000000.{number:06}"))
        assert len(platform._status._spoke) <= 4
        await platform.api.close()


async def test_words_that_are_faster_than_the_sign_take_it_back() -> None:
    async with SlackBed() as bed:
        platform, thread = bed.connect(), bed.typing_chat()
        call = platform.api.call

        async def slow(method: str, **more: object) -> dict[str, object]:
            if more.get("status"):
                await platform.send(thread, Body(text="x"), key="k", reply_to=None)
            return await call(method, **more)

        platform.api.call = slow  # type: ignore[method-assign]
        await platform.typing(thread)
        assert asked(bed) == ["is thinking…", ""] and not bed.server.statuses
        await platform.api.close()


async def test_where_slack_refuses_it_is_not_asked_again(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    async with SlackBed() as bed:
        platform = bed.connect()
        nowhere = Address(platform="slack", chat=CHANNEL, thread="1700000000.000001")
        clock = FakeClock()
        turn = Turn(
            id=TurnId("t"),
            session=SessionId("s"),
            agent=MAIN_AGENT,
            cause=Cause.MESSAGE,
            input=TurnInput(text="hi"),
            created_at=clock.now(),
            reply=ReplyPlace(to=nowhere),
        )
        for _ in range(3):
            signs = ActivityIndicator(clock, LiveSettings(Settings()), lambda account: platform)
            signs.begin(turn, Feed(turn.id))
            await until(lambda: bool(asked(bed)), "it was never tried")
            await clock.advance(9)
            await settle()
            await signs.close()
        assert len(asked(bed)) == 1
        with pytest.raises(Refused):
            await platform.typing(replace(nowhere, thread="1700000000.000002"))

        def fast(told: object) -> dict[str, object]:
            raise Wrong("ratelimited")

        bed.server.m_assistant_threads_setStatus = fast  # type: ignore[method-assign]
        with pytest.raises(Unreachable):
            await platform.typing(bed.typing_chat())
        await platform.typing(bed.typing_chat())
        assert len(asked(bed)) == 3, "who is told to be slower is not heard again soon"
        await platform.api.close()
    assert not caplog.records


async def test_a_command_where_we_are_not_is_answered_in_private() -> None:
    clock, elsewhere = FakeClock(), Address(platform="slack", chat="C0ELSEWHERE")
    async with SlackBed() as bed:
        platform, inboxes = bed.connect(), Inboxes()
        platform._context = replace(platform._context, clock=clock)
        async with running(platform, inboxes.accept, None):
            await bed.listening()
            bed.server.command(elsewhere.chat, "/hermes", "status")
            await until(lambda: len(inboxes.items) == 1, "it never came")
            asked = inboxes.items[0].ref
            with pytest.raises(Refused, match="bot is not in it"):
                await platform.send(elsewhere, Body(text="a job's report"), key="j", reply_to=None)
            sent = await platform.send(elsewhere, Body(text="All is well."), key="k", reply_to=asked)
            await platform.send(elsewhere, Body(text="And more."), key="k1", reply_to=None)
            assert bed.server.asides == [
                {"text": text, "response_type": "ephemeral"} for text in ("All is well.", "And more.")
            ]
            with pytest.raises(Refused):
                await platform.edit(sent, Body(text="x"))
            bed.server.asides += bed.server.asides[:1] * 3
            with pytest.raises(Refused):
                await platform.send(elsewhere, Body(text="too often"), key="k2", reply_to=asked)
            bed.server.asides.clear()
            await clock.advance(1800)
            with pytest.raises(Refused, match="bot is not in it"):
                await platform.send(elsewhere, Body(text="too late"), key="k3", reply_to=asked)
            assert not bed.server.asides and not bed.shown()


@pytest.mark.parametrize("name", ["uninstalled", "revoked"])
async def test_an_app_that_was_thrown_out_says_so_at_once(name: str) -> None:
    async with SlackBed() as bed:
        inboxes = Inboxes()
        async with running(bed.connect(), inboxes.accept, None) as task:
            await bed.listening()
            bed.server.deliver("events_api", PAYLOADS[name], "old")
            await bed.do(Does.TEXT, "still here")
            await until(lambda: inboxes.texts == ["still here"], "an old farewell ends nothing")
            bed.server.token = "xoxb-another"
            bed.server.deliver("events_api", PAYLOADS[name], "new")
            with pytest.raises(NeedsLogin, match="install the app again"):
                await asyncio.wait_for(asyncio.shield(task), PATIENCE)


def test_farewells() -> None:
    assert is_farewell(PAYLOADS["uninstalled"]) and is_farewell(PAYLOADS["revoked"])
    others = {"type": "event_callback", "event": {"type": "tokens_revoked", "tokens": {"oauth": ["U1"]}}}
    for payload in (PAYLOADS["text"], others, None, {"event": 1}, {"event": {"type": "tokens_revoked"}}):
        assert not is_farewell(payload)


async def test_a_name_that_was_not_told_is_asked_for_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(adapter, "_NAME_SECONDS", 30.0)
    async with SlackBed() as bed:
        inboxes, told = Inboxes(), bed.server.m_users_info

        def fast(asked: object) -> dict[str, object]:
            bed.server.m_users_info = told  # type: ignore[method-assign]
            raise Wrong("ratelimited")

        bed.server.m_users_info = fast  # type: ignore[method-assign]
        async with running(bed.connect(), inboxes.accept, None):
            for number in range(3):
                await bed.do(Does.TEXT, str(number))
            await until(lambda: len(inboxes.items) == 3, "they never came")
        assert [item.source.user_name for item in inboxes.items] == [None, "Ann", "Ann"]
        assert len([one for one, _ in bed.server.calls if one == "users.info"]) == 2


async def test_a_renamed_channel_has_its_new_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(adapter, "_NAME_SECONDS", 30.0)
    assert new_name(PAYLOADS["renamed"]) == "crew"
    for payload in (PAYLOADS["text"], None, {"event": {"type": "channel_rename", "channel": CHANNEL}}):
        assert new_name(payload) == ""
    async with SlackBed() as bed:
        inboxes = Inboxes()
        async with running(bed.connect(), inboxes.accept, None):
            await bed.do(Does.MENTION, "one")
            bed.server.deliver("events_api", PAYLOADS["renamed"], "renamed")
            await bed.do(Does.MENTION, "two")
            await until(lambda: len(inboxes.items) == 2, "they never came")
        assert [item.source.chat_name for item in inboxes.items] == ["room-01", "crew"]
