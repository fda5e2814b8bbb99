"""A Discord with one bot and one server: the part of the HTTP API (v10) and of the gateway that the adapter
uses, as docs.discord.com describes them.

Answers are `application/json` and nothing else in that header; errors have `code`, `message` and nested
`errors`. The gateway speaks one zlib stream per connection. Events have numbers per session; a session that
was closed with 1000 or 1001 is over, any other can be resumed until it is forgotten."""

from __future__ import annotations

import asyncio
import json
import time
import zlib
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any
from zlib import crc32

import aiohttp
from aiohttp import web

from hermes.testing.platform_suite import Fault
from hermes.testing.served import FakeRefusal, Route, ServedFake
from tests.platforms.discord.objects import (
    APPLICATION,
    BOT,
    GUILD,
    channel_of,
    guild_of,
    member_of,
    message_of,
    person,
)

TOKEN = "MTIzNDU2Nzg5MDEyMzQ1Njc4.GabcdE.the-fake-token-of-a-bot_1234567890abcd"
EPOCH_MS = 1_420_070_400_000
MOST_TEXT, MOST_FILE = 2000, 10 * 1024 * 1024
MOST_FILES = (MOST_FILE, MOST_FILE, 5 * MOST_FILE, 10 * MOST_FILE)
"""By a server's level."""
MESSAGE_CONTENT = 1 << 15
NONCE_SECONDS = 180.0


class Wrong(FakeRefusal):
    """An error answer."""

    def __init__(self, status: int, code: int, message: str, **more: Any) -> None:
        super().__init__(message)
        self.status, self.code, self.more = status, code, more


@dataclass
class Sent:
    """A message of the bot's."""

    message: dict[str, Any]
    files: list[tuple[str, str, bytes]] = field(default_factory=list)
    edits: int = 0
    deleted: bool = False


@dataclass
class Session:
    """What Discord keeps of a connection."""

    id: str
    intents: int
    events: list[dict[str, Any]] = field(default_factory=list)
    socket: Wire | None = None

    @property
    def number(self) -> int:
        return len(self.events)


class Wire:
    """One websocket with its stream of compressed messages."""

    def __init__(self, socket: web.WebSocketResponse, *, compressed: bool) -> None:
        self.socket = socket
        self._deflate = zlib.compressobj() if compressed else None
        self.refused = False
        """It was told that its session is none."""
        self._turn = asyncio.Lock()

    async def send(
        self, op: int, data: Any = None, number: int | None = None, name: str | None = None
    ) -> None:
        raw = json.dumps({"op": op, "d": data, "s": number, "t": name}).encode()
        async with self._turn:
            if self._deflate is None:
                await self.socket.send_str(raw.decode())
                return
            await self.socket.send_bytes(self._deflate.compress(raw) + self._deflate.flush(zlib.Z_SYNC_FLUSH))


