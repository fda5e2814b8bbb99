"""Earlier texts of `config.yaml`, so that a change can be taken back: those that a command replaced, and
those that a gateway worked with. Secrets in `.env` are never copied."""

from __future__ import annotations

import contextlib
import re
from datetime import UTC, datetime
from pathlib import Path

from msgspec import Struct

from hermes.state.home.findings import SettingsFindings
from hermes.state.home.textfile import read_text, replace_text

CONFIG_FILE = "config.yaml"
FOLDER = "config_history"
KEPT = 20
_NAME = re.compile(r"\d{8}T\d{6}\.\d{6}Z\.yaml")


class EarlierConfig(Struct, frozen=True, kw_only=True):
    """A kept text, and when it was kept."""

    at: datetime
    text: str


def keep_config(home: Path, text: str) -> None:
    """Keep a text, unless it is the newest already. Where that cannot be, nothing is kept: whoever changes or
    adopts settings has done so."""
    files = _files(home)
    if not text.strip() or (files and _text(files[-1]) == text):
        return
    folder = home / FOLDER
    with contextlib.suppress(OSError):
        folder.mkdir(mode=0o700, exist_ok=True)
        replace_text(folder / f"{datetime.now(UTC):%Y%m%dT%H%M%S.%fZ}.yaml", text, 0o600)
        for old in files[: len(files) + 1 - KEPT]:
            old.unlink(missing_ok=True)


def config_text(home: Path) -> str:
    """What `config.yaml` says now."""
    return _text(home / CONFIG_FILE)


def earlier_configs(home: Path, text: str) -> list[EarlierConfig]:
    """The kept texts, the newest first, without this one and without repeats."""
    seen, earlier = {text}, list[EarlierConfig]()
    for file in reversed(_files(home)):
        kept = _text(file)
        if kept not in seen:
            seen.add(kept)
            at = datetime.strptime(file.stem, "%Y%m%dT%H%M%S.%fZ").replace(tzinfo=UTC)
            earlier.append(EarlierConfig(at=at, text=kept))
    return earlier


def _files(home: Path) -> list[Path]:
    try:
        return sorted(path for path in (home / FOLDER).iterdir() if _NAME.fullmatch(path.name))
    except OSError:
        return []


def _text(file: Path) -> str:
    return read_text(file, SettingsFindings(str(file))).text
