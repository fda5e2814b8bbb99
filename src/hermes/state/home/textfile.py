"""Settings files as text: read without ever hanging or raising on content, replaced only as a whole."""

from __future__ import annotations

import contextlib
import os
import re
import stat
from collections.abc import Iterator
from pathlib import Path

from msgspec import Struct

from hermes.domain.errors import UserError
from hermes.state.home.findings import SettingsFindings
from hermes.state.home.wholefile import write_whole

MOST_BYTES = 256 * 1024
UNREADABLE = "\ufffd"
# What YAML forbids, and the rare line breaks that editors do not count as lines.
_CONTROLS = "[^\t\n -~\xa0-\u2027\u202a-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]"


class TextFile(Struct, frozen=True, kw_only=True):
    """The text of a file; what could not be read in it stands as U+FFFD on the `damaged` lines."""

    text: str = ""
    mode: int | None = None
    damaged: frozenset[int] = frozenset()


def read_text(path: Path, findings: SettingsFindings) -> TextFile:
    """The file's text, empty where there is none; everything wrong with it becomes a problem."""
    try:
        info = path.stat()
        if not stat.S_ISREG(info.st_mode):
            kind = "a folder" if stat.S_ISDIR(info.st_mode) else "not a regular file"
            findings.problem(None, f"This is {kind}, so nothing was read.", "Put a text file in its place.")
            return TextFile()
        with path.open("rb") as file:
            data = file.read(MOST_BYTES + 1)
    except FileNotFoundError:
        if path.is_symlink():
            findings.problem(
                None, "This link leads nowhere.", "Create the file it names, or remove the link."
            )
        return TextFile()
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        findings.problem(None, f"It cannot be read ({reason}).", f"Make it readable: chmod u+r {path}")
        return TextFile()
    mode = stat.S_IMODE(info.st_mode)
    if len(data) > MOST_BYTES:
        findings.problem(
            None,
            f"It is larger than {MOST_BYTES // 1024} KB, so nothing was read.",
            "Keep only settings in it.",
        )
        return TextFile(mode=mode)
    return decode(data, findings, mode)


def decode(data: bytes, findings: SettingsFindings, mode: int | None = None) -> TextFile:
    """Bytes as text with one kind of line end, line by line, so that one bad byte spoils one line."""
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):
        findings.problem(1, "It is saved as UTF-16, so nothing was read.", "Save it as UTF-8.")
        return TextFile(mode=mode)
    data = data.removeprefix(b"\xef\xbb\xbf").replace(b"\r\n", b"\n").replace(b"\r", b"\n")
    lines: list[str] = []
    damaged: set[int] = set()
    for number, raw in enumerate(data.split(b"\n"), 1):
        try:
            line = raw.decode("utf-8")
        except UnicodeDecodeError:
            line = raw.decode("utf-8", "replace")
            damaged.add(number)
            findings.problem(number, "This line is not valid UTF-8.", "Save the file as UTF-8.")
        # Plain lines, nearly all there are, need no pattern, which takes seven milliseconds to compile.
        is_plain = line.isascii() and line.isprintable()
        cleaned = line if is_plain else re.sub(_CONTROLS, UNREADABLE, line)
        if cleaned != line and number not in damaged:
            damaged.add(number)
            findings.problem(number, "This line holds a control character.", "Delete it.")
        lines.append(cleaned)
    return TextFile(text="\n".join(lines), mode=mode, damaged=frozenset(damaged))


def replace_text(path: Path, text: str, mode: int) -> None:
    """Put the whole text in the file's place in one step; a link keeps pointing to what it names."""
    try:
        write_whole(path.resolve(), text.encode(), mode)
    except OSError as error:
        raise UserError(
            f"{path} cannot be written ({error.strerror}).",
            hint="Check the folder's owner, its rights and the free space.",
        ) from error


@contextlib.contextmanager
def sole_writer(home: Path) -> Iterator[None]:
    """Let one process at a time change the files of a home, so that no change is lost."""
    import fcntl

    try:
        folder = os.open(home, os.O_RDONLY)
    except OSError as error:
        raise UserError(
            f"{home} cannot be opened ({error.strerror}).", hint="Create it with: hermes setup"
        ) from error
    try:
        fcntl.flock(folder, fcntl.LOCK_EX)
        yield
    finally:
        os.close(folder)
