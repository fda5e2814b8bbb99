"""matrix-nio, which we did not write, uses a homeserver as it would use any; what it saw is printed as JSON.
Arguments: the homeserver's address, a user and a password, a room to write in, and the id of somebody's text
there."""

from __future__ import annotations

import asyncio
import io
import json
import sys

import nio
from nio.api import RelationshipType


async def main(url: str, user: str, password: str, room: str, text: str) -> dict[str, object]:
    found: dict[str, object] = {}
    client = nio.AsyncClient(url, user, config=nio.AsyncClientConfig(encryption_enabled=False))
    found["wrong password"] = type(await client.login("not it")).__name__
    found["login"] = (await client.login(password)).user_id
    first = await client.sync(timeout=0)
    found["rooms"] = [len(first.rooms.join), len(first.rooms.invite)]
    for asked in list(first.rooms.invite):
        found["joined"] = type(await client.join(asked)).__name__
    seen = [event for event in first.rooms.join[room].timeline.events if event.event_id == text]
    found["seen"] = [seen[0].body, seen[0].sender]
    members = await client.joined_members(room)
    found["members"] = sorted(member.user_id for member in members.members)

    async def say(body: str, txn: str | None = None, **more: object) -> str:
        content = {"msgtype": "m.text", "body": body, **more}
        sent = await client.room_send(room, "m.room.message", content, tx_id=txn)
        return sent.event_id

    reply = await say("a reply", "t1", **{"m.relates_to": {"m.in_reply_to": {"event_id": text}}})
    found["once"] = reply == await say("a reply", "t1")
    replacement = {"rel_type": "m.replace", "event_id": reply}
    await say(
        "* better", **{"m.new_content": {"msgtype": "m.text", "body": "better"}, "m.relates_to": replacement}
    )
    relation = {"rel_type": "m.annotation", "event_id": text, "key": "👍"}
    await client.room_send(room, "m.reaction", {"m.relates_to": relation})
    gone = await say("to be deleted")
    await client.room_redact(room, gone)
    found["typing"] = type(await client.room_typing(room, True, 1000)).__name__
    data = b"some bytes"
    up, _ = await client.upload(io.BytesIO(data), "text/plain", "a.txt", filesize=len(data))
    found["file"] = (await client.download(mxc=up.content_uri)).body == data
    found["no file"] = (await client.download(mxc="mxc://localhost/none")).status_code
    news = await client.sync(timeout=1000)
    kinds = [type(event).__name__ for event in news.rooms.join[room].timeline.events]
    found["news"] = kinds
    event = (await client.room_get_event(room, gone)).event
    found["deleted"] = type(event).__name__
    found["no event"] = (await client.room_get_event(room, "$none")).status_code
    back = await client.room_messages(room, start=news.next_batch, limit=3)
    older = await client.room_messages(room, start=back.end, limit=100)
    found["history"] = [len(back.chunk), text in {one.event_id for one in older.chunk}, older.end is None]
    related = [one async for one in client.room_get_event_relations(room, text, RelationshipType.annotation)]
    found["reactions"] = [one.key for one in related]
    found["forbidden"] = (
        await client.room_send("!none:localhost", "m.room.message", {"body": "x"})
    ).status_code
    made = await client.room_create(name="New", invite=["@bob:localhost"])
    await client.sync(timeout=0)
    found["made"] = [type(made).__name__, client.rooms[made.room_id].name]
    client.access_token = "nonsense"
    found["unknown token"] = (await client.whoami()).status_code
    await client.close()
    return found


if __name__ == "__main__":
    print(json.dumps(asyncio.run(main(*sys.argv[1:]))))
