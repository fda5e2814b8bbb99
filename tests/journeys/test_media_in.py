"""Files that people send: got before the turn begins, told by what they are, once, also over crashes."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path

import pytest

from hermes.control.core import Runtime
from hermes.control.sessions.submission import SessionTarget, Submission
from hermes.control.turn import inbound_files as fetching
from hermes.control.turn.descriptions import NO_TRANSCRIPT
from hermes.control.turn.inbound_files import NOT_SHOWN, UNSEEN
from hermes.domain.chats.address import Address, Source, SourceKind
from hermes.domain.chats.message import Attachment, MediaKind
from hermes.domain.chats.rows import MediaItem
from hermes.domain.errors import HermesError, Unreachable, UserError
from hermes.domain.ids import MAIN_AGENT, SessionId
from hermes.domain.ports.agent import ModelRequest
from hermes.domain.ports.store import Tx
from hermes.domain.settings.platforms import PlatformSettings
from hermes.domain.settings.settings import AgentSettings, DisplaySettings, GatewaySettings
from hermes.domain.turns.event import Entry, Finished, Record, Stopped, UserSaid
from hermes.domain.turns.turn import BusyMode, Turn, TurnInput
from hermes.domain.word import replace
from hermes.testing.clock import FakeClock, settle
from hermes.testing.harness import Journey, open_settings
from hermes.testing.model import Say, last_words, say
from hermes.testing.world import Deed, World
from tests.journeys.cut import cut_everywhere, one_life

PNG = b"\x89PNG\r\n\x1a\n" + bytes(range(256)) * 8
OGG = b"OggS" + b"\0" * 60 + b"OpusHead" + b"\1" * 400
PDF = b"%PDF-1.7\n" + b"\0\1\2" * 50
MOST_WRITES = 40


def said(request: ModelRequest) -> UserSaid:
    return [entry.record for entry in request.entries if isinstance(entry.record, UserSaid)][-1]


def told(chat: Journey) -> Attachment:
    [file] = said(chat.model.requests[-1]).attachments
    return file


def contents(file: Attachment) -> bytes:
    return Path(file.path or "").read_bytes()


async def test_a_photo_with_its_caption(tmp_path: Path) -> None:
    async with Journey(folder=tmp_path) as chat:
        chat.world.write("what is this?", uploads=(chat.world.photo(PNG, "cat.png"),))
        await chat.until_seen("You said: what is this?")
        file = told(chat)
        assert (file.kind, file.mime, file.size) == (MediaKind.IMAGE, "image/png", len(PNG))
        assert contents(file) == PNG and not file.pending and file.path is not None
        assert Path(file.path).is_relative_to(tmp_path / "media") and file.path.endswith(".png")
        assert chat.model.requests[-1].images[file.sha256 or ""].startswith("data:image/png;base64,")
        assert f"[attached: image, cat.png, image/png, {len(PNG)} bytes, at {file.path}]" in chat.heard()


async def test_a_file_is_brought_to_the_folder_of_the_session(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A conversation that came over from the terminal, say: its commands run in that folder."""
    brought: list[str | None] = []

    async def bring(turn: Turn, item: MediaItem, path: str, folder: str | None) -> str:
        brought.append(folder)
        return "/box/cat.png"

    async with Journey(folder=tmp_path) as chat:
        runtime = await chat.gateway.agents.get(MAIN_AGENT)
        monkeypatch.setattr(
            fetching, "_brought", partial(_with, fetching._brought, replace(runtime, bring_file=bring))
        )
        chat.world.write("hello")
        await chat.until_seen("You said: hello")
        await chat.until_idle()
        [row] = await chat.database.read(lambda tx: tx.sessions.find(""))
        other = replace(row, id=SessionId("other"), workspace="/project")

        def move(tx: Tx) -> None:
            tx.sessions.add(other)
            for key, source in tx.bindings.of(row.id):
                tx.bindings.bind(key, other.id, source, chat.clock.now())

        await chat.database.write(move)
        chat.world.write("what is this?", uploads=(chat.world.photo(PNG, "cat.png"),))
        await chat.until_seen("You said: what is this?")
        assert brought == ["/project"] and told(chat).path == "/box/cat.png"


