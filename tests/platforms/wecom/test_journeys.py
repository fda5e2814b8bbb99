"""Conversations on WeCom through a whole gateway: an answer whose stream ended is sent anew, and questions
are answered in words."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from hermes.domain.settings.platforms import PlatformSettings
from hermes.domain.word import replace
from hermes.testing.clock import FakeClock
from hermes.testing.harness import Journey, open_settings
from hermes.testing.model import echo, obedient, say
from hermes.testing.platform_suite import Does, until
from tests.platforms.wecom.bed import WeComBed

SETTINGS = open_settings(platforms={"wecom": PlatformSettings(allow_all_users=True)})


def journey(bed: WeComBed, folder: Path, script: Any) -> Journey:
    return Journey(
        folder=folder, account="wecom", connect_platform=bed.connect, settings=SETTINGS, script=script
    )


async def seen(bed: WeComBed, words: str) -> None:
    await until(lambda: any(words in one.text for one in bed.shown()), lambda: f"people see {bed.shown()}")


@pytest.mark.parametrize("ending", ["expired", "drops", "silent"])
async def test_an_answer_that_comes_after_its_stream_has_ended_is_a_message(
    tmp_path: Path, ending: str
) -> None:
    hold, clock = asyncio.Event(), FakeClock()
    long = replace(say("Well, let me think about it, and then say all of it."), halt=hold, pieces=4)
    async with WeComBed() as bed:
        bed.clock = clock
        async with journey(bed, tmp_path, [long, say("the second")]) as here:
            await bed.do(Does.TEXT, "m1")
            await until(lambda: bool(bed.server.sent), "no draft is seen")
            setattr(bed.server.sent[0], ending, True)
            if ending == "drops":
                clock.jump(361)
            bed.hang(ending == "silent")
            hold.set()
            await seen(bed, "all of it.")
            await bed.do(Does.TEXT, "m2")
            await seen(bed, "the second")
            await here.until_idle()
        assert [one.text.endswith("all of it.") for one in bed.shown()] == [False, True, False]


async def test_the_agent_is_told_what_a_file_is_called(tmp_path: Path) -> None:
    async with WeComBed() as bed:
        async with journey(bed, tmp_path, echo) as here:
            await bed.do(Does.FILE, "")
            await until(lambda: bool(here.model.requests), "the agent hears nothing")
            assert "季度报表.docx" in str(here.model.requests[0])


async def test_allowed_in_words(tmp_path: Path) -> None:
    async with WeComBed() as bed:
        async with journey(bed, tmp_path, obedient) as here:
            await bed.do(Does.TEXT, "m1 danger")
            await seen(bed, "Reply yes")
            await bed.do(Does.TEXT, "yes")
            await seen(bed, "answer to m1")
            assert [entry.chat for entry in here.world.log] == ["danger"]
