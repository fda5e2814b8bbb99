"""Conversations on Telegram through a whole gateway: allowed by a button, after a restart too; in a topic;
with files."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from hermes.control.outbound.sending import OutboundMessage
from hermes.domain.chats.message import Attachment, Body, MediaKind
from hermes.domain.chats.rows import OutState
from hermes.domain.errors import UserError
from hermes.domain.ids import AgentId
from hermes.domain.settings.platforms import PlatformSettings
from hermes.domain.settings.settings import StreamingSettings
from hermes.domain.word import replace
from hermes.testing.harness import Journey, open_settings
from hermes.testing.model import Say, echo, obedient, say
from hermes.testing.platform_suite import Does, until
from tests.platforms.telegram.bed import FORUM, GROUP, TelegramBed

PICTURE = b"\x89PNG\r\n\x1a\n"
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


async def test_a_group_that_becomes_a_supergroup_goes_on_talking(tmp_path: Path) -> None:
    async with TelegramBed() as bed:
        async with journey(bed, tmp_path, obedient) as chat:
            bed.server.say(-77, "m1", kind="group")
            await until(lambda: any("answer to m1" in one.text for one in bed.shown()), "no answer")
            bed.server.migrated[-77] = GROUP
            bed.server.say(-77, kind="group", migrate_to_chat_id=GROUP)
            bed.server.say(GROUP, kind="supergroup", migrate_from_chat_id=-77)
            await until(lambda: len(bed.server.updates) == bed.acknowledged(), "not taken")
            bed.server.say(GROUP, "m2", kind="supergroup")
            await until(lambda: any("answer to m2" in one.text for one in bed.shown()), "no answer")
            said = [one.record.text for one in chat.model.requests[-1].entries if hasattr(one.record, "text")]
            assert "m1" in said and "m2" in said, "it has forgotten what was said in the group"


@pytest.mark.parametrize("where", ["private", "group", "an older server"])
async def test_an_answer_grows_as_a_draft_of_telegrams_own(tmp_path: Path, where: str) -> None:
    streaming = StreamingSettings(transport="draft", edit_interval=0.0, buffer_threshold=1)
    go = asyncio.Event()
    async with TelegramBed() as bed:
        bed.server.has_drafts = where != "an older server"
        chat = journey(bed, tmp_path, lambda request: Say(text="word " * 20, pieces=4, hold=go))
        async with replace(chat, settings=replace(SETTINGS, streaming=streaming)) as chat:
            if where == "group":
                bed.server.say(GROUP, "speak", kind="supergroup")
            else:
                await bed.do(Does.TEXT, "speak")
            await until(lambda: bool(bed.server.drafts or bed.shown()), "nothing is shown")
            assert bool(bed.server.drafts) is (where == "private")
            turns = await chat.database.read(lambda tx: tx.outbox.find(tuple(OutState)))
            assert not turns, "finals are not written yet"
            go.set()
            await until(
                lambda: [one.text for one in bed.shown()] == [("word " * 20).strip()],
                lambda: f"people see {bed.shown()}",
            )
            await chat.until_idle()
            if where == "private":
                assert bed.shown()[0].edits == 0, "the final is a message of its own"
                assert {number for _, number, _ in bed.server.drafts} == {bed.server.drafts[0][1]}


async def test_pictures_of_an_answer_are_an_album_below_its_words(tmp_path: Path) -> None:
    workspace = tmp_path / "workspace"
    workspace.mkdir()
    for name in ("a.png", "b.png"):
        (workspace / name).write_bytes(PICTURE + name.encode())
    (workspace / "c.txt").write_text("words")
    lines = "\n".join(f"MEDIA:{workspace / name}" for name in ("a.png", "b.png", "c.txt"))
    async with TelegramBed() as bed:
        bed.open_file = opener(tmp_path)
        async with journey(bed, tmp_path, lambda request: say(f"Here they **are**.\n{lines}")) as chat:
            await bed.do(Does.TEXT, "show me")
            await until(lambda: len(bed.shown()) == 4, lambda: f"people see {bed.shown()}")
            await chat.until_idle()
        words, *files = bed.shown()
        assert words.text == "Here they <b>are</b>." and not any(one.text for one in files)
        kinds = [MediaKind.IMAGE, MediaKind.IMAGE, MediaKind.FILE]
        assert [one.files[0][0] for one in files] == kinds
        album = [one.message.get("media_group_id") for one in bed.server.sent[1:]]
        assert album[0] == album[1] is not None and album[2] is None


@pytest.mark.parametrize(("length", "messages"), [(700, 2), (900, 3)])
async def test_a_letter_with_files_is_one_message_if_its_words_are_few(
    tmp_path: Path, length: int, messages: int
) -> None:
    """Nothing of it was shown before, so its words stand under the first picture."""
    async with TelegramBed() as bed:
        bed.open_file = opener(tmp_path)
        async with journey(bed, tmp_path, echo) as chat:
            main = AgentId("main")
            pictures = (PICTURE + name for name in (b"a", b"b"))
            files = tuple([await chat.gateway.keep_media(main, data, "image/png") for data in pictures])
            body = Body(text="x" * length, attachments=files)
            await chat.gateway.courier.post(main, OutboundMessage(key="k", target=str(bed.chat), body=body))
            await until(lambda: len(bed.shown()) == messages, lambda: f"people see {bed.shown()}")
            await chat.until_idle()
        assert bed.shown()[0].text == "x" * length
        assert bool(bed.shown()[0].files) is (messages == 2)


async def test_words_under_a_file_that_cannot_go_go_alone(tmp_path: Path) -> None:
    async with TelegramBed() as bed:

        async def gone(file: Attachment) -> bytes:
            raise UserError("The file is gone.")

        bed.open_file = gone
        async with journey(bed, tmp_path, echo) as chat:
            file = Attachment(kind=MediaKind.IMAGE, ref="x", name="a.png", mime="image/png", size=5)
            body = Body(text="Look at *this*.", attachments=(file,))
            await chat.gateway.courier.post(
                AgentId("main"), OutboundMessage(key="k", target=str(bed.chat), body=body)
            )
            await until(lambda: len(bed.shown()) == 1, lambda: f"people see {bed.shown()}")
            await chat.until_idle()
        (shown,) = bed.shown()
        assert shown.text.startswith("Look at <i>this</i>.\n\n📎") and "gone" in shown.text


def opener(folder: Path) -> Callable[[Attachment], Awaitable[bytes]]:
    async def open_file(file: Attachment) -> bytes:
        return next((folder / "media").rglob(f"{file.sha256}*")).read_bytes()

    return open_file
