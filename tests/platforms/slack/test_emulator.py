"""The adapter uses an emulator of Slack's Web API that another maker wrote (npm `emulate`): what it sends is
taken, kept and found there. The emulator has no sockets, buttons or slash commands, and brings no list of the
bot's own conversations."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp
import pytest

from hermes.domain.chats.adapter import AdapterContext
from hermes.domain.chats.address import Address, SourceKind
from hermes.domain.chats.message import Attachment, Body, Button, MediaKind, Receipt
from hermes.domain.clock import SystemClock
from hermes.domain.errors import NeedsLogin, Refused
from hermes.domain.settings.declaring import Secret
from hermes.domain.settings.platforms import PlatformSettings
from hermes.domain.word import replace
from hermes.entry.platforms.slack.adapter import SlackAdapter
from hermes.entry.platforms.slack.catch_up import SlackCatchUp
from hermes.entry.platforms.slack.convert import SlackIdentity, to_inbounds
from hermes.testing.ports import free_port
from tests.foreign.environments import ROOT, node
from tests.platforms.slack.bed import NOW

pytestmark = [pytest.mark.server, pytest.mark.xdist_group("foreign")]
SEED = """
slack:
  team: {name: Fake, domain: fake}
  users:
    - {name: ann, real_name: Ann Other, email: ann@example.invalid}
    - {name: hermes, real_name: Hermes, email: hermes@example.invalid}
  strict_scopes: true
  tokens:
    - {token: xoxb-of-the-bot-1, user: hermes, scopes: [chat:write, channels:read, channels:history, im:write,
       im:history, users:read, files:read, files:write, reactions:read, reactions:write]}
    - {token: xoxb-of-ann-0001, user: ann, scopes: [chat:write]}
"""


@asynccontextmanager
async def emulator(folder: Path) -> AsyncIterator[str]:
    program, place = await asyncio.to_thread(node, "slack-node", ROOT / "tests" / "foreign" / "slack")
    (folder / "seed.yaml").write_text(SEED)
    port = free_port()
    process = await asyncio.create_subprocess_exec(
        *(str(program), str(place / "node_modules" / "emulate" / "dist" / "index.js"), "start"),
        *("--service", "slack", "--port", str(port), "--seed", str(folder / "seed.yaml")),
        cwd=folder,
        env={"PATH": os.environ["PATH"], "HOME": str(folder)},
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.DEVNULL,
    )
    try:
        await answers(f"http://localhost:{port}/api/auth.test")
        yield f"http://localhost:{port}/api"
    finally:
        process.kill()
        await process.wait()


async def answers(url: str) -> None:
    async with asyncio.timeout(240), aiohttp.ClientSession() as session:
        while True:
            try:
                async with session.post(url):
                    return
            except aiohttp.ClientError:
                await asyncio.sleep(0.05)


def adapter(url: str, token: str = "xoxb-of-the-bot-1") -> SlackAdapter:
    said = {"SLACK_BOT_TOKEN": token, "SLACK_SIGNING_SECRET": "x", "SLACK_API_URL": url}

    async def open_file(file: Attachment) -> bytes:
        return b"some words"

    find = {name: Secret(value) for name, value in said.items()}.get
    return SlackAdapter(AdapterContext(settings=PlatformSettings(), find=find, open_file=open_file))


async def test_the_adapter_uses_another_makers_slack(tmp_path: Path) -> None:
    async with emulator(tmp_path) as url:
        bot, ann = adapter(url), adapter(url, "xoxb-of-ann-0001")
        try:
            await messages(bot, ann)
            await files_and_people(bot)
            with pytest.raises(NeedsLogin, match="files:write"):
                await ann.send(GENERAL, Body(attachments=(FILE,)), key="k", reply_to=None)
            assert (await adapter(url).check())[0].text.startswith("Slack knows the bot as @hermes in Fake")
        finally:
            await bot.api.close()
            await ann.api.close()


GENERAL = Address(platform="slack", chat="C000000001")
FILE = Attachment(kind=MediaKind.FILE, ref="x", name="a.txt", mime="text/plain")


async def messages(bot: SlackAdapter, ann: SlackAdapter) -> None:
    buttons = (Button(label="Yes", value="q_1:yes"),)
    sent = await bot.send(GENERAL, Body(text="May I &amp; you?", buttons=buttons), key="k1", reply_to=None)
    await bot.edit(sent, Body(text="Approved."))
    assert await bot.find_sent(GENERAL, "k1") == sent, "an edit keeps the key"
    assert await bot.find_sent(GENERAL, "k2") is None
    for emoji in ("👀", "👀", ""):
        await bot.react(sent, emoji)
    thread = await bot.open_thread(GENERAL, "Plans")
    inside = await bot.send(thread, Body(text="in it"), key="k2", reply_to=None)
    assert await bot.find_sent(thread, "k2") == inside
    who = (await bot._who())[0].user
    said = await ann.send(thread, Body(text=f"<@{who}> look &lt;here&gt;"), key="a", reply_to=None)
    events = await SlackCatchUp(bot.api, SystemClock(), 0.0)._of(GENERAL.chat, "channel")
    (found,) = [one for event in events for one in to_inbounds(event, SlackIdentity(user=who), NOW)]
    assert (found.text, found.ref, found.source.kind) == ("look <here>", said.ref, SourceKind.THREAD)
    assert found.source.address == thread and found.mentions_me
    await bot.delete(sent)
    for gone in (bot.edit(sent, Body(text="x")), bot.delete(Receipt(to=GENERAL, ref="1.1"))):
        with pytest.raises(Refused, match="message_not_found"):
            await gone
    with pytest.raises(Refused, match="channel_not_found"):
        await bot.send(replace(GENERAL, chat="C0NOWHERE"), Body(text="x"), key="k", reply_to=None)


async def files_and_people(bot: SlackAdapter) -> None:
    sent = await bot.send(GENERAL, Body(text="look", attachments=(FILE,)), key="k3", reply_to=None)
    assert await bot.find_sent(GENERAL, "k3") == sent
    (file,) = (await bot.api.call("files.list"))["files"]
    assert file["title"] == "a.txt"
    pieces: list[bytes] = []

    async def sink(piece: bytes) -> None:
        pieces.append(piece)

    await bot.fetch(file["id"], sink)
    assert b"".join(pieces) == b"some words"
    with pytest.raises(Refused, match="gone"):
        await bot.fetch("F404", sink)
    people = {one["name"]: one["id"] for one in (await bot.api.call("users.list"))["members"]}
    direct = await bot.send(replace(GENERAL, chat=people["ann"]), Body(text="hi"), key="k4", reply_to=None)
    assert direct.to.chat.startswith("D")
