"""The BlueBubbles adapter: iMessage through a server on the operator's Mac.

The server keeps all messages, so they are read from there since the mark in the cursor, again and again. Its
webhooks are not signed: a call only says that there is something to read, and nothing in it counts. Its
address has a part that is made of the password, so that nobody else rings."""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import logging
from collections.abc import Sequence
from typing import Any
from urllib.parse import quote, urlsplit

from aiohttp import web

from hermes.domain.chats.adapter import AdapterContext, Finding, good, wrong
from hermes.domain.chats.address import Address
from hermes.domain.chats.message import Attachment, Body, MediaKind, Receipt
from hermes.domain.errors import NeedsLogin, Refused, Unreachable
from hermes.domain.ports.platform import Accept
from hermes.domain.ports.world import Sink
from hermes.domain.text import one_line
from hermes.entry.kit.files import ANY_MIME, file_name, read_file
from hermes.entry.kit.http import HttpAnswer, HttpClient, UploadForm
from hermes.entry.kit.listener import listening
from hermes.entry.kit.payload import Recent, as_dicts, as_text, dig
from hermes.entry.kit.transfer import OutgoingFile
from hermes.entry.platforms.bluebubbles import convert
from hermes.entry.platforms.bluebubbles.convert import BlueBubblesIdentity
from hermes.entry.platforms.bluebubbles.manifest import MANIFEST

log = logging.getLogger("hermes.bluebubbles")
_PAGE = 500
_TAHOE = 26
_OVERLAP, _LATE = 60_000, 12 * 3_600_000
"""So many milliseconds are read once more: messages have the time at which they were sent, and come later.
The long time is looked back at the start, when the server rings, and each so many looks."""
_LOOKS = 10
_LINK_SECONDS = 60.0
"""How long a message waits for its files: Messages has its words first, and links them a moment later
(openclaw/openclaw #25852, #65430)."""
_TEXT_SECONDS, _FILE_SECONDS = 150.0, 300.0
_EMOJI = {emoji.rstrip("\ufe0f"): name for name, emoji in convert.TAPBACKS.items()}
_NEAREST = {"✅": "like", "❌": "dislike", "👀": "emphasize"}
"""Reactions that iMessage has not, and what comes nearest."""


