"""Events as the vendor's documents and types show them, one of each kind; names and numbers are made up."""

from __future__ import annotations

import json
from typing import Any

from tests.platforms.mattermost.server import ANN, BOT, new_id

PRIVATE, TEAM = new_id("channel ann"), new_id("channel team")
FILE = {
    "id": new_id("file"),
    "user_id": ANN["id"],
    "post_id": new_id("post 9"),
    "create_at": 1793000000000,
    "name": "plan.pdf",
    "extension": "pdf",
    "size": 1234,
    "mime_type": "application/pdf",
    "has_preview_image": False,
}


def post(number: int, channel: str = PRIVATE, **more: Any) -> dict[str, Any]:
    return {
        "id": new_id(f"post {number}"),
        "create_at": 1793000000000 + number,
        "update_at": 1793000000000 + number,
        "edit_at": 0,
        "delete_at": 0,
        "is_pinned": False,
        "user_id": ANN["id"],
        "channel_id": channel,
        "root_id": "",
        "original_id": "",
        "message": "hello 😀",
        "type": "",
        "props": {},
        "hashtags": "",
        "file_ids": None,
        "pending_post_id": "",
        "metadata": {},
        **more,
    }


def event(name: str, data: dict[str, Any], channel: str = PRIVATE, seq: int = 3) -> dict[str, Any]:
    broadcast = {"omit_users": None, "user_id": "", "channel_id": channel, "team_id": ""}
    return {"event": name, "data": data, "broadcast": broadcast, "seq": seq}


def posted(one: dict[str, Any], kind: str = "D") -> dict[str, Any]:
    data = {
        "channel_display_name": "" if kind == "D" else "Team",
        "channel_name": "team",
        "channel_type": kind,
        "mentions": json.dumps([BOT["id"]]),
        "post": json.dumps(one),
        "sender_name": "@ann",
        "set_online": True,
        "team_id": "" if kind == "D" else new_id("team"),
    }
    return event("posted", data, one["channel_id"])


REACTION = {
    "user_id": ANN["id"],
    "post_id": new_id("post 1"),
    "emoji_name": "+1",
    "create_at": 1793000000500,
    "update_at": 1793000000500,
    "delete_at": 0,
}
EVENTS: dict[str, dict[str, Any]] = {
    "hello": {"event": "hello", "data": {"connection_id": new_id("c"), "server_version": "11"}, "seq": 0},
    "text": posted(post(1)),
    "command": posted(post(2, message=" /status now")),
    "mention": posted(post(3, TEAM, message="@hermes what now?"), "O"),
    "mention within": posted(post(4, TEAM, message="ask @Hermes, please"), "P"),
    "another's name": posted(post(5, TEAM, message="@hermes-two and @hermes.x are others"), "O"),
    "thread": posted(post(6, TEAM, root_id=new_id("post 3"), message="and then?"), "O"),
    "thread of ours": posted(post(7, root_id=new_id("post 77"), message="as you said")),
    "file": posted(
        post(9, message="look", file_ids=[FILE["id"]], metadata={"files": [FILE]}),
    ),
    "voice": posted(
        post(
            10,
            message="",
            file_ids=[FILE["id"]],
            metadata={"files": [{**FILE, "name": "v.ogg", "mime_type": "audio/ogg; codecs=opus"}]},
        )
    ),
    "file without its facts": posted(post(11, file_ids=[FILE["id"]])),
    "of a webhook": posted(post(12, TEAM, props={"from_webhook": "true"}), "O"),
    "of ourselves": posted(post(13, user_id=BOT["id"])),
    "of the system": posted(post(14, TEAM, type="system_join_channel"), "O"),
    "history": {"event": "posted", "data": {"post": post(15, TEAM, message="@hermes back?")}},
    "edit": event("post_edited", {"post": json.dumps(post(1, message="hello!", edit_at=1793000000900))}),
    # A pin is told as an edit whose edit_at stays 0 (mattermost-server, app/post.go: SaveIsPinnedPost).
    "pinned": event("post_edited", {"post": json.dumps(post(1, is_pinned=True))}),
    "deleted": event("post_deleted", {"post": json.dumps(post(1, delete_at=1793000000900))}),
    "reaction": event("reaction_added", {"reaction": json.dumps(REACTION)}),
    "added": event("user_added", {"team_id": new_id("team"), "user_id": BOT["id"]}, TEAM),
    "removed": {
        **event("user_removed", {"channel_id": TEAM, "remover_id": ANN["id"]}, ""),
        "broadcast": {"user_id": BOT["id"], "channel_id": ""},
    },
    "typing": event("typing", {"parent_id": "", "user_id": ANN["id"]}),
}
