"""The login: a QR code that a person scans with WeChat and confirms there. Then the bot has a token."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from urllib.parse import quote

from hermes.domain.chats.adapter import AdapterContext
from hermes.domain.errors import Unreachable, UserError
from hermes.entry.kit.payload import as_text, dig
from hermes.entry.kit.proxy import proxy_for
from hermes.entry.platforms.weixin.api import API, WeixinApi

_POLL_SECONDS, _PAUSE = 40.0, 1.0
_MOST_CODES, _LOGIN_SECONDS = 3, 480.0


async def log_in(context: AdapterContext, tell: Callable[[str], None]) -> dict[str, str]:
    # Codes come from here, wherever the bot's own interface turns out to be.
    api = WeixinApi(API, "", proxy_for(context, "WEIXIN_PROXY", API))
    try:
        async with asyncio.timeout(_LOGIN_SECONDS):
            for _ in range(_MOST_CODES):
                if login := await _scanned(api, context, tell):
                    return login
    except TimeoutError:
        pass
    finally:
        await api.close()
    raise UserError("Nobody confirmed the login in time.", hint="Run it again, and scan the code at once.")


async def _scanned(
    api: WeixinApi, context: AdapterContext, tell: Callable[[str], None]
) -> dict[str, str] | None:
    """What one QR code leads to; None if it expired."""
    answer = await api.call("get_bot_qrcode?bot_type=3", {"local_token_list": []})
    code, shown = as_text(dig(answer, "qrcode")), as_text(dig(answer, "qrcode_img_content"))
    if not (code and shown):
        raise Unreachable("Weixin gives no QR code")
    tell(f"Open this address in a browser and scan its QR code with WeChat, within two minutes: {shown}")
    host, told, typed = api.url, "", ""
    while True:
        url = f"{host}/ilink/bot/get_qrcode_status?qrcode={quote(code)}"
        try:
            status = await api.get(url + (f"&verify_code={quote(typed)}" if typed else ""), _POLL_SECONDS)
        except Unreachable:
            status = {}  # a long poll that came to nothing
        state = as_text(dig(status, "status"))
        if state == "expired":
            tell("The code has expired; here is another one.")
            return None
        if state == "scaned" and told != state:
            tell("Scanned. Confirm it on the telephone.")
        if state == "need_verifycode":
            wrong = "That was another number. " if typed else ""
            typed = await asyncio.to_thread(context.ask, f"{wrong}Which number does WeChat show?")
            continue
        if state == "verify_code_blocked":
            tell("Too many wrong numbers; here is another code.")
            return None
        if state == "binded_redirect":
            raise UserError("WeChat says that this bot is connected already.", hint="Its token still counts.")
        if state == "scaned_but_redirect" and (other := as_text(dig(status, "redirect_host"))):
            host = f"https://{other}"
        if state == "confirmed" and (token := as_text(dig(status, "bot_token"))):
            base = as_text(dig(status, "baseurl"))
            return {"WEIXIN_TOKEN": token, **({"WEIXIN_BASE_URL": base} if base else {})}
        told = state
        await asyncio.sleep(_PAUSE)
