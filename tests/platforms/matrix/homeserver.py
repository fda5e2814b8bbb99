"""A homeserver with a few local users: the part of the Client-Server API (v1.11) that the adapter and its
judges use, as spec.matrix.org describes it. Positions in its one stream of events are the sync tokens."""

from __future__ import annotations

import asyncio
import itertools
import json
import time
from dataclasses import dataclass, field
from typing import Any

from tests.platforms.matrix.front import Answer, Asked, said, wrong

MOST_BYTES = 65_535
GONE = ("redacts", "membership", "creator", "join_rule")
"""What a deleted event keeps of its content."""


@dataclass
class Place:
    """A room: its events with their positions, and its state by kind and key."""

    events: list[tuple[int, dict[str, Any]]] = field(default_factory=list)
    state: dict[tuple[str, str], dict[str, Any]] = field(default_factory=dict)

    def membership(self, user: str) -> str:
        return self.state.get(("m.room.member", user), {}).get("content", {}).get("membership", "leave")


class No(Exception):
    def __init__(self, status: int, code: str, error: str, **more: Any) -> None:
        super().__init__(error)
        self.answer = wrong(status, code, error, **more)


class Fake:
    def __init__(self, name: str = "localhost") -> None:
        self.name = name
        self.tokens: dict[str, str] = {}
        self.passwords: dict[str, str] = {}
        self.rooms: dict[str, Place] = {}
        self.media: dict[str, tuple[bytes, str]] = {}
        self.account_data: dict[tuple[str, str], dict[str, Any]] = {}
        self.aliases: dict[str, str] = {}
        self.transactions: dict[tuple[str, str], str] = {}
        self.old_media = False
        """Whether it only knows the way to files that needs no token."""
        self.media_elsewhere, self.media_status = "", 307
        """Where files are, if it sends who asks for them somewhere else."""
        self.left: dict[str, int] = {}
        """How many events of a user, or logins, are taken before it wants us to be slower."""
        self.pause_ms = 5000
        self._at = 0
        self._numbers = itertools.count(1)
        self._news = asyncio.Event()

    def register(self, user: str, password: str = "") -> str:
        token = f"syt_{user.strip('@').partition(':')[0]}_{next(self._numbers)}"
        self.tokens[token], self.passwords[user] = user, password
        return token

    async def __call__(self, asked: Asked) -> Answer:
        parts = asked.parts
        try:
            if parts[1] == "cdn":
                return self._file(parts[2], redirects=False)
            if parts[1:] == ["_matrix", "client", "versions"]:
                return said({"versions": ["v1.1", "v1.11"], "unstable_features": {}})
            if parts[2] == "media":
                return self._media(asked, parts)
            if parts[3:5] == ["v3", "login"]:
                return self._login(asked)
            user = self.tokens.get(asked.token)
            if user is None:
                code = "M_UNKNOWN_TOKEN" if asked.token else "M_MISSING_TOKEN"
                raise No(401, code, "Unrecognised access token")
            if parts[3:6] == ["v1", "media", "download"]:
                return self._download(parts)
            return await self._client(asked, user, parts[4:])
        except No as no:
            return no.answer

    # --- calls ---

    def _login(self, asked: Asked) -> Answer:
        self._limit("login")
        told = asked.json
        name = told["identifier"]["user"]
        user = name if name.startswith("@") else f"@{name}:{self.name}"
        if not self.passwords.get(user) or self.passwords[user] != told.get("password"):
            raise No(403, "M_FORBIDDEN", "Invalid username or password")
        token = self.register(user, self.passwords[user])
        device = told.get("device_id") or "NEWDEVICE"
        return said({"user_id": user, "access_token": token, "device_id": device, "home_server": self.name})

    async def _client(self, asked: Asked, user: str, parts: list[str]) -> Answer:
        match asked.method, parts:
            case "GET", ["sync"]:
                return await self._sync(asked, user)
            case "GET", ["account", "whoami"]:
                return said({"user_id": user, "device_id": "DEVICE", "is_guest": False})
            case "GET", ["profile", who, *_]:
                return said({"displayname": who.strip("@").partition(":")[0].title()})
            case "GET", ["joined_rooms"]:
                joined = [one for one, room in self.rooms.items() if room.membership(user) == "join"]
                return said({"joined_rooms": joined})
            case "POST", ["createRoom"]:
                return said({"room_id": self.create(user, **asked.json)})
            case "POST", ["join", room] | ["rooms", room, "join"]:
                return self._join(room, user)
            case _, ["user", _, "account_data", sort]:
                return self._data(asked, user, sort)
            case "GET", ["directory", "room", alias]:
                if alias not in self.aliases:
                    raise No(404, "M_NOT_FOUND", f"Room alias {alias} not found")
                return said({"room_id": self.aliases[alias], "servers": [self.name]})
            case _, ["rooms", room, *rest]:
                return self._in_room(asked, user, room, rest)
        raise No(404, "M_UNRECOGNIZED", "Unrecognized request")

    def _data(self, asked: Asked, user: str, sort: str) -> Answer:
        if asked.method == "PUT":
            self.account_data[(user, sort)] = asked.json
            return said({})
        if (user, sort) not in self.account_data:
            raise No(404, "M_NOT_FOUND", "Account data not found")
        return said(self.account_data[(user, sort)])

    def _in_room(self, asked: Asked, user: str, number: str, rest: list[str]) -> Answer:
        room = self.rooms.get(number)
        if room is None or room.membership(user) != "join":
            raise No(403, "M_FORBIDDEN", f"User {user} not in room {number}")
        if rest[0] in ("send", "redact") and (asked.token, asked.path) not in self.transactions:
            # Both count (Synapse, handlers/message.py); what is told again under its transaction id does not
            # (rest/client/transactions.py).
            self._limit(user)
        match asked.method, rest:
            case "PUT", ["send", sort, txn]:
                return self._send(asked, user, number, (sort, txn))
            case "PUT", ["redact", ref, txn]:
                return self._redact(asked, user, number, (ref, txn))
            case "PUT", ["typing", _]:
                return said({})
            case "GET", ["event", ref]:
                return said(self.find(number, ref))
            case "GET", ["joined_members"]:
                found = {who: self._profile(who) for who in self._joined(room)}
                return said({"joined": found})
            case "GET", ["state", sort, *key]:
                state = room.state.get((sort, key[0] if key else ""))
                if state is None:
                    raise No(404, "M_NOT_FOUND", "Event not found.")
                return said(state["content"])
            case "GET", ["messages"]:
                return self._messages(asked, room)
            case "GET", ["relations", ref, kind, *sort]:
                return said({"chunk": self._relations(room, ref, kind, sort)})
            case "POST", ["upgrade"]:
                return said({"replacement_room": self.upgrade(number, user)})
            case "POST", ["invite"]:
                self.member(number, user, asked.json["user_id"], "invite")
                return said({})
            case "POST", ["kick" | "leave"]:
                self.member(number, user, asked.json.get("user_id", user), "leave")
                return said({})
        raise No(404, "M_UNRECOGNIZED", "Unrecognized request")

    def _join(self, number: str, user: str) -> Answer:
        room = self.rooms.get(number)
        if room is None:
            raise No(404, "M_NOT_FOUND", "No known servers")
        public = room.state.get(("m.room.join_rules", ""), {}).get("content", {}).get("join_rule") == "public"
        if room.membership(user) not in ("invite", "join") and not public:
            raise No(403, "M_FORBIDDEN", "You are not invited to this room.")
        if room.membership(user) != "join":
            self.member(number, user, user, "join")
        return said({"room_id": number})

    def _send(self, asked: Asked, user: str, number: str, what: tuple[str, str]) -> Answer:
        key = (asked.token, asked.path)
        if key not in self.transactions:
            if len(asked.body) > MOST_BYTES:
                raise No(413, "M_TOO_LARGE", "event too large")
            self.transactions[key] = self.add(number, user, what[0], asked.json, txn=what[1])["event_id"]
        return said({"event_id": self.transactions[key]})

    def _redact(self, asked: Asked, user: str, number: str, what: tuple[str, str]) -> Answer:
        key = (asked.token, asked.path)
        if key not in self.transactions:
            event = self.find(number, what[0])
            redaction = self.add(number, user, "m.room.redaction", {"redacts": what[0]}, redacts=what[0])
            event["content"] = {name: event["content"][name] for name in GONE if name in event["content"]}
            event.setdefault("unsigned", {})["redacted_because"] = redaction
            self.transactions[key] = redaction["event_id"]
        return said({"event_id": self.transactions[key]})

    def _messages(self, asked: Asked, room: Place) -> Answer:
        start = int(asked.query["from"][1:]) if "from" in asked.query else self._at
        stop = int(asked.query["to"][1:]) if "to" in asked.query else 0
        limit = int(asked.query.get("limit", "10"))
        wanted = json.loads(asked.query.get("filter") or "{}")
        found = [
            (at, event)
            for at, event in room.events[::-1]
            if stop < at <= start
            and event["sender"] in wanted.get("senders", [event["sender"]])
            and event["type"] in wanted.get("types", [event["type"]])
        ]
        page = found[:limit]
        told: dict[str, Any] = {"chunk": [event for _, event in page], "start": f"s{start}"}
        # Like a Synapse it does not look whether there is more.
        if page:
            told["end"] = f"s{page[-1][0] - 1}"
        return said(told)

    def _relations(self, room: Place, ref: str, kind: str, sort: list[str]) -> list[dict[str, Any]]:
        return [
            event
            for _, event in room.events[::-1]
            if event["type"] in (sort or [event["type"]])
            and event["content"].get("m.relates_to", {}).get("event_id") == ref
            and event["content"]["m.relates_to"].get("rel_type") == kind
        ]

    def _limit(self, who: str) -> None:
        """Synapse's `rc_message` and `rc_login` (config/ratelimiting.py): so many at once, then one after
        each pause. Here it never passes by itself."""
        left = self.left.get(who)
        if left is None:
            return
        if left < 1:
            raise No(429, "M_LIMIT_EXCEEDED", "Too Many Requests", retry_after_ms=self.pause_ms)
        self.left[who] = left - 1

    # --- what happens ---

    def create(self, user: str, *, invite: list[str] = [], name: str = "", **more: Any) -> str:  # noqa: B006
        number = f"!r{next(self._numbers)}:{self.name}"
        self.rooms[number] = Place()
        made = {"room_version": "11", **more.get("creation_content", {})}
        self.add(number, user, "m.room.create", made, state_key="")
        self.member(number, user, user, "join")
        for state in more.get("initial_state", ()):
            self.add(number, user, state["type"], state["content"], state_key=state["state_key"])
        if more.get("preset") == "public_chat":
            self.add(number, user, "m.room.join_rules", {"join_rule": "public"}, state_key="")
        if name:
            self.add(number, user, "m.room.name", {"name": name}, state_key="")
        for one in invite:
            self.member(number, user, one, "invite", is_direct=bool(more.get("is_direct")))
        return number

    def upgrade(self, number: str, user: str) -> str:
        """A room in another's place, with its name and its rule for joining, and its closed door."""
        state = self.rooms[number].state
        preset = "public_chat" if ("m.room.join_rules", "") in state else "private_chat"
        name = state.get(("m.room.name", ""), {}).get("content", {}).get("name", "")
        before = {"predecessor": {"room_id": number}}
        new = self.create(user, name=name, preset=preset, creation_content=before)
        closed = {"body": "This room has been replaced", "replacement_room": new}
        self.add(number, user, "m.room.tombstone", closed, state_key="")
        return new

    def member(self, number: str, by: str, who: str, membership: str, **more: Any) -> None:
        content = {"membership": membership, **self._profile(who, "displayname"), **more}
        before = self.rooms[number].state.get(("m.room.member", who))
        unsigned = {} if before is None else {"prev_content": before["content"]}
        self.add(number, by, "m.room.member", content, state_key=who, unsigned=unsigned)

    def add(
        self, number: str, sender: str, sort: str, content: dict[str, Any], *, txn: str = "", **more: Any
    ) -> dict[str, Any]:
        self._at += 1
        event = {
            "event_id": f"$e{self._at}",
            "room_id": number,
            "sender": sender,
            "type": sort,
            "origin_server_ts": int(time.time() * 1000),
            "content": content,
            "unsigned": {"age": 5, **({"transaction_id": txn} if txn else {})},
            **more,
        }
        room = self.rooms[number]
        room.events.append((self._at, event))
        if "state_key" in event:
            room.state[(sort, event["state_key"])] = event
        relation = content.get("m.relates_to")
        if isinstance(relation, dict) and relation.get("rel_type") == "m.replace":
            for _, one in room.events:
                if one["event_id"] == relation.get("event_id") and one["sender"] == sender:
                    one["unsigned"].setdefault("m.relations", {})["m.replace"] = event
        self._news.set()
        self._news = asyncio.Event()
        return event

    def find(self, number: str, ref: str) -> dict[str, Any]:
        for _, event in self.rooms[number].events:
            if event["event_id"] == ref:
                return event
        raise No(404, "M_NOT_FOUND", "Event not found.")

    def _joined(self, room: Place) -> list[str]:
        people = [who for sort, who in room.state if sort == "m.room.member"]
        return [who for who in people if room.membership(who) == "join"]

    def _profile(self, who: str, name: str = "display_name") -> dict[str, Any]:
        return {name: who.strip("@").partition(":")[0].title(), "avatar_url": None}

    # --- syncs ---

    async def _sync(self, asked: Asked, user: str) -> Answer:
        since = int(asked.query["since"][1:]) if asked.query.get("since", "").startswith("s") else None
        if since is None and "since" in asked.query:
            raise No(400, "M_INVALID_PARAM", "Invalid stream token")
        limit = json.loads(asked.query.get("filter") or "{}").get("room", {}).get("timeline", {})
        end = asyncio.get_running_loop().time() + int(asked.query.get("timeout", "0")) / 1000
        while True:
            news = self._news
            rooms = self._since(user, since, limit.get("limit", 10))
            left = end - asyncio.get_running_loop().time()
            if since is None or any(rooms.values()) or left <= 0:
                told = {"next_batch": f"s{self._at}", "rooms": rooms, "device_one_time_keys_count": {}}
                return said(told)
            try:
                await asyncio.wait_for(news.wait(), left)
            except TimeoutError:
                pass

    def _since(self, user: str, since: int | None, limit: int) -> dict[str, dict[str, Any]]:
        rooms: dict[str, dict[str, Any]] = {"join": {}, "invite": {}, "leave": {}}
        for number, room in self.rooms.items():
            events = [(at, event) for at, event in room.events if at > (since or 0)]
            membership = room.membership(user)
            moved = any(event is room.state.get(("m.room.member", user)) for _, event in events)
            if membership == "join" and events:
                if moved and since is not None:
                    events = list(room.events)
                rooms["join"][number] = self._timeline(room, events, limit)
            elif membership == "invite" and moved:
                state = [room.state[("m.room.create", "")], room.state[("m.room.member", user)]]
                rooms["invite"][number] = {"invite_state": {"events": state}}
            elif membership == "leave" and moved:
                rooms["leave"][number] = self._timeline(room, events, limit)
        return rooms

    def _timeline(self, room: Place, events: list[Any], limit: int) -> dict[str, Any]:
        shown = events[-limit:] if limit else []
        before = shown[0][0] - 1 if shown else self._at
        timeline = {
            "events": [event for _, event in shown],
            "limited": len(shown) < len(events),
            "prev_batch": f"t{before}",
        }
        return {"timeline": timeline, "state": {"events": []}, "ephemeral": {"events": []}}

    # --- files ---

    def _media(self, asked: Asked, parts: list[str]) -> Answer:
        if parts[3:] == ["v3", "upload"] and asked.method == "POST":
            if asked.token not in self.tokens:
                raise No(401, "M_UNKNOWN_TOKEN", "Unrecognised access token")
            number = f"media{next(self._numbers)}"
            self.media[number] = (asked.body, asked.mime)
            return said({"content_uri": f"mxc://{self.name}/{number}"})
        if self.old_media and parts[3:5] == ["v3", "download"]:
            return self._file(parts[6])
        raise No(404, "M_UNRECOGNIZED", "Unrecognized request")

    def _download(self, parts: list[str]) -> Answer:
        if self.old_media:
            raise No(404, "M_UNRECOGNIZED", "Unrecognized request")
        return self._file(parts[7])

    def _file(self, number: str, *, redirects: bool = True) -> Answer:
        if self.media_elsewhere and redirects:
            # “Clients MAY be redirected using the 307/308 responses” (authed-content-repo.yaml of the spec).
            return Answer(status=self.media_status, location=f"{self.media_elsewhere}/{number}")
        if number not in self.media:
            raise No(404, "M_NOT_FOUND", "Not found")
        data, mime = self.media[number]
        return Answer(body=data, mime=mime)
