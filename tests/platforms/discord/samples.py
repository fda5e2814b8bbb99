"""Gateway events as Discord's documents show them, one of each kind; names and numbers are made up."""

from __future__ import annotations

from typing import Any

from tests.platforms.discord.objects import (
    APPLICATION,
    BOT,
    GENERAL,
    GUILD,
    THREAD,
    channel_of,
    member_of,
    message_of,
    person,
    user_of,
)

ANN, BOB = person("501"), user_of("502", "bob")
ROLE = "700000000000000001"
MEMBER = {name: value for name, value in member_of([ROLE]).items() if name != "user"} | {"nick": "Annie"}
FILE = {
    "id": "1307000000000000099",
    "filename": "a.bin",
    "size": 1234,
    "url": "https://cdn.discordapp.com/attachments/1/2/a.bin?ex=1&is=2&hm=3",
    "proxy_url": "https://media.discordapp.net/attachments/1/2/a.bin",
}
NUMBER = 1307000000000000000


def direct(at: int, text: str = "", **more: Any) -> dict[str, Any]:
    return {"t": "MESSAGE_CREATE", "d": message_of(str(NUMBER + at), "501", ANN, text, **more)}


def shared(at: int, text: str = "", channel: str = GENERAL, **more: Any) -> dict[str, Any]:
    told = message_of(str(NUMBER + at), channel, ANN, text, **more)
    return {"t": "MESSAGE_CREATE", "d": {**told, "guild_id": GUILD, "member": MEMBER}}


def file(mime: str | None, **more: Any) -> dict[str, Any]:
    return {"attachments": [FILE if mime is None else {**FILE, "content_type": mime}], **more}


def answer(author: dict[str, Any]) -> dict[str, Any]:
    return {
        "type": 19,
        "message_reference": {"message_id": "1306", "channel_id": GENERAL, "guild_id": GUILD, "type": 0},
        "referenced_message": message_of("1306", GENERAL, author, "so it was"),
    }


def interaction(at: int, sort: int, data: dict[str, Any], **more: Any) -> dict[str, Any]:
    told = {
        "id": str(NUMBER + at),
        "application_id": APPLICATION["id"],
        "type": sort,
        "data": data,
        "token": "aW50ZXJhY3Rpb24",
        "version": 1,
        "channel_id": GENERAL,
        "channel": channel_of(GENERAL, 0),
        "guild_id": GUILD,
        "member": {**member_of([ROLE], ANN), "permissions": "8"},
        **more,
    }
    return {"t": "INTERACTION_CREATE", "d": told}


def buttons(*labelled: tuple[str, str]) -> list[dict[str, Any]]:
    row = [{"type": 2, "style": 2, "label": label, "custom_id": data} for label, data in labelled]
    return [{"type": 1, "components": row}]


QUESTION = message_of("1306", GENERAL, BOT, "May I?", components=buttons(("Yes", "q_1:yes")))
REACTION = {
    "user_id": "501",
    "channel_id": GENERAL,
    "message_id": "1307000000000000001",
    "guild_id": GUILD,
    "member": member_of([ROLE], ANN),
    "emoji": {"id": None, "name": "👍"},
    "message_author_id": BOT["id"],
    "burst": False,
    "type": 0,
}
STAMP = "2026-11-16T10:00:00.123000+00:00"

