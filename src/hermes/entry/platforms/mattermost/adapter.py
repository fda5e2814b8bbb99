"""The Mattermost adapter: one bot account, over a WebSocket and REST v4.

Mattermost acknowledges nothing and keeps nothing for who is away. So at every connection, once the new one
hears, the posts since the stored cursor are read in each of the bot's channels, with an overlap; the cursor
moves on when all of them are stored. A cursor is two moments of the server's clock: up to when everything is
stored, and when the bot began, before which nothing is for it."""

from __future__ import annotations

import hashlib
import hmac
import json
import logging
import re
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext, suppress
from typing import Any
from urllib.parse import parse_qsl

from aiohttp import web
from msgspec import Struct

from hermes.domain.chats.adapter import AdapterContext, Finding, good, wrong
from hermes.domain.chats.address import Address
from hermes.domain.chats.message import Attachment, Body, Inbound, Receipt
from hermes.domain.errors import HermesError, NeedsLogin, Refused, Unreachable, UserError
from hermes.domain.ports.platform import Accept
from hermes.domain.ports.world import Sink
from hermes.domain.text import one_line
from hermes.domain.word import replace
from hermes.entry.kit.files import file_name, read_file
from hermes.entry.kit.listener import is_secret, listening
from hermes.entry.kit.payload import as_dict, as_dicts, as_size, as_text, dig
from hermes.entry.kit.proxy import proxy_for
from hermes.entry.platforms.mattermost import convert
from hermes.entry.platforms.mattermost.api import MattermostApi
from hermes.entry.platforms.mattermost.convert import ID, KEY, MattermostChannel, MattermostIdentity
from hermes.entry.platforms.mattermost.manifest import MANIFEST, limited
from hermes.entry.platforms.mattermost.socket import ALIVE, MISSED, MattermostSocket

log = logging.getLogger("hermes.mattermost")
TOKEN, URL, COMMAND = "MATTERMOST_TOKEN", "MATTERMOST_URL", "MATTERMOST_COMMAND_TOKEN"
_URL_SHAPE = re.compile(r"https?://[^\s/?#@]+(/[^\s?#]*)?")
_TOKEN_SHAPE = re.compile(r"[A-Za-z0-9]{20,64}", re.ASCII)
_OVERLAP = 60_000
_PAGE, _PAGES = 200, 50
_LOOKED_THROUGH = 6
_GLANCE = 30
"""What was sent a moment ago is among the newest posts."""
_MOST_SINCE = 1_000
"""So many posts come at once of those since a moment, and the server does not say which."""
_BATCH = 200
_PRESS_BYTES = 256 * 1024


class MattermostCursor(Struct, frozen=True, kw_only=True):
    """How far the history is stored, in the server's milliseconds."""

    at: int
    begin: int

    @classmethod
    def read(cls, cursor: str | None) -> MattermostCursor | None:
        parts = re.fullmatch(r"(\d{1,15}):(\d{1,15})", cursor or "", re.ASCII)
        return None if parts is None else cls(at=int(parts[1]), begin=int(parts[2]))

    def __str__(self) -> str:
        return f"{self.at}:{self.begin}"

    @property
    def since(self) -> int:
        return max(self.at - _OVERLAP, self.begin)

    def after(self, moments: Iterable[int]) -> MattermostCursor:
        return replace(self, at=max((self.at, *moments)))


