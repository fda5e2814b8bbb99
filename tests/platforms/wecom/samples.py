"""Frames of an AI bot's long connection as WeCom's documents and its SDK's types show them, one of each kind;
names and numbers are made up."""

from __future__ import annotations

from typing import Any

BOT, ANN, GROUP = "aibK8f3bot", "ann.smith", "wrkSFfCgAAxxxxxx"
AES_KEY = "jWmYm7qr5nMoAUwZRjGtBxmz3KA1tkAj3ykkR6q2B2C"
FILE = {"url": "https://ww-aibot-img.example.com/BHoPdA3?sign=q", "aeskey": AES_KEY}


def frame(number: str, kind: str, group: bool = False, person: str = ANN, **more: Any) -> dict[str, Any]:
    body = {
        "msgid": f"msg_{number}",
        "aibotid": BOT,
        "chattype": "group" if group else "single",
        "from": {"userid": person},
        "msgtype": kind,
        **({"chatid": GROUP} if group else {}),
        **more,
    }
    return {"cmd": "aibot_msg_callback", "headers": {"req_id": f"req_{number}"}, "body": body}


def event(kind: str) -> dict[str, Any]:
    body = {
        "msgid": f"event_{kind}",
        "create_time": 1793000000,
        "aibotid": BOT,
        "from": {"userid": ANN},
        "msgtype": "event",
    }
    return {
        "cmd": "aibot_event_callback",
        "headers": {"req_id": "req_e"},
        "body": {**body, "event": {"eventtype": kind}},
    }


FRAMES: dict[str, dict[str, Any]] = {
    "text": frame("1", "text", text={"content": "hello 😀"}, create_time=1793000000),
    "command": frame("2", "text", text={"content": " /status now"}),
    "mention": frame("3", "text", True, text={"content": "@Hermes what now?"}),
    "only a mention": frame("4", "text", True, text={"content": "@Hermes"}),
    "quote": frame(
        "5",
        "text",
        text={"content": "as you said"},
        quote={"msgtype": "text", "text": {"content": "so be it"}},
    ),
    "quoted picture": frame(
        "11",
        "text",
        text={"content": "what is this?"},
        quote={"msgtype": "mixed", "mixed": {"msg_item": [{"msgtype": "image", "image": FILE}]}},
    ),
    "quoted file": frame(
        "12", "text", text={"content": "and this?"}, quote={"msgtype": "file", "file": FILE}
    ),
    "unreadable": frame(
        "13",
        "mixed",
        mixed={
            "msg_item": [
                {"msgtype": "text", "text": {"content": "look"}},
                {"msgtype": "image", "image": {}},
                {"msgtype": "image", "image": FILE},
            ]
        },
    ),
    "picture": frame("6", "image", image=FILE),
    "file": frame("7", "file", file=FILE),
    "video": frame("8", "video", video=FILE),
    "voice": frame("9", "voice", voice={"content": "good morning"}),
    "mixed": frame(
        "10",
        "mixed",
        True,
        mixed={
            "msg_item": [
                {"msgtype": "text", "text": {"content": "@Hermes look"}},
                {"msgtype": "image", "image": FILE},
            ]
        },
    ),
    "entered": event("enter_chat"),
    "disconnected": event("disconnected_event"),
    "feedback": event("feedback_event"),
}
