"""An answer with a picture, a document and a voice note: each arrives as what it is; nothing private goes."""

from __future__ import annotations

from pathlib import Path

import pytest

from hermes.testing.harness import Journey
from hermes.testing.model import Say, say
from tests.acceptance.telling import seen_once, write
from tests.journeys.cut import cut_everywhere
from tests.journeys.test_attachments import workspace

FILES = ("📎 image: chart.png", "📎 file: report.pdf", "📎 voice: hello.ogg")
OUTSIDE = "it is outside of the folders that files may be sent from"


def journey(folder: Path, kind: str = "edits") -> Journey:
    place = workspace(folder, chart_png=b"picture", report_pdf=b"%PDF", hello_ogg=b"OggS")
    for name in (".env", "auth.json"):
        (folder / name).write_text("KEY=secret")
    text = (
        f"Here:\nMEDIA:{place}/chart.png\nMEDIA:{place}/report.pdf\n"
        f"[[audio_as_voice]] MEDIA:{place}/hello.ogg\n"
        f"MEDIA:{folder}/.env MEDIA:{folder}/auth.json MEDIA:/etc/passwd"
    )

    def script(_: object) -> Say:
        return say(text)

    return Journey(folder=folder, kind=kind, script=script)


async def talk(chat: Journey) -> None:
    write(chat.world, "the report, please")
    await chat.until_seen("Here:")
    await chat.until_idle()
    sent = [file for message in chat.world.messages.values() for file in message.files]
    assert not any(name in file for file in sent for name in (".env", "auth.json", "passwd"))
    for private in (f"{chat.folder}/.env", f"{chat.folder}/auth.json", "/etc/passwd"):
        assert any(f"{private} ({OUTSIDE})" in text for text in chat.world.seen()), chat.world.seen()
    assert not any("secret" in text or "MEDIA:" in text or "[[" in text for text in chat.world.seen())
    if chat.kind == "edits":
        seen_once(chat.world, "Here:", *FILES)


@pytest.mark.parametrize("kind", ["edits", "plain", "keyed"])
async def test_each_file_as_what_it_is(tmp_path: Path, kind: str) -> None:
    async with journey(tmp_path, kind) as chat:
        await talk(chat)
        files = {
            "edits": list(FILES),
            "plain": [],
            "keyed": ["📎 file: chart.png", "📎 file: report.pdf", "📎 file: hello.ogg"],
        }[kind]
        assert chat.world.seen()[1:] == files
        if kind == "plain":
            assert chat.world.seen()[0].count("this chat takes no such file") == 3


@pytest.mark.parametrize("after", [True, False], ids=["after", "before"])
async def test_stopped_at_each_write(tmp_path: Path, full: bool, after: bool) -> None:
    await cut_everywhere(tmp_path, journey, talk, after=after, full=full)