@dataclass
class Discord(ServedFake):
    """The service. Tests write through `say`, and read `sent`."""

    base_path = "/api/v10"
    token: str = TOKEN
    sent: list[Sent] = field(default_factory=list)
    history: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    channels: dict[str, dict[str, Any]] = field(default_factory=dict)
    sessions: dict[str, Session] = field(default_factory=dict)
    calls: list[tuple[str, str, Any]] = field(default_factory=list)
    met: int = 0
    """How often a bot came, whatever became of it."""
    identified: int = 0
    resumed: int = 0
    typed: int = 0
    reactions: list[str] = field(default_factory=list)
    answered: list[tuple[str, Any]] = field(default_factory=list)
    commands: list[dict[str, Any]] = field(default_factory=list)
    files: dict[str, bytes] = field(default_factory=dict)
    roles: list[str] = field(default_factory=lambda: ["700000000000000001"])
    rights: int = (1 << 52) - 1 & ~(1 << 3)
    boosted: int = 0
    """The server's level."""
    joined: int = 1
    """On how many servers it is."""
    no_threads: set[str] = field(default_factory=set)
    threads_from_messages: set[str] = field(default_factory=set)
    """Channels in which a thread has to hang on a message."""
    """Channels in which the bot may not begin one."""
    allowed_intents: int = (1 << 30) - 1
    starts_left: int = 1000
    forgets: bool = False
    """Sessions end with their connection, as after some minutes."""
    drops_resumes: int | None = None
    """The code with which the gateway closes the connection of who resumes, without a word before. Seen live:
    openclaw #13061 (38,564 resumes, each closed with 1005), #20668, #103596."""
    no_voice: Wrong | None = None
    """How voice messages are refused: discord-api-docs, permissions (`SEND_VOICE_MESSAGES`) and JSON error
    codes (50013, 50173)."""
    people: set[str] = field(default_factory=lambda: {"501", "502", "503"})
    """Whom the bot may write to; any other number is nobody's (50033, discord-api-docs, JSON error codes)."""
    beats: float = 400_000.0
    silent: bool = False
    """Heartbeats stay unanswered."""
    remaining: dict[str, int] = field(default_factory=dict)
    _nonces: dict[str, tuple[float, str]] = field(default_factory=dict)
    _counter: int = 0

    # --- its life ---

    def routes(self) -> Iterable[Route]:
        yield "GET", "/", self._gateway
        yield "GET", "/files/{number}/{name}", self._download
        yield "*", "/api/v10/{path:.*}", self._serve

    @property
    def gateway_url(self) -> str:
        return f"ws://127.0.0.1:{self.port}"

    async def hang_up(self, code: int = 4000) -> None:
        """The gateway closes its connections."""
        for session in tuple(self.sessions.values()):
            if session.socket is not None:
                # It waits for who is not there any more; nobody has to wait for it.
                asyncio.get_running_loop().create_task(session.socket.socket.close(code=code))
        await asyncio.sleep(0)

    def snowflake(self) -> str:
        self._counter += 1
        return str(((int(time.time() * 1000) - EPOCH_MS) << 22) | (self._counter & 0x3FFFFF))

    # --- people ---

    def channel(self, number: str, sort: int = 1, **more: Any) -> dict[str, Any]:
        if number not in self.channels:
            self.channels[number] = channel_of(number, sort, **more)
            self.history[number] = []
        return self.channels[number]

    def say(self, channel: str, text: str = "", *, user: str = "501", **more: Any) -> dict[str, Any]:
        """A person writes; `more` are further fields of the message."""
        place = self.channels[channel]
        message = message_of(self.snowflake(), channel, person(user), text, **more)
        self._put(message)
        self.dispatch("MESSAGE_CREATE", self._as_event(message, place))
        return message

    def _put(self, message: dict[str, Any]) -> None:
        self.history[message["channel_id"]].append(message)
        self.channels[message["channel_id"]]["last_message_id"] = message["id"]

    def _as_event(self, message: dict[str, Any], place: dict[str, Any]) -> dict[str, Any]:
        """The gateway tells a message's server and its author's membership, the history does not."""
        if place["type"] == 1:
            return {**message, "channel_type": 1}
        member = {name: value for name, value in member_of(self.roles).items() if name != "user"}
        return {**message, "guild_id": GUILD, "member": member, "channel_type": place["type"]}

    def edit(self, message: dict[str, Any], text: str) -> None:
        message |= {"content": text, "edited_timestamp": datetime.now(UTC).isoformat()}
        self.dispatch("MESSAGE_UPDATE", self._as_event(message, self.channels[message["channel_id"]]))

    def delete(self, *messages: dict[str, Any]) -> None:
        """A person deletes a message, or a moderator several at once."""
        place = self.channels[messages[0]["channel_id"]]
        told = {"channel_id": place["id"]} | ({} if place["type"] == 1 else {"guild_id": GUILD})
        for one in messages:
            self.history[place["id"]].remove(one)
        if len(messages) > 1:
            self.dispatch("MESSAGE_DELETE_BULK", {**told, "ids": [one["id"] for one in messages]})
        else:
            self.dispatch("MESSAGE_DELETE", {**told, "id": messages[0]["id"]})

    def press(self, ref: str, value: str, user: str = "501") -> dict[str, Any]:
        one = next(sent for sent in self.sent if sent.message["id"] == ref)
        data = {"component_type": 2, "custom_id": value, "id": 1}
        return self._interact(3, data, one.message["channel_id"], user, message=one.message)

    def command(self, channel: str, name: str, text: str, user: str = "501") -> dict[str, Any]:
        options = [{"name": "text", "type": 3, "value": text}] if text else []
        data = {"id": self.snowflake(), "name": name, "type": 1, "options": options}
        return self._interact(2, data, channel, user)

    def _interact(
        self, sort: int, data: dict[str, Any], channel: str, user: str, **more: Any
    ) -> dict[str, Any]:
        place = self.channels[channel]
        told: dict[str, Any] = {
            "id": self.snowflake(),
            "application_id": APPLICATION["id"],
            "type": sort,
            "data": data,
            "channel_id": channel,
            "channel": place,
            "token": f"aW50ZXJhY3Rpb246{self._counter}",
            "version": 1,
            "locale": "en-US",
            "app_permissions": "2251799813685247",
            "entitlements": [],
            "authorizing_integration_owners": {"0": GUILD},
            "context": 1 if place["type"] == 1 else 0,
            "attachment_size_limit": MOST_FILE,
            **more,
        }
        if place["type"] == 1:
            told["user"] = person(user)
        else:
            told |= {
                "guild_id": GUILD,
                "guild": {"id": GUILD, "locale": "en-US", "features": []},
                "member": {**member_of(self.roles, person(user)), "permissions": "8"},
                "guild_locale": "en-US",
            }
        self.dispatch("INTERACTION_CREATE", told)
        return told

    def keep_file(self, data: bytes, name: str, mime: str, **more: Any) -> dict[str, Any]:
        number = self.snowflake()
        self.files[number] = data
        url = f"http://127.0.0.1:{self.port}/files/{number}/{name}"
        return {
            "id": number,
            "filename": name,
            "size": len(data),
            "url": url,
            "proxy_url": url,
            "content_type": mime,
            **more,
        }

    # --- the gateway ---

    def dispatch(self, name: str, data: Any) -> None:
        for session in tuple(self.sessions.values()):
            self._tell(session, name, data)

    def _tell(self, session: Session, name: str, data: Any) -> None:
        told = data
        if "content" in (data or ()) and not session.intents & MESSAGE_CONTENT and "guild_id" in data:
            told = {**data, "content": "", "attachments": [], "components": [], "embeds": []}
        event = {"t": name, "d": json.loads(json.dumps(told)), "s": session.number + 1}
        session.events.append(event)
        if session.socket is not None:
            asyncio.get_running_loop().create_task(self._pass_on(session.socket, event))

    async def _pass_on(self, wire: Wire, event: dict[str, Any]) -> None:
        try:
            await wire.send(0, event["d"], event["s"], event["t"])
        except (ConnectionError, aiohttp.ClientError):
            pass

    async def _gateway(self, request: web.Request) -> web.StreamResponse:
        socket = web.WebSocketResponse(autoping=True)
        await socket.prepare(request)
        wire = Wire(socket, compressed=request.query.get("compress") == "zlib-stream")
        session: Session | None = None
        try:
            if request.query.get("v") != "10" or request.query.get("encoding") != "json":
                await socket.close(code=4012, message=b"Invalid API version.")
                return socket
            await wire.send(10, {"heartbeat_interval": self.beats, "_trace": []})
            async for frame in socket:
                if frame.type not in (aiohttp.WSMsgType.TEXT, aiohttp.WSMsgType.BINARY):
                    break
                told = json.loads(frame.data)
                session = await self._answer(wire, told, session)
        finally:
            if session is not None and session.socket is wire:
                session.socket = None
                if self.forgets or socket.close_code in (1000, 1001):
                    self.sessions.pop(session.id, None)
        return socket

    async def _answer(self, wire: Wire, told: dict[str, Any], session: Session | None) -> Session | None:
        match told["op"]:
            case 1:
                if not self.silent:
                    await wire.send(11)
            case 2 if wire.refused:
                # discord-api-docs, gateway, “Resuming”: who is told op 9 disconnects, and identifies on a new
                # connection.
                await wire.socket.close(code=4003, message=b"Not authenticated.")
            case 2 | 6:
                open_up = self._identify if told["op"] == 2 else self._resume
                session = await open_up(wire, told["d"])
                self.met += 1
            case 3 | 4 | 8:
                if session is None:
                    await wire.socket.close(code=4003, message=b"Not authenticated.")
            case _:
                await wire.socket.close(code=4001, message=b"Unknown opcode.")
        return session

    async def _identify(self, wire: Wire, asked: dict[str, Any]) -> Session | None:
        if asked["token"] != self.token:
            await wire.socket.close(code=4004, message=b"Authentication failed.")
            return None
        if not isinstance(asked["intents"], int) or asked["intents"] >> 27:
            await wire.socket.close(code=4013, message=b"Invalid intent(s).")
            return None
        if asked["intents"] & ~self.allowed_intents:
            await wire.socket.close(code=4014, message=b"Disallowed intent(s).")
            return None
        assert {"os", "browser", "device"} <= asked["properties"].keys()
        self.identified += 1
        session = Session(f"{int(self.snowflake()):032x}", asked["intents"])
        self.sessions[session.id] = session
        ready = {
            "v": 10,
            "user": BOT,
            "guilds": [{"id": GUILD, "unavailable": True}],
            "session_id": session.id,
            "resume_gateway_url": self.gateway_url,
            "application": {"id": APPLICATION["id"], "flags": APPLICATION["flags"]},
            "private_channels": [],
            "relationships": [],
            "presences": [],
            "user_settings": {},
            "geo_ordered_rtc_regions": [],
            "session_type": "normal",
            "_trace": [],
        }
        if "shard" in asked:
            ready["shard"] = asked["shard"]
        self._tell(session, "READY", ready)
        self._tell(session, "GUILD_CREATE", self.guild())
        for event in session.events:
            await self._pass_on(wire, event)
        session.socket = wire
        return session

    def guild(self) -> dict[str, Any]:
        return {**guild_of(self.channels, self.roles), "premium_tier": self.boosted}

    async def _resume(self, wire: Wire, asked: dict[str, Any]) -> Session | None:
        if asked["token"] != self.token:
            await wire.socket.close(code=4004, message=b"Authentication failed.")
            return None
        if self.drops_resumes is not None:
            await wire.socket.close(code=self.drops_resumes)
            return None
        session = self.sessions.get(asked["session_id"])
        if session is None:
            wire.refused = True
            await wire.send(9, False)
            return None
        if not 0 <= asked["seq"] <= session.number:
            await wire.socket.close(code=4007, message=b"Invalid seq.")
            return None
        self.resumed += 1
        sent = asked["seq"]
        while sent < session.number:
            await self._pass_on(wire, session.events[sent])
            sent += 1
        session.socket = wire
        self._tell(session, "RESUMED", {"_trace": []})
        return session

    async def ask_all(self, op: int, data: Any = None) -> None:
        """Tell every connection something: 1 to beat, 7 to connect anew, 9 that its session is none."""
        for session in self.sessions.values():
            if session.socket is not None:
                session.socket.refused = session.socket.refused or op == 9
                await session.socket.send(op, data)

    # --- the HTTP API ---

    async def _serve(self, request: web.Request) -> web.StreamResponse:
        parts = request.match_info["path"].split("/")
        asked, files = await _parameters(request)
        self.calls.append((request.method, request.match_info["path"], asked))
        if parts[0] != "interactions" and request.headers.get("Authorization") != f"Bot {self.token}":
            raise Wrong(401, 0, "401: Unauthorized")

        async def act() -> web.StreamResponse:
            status, result = await self._do(request, parts, asked, files)
            return _said(status, result, self._limits(request.method, parts))

        sends = request.method in ("POST", "PATCH") and parts[::2][:2] == ["channels", "messages"]
        return await (self.troubled(request, parts[1], act) if sends else act())

    def refused(self, refusal: Wrong) -> web.Response:
        headers = refusal.more.pop("headers", {})
        told = {"message": str(refusal), "code": refusal.code, **refusal.more}
        return _said(refusal.status, told, headers)

    def _limits(self, method: str, parts: list[str]) -> dict[str, str]:
        """Routes that share a limit have the same bucket, whatever their channel, for each of which it counts
        apart (discord-api-docs, topics/rate-limits, “X-RateLimit-Bucket” and “top-level resources”)."""
        left = self.remaining.get(parts[1] if len(parts) > 1 else "", 4)
        reset = f"{time.time() + 1:.3f}"
        return {
            "X-RateLimit-Limit": "5",
            "X-RateLimit-Remaining": str(left),
            "X-RateLimit-Reset": reset,
            "X-RateLimit-Reset-After": "1.000",
            "X-RateLimit-Bucket": f"{crc32(f'{method} {parts[0]} {parts[2:3]}'.encode()):08x}",
        }

    def failed(self, fault: Fault) -> web.Response:
        match fault:
            case Fault.TOO_FAST | Fault.TOO_FAST_ALL:
                everywhere = fault is Fault.TOO_FAST_ALL
                headers = {"Retry-After": "3", "X-RateLimit-Scope": "global" if everywhere else "user"}
                if everywhere:
                    headers["X-RateLimit-Global"] = "true"
                text = "You are being rate limited."
                raise Wrong(429, 0, text, retry_after=3.0, headers=headers, **{"global": everywhere})
            case Fault.REVOKED:
                raise Wrong(401, 0, "401: Unauthorized")
            case Fault.GONE:
                raise Wrong(403, 50007, "Cannot send messages to this user")
        raise _invalid("content", "BASE_TYPE_MAX_LENGTH", "Must be 2000 or fewer in length.")

    async def _download(self, request: web.Request) -> web.StreamResponse:
        data = self.files.get(request.match_info["number"])
        if data is None:
            return web.Response(status=404, text="This content is no longer available.")
        return web.Response(body=data, content_type="application/octet-stream")

    async def _do(
        self, request: web.Request, parts: list[str], asked: Any, files: list[tuple[str, str, bytes]]
    ) -> tuple[int, Any]:
        match (request.method, *parts):
            case ("GET", "gateway", "bot"):
                left = {"total": 1000, "remaining": self.starts_left, "reset_after": 7_200_000}
                limit = {**left, "max_concurrency": 1}
                return 200, {"url": self.gateway_url, "shards": 1, "session_start_limit": limit}
            case ("GET", "gateway"):
                return 200, {"url": self.gateway_url}
            case ("GET", "users", "@me"):
                return 200, BOT
            case ("GET", "applications", "@me") | ("GET", "oauth2", "applications", "@me"):
                return 200, APPLICATION
            case ("GET", "users", "@me", "guilds"):
                about = {"id": GUILD, "name": "Team", "icon": None, "banner": None, "owner": False}
                return 200, [{**about, "permissions": str(self.rights), "features": []}] * self.joined
            case ("PUT", "applications", _, "commands"):
                self.commands = [_checked_command(one) for one in asked]
                return 200, [self._command(one) for one in asked]
            case ("POST", "users", "@me", "channels"):
                return 200, self._direct(str(asked["recipient_id"]))
            case ("GET", "guilds", number, "members", user) if number == GUILD:
                return 200, member_of(self.roles, BOT if user == BOT["id"] else person(user))
            case ("POST", "interactions", number, _, "callback"):
                return self._called_back(number, asked, request.query.get("with_response") in ("1", "true"))
            case ("GET", "channels", number):
                return 200, self._channel(number)
            case ("POST", "channels", number, "typing"):
                self._channel(number)
                self.typed += 1
                return 204, None
            case ("POST", "channels", number, "threads"):
                return 201, self._open_thread(self._channel(number), asked)
            case ("POST", "channels", number, "messages", ref, "threads"):
                return 201, self._begin_thread(self._channel(number), self._message(number, ref), asked)
            case ("GET", "channels", number, "messages"):
                return 200, self._look_back(self._channel(number), dict(request.query))
            case ("POST", "channels", number, "messages"):
                return 200, self._send(self._channel(number), asked, files)
            case ("GET", "channels", number, "messages", ref):
                return 200, self._message(number, ref)
            case ("PATCH", "channels", number, "messages", ref):
                return 200, self._edit(self._own(number, ref), asked)
            case ("DELETE", "channels", number, "messages", ref):
                self._delete(self._own(number, ref))
                return 204, None
            case ("PUT" | "DELETE", "channels", number, "messages", ref, "reactions", emoji, "@me"):
                self._react(request.method, self._message(number, ref), emoji)
                return 204, None
        raise Wrong(404, 0, "404: Not Found")

    def _command(self, one: dict[str, Any]) -> dict[str, Any]:
        defaults = {
            "application_id": APPLICATION["id"],
            "default_member_permissions": None,
            "nsfw": False,
            "integration_types": [0],
            "contexts": None,
            "name_localizations": None,
            "description_localizations": None,
        }
        return {**defaults, **one, "id": self.snowflake(), "version": self.snowflake()}

    def _direct(self, user: str) -> dict[str, Any]:
        if user not in self.people and user not in self.channels:
            raise Wrong(400, 50033, "Invalid Recipient(s)")
        number = user if user in self.channels else f"9{user}"
        return self.channel(number, 1, recipients=[person(user)])

    def _channel(self, number: str) -> dict[str, Any]:
        if number not in self.channels:
            raise Wrong(404, 10003, "Unknown Channel")
        return self.channels[number]

    def _called_back(self, number: str, asked: Any, told: bool) -> tuple[int, Any]:
        if asked["type"] == 4 and not 0 < len(asked["data"]["content"]) <= MOST_TEXT:
            raise _invalid("data", "BASE_TYPE_REQUIRED", "This field is required")
        if any(known == number for known, _ in self.answered):
            raise Wrong(400, 40060, "Interaction has already been acknowledged.")
        self.answered.append((number, asked))
        if not told:
            return 204, None
        about = {"id": number, "type": 3 if asked["type"] == 6 else 2}
        resource: dict[str, Any] = {"type": asked["type"]}
        if asked["type"] == 4:
            text = asked["data"]["content"]
            resource["message"] = message_of(self.snowflake(), "501", BOT, text, flags=64)
            about["response_message_id"] = resource["message"]["id"]
        return 200, {"interaction": about, "resource": resource}

    def _open_thread(self, parent: dict[str, Any], asked: Any) -> dict[str, Any]:
        forum = parent["type"] == 15
        if parent["type"] not in (0, 5, 15):
            raise Wrong(400, 50024, "Cannot execute action on this channel type")
        if not 0 < len(asked["name"]) <= 100 or (forum and "content" not in asked.get("message", {})):
            raise _invalid("name", "BASE_TYPE_BAD_LENGTH", "Must be between 1 and 100 in length.")
        # discord-api-docs, channel flags (REQUIRE_TAG, 1 << 4) and JSON error codes.
        tags = {one["id"] for one in parent.get("available_tags", ())}
        if parent.get("flags", 0) & 1 << 4 and not tags & set(asked.get("applied_tags") or ()):
            raise Wrong(400, 40067, "A tag is required to create a forum post in this channel")
        sort = 11 if forum else asked.get("type", 12)
        if parent["id"] in self.no_threads | self.threads_from_messages:
            raise Wrong(403, 50013, "Missing Permissions")
        if parent["type"] == 5 and sort != 10:
            raise Wrong(400, 50024, "Cannot execute action on this channel type")
        thread = self.channel(self.snowflake(), sort, parent_id=parent["id"], name=asked["name"])
        self.dispatch("THREAD_CREATE", {**thread, "newly_created": True})
        return thread

    def _begin_thread(
        self, parent: dict[str, Any], message: dict[str, Any], asked: dict[str, Any]
    ) -> dict[str, Any]:
        """A thread from a message has its id, and there is one at most."""
        if parent["id"] in self.no_threads:
            raise Wrong(403, 50013, "Missing Permissions")
        if parent["type"] not in (0, 5):
            raise Wrong(400, 50024, "Cannot execute action on this channel type")
        if message["id"] in self.channels:
            raise Wrong(400, 160004, "A thread has already been created for this message")
        if not 0 < len(asked["name"]) <= 100:
            raise _invalid("name", "BASE_TYPE_BAD_LENGTH", "Must be between 1 and 100 in length.")
        sort = 10 if parent["type"] == 5 else 11
        thread = self.channel(message["id"], sort, parent_id=parent["id"], name=asked["name"])
        message |= {"thread": thread, "flags": message["flags"] | 1 << 5}
        self.dispatch("THREAD_CREATE", {**thread, "newly_created": True})
        self.dispatch("MESSAGE_UPDATE", self._as_event(message, parent))
        return thread

    def _look_back(self, channel: dict[str, Any], query: dict[str, str]) -> list[dict[str, Any]]:
        limit = int(query.get("limit", 50))
        if not 1 <= limit <= 100:
            raise _invalid("limit", "NUMBER_TYPE_MAX", "int value should be less than or equal to 100.")
        known = self.history[channel["id"]]
        if "after" in query:
            found = [one for one in known if int(one["id"]) > int(query["after"])][:limit]
        else:
            found = known[-limit:]
        return [{name: value for name, value in one.items() if name != "nonce"} for one in reversed(found)]

    def _message(self, channel: str, ref: str) -> dict[str, Any]:
        for one in self.history.get(channel, ()):
            if one["id"] == ref:
                return one
        raise Wrong(404, 10008, "Unknown Message")

    def _own(self, channel: str, ref: str) -> Sent:
        message = self._message(channel, ref)
        for one in self.sent:
            if one.message is message and not one.deleted:
                return one
        raise Wrong(403, 50005, "Cannot edit a message authored by another user")

    def _send(
        self, channel: dict[str, Any], asked: dict[str, Any], files: list[tuple[str, str, bytes]]
    ) -> dict[str, Any]:
        known = self._known(asked)
        if known is not None:
            return known
        content = asked.get("content") or ""
        most = MOST_FILE if channel["type"] == 1 else MOST_FILES[self.boosted]
        _check_content(content, asked, files, most)
        more: dict[str, Any] = {"components": _checked_rows(asked.get("components") or [])}
        spoken = bool(asked.get("flags", 0) & (1 << 13))
        if spoken and self.no_voice is not None:
            raise self.no_voice
        if spoken and (content or len(files) != 1):
            raise Wrong(400, 50159, "Voice messages do not support additional content")
        if reference := asked.get("message_reference"):
            more |= self._referenced(channel, reference)
        about = {one["id"]: one for one in asked.get("attachments") or ()}
        more["attachments"] = []
        for number, (name, mime, data) in enumerate(files):
            told = about.get(number, about.get(str(number), {}))
            extra = {key: told[key] for key in ("duration_secs", "waveform") if key in told}
            if spoken and len(extra) != 2:
                raise Wrong(400, 50161, "Voice messages must have supporting metadata")
            more["attachments"].append(self.keep_file(data, told.get("filename", name), mime, **extra))
        message = message_of(self.snowflake(), channel["id"], BOT, content, **more)
        message["flags"] = asked.get("flags", 0)
        if "nonce" in asked:
            message["nonce"] = asked["nonce"]
            self._nonces[str(asked["nonce"])] = (time.monotonic(), message["id"])
        self._put(message)
        self.sent.append(Sent(message, files))
        self.dispatch("MESSAGE_CREATE", self._as_event(message, channel))
        return message

    def _known(self, asked: dict[str, Any]) -> dict[str, Any] | None:
        """With `enforce_nonce` the message that has the nonce already is given again."""
        if "nonce" in asked and len(str(asked["nonce"])) > 25:
            raise _invalid("nonce", "NONCE_TYPE_TOO_LONG", "Must be 25 or fewer in length.")
        at, ref = self._nonces.get(str(asked.get("nonce")), (-1e9, ""))
        if not asked.get("enforce_nonce") or time.monotonic() - at > NONCE_SECONDS:
            return None
        return next(one.message for one in self.sent if one.message["id"] == ref)

    def _referenced(self, channel: dict[str, Any], reference: dict[str, Any]) -> dict[str, Any]:
        known = [one for one in self.history[channel["id"]] if one["id"] == str(reference["message_id"])]
        if known:
            told = {"message_id": known[0]["id"], "channel_id": channel["id"], "type": 0}
            inner = {name: value for name, value in known[0].items() if name != "referenced_message"}
            return {"type": 19, "message_reference": told, "referenced_message": inner}
        if reference.get("fail_if_not_exists", True):
            raise _invalid("message_reference", "REPLIES_UNKNOWN_MESSAGE", "Unknown message")
        return {}

    def _edit(self, one: Sent, asked: dict[str, Any]) -> dict[str, Any]:
        content = asked.get("content", one.message["content"])
        _check_content(content or "", asked, one.message["attachments"])
        one.message |= {"content": content or "", "edited_timestamp": datetime.now(UTC).isoformat()}
        if "components" in asked:
            one.message["components"] = _checked_rows(asked["components"] or [])
        one.edits += 1
        place = self.channels[one.message["channel_id"]]
        self.dispatch("MESSAGE_UPDATE", self._as_event(one.message, place))
        return one.message

    def _delete(self, one: Sent) -> None:
        one.deleted = True
        channel = one.message["channel_id"]
        self.history[channel].remove(one.message)
        self.dispatch("MESSAGE_DELETE", {"id": one.message["id"], "channel_id": channel})

    def _react(self, method: str, message: dict[str, Any], emoji: str) -> None:
        if not emoji or emoji.isascii():
            raise Wrong(400, 10014, "Unknown Emoji")
        told = message.setdefault("reactions", [])
        told[:] = [one for one in told if one["emoji"]["name"] != emoji]
        self.reactions = [one for one in self.reactions if one != emoji]
        if method == "PUT":
            count = {"burst": 0, "normal": 1}
            told.append(
                {
                    "count": 1,
                    "count_details": count,
                    "me": True,
                    "me_burst": False,
                    "emoji": {"id": None, "name": emoji},
                    "burst_colors": [],
                }
            )
            self.reactions.append(emoji)
        place = self.channels[message["channel_id"]]
        data = {
            "user_id": BOT["id"],
            "channel_id": place["id"],
            "message_id": message["id"],
            "emoji": {"id": None, "name": emoji},
            "burst": False,
            "type": 0,
        }
        name = "MESSAGE_REACTION_ADD" if method == "PUT" else "MESSAGE_REACTION_REMOVE"
        self.dispatch(name, data if place["type"] == 1 else {**data, "guild_id": GUILD})


