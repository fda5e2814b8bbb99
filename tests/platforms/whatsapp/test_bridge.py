"""The bridge where it is cut off: killed, unlinked, closed, started twice; and with Baileys' real socket."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
import os
import signal
import stat
import sys
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from hermes.domain.chats.address import Address
from hermes.domain.chats.message import Body, Inbound, InboundKind
from hermes.domain.errors import NeedsLogin, Refused, Unreachable, UserError
from hermes.domain.word import replace
from hermes.entry.platforms.whatsapp import login, program
from hermes.entry.platforms.whatsapp.adapter import WhatsAppAdapter
from hermes.entry.platforms.whatsapp.api import Bridge
from hermes.entry.platforms.whatsapp.convert import to_inbounds
from hermes.testing.platform_suite import Does, Inboxes, hosted, running, until
from hermes.testing.ports import free_port
from tests.foreign.environments import ROOT
from tests.platforms.whatsapp.bed import FAKE, SELF, WhatsAppBed, bridge_place
from tests.platforms.whatsapp.samples import MESSAGES
from tests.platforms.whatsapp.server import ANN, GROUP, ME

pytestmark = [pytest.mark.server, pytest.mark.xdist_group("whatsapp")]
HERE = Path(__file__).parent


def process_of(adapter: WhatsAppAdapter) -> int:
    assert adapter._bridge is not None and adapter._bridge._process is not None
    return adapter._bridge._process.pid


async def heard(inboxes: Inboxes, count: int) -> None:
    await until(lambda: len(inboxes.items) == count, lambda: f"came: {inboxes.texts}")


# --- killed ---


async def test_nothing_is_lost_or_sent_twice_when_the_bridge_is_killed() -> None:
    async with WhatsAppBed() as bed:
        inboxes, made = Inboxes(), []
        connect = bed.connect

        def connecting() -> WhatsAppAdapter:
            made.append(connect())
            return made[-1]

        bed.connect = connecting  # type: ignore[method-assign]
        wanted: list[str] = []
        async with hosted(bed, inboxes):
            for number in range(8):
                wanted += [f"{number} before", f"{number} after"]
                await bed.do(Does.TEXT, wanted[-2])
                await heard(inboxes, len(wanted) - 1)
                sending = asyncio.create_task(
                    made[-1].send(bed.chat, Body(text=f"answer {number}"), key=f"k{number}", reply_to=None)
                )
                await asyncio.sleep(0.002 * number)
                os.kill(process_of(made[-1]), signal.SIGKILL)
                await bed.do(Does.TEXT, wanted[-1])
                with contextlib.suppress(Unreachable):
                    await sending
                await heard(inboxes, len(wanted))
                await made[-1].send(bed.chat, Body(text=f"answer {number}"), key=f"k{number}", reply_to=None)
        assert sorted(inboxes.texts) == sorted(wanted)
        assert [one.text for one in bed.server.sent] == [f"answer {number}" for number in range(8)]


async def test_what_whatsapp_took_is_not_sent_again() -> None:
    async with WhatsAppBed() as bed:
        for _ in range(2):
            platform = bed.connect()
            async with running(platform, Inboxes().accept, None):
                await platform.send(bed.chat, Body(text="once"), key="k", reply_to=None)
        assert [(one.text, one.times) for one in bed.server.sent] == [("once", 1)]


async def test_the_bridge_dies_with_the_gateway_and_the_next_one_hears_everything(tmp_path: Path) -> None:
    output = tmp_path / "stored"
    async with WhatsAppBed() as bed:

        async def gateway(dies_at: str) -> asyncio.subprocess.Process:
            return await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", "tests.platforms.whatsapp.gateway_child"),
                *(str(bed.folder), bed.node, str(output), dies_at),
                cwd=ROOT,
                env={"PATH": os.environ["PATH"], "PYTHONPATH": f"{ROOT / 'src'}:{ROOT}"},
            )

        first = await gateway("three")
        for words in ("one", "two", "three"):
            await bed.do(Does.TEXT, words)
        assert await asyncio.wait_for(first.wait(), 60) == -signal.SIGKILL
        await until(lambda: not bed.server._sockets, "the bridge outlives its gateway")
        assert not bed.server.pending, "WhatsApp was told that all of it arrived"
        second = await gateway("")
        try:
            await bed.do(Does.TEXT, "four")
            await until(lambda: "four" in output.read_text(), "it never came")
            lines = output.read_text().splitlines()
            assert {line.split()[1] for line in lines} == {"one", "two", "three", "four"}
            assert len({line.split()[0] for line in lines}) == 4, "the same message came as another"
        finally:
            second.kill()
            await second.wait()


# --- the real socket ---


@contextlib.asynccontextmanager
async def silent_server() -> AsyncIterator[str]:
    """Takes connections and frames, and says nothing."""

    async def listen(request: web.Request) -> web.WebSocketResponse:
        socket = web.WebSocketResponse()
        await socket.prepare(request)
        async for _ in socket:
            pass
        return socket

    app, port = web.Application(), free_port()
    app.router.add_get("/silent", listen)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.05)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", port).start()
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        await runner.cleanup()


async def test_a_message_survives_a_crash_right_after_baileys_acknowledged_it(tmp_path: Path) -> None:
    """Real encryption, real Baileys: it cannot be decrypted twice, and WhatsApp does not send it again."""
    folder = tmp_path / "platforms" / "whatsapp"
    folder.mkdir(parents=True)
    node, place = await asyncio.to_thread(bridge_place, tmp_path)

    async def start(what: str) -> asyncio.subprocess.Process:
        return await asyncio.create_subprocess_exec(
            *(node, str(HERE / "real_socket.mjs"), str(folder), what),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
        )

    async with silent_server() as url:
        (folder / "fake.json").write_text(json.dumps({"url": url, "place": str(place)}))
        first = await start("first")
        told, _ = await asyncio.wait_for(first.communicate(), 60)
        assert first.returncode == -signal.SIGKILL
        assert b"only once" not in told, "it was handed out before the crash"
        second = await start("again")
        try:
            assert second.stdout is not None
            async with asyncio.timeout(60):
                while (line := json.loads(await second.stdout.readline()))["event"] != "message":
                    assert line["event"] in ("me", "open"), line
            (item,) = to_inbounds(line["message"], SELF)
            assert (item.text, item.source.user, item.source.user_name) == ("only once", ANN, "Ann")
        finally:
            second.kill()
            await second.wait()


async def test_baileys_reads_the_samples(tmp_path: Path) -> None:
    node, place = await asyncio.to_thread(bridge_place, tmp_path)
    process = await asyncio.create_subprocess_exec(
        *(node, str(HERE / "decode.mjs"), str(place)),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )
    out, _ = await process.communicate(json.dumps(list(MESSAGES.values())).encode())
    judged = dict(zip(MESSAGES, json.loads(out), strict=True))
    for name, sample in MESSAGES.items():
        assert to_inbounds(judged[name], SELF) == to_inbounds(sample, SELF), name
        assert judged[name]["message"].keys() == sample["message"].keys(), f"{name}: not of Baileys' proto"


# --- unlinked, closed, started twice ---


async def test_an_unlinked_device_asks_for_a_login_and_is_forgotten() -> None:
    async with WhatsAppBed() as bed:
        inboxes, platform = Inboxes(), bed.connect()
        async with running(platform, inboxes.accept, None) as task:
            await until(lambda: inboxes.batches > 0, "it is not connected")
            await bed.server.close_all(401, "Stream Errored (conflict)")
            await until(task.done, "it goes on")
            assert isinstance(task.exception(), NeedsLogin)
            assert "hermes platforms login whatsapp" in str(task.exception())
            with pytest.raises(Unreachable, match="unlinked"):
                await platform.send(bed.chat, Body(text="x"), key="k", reply_to=None)
        with pytest.raises(NeedsLogin, match="no device is linked"):
            await bed.connect().run(inboxes.accept, None)


@pytest.mark.parametrize(
    ("code", "error", "after"),
    [(403, NeedsLogin, None), (405, Unreachable, 1_800.0), (411, NeedsLogin, None), (440, Unreachable, 60.0)]
    + [(code, Unreachable, None) for code in (408, 428, 500, 503)],
)
async def test_why_whatsapp_closes(code: int, error: type[Exception], after: float | None) -> None:
    async with WhatsAppBed() as bed:
        bed.server.refused = code
        with pytest.raises(error) as raised:
            await bed.connect().run(Inboxes().accept, None)
        assert getattr(raised.value, "after", None) == after


async def test_it_speaks_the_newest_version_that_was_ever_told() -> None:
    async with WhatsAppBed() as bed:
        for bed.server.revision in (None, 1, 1_999_999_999, None, 1_999_999_998):
            inboxes = Inboxes()
            async with running(bed.connect(), inboxes.accept, None):
                await until(lambda seen=inboxes: seen.batches > 0, "it is not connected")
        own, older, *newest = [version[-1] for version in bed.server.versions]
        assert own == older > 1_043_000_000 and newest == [1_999_999_999] * 3


async def test_a_number_that_whatsapp_writes_otherwise() -> None:
    async with WhatsAppBed() as bed:
        proper = "558496348800@s.whatsapp.net"
        bed.server.proper = {"5584996348800@s.whatsapp.net": proper}
        platform, brazil = bed.connect(), Address(platform="whatsapp", chat="5584996348800")
        async with running(platform, Inboxes().accept, None):
            await platform.typing(brazil)
            sent = await platform.send(brazil, Body(text="olá"), key="k", reply_to=None)
            await platform.edit(sent, Body(text="olá!"))
        assert [(one.jid, one.text) for one in bed.server.sent] == [(proper, "olá!")]
        assert bed.server.typing == [proper]


async def test_a_connection_that_is_lost_again_and_again_is_left_to_the_host() -> None:
    async with WhatsAppBed() as bed:
        bed.server.drops = True
        with pytest.raises(Unreachable, match="not reached"):
            await bed.connect().run(Inboxes().accept, None)
        assert bed.server.connections == 6


async def test_two_bridges_never_share_a_device() -> None:
    async with WhatsAppBed() as bed:
        inboxes = Inboxes()
        async with running(bed.connect(), inboxes.accept, None):
            await until(lambda: inboxes.batches > 0, "it is not connected")
            with pytest.raises(Unreachable, match="another bridge"):
                await bed.connect().run(Inboxes().accept, None)


async def test_only_we_can_read_what_it_keeps() -> None:
    async with WhatsAppBed() as bed:
        inboxes = Inboxes()
        async with running(bed.connect(), inboxes.accept, None):
            await bed.do(Does.TEXT, "hello")
            await until(lambda: bool(inboxes.items), "it never came")
        kept = [path for path in bed.folder.iterdir() if path.name != "fake.json"]
        assert {path.name for path in kept} == {"device.jsonl", "bridge.log", "lock", "transfer"}
        assert not any(stat.S_IMODE(path.stat().st_mode) & 0o077 for path in kept)


# --- chats ---


async def test_the_chat_with_oneself() -> None:
    async with WhatsAppBed() as bed:
        bed.said |= {"WHATSAPP_MODE": "self-chat"}
        inboxes, platform = Inboxes(), bed.connect()
        async with running(platform, inboxes.accept, None):
            mine: dict[str, Any] = {"chat": ME, "mine": "true"}
            await until(lambda: inboxes.batches > 0, "it is not connected")
            bed.server.say({"conversation": "from a stranger"})
            bed.server.say({"conversation": "to a friend"}, chat=ANN, mine="true")
            bed.server.say({"conversation": "to myself"}, **mine)
            await until(lambda: bool(inboxes.items), "it never came")
            (item,) = inboxes.items
            assert (item.text, item.source.user, item.source.address.chat) == ("to myself", ME, ME)
            await platform.send(item.source.address, Body(text="hi"), key="k", reply_to=item.ref)
        assert [(one.text, one.quoted is not None) for one in bed.server.sent] == [("*Hermes*\nhi", True)]


async def test_what_was_not_stored_comes_again_also_while_whatsapp_is_away() -> None:
    async with WhatsAppBed() as bed:
        bed.said |= {"WHATSAPP_MODE": "self-chat"}

        async def refuse(items: Sequence[Inbound], cursor: str | None) -> None:
            if items:
                raise Unreachable("nothing can be stored")

        async with running(bed.connect(), refuse, None) as task:
            await until(lambda: bool(bed.server._sockets), "it is not connected")
            bed.server.say({"conversation": "to myself"}, chat=ME, mine="true")
            await until(task.done, "it goes on")
        assert not bed.server.pending, "WhatsApp was told that it arrived"
        bed.server.refused = 408
        inboxes = Inboxes()
        with pytest.raises(Unreachable):
            await bed.connect().run(inboxes.accept, None)
        assert inboxes.texts == ["to myself"]


async def test_groups_names_and_numbers() -> None:
    async with WhatsAppBed() as bed:
        bed.said |= {"WHATSAPP_SEND_READ_RECEIPTS": "true"}
        bed.server.phones = {"88888000000001@lid": f"{ANN}@s.whatsapp.net"}
        inboxes, platform = Inboxes(), bed.connect()
        async with running(platform, inboxes.accept, None):
            await until(lambda: inboxes.batches > 0, "it is not connected")
            bed.server.say({"conversation": "all"}, chat=GROUP, by="88888000000001@lid")
            await until(lambda: bool(inboxes.items), "it never came")
            (item,) = inboxes.items
            assert (item.source.user, item.source.chat_name) == (ANN, "The family")
            assert item.source.user_alt == "88888000000001@lid"
            await platform.send(item.source.address, Body(text="yes"), key="k", reply_to=item.ref)
            bed.server.say({"reactionMessage": {"key": {"id": "3EB0AB12", "fromMe": True}, "text": "👍"}})
            await until(lambda: len(inboxes.items) == 2, "it never came")
            assert (inboxes.items[1].what, inboxes.items[1].ref) == (InboundKind.REACTION, "3EB0AB12@me")
        assert [(one.jid, one.text) for one in bed.server.sent] == [(GROUP, "yes")]
        assert (
            [key["id"] for key in bed.server.read][:1] == [item.ref.partition("@")[0]] if item.ref else False
        )


@pytest.mark.parametrize("depth", (200, 1500))
async def test_quotes_of_quotes_stop_nothing(depth: int) -> None:
    def field(number: int, content: bytes) -> bytes:
        size, spelled = len(content), b""
        while size > 127:
            size, spelled = size >> 7, spelled + bytes([size & 127 | 128])
        tag = number << 3 | 2
        return (
            (bytes([tag & 127 | 128, tag >> 7]) if tag > 127 else bytes([tag]))
            + spelled
            + bytes([size])
            + content
        )

    quotes = field(1, b"deep")  # a Message that says it, quoted by `depth` others
    for _ in range(depth):
        quotes = field(6, field(1, b"above") + field(17, field(3, quotes)))
    async with WhatsAppBed() as bed:
        inboxes = Inboxes()
        async with running(bed.connect(), inboxes.accept, None):
            await until(lambda: inboxes.batches > 0, "it is not connected")
            bed.server.say(base64.b64encode(quotes).decode())
            await heard(inboxes, 1)
            bed.server.say({"conversation": "and then"})
            await heard(inboxes, 2)
        assert inboxes.texts == ["above", "and then"]
        assert bed.server.connections == 1


async def test_only_admins_delete_what_others_wrote() -> None:
    member, admin, ann = (f"{name}@s.whatsapp.net" for name in ("15552220002", "15553330003", ANN))
    async with WhatsAppBed() as bed:
        bed.server.admins = [admin]
        inboxes = Inboxes()
        async with running(bed.connect(), inboxes.accept, None):
            await until(lambda: inboxes.batches > 0, "it is not connected")
            for count, writer in enumerate((member, admin), 1):
                of_ann = {"remoteJid": GROUP, "fromMe": False, "id": "AC01", "participant": ann}
                revoked = {"protocolMessage": {"key": of_ann, "type": "REVOKE"}}
                bed.server.say(revoked, chat=GROUP, by=writer)
                bed.server.say({"conversation": "now"}, chat=GROUP, by=writer)
                await until(lambda last=count: inboxes.texts.count("now") == last, "nothing came")
        deletions = [item for item in inboxes.items if item.what is InboundKind.DELETED]
        assert [(item.ref, item.source.user) for item in deletions] == [(f"AC01@{ann}", "15553330003")]


async def test_a_number_without_whatsapp_is_refused() -> None:
    async with WhatsAppBed() as bed:
        bed.server.missing = ["15559999999@s.whatsapp.net"]
        platform = bed.connect()
        async with running(platform, Inboxes().accept, None):
            nobody = Address(platform="whatsapp", chat="+15559999999")
            with pytest.raises(Refused, match="nobody has that number"):
                await platform.send(nobody, Body(text="x"), key="k", reply_to=None)


# --- the login ---


async def test_the_login(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(login, "_SETTLE_SECONDS", 0.05)
    async with WhatsAppBed() as bed:
        (bed.folder / "device.jsonl").unlink()
        bed.server.unlinked = True

        async def install(node: str, place: Path, tell: object) -> Path:
            return FAKE

        async def find(named: str) -> str:
            return bed.node

        monkeypatch.setattr(program, "install", install)
        monkeypatch.setattr(program, "find_node", find)
        told: list[str] = []
        answers = ["no", "yes", "y"]
        context = replace(bed.context(), find=lambda name: None, ask=lambda question: answers.pop(0))
        with pytest.raises(UserError, match="No device was linked"):
            await login.log_in(context, told.append)
        assert not (bed.folder / "device.jsonl").exists()
        task = asyncio.create_task(login.log_in(context, told.append))
        await until(lambda: any("█" in line for line in told), lambda: f"no code: {told}")
        await bed.server.pair()
        kept = await task
        assert kept == {"WHATSAPP_ENABLED": "true", "WHATSAPP_ALLOWED_USERS": ME}
        assert "may block the number" in told[0] and "Linked with 15550009999" in told[-1]
        inboxes = Inboxes()
        async with running(bed.connect(), inboxes.accept, None):
            await until(lambda: inboxes.batches > 0, "it is not connected after the login")
            with pytest.raises(UserError, match="gateway uses"):
                await login.log_in(context, told.append)


async def test_npm_installs_what_the_lock_names(tmp_path: Path) -> None:
    node, _ = await asyncio.to_thread(bridge_place, tmp_path / "other")
    place, told = tmp_path / "cache" / "whatsapp-bridge", list[str]()
    with pytest.raises(UserError, match="not installed"):
        program.program_in(place)
    assert await program.install(node, place, told.append) == place / "bridge.mjs"
    assert told[-1] == "Installed." and (place / "node_modules" / "baileys").is_dir()
    count = len(told)
    await program.install(node, place, told.append)
    assert len(told) == count, "installed again"
    (place / "made-from").write_text("another")
    with pytest.raises(UserError, match="another version"):
        program.program_in(place)
    process = await asyncio.create_subprocess_exec(
        *(node, str(place / "bridge.mjs"), str(tmp_path / "device")),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
    )
    await asyncio.wait_for(process.communicate(), 60)
    assert process.returncode == 0 and (tmp_path / "device" / "device.jsonl").exists()


async def test_a_bridge_that_breaks_says_why(tmp_path: Path) -> None:
    node, _ = await asyncio.to_thread(bridge_place, tmp_path)
    broken = tmp_path / "broken.mjs"
    broken.write_text("throw new Error('no such thing')")
    bridge = Bridge(node, broken, tmp_path / "device")
    await bridge.start()
    try:
        with pytest.raises(Unreachable, match="no such thing"):
            async for _ in bridge.events():
                pass
    finally:
        await bridge.close()
