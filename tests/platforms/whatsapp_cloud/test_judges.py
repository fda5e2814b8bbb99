"""The fake Cloud API is judged by pywa, which we did not write, before our adapter may trust it; and what our
adapter sends is what pywa sends for the same words."""

from __future__ import annotations

import asyncio
import json
import os
from typing import Any

import pytest

from hermes.domain.chats.message import Attachment, Body, Button, MediaKind, Receipt
from hermes.testing.platform_suite import Fault, Inboxes, running
from tests.foreign.environments import ROOT, python_of
from tests.platforms.whatsapp_cloud.bed import WhatsAppBed
from tests.platforms.whatsapp_cloud.samples import ANN, WEBHOOKS
from tests.platforms.whatsapp_cloud.server import PHONE, SECRET, TOKEN, WORD, WhatsApp

pytestmark = [pytest.mark.server, pytest.mark.xdist_group("foreign")]
CLIENT = ROOT / "tests" / "foreign" / "clients" / "whatsapp_pywa.py"
FAULTS = {
    "131056": Fault.TOO_FAST,
    "130429": Fault.TOO_FAST_ALL,
    "190": Fault.REVOKED,
    "131026": Fault.GONE,
}


async def pywa(server: WhatsApp, wanted: int) -> dict[str, Any]:
    """What the client printed; it gets nothing of our surroundings but the path."""
    python = await asyncio.to_thread(python_of, "whatsapp")
    port = server.callback.rpartition(":")[2].partition("/")[0]
    process = await asyncio.create_subprocess_exec(
        *(str(python), str(CLIENT), server.url, PHONE, TOKEN, SECRET, WORD, port, str(wanted)),
        env={"PATH": os.environ["PATH"]},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        out, err = await asyncio.wait_for(process.communicate(), 600)
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    assert process.returncode == 0, err.decode()[-3000:]
    return json.loads(out)  # type: ignore[no-any-return]


def shape(message: dict[str, Any]) -> dict[str, Any]:
    """What is compared of a message: all but ids of files and what each side adds to find it again."""
    sort = message["type"]
    kept = {**message, sort: {**message[sort]}}
    for name in ("biz_opaque_callback_data", "context"):
        kept.pop(name, None)
    if sort == "text":
        kept["text"].pop("preview_url")
    if sort == "interactive":
        for section in kept[sort]["action"].get("sections", ()):
            section.pop("title", None)
    if "id" in kept[sort]:
        kept[sort]["id"] = "media"
    return kept


async def test_pywa_accepts_the_fake_and_sends_as_we_do() -> None:
    async with WhatsAppBed() as bed:
        server = bed.server
        media = server.keep_file(bed.content, "image/png")
        server.say(ANN, "text", {"body": "hello é 😀"})
        server.say(ANN, "image", {"id": media, "mime_type": "image/png", "sha256": "x", "caption": "look"})
        server.say(ANN, "text", {"body": "as I said"}, context={"from": "15550783881", "id": "wamid.x"})
        names = ("button", "list", "edit", "revoke", "failed", "changed_number")
        server._waiting += [WEBHOOKS[name] for name in names]
        for code, fault in FAULTS.items():
            server.fail(fault, 9, False, f"1650555{code}")
        found = await pywa(server, wanted=11)
        assert [tuple(one) for one in found["seen"]] == [
            ("text", "hello é 😀", ANN, "Ann Other"),
            ("image", "look", ANN, "Ann Other"),
            ("file", "image/png", "89504e47"),
            ("text", "as I said", ANN, "Ann Other"),
            ("reply", "wamid.x"),
            ("button", "q_1:yes", "Yes"),
            ("list", "q_1:no", "No"),
            ("edit", "second thought", "wamid."),
            ("revoke", "wamid."),
            ("status", "failed", "turn:1:0", 131047),
            ("moved", "12195555358"),
        ]
        assert found["sent"] == {
            "text": ["wamid.", ANN],
            "media": b"\x89PNG1234".hex(),
            "errors": {
                "131056": ["TooManyMessages", 131056],
                "130429": ["RateLimitHit", 130429],
                "190": ["ExpiredAccessToken", 190],
                "131026": ["MessageUndeliverable", 131026],
            },
            "too long": 100,
            "number": ["+1 555-078-3881", True],
        }
        theirs = [shape(told) for _, told in server.calls if told.get("to") == ANN and told["type"] != "text"]
        server.calls.clear()
        await send_the_same(bed)
        ours = [shape(told) for _, told in server.calls if told["type"] != "text"]
        assert ours == theirs


async def send_the_same(bed: WhatsAppBed) -> None:
    async def open_file(file: Attachment) -> bytes:
        return bed.content

    bed.open_file = open_file
    adapter = bed.connect()
    async with running(adapter, Inboxes().accept, None):
        send = adapter.send
        yes = (Button(label="Yes", value="q_1:yes"),)
        await send(bed.chat, Body(text="May I?", buttons=yes), key="k", reply_to=None)
        four = tuple(Button(label=str(one), value=f"q_1:{one}") for one in range(4))
        await send(bed.chat, Body(text="Which?", buttons=four), key="k", reply_to=None)
        for kind, mime, text, name in (
            (MediaKind.IMAGE, "image/png", "look", "a.png"),
            (MediaKind.VOICE, "audio/ogg", "", "a.ogg"),
            (MediaKind.FILE, "application/pdf", "plan", "plan.pdf"),
        ):
            file = Attachment(kind=kind, ref="x", name=name, mime=mime)
            sent = await send(bed.chat, Body(text=text, attachments=(file,)), key="k", reply_to=None)
        message = Receipt(to=bed.chat, ref=sent.ref)
        first = next(iter(bed.server.reactions))
        await adapter.react(Receipt(to=message.to, ref=first), "👍")
        await adapter.react(Receipt(to=message.to, ref=first), "", instead="👍")
