"""Spoken answers: a chat chooses them, the text waits for nothing, and a crash neither loses nor repeats
one."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import date
from pathlib import Path

import pytest

from hermes.control.outbound.spoken import LONGEST, speakable
from hermes.domain.chats.capabilities import MediaLimit
from hermes.domain.chats.message import Attachment, MediaKind
from hermes.domain.chats.rows import OutState
from hermes.domain.errors import UserError
from hermes.domain.models.model_facts import MediaRole
from hermes.domain.models.usage import Usage
from hermes.domain.settings.media import SttSettings, VoiceSettings
from hermes.domain.word import replace
from hermes.testing.harness import Journey, open_settings
from hermes.testing.platform import EDITS, KINDS
from tests.journeys.cut import cut_everywhere
from tests.journeys.test_media_in import OGG

OPUS = b"OggS" + b"\0" * 24 + b"OpusHead" + b"\2" * 300


class Engine:
    """Speaks and hears, and remembers what."""

    def __init__(self, chat: Journey) -> None:
        self.chat = chat
        self.spoken: list[str] = []
        self.mimes: list[tuple[str, ...]] = []
        self.heard = 0
        self.gate = asyncio.Event()
        self.gate.set()
        self.broken = ""
        chat.speak = self.speak
        chat.transcribe = self.hear

    async def speak(self, text: str, mimes: Sequence[str]) -> tuple[Attachment, Usage | None]:
        self.spoken.append(text)
        self.mimes.append(tuple(mimes))
        await self.gate.wait()
        if self.broken:
            raise UserError(self.broken)
        runtime = await self.chat.gateway._parts.agents.get("main")  # type: ignore[arg-type]
        assert runtime.media is not None
        item = await runtime.media.put(OPUS, "audio/ogg")
        return replace(item.attached("voice.ogg"), kind=MediaKind.VOICE), Usage(model="fake-tts")

    async def hear(self, file: Attachment) -> tuple[str, Usage | None]:
        self.heard += 1
        return "what time is it", Usage(model="fake-stt", prompt=7)


def made(folder: Path, **changes: object) -> tuple[Journey, Engine]:
    chat = Journey(folder=folder, settings=open_settings(**changes))
    return chat, Engine(chat)


def voices(chat: Journey) -> list[str]:
    return [seen for seen in chat.world.seen() if "📎" in seen]


async def test_a_chat_turns_speech_on_and_off(tmp_path: Path) -> None:
    chat, engine = made(tmp_path)
    async with chat:
        chat.world.write("/voice")
        await chat.until_seen("Answers are not spoken in this chat. Voice messages are written down.")
        chat.world.write("one")
        await chat.until_seen("You said: one")
        chat.world.write("/voice tts")
        await chat.until_seen("All answers in this chat are spoken, beside the text.")
        chat.world.write("**two**")
        await chat.until(lambda: len(voices(chat)) == 1)
        await chat.until_seen("You said: **two**")
        assert engine.spoken == ["You said: two"]
        chat.world.write("/voice off")
        await chat.until_seen("Answers are not spoken in this chat.")
        chat.world.write("three")
        await chat.until_seen("You said: three")
        chat.world.write("/voice loud")
        await chat.until_seen("“loud” is no way to speak.")
        await chat.until_idle()
        assert engine.spoken == ["You said: two"]
        calls = await chat.store.read(lambda tx: tx.outbox.begun("speech:"))
        assert [row.state for row in calls] == [OutState.GONE, OutState.SENT]


async def test_a_voice_message_is_made_as_its_platform_takes_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    limit = MediaLimit(mimes=("audio/mp4", "audio/aac"))
    able = replace(EDITS, media={**EDITS.media, MediaKind.VOICE: limit})
    monkeypatch.setitem(KINDS, "edits", able)
    chat, engine = made(tmp_path)
    async with chat:
        chat.world.write("/voice tts")
        await chat.until_seen("All answers")
        chat.world.write("one")
        await chat.until(lambda: len(voices(chat)) == 1)
        assert engine.mimes == [("audio/mp4", "audio/aac")]
        rows = await chat.store.read(lambda tx: tx.outbox.begun("speech:"))
        kinds = [file.kind for row in rows if row.state is OutState.SENT for file in row.body.attachments]
        assert kinds == [MediaKind.AUDIO], "what became no voice message is a sound"


async def test_a_chat_that_does_not_take_what_the_engine_makes_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    limit = MediaLimit(mimes=("audio/mp4",))
    monkeypatch.setitem(KINDS, "edits", replace(EDITS, media={MediaKind.VOICE: limit}))
    chat, engine = made(tmp_path)
    async with chat:
        chat.world.write("/voice tts")
        await chat.until_seen("All answers")
        chat.world.write("one")
        await chat.until_seen("🔇 I could not speak: this chat takes no such file (audio/ogg).")
        assert len(engine.spoken) == 1 and not voices(chat)


async def test_voice_is_answered_with_voice(tmp_path: Path) -> None:
    chat, engine = made(tmp_path, stt=SttSettings(echo_transcripts=False))
    async with chat:
        chat.world.write("/voice on")
        await chat.until_seen("Voice messages in this chat are answered with one")
        chat.world.write("typed")
        await chat.until_seen("You said: typed")
        chat.world.write("", uploads=(chat.world.upload(OGG, kind="voice"),))
        await chat.until(lambda: len(voices(chat)) == 1)
        assert "> what time is it" in chat.heard() and len(engine.spoken) == 1
        assert not any("🎤" in seen for seen in chat.world.seen())


async def test_the_settings_turn_it_on_where_nobody_chose(tmp_path: Path) -> None:
    chat, engine = made(tmp_path, voice=VoiceSettings(auto_tts=True))
    async with chat:
        chat.world.write("", uploads=(chat.world.upload(OGG, kind="voice"),))
        await chat.until(lambda: len(voices(chat)) == 1)
        assert len(engine.spoken) == 1


async def test_the_text_does_not_wait_and_goes_out_if_nothing_speaks(tmp_path: Path) -> None:
    chat, engine = made(tmp_path)
    async with chat:
        chat.world.write("/voice tts")
        await chat.until_seen("All answers")
        engine.gate.clear()
        chat.world.write("one")
        await chat.until_seen("You said: one")
        chat.world.write("two")
        await chat.until_seen("You said: two")
        assert not voices(chat)
        engine.broken = "the engine is out of breath"
        engine.gate.set()
        await chat.until_seen("🔇 I could not speak: the engine is out of breath.")
        await chat.until_idle()
        assert not voices(chat)


async def test_nothing_speaks_here(tmp_path: Path) -> None:
    async with Journey(folder=tmp_path) as chat:
        chat.world.write("/voice tts")
        await chat.until_seen("There is nothing here that speaks.")


async def test_what_it_took_is_counted(tmp_path: Path) -> None:
    chat, _ = made(tmp_path)
    async with chat:
        chat.world.write("/voice tts")
        await chat.until_seen("All answers")
        chat.world.write("", uploads=(chat.world.upload(OGG, kind="voice"),))
        await chat.until(lambda: len(voices(chat)) == 1)
        await chat.until_idle()
        await chat.store.write(lambda tx: tx.usage.count())
        groups = await chat.store.read(lambda tx: tx.usage.sums(("role", "model"), date.min, date.max))
        found = {group.key for group in groups}
        assert {(MediaRole.STT, "fake-stt"), (MediaRole.TTS, "fake-tts")} <= found


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
async def test_a_spoken_exchange_stopped_anywhere(tmp_path: Path, after: bool, full: bool) -> None:
    """One answer, one voice message, one transcript, at whichever write the gateway dies."""
    engines: dict[Path, list[Engine]] = {}

    def make(folder: Path) -> Journey:
        chat, engine = made(folder)
        engines[folder] = [engine]
        return chat

    async def live(chat: Journey) -> None:
        for engine in engines[chat.folder]:
            engine.chat = chat
        if not chat.world.updates:
            chat.world.write("/voice tts")
            chat.world.write("", uploads=(chat.world.upload(OGG, kind="voice"),))
        await chat.until_seen("All answers", "You said:", "🎤 “what time is it”")
        await chat.until(lambda: bool(voices(chat)))
        await chat.until_idle()
        unmarked = [seen for seen in voices(chat) if "repeat" not in seen]
        assert len(unmarked) == 1, chat.world.seen()
        rows = await chat.store.read(lambda tx: tx.outbox.begun("speech:"))
        assert [row.state for row in rows] == [OutState.GONE, OutState.SENT]
        assert len([seen for seen in chat.world.seen() if "🎤" in seen and "repeat" not in seen]) == 1

    writes = await cut_everywhere(tmp_path, make, live, after=after, full=full)
    assert writes > 8


def test_what_is_said_of_an_answer() -> None:
    text = "# Hi\n\nSee [the page](https://example.org/x) and `x`:\n\n```py\nprint()\n```\n\n- a\n- b\n"
    said = speakable(text)
    assert "Hi" in said and "See the page and x:" in said and "https" not in said and "print" not in said
    assert len(speakable("A word. " * 2000)) <= LONGEST and speakable("A word. " * 2000).endswith(".")
    assert speakable("```\ncode\n```") == ""


@pytest.mark.parametrize(
    "words", ["No. 1: " + "word " * 2000, "はい。" + "これは長い文章です、" * 600, "1\n" + "x" * 5000]
)
def test_a_long_answer_with_one_early_end_of_a_sentence_is_spoken_all_the_same(words: str) -> None:
    said = speakable(words)
    assert LONGEST // 2 < len(said) <= LONGEST and words.startswith(said)
