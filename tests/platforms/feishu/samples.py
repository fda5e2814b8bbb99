"""Events of Feishu's as its documents show them (im.message.receive_v1, im.message.recalled_v1,
card.action.trigger, im.chat.member.bot.added_v1), one of each kind; names and numbers are made up. The kinds
of messages are those of lark-oapi 1.7.5, channel/normalize/converters."""

from __future__ import annotations

import json
from typing import Any

BOT, ANN, BOB = "ou_bot0000000000000001", "ou_ann0000000000000001", "ou_bob0000000000000001"
PRIVATE, TEAM = "oc_private000000000001", "oc_team00000000000001"
APP, TOKEN, TENANT = "cli_a1b2c3d4e5f6", "rvaYgkND1GOiu5MM0E1rncYC6PLtF7JV", "2ca1d211f64f6438"


def event(
    kind: str, told: dict[str, Any], number: str = "5e3702a84e847582be8db7fb73283c02"
) -> dict[str, Any]:
    header = {
        "event_id": number,
        "event_type": kind,
        "create_time": "1793000000000",
        "token": TOKEN,
        "app_id": APP,
        "tenant_key": TENANT,
    }
    return {"schema": "2.0", "header": header, "event": told}


def received(
    number: str, kind: str, content: Any, group: bool = False, person: str = ANN, **more: Any
) -> Any:
    message = {
        "message_id": f"om_{number}",
        "create_time": "1793000000000",
        "update_time": "1793000000000",
        "chat_id": TEAM if group else PRIVATE,
        "chat_type": "group" if group else "p2p",
        "message_type": kind,
        "content": content if isinstance(content, str) else json.dumps(content, ensure_ascii=False),
        **more,
    }
    ids = {"union_id": f"on_{person[3:]}", "user_id": "e33ggbyz", "open_id": person}
    sender = {"sender_id": ids, "sender_type": "user", "tenant_key": TENANT}
    return event("im.message.receive_v1", {"sender": sender, "message": message}, f"event-{number}")


def mention(key: str, number: str, name: str) -> dict[str, Any]:
    return {
        "key": key,
        "id": {"union_id": "", "user_id": "", "open_id": number},
        "name": name,
        "tenant_key": TENANT,
    }


