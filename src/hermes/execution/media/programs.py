"""Programs that turn one file into another: words into speech, speech into words, sounds and pictures into
smaller ones. Which there are is data; a program of the operator's is one more line of it.

Each runs in a folder of its own that is gone afterwards, in a process group with a deadline, with an
environment built from empty and the mark of a script."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from shlex import quote
from shutil import which
from tempfile import TemporaryDirectory

from msgspec import Struct

from hermes.domain.errors import UserError
from hermes.domain.text import one_line, size_told
from hermes.execution import scripts

MOST_MADE = 64 * 1024 * 1024
_CHILD = Path(__file__).with_name("whisper_child.py")
_PROXY = ("https_proxy", "HTTPS_PROXY", "no_proxy", "NO_PROXY")
_PASSED_ON = ("PATH", "HOME", "LANG", "LC_ALL", "TZ", "TMPDIR", "SSL_CERT_FILE", "HF_HOME", *_PROXY)


class MediaProgram(Struct, frozen=True, kw_only=True):
    """`command` is for `sh`; `{input_path}`, `{output_path}` and the words of a use stand in it. What it
    makes has a name that ends with `format`. It needs a `program`, or a `module` of our Python from an
    `extra`."""

    command: str
    format: str
    program: str = ""
    module: str = ""
    extra: str = ""
    voice: str = ""
    seconds: float = 120.0

    @property
    def is_installed(self) -> bool:
        """Looks at files."""
        if self.module:
            return find_spec(self.module) is not None
        return not self.program or which(self.program) is not None


SPEAKERS = {
    # github.com/rany2/edge-tts, README: a service of Microsoft, without a key
    "edge": MediaProgram(
        command="{python} -I -m edge_tts --file {input_path} --voice {voice} --write-media {output_path}",
        format="mp3",
        module="edge_tts",
        extra="tts",
        voice="en-US-AriaNeural",
    ),
    # espeak-ng(1), flite(1); github.com/OHF-Voice/piper1-gpl, docs/CLI.md
    "espeak-ng": MediaProgram(
        command="espeak-ng -v {voice} -f {input_path} -w {output_path}",
        format="wav",
        program="espeak-ng",
        voice="en",
    ),
    "flite": MediaProgram(
        command="flite -voice {voice} -f {input_path} -o {output_path}",
        format="wav",
        program="flite",
        voice="slt",
    ),
    "piper": MediaProgram(
        command="piper --model {voice} --output_file {output_path} < {input_path}",
        format="wav",
        program="piper",
    ),
}
UNASKED = ("edge", "espeak-ng", "flite")
"""Those that need nothing to be said, the best first."""
WHISPER = MediaProgram(
    command="{python} -I {child} {model} {language} {input_path} > {output_path}",
    format="txt",
    module="faster_whisper",
    extra="stt",
    seconds=300.0,
)
_FFMPEG = "ffmpeg -nostdin -loglevel error -i {input_path}"
_SOUND = f"{_FFMPEG} -vn -ac 1"
VOICE_NOTES = {
    "audio/ogg": MediaProgram(
        command=f"{_SOUND} -c:a libopus -b:a 32k -f ogg {{output_path}}", format="ogg", program="ffmpeg"
    ),
    "audio/mp4": MediaProgram(
        command=f"{_SOUND} -c:a aac -b:a 48k -f ipod {{output_path}}", format="m4a", program="ffmpeg"
    ),
    "audio/mpeg": MediaProgram(
        command=f"{_SOUND} -c:a libmp3lame -b:a 48k -f mp3 {{output_path}}", format="mp3", program="ffmpeg"
    ),
}
"""What platforms take as voice messages."""
SMALLER_PICTURE = MediaProgram(
    command=f"{_FFMPEG} -frames:v 1 -vf \"scale='min(2048,iw)':'min(2048,ih)'"
    ':force_original_aspect_ratio=decrease" -q:v 4 -f mjpeg {output_path}',
    format="jpg",
    program="ffmpeg",
)


async def run_program(program: MediaProgram, given: bytes, *, name: str = "input", **words: str) -> bytes:
    """What a program makes of a file that is called so. A `UserError` says why it made nothing."""
    if not await asyncio.to_thread(lambda: program.is_installed):
        raise UserError(f"{program.module or program.program} is not installed.", hint=_remedy(program))
    folder = await asyncio.to_thread(TemporaryDirectory, prefix="hermes-media-")
    try:
        inside, outside = Path(folder.name, name), Path(folder.name, f"output.{program.format}")
        await asyncio.to_thread(inside.write_bytes, given)
        command = _filled(program.command, inside, outside, words)
        environ = {key: os.environ[key] for key in _PASSED_ON if key in os.environ}
        shell = (*scripts.MARKED, "/bin/sh", "-c", command)
        end = await scripts.run_program(shell, b"", program.seconds, cwd=folder.name, environ=environ)
        if end.code is None:
            raise UserError(f"It was not done within {program.seconds:g} seconds.")
        if end.code:
            last = end.complaint.decode("utf-8", "replace").strip().rpartition("\n")[2]
            raise UserError(
                f"The program failed with code {end.code}: {one_line(last, 200) or 'it gave no reason'}."
            )
        return await asyncio.to_thread(_made, outside)
    except OSError as error:
        raise UserError(f"The program cannot be run ({error.strerror}).") from error
    finally:
        await asyncio.to_thread(folder.cleanup)


def _filled(command: str, inside: Path, outside: Path, words: Mapping[str, str]) -> str:
    places = {"python": sys.executable, "child": str(_CHILD), **words}
    places |= {"input_path": str(inside), "output_path": str(outside)}
    for place, word in places.items():
        command = command.replace(f"{{{place}}}", quote(word))
    return command


def _made(path: Path) -> bytes:
    if not path.is_file() or path.is_symlink():
        raise UserError("The program made no file.")
    if path.stat().st_size > MOST_MADE:
        raise UserError(f"The program made a file of more than {size_told(MOST_MADE)}.")
    return path.read_bytes()


def _remedy(program: MediaProgram) -> str:
    return (
        f"Run: hermes platforms install {program.extra}" if program.extra else f"Install {program.program}."
    )
