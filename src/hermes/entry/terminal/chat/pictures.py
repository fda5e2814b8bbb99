"""Pictures that somebody drops, pastes or names while they write: each stands in the line as a mark, and goes
along when the line is sent."""

from __future__ import annotations

import asyncio
import os
import shlex
import sys
from collections.abc import Callable

from hermes.domain.errors import UserError
from hermes.domain.text import one_line

_SUFFIXES = (".png", ".jpg", ".jpeg", ".gif", ".webp")
_LONGEST = 8_000
_CLIPBOARD_SECONDS = 5.0
_CLIPBOARDS = (
    ("wl-paste", "--type", "image/png"),
    ("xclip", "-selection", "clipboard", "-t", "image/png", "-o"),
    ("pngpaste", "-"),
)


class Pictures:
    """`read` makes a data URL of a file, or says why it cannot."""

    def __init__(self, read: Callable[[str], str]) -> None:
        self._read = read
        self._kept: dict[str, str] = {}

    def attach(self, path: str) -> str:
        """The mark of a picture from now on."""
        url = self._read(path)
        mark = f"[picture #{len(self._kept) + 1}: {one_line(os.path.basename(path), 40)}]"
        self._kept[mark] = url
        return mark

    def of(self, line: str) -> tuple[str, ...]:
        return tuple(url for mark, url in self._kept.items() if mark in line)

    async def paste(self) -> str:
        """The mark of the picture in the clipboard."""
        return self._attach_bytes(await _clipboard())

    def _attach_bytes(self, data: bytes) -> str:
        from tempfile import TemporaryDirectory

        with TemporaryDirectory(prefix="hermes-") as folder:
            path = os.path.join(folder, "clipboard.png")
            with open(path, "wb") as file:
                file.write(data)
            return self.attach(path)


def dropped(text: str) -> list[str]:
    """The pictures whose paths a pasted text is: so terminals write what is dropped on them. None if it is
    anything else."""
    from urllib.parse import unquote, urlsplit

    text = text.strip()
    if not text or "\n" in text or len(text) > _LONGEST:
        return []
    try:
        words = [text] if os.path.isfile(text) else shlex.split(text)
    except ValueError:
        return []
    paths = [unquote(urlsplit(word).path) if word.startswith("file://") else word for word in words]
    paths = [os.path.expanduser(path) for path in paths]
    fits = (path.startswith("/") and path.lower().endswith(_SUFFIXES) for path in paths)
    return paths if all(fits) and all(map(os.path.isfile, paths)) else []


async def _clipboard() -> bytes:
    from shutil import which

    programs = [words for words in _CLIPBOARDS if which(words[0])]
    if not programs:
        needed = "pngpaste" if sys.platform == "darwin" else "wl-paste (wl-clipboard) or xclip"
        raise UserError(f"The clipboard cannot be read without {needed}.", hint="Or: /image FILE")
    null = asyncio.subprocess.DEVNULL
    for words in programs:
        process = await asyncio.create_subprocess_exec(
            *words, stdin=null, stdout=asyncio.subprocess.PIPE, stderr=null
        )
        try:
            data, _ = await asyncio.wait_for(process.communicate(), _CLIPBOARD_SECONDS)
        except TimeoutError:
            process.kill()
            await process.wait()
            continue
        if data and process.returncode == 0:
            return data
    raise UserError("There is no picture in the clipboard.")
