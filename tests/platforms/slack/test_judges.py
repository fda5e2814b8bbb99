"""The fake Slack is judged by Slack's own framework, which we did not write, before our adapter may trust it:
Bolt logs in, receives, acknowledges, replies, is pressed and commanded against it, through a socket and by
signed calls. And what our adapter sends is held against the SDK."""

from __future__ import annotations

import asyncio
import json
import os
from pathlib import Path
from typing import Any

import pytest

from hermes.domain.chats.message import Attachment, Body, Button, MediaKind
from hermes.domain.word import replace
from hermes.testing.platform_suite import Does, Fault, Inboxes, hosted, running, until
from hermes.testing.ports import free_port
from tests.foreign.environments import ROOT, python_of
from tests.platforms.slack.bed import SlackBed
from tests.platforms.slack.samples import CHANNEL, DM

pytestmark = [pytest.mark.server, pytest.mark.xdist_group("foreign")]
CLIENT = ROOT / "tests" / "foreign" / "clients" / "slack_bolt_app.py"


@pytest.mark.parametrize("how", ["socket", "events"])
async def test_bolt_accepts_the_fake_and_what_the_adapter_sends(how: str, tmp_path: Path) -> None:
    calls = await calls_of_the_adapter()
    path = tmp_path / "calls.jsonl"
    path.write_text("\n".join(json.dumps(call) for call in calls))
    assert len({name for name, _ in calls}) == 20, sorted({name for name, _ in calls})
    async with SlackBed() as bed:
        server, port = bed.server, free_port()
        for room, fault in (("C0GONE00001", Fault.GONE), ("C0FAST00001", Fault.TOO_FAST)):
            server.room(room, "channel")
            server.fail(fault, 99, False, room)
        if how == "events":
            server.events_url = f"http://127.0.0.1:{port}/slack/events"
        python = await asyncio.to_thread(python_of, "slack")
        process = await asyncio.create_subprocess_exec(
            *(str(python), str(CLIENT), how, server.url, server.token, server.app_token, server.secret),
            *(str(port), str(path)),
            env={"PATH": os.environ["PATH"]},
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        talking = asyncio.create_task(people(bed))
        try:
            out, err = await asyncio.wait_for(process.communicate(), 600)
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
            talking.cancel()
        assert process.returncode == 0, err.decode()[-3000:]
        found = json.loads(out)
        assert found == {**EXPECTED, "checked": len(calls)}
        by_people = {one["event_id"] for one in server.events if one["event"].get("user") == "U0ANN000001"}
        assert by_people <= server.acked, "what Bolt has heard it acknowledges"


async def people(bed: SlackBed) -> None:
    server = bed.server
    if not server.events_url:
        await server.reached.wait()
    await bed.do_now(Does.MENTION, "what now?")
    await bed.do_now(Does.COMMAND, "/status now")
    await bed.do_now(Does.FILE, "see")
    root = server.say(CHANNEL, "root")
    server.say(CHANNEL, "in it", thread_ts=root["ts"])
    server.tell(
        {
            "type": "reaction_added",
            "user": "U0ANN000001",
            "reaction": "tada",
            "item": {"type": "message", "channel": CHANNEL, "ts": root["ts"]},
            "item_user": "U0ANN000001",
        }
    )
    server.say(DM, "hello")
    await until(lambda: bool(server.order), "Bolt does not answer")
    server.press(DM, server.order[0]["ts"], "q_1:yes")


EXPECTED: dict[str, Any] = {
    "seen": [
        "command status now C0TEAM00001",
        "file text/plain",
        "mention <@U0HERMES001> what now?",
        "message file_share im see",
        "message plain channel <@U0HERMES001> what now?",
        "message plain channel in it",
        "message plain channel root",
        "message plain im hello",
        "pressed q_1:yes True",
        "reaction tada",
    ],
    "sent": [True, "May I?", True],
    "edited": "Approved.",
    "me": "U0HERMES001",
    "rooms": ["C0FAST00001", "C0GONE00001", "C0MPIM00001", CHANNEL, DM],
    "person": "Ann",
    "place": False,
    "keys": [{"key": "k1"}],
    "pages": [1, True, True],
    "thread": ["a root", "below"],
    "reacted": True,
    "uploaded": ["a.png", "A", True],
    "streamed": "**hello** world!",
    "dm": "D0BOB000001",
    "deleted": True,
    "errors": [
        ["channel_not_found", 200, None],
        ["is_archived", 200, None],
        ["ratelimited", 429, "3"],
        ["message_not_found", 200, None],
        ["no_text", 200, None],
        ["file_not_found", 200, None],
        ["missing_recipient_team_id", 200, None],
        ["message_not_in_streaming_state", 200, None],
        ["invalid_auth", 200, None],
    ],
}


async def calls_of_the_adapter() -> list[list[Any]]:
    """Every kind of call that it makes, as the fake got it."""
    async with SlackBed() as bed:

        async def open_file(file: Attachment) -> bytes:
            return bed.content

        async def sink(piece: bytes) -> None:
            pass

        bed.open_file = open_file
        inboxes = Inboxes()
        async with hosted(bed, inboxes):
            await bed.do(Does.MENTION, "x")
            await bed.do(Does.THREAD, "y")
            await until(lambda: len(inboxes.items) == 2, "they never came")
        platform = bed.connect()
        async with running(platform, inboxes.accept, inboxes.cursor):
            await until(lambda: bed.server.opened == 2, "no second connection")
            buttons = tuple(Button(label=f"Yes {n}", value=f"q_1:{n}") for n in range(30))
            text = "word " * 790
            sent = await platform.send(bed.chat, Body(text=text, buttons=buttons), key="k", reply_to=None)
            await platform.edit(sent, Body(text=text, buttons=buttons))
            await platform.react(sent, "👍")
            await platform.react(sent, "", instead="👍")
            thread = await platform.open_thread(replace(bed.chat, chat=CHANNEL), "Plans")
            file = Attachment(kind=MediaKind.IMAGE, ref="x", name="a.png", mime="image/png")
            await platform.typing(thread)
            await platform.send(thread, Body(text="c", attachments=(file, file)), key="f", reply_to=None)
            await platform.send(replace(bed.chat, chat="U0BOB000001"), Body(text="x"), key="u", reply_to=None)
            await platform.find_sent(thread, "f")
            await platform.find_sent(bed.chat, "k")
            await platform.fetch(next(iter(bed.server.files)), sink)
            await platform.delete(sent)
            bed.said["SLACK_STREAMING"] = "true"
            streams, below = bed.connect(), replace(bed.chat, thread=bed.server.say(DM, "root")["ts"])
            for text in ("one", "one two"):
                grown = Body(text=text, growing=True)
                if text == "one":
                    begun = await streams.send(below, grown, key="s", reply_to=None)
                await streams.edit(begun, grown)
            await streams.edit(begun, Body(text="one two three"))
            await streams.api.close()
            await until(
                lambda: any(name == "conversations.replies" for name, _ in bed.server.calls), "unread"
            )
        await bed.connect().check()
        return [[name, asked] for name, asked in bed.server.calls]
