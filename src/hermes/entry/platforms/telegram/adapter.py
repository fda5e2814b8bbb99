"""The Telegram adapter: one bot, through the Bot API over HTTP. It asks for updates (long polling), or is
called by Telegram (a webhook) where the operator gives a public address.

Updates are confirmed by asking for later ones, so what was not stored is told again, also after a restart;
what people write while nobody runs is kept by Telegram for a day. An offset is only sent while there is
something to confirm: after a week without updates Telegram begins to count anew.
"""

from __future__ import annotations

import asyncio
import hmac
import io
import json
import logging
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import quote, urlsplit

import aiohttp
from aiohttp import web

from hermes.domain.address import Address
from hermes.domain.capabilities import Capabilities, MenuEntry
from hermes.domain.errors import HermesError, NeedsLogin, Refused, Unreachable, UserError
from hermes.domain.message import Attachment, Body, Inbound, MediaKind, Receipt
from hermes.domain.outfit import Finding, Outfit
from hermes.domain.ports import Accept, Sink
from hermes.domain.text import one_line
from hermes.entry.platforms.telegram.convert import (
    SECRET_SHAPE,
    UPDATES,
    Me,
    chat_number,
    error_for,
    keyboard,
    moved_to,
    place,
    to_inbounds,
    update_id,
    webhook_findings,
    without_tags,
)
from hermes.entry.platforms.telegram.manifest import CAPTION, MANIFEST

log = logging.getLogger("hermes.telegram")
API = "https://api.telegram.org"
TOKEN = "TELEGRAM_BOT_TOKEN"
SECRET_HEADER = "X-Telegram-Bot-Api-Secret-Token"
_TOKEN_SHAPE = re.compile(r"\d{1,16}:[A-Za-z0-9_-]{20,128}", re.ASCII)
_COMMAND_SHAPE = re.compile(r"[a-z0-9_]{1,32}", re.ASCII)
_UPDATE_BYTES = 4 * 1024 * 1024
_LOOK_SECONDS = 60.0
_CURSOR_SECONDS = 2 * 86_400
_UPLOAD_SECONDS = 55.0
_PIECE = 64 * 1024
_METHODS = {
    MediaKind.IMAGE: ("sendPhoto", "photo"),
    MediaKind.VOICE: ("sendVoice", "voice"),
    MediaKind.AUDIO: ("sendAudio", "audio"),
    MediaKind.VIDEO: ("sendVideo", "video"),
}
_AS_FILE = ("sendDocument", "document")
_NEAREST = {"✅": "👍", "❌": "👎"}
"""Reactions that Telegram has not, and what comes nearest."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """An answer of Telegram's."""

    status: int
    answer: Any

    @property
    def ok(self) -> bool:
        return self.status < 300 and isinstance(self.answer, dict) and self.answer.get("ok") is True

    @property
    def result(self) -> Any:
        """What was asked for; an error of ours if it was refused."""
        if not self.ok:
            # Something that is no answer of the Bot API (a proxy's page) says nothing about what was done.
            status = self.status if self.status >= 300 else 500
            raise error_for(status, self.answer)
        return self.answer.get("result")

    def says(self, *words: str) -> bool:
        """Whether it is a refusal with one of these in its description."""
        told = self.answer.get("description") if isinstance(self.answer, dict) else ""
        return self.status == 400 and isinstance(told, str) and any(word in told for word in words)


