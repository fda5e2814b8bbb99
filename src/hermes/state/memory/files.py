"""The agent's own files: who it is (SOUL.md), and the printed form of what it noted (MEMORY.md, USER.md)."""

from __future__ import annotations

import logging
from datetime import datetime
from pathlib import Path

from hermes.domain.errors import UserError
from hermes.state.home.textfile import replace_text

log = logging.getLogger("hermes.memory")
FOLDER = "memories"
READABLE = (Path("SOUL.md"), Path(FOLDER) / "MEMORY.md")
"""What every session of the agent is told, so that its tools may read it too. Not USER.md: that is only for
sessions in which the owner takes part."""
LARGEST = 1 << 20


def read_soul(home: Path) -> str:
    """SOUL.md; empty if it is not there or cannot be read."""
    path = home / "SOUL.md"
    try:
        return path.read_text("utf-8", "replace") if path.is_file() else ""
    except OSError as error:
        log.warning("memory.unreadable file=SOUL.md why=%s", error.strerror)
        return ""


def write_first_soul(home: Path, text: str) -> None:
    """Give a new agent a SOUL.md to change; one that is there stays."""
    try:
        with open(home / "SOUL.md", "x", encoding="utf-8") as file:
            file.write(f"{text}\n")
    except FileExistsError:
        return
    except OSError as error:
        log.warning("memory.no_soul why=%s", error.strerror)


def read_printed(home: Path, name: str) -> str:
    """A file of entries; empty if there is none. One that is no text is a `UserError`: nothing may be
    written in its place."""
    path = home / FOLDER / name
    if not path.is_file():
        return ""
    if path.stat().st_size > LARGEST:
        raise UserError(f"{name} is larger than 1 MB, so it is left as it is.", hint="Make it smaller.")
    try:
        return path.read_bytes().decode("utf-8").removeprefix("\ufeff").strip()
    except UnicodeDecodeError as error:
        raise UserError(f"{name} is not UTF-8, so it is left as it is.", hint="Save it as UTF-8.") from error


def write_printed(home: Path, name: str, text: str) -> None:
    (home / FOLDER).mkdir(mode=0o700, parents=True, exist_ok=True)
    replace_text(home / FOLDER / name, f"{text}\n" if text else "", 0o600)


def set_aside(home: Path, name: str, text: str, now: datetime) -> Path:
    """Keep a copy of what was written into a file and is not taken over."""
    copy = home / FOLDER / f"{name}.refused-{now:%Y%m%d-%H%M%S}"
    replace_text(copy, text, 0o600)
    return copy
