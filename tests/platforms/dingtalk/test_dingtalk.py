"""DingTalk: the adapter passes the suite, with cards and without, and does what only DingTalk asks for."""

from __future__ import annotations

import json
from typing import Any

import pytest

from hermes.domain.chats.adapter import AdapterContext
from hermes.domain.chats.address import Address, SourceKind
from hermes.domain.chats.message import Body, Inbound, MediaKind
from hermes.domain.errors import NeedsLogin, Refused, Unreachable
from hermes.domain.settings.declaring import Secret
from hermes.domain.settings.platforms import PlatformSettings
from hermes.entry.platforms.dingtalk.adapter import SDK_TEMPLATE, DingTalkAdapter
from hermes.entry.platforms.dingtalk.convert import hard_breaks, place, to_inbounds
from hermes.entry.platforms.dingtalk.manifest import MOST_TEXT
from hermes.testing.platform_suite import (
    CHECKS,
    SENDING,
    WHOLE,
    Check,
    Does,
    Fault,
    Inboxes,
    conform,
    running,
    until,
)
from tests.platforms.dingtalk.bed import GROUP_CHAT, DingTalkBed, PlainBed
from tests.platforms.dingtalk.samples import ANN, FRAMES, GROUP
from tests.platforms.dingtalk.server import MOST_PARAM, Wrong


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
async def test_dingtalk_conforms(check: Check, full: bool) -> None:
    await conform(check, DingTalkBed, full=full)


@pytest.mark.parametrize("check", [*SENDING, *WHOLE], ids=lambda check: check.__name__)
async def test_dingtalk_without_cards_conforms(check: Check, full: bool) -> None:
    await conform(check, PlainBed, full=full)


# --- what comes in ---


def read(name: str) -> Inbound:
    (item,) = to_inbounds(FRAMES[name])
    return item


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("text", "hello 😀"),
        ("command", "/status now"),
        ("mention", "what now?"),
        ("only a mention", ""),
        ("rich text", "look at this"),
        ("voice that was written down", "good morning"),
        ("forwarded", "[Forwarded]\nAnn: hel…\nhello to all"),
        ("forwarded without details", "[Forwarded]\nAnn: hello"),
        ("a card's document", "(interactiveCard)"),
    ],
)
def test_words(name: str, text: str) -> None:
    assert read(name).text == text


@pytest.mark.parametrize(
    ("name", "kinds"),
    [
        ("picture", [MediaKind.IMAGE]),
        ("rich text", [MediaKind.IMAGE]),
        ("voice", [MediaKind.VOICE]),
        ("voice that was written down", []),
        ("video", [MediaKind.VIDEO]),
        ("file", [MediaKind.FILE]),
    ],
)
def test_files(name: str, kinds: list[MediaKind]) -> None:
    assert [file.kind for file in read(name).attachments] == kinds


@pytest.mark.parametrize("name", ["ping", "disconnect", "an event", "a press on somebody's card"])
def test_what_is_nobodys_words(name: str) -> None:
    assert to_inbounds(FRAMES[name]) == ()


def test_private_chats_are_named_by_the_person_and_groups_by_themselves() -> None:
    private, group = read("text").source, read("mention").source
    assert (private.kind, private.address.chat, private.user) == (SourceKind.PRIVATE, ANN, ANN)
    assert (group.kind, group.address.chat, group.user) == (SourceKind.GROUP, GROUP, ANN)
    assert read("mention").mentions_me and not read("text").mentions_me
    assert read("of another organisation").source.user == f"$:LWCP_v1:${ANN}=="


def test_answers_to_messages() -> None:
    quoted, ours = read("reply").reply_to, read("reply to one of ours").reply_to
    assert quoted is not None and (quoted.ref, quoted.text, quoted.mine) == ("msgQuoted==", "so be it", True)
    assert ours is not None and (ours.ref, ours.mine) == ("pqk1=", True)
    now, card = read("reply as it comes now").reply_to, read("reply to a card").reply_to
    assert now is not None and (now.ref, now.text, now.mine) == ("msgText==", "of Bob's", False)
    assert card is not None and (card.ref, card.text, card.mine) == ("c1", "what I said", True)
    pictured = read("reply with a picture")
    assert pictured.reply_to is not None and pictured.reply_to.ref == "msgFile=="
    assert [file.ref for file in pictured.attachments][1:] == ["code9"]
    (file,) = read("reply to a file").attachments
    assert (file.ref, file.name, read("reply to a file").text) == ("code9", "a.pdf", "as you said")


