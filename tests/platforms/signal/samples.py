"""Events of signal-cli, one of each kind: shapes of its sources at 0.14.6 (org/asamk/signal/json) and the
schema in signalbot 2.2.1."""

from __future__ import annotations

from typing import Any

from tests.platforms.signal.server import ANN, GROUP_ID, NUMBER, UUIDS, envelope

_SENT = 1_790_000_000_777
_GROUP = {"groupId": GROUP_ID, "groupName": "Friends", "revision": 3, "type": "DELIVER"}
_FILE = {"id": "Qx7_1-a.jpg", "size": 10, "width": 1, "height": 2, "caption": None, "uploadTimestamp": _SENT}


def _data(message: str | None = None, **more: Any) -> dict[str, Any]:
    return {"timestamp": _SENT, "message": message, "expiresInSeconds": 0, "viewOnce": False, **more}


def _said(message: str | None = None, **more: Any) -> dict[str, Any]:
    return envelope(ANN, _SENT, dataMessage=_data(message, **more))


_QUOTE = {
    "id": _SENT - 5,
    "author": NUMBER,
    "authorNumber": NUMBER,
    "authorUuid": UUIDS[NUMBER],
    "text": "so",
}
_ME = {"name": NUMBER, "number": NUMBER, "uuid": UUIDS[NUMBER], "start": 0, "length": 1}
_TARGET = {"targetAuthorNumber": NUMBER, "targetAuthorUuid": UUIDS[NUMBER], "targetSentTimestamp": _SENT - 5}
_HIDDEN = envelope(ANN, _SENT, dataMessage=_data("who am I?"))
_HIDDEN["envelope"] |= {"source": UUIDS[ANN], "sourceNumber": None}
_TO_SELF = {"destination": NUMBER, "destinationNumber": NUMBER, "destinationUuid": UUIDS[NUMBER]}
EVENTS: dict[str, dict[str, Any]] = {
    "text": _said("hello 😀"),
    "group": _said("hello all", groupInfo=_GROUP),
    "quote": _said("as you said", quote={**_QUOTE, "attachments": []}),
    "mention": _said("\ufffc what do you think, \ufffc?", groupInfo=_GROUP, mentions=[
        _ME, {"name": "Bob", "number": "+15557654321", "uuid": None, "start": 21, "length": 1},
    ]),
    "image": _said("look", attachments=[{**_FILE, "contentType": "image/jpeg", "filename": "a.jpg"}]),
    "voice": _said(None, attachments=[{**_FILE, "contentType": "audio/aac", "filename": None}]),
    "music": _said(None, attachments=[
        {**_FILE, "contentType": "audio/mpeg", "filename": "song.mp3", "isVoiceNote": False}
    ]),
    "file": _said(None, groupInfo=_GROUP, attachments=[
        {**_FILE, "contentType": "application/pdf", "filename": "plan.pdf"}
    ]),
    "reaction": _said(None, reaction={"emoji": "👍", **_TARGET, "isRemove": False}),
    "no_reaction": _said(None, reaction={"emoji": "👍", **_TARGET, "isRemove": True}),
    "deleted": _said(None, remoteDelete={"timestamp": _SENT - 9}),
    "edit": envelope(ANN, _SENT, editMessage={"targetSentTimestamp": _SENT - 9, "dataMessage": _data("one")}),
    "sticker": _said(None, sticker={"packId": "a1", "stickerId": 3}),
    "contact": _said(None, contacts=[
        {"name": {"display": "Bob B."}, "phone": [{"value": "+15557654321", "type": "MOBILE"}]}
    ]),
    "poll": _said(None, pollCreate={"allowMultiple": False, "question": "When?", "options": ["now", "no"]}),
    "hidden": _HIDDEN,
    "to_self": envelope(NUMBER, _SENT, syncMessage={"sentMessage": {**_TO_SELF, **_data("the milk")}}),
    "to_others": envelope(NUMBER, _SENT, syncMessage={
        "sentMessage": {**_TO_SELF, "destinationNumber": ANN, **_data("hi")}
    }),
    "group_change": _said(None, groupInfo={**_GROUP, "type": "UPDATE"}),
    "typing": envelope(ANN, _SENT, typingMessage={"action": "STARTED", "timestamp": _SENT}),
    "receipt": envelope(ANN, _SENT, receiptMessage={
        "when": _SENT, "isDelivery": True, "isRead": False, "isViewed": False, "timestamps": [_SENT],
    }),
    "story": envelope(ANN, _SENT, storyMessage={"allowsReplies": True}),
}  # fmt: skip
