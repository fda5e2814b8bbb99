"""Which files may leave, and which never do, whatever a path looks like."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from hermes.domain.chats.message import MediaKind
from hermes.domain.errors import UserError
from hermes.execution.files import work as file_work
from hermes.state.files import outgoing
from hermes.state.files.media import MediaFiles
from hermes.state.files.outgoing import OutgoingFiles
from hermes.state.store.writer import SqliteStore
from hermes.testing.backends import fixed_rules, local_backend
from hermes.testing.clock import FakeClock

SECRET = b"a secret that must not leave"


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A user's home with everything in it that is nobody else's business."""
    for path in (
        "hermes/.env",
        "hermes/config.yaml",
        "hermes/state.db",
        "hermes/agents/other/workspace/notes.txt",
        "hermes/agents/other/media/ab/abc",
        "hermes/workspace-of-evil/x.txt",
        ".ssh/id_ed25519",
        "documents/letter.txt",
        "outside/passwd",
    ):
        file = tmp_path / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(SECRET)
    for path in ("hermes/workspace/deep/chart.png", "hermes/media/de/def", "shared/report.pdf"):
        file = tmp_path / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(b"fine: " + path.encode())
    return tmp_path


class Letting:
    """What lets files go, with a media folder in memory."""

    def __init__(self, home: Path, *more: Path, workspace: Path | None = None) -> None:
        place = workspace or home / "hermes" / "workspace"
        allowed = [place, home / "hermes" / "media", home / "shared", *more]
        self.backend = local_backend(home=home, workspace=place, environ={"HOME": str(home)})
        self.rules = fixed_rules(
            allowed=allowed, homes=[home / "hermes", home / "hermes" / "agents" / "other"]
        )
        self.folder = home / "kept"

    async def read(self, path: str) -> tuple[bytes, str]:
        async with SqliteStore(None) as store:
            media = MediaFiles(self.folder, store, FakeClock())
            taken = await OutgoingFiles(media=media, backend=self.backend, rules=self.rules).take("s", path)
            return await media.open(taken.sha256 or ""), taken.name or ""


files_of = Letting


@pytest.mark.parametrize(
    "path",
    [
        "{home}/hermes/workspace/deep/chart.png",
        "~/hermes/workspace/deep/chart.png",
        "deep/chart.png",
        "./deep/../deep/chart.png",
        "{home}/hermes/workspace/deep/chart.png.",
        "{home}/hermes/media/de/def",
        "{home}/shared/report.pdf",
        "{home}/shared/report.pdf),",
        "{home}/hermes/../shared/report.pdf",
    ],
)
async def test_files_of_listed_folders_may_leave(home: Path, path: str) -> None:
    data, name = await files_of(home).read(path.format(home=home))
    assert data.startswith(b"fine: ") and name in ("chart.png", "def", "report.pdf")


@pytest.mark.parametrize(
    "path",
    [
        "/etc/passwd",
        "/etc/../etc/shadow",
        "/proc/self/environ",
        "/proc/self/cwd/../hermes/.env",
        "/dev/zero",
        "~/.ssh/id_ed25519",
        "~/documents/letter.txt",
        "~/hermes/.env",
        "~/hermes/config.yaml",
        "~/hermes/state.db",
        "~/hermes/agents/other/workspace/notes.txt",
        "~/hermes/agents/other/media/ab/abc",
        "~/hermes/workspace-of-evil/x.txt",
        "{home}/hermes/workspace/../.env",
        "{home}/hermes/workspace/deep/../../config.yaml",
        "../.env",
        "../../.ssh/id_ed25519",
        "{home}/shared/../documents/letter.txt",
        "{home}/sharedx/../.ssh/id_ed25519",
        "{home}/hermes/workspace",
        "{home}/hermes/workspace/missing.png",
        "~root/.bashrc",
        "file:///etc/passwd",
        "C:\\Windows\\win.ini",
        "",
        "a\0b",
        "x" * 5000,
        "{home}/hermes/workspace/\ud800",
        "~",
        "/",
    ],
)
async def test_nothing_else_leaves(home: Path, path: str) -> None:
    with pytest.raises(UserError):
        await files_of(home).read(path.format(home=home))


def to_file(home: Path) -> Path:
    return _link(home, home / ".ssh" / "id_ed25519")


def to_env(home: Path) -> Path:
    return _link(home, home / "hermes" / ".env")


def to_folder(home: Path) -> Path:
    return _link(home, home / ".ssh") / "id_ed25519"


def chain(home: Path) -> Path:
    return _link(home, _link(home, home / "outside" / "passwd", "first"), "second")


def relative(home: Path) -> Path:
    link = home / "hermes" / "workspace" / "up"
    link.symlink_to("../../.ssh/id_ed25519")
    return link