EVENTS: dict[str, dict[str, Any]] = {
    "text": direct(1, "hello 😀 <b>there"),
    "shared": shared(2, "hello all"),
    "thread": shared(3, "in the thread", THREAD),
    "mention first": shared(4, f"<@{BOT['id']}>, what now?", mentions=[BOT]),
    "mention old": shared(5, f"<@!{BOT['id']}> what now?", mentions=[BOT]),
    "mention": shared(6, f"hi <@{BOT['id']}> and <@502>", mentions=[BOT, BOB]),
    "mention by role": shared(7, f"<@&{ROLE}> what now?", mention_roles=[ROLE]),
    "mention of another": shared(8, "<@502> what now?", mentions=[BOB]),
    "mention of a bot": shared(41, "<@503> what now?", mentions=[{**BOB, "id": "503", "bot": True}]),
    "reply to us about another": shared(42, "ask <@502>", **{**answer(BOT), "mentions": [BOB]}),
    "typed command": shared(9, f"<@{BOT['id']}> /status now", mentions=[BOT]),
    "reply to us": shared(10, "and then?", **answer(BOT)),
    "reply": shared(11, "and then?", **answer(BOB)),
    "reply to nothing": shared(12, "and then?", **{**answer(BOB), "referenced_message": None}),
    "image": direct(13, "look", **file("image/png", width=90, height=60)),
    "voice": direct(14, "", **file("audio/ogg", flags=1 << 13)),
    "audio": direct(15, "", **file("audio/mpeg")),
    "video": direct(16, "", **file("video/mp4")),
    "file": direct(17, "", **file("text/plain; charset=utf-8")),
    "unknown file": direct(18, "", **file(None)),
    "sticker": direct(19, "", sticker_items=[{"id": "1", "name": "Wave", "format_type": 1}]),
    "poll": direct(
        20,
        "",
        poll={
            "question": {"text": "Tea?"},
            "answers": [
                {"answer_id": 1, "poll_media": {"text": "yes"}},
                {"answer_id": 2, "poll_media": {"text": "no"}},
            ],
            "expiry": None,
            "allow_multiselect": False,
            "layout_type": 1,
        },
    ),
    "forwarded": direct(21, "", message_snapshots=[{"message": {"content": "old words", "type": 0}}]),
    "forwarded file": direct(31, "", message_snapshots=[{"message": {"content": "", **file("image/png")}}]),
    "box": shared(
        32,
        "",
        webhook_id="77",
        embeds=[
            {"type": "rich", "title": "Build 7", "description": "failed", "fields": []},
            {"type": "link", "title": "a page"},
        ],
    ),
    "edit": {
        "t": "MESSAGE_UPDATE",
        "d": message_of(str(NUMBER + 1), "501", ANN, "hello again", edited_timestamp=STAMP),
    },
    "deleted": {"t": "MESSAGE_DELETE", "d": {"id": str(NUMBER + 1), "channel_id": "501"}},
    "deleted here": {
        "t": "MESSAGE_DELETE",
        "d": {"id": str(NUMBER + 2), "channel_id": GENERAL, "guild_id": GUILD},
    },
    "many deleted": {
        "t": "MESSAGE_DELETE_BULK",
        "d": {"ids": [str(NUMBER + 3), str(NUMBER + 4)], "channel_id": GENERAL, "guild_id": GUILD},
    },
    "unfurled": {"t": "MESSAGE_UPDATE", "d": message_of(str(NUMBER + 1), "501", ANN, "hello")},
    "ours": {"t": "MESSAGE_CREATE", "d": message_of(str(NUMBER + 22), "501", BOT, "hello")},
    "of a bot": shared(23, "beep") | {},
    "of a webhook": shared(24, "deploy is done", webhook_id="77"),
    "service": shared(25, "Ann", type=7),
    "command": interaction(
        26,
        2,
        {"id": "5", "name": "status", "type": 1, "options": [{"name": "text", "type": 3, "value": "now"}]},
    ),
    "bare command": interaction(27, 2, {"id": "5", "name": "new", "type": 1}),
    "button": interaction(28, 3, {"component_type": 2, "custom_id": "q_1:yes"}, message=QUESTION),
    "button in a thread": interaction(
        29,
        3,
        {"component_type": 2, "custom_id": "q_1:yes"},
        message=QUESTION,
        channel_id=THREAD,
        channel=channel_of(THREAD, 11, name="plans"),
    ),
    "completion": interaction(30, 4, {"id": "5", "name": "status", "type": 1}),
    "reaction": {"t": "MESSAGE_REACTION_ADD", "d": REACTION},
    "our reaction": {"t": "MESSAGE_REACTION_ADD", "d": {**REACTION, "user_id": BOT["id"]}},
    "other": {"t": "TYPING_START", "d": {"channel_id": GENERAL, "user_id": "501", "timestamp": 1}},
}
EVENTS["of a bot"]["d"]["author"] = {**BOB, "bot": True}
