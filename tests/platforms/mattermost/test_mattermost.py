"""Mattermost: the suite that every adapter passes, and what is Mattermost's own."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Sequence

import aiohttp
import pytest
from aiohttp import web

from hermes.domain.chats.adapter import AdapterContext
from hermes.domain.chats.address import Address, SourceKind
from hermes.domain.chats.message import Attachment, Body, Button, Inbound, InboundKind, MediaKind
from hermes.domain.errors import NeedsLogin, Refused, Unreachable, UserError
from hermes.domain.settings.declaring import Secret
from hermes.domain.settings.platforms import PlatformSettings
from hermes.domain.word import replace
from hermes.entry.platforms.mattermost.adapter import MattermostAdapter, MattermostCursor
from hermes.entry.platforms.mattermost.api import error_for
from hermes.entry.platforms.mattermost.convert import as_events, calm, emoji_name, spoken, to_inbounds
from hermes.entry.platforms.mattermost.socket import MattermostSocket
from hermes.testing.platform_suite import (
    CHECKS,
    PATIENCE,
    Check,
    Does,
    Fault,
    Inboxes,
    conform,
    hosted,
    running,
    until,
)
from tests.platforms.mattermost.bed import NOW, MattermostBed, known
from tests.platforms.mattermost.samples import EVENTS, PRIVATE, TEAM, post
from tests.platforms.mattermost.server import ANN, BOT, COMMAND_TOKEN, TOKEN, new_id


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
async def test_mattermost_conforms(check: Check, full: bool) -> None:
    await conform(check, MattermostBed, full=full)


def converted(name: str) -> Inbound | None:
    found = to_inbounds(EVENTS[name], known(), NOW)
    return found[0] if found else None


# --- what comes in ---


def test_what_events_mean() -> None:
    read = {name: item for name in EVENTS if (item := converted(name))}
    assert set(EVENTS) - set(read) == {"hello", "of ourselves", "of the system", "typing", "pinned"}
    assert read["command"].text == "/status now"
    assert (read["mention"].text, read["mention"].mentions_me) == ("what now?", True)
    assert (read["mention within"].text, read["mention within"].mentions_me) == ("ask @Hermes, please", True)
    assert not read["another's name"].mentions_me
    assert read["thread"].source.kind is SourceKind.THREAD
    assert read["thread"].source.parent_chat == TEAM
    assert read["thread"].reply_to is not None and not read["thread"].reply_to.mine
    ours = read["thread of ours"].reply_to
    assert ours is not None and (ours.mine, ours.text) == (True, "so be it")
    assert read["thread of ours"].source.kind is SourceKind.PRIVATE
    file = read["file"].attachments[0]
    assert (file.kind, file.name, file.size) == (MediaKind.FILE, "plan.pdf", 1234)
    assert read["voice"].attachments[0].kind is MediaKind.VOICE
    assert read["of a webhook"].source.is_bot
    assert read["history"].source.user_name == "ann"
    assert (read["reaction"].what, read["reaction"].text) == (InboundKind.REACTION, "👍")
    assert [read[name].what for name in ("added", "removed")] == [InboundKind.JOINED, InboundKind.LEFT]
    gone = read["deleted"]
    assert (gone.what, gone.ref, gone.text) == (InboundKind.DELETED, read["edit"].ref, "")
    assert gone.source.user is None, "an administrator may have done it"


def test_the_history_and_the_events_name_a_happening_alike() -> None:
    told = json.loads(EVENTS["text"]["data"]["post"])
    for event in as_events([told], 0):
        again = to_inbounds(event, known(), NOW)
        before = converted("text")
        assert before is not None and again[0].delivery == before.delivery


def test_of_the_history_only_what_is_new_counts() -> None:
    old, since = post(1), 1793000000050
    reaction = {"user_id": ANN["id"], "post_id": old["id"], "emoji_name": "x", "create_at": since + 9}
    posts = [
        old,
        post(60),
        post(61, delete_at=1),
        post(3, delete_at=since + 7),
        post(2, edit_at=since + 5),
        {**old, "metadata": {"reactions": [reaction, {**reaction, "create_at": 1}]}},
        {"create_at": "never"},
        None,
    ]
    told = [one["event"] for one in as_events(posts, since)]
    assert told == ["post_edited", "post_deleted", "reaction_added", "posted"]


@pytest.mark.parametrize(
    ("text", "words", "named"),
    [
        ("@hermes: hi", "hi", True),
        ("@hermes", "", True),
        ("mail me@hermes.example", "mail me@hermes.example", False),
        ("hi @HERMES.", "hi @HERMES.", True),
        ("  /new", "/new", False),
        ("!new", "!new", False),
    ],
)
def test_being_named(text: str, words: str, named: bool) -> None:
    assert spoken(text, known()) == (words, named)


async def test_more_was_written_than_comes_at_once() -> None:
    async with MattermostBed() as bed:
        inboxes = Inboxes()
        async with hosted(bed, inboxes):
            await bed.do(Does.TEXT, "first")
            await until(lambda: inboxes.texts == ["first"], "the first message is missing")
        for number in range(1_250):
            bed.server.say(PRIVATE, f"away {number}")
            if number % 3 == 0:
                bed.server.say(TEAM, f"team {number}")
        async with hosted(bed, inboxes):
            wanted = 1 + 1_250 + 417
            await until(lambda: len(inboxes.items) >= wanted, lambda: f"only {len(inboxes.items)}")
        assert len(inboxes.items) == wanted
        mine = [text for text in inboxes.texts if text.startswith("away")]
        assert mine == [f"away {number}" for number in range(1_250)], "in the order in which it was written"


async def test_what_was_before_the_bot_is_not_for_it() -> None:
    async with MattermostBed() as bed:
        bed.server.say(PRIVATE, "long before")
        inboxes = Inboxes()
        for text in ("one", "two"):
            async with hosted(bed, inboxes):
                await bed.do(Does.TEXT, text)
                await until(lambda: inboxes.texts[-1:] == [text], "it never came")  # noqa: B023
        assert inboxes.texts == ["one", "two"]


async def test_the_cursor_waits_for_all_channels() -> None:
    """What fails in the middle of the history is read again from the same point."""
    async with MattermostBed() as bed:
        bed.server.say(TEAM, "x")
        begun = str(MattermostCursor(at=1, begin=1))
        bed.server.say(PRIVATE, "here")
        bed.server.say(TEAM, "there")
        cursors: list[str | None] = []

        async def accept(items: Sequence[Inbound], cursor: str | None) -> None:
            cursors.append(cursor)
            if any(item.text == "there" for item in items):
                raise Unreachable("nothing can be stored")

        with pytest.raises(Unreachable, match="stored"):
            await bed.connect().run(accept, begun)
        assert set(cursors) == {None}
        inboxes = Inboxes()
        async with running(bed.connect(), inboxes.accept, begun):
            await until(lambda: inboxes.cursor is not None, "no cursor")
        assert sorted(inboxes.texts) == ["here", "there", "x"]
        assert MattermostCursor.read(inboxes.cursor) == MattermostCursor(
            at=bed.server.posts[next(reversed(bed.server.posts))]["create_at"], begin=1
        )


async def test_a_channel_that_we_are_shut_out_of_does_not_stop_the_others() -> None:
    async with MattermostBed() as bed:
        bed.server.say(TEAM, "secret")
        bed.server.say(PRIVATE, "hello")
        bed.server.closed.add(TEAM)
        inboxes = Inboxes()
        async with running(bed.connect(), inboxes.accept, "1:1"):
            await until(lambda: inboxes.texts == ["hello"], "it never came")


async def test_a_chat_that_began_while_nobody_listened_is_read() -> None:
    async with MattermostBed() as bed:
        inboxes = Inboxes()
        async with hosted(bed, inboxes):
            await bed.do(Does.TEXT, "first")
            await until(lambda: inboxes.texts == ["first"], "the first message is missing")
        bed.server.say(bed.server.channel("a stranger"), "hello for the first time")
        async with hosted(bed, inboxes):
            await until(lambda: len(inboxes.items) == 2, "it is lost")
        assert inboxes.texts[-1] == "hello for the first time"
        assert inboxes.items[-1].source.kind is SourceKind.PRIVATE


@pytest.mark.parametrize(
    ("told", "most"), [(4_000, 4_000), (16_383, 16_383), (99_999, 16_383), (0, 16_383), (12, 16_383)]
)
async def test_the_server_says_how_long_a_post_may_be(told: int, most: int) -> None:
    async with MattermostBed() as bed:
        bed.server.most_runes = told
        platform = bed.connect()
        async with running(platform, Inboxes().accept, None):
            await until(lambda: bed.server.greeted > 0, "never there")
            able = platform.capabilities
        assert able.max_text == most == min(one.caption for one in able.media.values())


@pytest.mark.parametrize("cursor", ["", "nonsense", "12", "1:2:3", "-1:2", "9" * 40 + ":1"])
def test_what_is_no_cursor(cursor: str) -> None:
    assert MattermostCursor.read(cursor) is None


async def test_a_connection_that_answers_no_ping_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(MattermostSocket, "ping_seconds", 0.01)
    async with MattermostBed() as bed:
        lives = 0

        async def accept(items: Sequence[Inbound], cursor: str | None) -> None:
            nonlocal lives
            lives += not items and cursor is None

        task = asyncio.create_task(bed.connect().run(accept, None))
        await until(lambda: lives > 3, "no sign of life")
        bed.server.deaf = True
        monkeypatch.setattr(MattermostSocket, "pong_seconds", 0.1)
        with pytest.raises(Unreachable, match="was closed"):
            await task


class Mute:
    """A WebSocket that answers nothing."""

    def __init__(self) -> None:
        self.asked = 0
        self.closed = False

    async def send_str(self, text: str) -> None:
        self.asked += 1

    async def close(self) -> None:
        self.closed = True


async def test_slow_storing_is_no_dead_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    """While we are behind, the answers to pings stand behind the events."""
    monkeypatch.setattr(MattermostSocket, "pong_seconds", 0.001)
    mute = Mute()
    wire = MattermostSocket(mute, 1.0)  # type: ignore[arg-type]
    while not wire.queue.full():
        await wire.queue.put({"event": "posted"})
    pinging = asyncio.create_task(wire._ping())
    await until(lambda: mute.asked >= 3, "it does not ask")
    assert not mute.closed and not pinging.done(), "it gave up"
    await wire.next()
    await pinging
    assert mute.closed


async def test_what_means_nothing_is_not_kept(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    async with MattermostBed() as bed:
        inboxes = Inboxes()
        async with running(bed.connect(), inboxes.accept, None):
            await bed.do(Does.TEXT, "one")
            for name in ("status_change", "typing", "post_deleted"):
                bed.server.tell(name, {"status": "away", "user_id": ANN["id"]})
            await bed.do(Does.TEXT, "two")
            await until(lambda: inboxes.texts == ["one", "two"], lambda: f"got {inboxes.texts}")
        assert "mattermost.missed" not in caplog.text, "they count all the same"


async def test_a_thread_of_its_own_for_each_question() -> None:
    async with MattermostBed() as bed:
        bed.said["MATTERMOST_REPLY_MODE"] = "thread"
        inboxes = Inboxes()
        platform = bed.connect()
        async with running(platform, inboxes.accept, None):
            await bed.do(Does.MENTION, "what now?")
            await until(lambda: bool(inboxes.items), "it never came")
            asked = inboxes.items[0]
            await platform.send(asked.source.address, Body(text="this"), key="k", reply_to=asked.ref)
            bed.server.say(TEAM, "and then?", root_id=asked.ref)
            await until(lambda: len(inboxes.items) == 2, "it never came")
            assert inboxes.items[1].source.address == asked.source.address, "one conversation"
            await bed.do(Does.TEXT, "privately")
            await until(lambda: len(inboxes.items) == 3, "it never came")
        assert bed.shown()[0].thread == asked.ref
        assert inboxes.items[2].source.address.thread is None


# --- what goes out ---


async def test_a_message_is_found_when_the_server_has_forgotten_its_pending_id() -> None:
    async with MattermostBed() as bed:
        platform = bed.connect()
        async with running(platform, Inboxes().accept, None):
            sent = await platform.send(bed.chat, Body(text="x"), key="k", reply_to=None)
            for number in range(450):
                bed.server.say(PRIVATE, str(number))
            await platform.edit(sent, Body(text="y"))
            assert await platform.find_sent(bed.chat, "k") == sent
            elsewhere = Address(platform="mattermost", chat=TEAM)
            assert await platform.find_sent(elsewhere, "k") is None
            bed.server.posts[sent.ref]["user_id"] = ANN["id"]
            assert await platform.find_sent(bed.chat, "k") is None, "somebody else's copy of it"


async def test_threads() -> None:
    async with MattermostBed() as bed:
        platform = bed.connect()
        async with running(platform, Inboxes().accept, None):
            thread = await platform.open_thread(bed.chat, "Plans\nfor today")
            await platform.send(thread, Body(text="x"), key="k", reply_to=None)
            await platform.typing(thread)
            gone = replace(bed.chat, thread=new_id("gone"))
            with pytest.raises(Refused, match="thread is gone"):
                await platform.send(gone, Body(text="x"), key="k", reply_to=None)
        assert [(one.text, one.thread) for one in bed.shown()] == [
            ("Plans for today", None),
            ("x", thread.thread),
        ]


async def test_without_an_address_for_presses_questions_are_answered_in_words() -> None:
    async with MattermostBed() as bed:
        bed.said.clear()
        platform = bed.connect()
        buttons = (Button(label="once", value="q:once"), Button(label="deny", value="q:deny"))
        async with running(platform, Inboxes().accept, None):
            asked = await platform.send(
                bed.chat, Body(text="May I?", buttons=buttons), key="k", reply_to=None
            )
            props = bed.server.posts[asked.ref]["props"]
            assert [part["text"] for part in props["attachments"]] == ["Answer with one of: `once` · `deny`"]
            assert bed.shown()[0].buttons == ()
            await platform.edit(asked, Body(text="May I?", buttons=buttons))
            await platform.edit(asked, Body(text="Allowed."))
            assert "attachments" not in bed.server.posts[asked.ref]["props"]
            assert await platform.find_sent(bed.chat, "k") == asked, "its key is kept"


async def test_nobody_else_presses_buttons() -> None:
    async with MattermostBed() as bed, aiohttp.ClientSession() as session:
        inboxes = Inboxes()
        platform = bed.connect()
        async with running(platform, inboxes.accept, None):
            body = Body(text="May I?", buttons=(Button(label="Yes", value="q_1:yes"),))
            asked = await platform.send(bed.chat, body, key="k", reply_to=None)
            await bed.do(Does.BUTTON, "q_1:yes", on=asked.ref)
            await until(lambda: len(inboxes.items) == 1, "it never came")
            told = bed.server.presses[0]
            url = bed.said["MATTERMOST_CALLBACK_URL"]
            context = told["context"]
            forged = [
                {**told, "context": {**context, "value": "q_1:always"}},
                {**told, "context": {**context, "signature": "0" * 64}},
                {**told, "channel_id": TEAM},
                {**told, "context": None},
                [],
            ]
            for one in forged:
                async with session.post(url, json=one) as response:
                    assert response.status == 403
            async with session.post(url, data=b"\xff") as response:
                assert response.status == 400
            async with session.post(url, json=told) as response:
                assert response.status == 200
        assert len(inboxes.items) == 1, "the same press counts once"
        assert (
            inboxes.items[0].source.kind is SourceKind.PRIVATE and inboxes.items[0].source.user_name == "ann"
        )


async def test_slash_commands_that_an_admin_made() -> None:
    async with MattermostBed() as bed:
        bed.said["MATTERMOST_COMMAND_TOKEN"] = COMMAND_TOKEN
        url, inboxes, platform = bed.said["MATTERMOST_CALLBACK_URL"], Inboxes(), bed.connect()
        async with running(platform, inboxes.accept, None):
            await bed.do(Does.TEXT, "first")
            await until(lambda: len(inboxes.items) == 1, "nobody listens")
            give = bed.server.command
            assert await give(url, "status now", TEAM) == 200
            assert await give(url, " /new ", PRIVATE) == 200
            assert await give(url, "", TEAM, trigger_id="same", root_id=new_id("post 77")) == 200
            assert await give(url, "", TEAM, trigger_id="same") == 200
            for wrong in ({"token": "x" * 26}, {"token": ""}, {"user_id": "nobody"}, {"channel_id": "x"}):
                assert await give(url, "status", TEAM, **wrong) == 403
        found = [(item.text, item.source.kind, item.source.address.thread) for item in inboxes.items[1:]]
        assert found == [
            ("/status now", SourceKind.GROUP, None),
            ("/new", SourceKind.PRIVATE, None),
            ("/help", SourceKind.THREAD, new_id("post 77")),
        ]
        assert all(item.mentions_me and item.source.user_name == "ann" for item in inboxes.items[1:])


async def test_nobody_gives_commands_without_a_token_for_them() -> None:
    async with MattermostBed() as bed:
        inboxes = Inboxes()
        async with running(bed.connect(), inboxes.accept, None):
            await bed.do(Does.TEXT, "first")
            await until(lambda: len(inboxes.items) == 1, "nobody listens")
            url = bed.said["MATTERMOST_CALLBACK_URL"]
            assert await bed.server.command(url, "status", TEAM) == 403
            assert await bed.server.command(url, "status", TEAM, token="") == 403
        assert len(inboxes.items) == 1


async def test_files_of_one_message_stand_in_one_post() -> None:
    async with MattermostBed() as bed:

        async def open_file(file: Attachment) -> bytes:
            return bed.content

        bed.open_file = open_file
        platform = bed.connect()
        file = Attachment(kind=MediaKind.IMAGE, ref="x", name="a.png", mime="image/png")
        async with running(platform, Inboxes().accept, None):
            body = Body(text="look", attachments=(file,) * 10)
            await platform.send(bed.chat, body, key="k", reply_to=None)
            with pytest.raises(Refused):
                await platform.send(bed.chat, Body(attachments=(file,) * 11), key="k2", reply_to=None)
        assert [(one.text, len(one.files)) for one in bed.shown()] == [("look", 10)]


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("@all and @Channel, @here.", "＠all and ＠Channel, ＠here."),
        ("a@all.example @allan @here-abouts @hermes", "a@all.example @allan @here-abouts @hermes"),
        ("`@all` and @all", "`@all` and ＠all"),
        ("```\n@channel\n```\n@channel\n```\n@here", "```\n@channel\n```\n＠channel\n```\n@here"),
    ],
)
async def test_answers_do_not_call_everybody(text: str, shown: str) -> None:
    assert calm(text) == shown
    async with MattermostBed() as bed:
        platform = bed.connect()
        async with running(platform, Inboxes().accept, None):
            sent = await platform.send(bed.chat, Body(text=text), key="k", reply_to=None)
            assert bed.shown()[0].text == shown
            await platform.edit(sent, Body(text=f"{text}!"))
        assert bed.shown()[0].text == f"{shown}!"


async def test_reactions_come_and_go() -> None:
    async with MattermostBed() as bed:
        platform = bed.connect()
        async with running(platform, Inboxes().accept, None):
            sent = await platform.send(bed.chat, Body(text="x"), key="k", reply_to=None)
            bed.server.react(sent.ref, "+1")
            await platform.react(sent, "👀")
            assert bed.reactions() == ["👀"]
            await platform.react(sent, "", instead="👀")
        there = bed.server.posts[sent.ref]["metadata"]["reactions"]
        assert [one["emoji_name"] for one in there] == ["+1"] and bed.reactions() == []


async def test_reactions_by_name() -> None:
    assert [emoji_name(one) for one in ("❤️", ":party_parrot:", "+1")] == ["heart", "party_parrot", "+1"]
    with pytest.raises(Refused, match="no name"):
        emoji_name("🦜")


# --- bad input: one sentence each ---


def made(**said: str) -> MattermostAdapter:
    def find(name: str) -> Secret | None:
        return Secret(said[name]) if name in said else None

    return MattermostAdapter(AdapterContext(settings=PlatformSettings(), find=find))


@pytest.mark.parametrize(
    "url", ["", "chat.example.com", "ftp://x", "https://user:pw@x", "https://x?y", "http://"]
)
def test_what_is_no_address(url: str) -> None:
    with pytest.raises(NeedsLogin, match="MATTERMOST_URL is no address"):
        made(MATTERMOST_URL=url, MATTERMOST_TOKEN=TOKEN)


@pytest.mark.parametrize("token", ["", "short", "with a blank in the middle", TOKEN + "\n-"])
def test_what_is_no_token(token: str) -> None:
    with pytest.raises(NeedsLogin, match="MATTERMOST_TOKEN is no access token"):
        made(MATTERMOST_URL="https://x", MATTERMOST_TOKEN=token)


async def test_a_wrong_token_parks_and_is_never_told(caplog: pytest.LogCaptureFixture) -> None:
    async with MattermostBed() as bed:
        wrong = "w" * 26
        bed.said["MATTERMOST_TOKEN"] = wrong
        with (
            caplog.at_level(logging.DEBUG),
            pytest.raises(NeedsLogin, match="does not take the token") as error,
        ):
            await bed.connect().run(Inboxes().accept, None)
        await bed.server.down()
        with pytest.raises(Unreachable, match="cannot be reached") as gone:
            await bed.connect().run(Inboxes().accept, None)
        assert not gone.value.maybe_done
        assert wrong not in f"{error.value!r} {gone.value!r} {gone.value.__cause__} {caplog.text}"


async def test_a_token_that_only_the_websocket_refuses() -> None:
    async with MattermostBed() as bed:
        platform = bed.connect()
        platform.api.token = "w" * 26
        with pytest.raises(NeedsLogin, match="WebSocket does not take the token"):
            await platform.run(Inboxes().accept, None)


async def test_a_token_that_expires_while_we_listen(monkeypatch: pytest.MonkeyPatch) -> None:
    """The connection stays then, and nothing would ever be heard again."""
    monkeypatch.setattr(MattermostSocket, "ping_seconds", 0.01)
    async with MattermostBed() as bed:
        inboxes = Inboxes()
        async with running(bed.connect(), inboxes.accept, None) as task:
            await until(lambda: inboxes.batches > 3, "no sign of life")
            bed.server.expired = True
            with pytest.raises(NeedsLogin, match="does not take the token"):
                await asyncio.wait_for(asyncio.shield(task), PATIENCE)


async def test_a_websocket_that_says_nothing() -> None:
    async with MattermostBed() as bed:
        bed.server.deaf = True
        bed.hang(True)
        with pytest.raises(Unreachable, match="WebSocket does not answer"):
            await bed.connect().run(Inboxes().accept, None)


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("/elsewhere", "no Mattermost"),
        ("/page", "no Mattermost"),
        ("/moved", "MATTERMOST_URL"),
    ],
)
async def test_an_address_that_is_another_programs(path: str, words: str) -> None:
    seen: list[str] = []

    async def page(request: web.Request) -> web.Response:
        return web.Response(text="<html>hello</html>", content_type="text/html")

    async def moved(request: web.Request) -> web.Response:
        raise web.HTTPFound(f"{base}/trap")

    async def trap(request: web.Request) -> web.Response:
        seen.append(request.headers.get("Authorization", ""))
        return web.json_response({})

    app = web.Application()
    app.router.add_get("/page/{rest:.*}", page)
    app.router.add_get("/moved/{rest:.*}", moved)
    app.router.add_get("/trap", trap)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    base = f"http://127.0.0.1:{runner.addresses[0][1]}"
    try:
        with pytest.raises(Unreachable, match=words):
            await made(MATTERMOST_URL=base + path, MATTERMOST_TOKEN=TOKEN).run(Inboxes().accept, None)
    finally:
        await runner.cleanup()
    assert seen == [], "the token goes nowhere else"


@pytest.mark.parametrize(
    ("status", "sort", "error", "words"),
    [
        (400, "model.post.is_valid.message_length.app_error", Refused, "too long"),
        (400, "api.post.create_post.can_not_post_to_deleted.error", Refused, "refuses"),
        (403, "api.context.permissions.app_error", Refused, "add it to the channel"),
        (404, "app.channel.get.existing.app_error", Refused, "any more"),
        (413, "api.file.upload_file.too_large_detailed.app_error", Refused, "too large"),
        (401, "api.context.session_expired.app_error", NeedsLogin, "MATTERMOST_TOKEN"),
        (500, "api.post.deduplicate_create_post.pending", Unreachable, "fault of its own"),
    ],
)
def test_refusals(status: int, sort: str, error: type[Exception], words: str) -> None:
    found = error_for(status, {"id": sort, "message": "So\nit is."}, {})
    assert type(found) is error and words in str(found) and "\n" not in str(found)


@pytest.mark.parametrize(
    ("headers", "after"),
    [({"Retry-After": "7"}, 7), ({"X-Ratelimit-Reset": "2"}, 2), ({"Retry-After": "soon"}, 5), ({}, 5)],
)
def test_too_fast(headers: dict[str, str], after: float) -> None:
    found = error_for(429, None, headers)
    assert isinstance(found, Unreachable) and (found.after, found.maybe_done) == (after, False)


async def test_files_that_are_too_large_or_of_an_unknown_kind() -> None:
    async with MattermostBed() as bed:

        async def open_file(file: Attachment) -> bytes:
            return bytes(bed.server.most_upload + (file.name == "big"))

        bed.open_file = open_file
        platform = bed.connect()
        async with running(platform, Inboxes().accept, None):
            big = Attachment(kind=MediaKind.FILE, ref="x", name="big", mime="x/y")
            with pytest.raises(Refused, match="too large"):
                await platform.send(bed.chat, Body(attachments=(big,)), key="k", reply_to=None)
            odd = replace(big, name="odd.xyz", mime=None)
            await platform.send(bed.chat, Body(text="look", attachments=(odd,)), key="k", reply_to=None)
        assert [(one.text, one.files[0][0]) for one in bed.shown()] == [("look", MediaKind.FILE)]


@pytest.mark.parametrize("where", ["@ann", "town-square", "../users/me", "A" * 26])
async def test_what_is_no_channel(where: str) -> None:
    platform = made(MATTERMOST_URL="https://x.invalid", MATTERMOST_TOKEN=TOKEN)
    with pytest.raises(Refused, match="not a channel"):
        await platform.send(
            Address(platform="mattermost", chat=where), Body(text="x"), key="k", reply_to=None
        )


async def test_settings_that_mean_nothing() -> None:
    async with MattermostBed() as bed:
        bed.said["MATTERMOST_REPLY_MODE"] = "sometimes"
        with pytest.raises(UserError, match="thread or off"):
            await bed.connect().run(Inboxes().accept, None)
        bed.said["MATTERMOST_REPLY_MODE"] = "off"
        bed.said["MATTERMOST_CALLBACK_PORT"] = "many"
        with pytest.raises(UserError, match="a port is wanted"):
            await bed.connect().run(Inboxes().accept, None)


async def test_a_port_that_is_taken() -> None:
    async with MattermostBed() as bed:
        async with running(bed.connect(), Inboxes().accept, None):
            await until(lambda: bed.server.greeted > 0, "nobody came")
            with pytest.raises(Unreachable, match="cannot be listened on"):
                await bed.connect().run(Inboxes().accept, None)


async def test_faults_of_one_chat_are_not_anothers() -> None:
    async with MattermostBed() as bed:
        platform = bed.connect()
        here, there = bed.chats(2)
        bed.fail(Fault.GONE, times=99, chat=here)
        async with running(platform, Inboxes().accept, None):
            with pytest.raises(Refused, match="does not let the bot"):
                await platform.send(here, Body(text="x"), key="k", reply_to=None)
            await platform.send(there, Body(text="x"), key="k", reply_to=None)


# --- the check ---


async def test_the_check_says_what_is_wrong() -> None:
    async with MattermostBed() as bed:
        found = await bed.connect().check()
        assert [one.text.split()[0] for one in found] == ["Mattermost", "The", "Channels", "Its", "Buttons"]
        bed.said.clear()
        del bed.server.channels[TEAM]
        found = await bed.connect().check()
        assert all(one.good for one in found)
        assert "no channel" in found[2].text and "in words" in found[4].text
        bed.said["MATTERMOST_COMMAND_TOKEN"] = COMMAND_TOKEN
        found = await bed.connect().check()
        assert not found[-1].good and COMMAND_TOKEN not in str(found)
        bed.said["MATTERMOST_TOKEN"] = "w" * 26
        with pytest.raises(NeedsLogin):
            await bed.connect().check()


async def test_our_own_posts_are_not_heard() -> None:
    async with MattermostBed() as bed:
        inboxes = Inboxes()
        platform = bed.connect()
        async with running(platform, inboxes.accept, None):
            sent = await platform.send(bed.chat, Body(text="x"), key="k", reply_to=None)
            await platform.edit(sent, Body(text="y"))
            await platform.react(sent, "👍")
            await until(lambda: bed.server.greeted > 0, "nobody came")
            bed.server.react(sent.ref, "+1", BOT["id"])
            bed.server.react(sent.ref, "tada")
            await until(lambda: bool(inboxes.items), "it never came")
        assert [(one.what, one.text) for one in inboxes.items] == [(InboundKind.REACTION, "🎉")]
