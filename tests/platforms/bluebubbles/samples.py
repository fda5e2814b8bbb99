"""Messages of a BlueBubbles server, one of each kind (its serializer of messages)."""

from __future__ import annotations

from typing import Any

ANN, CHAT, GROUP = "+15551234567", "iMessage;-;+15551234567", "iMessage;+;chat830012345"
_GUID = "5B2C1D4E-0A10-4C1D-9E3F-000000000001"
_FILE = {"guid": "at_0_5B2C1D4E", "totalBytes": 10, "hideAttachment": False}


def _said(text: str | None = None, chat: str = CHAT, **more: Any) -> dict[str, Any]:
    return {
        "originalROWID": 5, "guid": _GUID, "text": text, "isFromMe": False, "itemType": 0, "error": 0,
        "handle": {"address": ANN, "service": "iMessage"}, "attachments": [],
        "dateCreated": 1_790_000_000_123,
        "chats": [{"guid": chat, "style": 45, "displayName": "Friends"}], "associatedMessageType": None,
        "associatedMessageGuid": None, "threadOriginatorGuid": None,
        "isAudioMessage": False, **more,
    }  # fmt: skip


MESSAGES: dict[str, dict[str, Any]] = {
    "text": _said("hello 😀"),
    "group": _said("hello all", GROUP),
    "mail": _said("hi", "iMessage;-;ann@icloud.com", handle={"address": "ann@icloud.com"}),
    "sms": _said("hi", "SMS;-;+15551234567"),
    "any": _said("hi", "any;-;+15551234567"),
    "reply": _said("as I said", threadOriginatorGuid="OURS"),
    "picture": _said(
        "\ufffc", attachments=[{**_FILE, "mimeType": "image/heic", "transferName": "IMG_1.HEIC"}]
    ),
    "voice": _said(
        None,
        isAudioMessage=True,
        attachments=[{**_FILE, "mimeType": None, "transferName": "Audio Message.caf"}],
    ),
    "song": _said(None, attachments=[{**_FILE, "mimeType": "audio/x-caf", "transferName": "song.caf"}]),
    "love": _said("Loved “so”", associatedMessageType="love", associatedMessageGuid="p:0/OURS"),
    "no_love": _said("Removed", associatedMessageType="-love", associatedMessageGuid="bp:OURS"),
    "ours": _said("hello", isFromMe=True),
    "renamed": _said(None, GROUP, itemType=2, groupTitle="Best friends"),
}
