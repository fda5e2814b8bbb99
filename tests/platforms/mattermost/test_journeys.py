"""Conversations on Mattermost through a whole gateway: allowed by a button, in words where there are none, in
threads, and after a night in which nobody listened."""

from __future__ import annotations

from pathlib import Path

from hermes.domain.settings.platforms import PlatformSettings
from hermes.testing.harness import Journey, open_settings
from hermes.testing.model import echo, obedient, say
from hermes.testing.platform_suite import Does, until
from tests.platforms.mattermost.bed import MattermostBed
from tests.platforms.mattermost.samples import PRIVATE, TEAM

SETTINGS = open_settings(platforms={"mattermost": PlatformSettings(allow_all_users=True)})


def journey(bed: MattermostBed, folder: Path, script: object = obedient) -> Journey:
    return Journey(
        folder=folder,
        account="mattermost",
        connect_platform=bed.connect,
        settings=SETTINGS,
        script=script,  # type: ignore[arg-type]
    )


async def said(bed: MattermostBed, words: str) -> None:
    await until(
        lambda: any(words in one.text for one in bed.shown()),
        lambda: f"people see {bed.shown()}",
    )


async def test_allowed_by_a_button_after_a_restart(tmp_path: Path) -> None:
    async with MattermostBed() as bed:
        async with journey(bed, tmp_path):
            await bed.do(Does.TEXT, "m1 danger")
            await until(lambda: any(one.buttons for one in bed.shown()), lambda: f"people see {bed.shown()}")
        asked = next(one for one in bed.shown() if one.buttons)
        async with journey(bed, tmp_path) as again:
            await until(lambda: bed.server.greeted > 1, "it does not come back")
            assert await bed.server.press(asked.ref, "once") == 200
            await said(bed, "answer to m1")
            await said(bed, "✅ Approved by ann.")
            assert not any(one.buttons for one in bed.shown()), "nobody can press them any more"
            assert [entry.chat for entry in again.world.log] == ["danger"], "done once, and only when allowed"


async def test_allowed_in_words_where_there_are_no_buttons(tmp_path: Path) -> None:
    async with MattermostBed() as bed:
        bed.said.clear()
        async with journey(bed, tmp_path) as here:
            await bed.do(Does.TEXT, "m1 danger")
            asked = lambda: [  # noqa: E731
                part["text"]
                for number in bed.server.sent
                for part in bed.server.posts[number]["props"].get("attachments", ())
            ]
            await until(lambda: bool(asked()), lambda: f"people see {bed.shown()}")
            assert "`once`" in asked()[0]
            await bed.do(Does.TEXT, "once")
            await said(bed, "answer to m1")
            assert [entry.chat for entry in here.world.log] == ["danger"]


async def test_each_thread_is_a_conversation_of_its_own(tmp_path: Path) -> None:
    async with MattermostBed() as bed:
        async with journey(bed, tmp_path, echo):
            await until(lambda: bed.server.greeted > 0, "nobody came")
            roots = [bed.server.say(TEAM, f"a beginning {one}")["id"] for one in range(2)]
            for root in roots:
                bed.server.say(TEAM, "@hermes go on", root_id=root)
            await until(lambda: len(bed.shown()) >= 2, lambda: f"people see {bed.shown()}")
            bed.server.say(TEAM, "@hermes !status", root_id=roots[0])
            bed.server.say(PRIVATE, "!whoami")
            await until(lambda: len(bed.shown(bed.chat)) == 1, lambda: f"people see {bed.shown()}")
        assert {one.thread for one in bed.shown() if one.chat == TEAM} == set(roots)
        assert "ann" in bed.shown(bed.chat)[0].text


async def test_a_server_that_takes_short_posts_gets_more_of_them(tmp_path: Path) -> None:
    words = [f"w{number}" for number in range(2_000)]
    async with MattermostBed() as bed:
        bed.server.most_runes = 4_000
        async with journey(bed, tmp_path, [say(" ".join(words))]) as here:
            await bed.do(Does.TEXT, "tell me all")
            await said(bed, words[-1])
            await here.until_idle()
        assert " ".join(one.text for one in bed.shown()).split() == words


async def test_what_was_written_at_night_is_answered_in_the_morning(tmp_path: Path) -> None:
    async with MattermostBed() as bed:
        async with journey(bed, tmp_path, echo):
            await bed.do(Does.TEXT, "good night")
            await said(bed, "good night")
        for number in range(3):
            bed.server.say(PRIVATE, f"dream {number}")
        bed.server.say(TEAM, "not for you")
        async with journey(bed, tmp_path, echo):
            await said(bed, "dream 2")
        assert not any(one.chat == TEAM for one in bed.shown()), "nobody called it there"
