"""Webhooks as Meta documents them, one of each kind (developers.facebook.com, business-messaging/whatsapp/
webhooks/reference/messages, read 2026; edits and deletions as pywa 4.5.0 reads them)."""

from __future__ import annotations

from typing import Any

from tests.platforms.whatsapp_cloud.server import envelope

ANN = "16505551234"
_CONTACT = {"profile": {"name": "Sheena Nelson"}, "wa_id": ANN, "user_id": "US.13491208655302741918"}
_ID = "wamid.HBgLMTY1MDM4Nzk0MzkVAgASGBQzQTRBNjU5OUFFRTAzODEwMTQ0RgA="
_OURS = "wamid.HBgLMTY0NjcwNDM1OTUVAgARGBI1RjQyNUE3NEYxMzAzMzQ5MkEA"


def _message(sort: str, told: Any = None, **more: Any) -> dict[str, Any]:
    one = {"from": ANN, "from_user_id": "US.13491208655302741918", "id": _ID, "timestamp": "1749416383"}
    one |= {"type": sort} | ({} if told is None else {sort: told}) | more
    return envelope({"contacts": [_CONTACT], "messages": [one]})


def _status(status: str, **more: Any) -> dict[str, Any]:
    told = {"id": _OURS, "status": status, "timestamp": "1750263773", "recipient_id": ANN, **more}
    return envelope({"contacts": [_CONTACT], "statuses": [told]})


_FILE = {"sha256": "SfInY0gGKTsJlUWbwxC1k+FAD0FZHvzwfpvO0zX0GUI=", "id": "1003383421387256"}
_HIDDEN = {"profile": {"name": "Pablo", "username": "@pablo"}, "user_id": "BR.1502576394655843"}
WEBHOOKS: dict[str, dict[str, Any]] = {
    "text": _message("text", {"body": "Does it come in another color?"}),
    "reply": _message("text", {"body": "this one"}, context={"from": "15550783881", "id": _OURS}),
    "forwarded": _message("text", {"body": "look"}, context={"forwarded": True}),
    "image": _message("image", {**_FILE, "mime_type": "image/jpeg", "caption": "Taj Mahal"}),
    "voice": _message("audio", {**_FILE, "mime_type": "audio/ogg; codecs=opus", "voice": True}),
    "audio": _message("audio", {**_FILE, "mime_type": "audio/mpeg", "voice": False}),
    "video": _message("video", {**_FILE, "mime_type": "video/mp4", "caption": "rooftop"}),
    "document": _message("document", {**_FILE, "mime_type": "application/pdf", "filename": "plan.pdf"}),
    "sticker": _message("sticker", {**_FILE, "mime_type": "image/webp", "animated": False}),
    "location": _message(
        "location",
        {
            "latitude": 37.44216251868683,
            "longitude": -122.16153582049394,
            "name": "Philz",
            "address": "101 Forest",
        },
    ),
    "contacts": _message(
        "contacts",
        [
            {"name": {"formatted_name": "Barbara J. Johnson"}, "phones": [{"phone": "+16505559999"}]},
        ],
    ),
    "button": _message(
        "interactive",
        {"type": "button_reply", "button_reply": {"id": "q_1:yes", "title": "Yes"}},
        context={"from": "15550783881", "id": _OURS},
    ),
    "list": _message(
        "interactive",
        {"type": "list_reply", "list_reply": {"id": "q_1:no", "title": "No", "description": "really"}},
        context={"from": "15550783881", "id": _OURS},
    ),
    "form": _message(
        "interactive",
        {
            "type": "nfm_reply",
            "nfm_reply": {
                "name": "flow",
                "body": "Sent",
                "response_json": '{"day":"Monday"}',
            },
        },
    ),
    "quick_reply": _message("button", {"payload": "Unsubscribe", "text": "Unsubscribe"}),
    "reaction": _message("reaction", {"message_id": _OURS, "emoji": "👍"}),
    "reaction_gone": _message("reaction", {"message_id": _OURS}),
    "order": _message(
        "order",
        {
            "catalog_id": "194836987003835",
            "text": "Love these!",
            "product_items": [{"product_retailer_id": "di9ozbzfi4", "quantity": 2}],
        },
    ),
    "changed_number": _message(
        "system", {"body": "User A changed", "wa_id": "12195555358", "type": "user_changed_number"}
    ),
    "changed_id": envelope(
        {
            "messages": [
                {
                    "from_user_id": "BR.1502576394655843",
                    "id": _ID,
                    "timestamp": "1749416383",
                    "type": "system",
                    "system": {
                        "body": "Pablo changed",
                        "type": "user_changed_user_id",
                        "user_id": "BR.1702576394655844",
                    },
                }
            ],
        }
    ),
    "unsupported": _message(
        "unsupported", {"type": "poll"}, errors=[{"code": 131051, "title": "Message type unknown"}]
    ),
    "edit": _message(
        "edit",
        {
            "original_message_id": _OURS,
            "message": {"type": "text", "text": {"body": "second thought"}},
        },
    ),
    "revoke": _message("revoke", {"original_message_id": _OURS}),
    "group": _message("text", {"body": "hello all"}, group_id="Y2FwaV9ncm91cDoxOTUwNTU1MDA3OToxMjAzNjM"),
    "hidden": envelope(
        {
            "contacts": [_HIDDEN],
            "messages": [
                {
                    "from_user_id": "BR.1502576394655843",
                    "id": _ID,
                    "timestamp": "1749416383",
                    "type": "text",
                    "text": {"body": "olá"},
                }
            ],
        }
    ),
    "delivered": _status("delivered", biz_opaque_callback_data="turn:1:0"),
    "failed": _status(
        "failed",
        biz_opaque_callback_data="turn:1:0",
        errors=[
            {
                "code": 131047,
                "title": "Re-engagement message",
                "message": "Re-engagement message",
                "error_data": {"details": "Message failed to send because more than 24 hours have passed"},
            }
        ],
    ),
}
