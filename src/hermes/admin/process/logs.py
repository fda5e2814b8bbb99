"""The log of a gateway: written without secrets to a file that rotates, and read again by `hermes logs`."""

from __future__ import annotations

import contextlib
import logging
import logging.handlers
import os
import sys
from collections.abc import Iterator
from pathlib import Path

from hermes.admin.process.home_files import LOG_FILE
from hermes.state.settings.secrets import RedactingFilter, Secrets

log = logging.getLogger("hermes.app")
SHOWN_ALL, SHOWN_LITTLE, SHOWN_NOT = logging.NOTSET, logging.WARNING, logging.CRITICAL + 1
_LOG_BYTES = 5_000_000
_LOG_FILES = 3
_BITE = 65_536


@contextlib.contextmanager
def logging_to(home: Path, secrets: Secrets, level: str, shown: int | None = None) -> Iterator[None]:
    """Log to the home, without secrets, and to stderr from the level `shown` on, if there is one. A log that
    cannot be written stops nothing."""
    sinks: list[logging.Handler] = []
    if shown is not None:
        sinks.append(logging.StreamHandler(sys.stderr))
        sinks[0].setLevel(shown)
        sinks[0].addFilter(lambda record: not hasattr(record, "printed"))
    try:
        sinks.append(
            logging.handlers.RotatingFileHandler(
                home / LOG_FILE,
                maxBytes=_LOG_BYTES,
                backupCount=_LOG_FILES,
                encoding="utf-8",
                errors="replace",
            )
        )
    except OSError as error:
        log.warning("log.unwritable file=%s why=%s", home / LOG_FILE, error.strerror)
    form = logging.Formatter("%(asctime)s %(levelname)-7s %(name)s %(message)s")
    root, ours = logging.getLogger(), logging.getLogger("hermes")
    complaining = logging.raiseExceptions
    logging.raiseExceptions = False
    ours.setLevel(level)
    for sink in sinks:
        sink.setFormatter(form)
        sink.addFilter(RedactingFilter(secrets))
        root.addHandler(sink)
    try:
        yield
    finally:
        for sink in sinks:
            root.removeHandler(sink)
            sink.close()
        logging.raiseExceptions = complaining


# --- reading it ------------------------------------------------------------------------------------


class LogFollower:
    """A log as it grows, over the moments at which it is turned; begins at its end."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file = 0
        self._at = 0
        self._rest = b""
        with contextlib.suppress(OSError):
            known = path.stat()
            self._file, self._at = known.st_ino, known.st_size

    def news(self) -> Iterator[str]:
        try:
            with self._path.open("rb") as file:
                known = os.fstat(file.fileno())
                if known.st_ino != self._file or known.st_size < self._at:
                    self._file, self._at, self._rest = known.st_ino, 0, b""
                file.seek(self._at)
                while bite := file.read(_BITE):
                    self._at += len(bite)
                    *whole, self._rest = (self._rest + bite).split(b"\n")
                    yield from (line.decode("utf-8", "replace") for line in whole)
        except FileNotFoundError:
            return


def read_lines(path: Path) -> Iterator[str]:
    """Those of the file before too, if the log has just been turned."""
    for part in (path.with_name(f"{path.name}.1"), path):
        with contextlib.suppress(FileNotFoundError), part.open(encoding="utf-8", errors="replace") as file:
            yield from (line.rstrip("\n") for line in file)
