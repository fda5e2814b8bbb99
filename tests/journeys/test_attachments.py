"""Files that go out with an answer: shown in the chat, or said why not; never from elsewhere."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from hermes.control.outbound.answers import REPEAT_MARK
from hermes.control.outbound.outbox_admin import retry_messages
from hermes.domain.chats.address import Address
from hermes.domain.chats.message import Attachment, Body, MediaKind
from hermes.domain.chats.rows import OutboxRow, OutState
from hermes.domain.errors import HermesError, NeedsLogin, Refused, Unreachable
from hermes.domain.ports.agent import ModelRequest
from hermes.testing.clock import FakeClock
from hermes.testing.harness import Journey
from hermes.testing.model import Say, last_words, say
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


class LongLine(World):
    """A line on which files break on their way. `arrive`: the last of them got there, and nobody heard."""

    def __init__(self, *, broken: int = 1000, arrive: bool = False, hangs: bool = False) -> None:
        super().__init__()
        self.broken, self.arrive, self.hangs, self.uploads = broken, arrive, hangs, 0

    async def send(self, *told: Any) -> str:
        if not told[-1]:
            return await super().send(*told)
        self.uploads += 1
        if self.hangs:
            await asyncio.Event().wait()
        if self.uploads > self.broken:
            return await super().send(*told)
        if self.arrive and self.uploads == self.broken:
            await super().send(*told)
        raise Unreachable("it stands still", in_transfer=True, maybe_done=self.arrive)


def slow_journey(folder: Path, world: World, words: str = "Here:", kind: str = "edits") -> Journey:
    place = workspace(folder, film_mp4=b"film")

    def script(request: ModelRequest) -> Say:
        return say(f"{words}\nMEDIA:{place}/film.mp4" if last_words(request) == "film" else "and this")

    return Journey(folder=folder, world=world, script=script, kind=kind, clock=FakeClock())


async def pass_until_seen(chat: Journey, *texts: str) -> None:
    assert isinstance(chat.clock, FakeClock)
    for _ in range(3000):
        if all(any(text in seen for seen in chat.world.seen()) for text in texts):
            return
        await chat.clock.leap(1.0)
    raise AssertionError(f"people see {chat.world.seen()}")


async def test_a_file_that_breaks_again_and_again_is_given_up_and_holds_nobody_up_for_a_day(
    tmp_path: Path,
) -> None:
    world = LongLine()
    async with slow_journey(tmp_path, world) as chat:
        world.write("film")
        await chat.until_seen("Here:")
        world.write("more")
        told = "📎 film.mp4 (4 bytes) could not be sent: it stands still"
        await pass_until_seen(chat, told, "and this")
        await chat.until_idle()
        assert world.seen() == ["Here:", "and this", told] and world.uploads == 8
        [dead] = await chat.database.read(lambda tx: tx.outbox.find((OutState.DEAD,)))
        assert [file.name for file in dead.body.attachments] == ["film.mp4"]
        assert chat.clock.monotonic() < 3600
        world.broken = 0
        await chat.database.write(lambda tx: retry_messages(tx, [], chat.clock.now(), lambda _: True))
        chat.gateway.attach("fake", chat.platform)
        await chat.until_seen("📎 file: film.mp4")


async def test_the_words_under_a_file_come_without_it(tmp_path: Path) -> None:
    world = LongLine()
    async with slow_journey(tmp_path, world) as chat:
        await chat.disconnect()
        file = Attachment(kind=MediaKind.VIDEO, ref="x", name="film.mp4", size=4)
        body = Body(text="Look at this.", attachments=(file,))
        to = Address(platform="fake", chat="1")
        row = OutboxRow(key="k", to=to, body=body, created_at=chat.clock.now())
        await chat.database.write(lambda tx: tx.outbox.add(row))
        chat.connect()
        await pass_until_seen(chat, "Look at this.")
        await chat.until_idle()
        assert world.seen() == ["Look at this.\n\n📎 film.mp4 (4 bytes) could not be sent: it stands still"]


@pytest.mark.parametrize("kind", ["edits", "forgetful"])
async def test_a_file_that_came_after_all_is_not_called_lost(tmp_path: Path, kind: str) -> None:
    """Where the chat can be searched it is found; elsewhere it is said that nobody knows."""
    world = LongLine(broken=8, arrive=True)
    async with slow_journey(tmp_path, world, kind=kind) as chat:
        world.write("film")
        await chat.until_seen("Here:")
        await pass_until_seen(chat, "film.mp4")
        for _ in range(30):
            await chat.clock.leap(10.0)  # type: ignore[attr-defined]
        await chat.until_idle()
        if kind == "edits":
            assert world.seen() == ["Here:", "📎 file: film.mp4"]
        else:
            doubt = "could not be sent: it stands still; it may have arrived all the same"
            came = f"{REPEAT_MARK}\n📎 file: film.mp4"
            assert world.seen() == ["Here:", came, f"📎 film.mp4 (4 bytes) {doubt}"]


async def test_an_outage_costs_no_file(tmp_path: Path) -> None:
    """What cannot be reached says nothing about the file."""
    down = True

    def trouble(what: str, chat: str) -> HermesError | None:
        return Unreachable("down") if down and what == "send" else None

    world = World(trouble=trouble)
    async with slow_journey(tmp_path, world) as chat:
        world.write("film")
        await chat.until_taken()
        for _ in range(360):
            await chat.clock.leap(10.0)  # type: ignore[attr-defined]
        assert world.seen() == []
        down = False
        await pass_until_seen(chat, "Here:", "📎 file: film.mp4")


@pytest.mark.parametrize(
    "error",
    [Unreachable("down"), Unreachable("Too Many Requests", after=5.0), NeedsLogin("token expired")],
    ids=["down", "busy", "login"],
)
async def test_only_broken_transfers_count_against_a_file(tmp_path: Path, error: HermesError) -> None:
    """However often it was put off before, in between and in an earlier life."""

    class Fickle(LongLine):
        async def send(self, *told: Any) -> str:
            if not told[-1] or self.uploads % 3 == 0:
                return await super().send(*told)
            self.uploads += 1
            raise error

    world = Fickle(broken=8 * 3 - 3)
    async with slow_journey(tmp_path, world) as chat:
        await chat.disconnect()
        file = Attachment(kind=MediaKind.VIDEO, ref="x", name="film.mp4", size=4)
        body = Body(text="Look at this.", attachments=(file,))
        to = Address(platform="fake", chat="1")
        row = OutboxRow(key="k", to=to, body=body, created_at=chat.clock.now(), attempts=12)
        await chat.database.write(lambda tx: tx.outbox.add(row))
        chat.connect()
        for _ in range(200):
            await chat.clock.leap(60.0)  # type: ignore[attr-defined]
        await chat.until_idle()
        assert world.seen() == ["Look at this.\n📎 video: film.mp4"] and world.uploads == 8 * 3 - 2


@pytest.mark.parametrize("after", [True, False], ids=["after", "before"])
async def test_a_file_is_given_up_once_however_it_is_stopped(tmp_path: Path, full: bool, after: bool) -> None:
    told = "📎 film.mp4 (4 bytes) could not be sent: "

    def make(folder: Path) -> Journey:
        world = LongLine()
        world.write("film")
        return slow_journey(folder, world)

    async def live(chat: Journey) -> None:
        await pass_until_seen(chat, "Here:", told)
        await chat.until_idle()
        assert sum(told in seen for seen in chat.world.seen()) == 1, f"people see {chat.world.seen()}"
        assert isinstance(chat.world, LongLine) and chat.world.uploads <= 9
        [dead] = await chat.database.read(lambda tx: tx.outbox.find((OutState.DEAD,)))
        assert dead.body.attachments

    await cut_everywhere(tmp_path, make, live, after=after, full=full)


async def test_a_file_whose_sending_ends_the_process_is_given_up(tmp_path: Path) -> None:
    """Too large for the memory, say: no attempt ever comes to its end."""
    world = LongLine(hangs=True)
    world.write("film")
    for _ in range(8):
        chat, uploads = slow_journey(tmp_path, world), world.uploads
        await chat.__aenter__()
        await chat.until(lambda: world.uploads > uploads)  # noqa: B023
        await chat.abandon()
    async with slow_journey(tmp_path, world) as chat:
        await chat.until_seen("📎 film.mp4 (4 bytes) could not be sent: no attempt came to its end")
        await chat.until_idle()
    assert world.uploads == 8


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
