"""The Telegram adapter: one bot, through the Bot API over HTTP. It asks for updates (long polling), or is
called by Telegram (a webhook) where the operator gives a public address.

Updates are confirmed by asking for later ones, so what was not stored is told again, also after a restart;
what people write while nobody runs is kept by Telegram for a day. An offset is only sent while there is
something to confirm: after a week without updates Telegram begins to count anew.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import re
from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

from aiohttp import web

from hermes.domain.chats.adapter import AdapterContext, Finding, good
from hermes.domain.chats.address import Address
from hermes.domain.chats.capabilities import MenuEntry
from hermes.domain.chats.message import Attachment, Body, Inbound, Receipt
from hermes.domain.errors import HermesError, NeedsLogin, Refused, Unreachable, UserError
from hermes.domain.ports.platform import Accept
from hermes.domain.ports.world import Sink
from hermes.domain.text import one_line
from hermes.domain.word import replace
from hermes.entry.kit.files import file_name, read_file
from hermes.entry.kit.listener import is_secret, listening
from hermes.entry.kit.payload import Recent, as_text, dig, read_json
from hermes.entry.kit.proxy import proxy_for
from hermes.entry.platforms.telegram import compose, convert
from hermes.entry.platforms.telegram.api import TelegramApi, TelegramResponse
from hermes.entry.platforms.telegram.compose import GENERAL, Upload, chat_number, is_topic_name, place
from hermes.entry.platforms.telegram.convert import TelegramIdentity, TopicGone, update_id
from hermes.entry.platforms.telegram.manifest import CAPTION, MANIFEST, for_local

log = logging.getLogger("hermes.telegram")
API = "https://api.telegram.org"
TOKEN = "TELEGRAM_BOT_TOKEN"
SECRET_HEADER = "X-Telegram-Bot-Api-Secret-Token"
_TOKEN_SHAPE = re.compile(r"\d{1,16}:[A-Za-z0-9_-]{20,128}", re.ASCII)
_COMMAND_SHAPE = re.compile(r"[a-z0-9_]{1,32}", re.ASCII)
_LOOK_SECONDS = 60.0
_CURSOR_SECONDS = 2 * 86_400
_SCOPES = ("all_private_chats", "all_group_chats", "all_chat_administrators")
_MENUS = ((100, 256), (100, 64), (100, 32), (50, 32))
"""How many commands with how long descriptions are tried: all together must not be too much, and Telegram
does not say how much that is."""
_UNFIT = ("PHOTO_INVALID", "IMAGE_PROCESS", "VOICE_MESSAGES_FORBIDDEN", "wrong type")
_UNFIT_ALBUM = ("failed to send message", "group send failed", "must be non-empty")
_NEAREST = {"✅": "👍", "❌": "👎"}
"""Reactions that Telegram has not, and what comes nearest."""


class TelegramAdapter:
    poll_seconds = 50

    def __init__(self, context: AdapterContext) -> None:
        self._context = context
        token = context.setting(TOKEN)
        if not _TOKEN_SHAPE.fullmatch(token):
            raise NeedsLogin(f"{TOKEN} is no bot token; one looks like 123456:ABC-DEF1234 (from @BotFather)")
        base = context.setting("TELEGRAM_BASE_URL", API)
        proxy = proxy_for(context, "TELEGRAM_PROXY", base)
        self.api = TelegramApi(base, token, proxy, files=context.setting("TELEGRAM_LOCAL_FILES"))
        self.capabilities = for_local(MANIFEST.capabilities) if self.api.files else MANIFEST.capabilities
        self._no_previews = context.is_on("TELEGRAM_DISABLE_LINK_PREVIEWS")
        self._forums: Recent[str, None] = Recent()

    # --- what comes in ---

    async def run(self, accept: Accept, cursor: str | None) -> None:
        try:
            me = await self._who()
            url = self._context.setting("TELEGRAM_WEBHOOK_URL")
            if url:
                await self._listen(accept, me, url)
            else:
                await self._poll(accept, me, self._offset(cursor))
        finally:
            await self.api.close()

    async def _who(self) -> TelegramIdentity:
        me = await self.api.call("getMe")
        try:
            return TelegramIdentity(
                id=int(me["id"]), username=str(me["username"]), account=self._context.account
            )
        except (TypeError, KeyError, ValueError) as error:
            raise Unreachable("Telegram does not say who the bot is") from error

    async def _poll(self, accept: Accept, me: TelegramIdentity, offset: int | None) -> None:
        # A webhook that somebody set keeps updates away from polls; those that wait are kept.
        await self.api.call("deleteWebhook", drop_pending_updates=False)
        await accept((), None)
        while True:
            asked: dict[str, Any] = {"timeout": self.poll_seconds, "allowed_updates": list(convert.UPDATES)}
            if offset is not None:
                asked["offset"] = offset
            news = await self.api.call(
                "getUpdates", seconds=self.poll_seconds + self.api.answer_seconds, **asked
            )
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

    def _items(self, updates: Sequence[Any], me: TelegramIdentity) -> list[Inbound]:
        items: list[Inbound] = []
        for update in updates:
            if forum := convert.forum_of(update):
                self._forums[forum] = None
            converted = convert.to_inbounds(update, me, self._context.clock.now())
            items += converted
            if not converted:
                kinds = sorted(update)[:4] if isinstance(update, dict) else []
                log.info("telegram.left_out update=%s kinds=%s", update_id(update), one_line(str(kinds)))
        return items

    def _cursor(self, offset: int) -> str:
        return f"{offset}@{int(self._context.clock.now().timestamp())}"

    def _offset(self, cursor: str | None) -> int | None:
        """Where to go on; nowhere in particular after a long time, when Telegram may count anew."""
        offset, _, at = (cursor or "").partition("@")
        if not (offset.isdigit() and at.isdigit()):
            return None
        old = self._context.clock.now().timestamp() - int(at) > _CURSOR_SECONDS
        return None if old else int(offset)

    def _answer_presses(self, updates: Sequence[Any]) -> None:
        """Telegram shows that a button works until it is told that it was heard."""
        for update in updates:
            if query := as_text(dig(update, "callback_query", "id")):
                self.api.aside(self._answer_press(query))

    async def _answer_press(self, query: str) -> None:
        try:
            await self.api.call("answerCallbackQuery", callback_query_id=query)
        except HermesError as error:
            log.info("telegram.small method=answerCallbackQuery why=%s", error)

    # --- a webhook ---

    async def _listen(self, accept: Accept, me: TelegramIdentity, url: str) -> None:
        secret = self._context.setting("TELEGRAM_WEBHOOK_SECRET")
        if not convert.SECRET_SHAPE.fullmatch(secret):
            raise UserError(
                "A webhook needs TELEGRAM_WEBHOOK_SECRET: 1 to 256 letters, digits, _ and -.",
                hint="Without one anybody could speak for Telegram.",
            )
        highest = 0

        async def answer(request: web.Request) -> web.Response:
            """What Telegram says is stored before it is told so."""
            nonlocal highest
            if not is_secret(request.headers.get(SECRET_HEADER, ""), secret):
                return web.Response(status=403)
            update = read_json(await request.read())
            if update is None:
                log.info("telegram.left_out: a call without an update")
                return web.Response()
            highest = max(highest, (update_id(update) or 0) + 1)
            await accept(self._items([update], me), self._cursor(highest))
            self._answer_presses([update])
            return web.Response()

        async with listening(self._context, url, answer, variables="TELEGRAM_WEBHOOK", usual_port="8443"):
            await self.api.call(
                "setWebhook",
                url=url,
                secret_token=secret,
                allowed_updates=list(convert.UPDATES),
                # One call at a time keeps the order of what people wrote.
                max_connections=1,
                drop_pending_updates=False,
            )
            while True:
                await self._look_after(url)
                await accept((), None)
                await self._context.clock.sleep(_LOOK_SECONDS)

    async def _look_after(self, url: str) -> None:
        info = await self.api.call("getWebhookInfo")
        if dig(info, "url") != url:
            raise Unreachable("Somebody else has taken the bot's webhook")
        if trouble := info.get("last_error_message"):
            log.warning(
                "telegram.webhook pending=%s why=%s", info.get("pending_update_count"), one_line(str(trouble))
            )

    # --- what goes out ---

    async def send(self, to: Address, body: Body, *, key: str, reply_to: str | None) -> Receipt:
        if not is_topic_name(to):
            try:
                return await self._send(to, body, reply_to)
            except TopicGone:
                named = await self._context.name_topic(to)
                if named is None or not is_topic_name(named):
                    raise
                to = named
        topic = await self._context.find_topic(to)
        if topic is not None:
            with contextlib.suppress(TopicGone):
                return await self._send(topic, body, reply_to)
        opened = await self.open_thread(replace(to, thread=None), to.thread or "")
        await self._context.keep_topic(to, opened)
        return await self._send(opened, body, reply_to)

    async def _send(self, to: Address, body: Body, reply_to: str | None) -> Receipt:
        asked = place(to)
        if reply_to is not None and reply_to.isascii() and reply_to.isdigit():
            asked["reply_parameters"] = {
                "message_id": int(reply_to),
                "allow_sending_without_reply": True,
            }
        asked |= compose.keyboard(body.buttons)
        if body.attachments:
            return await self._send_files(to, body, asked)
        return await self._say(to, asked, body.text)

    async def _send_files(self, to: Address, body: Body, asked: dict[str, Any]) -> Receipt:
        """As one album if they may stand together; what Telegram does not take like that goes one by one."""
        files, refused = await self._opened(body.attachments)
        groups = [files] if compose.is_album(files) and not body.buttons else [[file] for file in files]
        text, sent = body.text, list[Receipt]()
        try:
            if MANIFEST.capabilities.unit.measure(text) > CAPTION:
                sent.append(await self._say(to, place(to), text))
                text = ""
            while groups:
                group = groups.pop(0)
                where, response = await self._send_group(to, asked, text, group)
                if len(group) > 1 and response.says(*_UNFIT, *_UNFIT_ALBUM):
                    groups = [[file] for file in group] + groups
                    continue
                try:
                    sent.append(self._receipt(where, response.result))
                except Refused as error:
                    refused.append((group[0].name, error))
                    continue
                asked, text = place(to), ""
            if not sent:
                raise refused[0][1]
            for name, why in refused:
                await self._say(to, place(to), escape(f"📎 {one_line(name, 80)}: {why}"))
        except Unreachable as error:
            # Whoever tries again has to know that some of it is there.
            done = error.maybe_done or bool(sent)
            raise Unreachable(str(error), after=error.after, maybe_done=done) from error
        return sent[0]

    async def _opened(self, files: Sequence[Attachment]) -> tuple[list[Upload], list[tuple[str, Refused]]]:
        """The files with their bytes, and those that cannot be had any more."""
        opened: list[Upload] = []
        gone: list[tuple[str, Refused]] = []
        for file in files:
            name = file_name(file)
            try:
                data = await read_file(self._context, file)
            except Refused as error:
                gone.append((name, error))
            else:
                opened.append(Upload(kind=file.kind, name=name, data=data, mime=file.mime))
        return opened, gone

    async def _send_group(
        self, to: Address, asked: dict[str, Any], text: str, group: Sequence[Upload]
    ) -> tuple[Address, TelegramResponse]:
        caption = compose.marked_up("caption", text) if text else {}
        if len(group) > 1:
            fields = {f"file{n}": file for n, file in enumerate(group)}
            return await self._put(
                to, "sendMediaGroup", {**asked, "media": compose.album(fields, caption)}, fields
            )
        (file,) = group
        method, field = compose.SENDS.get(file.kind, compose.AS_FILE)
        where, response = await self._put(to, method, {**asked, **caption}, {field: file})
        if response.says(*_UNFIT):
            # It is not what it seems, or not wanted like that: as a plain file it goes.
            method, field = compose.AS_FILE
            where, response = await self._put(to, method, {**asked, **caption}, {field: file})
        return where, response

    def _words(self, text: str) -> dict[str, Any]:
        words = compose.marked_up("text", text)
        return words | {"link_preview_options": {"is_disabled": True}} if self._no_previews else words

    async def _say(self, to: Address, asked: Mapping[str, Any], text: str) -> Receipt:
        where, response = await self._put(to, "sendMessage", {**asked, **self._words(text)})
        return self._receipt(where, response.result)

    async def _put(
        self, to: Address, method: str, asked: dict[str, Any], files: Mapping[str, Upload] | None = None
    ) -> tuple[Address, TelegramResponse]:
        """Something new, and where it went: without markup if Telegram cannot read it, and after a group to
        where it has gone."""
        response = await self.api.ask(method, asked, files=files)
        if response.says("can't parse entities"):
            asked = compose.unmarked(asked)
            response = await self.api.ask(method, asked, files=files)
        moved = dig(response.answer, "parameters", "migrate_to_chat_id")
        if isinstance(moved, int) and not response.ok:
            # It became a supergroup, which has a number of its own.
            to = replace(to, chat=str(moved))
            response = await self.api.ask(method, {**asked, "chat_id": moved}, files=files)
        return to, response

    def _receipt(self, to: Address, result: Any) -> Receipt:
        """Of an album it is the first of its messages that stands for all."""
        number = dig(result[0] if isinstance(result, list) and result else result, "message_id")
        if not isinstance(number, int):
            raise Unreachable("Telegram does not say which message it sent", maybe_done=True)
        return Receipt(to=to, ref=str(number))

    async def edit(self, receipt: Receipt, body: Body) -> None:
        asked = {**_message(receipt), **self._words(body.text)}
        asked |= compose.keyboard(body.buttons)
        response = await self.api.ask("editMessageText", asked)
        if response.says("can't parse entities"):
            response = await self.api.ask("editMessageText", compose.unmarked(asked))
        if response.says("no text in the message"):
            caption = {"caption": asked.pop("text")}
            response = await self.api.ask("editMessageCaption", {**asked, **caption})
        if not response.says("message is not modified"):
            _ = response.result

    async def preview(self, to: Address, number: int, body: Body) -> None:
        if not isinstance(chat_number(to), int):
            raise Refused("drafts are for private chats")
        # A draft has to have a number, and not a very large one.
        asked = {**place(to), **compose.marked_up("text", body.text), "draft_id": number % 2**31 or 1}
        response = await self.api.ask("sendMessageDraft", asked)
        if response.says("can't parse entities"):
            response = await self.api.ask("sendMessageDraft", compose.unmarked(asked))
        if response.status == 404:
            # Not the token: a Bot API server that is older than drafts.
            raise Refused("this Bot API server has no drafts")
        _ = response.result

    async def delete(self, receipt: Receipt) -> None:
        await self.api.call("deleteMessage", **_message(receipt))

    async def typing(self, to: Address) -> None:
        asked = place(to)
        if "direct_messages_topic_id" in asked:
            raise Refused("Telegram shows no such sign in the direct messages of a channel")
        if to.chat in self._forums:
            # What is written to the general topic of a forum has no topic; the sign is shown with one only.
            asked.setdefault("message_thread_id", int(GENERAL))
        await self.api.call("sendChatAction", action="typing", **asked)

    async def react(self, receipt: Receipt, emoji: str, *, instead: str = "") -> None:
        # A bot has one reaction to a message: a new one takes the place of the old.
        emoji = _NEAREST.get(emoji, emoji)
        reaction = [{"type": "emoji", "emoji": emoji}] if emoji else []
        await self.api.call("setMessageReaction", **_message(receipt), reaction=reaction)

    async def open_thread(self, parent: Address, name: str) -> Address:
        topic = await self.api.call(
            "createForumTopic", chat_id=chat_number(parent), name=one_line(name, 128) or "…"
        )
        try:
            return replace(parent, thread=str(int(topic["message_thread_id"])))
        except (TypeError, KeyError, ValueError) as error:
            raise Unreachable("Telegram does not say which topic it opened", maybe_done=True) from error

    async def fetch(self, ref: str, sink: Sink) -> None:
        file = await self.api.call("getFile", file_id=ref)
        path = as_text(dig(file, "file_path"))
        if not path:
            raise Refused("Telegram does not say where the file is")
        await self.api.fetch(path, sink)

    # --- a look from outside ---

    async def check(self) -> Sequence[Finding]:
        try:
            me = await self.api.call("getMe")
            info = await self.api.call("getWebhookInfo")
        finally:
            await self.api.close()
        findings = [good(f"Telegram knows the bot as @{me.get('username')} ({me.get('id')}).")]
        if not me.get("can_read_all_group_messages"):
            text = "In groups it hears commands, mentions and replies only (privacy mode)."
            hint = "To hear everything: /setprivacy at @BotFather, then add it to the group again."
            findings.append(good(text, hint))
        if self.api.files:
            findings.append(await asyncio.to_thread(self.api.look_at_files))
        url = self._context.setting("TELEGRAM_WEBHOOK_URL")
        return [
            *findings,
            *convert.webhook_findings(url, self._context.setting("TELEGRAM_WEBHOOK_SECRET"), info),
        ]

    async def show_menu(self, entries: Sequence[MenuEntry]) -> None:
        shown = [
            {"command": entry.name, "description": entry.summary}
            for entry in entries
            if _COMMAND_SHAPE.fullmatch(entry.name) and entry.summary
        ]
        menus = [
            [{**entry, "description": one_line(entry["description"], words)} for entry in shown[:most]]
            for most, words in _MENUS
        ]
        response = await self.api.ask("setMyCommands", {"commands": menus[0]})
        for fewer in menus[1:]:
            if response.says("BOT_COMMANDS_TOO_MUCH"):
                response = await self.api.ask("setMyCommands", {"commands": fewer})
        _ = response.result
        # What somebody set for one sort of chat would be shown there instead of ours.
        for scope in _SCOPES:
            await self.api.call("deleteMyCommands", scope={"type": scope})


def _message(receipt: Receipt) -> dict[str, Any]:
    if not (receipt.ref.isascii() and receipt.ref.isdigit()):
        raise Refused("that is no message of Telegram's")
    return {"chat_id": chat_number(receipt.to), "message_id": int(receipt.ref)}
