"""`install.sh`: read by shellcheck, and run in a home of its own with a clone that only says that it ran."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from tests.execution.beds import install

ROOT = Path(__file__).resolve().parents[2]
SCRIPT = ROOT / "install.sh"


def run(script: Path, home: Path, *words: str) -> subprocess.CompletedProcess[str]:
    environ = {"HOME": str(home), "PATH": "/usr/bin:/bin"}
    return subprocess.run(
        ["sh", script, *words], env=environ, stdin=subprocess.DEVNULL, capture_output=True, text=True,
        timeout=120, check=False,
    )  # fmt: skip


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    folder = tmp_path / "clone"
    (folder / "src" / "hermes").mkdir(parents=True)
    shutil.copy(SCRIPT, folder)
    (folder / "hermes").write_text('#!/bin/sh\necho "hermes $*" | tee -a "$HOME/ran"\n')
    (folder / "hermes").chmod(0o755)
    (tmp_path / "home").mkdir()
    return folder


def test_a_clone_is_prepared_and_linked_and_nobody_is_asked_without_a_terminal(
    clone: Path, tmp_path: Path
) -> None:
    home = tmp_path / "home"
    for _ in range(2):
        done = run(clone / "install.sh", home)
        assert done.returncode == 0, done
    assert (home / ".local/bin/hermes").resolve() == clone / "hermes"
    assert (home / "ran").read_text() == "hermes --version\n" * 2
    assert "setup" in done.stdout.splitlines()[-1]
    for program in ("git", "rg", "ffmpeg", "npm", "bwrap"):
        assert program in done.stdout or shutil.which(program, path="/usr/bin:/bin")


def test_what_is_not_ours_is_left_alone(clone: Path, tmp_path: Path) -> None:
    other = tmp_path / "home/.local/bin/hermes"
    other.parent.mkdir(parents=True)
    other.write_text("mine")
    done = run(clone / "install.sh", tmp_path / "home")
    assert done.returncode == 0 and "left alone" in done.stdout and other.read_text() == "mine"


def test_elsewhere_it_clones_what_it_is_told(clone: Path, tmp_path: Path) -> None:
    alone, home = tmp_path / "alone", tmp_path / "home"
    alone.mkdir()
    shutil.copy(SCRIPT, alone)
    done = run(alone / "install.sh", home)
    assert done.returncode == 1 and "--from ADDRESS" in done.stderr
    done = run(alone / "install.sh", home, "--from", str(tmp_path / "nosuch"), "--folder", str(home / "h"))
    assert done.returncode == 1 and "could not be cloned" in done.stderr
    for words in (
        ["init", "-q"],
        ["add", "-A"],
        ["-c", "user.name=x", "-c", "user.email=x@y", "commit", "-qm", "x"],
    ):
        subprocess.run(["git", "-C", clone, *words], check=True, timeout=60)
    done = run(alone / "install.sh", home, "--from", str(clone), "--folder", str(home / "h"))
    assert done.returncode == 0 and (home / ".local/bin/hermes").resolve() == home / "h" / "hermes", done


def test_a_wrong_word_gets_one_sentence(clone: Path, tmp_path: Path) -> None:
    done = run(clone / "install.sh", tmp_path / "home", "--yess")
    assert done.returncode == 1 and "There is no option --yess." in done.stderr
    assert "--folder DIR" in run(clone / "install.sh", tmp_path / "home", "--help").stdout


@pytest.mark.server
def test_shellcheck_finds_nothing() -> None:
    install("shellcheck", "shellcheck")
    done = subprocess.run(["shellcheck", SCRIPT], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "")
