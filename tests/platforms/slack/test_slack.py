"""Slack: the suite that every adapter passes, with a socket and with calls, and what is Slack's own."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from typing import Any

import aiohttp
import pytest

from hermes.domain.chats.address import Address, SourceKind
from hermes.domain.chats.message import Inbound, InboundKind, MediaKind
from hermes.domain.errors import NeedsLogin, Unreachable
from hermes.domain.word import replace
from hermes.entry.platforms.slack.adapter import SlackAdapter
from hermes.entry.platforms.slack.catch_up import OVERLAP, WEEK, SlackCursor
from hermes.entry.platforms.slack.convert import is_elsewhere, to_inbounds
from hermes.testing.clock import FakeClock, QuickClock
from hermes.testing.platform_suite import (
    CHECKS,
    PATIENCE,
    RECEIVING,
    Check,
    Does,
    Fault,
    Inboxes,
    conform,
    hosted,
    running,
    until,
)
from tests.platforms.slack.bed import ME, NOW, EventsBed, SlackBed
from tests.platforms.slack.samples import ANN, CHANNEL, DM, GROUP, PAYLOADS


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
async def test_slack_conforms(check: Check, full: bool) -> None:
    await conform(check, SlackBed, full=full)


@pytest.mark.parametrize("check", RECEIVING[:-1], ids=lambda check: check.__name__)
async def test_calls_conform(check: Check, full: bool) -> None:
    await conform(check, EventsBed, full=full)


# --- what people do ---


def one(name: str, **more: Any) -> Inbound:
    (found,) = to_inbounds(PAYLOADS[name], replace(ME, **more), NOW)
    return found


@pytest.mark.parametrize(
    ("name", "text", "mentioned"),
    [
        ("text", "hello <b>&amp; *you* 😀", False),
        ("mention", "what now?", True),
        ("mention inside", "ask @hermes & @Bob", True),
        ("app mention", "what now?", True),
        (
            "links",
            "see the page (https://example.invalid/?a=1&b=2), example.invalid, https://example.invalid/x,"
            " a@example.invalid in #general @here @ops",
            False,
        ),
        ("a webhook", "disk full", False),
        ("command", "/status now", True),
        ("forwarded", "please answer this\n\n[Forwarded from Bob]\n@hermes when is it & where?", False),
        ("forwarded alone", "[Forwarded from Bob]\n!new", False),
    ],
)
def test_words_and_mentions(name: str, text: str, mentioned: bool) -> None:
    assert (one(name).text, one(name).mentions_me) == (text, mentioned)


@pytest.mark.parametrize(
    ("command", "text", "line"),
    [
        ("/hermes", "", "/help"),
        ("/hermes", "/new", "/new"),
        ("/hermes", "!new &amp; more", "/new & more"),
        ("/status", " all ", "/status all"),
        ("/hermes-status", "all", "/status all"),
    ],
)
def test_slash_commands(command: str, text: str, line: str) -> None:
    payload = {**PAYLOADS["command"], "command": command, "text": text}
    (found,) = to_inbounds(payload, ME, NOW)
    assert found.text == line and found.ref == found.delivery


@pytest.mark.parametrize(
    ("name", "kind", "mime"),
    [
        ("file", MediaKind.FILE, "text/plain"),
        ("image", MediaKind.IMAGE, "image/png"),
        ("voice", MediaKind.VOICE, "audio/webm"),
        ("video clip", MediaKind.VIDEO, "video/mp4"),
        ("forwarded", MediaKind.FILE, "text/plain"),
    ],
)
def test_files(name: str, kind: MediaKind, mime: str) -> None:
    (file,) = one(name).attachments
    assert (file.kind, file.mime, file.ref, file.size) == (kind, mime, "F04EEHX1EES", 12)


def test_files_of_other_workspaces_are_looked_up_later() -> None:
    (file,) = one("shared from elsewhere").attachments
    assert (file.ref, file.kind, file.size) == ("F12345678", MediaKind.FILE, None)
    assert one("deleted file").attachments == ()


def test_places_and_people() -> None:
    private = one("text").source
    assert (private.kind, private.user, private.user_name) == (SourceKind.PRIVATE, ANN, "Ann")
    assert one("group").source.kind is SourceKind.GROUP
    thread = one("thread").source
    assert thread.address == Address(platform="slack", chat=CHANNEL, thread="1792999999.000100")
    assert (thread.kind, thread.parent_chat, thread.chat_name) == (SourceKind.THREAD, CHANNEL, "team")
    assert one("root of a thread").source.kind is SourceKind.CHANNEL
    assert one("another bot").source.is_bot and not one("text").source.is_bot
    assert (one("a webhook").source.user, one("a webhook").source.user_name) == ("B0OTHER0002", "Alerts")
    assert one("button").source.address.thread == "1793000000.000200"
    assert one("a stranger").source.user == "U0STRANGER1" and one("of the grid").source.user == "W0GRID00001"
    helped = one("in an assistant's thread").source
    assert (helped.kind, helped.address.thread) == (SourceKind.PRIVATE, "1793000000.000100")


def test_who_mentions_it_is_answered_in_a_thread_or_not() -> None:
    assert one("mention").source.address.thread == "1793000000.000200"
    flat = one("mention", reply_in_thread=False).source
    assert (flat.address.thread, flat.kind) == (None, SourceKind.CHANNEL)


def test_other_happenings() -> None:
    assert one("reply to us").reply_to is not None and one("reply to us").reply_to.mine
    assert one("thread").reply_to is None, "whose thread it is tells nothing new"
    assert (one("edit").what, one("edit").text) == (InboundKind.EDIT, "first")
    assert (one("reaction").what, one("reaction").text) == (InboundKind.REACTION, "👍")
    assert one("joined").what is InboundKind.JOINED and one("left").what is InboundKind.LEFT
    silent = (
        "an assistant's thread",
        "an assistant's title",
        "renamed",
        "archived",
        "uninstalled",
        "revoked",
    )
    for name in ("deleted", "headstone"):
        assert (one(name).what, one(name).text, one(name).source.user) == (InboundKind.DELETED, "", None)
    assert (one("deleted").ref, one("headstone").ref) == ("1793000000.000200", "1793000000.000400")
    for name in ("ours", "preview", "ours deleted", "topic", "view", *silent):
        assert to_inbounds(PAYLOADS[name], ME, NOW) == (), name


def test_a_mention_counts_once_though_it_is_told_twice() -> None:
    assert one("mention").delivery == one("app mention").delivery
    assert one("mention").source == one("app mention").source


# --- what was missed ---


def at(platform: SlackAdapter, clock: Any) -> SlackAdapter:
    platform._context = replace(platform._context, clock=clock)
    return platform


async def listened(bed: SlackBed) -> Inboxes:
    """Somebody listened once, so there is a cursor."""
    inboxes = Inboxes()
    async with hosted(bed, inboxes):
        await bed.do(Does.TEXT, "first")
        await until(lambda: inboxes.texts == ["first"] and inboxes.cursor is not None, "it never came")
    inboxes.items.clear()
    # As if it had been a while ago: nothing of before is read again.
    inboxes.cursor = bed.server.moment()
    return inboxes


async def test_answers_in_old_threads_edits_and_new_chats_are_found() -> None:
    async with SlackBed() as bed:
        server = bed.server
        root = server.say(CHANNEL, "an old root", user="U0BOB000001")
        old = server.say(DM, "frist")
        inboxes = await listened(bed)
        for number in range(7):
            server.say(CHANNEL, f"in the thread {number}", thread_ts=root["ts"])
        server.edit(DM, old, "first!")
        changed = server.say(DM, "nwe")
        changed |= {"text": "new", "edited": {"user": ANN, "ts": server.moment()}}
        server.say(server.room("G0SECRET001", "group"), f"<@{server.bot_user}> hi")
        server.page = 3
        async with hosted(bed, inboxes):
            await until(lambda: len(inboxes.items) >= 10, lambda: f"got {inboxes.texts}")
        found = {(item.source.address.chat, item.what, item.text) for item in inboxes.items}
        assert {(DM, InboundKind.EDIT, "first!"), (DM, InboundKind.MESSAGE, "new")} <= found
        assert ("G0SECRET001", InboundKind.MESSAGE, "hi") in found
        inside = [item.text for item in inboxes.items if item.source.address.thread == root["ts"]]
        assert inside == [f"in the thread {number}" for number in range(7)]
        assert "first" not in inboxes.texts and "an old root" not in inboxes.texts


async def test_the_mark_stands_still_until_everything_is_read() -> None:
    """Whoever is stopped while reading what was missed reads it again."""
    async with SlackBed() as bed:
        inboxes = await listened(bed)
        before = inboxes.cursor
        bed.server.say(DM, "in the dark")
        bed.server.say(CHANNEL, "in the dark too")
        stopped = asyncio.Event()

        async def accept(items: Sequence[Inbound], cursor: str | None) -> None:
            if any(item.text == "in the dark too" for item in items):
                stopped.set()
                raise Unreachable("nothing can be stored")
            await inboxes.accept(items, cursor)

        async with running(bed.connect(), accept, before) as task:
            await stopped.wait()
            await asyncio.wait((task,), timeout=PATIENCE)
        assert inboxes.cursor == before, "the mark went past what is not stored"
        async with hosted(bed, inboxes):
            await until(lambda: len(inboxes.items) >= 2, "it was not read again")
            await until(lambda: inboxes.cursor != before or bed.server.opened > 2, "the mark never moves")
        assert sorted(inboxes.texts) == ["in the dark", "in the dark too"]


def test_the_mark_goes_behind_what_was_seen() -> None:
    mark = SlackCursor.of(None, 1000.0)
    mark.saw(1030.0)
    assert mark.cursor == "1000.000000", "not before the first start"
    mark.saw(2000.5)
    assert mark.cursor == f"{2000.5 - OVERLAP:.6f}"
    mark.saw(1500.0)
    assert SlackCursor.of(mark.cursor, 0.0).since == 2000.5 - OVERLAP
    assert SlackCursor.of("nonsense", 7.0).since == 7.0
    assert SlackCursor.of(mark.cursor, 9_000_000.0).since == 9_000_000.0 - WEEK, "a month ago is long ago"


async def test_a_missing_permission_hides_its_own_chats_only(caplog: pytest.LogCaptureFixture) -> None:
    async with SlackBed() as bed:
        inboxes = await listened(bed)
        bed.server.scopes = tuple(scope for scope in bed.server.scopes if scope != "mpim:read")
        bed.server.say(GROUP, "unseen")
        bed.server.say(CHANNEL, "seen")
        async with hosted(bed, inboxes):
            await until(lambda: inboxes.texts == ["seen"], lambda: f"got {inboxes.texts}")
        assert "mpim:read" in caplog.text


async def test_reading_what_was_missed_keeps_the_pace_that_slack_asks_for() -> None:
    async with SlackBed() as bed:
        inboxes = await listened(bed)
        bed.server.say(DM, "in the dark")
        clock = QuickClock()
        answer, told = bed.server.answer, 0

        def slow(method: str, asked: dict[str, Any]) -> dict[str, Any]:
            nonlocal told
            if method == "conversations.history" and told < 3:
                told += 1
                bed.server.fail(Fault.TOO_FAST, 0, False, None)
                from tests.platforms.slack.methods import Wrong

                raise Wrong("ratelimited")
            return answer(method, asked)

        bed.server.answer = slow  # type: ignore[method-assign]
        async with running(at(bed.connect(), clock), inboxes.accept, inboxes.cursor):
            await until(lambda: inboxes.texts == ["in the dark"], "it gave up")
        assert told == 3


# --- the socket ---


async def test_the_connection_is_renewed_when_slack_wants_it() -> None:
    async with SlackBed() as bed:
        inboxes, clock = Inboxes(), FakeClock()
        async with running(at(bed.connect(), clock), inboxes.accept, None) as task:
            for number in range(1, 4):
                await until(lambda: bed.server.opened == number, "no new connection")  # noqa: B023
                await bed.do(Does.TEXT, f"heard {number}")
                await until(lambda: f"heard {number}" in inboxes.texts, "it never came")  # noqa: B023
                await clock.advance(3600)
                bed.server.disconnect("refresh_requested")
                bed.server.say(DM, f"between {number}")
            await until(lambda: len(inboxes.items) == 6, lambda: f"got {inboxes.texts}")
            assert not task.done()


async def test_somebody_listens_while_the_connection_is_renewed() -> None:
    """The new connection is not greeted yet: what is pressed meanwhile comes by the old one."""
    async with SlackBed() as bed:
        inboxes, clock, server = Inboxes(), FakeClock(), bed.server
        platform = at(bed.connect(), clock)
        platform.api.answer_seconds = 60.0
        async with running(platform, inboxes.accept, None):
            await bed.do(Does.TEXT, "before")
            await until(lambda: inboxes.texts == ["before"], "it never came")
            await clock.advance(3600)
            (old,) = server.sockets
            server.greets = False
            server.disconnect("warning")
            await until(lambda: server.opened == 2, "no new connection")
            server.sockets.append(old)
            server.command(DM, "/hermes", "status")
            await until(lambda: "/status" in inboxes.texts, "it was told to nobody")
            await until(lambda: not server._envelopes, "it was not acknowledged")
            new = server.sockets[0]
            await new.send_json({"type": "hello"})
            await until(lambda: old.closed and not new.closed, "the old one is not left")
            server.sockets[:] = [new]
            await bed.do(Does.TEXT, "after")
            await until(lambda: "after" in inboxes.texts, "it never came")


async def test_a_repeat_of_slack_counts_once_and_is_acknowledged() -> None:
    async with SlackBed() as bed:
        inboxes = Inboxes()
        async with running(bed.connect(), inboxes.accept, None):
            await bed.do(Does.TEXT, "once")
            await until(lambda: inboxes.texts == ["once"], "it never came")
            told = {"retry_attempt": 1, "retry_reason": "timeout", "type": "events_api"}
            again = {**told, "envelope_id": "env-again", "payload": bed.server.events[-1]}
            await bed.server.sockets[-1].send_json(again)
            await until(lambda: {"envelope_id": "env-again"} in bed.server.answers, "it would come again")
        assert inboxes.texts == ["once"]


# --- other workspaces ---


def _installed(payload: dict[str, Any], team: str, **more: Any) -> dict[str, Any]:
    return {**payload, "authorizations": [{"team_id": team, "is_bot": True}], **more}


@pytest.mark.parametrize(
    ("payload", "elsewhere"),
    [
        (PAYLOADS["text"], False),
        ({**PAYLOADS["text"], "team_id": "T0OTHER0001"}, True),
        (_installed(PAYLOADS["text"], "T0OTHER0001"), True),
        (_installed(PAYLOADS["text"], "T0FAKETEAM1", team_id="T0OTHER0001"), False),
        (_installed(PAYLOADS["text"], "T0OTHER0001", is_ext_shared_channel=True), False),
        ({**PAYLOADS["command"], "team_id": "T0OTHER0001"}, True),
        (PAYLOADS["button"], False),
        ({**PAYLOADS["button"], "message": {"user": "U0ELSEWHERE"}}, True),
        ({**PAYLOADS["button"], "team": {"id": "T0OTHER0001"}}, False),
        ({"type": "event_callback", "authorizations": [None], "event": {}}, False),
        ({"type": "event_callback", "authorizations": {}, "team_id": ["T"], "event": {}}, False),
        ([], False),
    ],
)
def test_what_is_told_to_the_app_elsewhere(payload: Any, elsewhere: bool) -> None:
    assert is_elsewhere(payload, ME) == elsewhere


async def test_what_another_workspace_says_is_nobodys_here(caplog: pytest.LogCaptureFixture) -> None:
    """Slack tells it again to another connection of the app, if it is not acknowledged."""
    async with SlackBed() as bed:
        inboxes = Inboxes()
        async with running(bed.connect(), inboxes.accept, None):
            await bed.server.reached.wait()
            bed.server.deliver("events_api", _installed(PAYLOADS["text"], "T0OTHER0001"), "theirs")
            await bed.do(Does.TEXT, "ours")
            await until(lambda: bool(bed.server.answers), "not acknowledged")
        assert inboxes.texts == ["ours"] and len(bed.server.answers) == 1
        assert "theirs" not in bed.server.acked and "slack.other_workspace" in caplog.text


async def test_an_app_of_a_whole_organisation_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    async with SlackBed() as bed:
        told = bed.server.m_auth_test({})
        monkeypatch.setattr(bed.server, "m_auth_test", lambda asked: {**told, "is_enterprise_install": True})
        for ask in (bed.connect().check(), bed.connect().run(Inboxes().accept, None)):
            with pytest.raises(NeedsLogin, match="install it in a workspace"):
                await ask


async def test_no_storm_of_connections() -> None:
    async with SlackBed() as bed:
        async with running(at(bed.connect(), FakeClock()), Inboxes().accept, None) as task:
            await bed.server.reached.wait()
            bed.server.disconnect("warning")
            with pytest.raises(Unreachable, match="again and again"):
                await asyncio.wait_for(asyncio.shield(task), PATIENCE)
        assert bed.server.opened == 1


@pytest.mark.parametrize(
    ("reason", "error", "words"),
    [
        ("link_disabled", NeedsLogin, "switched off"),
        ("too_many_websockets", Unreachable, "Too many programs"),
    ],
)
async def test_slack_ends_the_connection(reason: str, error: type[Exception], words: str) -> None:
    async with SlackBed() as bed:
        async with running(bed.connect(), Inboxes().accept, None) as task:
            await bed.server.reached.wait()
            bed.server.disconnect(reason)
            with pytest.raises(error, match=words):
                await asyncio.wait_for(asyncio.shield(task), PATIENCE)


async def test_what_cannot_be_read_is_acknowledged_and_left_out() -> None:
    async with SlackBed() as bed:
        inboxes = Inboxes()
        async with running(bed.connect(), inboxes.accept, None):
            await bed.server.reached.wait()
            for payload in ({}, {"type": "event_callback", "event": None}, PAYLOADS["view"]):
                bed.server.deliver("events_api", payload, "odd")
            await bed.server.sockets[0].send_str("no json")
            await bed.do(Does.TEXT, "good")
            await until(lambda: inboxes.texts == ["good"], "it never came")
            await until(lambda: len(bed.server.answers) == 4, "not acknowledged")
        assert all(list(answer) == ["envelope_id"] for answer in bed.server.answers)


async def test_a_silent_socket_tells_that_it_lives() -> None:
    async with SlackBed() as bed:
        inboxes, platform = Inboxes(), bed.connect()
        platform.quiet_seconds = 0.01
        async with running(platform, inboxes.accept, None):
            await until(lambda: inboxes.batches > 3, "no sign of life")


async def test_a_socket_without_a_greeting_is_left() -> None:
    async with SlackBed() as bed:
        bed.hang(True)
        bed.server.greets = False
        with pytest.raises(Unreachable, match="says nothing"):
            await bed.connect().run(Inboxes().accept, None)


# --- the door ---


async def test_nobody_else_speaks_for_slack() -> None:
    async with EventsBed() as bed, aiohttp.ClientSession() as session:
        inboxes, server = Inboxes(), bed.server

        async def posted(body: bytes, headers: dict[str, str]) -> tuple[int, str]:
            kind = {"Content-Type": "application/json"}
            async with session.post(server.events_url, data=body, headers={**kind, **headers}) as response:
                return response.status, await response.text()

        async with running(bed.connect(), inboxes.accept, None):
            await bed.do(Does.TEXT, "true")
            await until(lambda: inboxes.texts == ["true"], "it never came")
            body = json.dumps(server.events[0]).encode()
            good = server.signed(body)
            old = server.signed(body, int(good["X-Slack-Request-Timestamp"]) - 301)
            for bad in (
                {},
                {**good, "X-Slack-Signature": "v0=" + "0" * 64},
                {**good, "X-Slack-Request-Timestamp": "١٢٣"},
                {**old},
                {**good, "X-Slack-Request-Timestamp": old["X-Slack-Request-Timestamp"]},
            ):
                assert (await posted(body, bad))[0] == 403
            assert (await posted(body + b" ", good))[0] == 403
            assert (await posted(body, good))[0] == 200, "a repeat is taken and counts for nothing"
            hello = json.dumps({"type": "url_verification", "challenge": "3eZbrw1aB"}).encode()
            assert await posted(hello, server.signed(hello)) == (200, "3eZbrw1aB")
            assert (await posted(hello, {}))[0] == 403
            junk = b"\xff no json"
            assert (await posted(junk, server.signed(junk)))[0] == 200, "it would be sent again"
        assert inboxes.texts == ["true"]


async def test_that_slack_never_called_is_shown() -> None:
    """With Socket Mode on it calls nobody, and nothing else tells."""
    async with EventsBed() as bed:
        inboxes = Inboxes()
        adapter = bed.connect()
        async with running(adapter, inboxes.accept, None):
            await bed.listening()
            assert "Socket Mode has to be off" in adapter.notice()
            await bed.do(Does.TEXT, "hello")
            await until(lambda: inboxes.texts == ["hello"], "nothing came")
            assert adapter.notice() == ""
    async with SlackBed() as bed:
        assert bed.connect().notice() == "", "a socket needs no calls"


async def test_what_slack_gave_up_on_is_read_later() -> None:
    async with EventsBed() as bed, aiohttp.ClientSession() as session:
        inboxes, clock, server = Inboxes(), FakeClock(), bed.server
        platform = at(bed.connect(), clock)
        async with running(platform, inboxes.accept, None):
            now = int(clock.now().timestamp())
            server.signed = lambda body, at=None: type(server).signed(server, body, at or now)  # type: ignore[method-assign]
            await bed.do(Does.TEXT, "heard")
            await until(lambda: inboxes.texts == ["heard"], "it never came")
            deliver, server.deliver = server.deliver, lambda *told: None  # type: ignore[method-assign]
            server.say(DM, "never brought")
            server.deliver = deliver  # type: ignore[method-assign]
            limited = json.dumps({"type": "app_rate_limited", "minute_rate_limited": now}).encode()
            async with session.post(server.events_url, data=limited, headers=server.signed(limited)) as told:
                assert told.status == 200
            await clock.advance(61)
            await until(lambda: "never brought" in inboxes.texts, "it is lost")


async def test_a_port_that_is_taken_or_none() -> None:
    async with EventsBed() as bed:
        async with running(bed.connect(), Inboxes().accept, None):
            await bed.do(Does.TEXT, "x")
            await until(bed.server.reached.is_set, "nobody listens")
            with pytest.raises(Unreachable, match="cannot be listened on"):
                await bed.connect().run(Inboxes().accept, None)
