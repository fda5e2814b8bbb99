"""Programs that make one file of another: what they are given, that they end, and that nothing stays
behind."""

from __future__ import annotations

import asyncio
import os
import tempfile
from pathlib import Path

import pytest

from hermes.domain.errors import UserError
from hermes.domain.word import replace
from hermes.execution.media.programs import (
    SMALLER_PICTURE,
    SPEAKERS,
    VOICE_NOTES,
    WHISPER,
    MediaProgram,
    run_program,
)
from hermes.state.files.sniff import sniff
from hermes.testing.media_server import png
from tests.execution.beds import install

COPY = MediaProgram(command="cat {input_path} > {output_path}", format="txt")


async def test_it_makes_a_file_and_leaves_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    assert await run_program(COPY, b"words", name="in.txt") == b"words"
    assert not os.listdir(tmp_path)


async def test_words_are_no_part_of_the_command(tmp_path: Path) -> None:
    shown = MediaProgram(command="printf %s {voice} > {output_path}", format="txt")
    evil = f"x; touch {tmp_path}/gone $(touch {tmp_path}/too) '\""
    assert await run_program(shown, b"", voice=evil) == evil.encode()
    assert not os.listdir(tmp_path)


async def test_it_sees_no_secret(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret-0123456789")
    shown = await run_program(MediaProgram(command="env > {output_path}", format="txt"), b"")
    assert b"sk-secret" not in shown and b"PATH=" in shown


@pytest.mark.parametrize(
    ("command", "why"),
    [
        ("echo 'no voice' >&2; exit 3", "failed with code 3: no voice"),
        ("true", "made no file"),
        ("ln -s /etc/passwd {output_path}", "made no file"),
    ],
)
async def test_why_it_made_nothing(command: str, why: str) -> None:
    with pytest.raises(UserError, match=why):
        await run_program(MediaProgram(command=command, format="wav"), b"x")


async def test_one_that_hangs_is_ended_with_what_it_started(tmp_path: Path) -> None:
    mark = tmp_path / "pid"
    hanging = MediaProgram(command=f"sleep 600 & echo $! > {mark}; wait", format="wav", seconds=1.0)
    with pytest.raises(UserError, match="not done within 1 seconds"):
        await run_program(hanging, b"x")
    pid = int(mark.read_text())
    for _ in range(400):
        if not os.access(f"/proc/{pid}", os.F_OK):
            break
        await asyncio.sleep(0.01)
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


async def test_what_is_not_installed_is_said_with_the_remedy() -> None:
    missing = replace(WHISPER, module="no_such_module_here")
    with pytest.raises(UserError, match="Run: hermes platforms install stt"):
        await run_program(missing, b"x", model="base", language="")
    with pytest.raises(UserError, match=r"no-such-program is not installed\. Install no-such-program\."):
        await run_program(replace(VOICE_NOTES["audio/ogg"], program="no-such-program"), b"x")


@pytest.mark.server
@pytest.mark.parametrize("name", ["espeak-ng", "flite"])
async def test_a_program_speaks_and_ffmpeg_makes_a_voice_note_of_it(name: str) -> None:
    program = SPEAKERS[name]
    install(name, name)
    install("ffmpeg", "ffmpeg")
    sound = await run_program(program, b"-- The birch canoe.", name="text.txt", voice=program.voice)
    assert sniff(sound) == "audio/wav" and len(sound) > 10_000
    notes = {mime: await run_program(note, sound) for mime, note in VOICE_NOTES.items()}
    assert b"OpusHead" in notes["audio/ogg"][:100]
    for mime, note in notes.items():
        assert sniff(note) == mime and len(note) < len(sound)


@pytest.mark.server
async def test_a_large_picture_becomes_a_small_one() -> None:
    install("ffmpeg", "ffmpeg")
    small = await run_program(SMALLER_PICTURE, png(3000, 30))
    assert sniff(small) == "image/jpeg"