async def _with(
    brought: Callable[[Turn, MediaItem, Runtime], Awaitable[tuple[str | None, str]]],
    runtime: Runtime,
    turn: Turn,
    item: MediaItem,
    *_: Runtime,
) -> tuple[str | None, str]:
    return await brought(turn, item, runtime)


async def test_an_album_is_one_turn_with_all_its_pictures(tmp_path: Path) -> None:
    clock = FakeClock()
    async with Journey(folder=tmp_path, clock=clock) as chat:
        for number in range(3):
            text = "our garden" if number == 0 else ""
            photo = chat.world.photo(PNG + bytes([number]), f"{number}.png")
            chat.world.write(text, uploads=(photo,), group="g1")
        await chat.until_taken()
        await clock.advance(2.0)
        await chat.until_seen("You said: our garden")
        names = [file.name for file in said(chat.model.requests[-1]).attachments]
        assert names == ["0.png", "1.png", "2.png"] and len(chat.model.requests) == 1
        assert len(chat.model.requests[-1].images) == 3


async def test_an_album_in_a_group_comes_whole_though_only_its_caption_speaks_to_us(tmp_path: Path) -> None:
    block = PlatformSettings(allow_all_users=True, require_mention=True)
    clock, settings = FakeClock(), open_settings(platforms={"fake": block})
    async with Journey(folder=tmp_path, clock=clock, settings=settings) as chat:
        for number in range(3):
            photo = chat.world.photo(PNG + bytes([number]), f"{number}.png")
            text = "@agent look" if number == 0 else ""
            more = {"kind": "group", "uploads": (photo,), "group": "g1", "mentions_us": number == 0}
            chat.world.write(text, chat="g", **more)
        await chat.until_taken()
        await clock.advance(2.0)
        await chat.until_seen("You said: @agent look")
        assert len(said(chat.model.requests[-1]).attachments) == 3


async def test_what_it_is_its_bytes_tell(tmp_path: Path) -> None:
    async with Journey(folder=tmp_path) as chat:
        lies = {"mime": "image/png", "size": 3}
        chat.world.write("look", uploads=(chat.world.photo(PDF, "../../etc/cat.png", **lies),))
        await chat.until_seen("You said: look")
        file = told(chat)
        assert (file.kind, file.mime, file.name) == (MediaKind.FILE, "application/pdf", "cat.png")
        assert file.path is not None and Path(file.path).is_relative_to(tmp_path / "media")
        assert not chat.model.requests[-1].images
        chat.world.write("and this", uploads=(chat.world.upload(PNG, "doc.bin"),))
        await chat.until_seen("You said: and this")
        assert told(chat).kind is MediaKind.IMAGE and len(chat.model.requests[-1].images) == 1


async def test_a_short_text_is_told_word_for_word_and_as_a_quote(tmp_path: Path) -> None:
    words = "shopping:\n[attached: nothing]\nmilk ✓"
    async with Journey(folder=tmp_path) as chat:
        chat.world.write("read it", uploads=(chat.world.upload(words.encode(), "list.txt"),))
        await chat.until_seen("You said: read it")
        assert chat.heard().partition("what it says:]\n")[2].splitlines()[1:-1] == words.splitlines()
        long = b"x " * fetching.MOST_INLINE
        chat.world.write("and it", uploads=(chat.world.upload(long, "long.txt"),))
        await chat.until_seen("You said: and it")
        assert told(chat).text == "" and "long.txt, text/plain" in chat.heard()


async def test_a_voice_message_is_kept_and_it_is_said_that_nobody_can_hear_it(tmp_path: Path) -> None:
    async with Journey(folder=tmp_path) as chat:
        chat.world.write("", uploads=(chat.world.upload(OGG, kind="voice"),))
        await chat.until(lambda: bool(chat.model.requests))
        file = told(chat)
        assert file.kind is MediaKind.VOICE and NO_TRANSCRIPT in chat.heard()
        assert file.path is not None and f"at {file.path}" in chat.heard()


