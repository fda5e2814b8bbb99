"""Conversations on Telegram through a whole gateway: allowed by a button, after a restart too; in a topic."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

from hermes.domain.settings import PlatformSettings
from hermes.testing.harness import Journey, open_settings
from hermes.testing.model import echo, obedient
from hermes.testing.platform_suite import Does, until
from tests.platforms.telegram.bed import FORUM, TelegramBed

SETTINGS = open_settings(platforms={"telegram": PlatformSettings(allow_all_users=True)})


def journey(bed: TelegramBed, folder: Path, script: object = obedient) -> Journey:
    return Journey(
        folder=folder,
        account="telegram",
        connect_platform=bed.connect,
        settings=SETTINGS,
        script=script,  # type: ignore[arg-type]
    )


async def test_allowed_by_a_button_after_a_restart(tmp_path: Path) -> None:
    async with TelegramBed() as bed:
        async with journey(bed, tmp_path):
            await bed.do(Does.TEXT, "m1 danger")
            await until(lambda: any(one.buttons for one in bed.shown()), lambda: f"people see {bed.shown()}")
        asked = next(one for one in bed.shown() if one.buttons)
        assert "once" in asked.buttons
        sent = next(one for one in bed.server.sent if str(one.message["message_id"]) == asked.ref)
        keys = [key for row in sent.message["reply_markup"]["inline_keyboard"] for key in row]
        data = next(key["callback_data"] for key in keys if key["text"] == "once")
        await bed.do(Does.BUTTON, data, on=asked.ref)
        async with journey(bed, tmp_path) as again:
            await until(
                lambda: any("answer to m1" in one.text for one in bed.shown()),
                lambda: f"people see {bed.shown()}",
            )
            await until(lambda: len(bed.server.answered) == 1, "the button is not answered")
            assert [entry.chat for entry in again.world.log] == ["danger"], "done once, and only when allowed"


async def test_each_topic_is_a_conversation_of_its_own(tmp_path: Path) -> None:
    async with TelegramBed() as bed:
        async with journey(bed, tmp_path, echo):
            for thread in (77, 78):
                bed.server.say(
                    FORUM,
                    f"@hermes_test_bot topic {thread}",
                    kind="supergroup",
                    message_thread_id=thread,
                    is_topic_message=True,
                )
            forum = replace(bed.chat, chat=str(FORUM))
            await until(lambda: len(bed.shown(forum)) == 2, lambda: f"people see {bed.shown()}")
            await until(
                lambda: all(one.text.startswith("You said:") for one in bed.shown(forum)), "no whole answers"
            )
        found = {
            one.thread: re.sub(r".*topic", "topic", one.text, flags=re.S)[:8] for one in bed.shown(forum)
        }
        assert found == {"77": "topic 77", "78": "topic 78"}
