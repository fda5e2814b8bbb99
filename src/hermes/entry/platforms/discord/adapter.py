"""The Discord adapter: one bot, through the gateway (what comes) and the HTTP API (what goes).

A lost connection is taken up again by its session, which Discord keeps for some minutes. When it does not,
a new session begins and the channels are read since the last message that was stored."""

from __future__ import annotations

import base64
import logging
import random
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from typing import Any
from urllib.parse import quote

from hermes.domain.chats.adapter import AdapterContext, Finding, good, wrong
from hermes.domain.chats.address import Address
from hermes.domain.chats.capabilities import MenuEntry
from hermes.domain.chats.message import Attachment, Body, Inbound, MediaKind, Receipt
from hermes.domain.errors import HermesError, NeedsLogin, Refused, Unreachable
from hermes.domain.ports.platform import Accept
from hermes.domain.ports.world import Sink
from hermes.domain.text import one_line, size_told
from hermes.domain.word import replace
from hermes.entry.kit.files import ANY_MIME, file_name, read_file
from hermes.entry.kit.payload import as_dicts, as_text, dig
from hermes.entry.kit.proxy import proxy_for
from hermes.entry.platforms.discord import convert, socket
from hermes.entry.platforms.discord.api import API, TOKEN, DiscordApi, DiscordResponse
from hermes.entry.platforms.discord.channels import UNKNOWN_CHANNEL, DiscordChannels
from hermes.entry.platforms.discord.convert import DiscordIdentity, channel_id, is_snowflake
from hermes.entry.platforms.discord.cursor import OLDEST, DiscordCursor
from hermes.entry.platforms.discord.manifest import MANIFEST, MAX_FILE
from hermes.entry.platforms.discord.socket import DiscordConnection, DiscordEvent

log = logging.getLogger("hermes.discord")
_TOKEN_SHAPE = re.compile(r"[A-Za-z0-9_-]{10,60}\.[A-Za-z0-9_-]{4,16}\.[A-Za-z0-9_-]{20,80}", re.ASCII)
_COMMAND_SHAPE = re.compile(r"[-_a-z0-9]{1,32}", re.ASCII)
_HEARD = frozenset(
    f"MESSAGE_{what}" for what in ("CREATE", "UPDATE", "DELETE", "DELETE_BULK", "REACTION_ADD")
) | {"INTERACTION_CREATE"}
_PAGE = 100
_ASKED_PEOPLE = 25
_WAVEFORM = base64.b64encode(bytes(64)).decode()
_CONTENT_FLAGS = 1 << 18 | 1 << 19
_RIGHTS = {
    1 << 10: "View Channels",
    1 << 11: "Send Messages",
    1 << 16: "Read Message History",
    1 << 15: "Attach Files",
    1 << 35: "Create Public Threads",
    1 << 38: "Send Messages in Threads",
    1 << 6: "Add Reactions",
    1 << 14: "Embed Links",
    1 << 46: "Send Voice Messages",
}
_ADMINISTRATOR = 1 << 3
_MOST_SERVERS, _SHOWN = 200, 10
_MOST_RESUMES = 3
# People may be named, roles and everybody not: the model decides what it writes, not whom it wakes.
_MENTIONS = {"parse": ["users"], "replied_user": True}


class DiscordUnknownChannel(Refused):
    """There is no channel with this number."""


