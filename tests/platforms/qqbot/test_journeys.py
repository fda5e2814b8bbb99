"""Conversations on QQ through a whole gateway: an answer of more messages than QQ takes goes on when the
person writes again, and nothing of it is lost."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from hermes.domain.settings.platforms import PlatformSettings
from hermes.testing.clock import QuickClock
from hermes.testing.harness import Journey, open_settings
from hermes.testing.model import obedient, say
from hermes.testing.platform_suite import Does, until
from tests.platforms.qqbot.bed import QQBed

SETTINGS = open_settings(platforms={"qqbot": PlatformSettings(allow_all_users=True)})


def journey(bed: QQBed, folder: Path, script: Any) -> Journey:
    return Journey(
        folder=folder,
        account="qqbot",
        connect_platform=bed.connect,
        settings=SETTINGS,
        script=script,
        clock=QuickClock(),
    )


async def test_a_long_answer_goes_on_when_they_write_again(tmp_path: Path) -> None:
    words = [f"w{number}" for number in range(3_400)]
    async with QQBed() as bed:
        async with journey(bed, tmp_path, [say(" ".join(words)), say("that was all")]) as here:
            await bed.do(Does.TEXT, "tell me all")
            await until(lambda: len(bed.shown()) == 4, lambda: f"{len(bed.shown())} messages came")
            await bed.do(Does.TEXT, "go on")
            await until(
                lambda: "that was all" in bed.shown()[-1].text, lambda: f"{len(bed.shown())} messages"
            )
            await here.until_idle()
        texts = " ".join(one.text for one in bed.shown()).split()
        assert texts == [*words, "that", "was", "all"], "in order, and whole"
        assert all(len(seqs) <= 4 for seqs in bed.server.answered.values())


async def test_allowed_in_words(tmp_path: Path) -> None:
    async with QQBed() as bed:
        async with journey(bed, tmp_path, obedient) as here:
            await bed.do(Does.TEXT, "m1 danger")
            await until(lambda: any("Reply yes" in one.text for one in bed.shown()), "nobody asks")
            await bed.do(Does.TEXT, "yes")
            await until(lambda: any("answer to m1" in one.text for one in bed.shown()), "no answer")
            assert [entry.chat for entry in here.world.log] == ["danger"]
