"""The adapter for Weixin's iLink bot: private chats with one account, by long polls.

Each poll names the place up to which everything is stored. What is sent to a person carries a token that came
with their last message; those are kept in the account's folder, for nobody can ask for them."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import hashlib
import json
import logging
import secrets
from collections.abc import Sequence
from typing import Any
from urllib.parse import quote

from msgspec import Struct

from hermes.domain.chats.adapter import AdapterContext, Finding, good
from hermes.domain.chats.address import Address
from hermes.domain.chats.message import Attachment, Body, MediaKind, Receipt
from hermes.domain.errors import HermesError, NeedsLogin, Refused, Unreachable, UserError
from hermes.domain.ports.platform import Accept
from hermes.domain.ports.world import Sink
from hermes.domain.safety.hosts import leads_inside
from hermes.entry.kit.crypto import ecb_opened, ecb_sealed, require_crypto
from hermes.entry.kit.files import ANY_MIME, file_name, read_file, write_private
from hermes.entry.kit.payload import Recent, as_dict, as_dicts, as_size, as_text, dig, read_json
from hermes.entry.kit.proxy import proxy_for
from hermes.entry.kit.transfer import OutgoingFile
from hermes.entry.platforms.weixin import convert
from hermes.entry.platforms.weixin.api import API, CDN, WAIT, SendingShut, SessionOver, WeixinApi, no_file
from hermes.entry.platforms.weixin.manifest import MANIFEST

log = logging.getLogger("hermes.weixin")
_POLL_SECONDS, _GRACE = 35.0, 10.0
_CONTEXTS, _MOST_CONTEXTS = "contexts.json", 2_000
_MOST_SENT = 9
"""To one message of a person's; Weixin takes ten and then none until they write."""
_WAITS = "Weixin takes ten messages per message of theirs; it waits until they write again"
_SHUT = "Weixin takes no more messages for now; it is tried again, but not soon, for that would prolong it"
_MOST_MINUTES = 60
_FRESH_SECONDS = 90.0
_MOST_UPLOADS_REFUSED = 3
_CUT_SECONDS = 5.0
_PAUSE, _MOST_STARTS = 2.0, 3
_TICKET_SECONDS, _TYPING_SECONDS = 24 * 3600.0, 5.0
_MOST_FETCHED = 100 * 1024 * 1024
_BOT, _FINISHED, _TYPING = 2, 2, 1


class _Context(Struct, kw_only=True):
    """The token of a person's last message, when that came, and how many of ours it has carried. `bare`: they
    were sent something without it."""

    token: str = ""
    used: int = 0
    at: float = 0.0
    bare: bool = False


class _Shut(Struct, kw_only=True):
    """Weixin takes nothing from this bot, whoever it is for; each attempt that it refuses makes it refuse for
    longer (chenhg5/cc-connect #1643), so more and more time passes between two. Somebody who writes may have
    opened the way."""

    refused: int = 0
    at: float = 0.0

    def refuse(self, now: float) -> None:
        self.refused, self.at = self.refused + 1, now

    def stops(self, context: _Context, now: float) -> bool:
        if self.refused <= 2 or context.at > self.at:
            return False
        minutes: int = min(2 ** (self.refused - 2), _MOST_MINUTES)
        # Who waits asks once a minute, and not to the second.
        return self.at <= now < self.at + WAIT * (minutes - 0.5)


class _Ticket(Struct, kw_only=True):
    """What lets us be seen typing, since when, and when that was last done."""

    ticket: str
    at: float
    shown: float = -_TYPING_SECONDS