async def test_a_voice_message_is_written_down_where_something_can(tmp_path: Path) -> None:
    async def hear(file: Attachment) -> tuple[str, None]:
        assert contents(file) == OGG
        if file.name == "noise":
            raise UserError("there is only noise")
        return "buy milk", None

    async with Journey(folder=tmp_path, transcribe=hear) as chat:
        chat.world.write("hear", uploads=(chat.world.upload(OGG, kind="voice"),))
        await chat.until_seen("You said: hear")
        assert chat.heard().endswith("what it says:]\n> buy milk")
        chat.world.write("again", uploads=(chat.world.upload(OGG, "noise", kind="voice"),))
        await chat.until_seen("You said: again")
        assert "it could not be transcribed: there is only noise" in chat.heard()
        await chat.until_seen("🎤 “buy milk”", "I could not hear your voice message: there is only noise.")


async def test_an_expired_link_is_told_to_model_and_person(tmp_path: Path) -> None:
    async with Journey(folder=tmp_path) as chat:
        photo = chat.world.expire(chat.world.photo(PNG, "cat.png"))
        chat.world.write("what is this?", uploads=(photo,))
        await chat.until_seen("You said: what is this?", "I could not take cat.png: the link has expired.")
        await chat.until_idle()
        assert "it could not be fetched: the link has expired" in chat.heard()
        assert len(chat.world.seen()) == 2


@pytest.mark.parametrize("claimed", [None, 10, 5000], ids=["no claim", "a lie", "the truth"])
async def test_a_file_that_is_too_large_is_left(tmp_path: Path, claimed: int | None) -> None:
    settings = open_settings(gateway=GatewaySettings(max_inbound_media_bytes=4096))
    async with Journey(folder=tmp_path, settings=settings) as chat:
        chat.world.write("big", uploads=(chat.world.upload(b"x" * 5000, "big.bin", size=claimed),))
        await chat.until_seen("You said: big", "I could not take big.bin: it is larger than 4 KiB.")
        await chat.until_idle()
        assert "larger than 4 KiB" in chat.heard() and told(chat).sha256 is None
        assert not [one for one in (tmp_path / "media").rglob("*") if one.is_file()]
        assert len(chat.world.did(Deed.FETCHED)) == (0 if claimed == 5000 else 1)


async def test_a_picture_the_model_cannot_take_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fetching, "MOST_SHOWN", 100)
    async with Journey(folder=tmp_path) as chat:
        chat.world.write("huge", uploads=(chat.world.photo(PNG),))
        await chat.until_seen("You said: huge")
        assert NOT_SHOWN in chat.heard() and not chat.model.requests[-1].images


async def test_a_model_that_cannot_see_is_told_where_the_picture_is(tmp_path: Path) -> None:
    blind = open_settings(agent=AgentSettings(image_input_mode="text"))
    async with Journey(folder=tmp_path, settings=blind) as chat:
        chat.world.write("small", uploads=(chat.world.photo(PNG),))
        await chat.until_seen("You said: small")
        assert UNSEEN in chat.heard() and not chat.model.requests[-1].images


async def test_a_fetch_that_fails_for_now_is_tried_again(tmp_path: Path) -> None:
    clock, tries = FakeClock(), list[str]()

    def trouble(what: str, ref: str) -> HermesError | None:
        if what != "fetch":
            return None
        tries.append(ref)
        return Unreachable("no answer") if len(tries) < 3 else None

    async with Journey(folder=tmp_path, clock=clock, world=World(trouble=trouble)) as chat:
        chat.world.write("look", uploads=(chat.world.photo(PNG),))
        await chat.until(lambda: len(tries) == 1)
        await settle()
        await clock.advance(10.0)
        await chat.until_seen("You said: look")
        assert told(chat).problem is None and told(chat).sha256


async def test_a_platform_that_is_not_up_yet_is_waited_for(tmp_path: Path) -> None:
    async with Journey(folder=tmp_path, world=World(holding=asyncio.Event())) as chat:
        photo = chat.world.photo(PNG)
        await chat.until_taken()
        chat.gateway.detach("fake")
        chat.world.write("look", uploads=(photo,))
        await chat.until_taken()
        await settle()
        assert not chat.world.did(Deed.FETCHED)
        assert chat.world.holding is not None
        chat.world.holding.set()
        chat.gateway.attach("fake", chat.platform)
        await chat.until_seen("You said: look")


