"""Conversations on Discord through a whole gateway: allowed by a button, after a restart too; each thread for
itself; who has the role; a slash command."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path

from hermes.domain.settings.platforms import PlatformSettings
from hermes.domain.settings.settings import Settings
from hermes.testing.harness import Journey, open_settings
from hermes.testing.model import echo, obedient
from hermes.testing.platform_suite import Does, until
from tests.platforms.discord.bed import DiscordBed, ForgetfulBed
from tests.platforms.discord.objects import BOT, GENERAL, THREAD
from tests.platforms.discord.samples import ROLE

OPEN = open_settings(platforms={"discord": PlatformSettings(allow_all_users=True)})


def journey(bed: DiscordBed, folder: Path, script: object = obedient, settings: Settings = OPEN) -> Journey:
    return Journey(
        folder=folder,
        account="discord",
        connect_platform=bed.connect,
        settings=settings,
        script=script,  # type: ignore[arg-type]
    )


def told(bed: DiscordBed) -> str:
    return f"people see {bed.shown()}"


async def test_allowed_by_a_button_after_a_restart(tmp_path: Path) -> None:
    async with DiscordBed() as bed:
        async with journey(bed, tmp_path):
            await bed.do(Does.TEXT, "m1 danger")
            await until(lambda: any(one.buttons for one in bed.shown()), lambda: told(bed))
        asked = next(one for one in bed.shown() if one.buttons)
        sent = next(one for one in bed.server.sent if one.message["id"] == asked.ref)
        keys = [key for row in sent.message["components"] for key in row["components"]]
        data = next(key["custom_id"] for key in keys if key["label"] == "once")
        async with journey(bed, tmp_path) as again:
            await bed.do(Does.BUTTON, data, on=asked.ref)
            await until(lambda: any("answer to m1" in one.text for one in bed.shown()), lambda: told(bed))
            await until(lambda: len(bed.server.answered) == 1, "the button is not answered")
            assert [entry.chat for entry in again.world.log] == ["danger"], "done once, and only when allowed"


async def test_each_thread_is_a_conversation_of_its_own(tmp_path: Path) -> None:
    async with ForgetfulBed() as bed:
        async with journey(bed, tmp_path, echo):
            await bed.do(Does.TEXT, "hello")
            await until(lambda: len(bed.shown()) == 1, lambda: told(bed))
        # Written while nobody was there, and read from the channels. A mention in a channel begins a thread.
        begun = {THREAD: THREAD}
        for place in (GENERAL, THREAD):
            said = bed.server.say(place, f"<@{BOT['id']}> place {place}", mentions=[BOT])
            begun.setdefault(place, said["id"])
        bed.server.say(GENERAL, "not for the bot")
        async with journey(bed, tmp_path, echo):
            await until(lambda: len(bed.shown()) == 3, lambda: told(bed))
            await until(lambda: all("You said:" in one.text for one in bed.shown()), "no whole answers")
            await asyncio.sleep(0.1)
        found = {one.chat: re.findall(r"place \d+", one.text) for one in bed.shown()[1:]}
        assert found == {begun[place]: [f"place {place}"] for place in (GENERAL, THREAD)}


async def test_who_has_the_role_may_write(tmp_path: Path) -> None:
    async with DiscordBed() as bed:
        bed.settings = PlatformSettings(allowed_roles=(ROLE,))
        settings = open_settings(platforms={"discord": bed.settings})
        async with journey(bed, tmp_path, echo, settings):
            bed.server.roles = ["700000000000000002"]
            await bed.do(Does.MENTION, "without the role")
            bed.server.roles = [ROLE]
            await bed.do(Does.MENTION, "with the role")
            await until(lambda: len(bed.shown()) == 1, lambda: told(bed))
            await until(lambda: "with the role" in bed.shown()[0].text, lambda: told(bed))
            await asyncio.sleep(0.1)
        assert len(bed.shown()) == 1, told(bed)


async def test_a_slash_command_is_answered_in_the_channel(tmp_path: Path) -> None:
    async with DiscordBed() as bed:
        async with journey(bed, tmp_path):
            await until(lambda: len(bed.server.commands) > 5, "no menu")
            await bed.do(Does.COMMAND, "/whoami")
            await until(lambda: [one.chat for one in bed.shown()] == [GENERAL], lambda: told(bed))
            await until(lambda: len(bed.server.answered) == 1, "Discord shows a failure")
        assert "501" in bed.shown()[0].text or "Ann" in bed.shown()[0].text