class WeixinAdapter:
    capabilities = MANIFEST.capabilities

    def __init__(self, context: AdapterContext) -> None:
        self._context = context
        token = context.setting("WEIXIN_TOKEN")
        if not token:
            raise NeedsLogin("WEIXIN_TOKEN is missing; run hermes platforms login weixin")
        url = context.setting("WEIXIN_BASE_URL", API)
        if not url.startswith(("https://", "http://")):
            raise NeedsLogin("WEIXIN_BASE_URL is no address; one begins with https://")
        self._cdn = context.setting("WEIXIN_CDN_URL", CDN).rstrip("/")
        self.api = WeixinApi(url, token, proxy_for(context, "WEIXIN_PROXY", url))
        self._login = hashlib.sha256(token.encode()).hexdigest()[:12]
        """Of which login a place and the tokens are: those of an earlier one lead nowhere."""
        self._contexts: Recent[str, _Context] = Recent(_MOST_CONTEXTS)
        self._shut = _Shut()
        self._uploads_refused = 0
        self._keeping = asyncio.Lock()
        self._tickets: Recent[str, _Ticket] = Recent(_MOST_CONTEXTS)
        self._load_contexts()

    # --- what comes in ---

    async def run(self, accept: Accept, cursor: str | None) -> None:
        login, _, place = (cursor or "").partition("|")
        place, seconds = place if login == self._login else "", _POLL_SECONDS
        try:
            with contextlib.suppress(HermesError):
                await self.api.tell_start()
            await accept((), None)
            while True:
                answer = await self._patiently(place, seconds)
                if answer is None:
                    await accept((), None)
                    continue
                seconds = (as_size(dig(answer, "longpolling_timeout_ms")) or _POLL_SECONDS * 1000) / 1000
                messages = as_dicts(dig(answer, "msgs"))
                await self._hear_contexts(messages)
                items = [
                    item
                    for message in messages
                    for item in convert.to_inbounds(message, self._context.account, self._cdn)
                ]
                place = as_text(dig(answer, "get_updates_buf")) or place
                await accept(items, f"{self._login}|{place}" if place else None)
        finally:
            await self.api.close()

    async def _patiently(self, place: str, seconds: float) -> Any:
        """A poll. To one that has no session Weixin is told that we are there, and asked again."""
        for number in range(1, _MOST_STARTS + 1):
            try:
                return await self._poll(place, seconds)
            except SessionOver:
                with contextlib.suppress(HermesError):
                    await self.api.tell_start()
                await self._context.clock.sleep(number * _PAUSE)
        return await self._poll(place, seconds)

    async def _poll(self, place: str, seconds: float) -> Any:
        """What came; None if nothing did, and nobody said so. Gateways on the way cut polls that wait
        (Tencent/openclaw-weixin #44: 524 after 17 seconds, each time)."""
        begun = self._context.clock.monotonic()
        try:
            async with asyncio.timeout(seconds + _GRACE):
                return await self.api.call("getupdates", {"get_updates_buf": place}, seconds + 2 * _GRACE)
        except TimeoutError:
            return None
        except Unreachable as error:
            if not error.maybe_done or self._context.clock.monotonic() - begun < _CUT_SECONDS:
                raise
            log.info("weixin.poll_cut why=%s", error)
            await self._context.clock.sleep(_PAUSE)
            return None
        except Refused as error:
            raise Unreachable(f"Weixin tells nothing new ({error})") from None

    def _load_contexts(self) -> None:
        if self._context.folder is not None:
            try:
                kept = read_json((self._context.folder / _CONTEXTS).read_text("utf-8"))
            except (OSError, ValueError):
                return
            for who, one in as_dict(dig(kept, self._login)).items():
                self._contexts[who] = _Context(
                    token=as_text(dig(one, "token")),
                    used=as_size(dig(one, "used")) or 0,
                    at=as_size(dig(one, "at")) or 0,
                )
            self._shut.refused = as_size(dig(kept, "refused")) or 0
            self._shut.at = as_size(dig(kept, "refused_at")) or 0

    async def _hear_contexts(self, messages: Sequence[Any]) -> None:
        heard = [pair for message in messages if (pair := convert.context_of(message))]
        now = self._now()
        self._contexts.update({who: _Context(token=token, at=now) for who, token in heard})
        if heard:
            await self._keep_contexts()

    async def _keep_contexts(self) -> None:
        folder = self._context.folder
        if folder is None:
            return
        async with self._keeping:
            people = {
                who: {"token": one.token, "used": one.used, "at": int(one.at)}
                for who, one in self._contexts.items()
            }
            shut = {"refused": self._shut.refused, "refused_at": int(self._shut.at)}
            kept = {self._login: people, **shut}
            try:
                await asyncio.to_thread(write_private, folder / _CONTEXTS, json.dumps(kept))
            except OSError as error:
                raise Unreachable(f"Weixin's tokens cannot be stored ({error.strerror})") from error

    # --- what goes out ---

    async def send(self, to: Address, body: Body, *, key: str, reply_to: str | None) -> Receipt:
        person = convert.place(to)
        context, shut = self._contexts.setdefault(person, _Context()), self._shut
        if context.used >= _MOST_SENT:
            raise Unreachable(_WAITS, after=WAIT)
        if shut.stops(context, self._now()):
            raise Unreachable(_SHUT, after=WAIT)
        try:
            return await self._send(to, person, body, key, context)
        except SendingShut:
            shut.refuse(self._now())
            await self._try_to_keep_contexts()
            raise
        except SessionOver as error:  # the poll finds out whether that is so
            raise Unreachable(f"Weixin does not take it now ({error})", after=WAIT) from None

    async def _send(self, to: Address, person: str, body: Body, key: str, context: _Context) -> Receipt:
        if body.attachments:
            item = await self._file(person, body.attachments[0])
        else:
            item = {"type": convert.TEXT, "text_item": {"text": body.text}}
        number = hashlib.sha256(f"{to}\n{key}".encode()).hexdigest()[:32]
        message = {
            "from_user_id": "",
            "to_user_id": person,
            "client_id": f"hermes-{number}",
            "message_type": _BOT,
            "message_state": _FINISHED,
            "item_list": [item],
        }
        try:
            answer = await self._post(message, context)
        except SendingShut:
            self._uploads_refused = 0  # it is not about files
            raise
        except Unreachable as error:
            if error.maybe_done:
                await self._count(context)
            raise
        self._shut = _Shut()
        await self._count(context)
        return Receipt(to=to, ref=str(dig(answer, "message_id") or number))

    async def _post(self, message: dict[str, Any], context: _Context) -> Any:
        """Weixin refuses what carries a stale token as if it were too much, and takes it without one
        (NousResearch/hermes-agent #35949, #62383)."""
        token, old = context.token, self._now() - context.at >= _FRESH_SECONDS
        try:
            told = {**message, "context_token": token} if token else message
            return await self.api.call("sendmessage", {"msg": told})
        except SendingShut:
            if context.bare or not (token and old):
                raise
        context.bare = True
        answer = await self.api.call("sendmessage", {"msg": message})
        context.token, context.used = "", 0
        return answer

    async def _count(self, context: _Context) -> None:
        context.used += bool(context.token)
        await self._try_to_keep_contexts()

    async def _try_to_keep_contexts(self) -> None:
        with contextlib.suppress(Unreachable):  # what was sent was sent, whatever the disk says
            await self._keep_contexts()

    def _now(self) -> float:
        return self._context.clock.now().timestamp()

    async def typing(self, to: Address) -> None:
        person, now = convert.place(to), self._context.clock.monotonic()
        known = self._tickets.pop(person, None)
        if known is None or now - known.at >= _TICKET_SECONDS:
            context = self._contexts.get(person) or _Context()
            about = {"ilink_user_id": person, "context_token": context.token}
            known = _Ticket(
                ticket=as_text(dig(await self.api.call("getconfig", about), "typing_ticket")), at=now
            )
        if known.ticket and now - known.shown >= _TYPING_SECONDS:
            asked = {"ilink_user_id": person, "typing_ticket": known.ticket, "status": _TYPING}
            await self.api.call("sendtyping", asked)  # one that is refused is asked for anew
            known.shown = now
        self._tickets[person] = known

    async def _file(self, person: str, file: Attachment) -> dict[str, Any]:
        """A file goes to another place, encrypted with a key that only the message tells."""
        self._need_crypto()
        data, image = await read_file(self._context, file), file.kind is MediaKind.IMAGE
        key, name = secrets.token_bytes(16), secrets.token_hex(16)
        sealed = ecb_sealed(key, data)
        about = {
            "filekey": name,
            "media_type": 1 if image else 3,
            "to_user_id": person,
            "rawsize": len(data),
            "rawfilemd5": hashlib.md5(data, usedforsecurity=False).hexdigest(),
            "filesize": len(sealed),
            "no_need_thumb": True,
            "aeskey": key.hex(),
        }
        try:
            answer = await self._upload_place(about)
            param = quote(as_text(dig(answer, "upload_param")), safe="")
            built = f"{self._cdn}/upload?encrypted_query_param={param}&filekey={name}"
            url, part = as_text(dig(answer, "upload_full_url")) or built, OutgoingFile(sealed)
            stored = await self.api.exchange(
                "POST", url, files=[part], data=part, headers={"Content-Type": ANY_MIME}
            )
        except Unreachable as error:
            raise Unreachable(str(error), after=error.after, in_transfer=error.maybe_done) from error
        if (refusal := no_file(stored)) is not None:
            raise refusal
        if not (place := stored.headers.get("x-encrypted-param", "")):
            # A success without it was seen for days (Tencent/openclaw-weixin #172).
            raise Unreachable("Weixin does not say where it keeps the file", in_transfer=True)
        media = {
            "encrypt_query_param": place,
            "aes_key": base64.b64encode(key.hex().encode()).decode(),
            "encrypt_type": 1,
        }
        if image:
            return {"type": convert.IMAGE, "image_item": {"media": media, "mid_size": len(sealed)}}
        told = {"media": media, "file_name": file_name(file), "len": str(len(data))}
        return {"type": convert.FILE, "file_item": told}

    async def _upload_place(self, about: dict[str, Any]) -> Any:
        """For some accounts Weixin gives none for good, though it takes their texts
        (NousResearch/hermes-agent #64704)."""
        try:
            answer = await self.api.call("getuploadurl", about)
        except SendingShut:
            self._uploads_refused += 1
            if self._uploads_refused < _MOST_UPLOADS_REFUSED:
                raise
            raise Refused("Weixin takes no files from this bot now (-2)") from None
        self._uploads_refused = 0
        return answer

    def _need_crypto(self) -> None:
        try:
            require_crypto("weixin", "encrypted files")
        except UserError as error:
            raise Refused(str(error)) from error

    async def fetch(self, ref: str, sink: Sink) -> None:
        url, key = convert.file_place(ref)
        if not leads_inside(self.api.url) and (leads_inside(url) or not url.startswith("https://")):
            raise Refused("Weixin names an address for the file that is not safe")
        if not key:
            await self.api.download(url, sink, refusal=no_file)
            return
        self._need_crypto()
        sealed = bytearray()

        async def gather(piece: bytes) -> None:
            sealed.extend(piece)
            if len(sealed) > _MOST_FETCHED:
                raise Refused("the file is too large")

        await self.api.download(url, gather, refusal=no_file)
        try:
            await sink(ecb_opened(key, bytes(sealed)))
        except ValueError as error:
            raise Refused("the file cannot be decrypted") from error

    # --- a look from outside ---

    async def check(self) -> Sequence[Finding]:
        try:
            await self.api.tell_start()
        finally:
            await self.api.close()
        return [good("Weixin knows the bot's token.")]
