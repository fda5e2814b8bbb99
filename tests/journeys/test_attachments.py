"""Files that go out with an answer: shown in the chat, or said why not; never from elsewhere."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from hermes.control.outbound.answers import REPEAT_MARK
from hermes.domain.address import Address
from hermes.domain.errors import HermesError, Refused
from hermes.domain.rows import OutState
from hermes.testing.harness import Journey
from hermes.testing.model import Say, say
from hermes.testing.world import World
from tests.journeys.cut import cut_everywhere, one_life, stops

MOST_WRITES = 40


class NoFiles(World):
    """People who can be sent words alone."""

    async def send(self, *told: Any) -> str:
        if told[-1]:
            raise Refused("bad picture")
        return await super().send(*told)


def workspace(folder: Path, **files: bytes) -> Path:
    place = folder / "workspace"
    place.mkdir(exist_ok=True)
    for name, data in files.items():
        (place / name.replace("_", ".")).write_bytes(data)
    return place


async def test_a_file_of_the_workspace_comes_with_the_answer(tmp_path: Path) -> None:
    place = workspace(tmp_path, chart_png=b"picture", song_mp3=b"music")
    script = [
        say(f"Here it is:\nMEDIA:{place}/chart.png\nEnjoy."),
        say(f"[[audio_as_voice]] MEDIA:{place}/song.mp3"),
        say(f"As a file: [[as_document]] MEDIA:`{place}/chart.png`"),
    ]
    async with Journey(folder=tmp_path, script=script) as chat:
        chat.world.write("draw", chat="1")
        await chat.until_seen("📎 image: chart.png", chat="1")
        assert chat.world.seen("1") == ["Here it is:\nEnjoy.", "📎 image: chart.png"]
        chat.world.write("sing", chat="2")
        await chat.until_seen("📎 voice: song.mp3", chat="2")
        await chat.until_idle()
        assert chat.world.seen("2") == ["📎 voice: song.mp3"]
        chat.world.write("again", chat="3")
        await chat.until_seen("📎 file: chart.png", chat="3")
        await chat.until_idle()
        assert chat.world.seen("3") == ["As a file:", "📎 file: chart.png"]


async def test_a_path_in_code_is_a_path_in_code(tmp_path: Path) -> None:
    place = workspace(tmp_path, chart_png=b"picture")
    text = f"Write `MEDIA:{place}/chart.png` or\n\n```\nMEDIA:{place}/chart.png\n```"
    async with Journey(folder=tmp_path, script=[say(text)]) as chat:
        chat.world.write("how")
        await chat.until_seen("Write")
        await chat.until_idle()
        [message] = chat.world.messages.values()
        assert message.files == () and message.text.count("chart.png") == 2


async def test_a_path_alone_attaches_nothing(tmp_path: Path) -> None:
    place = workspace(tmp_path, chart_png=b"picture")
    async with Journey(folder=tmp_path, script=[say(f"It is in {place}/chart.png now.")]) as chat:
        chat.world.write("where")
        await chat.until_idle()
        [message] = chat.world.messages.values()
        assert message.files == () and f"{place}/chart.png" in message.text


async def test_what_may_not_go_is_said(tmp_path: Path) -> None:
    workspace(tmp_path)
    (tmp_path / ".env").write_text("KEY=secret")
    text = f"Look:\nMEDIA:/etc/passwd\nMEDIA:{tmp_path}/.env\nMEDIA:{tmp_path}/workspace/no.png"
    async with Journey(folder=tmp_path, script=[say(text)]) as chat:
        chat.world.write("show")
        await chat.until_seen("Look:")
        await chat.until_idle()
        [message] = chat.world.messages.values()
        outside = "it is outside of the folders that files may be sent from"
        assert message.files == ()
        assert f"Not attached: /etc/passwd ({outside})." in message.text
        assert f"{tmp_path}/.env ({outside})." in message.text
        assert "no.png (there is no such file)." in message.text


@pytest.mark.parametrize(
    ("kind", "size", "told"), [("plain", 10, True), ("keyed", 10, False), ("keyed", 5000, True)]
)
async def test_a_chat_that_takes_no_such_file_is_told_of_it(
    tmp_path: Path, kind: str, size: int, told: bool
) -> None:
    place = workspace(tmp_path, chart_png=b"x" * size)
    async with Journey(folder=tmp_path, script=[say(f"MEDIA:{place}/chart.png")], kind=kind) as chat:
        chat.world.write("draw")
        await chat.until_seen("chart.png")
        await chat.until_idle()
        [seen] = chat.world.seen()
        why = (
            "this chat takes files of up to 1000 bytes" if kind == "keyed" else "this chat takes no such file"
        )
        assert (why in seen) is told
        assert seen.startswith("📎 file: chart.png") is not told


async def test_a_file_that_is_refused_takes_no_other_along(tmp_path: Path) -> None:
    place = workspace(tmp_path, one_png=b"1", two_png=b"2")
    sent: list[str] = []

    def trouble(what: str, chat: str) -> HermesError | None:
        sent.append(what)
        return Refused("bad picture") if what == "send" and sent.count("send") == 2 else None

    script = [say(f"Two:\nMEDIA:{place}/one.png\nMEDIA:{place}/two.png")]
    async with Journey(folder=tmp_path, script=script, world=World(trouble=trouble), kind="edits") as chat:
        chat.world.write("draw")
        await chat.until_seen("📎 image: two.png")
        await chat.until_idle()
        told = "📎 one.png (1 byte) could not be sent: bad picture"
        await chat.until_seen(told)
        assert chat.world.seen() == ["Two:", "📎 image: two.png", told]
        [dead] = await chat.database.read(lambda tx: tx.outbox.find((OutState.DEAD,)))
        assert [file.name for file in dead.body.attachments] == ["one.png"]


@pytest.mark.parametrize("after", [True, False], ids=["after", "before"])
async def test_people_hear_of_a_refused_file_once_however_it_is_stopped(
    tmp_path: Path, full: bool, after: bool
) -> None:
    told = "📎 one.png (1 byte) could not be sent: bad picture"

    def make(folder: Path) -> Journey:
        place = workspace(folder, one_png=b"1")
        world = NoFiles()
        world.write("draw")
        return Journey(folder=folder, world=world, script=lambda _: say(f"MEDIA:{place}/one.png"))

    async def live(chat: Journey) -> None:
        await chat.until_seen(told)
        await chat.until_idle()
        assert sum(seen == told for seen in chat.world.seen()) == 1, f"people see {chat.world.seen()}"
        [dead] = await chat.database.read(lambda tx: tx.outbox.find((OutState.DEAD,)))
        assert dead.body.attachments, "an operator can still send it again"

    await cut_everywhere(tmp_path, make, live, after=after, full=full)


async def test_where_nothing_is_taken_nothing_is_said_of_files_and_the_operator_hears_once(
    tmp_path: Path,
) -> None:
    place = workspace(tmp_path, one_png=b"1")
    shut = World(trouble=lambda what, chat: Refused("blocked") if chat == "1" else None)
    async with Journey(folder=tmp_path, script=[say(f"MEDIA:{place}/one.png")], world=shut) as chat:
        home = Address(platform="fake", chat="home")
        await chat.database.write(lambda tx: tx.directory.set_home("fake", home, chat.clock.now()))
        chat.world.write("draw")
        await chat.until_seen("one.png (1 byte)", chat="home")
        await chat.until_idle()
        assert len(chat.world.seen("home")) == 1 and chat.world.seen("1") == []
        rows = await chat.database.read(lambda tx: tx.outbox.find((OutState.DEAD, OutState.GONE)))
        assert [row.state for row in rows] == [OutState.DEAD, OutState.GONE]


@pytest.mark.parametrize("after", [True, False], ids=["after", "before"])
async def test_stopped_at_each_write_the_file_comes_once(tmp_path: Path, full: bool, after: bool) -> None:
    for number in stops(full, MOST_WRITES, f"{after}"):
        folder = tmp_path / str(number)
        folder.mkdir()
        place, world = workspace(folder, chart_txt=b"numbers"), World()
        world.write("draw")

        def script(_: object, place: Path = place) -> Say:
            return say(f"Here:\nMEDIA:{place}/chart.txt")

        crashed = await one_life(
            Journey(folder=folder, world=world, script=script), _look, stop_at=number, after=after
        )
        if crashed:
            await one_life(Journey(folder=folder, world=world, script=script), _look)
        files = [message for message in world.messages.values() if message.files and not message.deleted]
        unmarked = [message for message in files if REPEAT_MARK not in message.text]
        where = f"stopped {'after' if after else 'before'} write {number}: {world.seen()}"
        assert files and len(unmarked) <= 1, where
        if not crashed:
            return
    raise AssertionError("it never came to the end of its writes")


async def _look(chat: Journey) -> None:
    await chat.until_seen("Here:", "📎 file: chart.txt")
    await chat.until_idle()
