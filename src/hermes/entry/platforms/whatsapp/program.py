"""The bridge's program: its source, which comes with Hermes; Node, which does not; and the packages that npm
installs for it into the home's cache, once for all accounts, as its lock pins them."""

from __future__ import annotations

import asyncio
import fcntl
import os
import re
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path

from hermes.domain.errors import UserError
from hermes.domain.text import one_line

SOURCES = (
    "package.json",
    "package-lock.json",
    "bridge.mjs",
    "calls.mjs",
    "inbox.mjs",
    "keys.mjs",
    "store.mjs",
)
_OLDEST_NODE = 20
_STAMP = "made-from"
_VERSION = re.compile(r"v(\d+)\.\d+\.\d+")
_MOST_SECONDS, _TOLD_SECONDS = 900.0, 10.0
_HANDED_ON = re.compile(
    r"PATH|HOME|USER|LANG|LC_.*|TZ|TMPDIR|(https?|all|no)_proxy|npm_config_.*|NODE_EXTRA_CA_CERTS|SSL_CERT_\w+",
    re.IGNORECASE,
)
_GET_NODE = "Install it (nodejs.org, or your system's packages), or name it in WHATSAPP_NODE."
_LOG_IN = "hermes platforms login whatsapp installs them."


def source() -> Path:
    """Where the bridge's files are: beside this one in a package, in `bridges/` in a checkout."""
    packaged = Path(__file__).with_name("bridge")
    return packaged if packaged.is_dir() else Path(__file__).parents[5] / "bridges" / "whatsapp"


def environment(environ: Mapping[str, str] | None = None) -> dict[str, str]:
    """What a program of Node's is told: where things are, and no secrets."""
    every = os.environ if environ is None else environ
    return {name: value for name, value in every.items() if _HANDED_ON.fullmatch(name)}


def place_of(folder: Path) -> Path:
    """Where the bridge is installed, for the account that keeps its files in this folder."""
    return folder.parents[1] / "cache" / "whatsapp-bridge"


async def find_node(named: str) -> str:
    """The Node program, if it is there and new enough."""
    program = shutil.which(named or "node")
    wanted = f"WhatsApp needs Node.js {_OLDEST_NODE} or later"
    if program is None:
        raise UserError(f"{wanted}, which is not here.", hint=_GET_NODE)
    code, said = await _output(program, "--version")
    fits = _VERSION.match(said)
    if code or fits is None:
        raise UserError(f"{wanted}, and {one_line(program, 80)} does not start as such.", hint=_GET_NODE)
    if int(fits[1]) < _OLDEST_NODE:
        raise UserError(f"{wanted}; {one_line(program, 80)} is {one_line(said, 20)}.", hint=_GET_NODE)
    return program


def program_in(place: Path) -> Path:
    """The installed bridge; a `UserError` if it is missing or of another version of Hermes."""
    stamp = place / _STAMP
    if not stamp.is_file():
        raise UserError("The packages of the WhatsApp bridge are not installed.", hint=_LOG_IN)
    if stamp.read_text("utf-8") != _digest():
        raise UserError("The WhatsApp bridge is of another version of Hermes.", hint=_LOG_IN)
    return place / "bridge.mjs"


async def install(node: str, place: Path, tell: Callable[[str], None]) -> Path:
    """The bridge, installed if it was not; npm takes exactly what the lock names, and runs none of it."""
    place.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with _alone(place.with_suffix(".lock")):
        try:
            return program_in(place)
        except UserError:
            tell(f"Installing the WhatsApp bridge and its packages (30 MB) into {place} …")
        npm = _npm_of(node)
        await asyncio.to_thread(_copy, place)
        await _install(npm, place, tell)
        (place / _STAMP).write_text(_digest(), "utf-8")
        tell("Installed.")
        return program_in(place)


def _npm_of(node: str) -> list[str]:
    """The npm that came with this Node, or any."""
    own = Path(node).resolve().parents[1] / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"
    if own.is_file():
        return [node, str(own)]
    if (other := shutil.which("npm")) is None:
        raise UserError("npm, which comes with Node.js, is not here.", hint=_GET_NODE)
    return [other]


async def _install(npm: list[str], place: Path, tell: Callable[[str], None]) -> None:
    asked = (
        "ci",
        "--ignore-scripts",
        "--legacy-peer-deps",
        "--no-audit",
        "--no-fund",
        "--no-update-notifier",
    )
    log = place / "npm.log"
    with log.open("wb") as file:
        process = await asyncio.create_subprocess_exec(
            *npm,
            *asked,
            cwd=place,
            env=environment(),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=file,
            stderr=file,
        )
        try:
            seconds = 0.0
            while process.returncode is None and seconds < _MOST_SECONDS:
                try:
                    async with asyncio.timeout(_TOLD_SECONDS):
                        await process.wait()
                except TimeoutError:
                    seconds += _TOLD_SECONDS
                    tell(f"… npm is at work, {seconds:.0f} s")
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
    if process.returncode:
        lines = [line for line in log.read_text("utf-8", "replace").splitlines() if "error" in line.lower()]
        why = one_line(" ".join(lines[:3]), 300) or f"it ended with {process.returncode}"
        raise UserError(
            f"npm could not install the WhatsApp bridge: {why}", hint="Check the network; run it again."
        )


def _copy(place: Path) -> None:
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir(mode=0o700)
    for name in SOURCES:
        shutil.copyfile(source() / name, place / name)


@contextmanager
def _alone(path: Path) -> Iterator[None]:
    """One process at a time installs."""
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _digest() -> str:
    return sha256(b"\0".join((source() / name).read_bytes() for name in SOURCES)).hexdigest()


async def _output(*command: str) -> tuple[int, str]:
    try:
        process = await asyncio.create_subprocess_exec(
            *command,
            env=environment(),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
        )
    except OSError:
        return 1, ""
    out, _ = await process.communicate()
    return process.returncode or 0, out.decode("utf-8", "replace").strip()
