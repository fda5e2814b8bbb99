"""A Mattermost with one bot: the part of REST v4 and of the WebSocket that the adapter uses, as the vendor's
documents and its client's types describe it.

Times are milliseconds; posts inside events are JSON in JSON; every event of a connection has the next `seq`.
A post with a pending id that was seen in the last 30 seconds is not made again. Contexts of buttons stay
here.
`posts?since=` gives at most 1,000 of those that were changed, in no order that one may rely on."""

from __future__ import annotations

import contextlib
import hashlib
import itertools
import json
import time
from collections.abc import Awaitable, Callable, Iterable
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any

import aiohttp
from aiohttp import web

from hermes.testing.platform_suite import Fault
from hermes.testing.served import FakeRefusal, Handler, Route, ServedFake

TOKEN = "u3wkfx6m7tyo8ja1gp9dq5rzbh"
COMMAND_TOKEN = "8w7foap4ufrsfczda8uez51yxo"
MOST_RUNES, MOST_SINCE, PENDING_SECONDS = 16_383, 1_000, 30.0


def new_id(seed: object) -> str:
    """26 letters and digits, as every id there."""
    number = int.from_bytes(hashlib.sha256(str(seed).encode()).digest()[:17])
    letters = "ybndrfg8ejkmcpqxot1uwisza345h769"
    return "".join(letters[(number >> (5 * place)) & 31] for place in range(26))


BOT = {
    "id": new_id("hermes"),
    "create_at": 1790000000000,
    "update_at": 1790000000000,
    "delete_at": 0,
    "username": "hermes",
    "auth_data": "",
    "auth_service": "",
    "email": "hermes@localhost",
    "nickname": "",
    "first_name": "Hermes",
    "last_name": "",
    "position": "",
    "roles": "system_user",
    "locale": "en",
    "timezone": {},
    "is_bot": True,
    "bot_description": "",
    "disable_welcome_email": False,
}
ANN = {**BOT, "id": new_id("ann"), "username": "ann", "first_name": "Ann", "is_bot": False}


class Wrong(FakeRefusal):
    """An error answer."""

    def __init__(self, status: int, sort: str, message: str, headers: dict[str, str] | None = None) -> None:
        super().__init__(message)
        self.status, self.sort, self.headers = status, sort, headers or {}


@dataclass
class Connection:
    socket: web.WebSocketResponse
    seq: int = 0
    known: bool = False

    async def tell(self, event: str, data: dict[str, Any], broadcast: dict[str, Any] | None = None) -> None:
        whom = {"omit_users": None, "user_id": "", "channel_id": "", "team_id": "", **(broadcast or {})}
        told = {"event": event, "data": data, "broadcast": whom, "seq": self.seq}
        self.seq += 1
        with contextlib.suppress(ConnectionError, RuntimeError):
            await self.socket.send_str(json.dumps(told))