# --- requests and answers ------------------------------------------------------------------------


def _said(status: int, result: Any, headers: dict[str, str]) -> web.Response:
    if status == 204:
        return web.Response(status=204, headers=headers)
    body = json.dumps(result).encode()
    return web.Response(status=status, body=body, headers={**headers, "Content-Type": "application/json"})


async def _parameters(request: web.Request) -> tuple[Any, list[tuple[str, str, bytes]]]:
    if request.content_type == "multipart/form-data":
        form = await request.post()
        files = []
        for name, value in form.items():
            if name.startswith("files["):
                assert isinstance(value, web.FileField)
                files.append((value.filename, value.content_type, value.file.read()))
        raw = form["payload_json"]
        assert isinstance(raw, str | bytes | bytearray)
        return json.loads(raw), files
    raw_body = await request.read()
    if not raw_body:
        return {}, []
    try:
        return json.loads(raw_body), []
    except ValueError:
        raise Wrong(400, 50109, "The request body contains invalid JSON.") from None


def _invalid(name: str, code: str, message: str) -> Wrong:
    errors = {name: {"_errors": [{"code": code, "message": message}]}}
    return Wrong(400, 50035, "Invalid Form Body", errors=errors)


def _check_content(content: str, asked: dict[str, Any], files: Any, most: int = MOST_FILE) -> None:
    if len(content) > MOST_TEXT:
        raise _invalid("content", "BASE_TYPE_MAX_LENGTH", "Must be 2000 or fewer in length.")
    if not content.strip() and not files and not asked.get("embeds"):
        raise Wrong(400, 50006, "Cannot send an empty message")
    if any(isinstance(one, tuple) and len(one[2]) > most for one in files):
        raise Wrong(413, 40005, "Request entity too large")


