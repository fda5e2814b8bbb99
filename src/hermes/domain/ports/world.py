"""The world an agent acts on, as ports: commands and files, fetched media, and what jobs need of it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Protocol

from hermes.domain.ids import JobId, SessionId
from hermes.domain.job import ScriptReport
from hermes.domain.rows import MediaItem


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """One command line for a shell. `cd` and `export` last for its session; `cwd` counts for it alone."""

    text: str
    session: str = ""
    cwd: str | None = None
    env: Mapping[str, str] = field(default_factory=dict)
    timeout: float = 180.0


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandResult:
    """How a command ended. A long output is cut in its middle and kept whole in the file `saved`; what the
    command left running has a process id of its own in `left`."""

    output: str
    code: int
    cut: bool = False
    saved: str = ""
    timed_out: bool = False
    left: str = ""
    cwd: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessView:
    """A background process as it is now; `output` is what came since it was last looked at."""

    id: str
    command: str
    cwd: str
    seconds: float
    running: bool
    code: int | None = None
    output: str = ""
    dropped: int = 0
    saved: str = ""


class Processes(Protocol):
    """What runs in the background for a session. An id that is not the session's is a `UserError`."""

    async def list(self, session: str) -> list[ProcessView]: ...

    async def poll(self, session: str, process: str) -> ProcessView: ...

    async def wait(self, session: str, process: str, seconds: float) -> ProcessView:
        """As `poll`, after its end or after so many seconds."""

    async def kill(self, session: str, process: str) -> ProcessView: ...

    async def write(self, session: str, process: str, data: bytes, *, close: bool = False) -> None:
        """To its standard input; `close` ends the input after that."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FileView:
    """A file or folder; `path` is absolute and leads through no symbolic link."""

    path: str
    size: int
    folder: bool
    mode: int
    changed: float


@dataclass(frozen=True, slots=True, kw_only=True)
class FileSearch:
    """`pattern` is a regular expression for contents, and a glob for names (`names`). Folders that are
    `closed` are not looked into on the way."""

    pattern: str
    under: str = "."
    session: str = ""
    names: bool = False
    glob: str = ""
    limit: int = 50
    closed: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class FolderRules:
    """Which folders belong to a gateway and its agents, and what in them one agent may use without asking.
    Absolute paths: nothing at or below a `closed` one is read or changed without asking, except what is at
    or below a `readable` one (read) or a `writable` one (read and changed)."""

    closed: tuple[str, ...] = ()
    readable: tuple[str, ...] = ()
    writable: tuple[str, ...] = ()


NO_HOMES = FolderRules()


@dataclass(frozen=True, slots=True, kw_only=True)
class Match:
    """A place that matches; `line` is 0 when the name did."""

    path: str
    line: int = 0
    text: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class FileMatches:
    """Matches as far as they were looked for; `more` says that there are others."""

    matches: tuple[Match, ...]
    more: bool = False
    files: int = 0


class Files(Protocol):
    """Files as the commands of the same backend see them; relative paths start where the session stands.

    What cannot be done is a `UserError` that says why."""

    async def read(self, session: str, path: str, *, start: int = 0, limit: int = 1 << 20) -> bytes: ...

    async def write(self, session: str, path: str, data: bytes) -> None:
        """Whole and at once: a reader sees the old file or the new one. Keeps the mode, makes folders."""

    async def stat(self, session: str, path: str) -> FileView | None: ...

    async def list(self, session: str, path: str) -> list[FileView]: ...

    async def search(self, search: FileSearch) -> FileMatches: ...


class Backend(Protocol):
    """Where commands run and files live; the two always see the same world."""

    @property
    def files(self) -> Files: ...

    @property
    def processes(self) -> Processes: ...

    def cwd(self, session: str) -> str: ...

    async def run(self, command: Command, output: Callable[[str], None]) -> CommandResult: ...

    async def start(self, command: Command, ended: Callable[[ProcessView], None]) -> ProcessView:
        """Run in the background until it ends by itself, its timeout (0 = none) or `kill`."""

    async def close(self) -> None:
        """End every process; nothing is left afterwards."""


Sink = Callable[[bytes], Awaitable[None]]
"""Takes a file piece by piece; raises where there is to be no more of it."""


class Media(Protocol):
    """Files by content hash, in the agent's home."""

    async def put(self, data: bytes, mime: str) -> MediaItem: ...

    async def receive(self, pour: Callable[[Sink], Awaitable[None]], *, limit: int) -> MediaItem:
        """Keep what `pour` puts into the sink, whole or not at all, a `UserError` if it is more than `limit`
        bytes. Its type is told by its own bytes, never by who sends it."""

    async def open(self, sha256: str) -> bytes: ...

    def locate(self, item: MediaItem) -> str:
        """The absolute path of a file, for the agent's tools."""

    async def sweep(self, before: datetime) -> int:
        """Remove what was stored before a moment and is named nowhere; how many files that were."""


class JobWorld(Protocol):
    """What a job needs of the machine it runs on. What cannot be done is a `UserError`."""

    async def check(self, script: str, workdir: str) -> None:
        """Whether there are such a script and such a folder; empty names are fine."""

    async def enter(self, session: SessionId, workdir: str) -> None:
        """Commands of the session start in this folder."""

    async def run_script(self, name: str, workdir: str, seconds: float) -> ScriptReport: ...

    async def keep_output(self, job: JobId, file: str, text: str, most: int) -> None:
        """Write what a run said where people find it, and keep so many of them."""
