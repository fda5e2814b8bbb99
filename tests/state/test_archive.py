"""Archives of homes: complete, strict when they are read, and put back whole however that is cut off."""

from __future__ import annotations

import contextlib
import hashlib
import os
import zipfile
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import pytest

from hermes.domain.errors import UserError
from hermes.state.home.archive import (
    BEFORE_RESTORE,
    ArchivedFile,
    ArchiveManifest,
    read_archive,
    unpack_archive,
    write_archive,
)
from hermes.state.home.homes import RESTORING
from hermes.state.home.restoring import finish_restore, is_unfinished, restore

NOW = datetime(2026, 11, 18, 3, tzinfo=UTC)
FILES = {
    "config.yaml": b"model: demo\n",
    ".env": b"OPENAI_API_KEY=x\n",
    "memories/MEMORY.md": b"tea\n",
    "skills/a/SKILL.md": b"---\n",
    "media/ab/cd": bytes(range(256)) * 20,
}
LEFT = {
    "logs/gateway.log": b"log",
    "cache/x": b"x",
    "gateway.db": b"live",
    "gateway.lock": b"",
    "reserve.bin": b"0" * 100,
    "profiles/work/config.yaml": b"",
    "backups/state-20261101T000000Z.db": b"older",
    "archives/old.zip": b"",
}


def quiet(files: int, size: int) -> None:
    pass


def fill(folder: Path, files: dict[str, bytes]) -> None:
    for path, data in files.items():
        place = folder / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(data)


def content(folder: Path) -> dict[str, bytes]:
    return {
        str(file.relative_to(folder)): file.read_bytes()
        for file in folder.rglob("*")
        if file.is_file() and file.relative_to(folder).parts[0] not in (RESTORING, BEFORE_RESTORE)
    }


def archived(tmp_path: Path) -> Path:
    home, copy, target = tmp_path / "home", tmp_path / "state-20261118T030000Z.db", tmp_path / "home.zip"
    fill(home, FILES | LEFT)
    (home / ".env").chmod(0o600)
    (home / "link").symlink_to("/etc/passwd")
    copy.write_bytes(b"copy")
    manifest = ArchiveManifest(made_at=NOW, version="1")
    write_archive(home, target, copy, manifest, quiet)
    assert manifest.left_out == ["link: a link"]
    return target


def test_an_archive_holds_the_home_and_a_copy_of_its_database(tmp_path: Path) -> None:
    target = archived(tmp_path)
    assert target.stat().st_mode & 0o777 == 0o600
    manifest = unpack_archive(target, tmp_path / "new", quiet)
    assert content(tmp_path / "new") == FILES | {"backups/state-20261118T030000Z.db": b"copy"}
    assert (tmp_path / "new" / ".env").stat().st_mode & 0o777 == 0o600
    assert manifest.database == "backups/state-20261118T030000Z.db" and manifest == read_archive(target)
    assert {file.name for file in tmp_path.iterdir()} == {
        "home",
        "home.zip",
        "new",
        "state-20261118T030000Z.db",
    }


def test_a_quick_archive_has_no_conversations_and_no_files(tmp_path: Path) -> None:
    fill(tmp_path / "home", FILES)
    manifest = ArchiveManifest(made_at=NOW, version="1", quick=True)
    write_archive(tmp_path / "home", tmp_path / "a.zip", None, manifest, quiet)
    assert {file.path for file in manifest.files} == {"config.yaml", ".env", "memories/MEMORY.md"}


def test_a_damaged_archive_is_said_to_be_one(tmp_path: Path) -> None:
    """Wherever the damage is: each piece of it makes the ZIP wrong in another way."""
    target = archived(tmp_path)
    whole, manifest = target.read_bytes(), read_archive(target)
    refused = 0
    for place in range(len(whole)):
        target.write_bytes(whole[:place] + bytes([whole[place] ^ 0xFF]) + whole[place + 1 :])
        try:
            assert unpack_archive(target, None, quiet) == manifest
        except UserError:
            refused += 1
    assert refused > 1000


def rewritten(source: Path, change: Callable[[dict[str, bytes], Any], None]) -> Path:
    """An archive as somebody else would have made it."""
    with zipfile.ZipFile(source) as archive:
        held = {name: archive.read(name) for name in archive.namelist()}
    manifest = msgspec.json.decode(held.pop("manifest.json"))
    change(held, manifest)
    target = source.with_name("other.zip")
    with zipfile.ZipFile(target, "w") as archive:
        for name, data in held.items():
            archive.writestr(name, data)
        archive.writestr("manifest.json", msgspec.json.encode(manifest))
    return target


