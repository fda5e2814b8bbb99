"""People on a homeserver, the fake or a real one: what they do goes straight to it, past the front."""

from __future__ import annotations

import itertools
import json
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from tests.platforms.matrix.front import Answer, Asked, Homeserver

_NUMBERS = itertools.count(1)


@dataclass(frozen=True)
class Person:
    homeserver: Homeserver
    id: str
    token: str

    async def call(self, method: str, *parts: str, **asked: Any) -> Any:
        path = "/_matrix/client/v3/" + "/".join(quote(part, safe="") for part in parts)
        body = json.dumps(asked).encode() if method != "GET" else b""
        return self._good(await self.homeserver(Asked(method=method, path=path, token=self.token, body=body)))

    async def room(self, *others: Person, direct: bool = False, name: str = "", **more: Any) -> str:
        """A room with others in it."""
        named = {"name": name} if name else {}
        told = await self.call(
            "POST", "createRoom", invite=[one.id for one in others], is_direct=direct, **named, **more
        )
        for one in others:
            await one.call("POST", "join", told["room_id"])
        return str(told["room_id"])

    async def send(self, room: str, content: dict[str, Any], sort: str = "m.room.message") -> str:
        told = await self.call("PUT", "rooms", room, "send", sort, f"people{next(_NUMBERS)}", **content)
        return str(told["event_id"])

    async def say(self, room: str, text: str, **more: Any) -> str:
        return await self.send(room, {"msgtype": "m.text", "body": text, **more})

    async def redact(self, room: str, ref: str) -> None:
        await self.call("PUT", "rooms", room, "redact", ref, f"people{next(_NUMBERS)}")

    async def react(self, room: str, ref: str, key: str) -> str:
        relation = {"rel_type": "m.annotation", "event_id": ref, "key": key}
        return await self.send(room, {"m.relates_to": relation}, "m.reaction")

    async def upload(self, data: bytes, mime: str) -> str:
        where = "/_matrix/media/v3/upload"
        asked = Asked(method="POST", path=where, token=self.token, body=data, mime=mime)
        return str(self._good(await self.homeserver(asked))["content_uri"])

    def _good(self, answer: Answer) -> Any:
        assert answer.status == 200, answer.body[:300]
        return answer.json
