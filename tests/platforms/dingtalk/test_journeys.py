"""Conversations on DingTalk through a whole gateway: a card that grows over a restart, and answers without
the permission for cards."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from hermes.domain.settings.platforms import PlatformSettings
from hermes.domain.word import replace
from hermes.testing.harness import Journey, open_settings
from hermes.testing.model import echo, obedient, say
from hermes.testing.platform_suite import Does, until
from tests.platforms.dingtalk.bed import DingTalkBed
from tests.platforms.dingtalk.samples import message

SETTINGS = open_settings(platforms={"dingtalk": PlatformSettings(allow_all_users=True)})


def journey(bed: DingTalkBed, folder: Path, script: Any = echo) -> Journey:
    return Journey(
        folder=folder, account="dingtalk", connect_platform=bed.connect, settings=SETTINGS, script=script
    )


async def seen(bed: DingTalkBed, words: str) -> None:
    await until(lambda: any(words in one.text for one in bed.shown()), lambda: f"people see {bed.shown()}")


async def test_a_card_that_was_begun_is_finished_by_the_next_life(tmp_path: Path) -> None:
    hold = asyncio.Event()
    long = replace(say("Well, let me think about it, and then say all of it."), hold=hold, pieces=4)
    async with DingTalkBed() as bed:
        async with journey(bed, tmp_path, [long, long]):
            await bed.do(Does.TEXT, "m1")
            await until(lambda: bool(bed.shown()), "no draft is seen")
        hold.set()
        async with journey(bed, tmp_path, [long, long]) as again:
            await until(lambda: any(card.done for card in bed.server.cards.values()), "it is never done")
            await again.until_idle()
        answers = [one for one in bed.shown() if "goes on when" not in one.text]
        assert len(answers) == 1 and answers[0].text.endswith("all of it.")
        assert [card.status for card in bed.server.cards.values()] == ["3"], "no card works for ever"


async def test_an_answer_in_a_card_is_known_when_it_is_quoted(tmp_path: Path) -> None:
    async with DingTalkBed() as bed:
        async with journey(bed, tmp_path) as here:
            await bed.do(Does.TEXT, "one")
            await seen(bed, "You said: one")
            await here.until_idle()
            (card,) = bed.shown()
            words = {"content": "why?", "isReplyMsg": True, "repliedMsg": {"msgId": "x"}}
            carrier = card.ref.rpartition(":")[2]
            asked = message("msgQuotes==", msgtype="text", text=words, originalProcessQueryKey=carrier)
            bed.server.say(asked)
            await seen(bed, "why?")
            await here.until_idle()
        assert "[It answers this message of yours:]\n> You said: one\n\nwhy?" in here.heard()


async def test_allowed_in_words(tmp_path: Path) -> None:
    async with DingTalkBed() as bed:
        async with journey(bed, tmp_path, obedient) as here:
            await bed.do(Does.TEXT, "m1 danger")
            await seen(bed, "Reply yes")
            await bed.do(Does.TEXT, "yes")
            await seen(bed, "answer to m1")
            assert [entry.chat for entry in here.world.log] == ["danger"]


async def test_without_the_permission_for_cards_the_answer_is_a_plain_message(tmp_path: Path) -> None:
    async with DingTalkBed() as bed:
        bed.server.forbidden = "/v1.0/card"
        async with journey(bed, tmp_path) as here:
            await bed.do(Does.TEXT, "hello")
            await seen(bed, "hello")
            await here.until_idle()
        assert len(bed.shown()) == 1 and not bed.server.cards