@dataclass
class Mattermost(ServedFake):
    """The service. Tests write through `say`, and read `sent`."""

    token: str = TOKEN
    channels: dict[str, dict[str, Any]] = field(default_factory=dict)
    users: dict[str, dict[str, Any]] = field(
        default_factory=lambda: {one["id"]: one for one in deepcopy([BOT, ANN])}
    )
    posts: dict[str, dict[str, Any]] = field(default_factory=dict)
    sent: list[str] = field(default_factory=list)
    edits: dict[str, int] = field(default_factory=dict)
    files: dict[str, tuple[dict[str, Any], bytes]] = field(default_factory=dict)
    reactions: list[dict[str, Any]] = field(default_factory=list)
    presses: list[dict[str, Any]] = field(default_factory=list)
    typed: int = 0
    calls: list[tuple[str, str, Any]] = field(default_factory=list)
    connections: list[Connection] = field(default_factory=list)
    most_upload: int = 1_000_000
    most_runes: int = MOST_RUNES
    """4,000 where the database was made long ago."""
    greeted: int = 0
    closed: set[str] = field(default_factory=set)
    """Channels whose posts the bot may not read."""
    expired: bool = False
    """The token was good when the connections were made, and is no longer."""
    deaf: bool = False
    """It takes WebSocket requests and answers none."""
    _pending: dict[str, tuple[str, float]] = field(default_factory=dict)
    _reset: set[tuple[str, bytes]] = field(default_factory=set)
    _numbers: Any = field(default_factory=lambda: itertools.count(1))
    _clock: int = 0

    # --- its life ---

    def routes(self) -> Iterable[Route]:
        yield "GET", "/api/v4/websocket", self._websocket
        for method, path, action in self._routes():
            yield method, f"/api/v4{path}", self._served(action)
        yield "*", "/{rest:.*}", self._nowhere

    def _routes(self) -> list[tuple[str, str, Any]]:
        return [
            ("GET", "/users/me", self._me),
            ("GET", "/config/client", self._config),
            ("GET", "/users/me/channels", self._my_channels),
            ("POST", "/users/me/typing", self._typing),
            ("POST", "/users/ids", self._users),
            ("GET", "/channels/{id}", self._one_channel),
            ("GET", "/channels/{id}/posts", self._list),
            ("POST", "/posts", self._create),
            ("GET", "/posts/{id}", self._one_post),
            ("PUT", "/posts/{id}/patch", self._patch),
            ("DELETE", "/posts/{id}", self._delete),
            ("POST", "/posts/{id}/actions/{action}", self._act),
            ("POST", "/reactions", self._react),
            ("GET", "/posts/{id}/reactions", self._reactions),
            ("DELETE", "/users/{user}/posts/{id}/reactions/{name}", self._take_back),
            ("POST", "/files", self._upload),
            ("GET", "/files/{id}", self._download),
        ]

    def cut(self) -> None:
        super().cut()
        self.connections.clear()

    # --- people ---

    def channel(self, name: str, kind: str = "D") -> str:
        number = new_id(f"channel {name}")
        self.channels.setdefault(
            number,
            {
                "id": number,
                "create_at": 1790000000000,
                "update_at": 1790000000000,
                "delete_at": 0,
                "team_id": "" if kind in "DG" else new_id("team"),
                "type": kind,
                "display_name": "" if kind == "D" else name,
                "name": f"{BOT['id']}__{ANN['id']}" if kind == "D" else name,
                "header": "",
                "purpose": "",
                "last_post_at": 0,
                "total_msg_count": 0,
                "extra_update_at": 0,
                "creator_id": "",
            },
        )
        return number

    def say(self, channel: str, text: str = "", **more: Any) -> dict[str, Any]:
        """A person writes; `more` are further fields of the post."""
        post = self._new_post(
            {"channel_id": channel, "message": text, **more}, more.get("user_id", ANN["id"])
        )
        self.tell_post(post)
        return post

    def edit(self, post: dict[str, Any], text: str) -> None:
        now = self._now()
        post |= {"message": text, "edit_at": now, "update_at": now}
        self.tell("post_edited", {"post": json.dumps(shown(post))}, {"channel_id": post["channel_id"]})

    def delete(self, post: dict[str, Any]) -> None:
        post["delete_at"] = post["update_at"] = self._now()
        self.tell("post_deleted", {"post": json.dumps(shown(post))}, {"channel_id": post["channel_id"]})

    def react(self, post: str, name: str, who: str = ANN["id"]) -> dict[str, Any]:
        one = self._reacted(who, post, name)
        where = self.posts[post]["channel_id"]
        self.tell("reaction_added", {"reaction": json.dumps(one)}, {"channel_id": where})
        return one

    def keep_file(self, name: str, data: bytes, mime: str) -> dict[str, Any]:
        info = {
            "id": new_id(f"file {next(self._numbers)}"),
            "user_id": ANN["id"],
            "post_id": "",
            "create_at": self._now(),
            "update_at": 0,
            "delete_at": 0,
            "name": name,
            "extension": name.rpartition(".")[2],
            "size": len(data),
            "mime_type": mime,
            "has_preview_image": False,
        }
        self.files[info["id"]] = (info, data)
        return info

    async def press(self, post: str, label: str, who: str = ANN["id"]) -> int:
        """What the server does when a person presses a button: it calls the integration."""
        actions = self.posts[post]["props"]["attachments"][0]["actions"]
        action = next(one for one in actions if one["name"] == label)
        channel = self.posts[post]["channel_id"]
        asked = {
            "user_id": who,
            "user_name": self.users[who]["username"],
            "channel_id": channel,
            "channel_name": self.channels[channel]["name"],
            "team_id": "",
            "team_domain": "",
            "post_id": post,
            "trigger_id": f"dHJpZ2dlcg{next(self._numbers)}",
            "type": "button",
            "data_source": "",
            "context": action["integration"]["context"],
        }
        self.presses.append(asked)
        async with aiohttp.ClientSession() as session:
            async with session.post(action["integration"]["url"], json=asked) as response:
                return response.status

    async def command(self, url: str, text: str, channel: str, **more: str) -> int:
        """What the server does when a person gives a slash command that an admin made."""
        told = {
            "channel_id": channel,
            "channel_name": self.channels[channel]["name"],
            "command": "/hermes",
            "response_url": f"{self.url}/hooks/commands/x",
            "team_domain": "team",
            "team_id": new_id("team"),
            "text": text,
            "token": COMMAND_TOKEN,
            "trigger_id": f"dHJpZ2dlcg{next(self._numbers)}",
            "user_id": ANN["id"],
            "user_name": "ann",
            **more,
        }
        async with aiohttp.ClientSession() as session:
            async with session.post(url, data=told) as response:
                return response.status

    def tell_post(self, post: dict[str, Any]) -> None:
        channel = self.channels[post["channel_id"]]
        mentions = [BOT["id"]] if f"@{BOT['username']}" in post["message"] else []
        data = {
            "channel_display_name": channel["display_name"],
            "channel_name": channel["name"],
            "channel_type": channel["type"],
            "post": json.dumps(shown(post)),
            "sender_name": f"@{self.users[post['user_id']]['username']}",
            "set_online": True,
            "team_id": channel["team_id"],
        }
        if mentions:
            data["mentions"] = json.dumps(mentions)
        self.tell("posted", data, {"channel_id": post["channel_id"]})

    def tell(self, event: str, data: dict[str, Any], broadcast: dict[str, Any] | None = None) -> None:
        for one in self.connections:
            if one.known:
                self.start(one.tell(event, data, broadcast))

    def _now(self) -> int:
        self._clock = max(self._clock + 1, int(time.time() * 1000))
        return self._clock

    def _new_post(self, asked: dict[str, Any], who: str) -> dict[str, Any]:
        now = self._now()
        post = {
            "id": new_id(f"post {next(self._numbers)}"),
            "create_at": now,
            "update_at": now,
            "edit_at": 0,
            "delete_at": 0,
            "is_pinned": False,
            "user_id": who,
            "channel_id": asked["channel_id"],
            "root_id": asked.get("root_id", ""),
            "original_id": "",
            "message": asked.get("message", ""),
            "type": asked.get("type", ""),
            "props": deepcopy(asked.get("props") or {}),
            "hashtags": "",
            "file_ids": list(asked.get("file_ids") or []),
            "pending_post_id": asked.get("pending_post_id", ""),
            "remote_id": "",
            "reply_count": 0,
            "last_reply_at": 0,
            "participants": None,
            "metadata": {"files": [self.files[one][0] for one in asked.get("file_ids") or []]},
        }
        self.posts[post["id"]] = post
        channel = self.channels[post["channel_id"]]
        channel["last_post_at"] = now
        channel["total_msg_count"] += 1
        if post["root_id"]:
            self.posts[post["root_id"]] |= {"update_at": now, "last_reply_at": now}
        return post

    def _reacted(self, who: str, post: str, name: str) -> dict[str, Any]:
        now = self._now()
        one = {"user_id": who, "post_id": post, "emoji_name": name, "create_at": now, "update_at": now}
        one |= {"delete_at": 0, "remote_id": "", "channel_id": self.posts[post]["channel_id"]}
        self.posts[post]["update_at"] = now
        self.posts[post]["metadata"].setdefault("reactions", []).append(one)
        return one

    # --- trouble ---

    async def troubled(self, request: web.Request, chat: Any, act: Callable[[], Awaitable[Any]]) -> Any:
        if (request.path, await request.read()) in self._reset:
            return await self.fail_at(Fault.RESET, request)
        return await super().troubled(request, chat, act)

    async def fail_at(self, fault: Fault, request: web.Request) -> web.StreamResponse:
        if fault is Fault.RESET and request.method == "PUT":
            # An HTTP library asks once more by itself what may be asked twice.
            self._reset ^= {(request.path, await request.read())}
        return await super().fail_at(fault, request)

    def failed(self, fault: Fault) -> web.Response:
        match fault:
            case Fault.TOO_FAST:
                raise Wrong(429, "", "", {"Retry-After": "3", "X-Ratelimit-Reset": "9"})
            case Fault.TOO_FAST_ALL:
                raise Wrong(429, "", "", {"X-Ratelimit-Limit": "10", "X-Ratelimit-Reset": "3"})
            case Fault.REVOKED:
                raise EXPIRED
            case Fault.GONE:
                raise FORBIDDEN
        raise too_long()

    # --- the interface ---

    def _served(self, action: Callable[[web.Request], Awaitable[Any]]) -> Handler:
        async def serve(request: web.Request) -> web.StreamResponse:
            if request.headers.get("Authorization", "").lower() != f"bearer {self.token}".lower():
                raise EXPIRED
            found = await action(request)
            if isinstance(found, web.StreamResponse):
                return found
            return answer(found, 201 if request.method == "POST" and action in self._makers() else 200)

        return serve

    def refused(self, refusal: Wrong) -> web.Response:
        if refusal.status == 429:
            return web.Response(status=429, text="limit exceeded\n", headers=refusal.headers)
        told = {"id": refusal.sort, "message": str(refusal), "detailed_error": ""}
        return answer({**told, "request_id": new_id("r"), "status_code": refusal.status}, refusal.status)

    def _makers(self) -> tuple[Any, ...]:
        return (self._create, self._upload, self._react)

    async def _config(self, request: web.Request) -> dict[str, str]:
        """All of it is strings."""
        if request.query.get("format") != "old":
            raise Wrong(501, "api.config.client.old_format.app_error", "New format not supported yet.")
        more = {"MaxPostSize": str(self.most_runes)} if self.most_runes else {}
        return {"Version": "11.9.0", "MaxFileSize": str(self.most_upload), **more}

    async def _nowhere(self, request: web.Request) -> web.StreamResponse:
        return web.Response(status=404, text="<html>Mattermost</html>", content_type="text/html")

    async def _asked(self, request: web.Request) -> Any:
        asked = json.loads(await request.read() or b"{}")
        self.calls.append((request.method, request.path, asked))
        return asked

    async def _me(self, request: web.Request) -> Any:
        return self.users[BOT["id"]]

    async def _my_channels(self, request: web.Request) -> Any:
        return list(self.channels.values())

    async def _users(self, request: web.Request) -> Any:
        return [self.users[one] for one in await self._asked(request) if one in self.users]

    async def _one_channel(self, request: web.Request) -> Any:
        found = self.channels.get(request.match_info["id"])
        if found is None:
            raise FORBIDDEN
        return found

    async def _one_post(self, request: web.Request) -> Any:
        return shown(self._find(request.match_info["id"]))

    def _find(self, number: str) -> dict[str, Any]:
        post = self.posts.get(number)
        if post is None or post["delete_at"]:
            raise Wrong(404, "app.post.get.app_error", "Unable to get the post.")
        return post

    async def _list(self, request: web.Request) -> Any:
        if request.match_info["id"] in self.closed:
            raise FORBIDDEN
        here = [one for one in self.posts.values() if one["channel_id"] == request.match_info["id"]]
        self.calls.append((request.method, request.path, dict(request.query)))
        if "since" in request.query:
            found = [one for one in here if one["update_at"] > int(request.query["since"])]
            found = found[:MOST_SINCE] + [
                self.posts[one["root_id"]] for one in found[:MOST_SINCE] if one["root_id"]
            ]
        else:
            alive = sorted((one for one in here if not one["delete_at"]), key=lambda one: -one["create_at"])
            if "before" in request.query:
                end = self.posts[request.query["before"]]["create_at"]
                alive = [one for one in alive if one["create_at"] < end]
            count = min(int(request.query.get("per_page", 60)), 200)
            start = int(request.query.get("page", 0)) * count
            found = alive[start : start + count]
        order = list(dict.fromkeys(one["id"] for one in found))
        roots = {one["root_id"] for one in found if one["root_id"]}
        posts = {number: shown(self.posts[number]) for number in {*order, *roots}}
        return {"order": order, "posts": posts, "next_post_id": "", "prev_post_id": "", "has_next": False}

    async def _create(self, request: web.Request) -> Any:
        asked = await self._asked(request)
        return await self.troubled(request, asked.get("channel_id", ""), lambda: self._post(asked))

    async def _post(self, asked: dict[str, Any]) -> Any:
        pending = asked.get("pending_post_id", "")
        seen, at = self._pending.get(pending, ("", 0.0))
        if pending and seen and time.monotonic() - at < PENDING_SECONDS:
            return shown(self.posts[seen])
        if asked.get("channel_id") not in self.channels:
            raise FORBIDDEN
        check_post(asked, self.most_runes)
        root = asked.get("root_id")
        if root and (root not in self.posts or self.posts[root]["root_id"]):
            raise Wrong(400, "api.post.create_post.root_id.app_error", "Invalid RootId parameter.")
        if any(one not in self.files for one in asked.get("file_ids") or []):
            raise Wrong(400, "api.context.invalid_body_param.app_error", "Invalid or missing file_ids")
        post = self._new_post(asked, BOT["id"])
        post["props"]["from_bot"] = "true"
        self.sent.append(post["id"])
        if pending:
            self._pending[pending] = (post["id"], time.monotonic())
        self.tell_post(post)
        return shown(post)

    async def _patch(self, request: web.Request) -> Any:
        asked = await self._asked(request)
        post = self._find(request.match_info["id"])

        async def patch() -> Any:
            check_post({**post, **asked}, self.most_runes)
            if post["user_id"] != BOT["id"]:
                raise FORBIDDEN
            changed = asked.get("message", post["message"]) != post["message"]
            now = self._now()
            post.update({key: deepcopy(value) for key, value in asked.items() if key in PATCHED})
            post["update_at"] = now
            if changed:
                post["edit_at"] = now
                self.edits[post["id"]] = self.edits.get(post["id"], 0) + 1
            told = json.dumps(shown(post))
            self.tell("post_edited", {"post": told}, {"channel_id": post["channel_id"]})
            return shown(post)

        return await self.troubled(request, post["channel_id"], patch)

    async def _delete(self, request: web.Request) -> Any:
        self.delete(self._find(request.match_info["id"]))
        return {"status": "OK"}

    async def _act(self, request: web.Request) -> Any:
        actions = self._find(request.match_info["id"])["props"]["attachments"][0]["actions"]
        label = next(one["name"] for one in actions if one["id"] == request.match_info["action"])
        status = await self.press(request.match_info["id"], label)
        if status != 200:
            raise Wrong(400, "api.post.do_action.action_integration.app_error", "Action integration error.")
        return {"status": "OK", "trigger_id": ""}

    async def _react(self, request: web.Request) -> Any:
        asked = await self._asked(request)
        if asked["user_id"] != BOT["id"]:
            raise FORBIDDEN
        self._find(asked["post_id"])
        one = self._reacted(asked["user_id"], asked["post_id"], asked["emoji_name"])
        self.reactions.append(one)
        return one

    async def _reactions(self, request: web.Request) -> Any:
        return self._find(request.match_info["id"])["metadata"].get("reactions", [])

    async def _take_back(self, request: web.Request) -> Any:
        post, told = self._find(request.match_info["id"]), request.match_info
        if told["user"] not in ("me", BOT["id"]):
            raise FORBIDDEN
        there = post["metadata"].get("reactions", [])
        gone = [one for one in there if (one["user_id"], one["emoji_name"]) == (BOT["id"], told["name"])]
        post["metadata"]["reactions"] = [one for one in there if one not in gone]
        self.reactions = [one for one in self.reactions if one not in gone]
        return {"status": "OK"}

    async def _typing(self, request: web.Request) -> Any:
        self.typed += (await self._asked(request))["channel_id"] in self.channels
        return {"status": "OK"}

    async def _upload(self, request: web.Request) -> Any:
        form = await request.post()
        self.calls.append((request.method, request.path, form.get("channel_id")))
        file = form["files"]
        assert isinstance(file, web.FileField)
        data = file.file.read()
        if len(data) > self.most_upload:
            raise Wrong(
                413,
                "api.file.upload_file.too_large_detailed.app_error",
                "Unable to upload file. File is too large.",
            )
        info = self.keep_file(file.filename, data, file.content_type)
        return {"file_infos": [info], "client_ids": []}

    async def _download(self, request: web.Request) -> Any:
        if request.match_info["id"] not in self.files:
            raise Wrong(404, "app.file_info.get.app_error", "Unable to get the file info.")
        info, data = self.files[request.match_info["id"]]
        return web.Response(body=data, content_type=info["mime_type"])

    # --- the WebSocket ---

    async def _websocket(self, request: web.Request) -> web.StreamResponse:
        socket = web.WebSocketResponse()
        await socket.prepare(request)
        one = Connection(socket)
        self.connections.append(one)
        try:
            if request.headers.get("Authorization", "") == f"Bearer {self.token}":
                await self._hello(one)
            async for message in socket:
                if not self.deaf:
                    await self._hear(one, json.loads(message.data))
        finally:
            with contextlib.suppress(ValueError):
                self.connections.remove(one)
        return socket

    async def _hello(self, one: Connection) -> None:
        one.known = True
        self.greeted += 1
        told = {
            "connection_id": new_id(f"connection {next(self._numbers)}"),
            "server_version": "11.9.0.1.x.true",
        }
        await one.tell("hello", {**told, "server_hostname": "fake"}, {"user_id": BOT["id"]})

    async def _hear(self, one: Connection, told: dict[str, Any]) -> None:
        action, number = told["action"], told["seq"]
        ok: dict[str, Any] = {"status": "OK", "seq_reply": number}
        fail = {"status": "FAIL", "seq_reply": number, "error": STRANGER}
        if action == "authentication_challenge":
            if told["data"]["token"] != self.token:
                await one.socket.send_str(json.dumps(fail))
                await one.socket.close()
                return
            await self._hello(one)
        elif self.expired:
            ok = fail
        elif action == "ping":
            ok["data"] = {"text": "pong", "version": "11.9.0", "server_time": self._now(), "node_id": ""}
        elif action == "user_typing":
            self.typed += told["data"]["channel_id"] in self.channels
        await one.socket.send_str(json.dumps(ok))