class TelegramAdapter:
    answer_seconds = 30.0
    """How long an answer is waited for; a poll may take `poll_seconds` more."""
    poll_seconds = 50

    def __init__(self, outfit: Outfit) -> None:
        self._outfit = outfit
        self._token = outfit.said(TOKEN)
        if not _TOKEN_SHAPE.fullmatch(self._token):
            raise NeedsLogin(f"{TOKEN} is no bot token; one looks like 123456:ABC-DEF1234 (from @BotFather)")
        self._api = outfit.said("TELEGRAM_BASE_URL", API).rstrip("/")
        self._proxy = outfit.said("TELEGRAM_PROXY") or None
        self._session: aiohttp.ClientSession | None = None
        self._over = False
        self._small: set[asyncio.Task[None]] = set()

    @property
    def capabilities(self) -> Capabilities:
        return MANIFEST.capabilities

    # --- what comes in ---

    async def run(self, accept: Accept, cursor: str | None) -> None:
        try:
            me = await self._who()
            url = self._outfit.said("TELEGRAM_WEBHOOK_URL")
            if url:
                await self._listen(accept, me, url)
            else:
                await self._poll(accept, me, self._offset(cursor))
        finally:
            await self._close()

    async def _who(self) -> Me:
        told = await self._call("getMe")
        try:
            return Me(id=int(told["id"]), username=str(told["username"]), account=self._outfit.account)
        except (TypeError, KeyError, ValueError) as error:
            raise Unreachable("Telegram does not say who the bot is") from error

    async def _poll(self, accept: Accept, me: Me, offset: int | None) -> None:
        # A webhook that somebody set keeps updates away from polls; those that wait are kept.
        await self._call("deleteWebhook", drop_pending_updates=False)
        while True:
            asked: dict[str, Any] = {"timeout": self.poll_seconds, "allowed_updates": list(UPDATES)}
            if offset is not None:
                asked["offset"] = offset
            news = await self._call("getUpdates", seconds=self.poll_seconds + self.answer_seconds, **asked)
            offset = None
            if not isinstance(news, list):
                raise Unreachable("Telegram's updates cannot be read")
            if not news:
                await accept((), None)
                continue
            numbers = [number for update in news if (number := update_id(update)) is not None]
            if not numbers:
                raise Unreachable("Telegram's updates have no numbers")
            offset = max(numbers) + 1
            await accept(self._items(news, me), self._cursor(offset))
            self._answer_presses(news)

    def _items(self, updates: Sequence[Any], me: Me) -> list[Inbound]:
        items: list[Inbound] = []
        for update in updates:
            found = to_inbounds(update, me, self._outfit.clock.now())
            items += found
            if not found:
                kinds = sorted(update)[:4] if isinstance(update, dict) else []
                log.info("telegram.left_out update=%s kinds=%s", update_id(update), one_line(str(kinds)))
        return items

    def _cursor(self, offset: int) -> str:
        return f"{offset}@{int(self._outfit.clock.now().timestamp())}"

    def _offset(self, cursor: str | None) -> int | None:
        """Where to go on; nowhere in particular after a long time, when Telegram may count anew."""
        offset, _, at = (cursor or "").partition("@")
        if not (offset.isdigit() and at.isdigit()):
            return None
        old = self._outfit.clock.now().timestamp() - int(at) > _CURSOR_SECONDS
        return None if old else int(offset)

    def _answer_presses(self, updates: Sequence[Any]) -> None:
        """Telegram shows that a button works until it is told that it was heard."""
        for update in updates:
            query = update.get("callback_query") if isinstance(update, dict) else None
            if isinstance(query, dict) and isinstance(query.get("id"), str):
                self._aside(self._try("answerCallbackQuery", callback_query_id=query["id"]))

    async def take(self, accept: Accept, update: Any, me: Me, offset: int) -> None:
        """Store one update that Telegram brought."""
        await accept(self._items([update], me), self._cursor(offset))
        self._answer_presses([update])

    # --- a webhook ---

    async def _listen(self, accept: Accept, me: Me, url: str) -> None:
        secret = self._outfit.said("TELEGRAM_WEBHOOK_SECRET")
        if not SECRET_SHAPE.fullmatch(secret):
            raise UserError(
                "A webhook needs TELEGRAM_WEBHOOK_SECRET: 1 to 256 letters, digits, _ and -.",
                hint="Without one anybody could speak for Telegram.",
            )
        door = _Door(self, accept, me, secret)
        app = web.Application(client_max_size=_UPDATE_BYTES)
        app.router.add_post(urlsplit(url).path or "/", door.hear)
        runner = web.AppRunner(app, access_log=None, shutdown_timeout=2.0)
        await runner.setup()
        try:
            await self._open_door(runner)
            await self._call(
                "setWebhook",
                url=url,
                secret_token=secret,
                allowed_updates=list(UPDATES),
                # One call at a time keeps the order of what people wrote.
                max_connections=1,
                drop_pending_updates=False,
            )
            while True:
                await self._look_after(url)
                await accept((), None)
                await self._outfit.clock.sleep(_LOOK_SECONDS)
        finally:
            await runner.cleanup()

    async def _open_door(self, runner: web.AppRunner) -> None:
        host = self._outfit.said("TELEGRAM_WEBHOOK_HOST", "127.0.0.1")
        port = self._outfit.said("TELEGRAM_WEBHOOK_PORT", "8443")
        if not (port.isascii() and port.isdigit() and 0 < int(port) < 65536):
            raise UserError(f"TELEGRAM_WEBHOOK_PORT is {one_line(port, 20)}: a port is wanted, like 8443.")
        try:
            await web.TCPSite(runner, host, int(port)).start()
        except OSError as error:
            why = error.strerror or type(error).__name__
            raise Unreachable(f"{one_line(host, 60)}:{port} cannot be listened on ({why})") from error

    async def _look_after(self, url: str) -> None:
        info = await self._call("getWebhookInfo")
        known = info.get("url") if isinstance(info, dict) else None
        if known != url:
            raise Unreachable("Somebody else has taken the bot's webhook")
        if trouble := info.get("last_error_message"):
            log.warning(
                "telegram.webhook pending=%s why=%s", info.get("pending_update_count"), one_line(str(trouble))
            )

    # --- what goes out ---

    async def send(self, to: Address, body: Body, *, key: str, reply_to: str | None) -> Receipt:
        asked = place(to)
        if reply_to is not None and reply_to.isascii() and reply_to.isdigit():
            asked["reply_parameters"] = {
                "message_id": int(reply_to),
                "allow_sending_without_reply": True,
            }
        if body.buttons and (rows := keyboard(body.buttons)):
            asked["reply_markup"] = {"inline_keyboard": rows}
        if not body.attachments:
            return await self._post(to, "sendMessage", {**asked, "text": body.text, "parse_mode": "HTML"})
        text = body.text
        if MANIFEST.capabilities.unit.measure(text) > CAPTION:
            await self._post(to, "sendMessage", {**place(to), "text": text, "parse_mode": "HTML"})
            text = ""
        receipt: Receipt | None = None
        for file in body.attachments:
            captioned = {**asked, "caption": text, "parse_mode": "HTML"} if text else asked
            receipt = await self._send_file(to, captioned, file)
            asked, text = place(to), ""
        assert receipt is not None
        return receipt

    async def _send_file(self, to: Address, asked: Mapping[str, Any], file: Attachment) -> Receipt:
        try:
            data = await self._outfit.open_file(file)
        except UserError as error:
            raise Refused(str(error)) from error
        method, field = _METHODS.get(file.kind, _AS_FILE)
        name = file.name or f"file.{(file.mime or 'application/bin').rpartition('/')[2]}"
        told = await self._upload(method, field, asked, (name, data, file.mime))
        if told.says("PHOTO_INVALID", "IMAGE_PROCESS", "VOICE_MESSAGES_FORBIDDEN", "wrong type"):
            # It is not what it seems, or not wanted like that: as a plain file it goes.
            told = await self._upload(*_AS_FILE, asked, (name, data, file.mime))
        return self._receipt(to, told.result)

    async def _post(self, to: Address, method: str, asked: dict[str, Any]) -> Receipt:
        told = await self._ask(method, asked)
        if told.says("can't parse entities"):
            told = await self._ask(method, _plain(asked))
        moved = moved_to(told.answer)
        if moved is not None and not told.ok:
            to = replace(to, chat=str(moved))
            told = await self._ask(method, {**asked, "chat_id": moved})
        return self._receipt(to, told.result)

    def _receipt(self, to: Address, message: Any) -> Receipt:
        number = message.get("message_id") if isinstance(message, dict) else None
        if not isinstance(number, int):
            raise Unreachable("Telegram does not say which message it sent", maybe_done=True)
        return Receipt(to=to, ref=str(number))

    async def edit(self, receipt: Receipt, body: Body) -> None:
        asked = {**_message(receipt), "text": body.text, "parse_mode": "HTML"}
        if body.buttons and (rows := keyboard(body.buttons)):
            asked["reply_markup"] = {"inline_keyboard": rows}
        told = await self._ask("editMessageText", asked)
        if told.says("can't parse entities"):
            told = await self._ask("editMessageText", _plain(asked))
        if told.says("no text in the message"):
            caption = {"caption": asked.pop("text")}
            told = await self._ask("editMessageCaption", {**asked, **caption})
        if not told.says("message is not modified"):
            _ = told.result

    async def delete(self, receipt: Receipt) -> None:
        await self._call("deleteMessage", **_message(receipt))

    async def typing(self, to: Address) -> None:
        await self._call("sendChatAction", action="typing", **place(to))

    async def react(self, receipt: Receipt, emoji: str, *, instead: str = "") -> None:
        # A bot has one reaction to a message: a new one takes the place of the old.
        emoji = _NEAREST.get(emoji, emoji)
        reaction = [{"type": "emoji", "emoji": emoji}] if emoji else []
        await self._call("setMessageReaction", **_message(receipt), reaction=reaction)

    async def open_thread(self, parent: Address, name: str) -> Address:
        told = await self._call(
            "createForumTopic", chat_id=chat_number(parent), name=one_line(name, 128) or "…"
        )
        try:
            return replace(parent, thread=str(int(told["message_thread_id"])))
        except (TypeError, KeyError, ValueError) as error:
            raise Unreachable("Telegram does not say which topic it opened", maybe_done=True) from error

    async def fetch(self, ref: str, sink: Sink) -> None:
        told = await self._call("getFile", file_id=ref)
        path = told.get("file_path") if isinstance(told, dict) else None
        if not isinstance(path, str) or not path:
            raise Refused("Telegram does not say where the file is")
        if path.startswith("/"):
            raise Refused("This Bot API server keeps files to itself (it runs with --local)")
        url = f"{self._api}/file/bot{self._token}/{quote(path)}"
        try:
            async with self._http().get(url, proxy=self._proxy, allow_redirects=False) as response:
                if response.status != 200:
                    gone = 400 <= response.status < 500
                    why = f"Telegram does not give the file (HTTP {response.status})"
                    raise Refused(why) if gone else Unreachable(why)
                async for piece in response.content.iter_chunked(_PIECE):
                    await sink(piece)
        except (aiohttp.ClientError, TimeoutError) as error:
            raise Unreachable(f"The file stopped coming ({type(error).__name__})") from error

    # --- a look from outside ---

    async def check(self) -> Sequence[Finding]:
        try:
            me = await self._call("getMe")
            info = await self._call("getWebhookInfo")
        finally:
            await self._close()
        found = [
            Finding(good=True, text=f"Telegram knows the bot as @{me.get('username')} ({me.get('id')}).")
        ]
        if not me.get("can_read_all_group_messages"):
            found.append(
                Finding(
                    good=True,
                    text="In groups it hears commands, mentions and replies only (privacy mode).",
                    hint="To hear everything: /setprivacy at @BotFather, then add it to the group again.",
                )
            )
        url = self._outfit.said("TELEGRAM_WEBHOOK_URL")
        return [*found, *webhook_findings(url, self._outfit.said("TELEGRAM_WEBHOOK_SECRET"), info)]

    async def show_menu(self, entries: Sequence[MenuEntry]) -> None:
        shown = [
            {"command": entry.name, "description": entry.summary}
            for entry in entries
            if _COMMAND_SHAPE.fullmatch(entry.name) and entry.summary
        ]
        await self._call("setMyCommands", commands=shown)

    # --- calls ---

    async def _call(self, method: str, *, seconds: float | None = None, **asked: Any) -> Any:
        return (await self._ask(method, asked, seconds)).result

    async def _try(self, method: str, **asked: Any) -> None:
        """A call that nobody misses if it fails."""
        try:
            await self._call(method, **asked)
        except HermesError as error:
            log.info("telegram.small method=%s why=%s", method, error)

    async def _ask(self, method: str, asked: Mapping[str, Any], seconds: float | None = None) -> Told:
        return await self._post_body(method, seconds or self.answer_seconds, json=dict(asked))

    async def _upload(
        self, method: str, field: str, asked: Mapping[str, Any], file: tuple[str, bytes, str | None]
    ) -> Told:
        name, data, mime = file
        form = aiohttp.FormData()
        for key, value in asked.items():
            form.add_field(key, value if isinstance(value, str) else json.dumps(value))
        form.add_field(
            field, io.BytesIO(data), filename=name, content_type=mime or "application/octet-stream"
        )
        return await self._post_body(method, max(self.answer_seconds, _UPLOAD_SECONDS), data=form)

    async def _post_body(self, method: str, seconds: float, **body: Any) -> Told:
        """The address holds the token, so nothing of what went wrong is told but its kind."""
        url = f"{self._api}/bot{self._token}/{method}"
        limit = aiohttp.ClientTimeout(total=seconds)
        try:
            async with self._http().post(url, timeout=limit, proxy=self._proxy, **body) as response:
                raw = await response.read()
                status = response.status
        except (aiohttp.ClientConnectorError, aiohttp.InvalidURL) as error:
            raise Unreachable(f"Telegram cannot be reached ({type(error).__name__})") from None
        except (aiohttp.ClientError, TimeoutError) as error:
            raise Unreachable(f"Telegram did not answer ({type(error).__name__})", maybe_done=True) from None
        try:
            return Told(status=status, answer=json.loads(raw))
        except ValueError:
            return Told(status=status, answer=None)

    def _http(self) -> aiohttp.ClientSession:
        if self._over:
            # Who sends while the connection ends would open one that nobody closes.
            raise Unreachable("the connection to Telegram has ended")
        if self._session is None:
            self._session = aiohttp.ClientSession()
        return self._session

    def _aside(self, work: Any) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._small.add(task)
        task.add_done_callback(self._small.discard)

    async def _close(self) -> None:
        self._over = True
        for task in tuple(self._small):
            task.cancel()
        if self._small:
            await asyncio.wait(tuple(self._small), timeout=1.0)
        if self._session is not None:
            await self._session.close()
            self._session = None


