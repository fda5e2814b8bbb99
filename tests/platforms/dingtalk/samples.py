"""Frames of Stream mode, one of each kind: the robot's messages as DingTalk documents them
(open.dingtalk.com/document/orgapp/receive-message) and as live logs in public issues show them
(soimy/openclaw-channel-dingtalk, DingTalk-Real-AI/dingtalk-openclaw-connector); names and numbers made up."""

from __future__ import annotations

import json
from typing import Any

TOPIC = "/v1.0/im/bot/messages/get"
ANN, BOT = "manager1234", "$:LWCP_v1:$8ZHl0bot+abc=="
GROUP = "cid6KeBBLoveMJOGXoYKF5x7EeiodoA=="
ROBOT = "dingabc123def456"


def frame(data: Any, topic: str = TOPIC, kind: str = "CALLBACK", number: str = "c0a8d41_1") -> dict[str, Any]:
    return {
        "specVersion": "1.0",
        "type": kind,
        "headers": {
            "appId": "e4c0a9e1-0000-4a5b-9b3c-2f7d3a1b0c9d",
            "connectionId": "b7f1e2d0-8a77-11ef-9b1d-0242ac120002",
            "contentType": "application/json",
            "messageId": number,
            "time": "1793000000123",
            "topic": topic,
        },
        "data": data if isinstance(data, str) else json.dumps(data, ensure_ascii=False),
    }


def message(number: str, group: bool = False, person: str = ANN, **more: Any) -> dict[str, Any]:
    return {
        "conversationId": GROUP if group else "cidbWykSYH4VBmX0naFuJKylC0IWbX/byxZtsaUuznx8Cs=",
        "chatbotCorpId": "ding9f50b15bccd16741",
        "chatbotUserId": BOT,
        "msgId": number,
        "senderNick": "Ann",
        "isAdmin": False,
        "senderStaffId": person,
        "sessionWebhookExpiredTime": 1793005400000,
        "createAt": 1793000000000,
        "senderCorpId": "ding9f50b15bccd16741",
        "conversationType": "2" if group else "1",
        "senderId": f"$:LWCP_v1:${person}==",
        "sessionWebhook": "https://oapi.dingtalk.com/robot/sendBySession?session=abc",
        "robotCode": ROBOT,
        **(
            {"conversationTitle": "Team", "isInAtList": True, "atUsers": [{"dingtalkId": BOT}]}
            if group
            else {}
        ),
        **more,
    }


def text(number: str, words: str, group: bool = False, **more: Any) -> dict[str, Any]:
    return message(number, group, msgtype="text", text={"content": words}, **more)


QUOTED = {
    "content": "as you said",
    "isReplyMsg": True,
    "repliedMsg": {
        "msgId": "msgQuoted==",
        "msgType": "text",
        "senderId": BOT,
        "createdAt": 1792999990000,
        "content": {"text": "so be it"},
    },
}
RICH = {
    "richText": [
        {"text": "look at "},
        {"text": "this"},
        {"downloadCode": "mIofN681YE3f/+m+NntqpTnzR", "pictureDownloadCode": "x", "type": "picture"},
    ]
}
QUOTED_FILE = {
    **QUOTED,
    "repliedMsg": {
        "msgId": "msgFile==",
        "msgType": "file",
        "content": {"downloadCode": "code9", "fileName": "a.pdf"},
    },
}
QUOTED_TEXT = {
    **QUOTED,
    "repliedMsg": {"msgId": "msgText==", "msgType": "text", "content": {"content": "of Bob's"}},
}
CARD = [
    {
        "elementType": "MARKDOWN",
        "children": [{"elementType": "TEXT", "value": "what"}, {"elementType": "TEXT", "value": "I said"}],
    }
]
QUOTED_CARD = {
    **QUOTED,
    "repliedMsg": {"msgId": "msgCard==", "msgType": "interactiveCard", "content": {"cardContent": CARD}},
}
RECORD = {
    "summary": '["Ann: hel…"]',
    "chatRecord": json.dumps([{"senderId": "$:LWCP_v1:$x==", "msgType": "text", "content": "hello to all"}]),
}
FRAMES: dict[str, dict[str, Any]] = {
    "text": frame(text("msg1==", "hello 😀")),
    "command": frame(text("msg2==", " /status now ")),
    "mention": frame(text("msg3==", " what now?", group=True)),
    "only a mention": frame(text("msg4==", " ", group=True)),
    "reply": frame(message("msg5==", msgtype="text", text=QUOTED)),
    "reply to a file": frame(message("msg16==", msgtype="text", text=QUOTED_FILE)),
    "reply to one of ours": frame(
        message("msg6==", msgtype="text", text=QUOTED, originalProcessQueryKey="pqk1=", originalMsgId="m")
    ),
    "picture": frame(
        message("msg7==", msgtype="picture", content={"pictureDownloadCode": "p", "downloadCode": "code+/=1"})
    ),
    "rich text": frame(message("msg8==", msgtype="richText", content=RICH)),
    "voice": frame(message("msg9==", msgtype="audio", content={"duration": 4000, "downloadCode": "code2"})),
    "voice that was written down": frame(
        message("msg10==", msgtype="audio", content={"downloadCode": "code3", "recognition": "good morning"})
    ),
    "video": frame(
        message(
            "msg11==", msgtype="video", content={"duration": 4000, "downloadCode": "c4", "videoType": "mp4"}
        )
    ),
    "file": frame(
        message(
            "msg12==",
            msgtype="file",
            content={"spaceId": "1", "fileName": "plan.pdf", "downloadCode": "c5", "fileId": "2"},
        )
    ),
    "of another organisation": frame({**text("msg13==", "hi", group=True), "senderStaffId": ""}),
    "forwarded": frame(message("msg14==", msgtype="chatRecord", content=RECORD)),
    "forwarded without details": frame(
        message("msg17==", msgtype="chatRecord", content={"summary": "Ann: hello"})
    ),
    "reply as it comes now": frame(message("msg18==", msgtype="text", text=QUOTED_TEXT)),
    "reply to a card": frame(
        message("msg19==", msgtype="text", text=QUOTED_CARD, originalProcessQueryKey="c1")
    ),
    "reply with a picture": frame(
        message("msg20==", msgtype="richText", content={**RICH, **QUOTED_FILE, "content": None})
    ),
    "a card's document": frame(message("msg15==", msgtype="interactiveCard", content={})),
    "ping": frame({"opaque": "1234"}, "ping", "SYSTEM"),
    "disconnect": frame({"reason": "persistent connection is timeout"}, "disconnect", "SYSTEM"),
    "an event": frame({"eventType": "user_add_org"}, "*", "EVENT"),
    "a press on somebody's card": frame({"content": "{}"}, "/v1.0/card/instances/callback"),
}
