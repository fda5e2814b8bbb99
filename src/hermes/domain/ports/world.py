"""The world an agent acts on, as ports: commands and files, fetched media, and what jobs need of it."""

from __future__ import annotations

from collections.abc import AsyncIterable, Awaitable, Callable, Hashable, Mapping, Sequence
from datetime import datetime
from enum import StrEnum
from pathlib import Path
from typing import Protocol, TypeVar

from msgspec import Struct, field

from hermes.domain.chats.address import Source
from hermes.domain.chats.rows import MediaItem
from hermes.domain.ids import JobId, SessionId
from hermes.domain.settings.settings import Profile, Route
from hermes.domain.turns.job import ScriptReport

T = TypeVar("T")
BACKENDS = "hermes.backends"
"""The group of entry points that backends are installed in."""
LOCAL = "local"
"""The backend that is the gateway's machine itself."""
OUTPUT_FOLDER = "cache/output"
"""Where that one keeps long outputs, below an agent's home."""


AskPassword = Callable[[int], Awaitable[str]]
"""Gives the password that sudo wants, empty if there is none. Takes how many were wrong before."""


HearCall = Callable[[bytes], Callable[[], Awaitable[bytes]] | None]
"""Takes a line that a program calls the gateway with, and gives what answers it, if anything does. It raises
`ValueError` for one that ends the program."""


class Wrote(Protocol):
    """Hears that a background process wrote lines with what is watched for."""

    def __call__(self, view: ProcessView, lines: tuple[str, ...], /) -> None: ...


class Command(Struct, frozen=True, kw_only=True):
    """One command line for a shell. `cd` and `export` last for its session; `cwd` counts for it alone. With
    `password`, sudo in it may ask for one; a backend without sudo need not care. With `hear`, its program has
    `given` and then the answers on its standard input, and writes its calls, a line each, to its file 247.
    With `pty` it runs on a terminal of its own, or says in its output that there is none. In the background,
    `wrote` hears of lines with one of the texts in `watch`, each of one line and at most 200 characters."""

    text: str
    session: str = ""
    cwd: str | None = None
    env: Mapping[str, str] = field(default_factory=dict)
    timeout: float = 180.0
    password: AskPassword | None = None
    hear: HearCall | None = None
    given: bytes = b""
    pty: bool = False
    watch: tuple[str, ...] = ()
    wrote: Wrote = lambda view, lines: None


class CommandResult(Struct, frozen=True, kw_only=True):
    """How a command ended. A long output is cut in its middle and kept whole in the file `saved`; what the
    command left running has a process id of its own in `left`."""

    output: str
    code: int
    cut: bool = False
    saved: str = ""
    timed_out: bool = False
    left: str = ""
    cwd: str = ""


class ProcessView(Struct, frozen=True, kw_only=True):
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

    async def poll(self, session: str, process: str, *, whole: bool = False) -> ProcessView:
        """With what came since it was last looked at; or with the `whole` end of its output that is kept,
        which does not count as a look."""

    async def wait(self, session: str, process: str, seconds: float) -> ProcessView:
        """As `poll`, after its end or after so many seconds."""

    async def kill(self, session: str, process: str) -> ProcessView: ...

    async def write(self, session: str, process: str, data: bytes, *, close: bool = False) -> None:
        """To its standard input; `close` ends the input after that."""


class FileView(Struct, frozen=True, kw_only=True):
    """A file or folder; `path` is absolute and leads through no symbolic link."""

    path: str
    size: int
    folder: bool
    mode: int
    changed: float


class FileSearch(Struct, frozen=True, kw_only=True):
    """`pattern` is a regular expression for contents, and a glob for names (`names`). Folders that are
    `closed` are not looked into on the way. What `.gitignore` files name is left out, unless
    it is `unhidden`. Contents are told with so many lines of `context` before and after; in `files`, one
    match each is enough, and how many lines match is told if they are to be `counted`."""

    pattern: str
    under: str = "."
    session: str = ""
    names: bool = False
    glob: str = ""
    limit: int = 50
    closed: tuple[str, ...] = ()
    unhidden: bool = False
    context: int = 0
    files: bool = False
    counted: bool = False


class FolderRules(Struct, frozen=True, kw_only=True):
    """Which folders belong to a gateway and its agents, and what in them one agent may use without asking.
    Absolute paths: nothing at or below a `closed` one is read or changed without asking, except what is at
    or below a `readable` one (read) or a `writable` one (read and changed). What of it is at or below a
    `sealed` one and not the agent's `own` is another's: file tools never reach it, whoever is asked."""

    closed: tuple[str, ...] = ()
    readable: tuple[str, ...] = ()
    writable: tuple[str, ...] = ()
    sealed: tuple[str, ...] = ()
    own: tuple[str, ...] = ()


NO_HOMES = FolderRules()


class Match(Struct, frozen=True, kw_only=True):
    """A place that matches; `line` is 0 when the name did, or the file as a whole, in `count` lines."""

    path: str
    line: int = 0
    text: str = ""
    before: tuple[str, ...] = ()
    after: tuple[str, ...] = ()
    count: int = 0


