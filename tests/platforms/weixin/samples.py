"""Messages of the iLink interface as the vendor's own client types them (@tencent-weixin/openclaw-weixin
2.4.9, `src/api/types.ts`), one of each kind; names and numbers are made up."""

from __future__ import annotations

import base64
from typing import Any

ANN, BOT, TOKEN = "wxid_ann0001@im.wechat", "b1c2d3@im.bot", "bot-token-0123456789"
KEY = bytes(range(16))
MEDIA = {
    "encrypt_query_param": "AAFFz+/=",
    "aes_key": base64.b64encode(KEY.hex().encode()).decode(),
    "encrypt_type": 1,
}


def message(number: int, *items: dict[str, Any], person: str = ANN, **more: Any) -> dict[str, Any]:
    return {
        "seq": number,
        "message_id": 2**63 + number,
        "from_user_id": person,
        "to_user_id": BOT,
        "client_id": f"c{number}",
        "create_time_ms": 1793000000000 + number,
        "session_id": "s1",
        "message_type": 1,
        "message_state": 2,
        "item_list": list(items),
        "context_token": f"context+{number}/=",
        **more,
    }


def text(words: str, **more: Any) -> dict[str, Any]:
    return {"type": 1, "create_time_ms": 1793000000000, "text_item": {"text": words}, **more}


QUOTED = {"message_item": text("so be it"), "title": "so be it"}
PICTURE = {"type": 2, "image_item": {"media": MEDIA, "mid_size": 80}}
UNREADABLE = {"type": 4, "file_item": {"media": {"encrypt_query_param": "abc"}}}
MESSAGES: dict[str, dict[str, Any]] = {
    "text": message(1, text("hello 😀")),
    "command": message(2, text(" /status now")),
    "quote": message(3, text("as you said", ref_msg=QUOTED)),
    "quote by id alone": message(16, text("and that?", ref_msg={"svr_id": str(2**63 + 1)})),
    "picture that is not encrypted": message(
        17, {"type": 2, "image_item": {"media": {"full_url": "https://cdn.example/y"}}}
    ),
    "picture that is nowhere": message(18, text("so"), {"type": 2, "image_item": {"media": {}}}),
    "quoted picture": message(14, text("what is this?", ref_msg={"title": "", "message_item": PICTURE})),
    "unreadable": message(15, text("look"), UNREADABLE, PICTURE),
    "picture": message(4, PICTURE),
    "picture with a key of its own": message(
        5, {"type": 2, "image_item": {"media": MEDIA, "aeskey": KEY.hex()}}
    ),
    "picture with bytes as key": message(
        6, {"type": 2, "image_item": {"media": {**MEDIA, "aes_key": base64.b64encode(KEY).decode()}}}
    ),
    "voice": message(7, {"type": 3, "voice_item": {"media": MEDIA, "encode_type": 6, "playtime": 2000}}),
    "voice that was written down": message(
        8, {"type": 3, "voice_item": {"media": MEDIA, "text": "good morning"}}
    ),
    "file": message(9, {"type": 4, "file_item": {"media": MEDIA, "file_name": "plan.pdf", "len": "64"}}),
    "video": message(
        10, {"type": 5, "video_item": {"media": {**MEDIA, "full_url": "https://cdn.example/x"}}}
    ),
    "of ourselves": message(11, text("x"), message_type=2),
    "of a group": message(12, text("x"), group_id="g1"),
    "nothing": message(13),
}