def through_media(home: Path) -> Path:
    link = home / "hermes" / "media" / "de" / "link"
    link.symlink_to(home / "hermes" / "agents" / "other" / "workspace")
    return link / "notes.txt"


def loop(home: Path) -> Path:
    link = home / "hermes" / "workspace" / "loop"
    link.symlink_to(link)
    return link


def pipe(home: Path) -> Path:
    path = home / "hermes" / "workspace" / "pipe"
    os.mkfifo(path)
    return path


def unix_socket(home: Path) -> Path:
    path = home / "hermes" / "workspace" / "s"
    with socket.socket(socket.AF_UNIX) as made:
        made.bind(os.path.relpath(path))
    return path


def _link(home: Path, to: Path, name: str = "link") -> Path:
    link = home / "hermes" / "workspace" / name
    link.symlink_to(to)
    return link


@pytest.mark.parametrize(
    "make", [to_file, to_env, to_folder, chain, relative, through_media, loop, pipe, unix_socket]
)
async def test_links_and_odd_things_take_nothing_out(home: Path, make: Callable[[Path], Path]) -> None:
    with pytest.raises(UserError):
        await files_of(home).read(str(make(home)))


async def test_a_link_inside_the_listed_folders_is_followed(home: Path) -> None:
    data, name = await files_of(home).read(str(_link(home, home / "shared" / "report.pdf")))
    assert (data, name) == (b"fine: shared/report.pdf", "report.pdf")


async def test_a_folder_above_a_home_does_not_open_the_home(home: Path) -> None:
    """Somebody who works in their home folder, or lists it, still sends nothing of Hermes."""
    for files in (files_of(home, home), files_of(home, Path("/")), files_of(home, workspace=home)):
        assert (await files.read(str(home / "documents" / "letter.txt")))[0] == SECRET
        for path in ("hermes/.env", "hermes/state.db", "hermes/agents/other/workspace/notes.txt"):
            with pytest.raises(UserError):
                await files.read(str(home / path))
        assert (await files.read(str(home / "hermes/media/de/def")))[0].startswith(b"fine")


async def test_a_folder_that_becomes_a_link_while_it_is_looked_at(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    swapped = home / "hermes" / "workspace" / "deep"
    (home / ".ssh" / "chart.png").write_bytes(SECRET)
    real_open = os.open

    def swap_then_open(path: str, flags: int, mode: int = 0o777) -> int:
        if not str(path).endswith("chart.png") or swapped.is_symlink():
            return real_open(path, flags, mode)
        (swapped / "chart.png").unlink()
        swapped.rmdir()
        swapped.symlink_to(home / ".ssh")
        return real_open(path, flags, mode)

    monkeypatch.setattr(file_work.os, "open", swap_then_open)
    with pytest.raises(UserError, match="elsewhere"):
        await files_of(home).read(str(swapped / "chart.png"))


async def test_what_is_too_large_stays(home: Path) -> None:
    large = home / "shared" / "large.bin"
    with large.open("wb") as file:
        file.truncate(outgoing.MOST_BYTES + 1)
    with pytest.raises(UserError, match="larger than 64 MiB"):
        await files_of(home).read(str(large))


async def test_a_file_that_is_replaced_while_it_is_read_stays(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Half of the old one and half of the new one would be a file that nobody wrote."""
    large = home / "shared" / "large.bin"
    large.write_bytes(b"a" * (3 << 19))
    files = files_of(home)
    read = files.backend.files.read

    async def read_then_replace(*words: Any, **options: Any) -> bytes:
        piece: bytes = await read(*words, **options)
        if not options["start"]:
            (home / "shared" / "new.bin").write_bytes(b"b" * (3 << 19))
            (home / "shared" / "new.bin").replace(large)
            os.utime(large, (1, 1))
        return piece

    monkeypatch.setattr(files.backend.files, "read", read_then_replace)
    with pytest.raises(UserError, match="it changed while it was read"):
        await files.read(str(large))


async def test_what_may_go_is_kept_as_it_was(home: Path) -> None:
    async with SqliteStore(home / "hermes" / "store.db") as store:
        media = MediaFiles(home / "hermes" / "media", store, FakeClock())
        files = OutgoingFiles(
            media=media,
            backend=local_backend(home=home, workspace=home / "shared", environ={"HOME": str(home)}),
            rules=fixed_rules(allowed=[home / "shared"], homes=[]),
        )
        taken = await files.take("s", "report.pdf")
        (home / "shared" / "report.pdf").write_bytes(b"changed since")
        assert (taken.kind, taken.name, taken.mime) == (MediaKind.FILE, "report.pdf", "application/pdf")
        assert taken.sha256 is not None and await media.open(taken.sha256) == b"fine: shared/report.pdf"
