"""Calls of Feishu's open interface. Faults become our errors, without a token in them."""

from __future__ import annotations

import json
from typing import Any

from hermes.domain.chats.adapter import AdapterContext
from hermes.domain.errors import HermesError, NeedsLogin, Refused, Unreachable
from hermes.domain.ports.world import Sink
from hermes.domain.text import one_line
from hermes.entry.kit.errors import error_table, seconds_of, slower
from hermes.entry.kit.files import ANY_MIME
from hermes.entry.kit.http import HttpAnswer, HttpClient, UploadForm
from hermes.entry.kit.payload import as_size, as_text, dig
from hermes.entry.kit.token import AppToken, TokenExpired
from hermes.entry.kit.transfer import OutgoingFile

_LOGIN = "Feishu does not take the app's credentials (FEISHU_APP_ID, FEISHU_APP_SECRET; {why})"
_WAIT = 2.0
NO_CARD = "230099"
"""The card is none that Feishu can show, for example because it has too many tables."""
GONE = ("230011", "230110", "231003", "230001", "230019")
"""What a message is that one wanted to answer or change: recalled, deleted, or never there."""
_error = error_table(
    "Feishu",
    {
        ("10003", "10014", "10013", "1000040344", "514", "1000040345"): (NeedsLogin, _LOGIN),
        ("99991663", "99991661", "99991668", "99991664"): (TokenExpired, _LOGIN),
        ("99991672", "99991679", "230027"): (NeedsLogin, "Feishu does not let the app do that: {why}"),
        ("99991400", "230020", "11232", "1000040350"): (slower, "Feishu wants us to be slower ({why})"),
        ("1", "99991500", "1000040343"): (Unreachable, "Feishu is busy ({why})"),
        "230025": (Refused, "The message is too long for Feishu ({why})"),
        ("230002", "230013", "232009", "230006"): (
            Refused,
            "The bot is not in that chat, or that person may not use the app ({why})",
        ),
        GONE: (Refused, "Feishu does not have it any more ({why})"),
    },
    too_large={"234006", "234037"},
)


class FeishuRefused(Refused):
    """A refusal, with Feishu's own code for it."""

    def __init__(self, message: str, code: str) -> None:
        super().__init__(message)
        self.code = code


class FeishuApi(HttpClient[HttpAnswer]):
    def __init__(self, context: AdapterContext, app: str, secret: str, url: str, proxy: str | None) -> None:
        super().__init__("Feishu", HttpAnswer, proxy=proxy)
        self.url = url
        self._app, self._secret = app, secret
        self.token = AppToken(context, self._new_token)

    async def _new_token(self) -> tuple[str, float]:
        asked = {"app_id": self._app, "app_secret": self._secret}
        answer = await self._ask("POST", "/open-apis/auth/v3/tenant_access_token/internal", json=asked)
        token = as_text(dig(answer, "tenant_access_token"))
        if not token:
            raise Unreachable("Feishu gives no access token")
        return token, float(as_size(dig(answer, "expire")) or 7200)

    async def endpoint(self) -> tuple[str, float]:
        """The address of a new long connection, and how often it wants a ping."""
        asked = {"AppID": self._app, "AppSecret": self._secret}
        answer = await self._ask("POST", "/callback/ws/endpoint", json=asked, headers={"locale": "zh"})
        url = as_text(dig(answer, "data", "URL"))
        if not url:
            raise Unreachable("Feishu does not say where its long connection is")
        return url, float(as_size(dig(answer, "data", "ClientConfig", "PingInterval")) or 120)

    async def call(self, method: str, path: str, asked: Any = None, **params: str) -> Any:
        async def with_token(token: str) -> Any:
            body = None if asked is None else json.dumps(asked, ensure_ascii=False).encode()
            headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json; charset=utf-8"}
            return await self._ask(method, f"/open-apis{path}", data=body, headers=headers, params=params)

        return await self.token.use(with_token)

    async def upload(self, path: str, field: str, name: str, data: bytes, **about: str) -> Any:
        async def with_token(token: str) -> Any:
            form, file = UploadForm(), OutgoingFile(data)
            for key, value in about.items():
                form.add_field(key, value)
            form.add_field(field, file, filename=name, content_type=ANY_MIME)
            headers = {"Authorization": f"Bearer {token}"}
            return await self._ask("POST", f"/open-apis{path}", files=[file], data=form, headers=headers)

        try:
            return dig(await self.token.use(with_token), "data")
        except Unreachable as error:
            raise Unreachable(str(error), after=error.after, in_transfer=error.maybe_done) from error

    async def fetch(self, message: str, kind: str, key: str, sink: Sink) -> None:
        url = f"{self.url}/open-apis/im/v1/messages/{message}/resources/{key}?type={kind}"

        def refusal(answer: HttpAnswer) -> HermesError | None:
            return None if answer.status == 200 else error_for(answer)

        async def with_token(token: str) -> None:
            await self.download(url, sink, headers={"Authorization": f"Bearer {token}"}, refusal=refusal)

        await self.token.use(with_token)

    async def _ask(self, method: str, path: str, **more: Any) -> Any:
        response = await self.exchange(method, f"{self.url}{path}", **more)
        if response.status < 300 and dig(response.answer, "code") == 0:
            return response.answer
        status = response.status
        if not isinstance(dig(response.answer, "code"), int) and status < 500 and status not in (413, 429):
            why = f"What answers there is no Feishu (HTTP {status}): look at FEISHU_DOMAIN"
            raise Unreachable(why, maybe_done=status < 300)
        raise error_for(response)


def error_for(response: HttpAnswer) -> HermesError:
    """By the code in the answer, which counts more than the status."""
    number = dig(response.answer, "code")
    code = str(number) if isinstance(number, int) else ""
    why = one_line(f"{code} {as_text(dig(response.answer, 'msg'))}".strip() or f"HTTP {response.status}", 200)
    after = seconds_of(response.headers.get("x-ogw-ratelimit-reset"))
    status = response.status if response.status >= 300 else 400
    error = _error(status, code, why, min(after or _WAIT, 3_600.0))
    return FeishuRefused(str(error), code) if isinstance(error, Refused) else error
