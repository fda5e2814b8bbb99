"""Calls of Slack's Web API, and whether a call or an address is Slack's own. Every token goes in a header, to
Slack's own addresses alone."""

from __future__ import annotations

import hashlib
import hmac
import json
from collections.abc import Mapping
from datetime import datetime
from typing import Any
from urllib.parse import urlsplit

import aiohttp

from hermes.domain.chats.adapter import Finding
from hermes.domain.errors import HermesError, NeedsLogin, Refused, Unreachable
from hermes.domain.ports.world import Sink
from hermes.domain.text import one_line
from hermes.entry.kit.errors import TOO_FAST, error_table, retry_after, seconds_of, slower, their_fault
from hermes.entry.kit.http import HttpAnswer, HttpClient, UploadForm
from hermes.entry.kit.payload import as_dict, as_text, dig
from hermes.entry.kit.transfer import OutgoingFile

SIGNED_SECONDS = 300
# What only reads takes its parameters as a form; what writes takes JSON.
_WRITES = ("chat.", "reactions.add", "reactions.remove", "files.complete", "conversations.open", "assistant.")
_JSON = {"Content-Type": "application/json; charset=utf-8"}
_NO_PERMISSION = "Slack does not give the file; the app may lack the permission files:read"
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


class SlackResponse(HttpAnswer, frozen=True):
    @property
    def result(self) -> dict[str, Any]:
        """The answer; an error of ours if it is a refusal."""
        answer = as_dict(self.answer)
        if self.status < 300 and answer.get("ok") is True:
            return answer
        # Something that is no answer of the Web API (a proxy's page) says nothing about what was done.
        status = self.status if self.status >= 300 or "error" in answer else 500
        raise error_for(status, self.answer, self.headers.get("Retry-After"))

    def says(self, *errors: str) -> bool:
        return dig(self.answer, "error") in errors


class SlackApi(HttpClient[SlackResponse]):
    """Calls with the bot's token, unless another is given."""

    gone_statuses = frozenset(range(400, 500)) - {TOO_FAST}

    def __init__(self, base: str, token: str, proxy: str | None) -> None:
        super().__init__("Slack", SlackResponse, proxy=proxy)
        self.base = base.rstrip("/")
        self._token = token

    async def call(self, method: str, **asked: Any) -> dict[str, Any]:
        return (await self.ask(method, asked)).result

    async def ask(self, method: str, asked: Mapping[str, Any], *, token: str = "") -> SlackResponse:
        headers = {"Authorization": f"Bearer {token or self._token}"}
        if method.startswith(_WRITES):
            headers |= _JSON
            data: Any = json.dumps(asked).encode()
        else:
            data = {
                name: value if isinstance(value, str) else json.dumps(value) for name, value in asked.items()
            }
        return await self.exchange("POST", f"{self.base}/{method}", headers=headers, data=data)

    async def upload(self, url: str, name: str, data: bytes, mime: str) -> None:
        """Put a file where Slack said. The address itself is the permission: no token goes along."""
        self._check_ours(url)
        form = UploadForm()
        file = OutgoingFile(data)
        form.add_field("file", file, filename=name, content_type=mime)
        try:
            response = await self.exchange("POST", url, files=[file], data=form)
        except Unreachable as error:
            raise Unreachable(str(error), in_transfer=error.maybe_done) from error
        if response.status == 413:
            raise Refused("The file is too large for Slack (HTTP 413)")
        if response.status != 200:
            # Until it is completed nobody sees anything of it, so it may simply be tried again.
            why = f"Slack did not take the file (HTTP {response.status})"
            raise Unreachable(why, after=retry_after(response.headers), in_transfer=True)

    async def respond(self, url: str, shown: Mapping[str, Any]) -> None:
        """Answer a slash command where Slack said; the address itself is the permission."""
        self._check_ours(url)
        data = json.dumps({**shown, "response_type": "ephemeral"}).encode()
        response = await self.exchange("POST", url, headers=_JSON, data=data)
        if response.status in self.gone_statuses:
            raise Refused("The slash command was too long ago to be answered where the bot is not")
        if response.status != 200:
            raise error_for(response.status, None, response.headers.get("Retry-After"))

    async def fetch(self, url: str, sink: Sink, html: bool) -> None:
        """Get a file with the bot's token. Without the right to it Slack shows a page to log in on."""
        self._check_ours(url)

        def refusal(response: SlackResponse) -> HermesError | None:
            page = response.headers.get("Content-Type", "").partition(";")[0].strip() == "text/html"
            if 300 <= response.status < 400 or (response.status == 200 and page and not html):
                return Refused(_NO_PERMISSION)
            return self._no_file(response)

        await self.download(url, sink, headers={"Authorization": f"Bearer {self._token}"}, refusal=refusal)

    async def open_socket(self, url: str) -> aiohttp.ClientWebSocketResponse:
        """A connection for Socket Mode; a dead one is noticed by its missing heartbeat."""
        self._check_ours(url)
        return await self.connect(url, heartbeat=20.0)

    def _check_ours(self, url: str) -> None:
        if not is_ours(url, self.base):
            raise Refused("Slack names an address that is not its own")


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
