"""Conversations on Weixin through a whole gateway: what was written at night is answered in the morning, and
questions are answered in words."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from hermes.domain.settings.platforms import PlatformSettings
from hermes.testing.harness import Journey, open_settings
from hermes.testing.model import echo, obedient
from hermes.testing.platform_suite import Does, until
from tests.platforms.weixin.bed import WeixinBed
from tests.platforms.weixin.samples import message, text

SETTINGS = open_settings(platforms={"weixin": PlatformSettings(allow_all_users=True)})


def journey(bed: WeixinBed, folder: Path, script: Any) -> Journey:
    return Journey(
        folder=folder, account="weixin", connect_platform=bed.connect, settings=SETTINGS, script=script
    )


async def seen(bed: WeixinBed, words: str) -> None:
    await until(lambda: any(words in one.text for one in bed.shown()), lambda: f"people see {bed.shown()}")


async def test_what_was_written_at_night_is_answered_in_the_morning(tmp_path: Path) -> None:
    async with WeixinBed() as bed:
        bed.folder = tmp_path / "kept"
        async with journey(bed, tmp_path, echo):
            await bed.do(Does.TEXT, "good night")
            await seen(bed, "good night")
        for number in range(3):
            await bed.do(Does.TEXT, f"dream {number}")
        async with journey(bed, tmp_path, echo) as again:
            await seen(bed, "dream 2")
            await again.until_idle()
        assert bed.server.sent[-1].context == "context+4/=", "the token of their last message"


async def test_a_quote_that_only_names_a_message_is_told_with_its_words(tmp_path: Path) -> None:
    async with WeixinBed() as bed:
        async with journey(bed, tmp_path, echo) as here:
            await bed.do(Does.TEXT, "the old plan")
            await seen(bed, "the old plan")
            theirs, ours = str(2**63 + 1), bed.server.sent[-1].ref
            for number, (words, ref) in enumerate((("this one", theirs), ("and this", ours)), 800):
                bed.server.say(message(number, text(words, ref_msg={"svr_id": ref})))
                await seen(bed, words)
            await here.until_idle()
            told = [str(request) for request in here.model.requests]
        assert "answers this message by" in told[1] and "> the old plan" in told[1]
        assert "answers this message of yours" in told[2]


async def test_allowed_in_words(tmp_path: Path) -> None:
    async with WeixinBed() as bed:
        async with journey(bed, tmp_path, obedient) as here:
            await bed.do(Does.TEXT, "m1 danger")
            await seen(bed, "Reply yes")
            await bed.do(Does.TEXT, "yes")
            await seen(bed, "answer to m1")
            assert [entry.chat for entry in here.world.log] == ["danger"]