def escape(held: dict[str, bytes], manifest: Any, path: str) -> None:
    held[f"home/{path}"] = b"tea\n"
    like = next(file for file in manifest["files"] if file["path"] == "memories/MEMORY.md")
    manifest["files"].append(like | {"path": path})


@pytest.mark.parametrize(
    "change",
    [
        lambda held, manifest: held.pop("home/config.yaml"),
        lambda held, manifest: held.update({"home/extra": b""}),
        lambda held, manifest: held.update({"home/config.yaml": b"model: evil\n"}),
        lambda held, manifest: held.update({"home/config.yaml": b"model: demo\n" * 9}),
        lambda held, manifest: manifest.update(database="backups/nosuch.db"),
        lambda held, manifest: manifest["files"].append(manifest["files"][0]),
        lambda held, manifest: manifest.update(format=2),
        lambda held, manifest: manifest.pop("files") and manifest.update(files=5),
        *(
            lambda held, manifest, path=path: escape(held, manifest, path)
            for path in ("../evil", "/etc/evil", "a/../../evil", "profiles/x/config.yaml", ".restoring/ready",
                         "backups/deep/er.db", "a//b", "./a", "")
        ),
    ],
)  # fmt: skip
def test_what_is_not_as_its_manifest_says_is_refused(tmp_path: Path, change: Any) -> None:
    source = rewritten(archived(tmp_path), change)
    home = tmp_path / "there"
    fill(home, {"config.yaml": b"mine"})
    with pytest.raises(UserError) as caught:
        restore(home, source, quiet)
    assert str(source) in str(caught.value)
    assert content(home) == {"config.yaml": b"mine"} and not is_unfinished(home)
    assert not (tmp_path / "evil").exists()