class _Door:
    """Where Telegram calls: what it says is stored before it is told so."""

    def __init__(self, adapter: TelegramAdapter, accept: Accept, me: Me, secret: str) -> None:
        self._adapter = adapter
        self._accept = accept
        self._me = me
        self._secret = secret.encode()
        self._highest = 0

    async def hear(self, request: web.Request) -> web.Response:
        given = request.headers.get(SECRET_HEADER, "").encode("utf-8", "replace")
        if not hmac.compare_digest(given, self._secret):
            return web.Response(status=403)
        try:
            update = json.loads(await request.read())
        except ValueError:
            log.info("telegram.left_out: a call without an update")
            return web.Response()
        number = update_id(update)
        self._highest = max(self._highest, (number or 0) + 1)
        try:
            await self._adapter.take(self._accept, update, self._me, self._highest)
        except HermesError as error:
            log.warning("telegram.not_stored why=%s", error)
            return web.Response(status=503)
        return web.Response()


def _message(receipt: Receipt) -> dict[str, Any]:
    if not (receipt.ref.isascii() and receipt.ref.isdigit()):
        raise Refused("that is no message of Telegram's")
    return {"chat_id": chat_number(receipt.to), "message_id": int(receipt.ref)}


def _plain(asked: Mapping[str, Any]) -> dict[str, Any]:
    """The same without markup."""
    plain = {name: value for name, value in asked.items() if name != "parse_mode"}
    return {**plain, "text": without_tags(str(asked["text"]))}
