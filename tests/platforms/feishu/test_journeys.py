"""Conversations on Feishu through a whole gateway: allowed by a button after a restart, and in a topic."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from hermes.domain.settings.platforms import PlatformSettings
from hermes.testing.harness import Journey, open_settings
from hermes.testing.model import echo, obedient
from hermes.testing.platform_suite import Does, until
from tests.platforms.feishu.bed import TOPIC, CalledBed, FeishuBed
from tests.platforms.feishu.samples import ROOT, US, received

SETTINGS = open_settings(platforms={"feishu": PlatformSettings(allow_all_users=True)})


def journey(bed: FeishuBed, folder: Path, script: Any = echo) -> Journey:
    return Journey(
        folder=folder, account="feishu", connect_platform=bed.connect, settings=SETTINGS, script=script
    )


async def seen(bed: FeishuBed, words: str) -> None:
    await until(lambda: any(words in one.text for one in bed.shown()), lambda: f"people see {bed.shown()}")


async def test_allowed_by_a_button_after_a_restart(tmp_path: Path) -> None:
    async with CalledBed() as bed:
        async with journey(bed, tmp_path, obedient):
            await bed.do(Does.TEXT, "m1 danger")
            await until(lambda: any(one.buttons for one in bed.shown()), lambda: f"people see {bed.shown()}")
        asked = next(one for one in bed.shown() if one.buttons)
        async with journey(bed, tmp_path, obedient) as again:
            value = next(
                told["hermes_button"] for label, told in bed.server.find(asked.ref).buttons if label == "once"
            )
            await bed.do(Does.BUTTON, value, on=asked.ref)
            await seen(bed, "answer to m1")
            await seen(bed, "✅ Approved")
            assert not any(one.buttons for one in bed.shown()), "nobody can press them any more"
            assert [entry.chat for entry in again.world.log] == ["danger"]


async def test_a_topic_is_a_conversation_of_its_own(tmp_path: Path) -> None:
    async with FeishuBed() as bed:
        async with journey(bed, tmp_path) as here:
            bed.server.say(
                received("intopic00001", "text", {"text": "@_user_1 go on"}, True, mentions=US, **TOPIC)
            )
            await seen(bed, "go on")
            bed.server.say(received("ingroup00001", "text", {"text": "@_user_1 and here"}, True, mentions=US))
            await seen(bed, "and here")
            await here.until_idle()
        assert [one.thread for one in bed.shown()] == [ROOT, None]