async def test_an_answered_ping_is_a_sign_of_life(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hermes.entry.platforms.dingtalk.adapter._HEARTBEAT", 0.05)
    async with DingTalkBed() as bed:
        inboxes = Inboxes()
        async with running(bed.connect(), inboxes.accept, None):
            await until(lambda: inboxes.batches >= 4, "no life is seen")
            await bed.server.sockets[-1].ping()
            await bed.do(Does.TEXT, "hello")
            await until(lambda: inboxes.texts == ["hello"], "it never came")
        assert bed.server.opened == 1


# --- Markdown ---


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("one\ntwo", "one  \ntwo"),
        ("one\n\ntwo", "one\n\ntwo"),
        ("- a\n- b", "- a\n- b"),
        ("**bold**\nplain", "**bold**  \nplain"),
        ("```\na\nb\n```\nc\nd", "```\na\nb\n```\nc  \nd"),
        ("| a |\n| b |", "| a |\n| b |"),
        ("already  \nso", "already  \nso"),
        ("so:\n| a |\n| - |\n| b |", "so:\n\n| a |\n| - |\n| b |"),
        ("```\nx\n| a |\n| - |\n```", "```\nx\n| a |\n| - |\n```"),
    ],
)
def test_lines_stay_lines(text: str, shown: str) -> None:
    assert hard_breaks(text) == shown