@pytest.mark.parametrize("data", [b"", b"PK\x03\x04 no", b"x" * 5000])
def test_no_archive_at_all(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "a.zip").write_bytes(data)
    for read in (read_archive, lambda path: unpack_archive(path, None, quiet)):
        with pytest.raises(UserError, match="is no whole backup"):
            read(tmp_path / "a.zip")
    whole = archived(tmp_path)
    (tmp_path / "a.zip").write_bytes(whole.read_bytes()[: whole.stat().st_size // 2])
    with pytest.raises(UserError, match="is no whole backup"):
        read_archive(tmp_path / "a.zip")


class PowerCut(BaseException):
    pass


def cut_at(monkeypatch: pytest.MonkeyPatch, step: int) -> list[int]:
    """Every step on disk from this one on fails, as in a process that is gone."""
    taken = [0]

    def counted(real: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **given: Any) -> Any:
            taken[0] += 1
            if step and taken[0] >= step:
                raise PowerCut
            return real(*args, **given)

        return call

    for name in ("rename", "replace", "fsync", "mkdir", "unlink", "rmdir"):
        monkeypatch.setattr(f"os.{name}", counted(getattr(os, name)))
    return taken


def test_a_restore_that_is_cut_off_anywhere_leaves_the_old_home_or_ends_in_the_new_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = archived(tmp_path)
    old = {"config.yaml": b"mine", "gateway.db": b"mine", "backups/state-20270101T000000Z.db": b"newer"}
    kept = {"profiles/other/config.yaml": b"other", "gateway.lock": b""}
    new = FILES | {"backups/state-20261118T030000Z.db": b"copy", "gateway.db.restored": b""} | kept
    ends = {"old": 0, "new": 0}
    with monkeypatch.context() as patch:
        steps = cut_at(patch, 0)
        fill(tmp_path / "whole", old | kept)
        restore(tmp_path / "whole", source, quiet)
        count = steps[0]
    assert content(tmp_path / "whole") == new
    for step in range(1, count + 1):
        home = tmp_path / f"home-{step}"
        fill(home, old | kept)
        with monkeypatch.context() as patch, contextlib.suppress(PowerCut):
            cut_at(patch, step)
            restore(home, source, quiet)
        if is_unfinished(home):
            again = 0
            while is_unfinished(home):  # it is cut off again and again, each time a little later
                again += 1
                with monkeypatch.context() as patch, contextlib.suppress(PowerCut):
                    cut_at(patch, again)
                    finish_restore(home)
            ends["new"] += 1
            assert content(home) == new
            (before,) = (home / BEFORE_RESTORE).iterdir()
            assert content(before) == old
        elif content(home) == new:
            ends["new"] += 1
        else:
            ends["old"] += 1
            assert content(home) == old | kept
            restore(home, source, quiet)
            assert content(home) == new
    assert min(ends.values()) > 3


def test_a_file_that_goes_while_it_is_written_is_left_out(tmp_path: Path) -> None:
    fill(tmp_path / "home", {"a": b"1", "b": b"2"})
    manifest = ArchiveManifest(made_at=NOW, version="1")

    def vanish(files: int, size: int) -> None:
        (tmp_path / "home" / "b").unlink(missing_ok=True)

    write_archive(tmp_path / "home", tmp_path / "a.zip", None, manifest, vanish)
    assert [file.path for file in manifest.files] == ["a"] and manifest.left_out[0].startswith("b: ")
    assert isinstance(unpack_archive(tmp_path / "a.zip", None, quiet).files[0], ArchivedFile)


def test_an_archive_in_the_home_does_not_hold_itself(tmp_path: Path) -> None:
    home, manifest = tmp_path / "home", ArchiveManifest(made_at=NOW, version="1")
    fill(home, {"0": b"first", "z": b"last"})
    write_archive(home, home / "a.zip", None, manifest, quiet)
    assert [file.path for file in manifest.files] == ["0", "z"]


def test_of_a_file_that_grows_an_archive_takes_what_was_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log, manifest = tmp_path / "home" / "z", ArchiveManifest(made_at=NOW, version="1")
    fill(tmp_path / "home", {"z": b"1" * 500})
    real = hashlib.sha256

    class Growing:
        def __init__(self) -> None:
            self.digest = real()

        def update(self, piece: bytes) -> None:
            self.digest.update(piece)
            with log.open("ab") as file:
                file.write(b"2" * 500 * (log.stat().st_size < 5000))

        def hexdigest(self) -> str:
            return self.digest.hexdigest()

    with monkeypatch.context() as patch:
        patch.setattr("hermes.state.home.archive.hashlib.sha256", Growing)
        write_archive(tmp_path / "home", tmp_path / "a.zip", None, manifest, quiet)
    assert log.stat().st_size > 500 == manifest.size
    assert unpack_archive(tmp_path / "a.zip", None, quiet) == manifest


@pytest.mark.parametrize("place", ["work space", "agents/work"])
def test_what_is_mounted_in_the_home_is_not_moved(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    source, home = archived(tmp_path), tmp_path / "there"
    fill(home, {"config.yaml": b"mine", f"{place}/x": b"mine"})
    spelled = str(home / place).replace(" ", "\\040")
    (tmp_path / "mounts").write_text(
        f"22 1 0:21 / {home} rw - ext4 x rw\n23 1 0:21 / {home}/archives rw - ext4 x rw\n"
    )
    monkeypatch.setattr("hermes.state.home.restoring._MOUNTS", tmp_path / "mounts")
    restore(home, source, quiet)
    with (tmp_path / "mounts").open("a") as mounts:
        mounts.write(f"24 1 0:21 / {spelled} rw - ext4 x rw\n")
    before = content(home)
    with pytest.raises(UserError, match=f"{place} is a mount point"):
        restore(home, source, quiet)
    assert content(home) == before and not is_unfinished(home)


def test_an_archive_is_compressed(tmp_path: Path) -> None:
    fill(tmp_path / "home", {"log": b"again and again " * 100_000})
    manifest = ArchiveManifest(made_at=NOW, version="1")
    write_archive(tmp_path / "home", tmp_path / "a.zip", None, manifest, quiet)
    assert (tmp_path / "a.zip").stat().st_size < 100_000 < manifest.size


def test_a_place_that_cannot_be_written_is_said(tmp_path: Path) -> None:
    fill(tmp_path / "home", {"a": b"1"})
    with pytest.raises(UserError, match="cannot be written"):
        write_archive(
            tmp_path / "home",
            tmp_path / "no" / "a.zip",
            None,
            ArchiveManifest(made_at=NOW, version="1"),
            quiet,
        )
