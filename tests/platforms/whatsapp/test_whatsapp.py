"""WhatsApp's messages as the bridge tells them, and what the adapter does not start with."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from hermes.domain.chats.adapter import AdapterContext
from hermes.domain.chats.address import Address, SourceKind
from hermes.domain.chats.message import Inbound, InboundKind, MediaKind
from hermes.domain.errors import NeedsLogin, Refused, UserError
from hermes.domain.settings.declaring import Secret
from hermes.domain.settings.platforms import PlatformSettings
from hermes.domain.word import replace
from hermes.entry.platforms.whatsapp import program
from hermes.entry.platforms.whatsapp.adapter import WhatsAppAdapter
from hermes.entry.platforms.whatsapp.convert import (
    LinkedDevice,
    file_message,
    jid_of,
    key_of,
    read_ref,
    to_inbounds,
)
from hermes.testing.platform_suite.payloads import check_malformed_payloads_are_left_out
from tests.platforms.whatsapp.bed import WhatsAppBed
from tests.platforms.whatsapp.samples import LID, MESSAGES
from tests.platforms.whatsapp.server import ANN, GROUP, ME, MY_LID

ROOT = Path(__file__).parents[3]
SELF = LinkedDevice(phone=ME, lid=f"{MY_LID}@lid")


def read(name: str, me: LinkedDevice = SELF) -> Inbound:
    (item,) = to_inbounds(MESSAGES[name], me)
    return item


def test_messages() -> None:
    assert (read("text").text, read("text").ref) == ("hello 😀", f"AC01@{ANN}@s.whatsapp.net")
    assert read("command").text == "/status now"
    assert read("disappearing").text == "soon gone"
    reply = read("reply").reply_to
    assert reply is not None and (reply.ref, reply.text, reply.mine) == ("3EB0AB12@me", "so be it", True)
    assert read("known by LID").source.address.chat == ANN, "one person has one chat"
    assert read("known by LID").source.user_alt == read("only by LID").source.user == LID
    group = read("group")
    assert (group.source.kind, group.source.address.chat, group.source.user) == (SourceKind.GROUP, GROUP, ANN)
    assert (read("mention").text, read("mention").mentions_me) == ("well?", True)
    assert (read("reaction").what, read("reaction").ref) == (InboundKind.REACTION, "3EB0AB12@me")
    for name in ("edit", "wrapped edit"):
        assert (read(name).what, read(name).ref, read(name).text) == (
            InboundKind.EDIT,
            read("text").ref,
            "hello",
        )
    assert (read("deletion").what, read("deletion").ref) == (InboundKind.DELETED, read("text").ref)
    assert read("place").text == "[Location: 1.5, 2.5, Home]"
    assert read("contact").text == "[Contact: Bob, +1 555]"
    assert read("poll").text == "[Poll: Tea? (yes, no)]"
    for name in ("of ourselves", "of ourselves to somebody", "nothing"):
        assert to_inbounds(MESSAGES[name], SELF) == ()


def test_a_card_without_an_end_holds_nobody_up() -> None:
    """In a process of its own: what never ends would not let go of this one."""
    reading = (
        "from hermes.entry.platforms.whatsapp.convert import _described as words; "
        "print(words({'contactMessage': {'displayName': 'Bob', 'vcard': 'TEL' * 2_000_000}}))"
    )
    done = subprocess.run([sys.executable, "-c", reading], capture_output=True, timeout=60, check=True)
    assert done.stdout == b"[Contact: Bob]\n"


def test_in_the_chat_with_oneself_nobody_else_is_heard() -> None:
    alone = replace(SELF, self_chat=True)
    assert read("of ourselves", alone).ref == "AC23@me"
    assert [name for name in MESSAGES if to_inbounds(MESSAGES[name], alone)] == ["of ourselves"]
    assert to_inbounds(MESSAGES["of ourselves"], LinkedDevice(self_chat=True)) == (), (
        "who we are is not known"
    )


@pytest.mark.parametrize(
    ("name", "kind", "text"),
    [
        ("picture", MediaKind.IMAGE, "look"),
        ("voice", MediaKind.VOICE, ""),
        ("music", MediaKind.AUDIO, ""),
        ("film", MediaKind.VIDEO, ""),
        ("file", MediaKind.FILE, "it"),
        ("sticker", MediaKind.STICKER, ""),
    ],
)
def test_files(name: str, kind: MediaKind, text: str) -> None:
    item = read(name)
    (file,) = item.attachments
    assert (file.kind, file.size, item.text) == (kind, 64, text)
    message = file_message(file.ref)
    (part,) = message["message"].values()
    assert part["url"] == "https://mmg.whatsapp.net", "whatever host its writer named"
    assert message["key"]["id"] == MESSAGES[name]["key"]["id"]


@pytest.mark.parametrize("path", ["evil.example/x", "@evil.example/x", "", "/a b", 5])
def test_a_file_is_only_got_from_whatsapp(path: object) -> None:
    ref = json.dumps(
        {"chat": f"{ANN}@s.whatsapp.net", "ref": read("text").ref, "imageMessage": {"directPath": path}}
    )
    with pytest.raises(Refused, match="no file"):
        file_message(ref)


def test_places_and_refs() -> None:
    for chat, jid in (
        (ANN, f"{ANN}@s.whatsapp.net"),
        (f"+{ANN}", f"{ANN}@s.whatsapp.net"),
        (LID, LID),
        (GROUP, GROUP),
    ):
        assert jid_of(Address(platform="whatsapp", chat=chat)) == jid
    for chat in ("", "x", "status@broadcast", "1@newsletter", "12345@evil.example"):
        with pytest.raises(Refused, match="no number"):
            jid_of(Address(platform="whatsapp", chat=chat))
    assert read_ref("987654321") == read_ref("AC01@nobody") == ("", "")
    assert key_of(f"AC01@{LID}", GROUP) == {
        "remoteJid": GROUP,
        "id": "AC01",
        "fromMe": False,
        "participant": LID,
    }
    assert key_of("AC01@me", GROUP) == {"remoteJid": GROUP, "id": "AC01", "fromMe": True}


async def test_malformed_messages(full: bool) -> None:
    await check_malformed_payloads_are_left_out(lambda: WhatsAppBed(full=full))


def _context(folder: Path | None, **said: str) -> AdapterContext:
    return AdapterContext(
        settings=PlatformSettings(),
        find=lambda name: Secret(said[name]) if name in said else None,
        folder=folder,
    )


@pytest.mark.parametrize(
    ("said", "words"),
    [
        ({}, "may block the number"),
        ({"WHATSAPP_ENABLED": "false"}, "WHATSAPP_ENABLED is not true"),
        ({"WHATSAPP_ENABLED": "true", "WHATSAPP_MODE": "both"}, "self-chat or bot"),
    ],
)
def test_what_it_does_not_start_with(said: dict[str, str], words: str, tmp_path: Path) -> None:
    with pytest.raises(NeedsLogin, match=words):
        WhatsAppAdapter(_context(tmp_path, **said))


@pytest.mark.parametrize(
    ("script", "words"),
    [
        (None, "which is not here"),
        ("echo v18.19.0", "is v18.19.0"),
        ("echo hello", "does not start as such"),
        ("exit 3", "does not start as such"),
    ],
)
async def test_a_node_that_will_not_do(script: str | None, words: str, tmp_path: Path) -> None:
    fake = tmp_path / "node"
    if script is not None:
        fake.write_text(f"#!/bin/sh\n{script}\n")
        fake.chmod(0o755)
    with pytest.raises(UserError, match=f"Node.js 20 or later.*{words}"):
        await program.find_node(str(fake))
    adapter = WhatsAppAdapter(
        _context(tmp_path / "platforms" / "whatsapp", WHATSAPP_ENABLED="true", WHATSAPP_NODE=str(fake))
    )
    assert [one.good for one in await adapter.check()] == [False]


def test_the_bridge_gets_no_secrets() -> None:
    environ = {"PATH": "/bin", "OPENAI_API_KEY": "x", "HTTPS_PROXY": "http://p", "npm_config_registry": "r"}
    assert program.environment(environ).keys() == {"PATH", "HTTPS_PROXY", "npm_config_registry"}


def test_the_lock_is_exact_and_names_no_host() -> None:
    folder = program.source()
    lock = json.loads((folder / "package-lock.json").read_text())
    packages = [one for name, one in lock["packages"].items() if name]
    assert packages and all(one["integrity"].startswith("sha512-") for one in packages)
    assert not any("resolved" in one for one in packages)
    wanted = json.loads((folder / "package.json").read_text())["dependencies"]
    assert wanted == lock["packages"][""]["dependencies"]
    assert all(version[0].isdigit() for version in wanted.values()), "pinned"
    shipped = (ROOT / "pyproject.toml").read_text()
    for name in program.SOURCES:
        place = f'"bridges/whatsapp/{name}" = "hermes/entry/platforms/whatsapp/bridge/{name}"'
        assert (folder / name).is_file() and place in shipped, f"{name} is not in the wheel"
    assert {path.name for path in folder.glob("*.mjs")} <= set(program.SOURCES)