class MattermostAdapter:
    def __init__(self, context: AdapterContext) -> None:
        self._context = context
        url, token = context.setting(URL).rstrip("/"), context.setting(TOKEN)
        if not _URL_SHAPE.fullmatch(url):
            raise NeedsLogin(f"{URL} is no address; one looks like https://chat.example.com")
        if not _TOKEN_SHAPE.fullmatch(token):
            raise NeedsLogin(f"{TOKEN} is no access token; one has 26 letters and digits")
        self.api = MattermostApi(url, token, proxy_for(context, "MATTERMOST_PROXY", url))
        self._callback = context.setting("MATTERMOST_CALLBACK_URL")
        self._secret = hmac.new(token.encode(), b"hermes buttons", hashlib.sha256).digest()
        self._me: MattermostIdentity | None = None
        self._socket: MattermostSocket | None = None
        self.capabilities = MANIFEST.capabilities

    # --- what comes in ---

    async def run(self, accept: Accept, cursor: str | None) -> None:
        try:
            me = await self._who()
            await self._learn_limit()
            begun = MattermostCursor.read(cursor)
            if begun is None:
                newest = max((channel.last_post_at for channel in await self._channels(me)), default=0)
                begun = MattermostCursor(at=newest, begin=newest)
            async with self._listener(accept), MattermostSocket.open(self.api) as socket:
                self._socket = socket
                await self._live(accept, begun, socket, me)
        finally:
            self._socket = None
            await self.api.close()

    async def _who(self) -> MattermostIdentity:
        if self._me is None:
            answer = await self.api.get("/users/me")
            number, name = as_text(dig(answer, "id")), as_text(dig(answer, "username"))
            if not (ID.fullmatch(number) and name):
                raise Unreachable("Mattermost does not say who the bot is: look at MATTERMOST_URL")
            mode = self._context.setting("MATTERMOST_REPLY_MODE", "off").lower()
            if mode not in ("off", "thread"):
                raise UserError(f"MATTERMOST_REPLY_MODE is {one_line(mode, 20)}: thread or off is wanted.")
            self._me = MattermostIdentity(
                id=number, username=name, account=self._context.account, threads=mode == "thread"
            )
        return self._me

    async def _learn_limit(self) -> None:
        """How long a post may be: servers that were set up long ago take less."""
        try:
            config = await self.api.get("/config/client", format="old")
        except (Refused, Unreachable) as error:
            log.info("mattermost.limit why=%s", error)
            return
        most = as_text(dig(config, "MaxPostSize"))
        if re.fullmatch(r"[1-9]\d{3,5}", most, re.ASCII):
            self.capabilities = limited(MANIFEST.capabilities, int(most))

    async def _live(
        self, accept: Accept, begun: MattermostCursor, socket: MattermostSocket, me: MattermostIdentity
    ) -> None:
        here = await self._catch_up(accept, begun, me)
        async for event in socket.events():
            if event.get("event") == ALIVE:
                await accept((), None)
            elif event.get("event") == MISSED:
                log.info("mattermost.missed: the history is read")
                here = await self._catch_up(accept, here, me)
            elif items := await self._items((event,), me):
                here = here.after(map(convert.time_of, items))
                await accept(items, str(here))

    async def _items(self, events: Sequence[Any], me: MattermostIdentity) -> list[Inbound]:
        for event in events:
            await self._learn(event, me)
        now = self._context.clock.now()

        def read() -> list[Inbound]:
            return [item for event in events for item in convert.to_inbounds(event, me, now)]

        items = read()
        nameless = {item.source.user for item in items if item.source.user} - me.names.keys()
        if nameless:
            await self._learn_names(sorted(nameless), me)
            items = read()
        return items

    async def _learn(self, event: Any, me: MattermostIdentity) -> None:
        """Ask for what an event leaves out: what sort of channel it is, and what was answered to."""
        chat, root = convert.wanted(event, me)
        if chat is not None and chat not in me.channels:
            try:
                if channel := convert.read_channel(await self.api.get(f"/channels/{chat}")):
                    me.channels[chat] = channel
            except Refused as error:
                log.info("mattermost.left_out channel=%s why=%s", chat, error)
        if root is not None and root not in me.posts:
            post = None
            with suppress(Refused):
                post = await self.api.get(f"/posts/{root}")
            me.posts[root] = post if isinstance(post, dict) else None

    async def _learn_names(self, people: Sequence[str], me: MattermostIdentity) -> None:
        """Who they are is nice to know; nothing waits for it for long."""
        try:
            users = await self.api.call("POST", "/users/ids", people[:_PAGE])
        except HermesError as error:
            log.info("mattermost.names why=%s", error)
            return
        # Who has none is not asked for again.
        me.names.update(dict.fromkeys(people, ""))
        for user in as_dicts(users):
            if name := as_text(user.get("username")):
                me.names[str(user.get("id"))] = name

    # --- the history ---

    async def _channels(self, me: MattermostIdentity) -> list[MattermostChannel]:
        listed = as_dicts(await self.api.get("/users/me/channels"))
        channels = [channel for about in listed if (channel := convert.read_channel(about))]
        me.channels.update({channel.id: channel for channel in channels})
        return channels

    async def _catch_up(
        self, accept: Accept, begun: MattermostCursor, me: MattermostIdentity
    ) -> MattermostCursor:
        """Store what happened since; the cursor moves when all of it is stored."""
        here, since = begun, begun.since
        for channel in await self._channels(me):
            if channel.last_post_at <= since:
                continue
            try:
                posts = await self._posts_since(channel.id, since, me)
            except Refused as error:
                log.info("mattermost.history channel=%s why=%s", channel.id, error)
                continue
            events = convert.as_events(posts, since)
            for start in range(0, len(events), _BATCH):
                items = await self._items(events[start : start + _BATCH], me)
                here = here.after(map(convert.time_of, items))
                await accept(items, None)
        await accept((), str(here))
        return here

    async def _posts_since(self, chat: str, since: int, me: MattermostIdentity) -> list[Any]:
        """With those that were changed since; if they are too many, with the new ones alone."""
        posts, _ = _listed(await self.api.get(f"/channels/{chat}/posts", since=since))
        if len(posts) < _MOST_SINCE:
            me.posts.update(posts)
            return list(posts.values())
        newest: dict[str, Any] = {}
        async for page in self._pages(chat, _PAGES, _PAGE):
            newest |= page
            if any((as_size(post.get("create_at")) or 0) <= since for post in page.values()):
                break
        if len(newest) >= _PAGES * _PAGE:
            log.warning("mattermost.history channel=%s: only the last %d are read", chat, len(newest))
        return list(newest.values())

    async def _pages(self, chat: str, most: int, size: int) -> AsyncIterator[dict[str, Any]]:
        """The posts of a channel, the newest first, page by page; the first one has this size."""
        before: dict[str, str] = {}
        for _ in range(most):
            posts, order = _listed(await self.api.get(f"/channels/{chat}/posts", per_page=size, **before))
            yield {number: posts[number] for number in order}
            if len(order) < size:
                return
            before, size = {"before": order[-1]}, _PAGE

    # --- presses and slash commands ---

    def _listener(self, accept: Accept) -> AbstractAsyncContextManager[None]:
        """Where Mattermost tells of pressed buttons and slash commands, if the operator gives an address at
        which it reaches us. It signs nothing; so every button carries a signature of ours in its context,
        which people never see, and a slash command the token that Mattermost made for it."""

        async def answer(request: web.Request) -> web.Response:
            body = await request.read()
            try:
                if request.content_type == "application/x-www-form-urlencoded":
                    form = dict(parse_qsl(body.decode(), keep_blank_values=True))
                    ours = await self._command(form, accept)
                else:
                    ours = await self._press(json.loads(body), accept)
            except (ValueError, RecursionError):
                return web.Response(status=400)
            except HermesError as error:
                log.warning("mattermost.not_stored why=%s", error)
                sorry = "That did not work; please try again."
                return web.json_response({"ephemeral_text": sorry, "text": sorry})
            return web.json_response({}, status=200 if ours else 403)

        if not self._callback:
            return nullcontext()
        return listening(
            self._context,
            self._callback,
            answer,
            variables="MATTERMOST_CALLBACK",
            usual_port="8447",
            most_bytes=_PRESS_BYTES,
        )

    async def _press(self, message: Any, accept: Accept) -> bool:
        """Whether it was one of ours."""
        me, now = await self._who(), self._context.clock.now()
        item = convert.pressed(message, me, self._secret, now)
        if item is None:
            log.info("mattermost.left_out: a press that is none of ours")
            return False
        if message.get("channel_id") not in me.channels:
            await self._channels(me)
            item = convert.pressed(message, me, self._secret, now) or item
        await accept((item,), None)
        return True

    async def _command(self, form: Mapping[str, str], accept: Accept) -> bool:
        """Whether it was one of ours."""
        if not is_secret(form.get("token", ""), self._context.setting(COMMAND)):
            log.info("mattermost.left_out: a slash command that is none of ours")
            return False
        me = await self._who()
        if form.get("channel_id") not in me.channels:
            await self._channels(me)
        item = convert.commanded(form, me, self._context.clock.now())
        if item is not None:
            await accept((item,), None)
        return item is not None

    # --- what goes out ---

    async def send(self, to: Address, body: Body, *, key: str, reply_to: str | None) -> Receipt:
        """Answers in Mattermost are threads, and those are in the address: `reply_to` adds nothing."""
        post: dict[str, Any] = {**convert.place(to), "message": convert.calm(body.text)}
        if body.attachments:
            post["file_ids"] = [await self._upload(to, file) for file in body.attachments]
        # The server takes no second post with the same pending id for half a minute; after that the
        # property tells which message it was.
        post["pending_post_id"] = convert.key_of(to, key)
        post["props"] = {KEY: convert.key_of(to, key)}
        if parts := convert.button_parts(body.buttons, to, self._callback, self._secret):
            post["props"]["attachments"] = parts
        return _receipt(to, await self.api.call("POST", "/posts", post))

    async def _upload(self, to: Address, file: Attachment) -> str:
        data = await read_file(self._context, file)
        return await self.api.upload(to.chat, file_name(file), data, file.mime)

    async def edit(self, receipt: Receipt, body: Body) -> None:
        path = f"/posts/{_number(receipt)}/patch"
        props = dict(
            as_dict(dig(await self.api.call("PUT", path, {"message": convert.calm(body.text)}), "props"))
        )
        parts = convert.button_parts(body.buttons, receipt.to, self._callback, self._secret)
        if convert.names_of(props.get("attachments")) != convert.names_of(parts):
            props.pop("attachments", None)
            await self.api.call(
                "PUT", path, {"props": {**props, **({"attachments": parts} if parts else {})}}
            )

    async def delete(self, receipt: Receipt) -> None:
        await self.api.call("DELETE", f"/posts/{_number(receipt)}")

    async def find_sent(self, to: Address, key: str) -> Receipt | None:
        me, wanted_key = await self._who(), convert.key_of(to, key)
        async for page in self._pages(convert.place(to)["channel_id"], _LOOKED_THROUGH, _GLANCE):
            for post in page.values():
                if dig(post, "props", KEY) == wanted_key and post.get("user_id") == me.id:
                    return _receipt(to, post)
        return None

    async def typing(self, to: Address) -> None:
        spot = convert.place(to)
        asked = {"channel_id": spot["channel_id"], "parent_id": spot.get("root_id", "")}
        if self._socket is not None:
            await self._socket.ask("user_typing", asked)
        else:
            await self.api.call("POST", "/users/me/typing", asked)

    async def react(self, receipt: Receipt, emoji: str, *, instead: str = "") -> None:
        me, post = await self._who(), _number(receipt)
        if emoji:
            asked = {"user_id": me.id, "post_id": post, "emoji_name": convert.emoji_name(emoji)}
            await self.api.call("POST", "/reactions", asked)
        if instead:
            await self.api.call(
                "DELETE", f"/users/{me.id}/posts/{post}/reactions/{convert.emoji_name(instead)}"
            )

    async def open_thread(self, parent: Address, name: str) -> Address:
        post = await self.api.call(
            "POST",
            "/posts",
            {**convert.place(replace(parent, thread=None)), "message": one_line(name, 200) or "…"},
        )
        return replace(parent, thread=_receipt(parent, post).ref)

    async def fetch(self, ref: str, sink: Sink) -> None:
        await self.api.fetch(ref, sink)

    # --- a look from outside ---

    async def check(self) -> Sequence[Finding]:
        try:
            me = await self._who()
            findings = [good(f"Mattermost knows the bot as @{one_line(me.username, 60)}.")]
            if self.api.url.startswith("http://"):
                hint = "Set MATTERMOST_URL to the https address, unless the server is on this machine."
                text = "The address is not encrypted: who is on the way can read the token."
                findings.append(good(text, hint))
            shared = sum(1 for channel in await self._channels(me) if channel.type != "D")
            text = f"Channels that it is in, beside private chats: {shared}."
            lonely = "It is in no channel; people can write to it privately."
            hint = "Add it to the team first, then to a channel: /invite @its-name."
            findings.append(good(text) if shared else good(lonely, hint))
            async with MattermostSocket.open(self.api):
                findings.append(good("Its WebSocket says hello."))
        finally:
            await self.api.close()
        if self._callback:
            text = f"Buttons are shown; Mattermost tells {one_line(self._callback, 120)} of presses."
            hint = "An address in your network has to be in the server's AllowedUntrustedInternalConnections."
            return [*findings, good(text, hint)]
        text = "There are no buttons: questions are answered in words (no MATTERMOST_CALLBACK_URL)."
        findings.append(good(text))
        if self._context.setting(COMMAND):
            text = f"{COMMAND} is set, but the slash command cannot reach us."
            findings.append(wrong(text, "Set MATTERMOST_CALLBACK_URL as well."))
        return findings


def _receipt(to: Address, post: Any) -> Receipt:
    number = as_text(dig(post, "id"))
    if not ID.fullmatch(number):
        raise Unreachable("Mattermost does not say which message it took", maybe_done=True)
    return Receipt(to=to, ref=number)


def _number(receipt: Receipt) -> str:
    if not ID.fullmatch(receipt.ref):
        raise Refused("that is no message of Mattermost's")
    return receipt.ref


def _listed(answer: Any) -> tuple[dict[str, Any], list[str]]:
    """A list of posts: all that came with it, and the order of those that were asked for."""
    try:
        posts = {str(number): post for number, post in answer["posts"].items() if isinstance(post, dict)}
        return posts, [number for number in answer["order"] if number in posts]
    except (TypeError, KeyError, AttributeError) as error:
        raise Unreachable("Mattermost's list of posts cannot be read") from error
