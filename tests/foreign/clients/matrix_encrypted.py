"""A person with matrix-nio, which we did not write, and our adapter talk in an encrypted room of a real
homeserver; what each saw is printed as JSON. The adapter is killed twice: when it has told its first keys,
and when it has been given the key of a message. Arguments: the homeserver's address, the person's and the
bot's access tokens, and a folder for the keys of both."""

from __future__ import annotations

import asyncio
import contextlib
import io
import json
import os
import signal
import sys
from pathlib import Path

import aiohttp
import nio

from hermes.domain.chats.adapter import AdapterContext
from hermes.domain.chats.address import Address
from hermes.domain.chats.message import Attachment, Body, Button, MediaKind
from hermes.domain.errors import HermesError
from hermes.domain.settings.declaring import Secret
from hermes.domain.settings.platforms import PlatformSettings
from hermes.entry.platforms.matrix.adapter import UNVERIFIED, MatrixAdapter

CONTENT = b"\x89PNG of an encrypted file"


class Gateway:
    """Stands for the gateway: keeps what comes, and the cursor."""

    def __init__(self, url: str, token: str, folder: Path) -> None:
        self.said = {
            "MATRIX_HOMESERVER": url,
            "MATRIX_ACCESS_TOKEN": token,
            "MATRIX_ENCRYPTION": "required",
            "MATRIX_INVITES": "everyone",
        }
        self.token = token
        self._folder = folder
        self.items = {}
        self.cursor = None

    async def accept(self, items, cursor) -> None:
        self.items |= {item.delivery: item for item in items}
        self.cursor = cursor or self.cursor

    async def open_file(self, file) -> bytes:
        return CONTENT

    def made(self, folder: Path | None = None) -> MatrixAdapter:
        return MatrixAdapter(
            AdapterContext(
                settings=PlatformSettings(),
                find=lambda name: Secret(self.said[name]) if name in self.said else None,
                open_file=self.open_file,
                folder=folder or self._folder,
            )
        )

    @contextlib.asynccontextmanager
    async def adapter(self):
        adapter = self.made()
        running = asyncio.create_task(adapter.run(self.accept, self.cursor))
        try:
            yield adapter
        finally:
            running.cancel()
            await asyncio.wait((running,))
            if not running.cancelled():
                running.result()

    async def heard(self, text: str):
        async with asyncio.timeout(300):
            while True:
                for item in self.items.values():
                    if item.text == text:
                        return item
                await asyncio.sleep(0.02)


def killed(life) -> bool:
    """Live in a process that kills itself; whether it came to that."""
    child = os.fork()
    if child == 0:
        with contextlib.suppress(BaseException):
            asyncio.run(life())
        os._exit(1)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


async def die_at_the_first_keys(gateway: Gateway) -> None:
    """The homeserver has our keys and says so; we never hear of it."""
    nio.crypto.Olm.handle_response = lambda olm, response: die()
    await gateway.made().run(gateway.accept, None)


async def die_with_a_key(gateway: Gateway, text: str) -> None:
    """A message came with its key, which the homeserver gives once, and nobody stored where we are."""
    heard: list[str] = []

    async def accept(items, cursor) -> None:
        if text in heard:
            die()
        heard.extend(item.text for item in items)

    adapter = gateway.made()
    adapter.sync_seconds = 0.05
    await adapter.run(accept, gateway.cursor)


async def after_it_was_killed(gateway: Gateway, text: str) -> list[object]:
    gateway.said["MATRIX_ENCRYPTION"] = "optional"
    async with gateway.adapter() as adapter:
        heard = await gateway.heard(text)
        sent = await adapter.send(gateway.plain, Body(text="in the open"), key="k6", reply_to=None)
        return [heard.text, sent.to == gateway.plain]


