"""Slack's wire: what its errors mean, how buttons are drawn, whether a call is really Slack's, whose address
something is. Pure functions."""

from __future__ import annotations

import hashlib
import hmac
import re
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any
from urllib.parse import urlsplit

from hermes.domain.adapter import Finding
from hermes.domain.errors import HermesError, NeedsLogin, Refused, Unreachable
from hermes.domain.message import Attachment, Button
from hermes.domain.text import one_line
from hermes.entry.kit.errors import error_table, seconds_of, slower, their_fault
from hermes.entry.kit.files import file_name
from hermes.entry.kit.payload import as_dicts, as_text, dig

SIGNED_SECONDS = 300
SECTION = 3000
KEY_EVENT = "hermes_message"
"""The name of the metadata in which a message of ours carries its key."""
_LABEL, _VALUE, _IN_A_ROW = 75, 2000, 25
ROTATED = (
    "SLACK_BOT_TOKEN is of an app with token rotation and ends after twelve hours: make an app without it,"
    " and set that one's token"
)
_BAD_TOKEN = frozenset({
    "invalid_auth", "not_authed", "account_inactive", "token_revoked",
    "org_login_required", "not_allowed_token_type", "team_access_not_granted", "two_factor_setup_required",
})  # fmt: skip
_NO_CODES = frozenset(f"HTTP {status}" for status in range(200, 600))
_SLACKS_OWN = frozenset({"internal_error", "fatal_error", "service_unavailable", "request_timeout"})
_REFUSALS = {
    "channel_not_found": "it does not know the chat, or the bot is not in it",
    "not_in_channel": "the bot is not in the channel; /invite it there",
    "no_permission": "the bot may not do that there; /invite it",
    "is_archived": "the channel is archived",
    "messages_tab_disabled": "the app takes no direct messages; switch its messages tab on (App Home)",
    "user_disabled": "that person has left the workspace",
    "restricted_action_read_only_channel": "only some may write in that channel",
    "restricted_action_thread_only_channel": "only some may begin something in that channel",
    "restricted_action_non_threadable_channel": "that channel has no threads",
    "ekm_access_denied": "the organisation's admins forbid it now",
    "message_limit_exceeded": "the workspace sends more messages than its plan takes",
    "msg_too_long": "the message is too long",
    "message_not_found": "the message is gone",
    "cant_update_message": "the message is not ours to edit",
    "edit_window_closed": "the message is too old to be edited",
    "cannot_dm_bot": "bots cannot be written to",
    "user_not_found": "it does not know that person",
    "restricted_action": "the workspace's rules forbid it",
    "file_not_found": "the file is gone",
    "file_deleted": "the file was deleted",
    "file_uploads_disabled": "the workspace takes no files",
    "storage_limit_reached": "the workspace's storage is full",
}
_EMOJI = {
    "👀": "eyes", "👍": "+1", "👎": "-1", "✅": "white_check_mark", "❌": "x", "🎉": "tada", "❤": "heart",
    "🔥": "fire", "🤔": "thinking_face", "⏳": "hourglass_flowing_sand", "⚠": "warning", "🙏": "pray",
    "😀": "grinning", "😂": "joy", "🚀": "rocket", "👏": "clap", "💯": "100", "🛑": "octagonal_sign",
    "✔": "heavy_check_mark", "⌛": "hourglass", "❓": "question", "❗": "exclamation", "👌": "ok_hand",
    "🔁": "repeat", "💤": "zzz", "🧠": "brain", "⚙": "gear", "✍": "writing_hand", "🤖": "robot_face",
}  # fmt: skip
_NAMES = {name: emoji for emoji, name in _EMOJI.items()} | {"thumbsup": "👍", "thumbsdown": "👎"}
SCOPES = {
    "chat:write": "it cannot write",
    "im:history": "it does not hear direct messages",
    "app_mentions:read": "it does not hear mentions in channels",
    "channels:history": "it does not hear public channels",
    "groups:history": "it does not hear private channels",
    "mpim:history": "it does not hear group messages",
    "channels:read": "it does not find what it missed in public channels",
    "groups:read": "it does not find what it missed in private channels",
    "im:read": "it does not find what it missed in direct messages",
    "mpim:read": "it does not find what it missed in group messages",
    "im:write": "it cannot begin a direct message",
    "users:read": "it does not know people's names",
    "files:read": "it cannot read files",
    "files:write": "it cannot send files",
    "reactions:read": "it does not see reactions",
    "reactions:write": "it cannot react",
    "commands": "it has no slash command",
    "metadata.message:read": "it may not recognise after a crash what it has already sent",
}
"""What each permission is for, told by what is missing without it."""
_OPTIONAL = frozenset({
    "commands", "groups:history", "groups:read", "im:write", "metadata.message:read", "mpim:history",
    "mpim:read", "reactions:read", "reactions:write", "users:read",
})  # fmt: skip
"""What one may do without on purpose."""


# --- errors --------------------------------------------------------------------------------------


_error = error_table(
    "Slack",
    {
        ("ratelimited", "rate_limited"): (slower, "Slack wants us to be slower ({why})"),
        "missing_scope": (
            NeedsLogin,
            "The Slack app lacks the permission {why}: add it under OAuth & Permissions, then install the app"
            " again",
        ),
        "token_expired": (NeedsLogin, f"{ROTATED} ({{why}})"),
        _BAD_TOKEN: (
            NeedsLogin,
            "Slack does not take the token any more or at all ({why}); install the app again",
        ),
        _SLACKS_OWN: (their_fault, "Slack has a fault of its own ({why})"),
        **{code: (Refused, f"Slack refuses it: {what} ({{why}})") for code, what in _REFUSALS.items()},
        "HTTP 413": (Refused, "It is too large for Slack ({why})"),
        _NO_CODES: (Unreachable, "What answers in Slack's place is not Slack ({why})"),
    },
)