class FileMatches(Struct, frozen=True, kw_only=True):
    """Matches as far as they were looked for; `more` says that there are others."""

    matches: tuple[Match, ...]
    more: bool = False
    files: int = 0


class Files(Protocol):
    """Files as the commands of the same backend see them; relative paths start where the session stands.

    What cannot be done is a `UserError` that says why."""

    async def read(
        self, session: str, path: str, *, start: int = 0, limit: int = 1 << 20, follow: bool = True
    ) -> bytes:
        """A part of a regular file. Without `follow`, a path through a symbolic link is refused."""

    async def write(
        self,
        session: str,
        path: str,
        data: bytes | AsyncIterable[bytes] | None,
        *,
        follow: bool = True,
        mode: int = 0,
    ) -> None:
        """Whole and at once: a reader sees the old file or the new one. Keeps the mode, makes folders. A
        file that was not there gets `mode`, unless that is 0. What comes in pieces is never held whole; with
        None the file is removed. Without `follow`, a path through a symbolic link is refused."""

    async def stat(self, session: str, path: str) -> FileView | None: ...

    async def list(self, session: str, path: str) -> list[FileView]: ...

    async def search(self, search: FileSearch) -> FileMatches: ...


class Boundary(StrEnum):
    """How strongly a backend holds commands in. `WEAK` keeps what is in files apart, but not all
    about them, and shows processes of the machine; it is never enough for strangers."""

    NONE = "none"
    WEAK = "weak"
    SANDBOX = "sandbox"
    CONTAINER = "container"

    @property
    def holds_strangers(self) -> bool:
        return self in (Boundary.SANDBOX, Boundary.CONTAINER)


UNKNOWN_BOUNDARY = "unknown"
"""That of a backend that has not told its world yet, and that no probe knows."""


class NetworkRules(Struct, frozen=True, kw_only=True):
    """What commands may reach: everything (`open`), else only `hosts` through the gateway's egress client;
    none listed = nothing. `*.example.org` stands for every name below."""

    open: bool = False
    hosts: tuple[str, ...] = ()

    def __str__(self) -> str:
        return "open" if self.open else ", ".join(self.hosts) or "none"


OPEN_NETWORK = NetworkRules(open=True)
NO_NETWORK = NetworkRules()


class World(Struct, frozen=True, kw_only=True):
    """The place that a backend's commands and files are in, in its own words: paths are as commands there
    write them.

    `sandbox` names what holds commands in; empty = nothing does. `boundary` says how strongly. `host` names
    the machine, unless it is the gateway's. With `host_files` its paths are those of the gateway's machine,
    so that what the gateway keeps in a home is seen there under the same name. `host_folder` is the folder of
    that machine which the workspace is, empty if it is none. `backend` is what the settings call it; the
    gateway fills it in."""

    workspace: str
    home: str
    system: str
    shell: str
    sandbox: str = ""
    boundary: Boundary = Boundary.NONE
    network: NetworkRules = OPEN_NETWORK
    host_files: bool = False
    host_folder: str = ""
    host: str = ""
    backend: str = ""

    @property
    def elsewhere(self) -> str:
        """What a person calls it, and what their word is bound to; empty for the gateway's machine itself."""
        backend = self.backend.strip().lower()
        network = "" if self.network.open else str(self.network)
        within = (("", self.host), ("sandbox ", self.sandbox), ("network ", network))
        names = "".join(f", {kind}{name}" for kind, name in within if name)
        return f"{backend or LOCAL}{names}" if names or backend not in ("", LOCAL) else ""


class BackendLife(Protocol):
    """Whoever uses a backend opens it first. It may be closed while it is idle, and opened again."""

    async def open(self) -> None:
        """Get ready; a `UserError` or `Unreachable` says why it cannot."""

    async def health(self) -> str:
        """What is wrong with it; empty if nothing is."""

    def idle(self) -> bool:
        """Whether closing it would end nothing: no command and no process runs."""

    async def close(self) -> None:
        """End every process; nothing is left afterwards, unless the backend keeps processes and says so. Also
        called after an `open` that failed or was cancelled."""


class Backend(BackendLife, Protocol):
    """Where commands run and files live; the two always see the same world."""

    @property
    def files(self) -> Files: ...

    @property
    def processes(self) -> Processes: ...

    async def place(self, session: str = "") -> World:
        """The world of a session's commands, the same for its whole life. Asked before anything is opened."""

    async def cwd(self, session: str) -> str:
        """The folder that a session stands in. Asked before anything is opened."""

    async def run(self, command: Command, output: Callable[[str], None]) -> CommandResult: ...

    async def start(self, command: Command, ended: Callable[[ProcessView], None]) -> ProcessView:
        """Run in the background until it ends by itself, its timeout (0 = none) or `kill`."""


class Share(Protocol):
    def __call__(self, key: Hashable, make: Callable[[], T]) -> T:
        """What was made before under this key for the same gateway, else what is made now."""


OpenEgress = Callable[[], Awaitable[Path]]
"""Gives the Unix socket of an HTTP proxy that lets through to the hosts of a backend's `network` alone. It is
called when a sandbox opens. The socket lies alone in its folder: bind the folder in, for after a restart of
the gateway there is a new socket. What runs inside needs `execution/egress/forwarder.py` and the variables
that name a proxy."""