US = [mention("@_user_1", BOT, "Hermes")]
POST = {
    "title": "Plans",
    "content": [
        [{"tag": "at", "user_id": "@_user_1", "user_name": "Hermes"}, {"tag": "text", "text": " look at "}],
        [
            {"tag": "a", "href": "https://example.com", "text": "this"},
            {"tag": "img", "image_key": "img_7ea74629-9191-4176"},
        ],
        [{"tag": "code_block", "language": "GO", "text": "a := 1"}],
        [{"tag": "media", "file_key": "file_v2_0dcdd7d9", "image_key": "img_1"}],
    ],
}
ROOT = "om_rootrootroot1"
EVENTS: dict[str, dict[str, Any]] = {
    "text": received("text00000001", "text", {"text": "hello 😀"}),
    "command": received("text00000002", "text", {"text": " /status now"}),
    "mention": received("text00000003", "text", {"text": "@_user_1 what now?"}, True, mentions=US),
    "mention of two": received(
        "text00000004",
        "text",
        {"text": "@_user_1 and @_user_10 and @_user_2"},
        True,
        mentions=[*US, mention("@_user_2", BOB, "Bob"), mention("@_user_10", ANN, "Ann")],
    ),
    "overheard": received("text00000005", "text", {"text": "not for you"}, True),
    "reply": received("text00000006", "text", {"text": "as I said"}, root_id=ROOT, parent_id=ROOT),
    "topic": received(
        "text00000007",
        "text",
        {"text": "in it"},
        True,
        root_id=ROOT,
        parent_id=ROOT,
        thread_id="omt_d4be107c616",
    ),
    "a topic's first message": received(
        "text00000008", "text", {"text": "new"}, True, thread_id="omt_d4be107c617"
    ),
    "rich text": received("post00000001", "post", POST, True, mentions=US),
    "rich text in a language": received("post00000002", "post", {"zh_cn": POST}),
    "picture": received("image0000001", "image", {"image_key": "img_7ea74629-9191-4176-998c-2e603c9c5e8g"}),
    "file": received("file00000001", "file", {"file_key": "file_v2_0dcdd7d9", "file_name": "plan.pdf"}),
    "voice": received("audio0000001", "audio", {"file_key": "file_v2_0dcdd7da", "duration": 2000}),
    "video": received("media0000001", "media", {"file_key": "file_v2_0dcdd7db", "image_key": "img_1"}),
    "sticker": received("stick0000001", "sticker", {"file_key": "file_v2_0dcdd7dc"}),
    "forwarded": received("merge0000001", "merge_forward", "Merged and Forwarded Message"),
    "place": received("place0000001", "location", {"name": "Café", "longitude": "116.3", "latitude": "39.9"}),
    "person": received("share0000001", "share_user", {"user_id": BOB}),
    "chat": received("share0000002", "share_chat", {"chat_id": TEAM}),
    "card": received(
        "card00000001",
        "interactive",
        {"title": "Report", "elements": [[{"tag": "text", "text": "All is well."}]]},
    ),
    "task": received(
        "todo00000001",
        "todo",
        {
            "task_id": "t-1",
            "summary": {"title": "", "content": [[{"tag": "text", "text": "Buy milk", "style": []}]]},
            "due_time": "1793000000000",
        },
    ),
    "appointment": received("cal000000001", "calendar", {"summary": "Lunch", "start_time": "1793000000000"}),
    "vote": received("vote00000001", "vote", {"topic": "Where?", "options": ["here", "there"]}),
    "folder": received("folder000001", "folder", {"file_key": "file_v2_0dcdd7dd", "file_name": "Plans"}),
    "call": received("call00000001", "video_chat", {"topic": "Weekly"}),
    "something new": received("new000000001", "hologram", {"beam": "x"}),
    "topic group": received(
        "text00000009", "text", {"text": "@_user_1 here"}, True, mentions=US, chat_type="topic_group"
    ),
    "typed into a topic": received("text00000010", "text", {"text": "1"}, True, thread_id="omt_d4be107c618"),
    "typed into it again": received("text00000011", "text", {"text": "2"}, True, thread_id="omt_d4be107c618"),
    "answered in it": received(
        "text00000012",
        "text",
        {"text": "3"},
        True,
        thread_id="omt_d4be107c618",
        root_id="om_text00000011",
        parent_id="om_text00000011",
    ),
    "recalled": event(
        "im.message.recalled_v1",
        {
            "message_id": "om_text00000001",
            "chat_id": TEAM,
            "recall_time": "1793000000900",
            "recall_type": "message_owner",
        },
    ),
    "pressed": event(
        "card.action.trigger",
        {
            "operator": {"tenant_key": TENANT, "user_id": "867", "union_id": "on_x", "open_id": ANN},
            "token": "c-295ee57216a5dc9de90fefd0aadb4b1d7dxxxx",
            "action": {"value": {"hermes_button": "q_1:yes", "private": True}, "tag": "button"},
            "host": "im_message",
            "context": {"open_message_id": "om_asked0000001", "open_chat_id": PRIVATE},
        },
        "f7984f25108f8137722bb63cee927e66",
    ),
    "added": event(
        "im.chat.member.bot.added_v1",
        {"chat_id": TEAM, "operator_id": {"open_id": ANN}, "external": False, "name": "Team"},
    ),
    "read": event("im.message.message_read_v1", {"reader": {}, "message_id_list": ["om_1"]}),
}
EVENTS["pressed"]["header"]["create_time"] = "1793000000000000"