async def main(url: str, person: str, gateway: Gateway, folder: Path) -> dict[str, object]:
    found: dict[str, object] = {}
    (folder / "person").mkdir()
    ann = nio.AsyncClient(
        url, store_path=str(folder / "person"), config=nio.AsyncClientConfig(store_sync_tokens=True)
    )
    ann.access_token = person
    who = await ann.whoami()
    ann.restore_login(who.user_id, who.device_id, person)
    await ann.keys_upload()
    seen: list[nio.Event] = []
    ann.add_event_callback(lambda room, event: seen.append(event), nio.RoomMessage)
    async with aiohttp.ClientSession(headers={"Authorization": f"Bearer {gateway.token}"}) as session:
        async with session.get(f"{url}/_matrix/client/v3/account/whoami") as response:
            bot_id = (await response.json())["user_id"]
    encryption = {"type": "m.room.encryption", "content": {"algorithm": "m.megolm.v1.aes-sha2"}}
    async with gateway.adapter() as adapter:
        made = await ann.room_create(invite=[bot_id], is_direct=True, initial_state=[encryption])
        room = made.room_id
        to = Address(platform="matrix", chat=room)
        await joined(ann, room, bot_id)
        hello = await say(ann, room, "hello in secret")
        item = await gateway.heard("hello in secret")
        found["heard"] = [item.text, item.source.kind, item.ref == hello]
        sent = await adapter.send(to, Body(text="<p><b>so</b> secret</p>"), key="k1", reply_to=item.ref)
        again = await adapter.send(to, Body(text="<p><b>so</b> secret</p>"), key="k1", reply_to=item.ref)
        looked = await adapter.find_sent(to, "k1")
        found["sent once"] = sent.ref == again.ref == looked.ref
        await adapter.edit(sent, Body(text="<p>more secret</p>"))
        first = await read(ann, seen, "so secret")
        found["read"] = [first.body, first.formatted_body, first.decrypted]
        found["reply"] = first.source["content"]["m.relates_to"]["m.in_reply_to"]["event_id"] == hello
        edited = await read(ann, seen, "* more secret")
        found["edited"] = [
            edited.source["content"]["m.new_content"]["body"],
            edited.source["content"]["m.relates_to"]["event_id"] == sent.ref,
        ]
        file = Attachment(kind=MediaKind.IMAGE, ref="x", name="a.png", mime="image/png")
        await adapter.send(to, Body(attachments=(file,)), key="k2", reply_to=None)
        image = await read(ann, seen, "a.png")
        got = await ann.download(mxc=image.url)
        clear = nio.crypto.attachments.decrypt_attachment(
            got.body, image.key["k"], image.hashes["sha256"], image.iv
        )
        found["file out"] = [clear == CONTENT, got.body != CONTENT]
        asked = await adapter.send(
            to,
            Body(text="<p>May I?</p>", buttons=(Button(label="Yes", value="q_1:yes"),)),
            key="k3",
            reply_to=None,
        )
        relation = {"rel_type": "m.annotation", "event_id": asked.ref, "key": "1️⃣"}
        await ann.room_send(room, "m.reaction", {"m.relates_to": relation})
        pressed = await gateway.heard("")
        found["pressed"] = [pressed.what, pressed.button]
        locked, keys = nio.crypto.attachments.encrypt_attachment(CONTENT)
        uploaded, _ = await ann.upload(io.BytesIO(locked), "application/octet-stream", filesize=len(locked))
        content = {"msgtype": "m.file", "body": "look", "filename": "a.bin"}
        content["file"] = {"url": uploaded.content_uri, **keys}
        await ann.room_send(room, "m.room.message", content, ignore_unverified_devices=True)
        looked = await gateway.heard("look")
        pieces: list[bytes] = []

        async def sink(piece: bytes) -> None:
            pieces.append(piece)

        await adapter.fetch(looked.attachments[0].ref, sink)
        found["file in"] = b"".join(pieces) == CONTENT
        plain = await ann.room_create(invite=[bot_id])
        await joined(ann, plain.room_id, bot_id)
        gateway.plain = Address(platform="matrix", chat=plain.room_id)
        try:
            await adapter.send(gateway.plain, Body(text="x"), key="k4", reply_to=None)
        except Exception as error:
            found["plain room"] = str(error)
    await say(ann, room, "while you were away")
    before = len(gateway.items)
    async with gateway.adapter() as adapter:
        await gateway.heard("while you were away")
        found["after a restart"] = len(gateway.items) - before
        await adapter.send(to, Body(text="<p>back</p>"), key="k5", reply_to=None)
        found["again"] = (await read(ann, seen, "back")).decrypted
        found["withheld"] = await withheld(url, person, gateway, adapter, room, bot_id)
    async with aiohttp.ClientSession(headers={"Authorization": f"Bearer {person}"}) as session:
        where = f"{url}/_matrix/client/v3/rooms/{room}/messages?dir=b&limit=100"
        async with session.get(where) as response:
            events = (await response.json())["chunk"]
    device = next(iter(ann.device_store[bot_id].values()))
    fingerprint = [one.text for one in await gateway.made().check()][-2]
    found["known by"] = fingerprint == f"Its device is {device.id}, with the key {device.ed25519}."
    try:
        await gateway.made(folder / "elsewhere").run(gateway.accept, gateway.cursor)
    except HermesError as error:
        found["keys of another program"] = type(error).__name__
    found["on the server"] = sorted({event["type"] for event in events if "state_key" not in event})
    await say(ann, room, "before you die")
    await ann.close()
    return found


