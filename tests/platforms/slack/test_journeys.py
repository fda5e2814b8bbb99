"""Conversations on Slack through a whole gateway: allowed by a button, after a restart too; a channel with
its threads; commands; what was written while nobody was there."""

from __future__ import annotations

import asyncio
from pathlib import Path

from hermes.domain.chats.address import Address
from hermes.domain.settings.platforms import PlatformSettings
from hermes.testing.harness import Journey, open_settings
from hermes.testing.model import Say, echo, obedient
from hermes.testing.platform_suite import Does, until
from tests.platforms.slack.bed import SlackBed
from tests.platforms.slack.samples import CHANNEL, DM
from tests.platforms.slack.samples import ME as BOT

SETTINGS = open_settings(platforms={"slack": PlatformSettings(allow_all_users=True)})
TEAM = Address(platform="slack", chat=CHANNEL)


def journey(bed: SlackBed, folder: Path, script: object = obedient) -> Journey:
    return Journey(
        folder=folder,
        account="slack",
        connect_platform=bed.connect,
        settings=SETTINGS,
        script=script,  # type: ignore[arg-type]
    )


async def sees(bed: SlackBed, words: str, chat: Address | None = None) -> None:
    """The whole answer, not a draft of it."""
    await until(
        lambda: any(words in one.text and "▉" not in one.text for one in bed.shown(chat)),
        lambda: f"people see {bed.shown(chat)}",
    )


async def test_allowed_by_a_button_after_a_restart(tmp_path: Path) -> None:
    async with SlackBed() as bed:
        async with journey(bed, tmp_path):
            await bed.do(Does.TEXT, "m1 danger")
            await until(lambda: any(one.buttons for one in bed.shown()), lambda: f"people see {bed.shown()}")
        asked = next(one for one in bed.shown() if one.buttons)
        message = bed.server.find(DM, asked.ref)
        assert message is not None
        keys = [key for block in message["blocks"] for key in block.get("elements", ())]
        value = next(key["value"] for key in keys if key["text"]["text"] == "once")
        async with journey(bed, tmp_path) as again:
            # Slack tells who presses while nobody listens, and they press again.
            await until(lambda: bool(bed.server.sockets), "no connection")
            await bed.do(Does.BUTTON, value, on=asked.ref)
            await sees(bed, "answer to m1")
            await sees(bed, "✅ Approved by ")
            assert not any(one.buttons for one in bed.shown()), "nobody can press them any more"
            assert [entry.chat for entry in again.world.log] == ["danger"], "done once, and only when allowed"


async def test_a_mention_in_a_channel_begins_a_thread(tmp_path: Path) -> None:
    async with SlackBed() as bed:
        async with journey(bed, tmp_path, echo):
            await bed.listening()
            bed.server.say(CHANNEL, "not for it")
            first = bed.server.say(CHANNEL, f"<@{BOT}> one")
            await sees(bed, "one", TEAM)
            bed.server.say(CHANNEL, "two", thread_ts=first["ts"])
            await sees(bed, "two", TEAM)
            bed.server.say(CHANNEL, "not for it either", thread_ts=bed.server.say(CHANNEL, "aside")["ts"])
            other = bed.server.say(CHANNEL, f"<@{BOT}> three")
            await sees(bed, "three", TEAM)
        found = [(one.thread, one.text.rpartition(" ")[2]) for one in bed.shown(TEAM)]
        assert found == [(first["ts"], "one"), (first["ts"], "two"), (other["ts"], "three")]


async def test_commands_are_written_with_a_mark_or_brought_by_the_slash_command(tmp_path: Path) -> None:
    async with SlackBed() as bed:
        async with journey(bed, tmp_path, echo):
            await bed.do(Does.TEXT, "!whoami")
            await sees(bed, "U0ANN000001", bed.chat)
            await bed.do(Does.COMMAND, "/whoami")
            await sees(bed, "U0ANN000001", TEAM)
        assert len(bed.shown()) == 2


async def test_a_long_answer_in_other_letters_grows_in_its_messages(tmp_path: Path) -> None:
    """Slack counts the bytes of an edit. A draft that could not become the answer would stay above it."""
    words = " ".join(f"слово{number}" for number in range(400))
    assert len(words) < 4000 < len(words.encode())

    async with SlackBed() as bed:
        halt = asyncio.Event()
        async with journey(bed, tmp_path, [Say(text=words, pieces=400, halt=halt)]):
            await bed.do(Does.TEXT, "tell me")
            await until(lambda: any("▉" in one.text for one in bed.shown(bed.chat)), "no draft is shown")
            halt.set()
            await sees(bed, "слово399")
        shown = bed.shown(bed.chat)
        assert " ".join(one.text.strip() for one in shown) == words
        assert all(len(one.text.encode()) <= 4000 for one in shown) and len(shown) == 2


async def test_what_was_written_meanwhile_is_answered_once(tmp_path: Path) -> None:
    async with SlackBed() as bed:
        async with journey(bed, tmp_path, echo):
            await bed.do(Does.TEXT, "before")
            await sees(bed, "before")
        await bed.do(Does.TEXT, "meanwhile")
        async with journey(bed, tmp_path, echo):
            await sees(bed, "meanwhile")
        async with journey(bed, tmp_path, echo):
            await bed.do(Does.TEXT, "after")
            await sees(bed, "after")
        assert [one.text.rpartition(" ")[2] for one in bed.shown(bed.chat)] == [
            "before",
            "meanwhile",
            "after",
        ]
