"""Syncs as a Synapse 1.163 gave them, shortened: one of each kind of event that concerns us."""

from __future__ import annotations

from typing import Any

from hermes.entry.platforms.matrix.convert import BUTTONS, Room
from hermes.entry.platforms.matrix.sync import MatrixIdentity

ME = MatrixIdentity(id="@hermes:localhost", name="Hermes")
ROOM = Room(
    id="!team:localhost",
    members={"@hermes:localhost": "Hermes", "@ann:localhost": "Ann", "@bob:localhost": "Bob"},
    name="Team",
)


def event(number: int, content: dict[str, Any], sort: str = "m.room.message", **more: Any) -> dict[str, Any]:
    return {
        "type": sort,
        "sender": "@ann:localhost",
        "content": content,
        "origin_server_ts": 1_794_787_200_000 + number,
        "unsigned": {"membership": "join", "age": 112},
        "event_id": f"$Wv3k9yUAfQ7yZpsCk{number}",
        **more,
    }


def ref(number: int) -> str:
    return f"$Wv3k9yUAfQ7yZpsCk{number}"


EVENTS: dict[str, dict[str, Any]] = {
    "text": event(1, {"msgtype": "m.text", "body": "hello", "m.mentions": {}}),
    "ours": event(
        2,
        {"msgtype": "m.text", "body": "May I?", BUTTONS: [{"label": "Yes", "value": "q_1:yes"}]},
        sender="@hermes:localhost",
    ),
    "html": event(
        3,
        {
            "msgtype": "m.text",
            "body": "Hermes: so **good**",
            "format": "org.matrix.custom.html",
            "formatted_body": '<a href="https://matrix.to/#/@hermes:localhost">Hermes</a>: so <b>good</b>',
            "m.mentions": {"user_ids": ["@hermes:localhost"]},
        },
    ),
    "reply": event(
        4,
        {
            "msgtype": "m.text",
            "body": "> <@hermes:localhost> May I?\n\nno",
            "m.relates_to": {"m.in_reply_to": {"event_id": ref(2)}},
        },
    ),
    "thread": event(
        5,
        {
            "msgtype": "m.text",
            "body": "in it",
            "m.relates_to": {
                "rel_type": "m.thread",
                "event_id": ref(1),
                "is_falling_back": True,
                "m.in_reply_to": {"event_id": ref(1)},
            },
        },
    ),
    "edit": event(
        6,
        {
            "msgtype": "m.text",
            "body": "* hullo",
            "m.new_content": {"msgtype": "m.text", "body": "hullo"},
            "m.relates_to": {"rel_type": "m.replace", "event_id": ref(1)},
        },
    ),
    "image": event(
        7,
        {
            "msgtype": "m.image",
            "body": "a.png",
            "url": "mxc://localhost/abcDEF",
            "info": {"mimetype": "image/png", "size": 512, "w": 3, "h": 2},
        },
    ),
    "voice": event(
        8,
        {
            "msgtype": "m.audio",
            "body": "Voice message",
            "url": "mxc://localhost/voice",
            "info": {"mimetype": "audio/ogg", "duration": 1200},
            "org.matrix.msc3245.voice": {},
        },
    ),
    "encrypted file": event(
        9,
        {
            "msgtype": "m.file",
            "body": "look",
            "filename": "a.pdf",
            "file": {
                "url": "mxc://localhost/secret",
                "key": {"k": "A" * 43, "alg": "A256CTR", "kty": "oct", "ext": True, "key_ops": ["decrypt"]},
                "iv": "B" * 22,
                "hashes": {"sha256": "C" * 43},
                "v": "v2",
            },
        },
    ),
    "sticker": event(
        10,
        {"body": "a cat", "url": "mxc://localhost/cat", "info": {"mimetype": "image/webp"}},
        "m.sticker",
    ),
    "location": event(11, {"msgtype": "m.location", "body": "here", "geo_uri": "geo:51.5,-0.1"}),
    "emote": event(12, {"msgtype": "m.emote", "body": "waves"}),
    "notice": event(13, {"msgtype": "m.notice", "body": "I am a bot"}),
    "pressed": event(
        14,
        {"m.relates_to": {"rel_type": "m.annotation", "event_id": ref(2), "key": "1️⃣"}},
        "m.reaction",
    ),
    "reaction": event(
        15, {"m.relates_to": {"rel_type": "m.annotation", "event_id": ref(2), "key": "👍"}}, "m.reaction"
    ),
    "member": event(
        16, {"membership": "join", "displayname": "Ann"}, "m.room.member", state_key="@ann:localhost"
    ),
    "redaction": event(17, {"redacts": ref(1)}, "m.room.redaction", redacts=ref(1)),
    "replaced": event(
        19,
        {"body": "This room has been replaced", "replacement_room": "!new:localhost"},
        "m.room.tombstone",
        state_key="",
    ),
    "encrypted": event(
        18,
        {"algorithm": "m.megolm.v1.aes-sha2", "ciphertext": "AwgA", "session_id": "x", "device_id": "D"},
        "m.room.encrypted",
    ),
}


def sync(*events: dict[str, Any], **rooms: Any) -> dict[str, Any]:
    room = {
        "timeline": {"events": list(events), "prev_batch": "t12_0_0", "limited": False},
        "state": {"events": []},
        "account_data": {"events": []},
        "ephemeral": {"events": []},
        "unread_notifications": {"notification_count": 1, "highlight_count": 0},
        "summary": {},
    }
    return {"next_batch": "s13_7_0_1", "rooms": {"join": {ROOM.id: room}, **rooms}}


INVITATION = {
    "invite_state": {
        "events": [
            {
                "type": "m.room.create",
                "state_key": "",
                "sender": "@ann:localhost",
                "content": {"room_version": "12", "predecessor": {"room_id": ROOM.id}},
            },
            {
                "type": "m.room.member",
                "state_key": ME.id,
                "sender": "@ann:localhost",
                "content": {"membership": "invite", "is_direct": True},
            },
        ]
    }
}
_FIRST = (EVENTS["text"], EVENTS["ours"])
SYNCS = [sync(*_FIRST, one) for name, one in EVENTS.items()] + [
    sync(*EVENTS.values(), invite={"!new:localhost": INVITATION}, leave={"!old:localhost": {}})
]