async def test_who_waits_for_a_platform_keeps_nobody_else_waiting(tmp_path: Path) -> None:
    settings = open_settings(gateway=GatewaySettings(max_running=1))
    async with Journey(folder=tmp_path, settings=settings) as chat:
        await chat.until_taken()
        chat.gateway.detach("fake")
        for number in ("1", "2", "3"):
            chat.world.write(f"look {number}", chat=number, uploads=(chat.world.photo(PNG),))
        await chat.until_taken()
        assert (await ask(chat, "hello"))[-1] == Finished()
        assert not chat.world.did(Deed.FETCHED)
        chat.gateway.attach("fake", chat.platform)
        await chat.until_seen("You said: look 1", "You said: look 2", "You said: look 3")


async def test_a_platform_that_never_comes_back_is_not_waited_for_for_ever(tmp_path: Path) -> None:
    clock = FakeClock()
    async with Journey(folder=tmp_path, clock=clock) as chat:
        await chat.until_taken()
        chat.gateway.detach("fake")
        chat.world.write("look", uploads=(chat.world.photo(PNG),))
        await chat.until_taken()
        [waiting] = await chat.database.read(lambda tx: tx.recovery.due(0, 9))
        clock.jump(3601)
        # Somebody else speaks in the session.
        await ask(chat, "and?", session=waiting.session)
        assert not chat.world.did(Deed.FETCHED)
        assert told_of(chat.model.requests[0]).problem == "its platform was not connected for too long"


async def ask(chat: Journey, text: str, session: SessionId | None = None) -> list[Record]:
    """Somebody at a terminal asks, and hears the end."""
    source = Source(address=Address(platform="local", chat="tty"), kind=SourceKind.PRIVATE)
    place = SessionTarget(session=session, begin=session is None)
    words = Submission(agent=MAIN_AGENT, source=source, input=TurnInput(text=text), place=place)
    turn = await chat.gateway.submit(words)
    seen = [one async for one in chat.gateway.watch(MAIN_AGENT, turn.id, live=False)]
    return [one.record for one in seen if isinstance(one, Entry)]


def told_of(request: ModelRequest) -> Attachment:
    [file] = said(request).attachments
    return file


async def test_an_adapter_that_breaks_does_not_keep_the_words_from_being_answered(tmp_path: Path) -> None:
    async with Journey(folder=tmp_path) as chat:

        async def broken(ref: str, sink: object) -> None:
            raise RuntimeError("a bug")

        chat.platform.fetch = broken  # type: ignore[attr-defined]
        chat.world.write("look", uploads=(chat.world.photo(PNG, "cat.png"),))
        await chat.until_seen(
            "You said: look", "I could not take cat.png: something went wrong (RuntimeError)."
        )


async def test_a_platform_that_gets_no_files_says_so(tmp_path: Path) -> None:
    async with Journey(folder=tmp_path, kind="plain") as chat:
        chat.world.write("look", uploads=(chat.world.photo(PNG, "cat.png"),))
        await chat.until_seen(
            "You said: look", "I could not take cat.png: files cannot be fetched from there."
        )


async def test_a_stop_does_not_wait_for_a_file(tmp_path: Path) -> None:
    async with Journey(folder=tmp_path, world=World(holding=asyncio.Event())) as chat:
        chat.world.write("look", uploads=(chat.world.photo(PNG),))
        await chat.until(lambda: bool(chat.world.did(Deed.FETCHED)))
        chat.world.write("/stop")
        await chat.until_seen("Stop")
        await chat.until_idle()
        records = await chat.database.read(lambda tx: tx.journal.read(tx.sessions.find("")[0].id))
        assert isinstance(records[-1].record, Stopped)
        assert isinstance(records[0].record, UserSaid)
        assert records[0].record.attachments[0].problem == "the turn was stopped first"
        assert not chat.model.requests


