"""Events of QQ's as its documents (bot-docs, api-v2, message/send-receive/event.md) and the types of its SDK
(tencent-connect/qqbot-nodejs, `protocol/types.ts`) show them, one of each kind; names and numbers are made
up."""

from __future__ import annotations

from typing import Any

APP = "102012345"
ANN, GROUP = "E4F4AEA33253A2797FB897C50B81D7ED", "C9F778FE6ADF9D1D1DBE395BF744A33A"
PICTURE = {
    "content_type": "image/jpeg",
    "filename": "a.jpg",
    "height": 100,
    "width": 200,
    "size": 1234,
    "url": "https://multimedia.nt.qq.com.cn/download?appid=1406&fileid=x",
}


def message(number: str, text: str, group: bool = False, person: str = ANN, **more: Any) -> dict[str, Any]:
    who: dict[str, Any] = {"id": person, "member_openid" if group else "user_openid": person}
    if group:
        who |= {"bot": False, "member_role": "member"}  # nonebot-adapter-qq 1.7.3 insists on both
    return {
        "author": who,
        "content": text,
        "id": f"ROBOT1.0_{number}!",
        "timestamp": "2026-11-06T13:37:18+08:00",
        "message_scene": {"source": "default", "ext": []},
        **({"group_id": GROUP, "group_openid": GROUP} if group else {}),
        **more,
    }


def event(told: dict[str, Any], kind: str = "C2C_MESSAGE_CREATE", seq: int = 2) -> dict[str, Any]:
    return {"op": 0, "id": f"{kind}:{told.get('id', '')}", "d": told, "s": seq, "t": kind}


GROUP_KIND, ALL_KIND = "GROUP_AT_MESSAGE_CREATE", "GROUP_MESSAGE_CREATE"
BOT = {"id": "0A1B2C3D4E5F60718293A4B5C6D7E8F9", "is_you": True}
BOB = {"id": "B0B0B0B0B0B0B0B0B0B0B0B0B0B0B0B0", "username": "Bob", "is_you": False}
EVE = {"member_openid": "E0E0E0E0E0E0E0E0E0E0E0E0E0E0E0E0", "nickname": "Eve", "bot": False}
VOICE = {
    **PICTURE,
    "content_type": "voice",
    "filename": "a.amr",
    "voice_wav_url": "https://qqbot.example.com/a.wav?k=1",
}
EVENTS: dict[str, dict[str, Any]] = {
    "text": event(message("b6nx.CVryAO0", "hello 😀")),
    "command": event(message("b6nx.CVryAO1", " /status now ")),
    "mention": event(message("eBIyWnxpmSu6", " what now?", True), GROUP_KIND),
    "only a mention": event(message("eBIyWnxpmSu7", " ", True), GROUP_KIND),
    # AstrBotDevs/AstrBot #8838: everything in a group comes so, where its owner permits it.
    "all, a mention": event(
        message("eBIyWnxpmSu8", f"<@!{BOT['id']}> ask <@{BOB['id']}>", True, mentions=[BOT, BOB]), ALL_KIND
    ),
    "all, no mention": event(message("eBIyWnxpmSu9", "hello all", True), ALL_KIND),
    "all, only somebody": event(message("eBIyWnxpmSuA", "<@ABCD>", True), ALL_KIND),
    "picture": event(message("b6nx.CVryAO2", " ", attachments=[PICTURE])),
    "picture without a scheme": event(
        message("b6nx.CVryAO3", "look", attachments=[{**PICTURE, "url": "gchat.qpic.cn/x/y"}])
    ),
    "voice": event(message("b6nx.CVryAO4", "", attachments=[{**PICTURE, "content_type": "voice"}])),
    "voice as a wave": event(message("b6nx.CVryAO6", "", attachments=[VOICE])),
    "voice that was written down": event(
        message("b6nx.CVryAO7", "", attachments=[{**VOICE, "asr_refer_text": "明天下午提醒我开会"}])
    ),
    "quote": event(
        message(
            "b6nx.CVryAO8",
            "what does this mean?",
            message_type=103,
            message_scene={"source": "default", "ext": ["ref_msg_idx=REFIDX_1", "msg_idx=REFIDX_2"]},
            msg_elements=[
                {
                    "msg_idx": "REFIDX_1",
                    "content": "The report is late",
                    "attachments": [PICTURE, {**PICTURE, "url": "https://multimedia.nt.qq.com.cn/again"}],
                },
                {"attachments": [{**VOICE, "asr_refer_text": "so be it"}]},
            ],
        )
    ),
    "elements of no quote": event(message("b6nx.CVryAO9", "hello", msg_elements=[{"content": "hello"}])),
    "faces": event(
        message(
            "b6nx.CVryAOA",
            'hi <faceType=1,faceId="13",ext="eyJ0ZXh0Ijoi5ZGy54mZIn0="> <faceType=3,faceId="",ext="x">',
        )
    ),
    "all, a nickname": event(
        message("eBIyWnxpmSuB", f"<@{EVE['member_openid']}> knows", True, mentions=[BOT, EVE]), ALL_KIND
    ),
    "file": event(message("b6nx.CVryAO5", "", attachments=[{**PICTURE, "content_type": "file"}])),
    "ready": {"op": 0, "s": 1, "t": "READY", "d": {"version": 1, "session_id": "s-1", "user": {"id": "1"}}},
    "friend": event({"timestamp": 1793000000, "openid": ANN}, "FRIEND_ADD"),
    "hello": {"op": 10, "d": {"heartbeat_interval": 45000}},
    "alive": {"op": 11},
}
