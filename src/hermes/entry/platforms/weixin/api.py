"""Calls of the iLink interface. An error has the status of a success, and a code in the answer."""

from __future__ import annotations

import base64
import secrets
from typing import Any

from hermes.domain.errors import HermesError, NeedsLogin, Refused, Unreachable
from hermes.domain.text import one_line
from hermes.entry.kit.errors import error_table, their_fault
from hermes.entry.kit.http import HttpAnswer, HttpClient
from hermes.entry.kit.payload import as_text, dig

API, CDN = "https://ilinkai.weixin.qq.com", "https://novac2c.cdn.weixin.qq.com/c2c"
_VERSION = 2 << 16 | 4 << 8 | 9
"""Of the vendor's own client (2.4.9), whose interface this is."""
WAIT = 60.0
_ENDED = "Weixin has ended the session: run hermes platforms login weixin ({why})"


class SendingShut(Unreachable):
    """Weixin takes no messages for this person, or for any: too many, too fast, or too long after theirs."""


def _shut(text: str, after: float | None) -> HermesError:
    return SendingShut(text, after=WAIT)


class SessionOver(NeedsLogin):
    """Weixin says so, and may take it back once it is told that we are there."""


_error = error_table(
    "Weixin",
    {
        "-14": (SessionOver, _ENDED),
        401: (NeedsLogin, _ENDED),
        "-2": (_shut, "Weixin takes no more messages for now ({why})"),
        "-1": (their_fault, "Weixin is busy ({why})"),
    },
)
_HEADERS = {"iLink-App-Id": "bot", "iLink-App-ClientVersion": str(_VERSION)}


class WeixinApi(HttpClient[HttpAnswer]):
    def __init__(self, url: str, token: str, proxy: str | None) -> None:
        super().__init__("Weixin", HttpAnswer, proxy=proxy)
        self.url = url.rstrip("/")
        self._token = token

    async def call(self, name: str, asked: dict[str, Any], seconds: float | None = None) -> Any:
        number = base64.b64encode(str(secrets.randbits(32)).encode()).decode()
        headers = {**_HEADERS, "AuthorizationType": "ilink_bot_token", "X-WECHAT-UIN": number}
        if self._token:
            headers["Authorization"] = f"Bearer {self._token}"
        info = {"channel_version": "2.4.9", "bot_agent": "Hermes/0.1"}
        body = {**asked, "base_info": info}
        response = await self.exchange(
            "POST", f"{self.url}/ilink/bot/{name}", json=body, headers=headers, seconds=seconds
        )
        return checked(response)

    async def get(self, url: str, seconds: float | None = None) -> Any:
        return checked(await self.exchange("GET", url, headers=_HEADERS, seconds=seconds))

    async def tell_start(self) -> None:
        """Tell Weixin that we are there, as its own client does before the first poll."""
        await self.call("msg/notifystart", {})


def checked(response: HttpAnswer) -> Any:
    answer = response.answer
    code = dig(answer, "errcode") or dig(answer, "ret") or 0
    if response.status < 300 and isinstance(answer, dict) and not code:
        return answer
    if response.status < 300 and not isinstance(answer, dict):
        raise Unreachable("What answers there is no Weixin: look at WEIXIN_BASE_URL", maybe_done=True)
    raise error_for(response.status if response.status >= 300 else 400, code, answer)


def error_for(status: int, code: Any, answer: Any) -> HermesError:
    why = one_line(f"{code} {as_text(dig(answer, 'errmsg'))}".strip(), 160) if code else f"HTTP {status}"
    return _error(status, str(code), why, WAIT)


def no_file(answer: HttpAnswer) -> HermesError | None:
    """What is wrong with the answer to a request for a file."""
    if answer.status == 200:
        return None
    why = f"Weixin does not give the file (HTTP {answer.status})"
    return Refused(why) if answer.status < 500 else Unreachable(why)
