"""Slack's own framework uses a server as it would use Slack; what it saw is printed as JSON. Arguments: how
events come (`socket` or `events`), the address of the Web API, the tokens, the signing secret, a port to be
called on, and a file with calls of our adapter's, to hold them against the SDK."""

from __future__ import annotations

import asyncio
import inspect
import json
import sys
from pathlib import Path

from slack_bolt.adapter.socket_mode.async_handler import AsyncSocketModeHandler
from slack_bolt.async_app import AsyncApp
from slack_sdk.errors import SlackApiError
from slack_sdk.models.blocks import Block
from slack_sdk.web.async_client import AsyncWebClient

BUTTONS = [
    {"type": "section", "text": {"type": "mrkdwn", "text": "*May* I?"}},
    {
        "type": "actions",
        "elements": [
            {
                "type": "button",
                "action_id": "hermes_0",
                "text": {"type": "plain_text", "text": "Yes"},
                "value": "q_1:yes",
            }
        ],
    },
]


async def main(how: str, url: str, tokens: tuple[str, str], secret: str, port: int) -> dict[str, object]:
    client = AsyncWebClient(token=tokens[0], base_url=f"{url}/", timeout=100)
    app = AsyncApp(client=client, signing_secret=secret, request_verification_enabled=True)
    seen: list[str] = []
    found: dict[str, object] = {}
    done = asyncio.Event()

    @app.event("message")
    async def on_message(event, say):
        kind = event.get("subtype") or "plain"
        seen.append(f"message {kind} {event['channel_type']} {event.get('text', '')}")
        if event.get("text") == "hello":
            sent = await say(
                text="May I?",
                blocks=BUTTONS,
                metadata={"event_type": "hermes_message", "event_payload": {"key": "k1"}},
            )
            found["sent"] = [sent["ok"], sent["message"]["text"], sent["channel"] == event["channel"]]
        if event.get("files"):
            seen.append(f"file {event['files'][0]['mimetype']}")

    @app.event("app_mention")
    async def on_mention(event):
        seen.append(f"mention {event['text']}")

    @app.event("reaction_added")
    async def on_reaction(event):
        seen.append(f"reaction {event['reaction']}")

    @app.command("/hermes")
    async def on_command(ack, command):
        await ack()
        seen.append(f"command {command['text']} {command['channel_id']}")

    @app.action("hermes_0")
    async def on_press(ack, body, action, client):
        await ack()
        seen.append(f"pressed {action['value']} {body['container']['message_ts'] == body['message']['ts']}")
        place = {"channel": body["channel"]["id"], "ts": body["message"]["ts"]}
        found["edited"] = (await client.chat_update(text="Approved.", **place))["message"]["text"]
        done.set()

    if how == "socket":
        handler = AsyncSocketModeHandler(app, tokens[1], web_client=client)
        await handler.connect_async()
        await asyncio.wait_for(done.wait(), 300)
        await asyncio.sleep(0.2)
        await handler.close_async()
    else:
        from aiohttp import web

        runner = web.AppRunner(app.server(port=port, path="/slack/events").web_app)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", port).start()
        await asyncio.wait_for(done.wait(), 300)
        await asyncio.sleep(0.2)
        await runner.cleanup()
    found |= await use_the_web_api(client)
    return {"seen": sorted(seen), **found}


async def use_the_web_api(client: AsyncWebClient) -> dict[str, object]:
    found: dict[str, object] = {}
    found["me"] = (await client.auth_test())["user_id"]
    rooms = await client.users_conversations(types="im,mpim,public_channel,private_channel")
    found["rooms"] = sorted(room["id"] for room in rooms["channels"])
    found["person"] = (await client.users_info(user="U0ANN000001"))["user"]["profile"]["display_name"]
    found["place"] = (await client.conversations_info(channel="C0TEAM00001"))["channel"]["is_im"]
    history = await client.conversations_history(channel="D0ANN000001", include_all_metadata=True)
    found["keys"] = [one["metadata"]["event_payload"] for one in history["messages"] if "metadata" in one]
    plain = await client.conversations_history(channel="D0ANN000001", limit=1)
    found["pages"] = [len(plain["messages"]), plain["has_more"], bool(plain.get("response_metadata"))]
    root = await client.chat_postMessage(channel="C0TEAM00001", text="a root")
    await client.chat_postMessage(channel="C0TEAM00001", text="below", thread_ts=root["ts"])
    replies = await client.conversations_replies(channel="C0TEAM00001", ts=root["ts"])
    found["thread"] = [one["text"] for one in replies["messages"]]
    found["reacted"] = (await client.reactions_add(channel="C0TEAM00001", timestamp=root["ts"], name="eyes"))[
        "ok"
    ]
    upload = await client.files_upload_v2(
        content=b"image/png of no size",
        filename="a.png",
        title="A",
        channel="C0TEAM00001",
        initial_comment="look",
    )
    info = await client.files_info(file=upload["files"][0]["id"])
    found["uploaded"] = [
        info["file"]["name"],
        info["file"]["title"],
        "C0TEAM00001" in str(info["file"]["shares"]),
    ]
    told = await client.chat_postMessage(channel="D0ANN000001", text="stream it")
    stream = await client.chat_stream(
        channel="D0ANN000001", thread_ts=told["ts"], buffer_size=1, recipient_team_id="T0FAKETEAM1",
        recipient_user_id="U0ANN000001",
    )  # fmt: skip
    for piece in ("**hel", "lo** ", "world"):
        await stream.append(markdown_text=piece)
    found["streamed"] = (await stream.stop(markdown_text="!"))["message"]["text"]
    found["dm"] = (await client.conversations_open(users="U0BOB000001"))["channel"]["id"]
    found["deleted"] = (await client.chat_delete(channel="C0TEAM00001", ts=root["ts"]))["ok"]
    errors = []
    asked = (
        client.chat_postMessage(channel="C0NOWHERE01", text="x"),
        client.chat_postMessage(channel="C0GONE00001", text="x"),
        client.chat_postMessage(channel="C0FAST00001", text="x"),
        client.chat_update(channel="D0ANN000001", ts="1.1", text="x"),
        client.chat_postMessage(channel="D0ANN000001"),
        client.files_info(file="F404"),
        client.chat_startStream(channel="C0TEAM00001", thread_ts=root["ts"]),
        client.chat_appendStream(channel="D0ANN000001", ts=told["ts"], markdown_text="x"),
        AsyncWebClient(token="xoxb-wrong", base_url=client.base_url).auth_test(),
    )
    for one in asked:
        try:
            await one
        except SlackApiError as error:
            wait = error.response.headers.get("Retry-After")
            errors.append([error.response["error"], error.response.status_code, wait])
    found["errors"] = errors
    return found


def check_calls(path: str) -> int:
    """Every method that the adapter calls is there and knows every parameter; blocks keep their limits."""
    lines = [line for line in Path(path).read_text().splitlines() if line]
    for line in lines:
        method, asked = json.loads(line)
        known = inspect.signature(getattr(AsyncWebClient, method.replace(".", "_")))
        unknown = set(asked) - set(known.parameters)
        assert not unknown, f"{method} knows no {unknown}"
        for block in Block.parse_all(asked.get("blocks") or []):
            block.validate_json()
    return len(lines)


if __name__ == "__main__":
    mode, address, bot, application, signing, listen, calls = sys.argv[1:8]
    told = asyncio.run(main(mode, address, (bot, application), signing, int(listen)))
    told["checked"] = check_calls(calls)
    print(json.dumps(told))