def told(url: str, person: str, bot: str, folder: Path) -> dict[str, object]:
    gateway = Gateway(url, bot, folder / "bot")
    first = killed(lambda: die_at_the_first_keys(gateway))
    found = asyncio.run(main(url, person, gateway, folder))
    found["killed"] = [first, killed(lambda: die_with_a_key(gateway, "before you die"))]
    found["not lost"] = asyncio.run(after_it_was_killed(gateway, "before you die"))
    return found


async def withheld(
    url: str, person: str, gateway: Gateway, adapter: MatrixAdapter, room: str, bot: str
) -> bool:
    """Somebody's program gives its key to verified devices only, and says so (Matrix 1.18, MSC4153)."""
    session = {"algorithm": "m.megolm.v1.aes-sha2", "session_id": "of+another", "sender_key": "x" * 43}
    why = {**session, "room_id": room, "code": "m.unverified", "reason": "The device is not verified"}
    locked = {**session, "ciphertext": "AwgA", "device_id": "ANNSOTHER"}
    calls = (
        ("sendToDevice/m.room_key.withheld/w1", {"messages": {bot: {"*": why}}}),
        (f"rooms/{room}/send/m.room.encrypted/w2", locked),
    )
    adapter.sync_seconds = 0.05
    async with aiohttp.ClientSession(headers={"Authorization": f"Bearer {person}"}) as http:
        for where, body in calls:
            async with http.put(f"{url}/_matrix/client/v3/{where}", json=body) as response:
                assert response.status == 200, await response.text()
    await gateway.heard(UNVERIFIED)
    return adapter.notice().startswith("1 message without a key")


async def joined(ann: nio.AsyncClient, room: str, user: str) -> None:
    async with asyncio.timeout(300):
        while True:
            await ann.sync(timeout=300)
            members = await ann.joined_members(room)
            if user in {member.user_id for member in members.members}:
                return


async def say(ann: nio.AsyncClient, room: str, text: str) -> str:
    if ann.should_query_keys:
        await ann.keys_query()
    content = {"msgtype": "m.text", "body": text}
    sent = await ann.room_send(room, "m.room.message", content, ignore_unverified_devices=True)
    return sent.event_id


async def read(ann: nio.AsyncClient, seen: list[nio.Event], body: str) -> nio.Event:
    async with asyncio.timeout(300):
        while True:
            for event in seen:
                if event.body == body:
                    return event
            await ann.sync(timeout=300)


if __name__ == "__main__":
    print(json.dumps(told(sys.argv[1], sys.argv[2], sys.argv[3], Path(sys.argv[4]))))