STRANGER = {
    "id": "api.web_socket_router.not_authenticated.app_error",
    "message": "",
    "status_code": 401,
}
PATCHED = ("message", "props", "is_pinned", "file_ids", "has_reactions")
EXPIRED = Wrong(
    401, "api.context.session_expired.app_error", "Invalid or expired session, please login again."
)
FORBIDDEN = Wrong(403, "api.context.permissions.app_error", "You do not have the appropriate permissions.")


def answer(what: Any, status: int) -> web.Response:
    """Its own client reads JSON only where nothing stands behind the type."""
    return web.Response(
        body=json.dumps(what).encode(),
        status=status,
        headers={"Content-Type": "application/json", "X-Version-Id": "11.9.0.1.x.true"},
    )


def too_long() -> Wrong:
    return Wrong(
        400,
        "model.post.is_valid.message_length.app_error",
        "Post Message property is longer than the maximum.",
    )


def check_post(asked: dict[str, Any], most: int) -> None:
    if len(asked.get("message", "")) > most:
        raise too_long()
    if (
        not asked.get("message")
        and not asked.get("file_ids")
        and not (asked.get("props") or {}).get("attachments")
    ):
        raise Wrong(400, "api.context.invalid_body_param.app_error", "Invalid or missing message")
    if len(asked.get("file_ids") or []) > 10:
        raise Wrong(400, "model.post.is_valid.file_ids.app_error", "Invalid file ids.")
    for part in (asked.get("props") or {}).get("attachments") or []:
        for action in part.get("actions") or []:
            if not action["id"].isalnum() or not action["name"]:
                raise Wrong(400, "model.post.is_valid.props.app_error", "Invalid props.")


def shown(post: dict[str, Any]) -> dict[str, Any]:
    """A post as people get it: what a button's integration is told stays with the server."""
    if not post["props"].get("attachments"):
        return {**post, "props": dict(post["props"])}
    found = deepcopy(post)
    for part in found["props"]["attachments"]:
        for action in part.get("actions") or []:
            action.pop("integration", None)
    return found
