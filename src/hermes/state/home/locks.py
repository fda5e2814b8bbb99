"""Locks that hold on the whole machine: one file each in a folder that all homes of a user share.

A lock is the kernel's (`flock`), so it ends with its process however that ended; what stands in the file only
says who has it. Files are never removed: a lock on a removed file would hold nobody back. What is locked is
named by a hash, so that nobody learns a credential from the folder."""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path
from typing import Any

from hermes.domain.errors import UserError

FOLDER_VARIABLE = "HERMES_GATEWAY_LOCK_DIR"
RUNTIME_VARIABLE = "HERMES_RUNTIME_DIR"
HOMES = "home"
"""The scope of the lock that every running gateway has on its home, also if files in it are removed."""


def lock_folder(environ: Mapping[str, str]) -> Path:
    said = environ.get(FOLDER_VARIABLE, "").strip()
    if said:
        return Path(os.path.abspath(os.path.expanduser(said)))
    state = environ.get("XDG_STATE_HOME", "").strip()
    home = environ.get("HOME") or str(Path.home())
    return Path(state or Path(home) / ".local" / "state") / "hermes" / "gateway-locks"


def runtime_folders(environ: Mapping[str, str]) -> list[Path]:
    """Where the gateways of this user are listed, whatever HOME is; the first one that can be used is written
    to."""
    given = environ.get(RUNTIME_VARIABLE, "").strip()
    if given:
        return [Path(os.path.abspath(os.path.expanduser(given)))]
    own = Path(f"/run/user/{os.getuid()}")
    return [*([own / "hermes"] if own.is_dir() else []), Path(f"/tmp/hermes-{os.getuid()}")]


@dataclass(slots=True, kw_only=True)
class MachineLock:
    """The right of one process on this machine to something, like a platform's credential."""

    folder: Path
    scope: str
    identity: str = field(repr=False)
    owner: Mapping[str, Any] = field(default_factory=dict)
    """What others are told while we have it; the process and the time are added."""
    _descriptor: int | None = None

    @property
    def path(self) -> Path:
        digest = sha256(f"{self.scope}\0{self.identity}".encode(errors="surrogatepass")).hexdigest()
        return self.folder / f"{self.scope}-{digest[:32]}.lock"

    def take(self) -> bool:
        """True if it is ours now, or was before. Quick, but it touches the disk: call it off the loop."""
        if self._descriptor is not None:
            return True
        try:
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            descriptor = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                facts = {"pid": os.getpid(), "since": datetime.now(UTC).isoformat(), **self.owner}
                os.ftruncate(descriptor, 0)
                os.pwrite(descriptor, json.dumps(facts).encode(), 0)
            except OSError:
                os.close(descriptor)
                raise
        except BlockingIOError:
            return False
        except OSError as error:
            raise UserError(
                f"The lock {self.path} cannot be used ({error.strerror}).",
                hint=f"Check the rights of the folder, or set {FOLDER_VARIABLE} to one of yours.",
            ) from error
        self._descriptor = descriptor
        return True

    def release(self) -> None:
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is not None:
            os.close(descriptor)

    def holder(self) -> dict[str, Any]:
        """What whoever has it says; empty if it says nothing."""
        return _read(self.path)


def _read(path: Path) -> dict[str, Any]:
    try:
        with path.open("rb") as file:
            facts = json.loads(file.read(4096))
    except (OSError, ValueError):
        return {}
    return facts if isinstance(facts, dict) else {}