class BlueBubblesAdapter:
    ask_seconds, look_seconds = 3.0, 30.0
    """How often it is asked for messages if it rings nobody, and if it does."""

    def __init__(self, context: AdapterContext) -> None:
        self._context = context
        self.capabilities = MANIFEST.capabilities
        self._base = context.setting("BLUEBUBBLES_SERVER_URL").rstrip("/")
        if urlsplit(self._base).scheme not in ("http", "https") or not urlsplit(self._base).hostname:
            raise NeedsLogin("BLUEBUBBLES_SERVER_URL is no address; one is like http://192.168.1.10:1234")
        self._password = context.setting("BLUEBUBBLES_PASSWORD")
        if not self._password:
            raise NeedsLogin("BLUEBUBBLES_PASSWORD is missing")
        self._private = context.is_on("BLUEBUBBLES_PRIVATE_API")
        secret = hmac.new(self._password.encode(), b"hermes webhook", hashlib.sha256).hexdigest()[:40]
        url = context.setting("BLUEBUBBLES_WEBHOOK_URL").rstrip("/")
        self._url = f"{url}/bluebubbles/{secret}" if url else ""
        self.api: HttpClient[HttpAnswer] = HttpClient("BlueBubbles", HttpAnswer)
        self._ours: Recent[str, bool] = Recent()
        self._me = BlueBubblesIdentity(account=context.account, ours=self._ours)
        self._reads = self._private and not context.is_off("BLUEBUBBLES_SEND_READ_RECEIPTS")
        self._unread: set[str] = set()
        """The chats in which nobody was shown yet that the last message was read."""
        self._rung = False
        self._lacking: Recent[str, float] = Recent()
        """Messages that came without their files, and when they were first seen."""
        self._waits: int | None = None
        """The time of the earliest message that still waits for them."""
        self._ahead = 0.0
        """By how many seconds the Mac's clock, which dates the messages, is before ours."""
        self._first = 0
        self._system = 0
        """Which macOS it is."""

    # --- what comes in ---

    async def run(self, accept: Accept, cursor: str | None) -> None:
        try:
            self._learn_system(await self._ask("GET", "server/info"))
            # The latest time, and the earliest that counts: what was before the first start stays unread.
            marks = [int(mark) for mark in (cursor or "").split() if mark.isdigit()]
            since = min(marks[0], self._now()) if marks else self._now()
            self._first = marks[1] if len(marks) > 1 else since - (_LATE if marks else _OVERLAP)
            async with contextlib.AsyncExitStack() as stack:
                if self._url:
                    listens = listening(
                        self._context,
                        self._url,
                        self._ring,
                        variables="BLUEBUBBLES_WEBHOOK",
                        usual_port="8645",
                    )
                    await stack.enter_async_context(listens)
                    await self._subscribe()
                await self._follow(accept, since)
        finally:
            await self.api.close()

    def _now(self) -> int:
        """The Mac's time, in milliseconds."""
        return int((self._context.clock.now().timestamp() + self._ahead) * 1000)

    async def _ring(self, request: web.Request) -> web.Response:
        self._rung = True
        return web.Response()

    async def _subscribe(self) -> None:
        """Have the server ring here, unless it does already."""
        known = [as_text(one.get("url")) for one in as_dicts(await self._ask("GET", "webhook"))]
        if self._url not in known:
            await self._ask("POST", "webhook", json={"url": self._url, "events": ["new-message"]})

    async def _follow(self, accept: Accept, since: int) -> None:
        looks = 0
        while True:
            back = _LATE if self._rung or looks % _LOOKS == 0 else _OVERLAP
            self._rung, looks = False, looks + 1
            since = await self._read(accept, since, back)
            pause = self.look_seconds if self._url and self._waits is None else self.ask_seconds
            waited = 0.0
            while waited < pause and not self._rung:
                step = min(self.ask_seconds / 10, pause)
                await self._context.clock.sleep(step)
                waited += step

    async def _read(self, accept: Accept, since: int, back: int) -> int:
        """Store what came since then and so long before, page by page; the time of the latest."""
        after, offset = since - back, 0
        if self._waits is not None:
            after = min(after, self._waits - 1)
        after, self._waits = max(after, self._first, 0), None
        while True:
            asked = {"with": ["chats", "attachments"], "after": after, "sort": "ASC", "offset": offset}
            page = as_dicts(await self._ask("POST", "message/query", json={**asked, "limit": _PAGE}))
            for message in page:
                await self._learn(message)
                # One from the future (its sender's clock is wrong) does not hide those that come till then.
                since = max(since, min(convert.time_of(message), self._now()))
            ready = [message for message in page if self._is_ready(message)]
            if self._waits is None and len(ready) < len(page):
                self._waits = min(convert.time_of(message) for message in page if message not in ready)
            items = [item for message in ready for item in convert.to_inbounds(message, self._me)]
            await accept(items, f"{since} {self._first}")
            self._unread |= {item.source.address.chat for item in items if self._reads}
            if len(page) < _PAGE:
                return since
            offset += len(page)

    def _is_ready(self, message: Any) -> bool:
        if not convert.lacks_files(message):
            return True
        now = self._context.clock.monotonic()
        return now - self._lacking.setdefault(as_text(message.get("guid")), now) >= _LINK_SECONDS

    async def _learn(self, message: Any) -> None:
        """Whether the message that one answers is ours."""
        if message.get("isFromMe") is True:
            self._ours[as_text(message.get("guid"))] = True
        answered = convert.replied_to(message)
        if answered and answered not in self._ours:
            try:
                found = await self._ask("GET", f"message/{quote(answered, safe='')}")
            except Refused:
                found = None
            self._ours[answered] = dig(found, "isFromMe") is True

    # --- calls ---

    async def _ask(self, method: str, path: str, **more: Any) -> Any:
        params = {"password": self._password}
        url = f"{self._base}/api/v1/{path}"
        answer = await self.api.exchange(method, url, params=params, **more)
        if answer.status < 300 and isinstance(answer.answer, dict):
            if answer.at is not None:
                self._ahead = (answer.at - self._context.clock.now()).total_seconds()
            return answer.answer.get("data")
        words = convert.words_of(answer.answer)
        why = one_line(f"{words or 'no words'} (HTTP {answer.status})", 200)
        if "already queued" in words:
            # An attempt of ours that we gave up goes on there.
            raise Unreachable(f"BlueBubbles still sends it ({why})", after=30.0, maybe_done=True)
        if (code := dig(answer.answer, "data", "error")) not in (None, 0):
            raise Refused(f"Messages could not deliver it: error {code} ({why})")
        if "does not exist" in words:
            # It says so as a fault of its own.
            raise Refused(f"BlueBubbles does not have that ({why})")
        raise convert.error_for(answer.status if answer.status >= 300 else 500, "", why, None)

    # --- what goes out ---

    @property
    def _method(self) -> str:
        return "private-api" if self._private else "apple-script"

    def _learn_system(self, info: Any) -> None:
        major = as_text(dig(info, "os_version")).partition(".")[0]
        self._system = int(major) if major.isascii() and major.isdigit() else 0

    async def _chat(self, chat: str) -> str:
        """The guid of a chat. One with a person that was begun on macOS 26 begins otherwise."""
        guid = convert.as_chat(chat)
        if guid == chat or self._system < _TAHOE:
            return guid
        newer = f"any;-;{chat}"
        try:
            await self._ask("GET", f"chat/{quote(newer, safe='')}")
        except Refused:
            return guid
        return newer

    async def send(self, to: Address, body: Body, *, key: str, reply_to: str | None) -> Receipt:
        temporary = f"hermes-{hashlib.sha256(key.encode()).hexdigest()[:32]}"
        asked: dict[str, Any] = {
            "chatGuid": await self._chat(to.chat),
            "tempGuid": temporary,
            "method": self._method,
        }
        # There, an answer to a message never leaves the server.
        if self._private and reply_to and self._system < _TAHOE:
            asked["selectedMessageGuid"] = reply_to
        most = _FILE_SECONDS if body.attachments else _TEXT_SECONDS
        seconds = most if self.api.answer_seconds >= 30 else None
        if body.attachments:
            (file,) = body.attachments
            sent = await self._send_file(asked, file, seconds)
        else:
            sent = await self._ask(
                "POST", "message/text", json={**asked, "message": body.text}, seconds=seconds
            )
        ref = as_text(dig(sent, "guid"))
        if not ref:
            raise Unreachable("BlueBubbles does not say which message it sent", maybe_done=True)
        self._ours[ref] = True
        return Receipt(to=to, ref=ref)

    async def _send_file(self, asked: dict[str, Any], file: Attachment, seconds: float | None) -> Any:
        data = OutgoingFile(await read_file(self._context, file))
        voice = self._private and file.kind is MediaKind.VOICE
        name = file_name(file)
        if voice and not name.endswith(".mp3"):
            name = f"{name}.mp3"
        form = UploadForm({**asked, "name": name, "isAudioMessage": str(voice).lower()})
        mime = file.mime or ANY_MIME
        form.add_field("attachment", data, filename=name, content_type=mime)
        return await self._ask("POST", "message/attachment", data=form, files=[data], seconds=seconds)

    async def typing(self, to: Address) -> None:
        """Who is shown that we write is shown, too, that we have read what they wrote."""
        self._need_private()
        place = f"chat/{quote(await self._chat(to.chat), safe='')}"
        if to.chat in self._unread:
            self._unread.discard(to.chat)
            await self._ask("POST", f"{place}/read")
        await self._ask("POST", f"{place}/typing")

    async def react(self, receipt: Receipt, emoji: str, *, instead: str = "") -> None:
        self._need_private()
        wanted = (emoji or instead).rstrip("\ufe0f")
        name = _EMOJI.get(wanted) or _NEAREST.get(wanted)
        if name is None:
            raise Refused("iMessage does not have that reaction")
        asked = {"chatGuid": await self._chat(receipt.to.chat), "selectedMessageGuid": receipt.ref}
        await self._ask("POST", "message/react", json={**asked, "reaction": name if emoji else f"-{name}"})

    def _need_private(self) -> None:
        if not self._private:
            raise Refused("that needs the server's Private API (BLUEBUBBLES_PRIVATE_API)")

    async def fetch(self, ref: str, sink: Sink) -> None:
        url = f"{self._base}/api/v1/attachment/{quote(ref, safe='')}/download"
        await self.api.download(f"{url}?password={quote(self._password, safe='')}", sink)

    # --- a look from outside ---

    async def check(self) -> Sequence[Finding]:
        try:
            info = await self._ask("GET", "server/info")
        finally:
            await self.api.close()
        version, system = as_text(dig(info, "server_version")), as_text(dig(info, "os_version"))
        findings = [good(f"BlueBubbles {version} on macOS {system} takes the password.")]
        self._learn_system(info)
        if self._system >= _TAHOE and not self._private:
            hint = "Set BLUEBUBBLES_PRIVATE_API to true, with a helper that works there."
            findings.append(wrong("BlueBubbles cannot send without the Private API on this macOS.", hint))
        if self._private and dig(info, "helper_connected") is not True:
            hint = "See docs.bluebubbles.app/private-api; without it set BLUEBUBBLES_PRIVATE_API to false."
            findings.append(wrong("The Private API is wanted, and its helper is not connected.", hint))
        if not self._url:
            hint = "BLUEBUBBLES_WEBHOOK_URL lets the server ring instead."
            findings.append(good(f"It is asked for messages every {self.ask_seconds:.0f} seconds.", hint))
        return findings
