"""Calls of DingTalk's interfaces: the robot's messages, cards, files. Faults become our errors, without a
token in them."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote_plus, urlsplit, urlunsplit

from hermes.domain.chats.adapter import AdapterContext
from hermes.domain.errors import HermesError, NeedsLogin, Refused, Unreachable
from hermes.domain.ports.world import Sink
from hermes.domain.text import one_line
from hermes.entry.kit.errors import error_table, slower
from hermes.entry.kit.files import ANY_MIME
from hermes.entry.kit.http import HttpAnswer, HttpClient, UploadForm
from hermes.entry.kit.payload import as_size, as_text, dig
from hermes.entry.kit.token import AppToken, TokenExpired
from hermes.entry.kit.transfer import OutgoingFile

API = "https://api.dingtalk.com"
WAIT = 2.0
"""DingTalk does not say how long to wait; its own connector waits so many seconds."""
_LOGIN = "DingTalk does not take the app's credentials (DINGTALK_CLIENT_ID, DINGTALK_CLIENT_SECRET)"
_PERMISSION = "DingTalk does not let the app do that: add the permission on its page ({why})"
_error = error_table(
    "DingTalk",
    {
        ("authFailed", "invalidClientIdOrSecret"): (NeedsLogin, f"{_LOGIN} ({{why}})"),
        ("InvalidAuthentication", "40014", 401): (TokenExpired, f"{_LOGIN} ({{why}})"),
        ("QpsLimit", "90018"): (slower, "DingTalk wants us to be slower ({why})"),
        "PermissionDenied": (NeedsLogin, _PERMISSION),
    },
)
_WORDS = ("QpsLimit", "PermissionDenied")
"""What a code has in it that tells one refusal from another."""


class DingTalkApi(HttpClient[HttpAnswer]):
    def __init__(
        self, context: AdapterContext, client_id: str, secret: str, url: str, proxy: str | None
    ) -> None:
        super().__init__("DingTalk", HttpAnswer, proxy=proxy)
        self.url = url
        self.robot = client_id
        self._login = {"appKey": client_id, "appSecret": secret}
        self.token = AppToken(context, self._new_token)

    async def _new_token(self) -> tuple[str, float]:
        answer = await self._ask("POST", "/v1.0/oauth2/accessToken", json=self._login)
        token = as_text(dig(answer, "accessToken"))
        if not token:
            raise Unreachable("DingTalk gives no access token")
        return token, float(as_size(dig(answer, "expireIn")) or 7200)

    async def open_stream(self, subscriptions: list[dict[str, str]]) -> str:
        """The address of a new connection."""
        asked = {
            "clientId": self._login["appKey"],
            "clientSecret": self._login["appSecret"],
            "subscriptions": subscriptions,
            "ua": "hermes-gateway",
        }
        answer = await self._ask("POST", "/v1.0/gateway/connections/open", json=asked)
        endpoint, ticket = as_text(dig(answer, "endpoint")), as_text(dig(answer, "ticket"))
        if not (endpoint and ticket):
            raise Unreachable("DingTalk does not say where its stream is")
        return f"{endpoint}?ticket={quote_plus(ticket)}"

    async def call(self, method: str, path: str, asked: Any) -> Any:
        async def with_token(token: str) -> Any:
            return await self._ask(method, path, json=asked, headers={"x-acs-dingtalk-access-token": token})

        return await self.token.use(with_token)

    async def upload(self, kind: str, name: str, data: bytes, mime: str | None) -> str:
        """The id of a file that no message has yet."""
        parts = urlsplit(self.url)
        host = f"o{parts.netloc}" if parts.netloc.startswith("api.") else parts.netloc
        url = urlunsplit((parts.scheme, host, "/media/upload", "", ""))

        async def with_token(token: str) -> Any:
            form, file = UploadForm(), OutgoingFile(data)
            form.add_field("type", kind)
            form.add_field("media", file, filename=name, content_type=mime or ANY_MIME)
            params = {"access_token": token, "type": kind}
            return _checked(await self.exchange("POST", url, files=[file], params=params, data=form))

        try:
            number = as_text(dig(await self.token.use(with_token), "media_id"))
        except Unreachable as error:
            raise Unreachable(str(error), after=error.after, in_transfer=error.maybe_done) from error
        if not number:
            raise Unreachable("DingTalk does not say which file it took")
        return number

    async def fetch(self, code: str, sink: Sink) -> None:
        asked = {"robotCode": self.robot, "downloadCode": code}
        answer = await self.call("POST", "/v1.0/robot/messageFiles/download", asked)
        url = as_text(dig(answer, "downloadUrl"))
        if urlsplit(url).scheme not in ("https", urlsplit(self.url).scheme):
            raise Refused("DingTalk does not say where the file is")
        await self.download(url, sink)

    async def _ask(self, method: str, path: str, **more: Any) -> Any:
        return _checked(await self.exchange(method, f"{self.url}{path}", **more))


def _checked(response: HttpAnswer) -> Any:
    """The answer, if it is none that says no: by its status, or in the older interface by a code in it."""
    answer, older = response.answer, dig(response.answer, "errcode")
    if (
        response.status < 300
        and isinstance(answer, dict)
        and not older
        and answer.get("success") is not False
    ):
        return answer
    if not isinstance(answer, dict) and response.status < 500 and response.status not in (413, 429):
        why = f"What answers there is no DingTalk (HTTP {response.status}): look at DINGTALK_API_URL"
        raise Unreachable(why, maybe_done=response.status < 300)
    raise error_for(response.status if response.status >= 300 else 400, answer)


def error_for(status: int, answer: Any) -> HermesError:
    code = as_text(dig(answer, "code")) or str(dig(answer, "errcode") or "")
    told = as_text(dig(answer, "message")) or as_text(dig(answer, "errmsg"))
    why = one_line(" ".join(filter(None, (code, told))) or f"HTTP {status}", 160)
    code = next((word for word in _WORDS if word in code), code)
    return _error(status, code, why, WAIT)
