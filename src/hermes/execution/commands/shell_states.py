"""What lasts between the commands of a session: the folder it stands in, what it has exported, and which of
that the gateway had given it.

Kept in a file per session, so that a session goes on in the same place after a restart: what a person allowed
for one folder must not run in another. Only the most recent sessions are also kept in memory. The next shell
evaluates the exports, so only statements that set a variable to a fixed text are ever taken over."""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import re
import stat
from collections.abc import Mapping
from pathlib import Path

from msgspec import Struct, field

from hermes.domain.safety.late_pattern import late_pattern

_KEPT = 256
_LARGEST = 256_000
_QUOTED = r"""(?:"(?:[^"\\$`]|\\.)*"|\$'(?:[^'\\]|\\.)*')"""
_POSIX = r"""(?:'[^']*'|"'+"|\\')+"""
_NAME = late_pattern(r"[A-Za-z_][A-Za-z0-9_]*")
_STATEMENT = late_pattern(
    rf"(?:declare -[A-Za-z]+|export) (?:(?P<plain>[A-Za-z_]\w*(?:=(?:{_QUOTED}|{_POSIX}))?)"
    rf"|[A-Za-z_]\w*=\((?:\[(?:[^]\"$`\\]|{_QUOTED})*\]={_QUOTED} ?)*\))\n",
    re.DOTALL,
)


class ShellState(Struct, frozen=True, kw_only=True):
    """`exports` is the shell's own listing, read back by the next shell; empty = nothing was run yet. `given`
    are the gateway's variables that the session had by then."""

    cwd: str
    exports: str = ""
    given: Mapping[str, str] = field(default_factory=dict)


class ShellStates:
    """Commands start in `start`. `elsewhere` means that folders are not those of the gateway's machine, so
    where they lead cannot be looked at from here."""

    def __init__(self, folder: Path, *, start: str, elsewhere: bool = False) -> None:
        self._folder = folder
        self.start = start
        self._elsewhere = elsewhere
        self._states: dict[str, ShellState] = {}

    async def get(self, session: str) -> ShellState:
        state = self._states.get(session)
        if state is None:
            loaded = await asyncio.to_thread(self._load, session)
            # A command may have ended meanwhile, and knows better.
            state = self._states.get(session) or loaded or ShellState(cwd=self.start)
            self._keep(session, state)
        if not self._elsewhere and await asyncio.to_thread(self._is_led_away, state.cwd):
            return ShellState(cwd=self.start, exports=state.exports, given=state.given)
        return state

    def _is_led_away(self, cwd: str) -> bool:
        """Whether a link stands now where the folder was, or above it: its real path was stored."""
        return cwd != self.start and os.path.realpath(cwd) != cwd

    async def put(self, session: str, state: ShellState) -> None:
        self._keep(session, state)
        if len(state.exports) <= _LARGEST:
            await asyncio.to_thread(self._save, session, state)

    def _keep(self, session: str, state: ShellState) -> None:
        self._states.pop(session, None)
        self._states[session] = state
        if len(self._states) > _KEPT:
            del self._states[next(iter(self._states))]

    def _path(self, session: str) -> Path:
        return self._folder / hashlib.sha256(session.encode()).hexdigest()[:32]

    def _load(self, session: str) -> ShellState | None:
        try:
            with self._path(session).open("rb") as file:
                if not _is_ours(file.fileno()):
                    return None
                text = file.read().decode("utf-8", "surrogateescape")
        except OSError:
            return None
        cwd, cut, rest = text.partition("\0")
        exports, _, given = rest.partition("\0")
        return ShellState(cwd=cwd, exports=read_exports(exports), given=_read_given(given)) if cut else None

    def _save(self, session: str, state: ShellState) -> None:
        """Best effort: a state that cannot be saved still holds until the gateway stops."""
        path = self._path(session)
        fresh = path.with_suffix(".new")
        text = f"{state.cwd}\0{state.exports}\0{json.dumps(dict(state.given))}"
        data = text.encode("utf-8", "surrogateescape")
        try:
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
            with os.fdopen(descriptor, "wb") as file:
                file.write(data)
            fresh.replace(path)
        except OSError:
            return


def read_dump(dump: bytes) -> ShellState | None:
    """The last whole state in what a shell dumped; None if it left without a word (`exec`, a kill)."""
    blocks = dump.decode("utf-8", "surrogateescape").split("\0\0")[:-1]
    if not blocks:
        return None
    cwd, _, exports = blocks[-1].partition("\0")
    cwd = cwd.removesuffix("\n")
    return ShellState(cwd=cwd, exports=read_exports(exports)) if cwd.startswith("/") else None


def read_exports(listing: str) -> str:
    """The variables of a shell's listing, each set to its text; none if anything else stands in it. Arrays
    are left out, and whole numbers become texts: their values are computed, which may run commands."""
    kept: list[str] = []
    at = 0
    while at < len(listing):
        statement = _STATEMENT.match(listing, at)
        if statement is None:
            return ""
        if statement["plain"]:
            kept.append(f"export {statement['plain']}\n")
        at = statement.end()
    return "".join(kept)


def _read_given(text: str) -> dict[str, str]:
    """Only names of variables are ever put before a shell as they are."""
    try:
        given = json.loads(text)
    except ValueError:
        return {}
    pairs = given.items() if isinstance(given, dict) else ()
    return {name: value for name, value in pairs if _NAME.fullmatch(name) and isinstance(value, str)}


def _is_ours(descriptor: int) -> bool:
    """Whether nobody else could have written the file."""
    info = os.fstat(descriptor)
    others = stat.S_IWGRP | stat.S_IWOTH
    return stat.S_ISREG(info.st_mode) and info.st_uid == os.geteuid() and not info.st_mode & others