@pytest.mark.parametrize("unit", ["x", '"\n', "a\n", "ж\n", "\\"])
async def test_the_longest_text_fits_whatever_is_escaped_in_it(unit: str) -> None:
    async with PlainBed() as bed:
        text = unit * (MOST_TEXT // len(unit.encode()))
        platform = bed.connect()
        async with running(platform, Inboxes().accept, None):
            await platform.send(bed.chat, Body(text=text), key="k", reply_to=None)
        params = [asked["msgParam"] for _, _, asked in bed.server.calls if "msgParam" in asked]
        assert [len(param.encode()) <= MOST_PARAM for param in params] == [True]


# --- the stream ---


async def test_a_ping_is_answered_with_its_own_data() -> None:
    async with DingTalkBed() as bed:
        async with running(bed.connect(), Inboxes().accept, None):
            await until(lambda: bed.server.opened == 1, "nobody came")
            bed.server.system("ping", {"opaque": "1234"})
            await until(lambda: bool(bed.server.acks), "no answer to the ping")
        assert json.loads(bed.server.acks[0]["data"]) == {"opaque": "1234"}


async def test_a_connection_that_is_to_end_is_left_for_an_open_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hermes.entry.platforms.dingtalk.adapter._STEADY_SECONDS", 0.0)
    async with DingTalkBed() as bed:
        inboxes = Inboxes()
        async with running(bed.connect(), inboxes.accept, None) as task:
            await until(lambda: bed.server.opened == 1, "nobody came")
            bed.server.system("disconnect", {"reason": "persistent connection is timeout"})
            await until(
                lambda: bed.server.opened == 2 and len(bed.server.sockets) == 1, "no other connection"
            )
            await bed.do(Does.TEXT, "still there?")
            await until(lambda: inboxes.texts == ["still there?"], "it never came")
            assert not task.done()


async def test_connections_that_end_at_once_are_no_endless_loop() -> None:
    async with DingTalkBed() as bed:
        async with running(bed.connect(), Inboxes().accept, None) as task:
            await until(lambda: bed.server.opened == 1, "nobody came")
            bed.server.system("disconnect", {"reason": "x"})
            await until(task.done, "it goes on")
            assert isinstance(task.exception(), Unreachable)


async def test_only_what_is_wrong_with_the_credentials_stops_it() -> None:
    async with DingTalkBed() as bed:
        bed.server.shut = Wrong(400, "param.somethingNew", "who knows")
        with pytest.raises(Unreachable, match="who knows"):
            await bed.connect().run(Inboxes().accept, None)
        page = DingTalkAdapter(_context(bed, DINGTALK_API_URL=f"{bed.server.url}/a/proxy's/page"))
        with pytest.raises(Unreachable, match="HTTP 404"):
            await page.run(Inboxes().accept, None)


async def test_a_revoked_secret_stops_it() -> None:
    async with DingTalkBed() as bed:
        bed.server.secret = "another"
        adapter = DingTalkAdapter(_context(bed, DINGTALK_CLIENT_SECRET="old"))
        with pytest.raises(NeedsLogin, match="DINGTALK_CLIENT_SECRET"):
            await adapter.run(Inboxes().accept, None)
        with pytest.raises(NeedsLogin, match="DINGTALK_CLIENT_SECRET"):
            await DingTalkAdapter(_context(bed, DINGTALK_CLIENT_SECRET="old")).check()


@pytest.mark.parametrize(
    ("said", "words"),
    [
        ({"DINGTALK_CLIENT_ID": ""}, "no client id"),
        ({"DINGTALK_CLIENT_ID": "ding abc"}, "no client id"),
        ({"DINGTALK_CLIENT_SECRET": " "}, "DINGTALK_CLIENT_SECRET is missing"),
    ],
)
def test_without_credentials_it_does_not_start(said: dict[str, str], words: str) -> None:
    with pytest.raises(NeedsLogin, match=words):
        DingTalkAdapter(_context(DingTalkBed(), **said))


def _context(bed: DingTalkBed, **said: str) -> AdapterContext:
    values = {**bed.variables(), **said}
    return AdapterContext(
        settings=PlatformSettings(), find=lambda name: Secret(values[name]) if name in values else None
    )


# --- sending ---


async def test_a_token_that_expired_is_replaced() -> None:
    async with DingTalkBed() as bed:
        platform = bed.connect()
        async with running(platform, Inboxes().accept, None):
            await platform.send(bed.chat, Body(text="one"), key="1", reply_to=None)
            bed.server.tokens += 1  # the old one does not count any more
            await platform.send(bed.chat, Body(text="two"), key="2", reply_to=None)
        assert [one.text for one in bed.shown()] == ["one", "two"]
        assert bed.server.tokens == 3


async def test_a_yes_that_lists_the_person_is_a_no() -> None:
    async with DingTalkBed() as bed:
        platform = bed.connect()
        async with running(platform, Inboxes().accept, None):
            bed.server.held_back = {ANN}
            with pytest.raises(Unreachable, match="no more messages for now") as raised:
                await platform.send(bed.chat, Body(text="x"), key="1", reply_to=None)
            assert raised.value.after == 2.0 and not raised.value.maybe_done
            bed.server.held_back, bed.server.people = set(), {"somebody"}
            with pytest.raises(Refused, match="no such person"):
                await platform.send(bed.chat, Body(text="x"), key="2", reply_to=None)
            with pytest.raises(Refused, match="no such user"):
                await platform.send(bed.chat, Body(text="x", growing=True), key="3", reply_to=None)
        assert bed.shown() == []


async def test_in_a_group_a_draft_is_a_card_and_is_recalled_there() -> None:
    async with DingTalkBed() as bed:
        platform = bed.connect()
        async with running(platform, Inboxes().accept, None):
            plain = await platform.send(GROUP_CHAT, Body(text="plain"), key="1", reply_to=None)
            card = await platform.send(GROUP_CHAT, Body(text="one", growing=True), key="2", reply_to=None)
            await platform.edit(card, Body(text="one two", growing=True))
            shown = bed.server.cards[card.ref.split(":")[1]]
            assert (shown.text, shown.status, shown.done) == ("one two", "2", False)
            await platform.edit(card, Body(text="one two three"))
            assert (shown.text, shown.status, shown.done) == ("one two three", "3", True)
            with pytest.raises(Refused, match="no card"):
                await platform.edit(plain, Body(text="x"))
            await platform.delete(plain)
            await platform.delete(card)
            assert bed.shown() == []
            with pytest.raises(Refused, match="recall"):
                await platform.delete(plain)


async def test_a_template_of_ones_own_is_only_streamed_to() -> None:
    async with DingTalkBed() as bed:
        bed.said = {"DINGTALK_CARD_TEMPLATE": "own.schema", "DINGTALK_CARD_KEY": "words"}
        platform = bed.connect()
        async with running(platform, Inboxes().accept, None):
            card = await platform.send(bed.chat, Body(text="one", growing=True), key="2", reply_to=None)
            await platform.edit(card, Body(text="one two"))
        calls = [(method, path, asked) for method, path, asked in bed.server.calls if "/card/" in path]
        assert [path.rpartition("/")[2] for _, path, _ in calls] == [
            "createAndDeliver",
            "streaming",
            "streaming",
        ]
        assert calls[0][2]["cardTemplateId"] == "own.schema" != SDK_TEMPLATE
        assert [(asked["key"], asked["isFinalize"]) for _, _, asked in calls[1:]] == [
            ("words", False),
            ("words", True),
        ]


async def test_a_card_is_finished_once_however_often_its_looks_are_changed() -> None:
    async with DingTalkBed() as bed:
        platform = bed.connect()
        async with running(platform, Inboxes().accept, None):
            card = await platform.send(bed.chat, Body(text="one", growing=True), key="2", reply_to=None)
            bed.server.calls.clear()
            bed.server.chaos = _once_at_the_second_call(Fault.TOO_FAST)
            with pytest.raises(Unreachable):
                await platform.edit(card, Body(text="one two"))
            await platform.edit(card, Body(text="one two"))
        paths = [path.rpartition("/")[2] for _, path, _ in bed.server.calls]
        assert paths == ["streaming", "instances", "instances"]
        shown = bed.server.cards[card.ref.split(":")[1]]
        assert (shown.text, shown.status, shown.done) == ("one two", "3", True)


async def test_a_second_attempt_fills_the_card_that_is_there() -> None:
    async with DingTalkBed() as bed:
        platform = bed.connect()
        async with running(platform, Inboxes().accept, None):
            bed.server.chaos = _once_at_the_second_call()
            with pytest.raises(Unreachable) as raised:
                await platform.send(bed.chat, Body(text="one", growing=True), key="2", reply_to=None)
            assert raised.value.maybe_done
            card = await platform.send(bed.chat, Body(text="one", growing=True), key="2", reply_to=None)
        assert [one.ref for one in bed.shown()] == [card.ref] and len(bed.server.cards) == 1


def _once_at_the_second_call(fault: Fault = Fault.BROKEN) -> Any:
    faults = iter([None, (fault, False)])
    return lambda: next(faults, None)


async def test_without_the_permission_for_cards_drafts_are_refused_by_name() -> None:
    async with DingTalkBed() as bed:
        bed.server.forbidden = "/v1.0/card"
        platform = bed.connect()
        async with running(platform, Inboxes().accept, None):
            with pytest.raises(NeedsLogin, match=r"Card\.Instance\.Write"):
                await platform.send(bed.chat, Body(text="one", growing=True), key="1", reply_to=None)
            await platform.send(bed.chat, Body(text="one"), key="2", reply_to=None)
        assert [one.text for one in bed.shown()] == ["one"]


@pytest.mark.parametrize("chat", ["two words", "a:b", "", "a,b"])
def test_what_is_no_chat(chat: str) -> None:
    with pytest.raises(Refused, match="neither a person nor a group"):
        place(Address(platform="dingtalk", chat=chat))


async def test_the_check() -> None:
    async with DingTalkBed() as bed:
        assert [one.good for one in await bed.connect().check()] == [True, True, True]
        bed.said = {"DINGTALK_CARD_TEMPLATE": "off"}
        assert "no card" in (await bed.connect().check())[-1].text