async def test_words_that_follow_a_photo_at_once_do_not_lose_it(tmp_path: Path) -> None:
    settings = open_settings(display=DisplaySettings(busy_input_mode=BusyMode.INTERRUPT))
    world = World(holding=asyncio.Event())
    async with Journey(folder=tmp_path, settings=settings, world=world) as chat:
        chat.world.write("", uploads=(chat.world.photo(PNG, "cat.png"),))
        await chat.until(lambda: bool(chat.world.did(Deed.FETCHED)))
        chat.world.write("what is on it?")
        await chat.until_taken()
        assert world.holding is not None
        world.holding.set()
        await chat.until_seen("You said: what is on it?")
        assert len(chat.model.requests[-1].images) == 1 and "cat.png" in chat.heard()


async def test_what_came_before_a_clean_stop_is_got_after_it(tmp_path: Path) -> None:
    world = World(holding=asyncio.Event())
    async with Journey(folder=tmp_path, world=world) as chat:
        world.write("look", uploads=(world.photo(PNG),))
        await chat.until(lambda: bool(world.did(Deed.FETCHED)))
    assert world.holding is not None
    world.holding.set()
    async with Journey(folder=tmp_path, world=world) as chat:
        await chat.until_seen("You said: look")
        assert told(chat).sha256 and len(world.did(Deed.FETCHED)) == 2


@pytest.mark.parametrize("after", [True, False], ids=["after", "before"])
async def test_stopped_at_each_write_the_files_are_got(tmp_path: Path, full: bool, after: bool) -> None:
    for number in range(1, MOST_WRITES, 1 if full else 3):
        folder = tmp_path / str(number)
        folder.mkdir()
        world = World()
        gone = world.expire(world.photo(PNG, "gone.png"))
        world.write("look", uploads=(world.photo(PNG, "cat.png"), gone, world.upload(PDF, "a.pdf")))

        def script(request: ModelRequest) -> Say:
            kept = [file.name for file in said(request).attachments if file.sha256]
            return say(f"{last_words(request)}: I have {', '.join(map(str, kept))}")

        def life(world: World = world, folder: Path = folder) -> Journey:
            return Journey(folder=folder, world=world, script=script)

        crashed = await one_life(life(), _look, stop_at=number, after=after)
        if crashed:
            await one_life(life(), _look)
        where = f"stopped {'after' if after else 'before'} write {number}: {world.seen()}"
        assert sum("I have" in text and "↻" not in text for text in world.seen()) <= 1, where
        assert sum("gone.png: the link" in text and "↻" not in text for text in world.seen()) <= 1, where
        fetched = [entry.key for entry in world.did(Deed.FETCHED)]
        assert all(fetched.count(ref) <= 2 for ref in fetched), where
        kept = sorted(one.suffix for one in (folder / "media").rglob("*") if one.is_file())
        assert kept == [".pdf", ".png"], where
        if not crashed:
            return
    raise AssertionError("it never came to the end of its writes")


async def _look(chat: Journey) -> None:
    await chat.until_seen("look: I have cat.png, a.pdf", "I could not take gone.png: the link has expired.")
    await chat.until_idle()


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
async def test_a_file_that_a_client_sent_survives_a_crash(tmp_path: Path, full: bool, after: bool) -> None:
    """No platform has it: it was stored before its turn, and comes from there."""
    client = Source(address=Address(platform="api_server", chat="-"), kind=SourceKind.API, user="phone")

    async def live(chat: Journey) -> None:
        turns = await chat.database.read(lambda tx: tx.turns.open_of(SessionId("s"), 5))
        if not turns and not await chat.database.read(lambda tx: tx.journal.read(SessionId("s"))):
            file = await chat.gateway.keep_file(MAIN_AGENT, PDF, "a/plan.pdf")
            given = TurnInput(text="read it", attachments=(file,))
            place = SessionTarget(session=SessionId("s"), begin=True)
            await chat.gateway.submit(Submission(agent=MAIN_AGENT, source=client, input=given, place=place))
        await chat.until_idle()
        records = [e.record for e in await chat.database.read(lambda tx: tx.journal.read(SessionId("s")))]
        [asked] = [record for record in records if isinstance(record, UserSaid)]
        assert isinstance(records[-1], Finished)
        [file] = asked.attachments
        assert (file.name, file.mime, file.problem) == ("plan.pdf", "application/pdf", None)
        assert contents(file) == PDF

    await cut_everywhere(tmp_path, lambda folder: Journey(folder=folder), live, after=after, full=full)