class DiscordAdapter:
    capabilities = MANIFEST.capabilities

    def __init__(self, context: AdapterContext) -> None:
        self._context = context
        self._token = context.setting(TOKEN).removeprefix("Bot ")
        if not _TOKEN_SHAPE.fullmatch(self._token):
            raise NeedsLogin(
                f"{TOKEN} is no bot token; one has three parts with dots between (developer portal → Bot)"
            )
        base = context.setting("DISCORD_BASE_URL", API)
        self.api = DiscordApi(self._token, base, proxy_for(context, "DISCORD_PROXY", base), context.clock)
        self._me = DiscordIdentity(
            id="", account=context.account, leaves_others=not context.is_off("DISCORD_IGNORE_NO_MENTION")
        )
        self._mark = DiscordCursor()
        self._stored = ""
        self._pending: set[str] = set()
        self._identified = False
        self._shut_seconds: float | None = None
        """How long Discord lets no new session begin, if none is left for today."""
        self._channels = DiscordChannels(
            self.api,
            asks_roles=bool(context.settings.allowed_roles),
            # Where only some threads are listed, a new one would not be among them.
            threads=not context.is_off("DISCORD_AUTO_THREAD") and not context.settings.allowed_topics,
            flat=(
                *re.findall(r"[^\s,]+", context.setting("DISCORD_NO_THREAD_CHANNELS")),
                *context.settings.free_response_channels,
            ),
        )

    # --- what comes in ---

    async def run(self, accept: Accept, cursor: str | None) -> None:
        self._mark = DiscordCursor.read(cursor)
        self._stored = cursor or ""
        try:
            self._me = replace(self._me, id=await self._own_id())
            gateway, now = await self._way()
            url = socket.own_gateway(self._mark.url, gateway) if self._mark.session else None
            if not url or self._mark.resumes >= _MOST_RESUMES:
                # Discord does not always say that a session is none: it closes, or its host is gone.
                self._mark.lose()
                url = gateway
            self._mark.resumes += 1
            async with DiscordConnection.open(self.api, url, self._context.clock) as line:
                if self._mark.session:
                    await line.resume(self._token, self._mark.session, self._mark.number)
                else:
                    await self._identify(line)
                async for event in line.events():
                    await self._hear(accept, event, gateway, now)
        except socket.DiscordSessionEnded:
            self._mark.lose()
            await self._store(accept)
            raise
        except Unreachable:
            if self._mark.session and self._mark.resumes:
                await self._store(accept)
            raise
        finally:
            await self.api.close()

    async def _own_id(self) -> str:
        number = dig(await self.api.call("GET", "/users/@me"), "id")
        if not is_snowflake(number):
            raise Unreachable("Discord does not say who the bot is")
        return number

    async def _way(self) -> tuple[str, datetime]:
        """Where the gateway is, and what time it is there."""
        response = await self.api.ask("GET", "/gateway/bot")
        url = as_text(dig(response.result, "url"))
        if not url.startswith(("wss://", "ws://")):
            raise Unreachable("Discord does not say where its gateway is")
        limit, self._shut_seconds = dig(response.result, "session_start_limit"), None
        if dig(limit, "remaining") == 0:
            after = limit.get("reset_after")
            self._shut_seconds = min(after / 1000, 86_400.0) if isinstance(after, int) else 3600.0
        return url, response.at or self._context.clock.now()

    async def _hear(self, accept: Accept, event: DiscordEvent, gateway: str, now: datetime) -> None:
        data, mark = event.data, self._mark
        if event.name == socket.INVALID:
            await self._begin_anew(accept, resumable=data)
            return
        if event.name == socket.BEAT:
            await (accept((), None) if mark.cursor() == self._stored else self._store(accept))
            return
        mark.number, mark.resumes = event.number or mark.number, 0
        match event.name:
            case "READY":
                await self._ready(accept, data, gateway, now)
            case "RESUMED":
                await self._store(accept)
            case "GUILD_CREATE":
                await self._see_guild(accept, data, now)
            case "GUILD_UPDATE" if isinstance(data, dict):
                mark.know_guild(data)
            case "GUILD_DELETE":
                if isinstance(data, dict) and not data.get("unavailable"):
                    await self._done(accept, data.get("id"))
            case "CHANNEL_CREATE" | "CHANNEL_UPDATE" | "THREAD_CREATE" | "THREAD_UPDATE":
                self._channels.see([data])
            case name if name in _HEARD:
                await self._take(accept, {"t": name, "d": data})

    async def _begin_anew(self, accept: Accept, *, resumable: bool) -> None:
        if resumable:
            raise Unreachable("Discord asked to connect anew")
        self._mark.lose()
        await self._store(accept)
        # Discord wants another connection and a pause of one to five seconds before the next identify; who
        # identifies too often loses the token.
        after = None if self._identified else 1.0 + 4.0 * random.random()
        raise Unreachable("Discord ended the session", after=after)

    async def _identify(self, line: DiscordConnection) -> None:
        if self._shut_seconds is not None:
            # Who identifies once too often loses the token.
            why = "The bot has connected too often today; Discord lets it wait"
            raise Unreachable(why, after=self._shut_seconds)
        self._identified = True
        await line.identify(self._token)

    async def _ready(self, accept: Accept, data: Any, gateway: str, now: datetime) -> None:
        mark = self._mark
        try:
            mark.session, guilds = str(data["session_id"]), data["guilds"]
            self._pending = {guild["id"] for guild in guilds if is_snowflake(guild["id"])}
            mark.url = socket.own_gateway(data.get("resume_gateway_url"), gateway) or gateway
        except (TypeError, KeyError, AttributeError) as error:
            raise Unreachable("Discord's greeting cannot be read") from error
        if mark.is_new:
            mark.began = mark.newest = convert.id_at(now)
            self._pending = set()
            await self._store(accept)
            return
        mark.since = mark.newest if mark.since is None else mark.since
        after = mark.gap(convert.id_at(now - OLDEST))
        await self._find_directs()
        for channel in tuple(mark.directs):
            await self._read_channel(accept, channel, after, None)
        await self._done(accept, None)

    async def _done(self, accept: Accept, guild: Any) -> None:
        """A server is read; with the last one the gap is."""
        self._pending -= {guild} if is_snowflake(guild) else set()
        if not self._pending and self._mark.since is not None:
            self._mark.since = None
            await self._store(accept)

    async def _store(self, accept: Accept, items: Sequence[Inbound] = ()) -> None:
        cursor = self._mark.cursor()
        await accept(items, cursor)
        self._stored = cursor

    async def _take(self, accept: Accept, event: Mapping[str, Any]) -> None:
        """One happening, stored before anybody is told that it was heard."""
        data = event["d"]
        if not isinstance(data, dict):
            return
        items = convert.to_inbounds(event, await self._channels.of(data, self._me))
        if event["t"] == "MESSAGE_CREATE":
            self._mark.saw(data.get("id"))
        for item in items:
            self._mark.know(item.source)
        if items:
            await self._store(accept, items)
        elif self._me.id not in (data.get("user_id"), dig(data, "author", "id")):
            log.info("discord.left_out event=%s id=%s", event["t"], one_line(str(data.get("id")), 40))
        if event["t"] == "INTERACTION_CREATE":
            self.api.aside(self._answer(data, items[0].text if items else ""))

    async def _answer(self, interaction: Mapping[str, Any], text: str) -> None:
        """Discord shows a failure if a button or a command is not answered within three seconds. A command is
        confirmed to who gave it alone: its answer comes as a message, whenever it is there."""
        number, token = interaction.get("id"), interaction.get("token")
        if not is_snowflake(number) or not isinstance(token, str):
            return
        reply: dict[str, Any] = {"type": 6}
        if interaction.get("type") == 2:
            reply = {"type": 4, "data": {"flags": 64, "content": one_line(f"✓ {text}", 200)}}
        try:
            await self.api.call("POST", f"/interactions/{number}/{quote(token, safe='')}/callback", reply)
        except HermesError as error:
            log.info("discord.not_answered interaction=%s why=%s", number, error)

    # --- what was missed ---

    async def _see_guild(self, accept: Accept, guild: Any, now: datetime) -> None:
        if not isinstance(guild, dict) or guild.get("unavailable"):
            return
        places = as_dicts(guild.get("channels")) + as_dicts(guild.get("threads"))
        inside = {"guild_id": guild.get("id")}
        channels = [channel | inside for channel in places if is_snowflake(channel.get("id"))]
        self._channels.see(channels)
        self._mark.know_guild(guild)
        if not is_snowflake(guild.get("id")) or guild["id"] not in self._pending:
            return
        after = self._mark.gap(convert.id_at(now - OLDEST))
        for channel in channels:
            last = channel.get("last_message_id")
            if is_snowflake(last) and int(last) > after and channel.get("type") in (*convert.TALKED_IN,):
                await self._read_channel(accept, channel["id"], after, guild["id"])
        listed = {channel.get("id") for channel in channels}
        for thread, whose in tuple(self._mark.threads.items()):
            # One that was put away is not listed any more.
            if whose == guild["id"] and thread not in listed:
                await self._read_channel(accept, thread, after, whose)
        await self._done(accept, guild["id"])

    async def _read_channel(self, accept: Accept, channel: str, after: int, guild: str | None) -> None:
        while True:
            try:
                page = await self.api.read(f"/channels/{channel}/messages", after=str(after), limit=_PAGE)
            except Refused as error:
                log.info("discord.no_history channel=%s why=%s", channel, error)
                self._mark.threads.pop(channel, None)
                return
            news = [message for message in as_dicts(page) if is_snowflake(message.get("id"))]
            news.sort(key=lambda message: int(message["id"]))
            items: list[Inbound] = []
            for message in news:
                scene = await self._channels.of(message, self._me, guild)
                items += convert.to_inbounds({"t": "MESSAGE_CREATE", "d": message}, scene)
                self._mark.saw(message["id"])
            await (self._store(accept, items) if items else accept((), None))
            if len(news) < _PAGE or int(news[-1]["id"]) <= after:
                return
            after = int(news[-1]["id"])

    async def _find_directs(self) -> None:
        """Private chats are not listed for bots. Those of people who may write can be asked for."""
        users = [user for user in self._context.settings.allowed_users if is_snowflake(user)]
        chatting = set(self._mark.directs.values())
        for user in [user for user in users if user not in chatting][:_ASKED_PEOPLE]:
            try:
                await self._direct(user)
            except Refused as error:
                log.info("discord.no_chat user=%s why=%s", user, error)

    async def _direct(self, user: str) -> str:
        """The private chat with a person."""
        for channel, person in self._mark.directs.items():
            if person == user:
                return channel
        chat = await self.api.call("POST", "/users/@me/channels", {"recipient_id": user})
        if not is_snowflake(number := dig(chat, "id")):
            raise Unreachable("Discord does not say where that person is reached")
        self._mark.directs[number] = user
        return number

    # --- what goes out ---

    async def send(self, to: Address, body: Body, *, key: str, reply_to: str | None) -> Receipt:
        person = convert.person_id(to)
        if person or (to.thread is None and to.chat in self._mark.directs.values()):
            to = replace(to, chat=await self._direct(person or to.chat))
        try:
            return await self._send(to, body, key, reply_to)
        except DiscordUnknownChannel:
            # The number that people copy most easily is a person's.
            chat = None
            with suppress(Refused):
                chat = await self._direct(to.chat)
            if chat is None:
                raise
        return await self._send(replace(to, chat=chat), body, key, reply_to)

    async def _send(self, to: Address, body: Body, key: str, reply_to: str | None) -> Receipt:
        asked: dict[str, Any] = {
            "nonce": convert.nonce(to, key),
            "enforce_nonce": True,
            "allowed_mentions": _MENTIONS,
        }
        if body.text:
            asked["content"] = body.text

        async def post(channel: str) -> DiscordResponse:
            return await self._write(channel, to, body, asked, reply_to)

        response, channel = await self._channels.inside(to, post)
        if to.thread is None and response.code == UNKNOWN_CHANNEL:
            raise DiscordUnknownChannel(str(response.error))
        message = response.result
        if not is_snowflake(dig(message, "id")):
            raise Unreachable("Discord does not say which message it sent", maybe_done=True)
        ref = message["id"] if channel == channel_id(to) else f"{channel}/{message['id']}"
        return Receipt(to=to, ref=ref)

    async def _write(
        self, channel: str, to: Address, body: Body, asked: Mapping[str, Any], reply_to: str | None
    ) -> DiscordResponse:
        """A message into a channel; what belongs to a thread that could not be begun is a reply there."""
        message, astray = dict(asked), channel != channel_id(to)
        if rows := convert.components(body.buttons, to.thread if astray else None):
            message["components"] = rows
        answered = to.thread if astray else reply_to
        if is_snowflake(answered):
            message["message_reference"] = {"message_id": answered, "fail_if_not_exists": False}
        await self._check_sizes(to, body)
        path = f"/channels/{channel}/messages"
        response = await self._post(path, message, body)
        if response.blames("message_reference"):
            del message["message_reference"]
            response = await self._post(path, message, body)
        return response

    async def _check_sizes(self, to: Address, body: Body) -> None:
        """What a server takes depends on how much it is boosted."""
        largest = max((file.size or 0 for file in body.attachments), default=0)
        if largest <= MAX_FILE:
            return
        place = await self._channels.place(channel_id(replace(to, thread=None)))
        most = self._mark.most_bytes(None if place is None else place.guild)
        if largest > most:
            raise Refused(f"The file is too large for this place; Discord takes {size_told(most)} there")

    async def _post(self, path: str, asked: dict[str, Any], body: Body) -> DiscordResponse:
        if not body.attachments:
            return await self.api.ask("POST", path, asked)
        files = [await self._file(file) for file in body.attachments]
        message: dict[str, Any] = {
            **asked,
            "attachments": [{"id": str(n), "filename": f[0]} for n, f in enumerate(files)],
        }
        voice = len(files) == 1 and body.attachments[0].kind is MediaKind.VOICE
        if voice and not body.text and not body.buttons:
            # A voice message is nothing but itself; with words it goes as a file that can be played.
            about = {
                **message["attachments"][0],
                "duration_secs": convert.ogg_seconds(files[0][1]),
                "waveform": _WAVEFORM,
            }
            spoken = {**message, "flags": convert.VOICE_FLAG, "attachments": [about]}
            answer = await self.api.upload(path, spoken, files)
            # A channel may take no voice messages from us, and still files.
            refused = answer.status in (400, 403) and isinstance(answer.error, Refused)
            if not refused or answer.blames("message_reference"):
                return answer
        return await self.api.upload(path, message, files)

    async def _file(self, file: Attachment) -> tuple[str, bytes, str]:
        data, mime = await read_file(self._context, file), file.mime or ANY_MIME
        return file_name(replace(file, mime=mime)), data, mime

    async def edit(self, receipt: Receipt, body: Body) -> None:
        rows = convert.components(body.buttons, receipt.to.thread if "/" in receipt.ref else None)
        asked = {"content": body.text, "components": rows, "allowed_mentions": _MENTIONS}
        await self.api.call("PATCH", _message(receipt), asked)

    async def delete(self, receipt: Receipt) -> None:
        await self.api.call("DELETE", _message(receipt))

    async def typing(self, to: Address) -> None:
        async def show(channel: str) -> DiscordResponse:
            return await self.api.ask("POST", f"/channels/{channel}/typing")

        response, _ = await self._channels.inside(to, show)
        if response.status >= 300:
            raise response.error

    async def react(self, receipt: Receipt, emoji: str, *, instead: str = "") -> None:
        to, root = receipt.to, receipt.to.thread
        if root is not None and receipt.ref == root:
            # What a thread was begun from is in its channel; what begins a post in a forum is in the post.
            place = await self._channels.place(to.chat)
            inside = place is not None and place.forum
            receipt = receipt if inside else replace(receipt, to=replace(to, thread=None))
        path = _message(receipt)
        if emoji:
            await self.api.call("PUT", f"{path}/reactions/{quote(emoji, safe='')}/@me")
        if instead:
            with suppress(Refused):  # somebody took it away before
                await self.api.call("DELETE", f"{path}/reactions/{quote(instead, safe='')}/@me")

    async def open_thread(self, parent: Address, name: str) -> Address:
        return await self._channels.open(parent, name)

    async def fetch(self, ref: str, sink: Sink) -> None:
        parts = ref.split("/")
        if len(parts) != 3 or not all(is_snowflake(part) for part in parts):
            raise Refused("that is no file of Discord's")
        channel, number, wanted = parts
        message = await self.api.call("GET", f"/channels/{channel}/messages/{number}")
        for file in convert.files_of(message):
            if file.get("id") == wanted:
                await self.api.fetch(file.get("url"), sink)
                return
        raise Refused("the file is not there any more")

    async def show_menu(self, entries: Sequence[MenuEntry]) -> None:
        option = {"type": 3, "name": "text", "description": "what it is about", "required": False}
        shown = [
            {
                "type": 1,
                "name": entry.name,
                "description": entry.summary,
                "options": [option] if entry.takes_text else [],
                # On servers and in private chats with the bot.
                "contexts": [0, 1],
            }
            for entry in entries
            if _COMMAND_SHAPE.fullmatch(entry.name) and entry.summary
        ]
        app = await self.api.application()
        await self.api.call("PUT", f"/applications/{app['id']}/commands", shown)

    # --- a look from outside ---

    async def check(self) -> Sequence[Finding]:
        """Who the bot is, what it may read, on which servers it is and what it lacks there."""
        try:
            me = await self.api.call("GET", "/users/@me")
            app = await self.api.application()
            listed = await self.api.call("GET", "/users/@me/guilds", limit=_MOST_SERVERS)
        finally:
            await self.api.close()
        name, flags, servers = dig(me, "username"), app.get("flags"), as_dicts(listed)
        findings = [good(f"Discord knows the bot as {one_line(str(name or 'nobody'), 40)}.")]
        if not isinstance(flags, int) or not flags & _CONTENT_FLAGS:
            hint = "Turn it on at discord.com/developers/applications → your application → Bot."
            findings.append(wrong("It may not read messages: “Message Content Intent” is off.", hint))
        lacking = [finding for finding in map(_lacking, servers) if finding is not None]
        return [*findings, _count(len(servers), app["id"]), *lacking[:_SHOWN]]


