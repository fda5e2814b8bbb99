"""Entry points are read as the standard library reads them, without loading it."""

from __future__ import annotations

import importlib.metadata
import subprocess
import sys
from pathlib import Path

import pytest

from hermes.domain.system.entry_points import entry_points

TEXT = """\
[console_scripts]
hx = hx.cli:main

[hermes.tools]
plain = hx.tools
# a remark
spaced   =   hx.tools : make.it
extra = hx.tools:make [fast, small]

[hermes.hooks]
plain = hx.hooks:observe
"""


def _install(folder: Path, name: str, version: str, text: str, kind: str = "dist-info") -> None:
    info = folder / f"{name.replace('-', '_')}-{version}.{kind}"
    info.mkdir(parents=True)
    metadata = info / ("METADATA" if kind == "dist-info" else "PKG-INFO")
    metadata.write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n\nName: not-this\n")
    (info / "entry_points.txt").write_text(text)


@pytest.mark.parametrize("kind", ["dist-info", "egg-info"])
def test_they_are_read_as_the_standard_library_reads_them(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _install(tmp_path, "Hx-Plugin", "1.2", TEXT, kind)
    monkeypatch.syspath_prepend(str(tmp_path))
    for group in ("hermes.tools", "hermes.hooks", "hermes.backends", "hermes.providers", "hermes.platforms"):
        ours = {(e.name, e.module, e.package, e.version) for e in entry_points(group)}
        theirs = {
            (e.name, e.module, e.dist.name, e.dist.version)
            for e in importlib.metadata.entry_points(group=group)
            if e.dist is not None
        }
        assert ours == theirs
        assert ours or group not in ("hermes.tools", "hermes.backends")


def test_the_first_on_the_path_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for version in ("2", "1"):
        _install(tmp_path / version, "hx_twice", version, "[hermes.tools]\nhx = os:sep\n")
        monkeypatch.syspath_prepend(str(tmp_path / version))
    twice = [entry for entry in entry_points("hermes.tools") if entry.name == "hx"]
    assert [(entry.version, entry.load()) for entry in twice] == [("1", "/")]


def test_a_new_folder_on_the_path_is_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "late" not in {entry.name for entry in entry_points("hermes.tools")}
    _install(tmp_path, "hx-late", "1", "[hermes.tools]\nlate = os.path:join\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    assert "late" in {entry.name for entry in entry_points("hermes.tools")}


def test_what_cannot_be_read_is_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "hx_file-1.dist-info").write_text("not a folder")
    (tmp_path / "hx_empty-1.dist-info").mkdir()
    monkeypatch.setattr(sys, "path", [*sys.path, str(tmp_path), str(tmp_path / "nowhere"), str(__file__)])
    assert entry_points("hermes.backends")


def test_the_reader_of_the_standard_library_stays_unloaded() -> None:
    code = (
        "import sys; from hermes.domain.system.entry_points import entry_points; "
        "assert entry_points('hermes.backends'); print('importlib.metadata' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"
