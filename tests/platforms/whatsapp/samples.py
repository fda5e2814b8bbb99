"""Messages as the bridge tells them: what Baileys makes of its own protocol buffers, one of each kind; names
and numbers are made up. `test_judges.py` lets Baileys encode and decode every one."""

from __future__ import annotations

import base64
from typing import Any

from tests.platforms.whatsapp.server import ANN, GROUP, ME, MY_LID

LID = "88888000000001@lid"
_KEY = base64.b64encode(bytes(range(32))).decode()
MEDIA = {
    "url": "https://evil.example/x",
    "directPath": "/v/t62.7118-24/1_2.enc?ccb=11-4",
    "mediaKey": _KEY,
    "fileLength": "64",
}
_QUOTE = {
    "stanzaId": "3EB0AB12",
    "participant": f"{ME}@s.whatsapp.net",
    "quotedMessage": {"conversation": "so be it"},
}


def told(
    id: str,
    message: dict[str, Any],
    *,
    chat: str = f"{ANN}@s.whatsapp.net",
    by: str | None = None,
    name: str = "Ann",
    **key: Any,
) -> dict[str, Any]:
    whole = {
        "remoteJid": chat,
        "fromMe": False,
        "id": id,
        **({} if by is None else {"participant": by}),
        **key,
    }
    return {"key": whole, "message": message, "messageTimestamp": 1793000000, "pushName": name}


def change(kind: str, **more: Any) -> dict[str, Any]:
    key = {"remoteJid": f"{ME}@s.whatsapp.net", "fromMe": True, "id": "AC01"}
    return {"protocolMessage": {"key": key, "type": kind, **more}}


MESSAGES: dict[str, dict[str, Any]] = {
    "text": told("AC01", {"conversation": "hello 😀"}),
    "command": told("AC02", {"conversation": "/status now"}),
    "link": told("AC03", {"extendedTextMessage": {"text": "see https://example.com"}}),
    "reply": told("AC04", {"extendedTextMessage": {"text": "as you said", "contextInfo": _QUOTE}}),
    "disappearing": told("AC05", {"ephemeralMessage": {"message": {"conversation": "soon gone"}}}),
    "known by LID": told("AC06", {"conversation": "hi"}, chat=LID, remoteJidAlt=f"{ANN}@s.whatsapp.net"),
    "only by LID": told("AC07", {"conversation": "hi"}, chat=LID),
    "group": told(
        "AC08", {"conversation": "all"}, chat=GROUP, by=LID, participantAlt=f"{ANN}:3@s.whatsapp.net"
    ),
    "mention": told(
        "AC09",
        {
            "extendedTextMessage": {
                "text": f"@{MY_LID} well?",
                "contextInfo": {"mentionedJid": [f"{MY_LID}@lid"]},
            }
        },
        chat=GROUP,
        by=LID,
    ),
    "picture": told("AC10", {"imageMessage": {**MEDIA, "mimetype": "image/jpeg", "caption": "look"}}),
    "voice": told("AC11", {"audioMessage": {**MEDIA, "mimetype": "audio/ogg; codecs=opus", "ptt": True}}),
    "music": told("AC12", {"audioMessage": {**MEDIA, "mimetype": "audio/mpeg"}}),
    "film": told("AC13", {"videoMessage": {**MEDIA, "mimetype": "video/mp4"}}),
    "file": told(
        "AC14",
        {
            "documentWithCaptionMessage": {
                "message": {"documentMessage": {**MEDIA, "fileName": "a.pdf", "caption": "it"}}
            }
        },
    ),
    "sticker": told("AC15", {"stickerMessage": {**MEDIA, "mimetype": "image/webp"}}),
    "reaction": told(
        "AC16",
        {"reactionMessage": {"key": {"remoteJid": "x", "fromMe": True, "id": "3EB0AB12"}, "text": "👍"}},
    ),
    "edit": told("AC17", change("MESSAGE_EDIT", editedMessage={"conversation": "hello"})),
    "wrapped edit": told(
        "AC18",
        {"editedMessage": {"message": change("MESSAGE_EDIT", editedMessage={"conversation": "hello"})}},
    ),
    "deletion": told("AC19", change("REVOKE")),
    "place": told(
        "AC20", {"locationMessage": {"degreesLatitude": 1.5, "degreesLongitude": 2.5, "name": "Home"}}
    ),
    "contact": told(
        "AC21",
        {
            "contactMessage": {
                "displayName": "Bob",
                "vcard": "BEGIN:VCARD\nitem1.TEL;type=CELL:+1 555\nEND:VCARD",
            }
        },
    ),
    "poll": told(
        "AC22",
        {"pollCreationMessageV3": {"name": "Tea?", "options": [{"optionName": "yes"}, {"optionName": "no"}]}},
    ),
    "of ourselves": told("AC23", {"conversation": "note"}, chat=f"{ME}@s.whatsapp.net", fromMe=True),
    "of ourselves to somebody": told("AC24", {"conversation": "x"}, fromMe=True),
    "nothing": told("AC25", {"senderKeyDistributionMessage": {"groupId": GROUP}}),
}