def _count(count: int, app: str) -> Finding:
    rights = sum(_RIGHTS)
    invite = f"discord.com/oauth2/authorize?client_id={app}&permissions={rights}"
    hint = f"Invite it: https://{invite}&scope=bot+applications.commands"
    text = f"It is on {count} server{'s' * (count != 1)}."
    return Finding(good=count > 0, text=text, hint="" if count else hint)


def _lacking(server: dict[str, Any]) -> Finding | None:
    """What the bot's roles do not give it on a server; channels may say otherwise."""
    bits = str(server.get("permissions"))
    has = int(bits) if bits.isascii() and bits.isdigit() and len(bits) < 30 else 0
    missing = [] if has & _ADMINISTRATOR else [name for bit, name in _RIGHTS.items() if not has & bit]
    if not missing:
        return None
    text = f"On “{one_line(str(server.get('name')), 40)}” it lacks rights: {', '.join(missing)}."
    return wrong(text, "Give them to the bot's role: Server Settings → Roles.")


def _message(receipt: Receipt) -> str:
    """Where a message is: in the thread that was meant, or in the channel before it."""
    channel, astray, number = receipt.ref.rpartition("/")
    if not is_snowflake(number) or (astray and not is_snowflake(channel)):
        raise Refused("that is no message of Discord's")
    return f"/channels/{channel or channel_id(receipt.to)}/messages/{number}"