def error_for(status: int, answer: Any, wait: str | None) -> HermesError:
    """What an answer that is no success means for the caller; `wait` is its Retry-After."""
    code = one_line(as_text(dig(answer, "error")) or f"HTTP {status}", 120)
    why = one_line(str(dig(answer, "needed") or "?"), 80) if code == "missing_scope" else code
    seconds = seconds_of(wait)
    after = 5.0 if seconds is None else seconds
    return _error(status, code, why, after)


def check_install(who: Mapping[str, Any]) -> None:
    """Whether the token is of one workspace: that of an organisation has to name one at every step."""
    if who.get("is_enterprise_install") is True:
        raise NeedsLogin(
            "SLACK_BOT_TOKEN is of an app that is installed for a whole organisation: install it in a"
            " workspace, and set the token that it has there"
        )


# --- addresses -----------------------------------------------------------------------------------


def is_ours(url: str, api: str) -> bool:
    """Whether an address is of the service whose Web API we use, and as safe to speak to: the token goes
    nowhere else."""
    try:
        there, base = urlsplit(url), urlsplit(api)
        host, home = there.hostname or "", base.hostname or ""
        _ = there.port
    except ValueError:
        return False
    if not host or not home or there.username is not None:
        return False
    safe = there.scheme in ("https", "wss") or (base.scheme == "http" and there.scheme in ("http", "ws"))
    return safe and (host == home or host.endswith(f".{home}"))


# --- signatures ----------------------------------------------------------------------------------


def signature(secret: str, at: str, body: bytes) -> str:
    return "v0=" + hmac.new(secret.encode(), b"v0:" + at.encode() + b":" + body, hashlib.sha256).hexdigest()


def is_signed(secret: str, headers: Mapping[str, str], body: bytes, now: datetime) -> bool:
    """Whether Slack sent this just now."""
    at, given = headers.get("X-Slack-Request-Timestamp", ""), headers.get("X-Slack-Signature", "")
    if not (at.isascii() and at.isdigit() and len(at) < 13):
        return False
    if abs(now.timestamp() - int(at)) > SIGNED_SECONDS:
        return False
    return hmac.compare_digest(given.encode("utf-8", "replace"), signature(secret, at, body).encode())


# --- what goes out -------------------------------------------------------------------------------


def blocks(text: str, buttons: Sequence[Button]) -> list[dict[str, Any]]:
    """A text with buttons under it. A value that is too long for a button leaves the button out."""
    shown: list[dict[str, Any]] = [
        {"type": "section", "text": {"type": "mrkdwn", "text": piece}} for piece in _sections(text)
    ]
    elements = [
        {
            "type": "button",
            "action_id": f"hermes_{place}",
            "text": {"type": "plain_text", "text": one_line(button.label, _LABEL), "emoji": True},
            "value": button.value,
        }
        for place, button in enumerate(buttons)
        if button.label.strip() and 0 < len(button.value) <= _VALUE
    ]
    for start in range(0, len(elements), _IN_A_ROW):
        shown.append({"type": "actions", "elements": elements[start : start + _IN_A_ROW]})
    return shown


def _sections(text: str) -> list[str]:
    pieces: list[str] = []
    while len(text) > SECTION:
        cut = max(text.rfind("\n", 1, SECTION), text.rfind(" ", 1, SECTION))
        cut = cut if cut > 0 else SECTION
        pieces.append(text[:cut])
        text = text[cut:]
    return [piece for piece in (*pieces, text) if piece.strip()]


def emoji_name(emoji: str) -> str:
    """What Slack calls an emoji."""
    bare = emoji.replace("\ufe0f", "").strip(":")
    if bare in _EMOJI:
        return _EMOJI[bare]
    if re.fullmatch(r"[a-z0-9_+'-]{1,100}", bare, re.ASCII):
        return bare
    raise Refused(f"Slack has no name for {one_line(emoji, 12)}")


def emoji_told(name: str) -> str:
    return _NAMES.get(name) or f":{name}:"


def tag_of(key: str) -> str:
    """A short mark for a key, where a message cannot carry the key itself: in the name of its file."""
    return hashlib.sha256(key.encode("utf-8", "replace")).hexdigest()[:10]


def shown_name(file: Attachment) -> str:
    return one_line(file_name(file), 120).replace("/", "_") or "file"


def tagged(name: str, key: str) -> str:
    """The name with the mark of its key before the ending; people see the title, which is without it."""
    stem, dot, ending = name.rpartition(".")
    return f"{stem}~{tag_of(key)}.{ending}" if dot and stem else f"{name}~{tag_of(key)}"


def is_sent_as(message: Any, key: str) -> bool:
    """Whether a message of ours was sent under this key."""
    if dig(message, "metadata", "event_payload", "key") == key:
        return True
    names = [as_text(file.get("name")) for file in as_dicts(dig(message, "files"))]
    return any(f"~{tag_of(key)}" in name for name in names)


# --- a look from outside -------------------------------------------------------------------------


def scope_findings(scopes: str) -> list[Finding]:
    """What the app may not do, from the list of its permissions; nothing where Slack does not tell."""
    held = {scope.strip() for scope in scopes.split(",")}
    if not scopes.strip():
        return []
    return [
        Finding(
            good=scope in _OPTIONAL,
            text=f"Without the permission {scope} {what}.",
            hint="Add it under OAuth & Permissions in your app, then install the app again.",
        )
        for scope, what in SCOPES.items()
        if scope not in held
    ]