def _checked_rows(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    ids = []
    if len(rows) > 5:
        raise _invalid("components", "BASE_TYPE_BAD_LENGTH", "Must be between 1 and 5 in length.")
    for row in rows:
        if row["type"] != 1 or not 1 <= len(row["components"]) <= 5:
            raise _invalid("components", "BASE_TYPE_BAD_LENGTH", "Must be between 1 and 5 in length.")
        for button in row["components"]:
            ids.append(button["custom_id"])
            fits = button["type"] == 2 and 0 < len(button["label"]) <= 80
            if not fits or not 0 < len(button["custom_id"]) <= 100 or button["style"] not in (1, 2, 3, 4):
                raise _invalid("components", "BASE_TYPE_BAD_LENGTH", "Must be between 1 and 100 in length.")
    if len(ids) != len(set(ids)):
        raise _invalid(
            "components", "COMPONENT_CUSTOM_ID_DUPLICATED", "Component custom id cannot be duplicated"
        )
    numbered = iter(range(1, 99))
    return [
        {
            "type": 1,
            "id": next(numbered),
            "components": [{**one, "id": next(numbered)} for one in row["components"]],
        }
        for row in rows
    ]


def _checked_command(one: dict[str, Any]) -> dict[str, Any]:
    if not 0 < len(one["name"]) <= 32 or one["name"] != one["name"].lower():
        raise _invalid("name", "APPLICATION_COMMAND_INVALID_NAME", "Command name is invalid")
    if not 0 < len(one["description"]) <= 100:
        raise _invalid("description", "BASE_TYPE_BAD_LENGTH", "Must be between 1 and 100 in length.")
    return one
