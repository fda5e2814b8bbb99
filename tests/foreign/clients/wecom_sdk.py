"""wecom-aibot-sdk, which we did not write, uses a server as it would use WeCom; what it saw is printed as
JSON. Arguments: the address of the long connection, the bot's id and secret."""

from __future__ import annotations

import asyncio
import json
import sys

from wecom_aibot_sdk import WSClient

found: dict[str, object] = {"seen": []}


async def attempt(work) -> str:
    try:
        await work
    except Exception as error:  # whatever the SDK raises
        return str(error)
    return "ok"


async def main(url: str, bot: str, secret: str) -> None:
    done, ready = asyncio.Event(), asyncio.Event()
    client = WSClient(bot, secret, ws_url=url, heartbeat_interval=200)

    async def on_text(frame) -> None:
        body = frame["body"]
        found["seen"].append(
            [body["msgtype"], body["chattype"], body["text"]["content"], body["from"]["userid"]]
        )
        if body["text"]["content"] == "hello":
            acks = [
                await client.reply_stream(frame, "s1", "one", False),
                await client.reply_stream(frame, "s1", "one two", False),
                await client.reply_stream(frame, "s1", "one two three", True),
            ]
            found["streamed"] = [ack["errcode"] for ack in acks]
            found["expired"] = await attempt(client.reply_stream(frame, "s1", "more", False))
            wrong = {"headers": {"req_id": "nobody"}}
            found["unknown"] = await attempt(client.reply_stream(wrong, "s2", "x", True))
            sent = await client.send_message(
                "ann.smith", {"msgtype": "markdown", "markdown": {"content": "**hi**"}}
            )
            found["sent"] = sent["errcode"]
            long = {"msgtype": "markdown", "markdown": {"content": "x" * 20_481}}
            found["long"] = await attempt(client.send_message("ann.smith", long))
            uploaded = await client.upload_media(b"x" * 600_000, type="file", filename="a.bin")
            media = await client.send_media_message("ann.smith", "file", uploaded["media_id"])
            found["file"] = [uploaded["type"], media["errcode"]]
        if body["text"]["content"] == "bye":
            done.set()

    async def on_image(frame) -> None:
        image = frame["body"]["image"]
        found["picture"] = len((await client.download_file(image["url"], image["aeskey"]))["buffer"])

    client.on("message.text", on_text)
    client.on("message.image", on_image)
    client.on("authenticated", lambda: ready.set())
    await client.connect()
    await asyncio.wait_for(ready.wait(), 60)
    await asyncio.wait_for(done.wait(), 120)
    await asyncio.sleep(0.5)
    other, error = WSClient(bot, "wrong", ws_url=url), asyncio.get_running_loop().create_future()
    other.on("error", lambda told: error.done() or error.set_result(str(told)))
    await other.connect()
    found["wrong"] = await asyncio.wait_for(error, 60)
    await other.disconnect()
    await client.disconnect()
    print(json.dumps(found), flush=True)


asyncio.run(main(*sys.argv[1:4]))