class BackendRequest(Struct, frozen=True, kw_only=True):
    """What a backend is made from. `home` is the agent's folder on the gateway's machine, `workspace` the one
    its commands start in there; a backend with a world of its own may map or ignore it. Of `environ`, the
    variables of the gateway, commands may see those in `passthrough`. `find` answers `variable`, which is for
    the backend itself. `route` is the route that asks for this backend; None = the settings do, for all. A
    backend that cannot hold `network` must refuse to open; with `hosts` in it, `open_egress` opens the way to
    them."""

    profile: Profile
    workspace: Path
    environ: Mapping[str, str]
    share: Share
    passthrough: tuple[str, ...] = ()
    route: Route | None = None
    network: NetworkRules = OPEN_NETWORK
    open_egress: OpenEgress | None = None
    find: Callable[[str], str] | None = None

    @property
    def home(self) -> Path:
        return self.profile.home

    def variable(self, name: str) -> str:
        """What a variable of `.env` or of the environment says by now, a secret one too; empty if it is not
        set. It is for the backend itself, never for its commands."""
        return self.environ.get(name, "") if self.find is None else self.find(name)


MakeBackend = Callable[[BackendRequest], Backend]
"""An entry of the group `hermes.backends`. It makes no connection and starts no process: `open` does."""


Sink = Callable[[bytes], Awaitable[None]]
"""Takes a file piece by piece; raises where there is to be no more of it."""


class WebRequest(Struct, frozen=True, kw_only=True):
    """A request to an address that somebody named. `private` says that the operator named this very address,
    so that it may lead into a network of ours. So many `redirects` are followed; without any, one is an
    answer like others. With a `limit` of 0 only the status and the headers are read."""

    url: str
    method: str = "GET"
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""
    limit: int = 5_000_000
    seconds: float = 30.0
    redirects: int = 0
    private: bool = False


class FetchedPage(Struct, frozen=True, kw_only=True):
    """What an address answered; `url` is where the redirects ended. The names of `headers` are in small
    letters."""

    url: str
    status: int
    mime: str
    data: bytes
    headers: Mapping[str, str] = field(default_factory=dict)


class Egress(Protocol):
    """The way to addresses that a person, a model or other content named."""

    async def fetch(self, url: str, *, limit: int = 5_000_000, seconds: float = 30.0) -> FetchedPage:
        """Get what is there. A `UserError` if it is no address of the open network, has more than `limit`
        bytes or takes too long."""

    async def request(self, request: WebRequest) -> FetchedPage:
        """Any request. `Refused` if it may not be sent or its answer not be taken, `Unreachable` if there is
        none."""

    async def check(self, url: str) -> None:
        """Whether an address may be reached, for one that somebody else will fetch for us: `Refused` if it
        may not, `Unreachable` if its host is not known."""

    async def close(self) -> None: ...


class DocumentText(Struct, frozen=True, kw_only=True):
    """What a document says, as Markdown or plain text; `cut` if it says more."""

    text: str
    title: str = ""
    cut: bool = False


class DocumentReader(Protocol):
    """Reads pages, PDFs, office files, notebooks and texts, off the loop and with bounded time and memory.
    What a document is, its own bytes say first, then `mime` (with its charset, if that is known). Links in it
    start at `url`. A `UserError` says why it cannot be read."""

    async def __call__(
        self, data: bytes, mime: str = "", *, limit: int = 2_000_000, url: str = ""
    ) -> DocumentText: ...


class Media(Protocol):
    """Files by content hash, in the agent's home."""

    async def put(self, data: bytes, mime: str) -> MediaItem: ...

    async def receive(self, pour: Callable[[Sink], Awaitable[None]], *, limit: int) -> MediaItem:
        """Keep what `pour` puts into the sink, whole or not at all, a `UserError` if it is more than `limit`
        bytes. Its type is told by its own bytes, never by who sends it."""

    async def open(self, sha256: str) -> bytes: ...

    def locate(self, item: MediaItem) -> str:
        """The absolute path of a file, for the agent's tools."""

    async def sweep(self, before: datetime, unused: Sequence[MediaItem]) -> int:
        """Remove files that are named nowhere, unless they were stored again since, and what else lies about
        from before that moment; how many files that were."""


class JobWorld(Protocol):
    """What a job needs of the machine it runs on. What cannot be done is a `UserError`."""

    async def check(self, script: str, workdir: str, maker: Source | None) -> None:
        """Whether there are such a script and, where the job's commands will run, such a folder; empty names
        are fine. `maker` is who made the job, from where; a stranger's has no script."""

    async def enter(self, session: SessionId, workdir: str, maker: Source | None) -> str:
        """Commands of the session start in this folder. If a sandbox has to be given it for that, it is
        returned as the session's own; else nothing is."""

    async def run_script(self, name: str, workdir: str, seconds: float) -> ScriptReport: ...

    async def keep_output(self, job: JobId, file: str, text: str, most: int) -> None:
        """Write what a run said where people find it, and keep so many of them."""
