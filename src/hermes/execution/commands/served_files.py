"""The `Files` port over a server inside a sandbox (`file_server.py`). What it answers was made inside, so it
is checked here."""

from __future__ import annotations

import json
from collections.abc import AsyncIterable, Awaitable, Callable
from typing import Any, TypeVar

import msgspec

from hermes.domain.errors import Unreachable, UserError
from hermes.domain.ports.world import FileMatches, FileSearch, FileView, Match
from hermes.execution.commands import frames
from hermes.execution.commands.file_server import ASK, DATA, FAILED, TOLD
from hermes.execution.commands.transport import Connection
from hermes.execution.files.paths import PathsOfSessions, view_of
from hermes.execution.files.work import FoundFile

T = TypeVar("T")
_PIECE = 1 << 20
_BROKE = "the files of the sandbox cannot be reached any more"


class _Answer(msgspec.Struct):
    found_files: list[FoundFile] = []
    matches: list[Match] = []
    more: bool = False
    files: int = 0


class ServedFiles(PathsOfSessions):
    """`connect` gives a connection to the server, for one piece of work."""

    def __init__(
        self,
        connect: Callable[[], Awaitable[Connection]],
        cwd: Callable[[str], Awaitable[str]],
        home: str,
    ) -> None:
        super().__init__(cwd, home)
        self._connect = connect

    async def read(
        self, session: str, path: str, *, start: int = 0, limit: int = 1 << 20, follow: bool = True
    ) -> bytes:
        content = bytearray()
        words = {"start": start, "limit": limit, "follow": follow}
        await self._ask("read", "read", await self.resolve(session, path), words, content, limit)
        return bytes(content)

    async def write(
        self,
        session: str,
        path: str,
        data: bytes | AsyncIterable[bytes] | None,
        *,
        follow: bool = True,
        mode: int = 0,
    ) -> None:
        full = await self.resolve(session, path)
        if data is None:
            await self._ask("remove", "removed", full, {"follow": follow})
            return
        pieces = _cut(data) if isinstance(data, bytes) else data
        words = {"follow": follow, "mode": mode}
        await self._ask("write", "written", full, words, bytearray(), 0, pieces)

    async def stat(self, session: str, path: str) -> FileView | None:
        answer = await self._ask("stat", "looked at", await self.resolve(session, path))
        return view_of(answer.found_files[0]) if answer.found_files else None

    async def list(self, session: str, path: str) -> list[FileView]:
        answer = await self._ask("list", "listed", await self.resolve(session, path))
        return [*map(view_of, answer.found_files)]

    async def search(self, search: FileSearch) -> FileMatches:
        full = await self.resolve(search.session, search.under)
        answer = await self._ask("search", "searched", full, {"search": msgspec.structs.asdict(search)})
        matches = tuple(answer.matches[: search.limit])
        return FileMatches(matches=matches, more=answer.more, files=answer.files)

    async def _ask(
        self,
        work: str,
        verb: str,
        path: str,
        words: dict[str, Any] | None = None,
        content: bytearray | None = None,
        limit: int = 0,
        pieces: AsyncIterable[bytes] | None = None,
    ) -> _Answer:
        connection = await self._connect()
        try:
            asked = {"work": work, "verb": verb, "path": path, **(words or {})}
            connection.send(ASK, json.dumps(asked).encode())  # a name need not be UTF-8
            if pieces is not None:
                async for piece in pieces:
                    connection.send(frames.WRITE, piece)
                    await connection.drain()
                connection.send(frames.CLOSE_STDIN)
            return await _hear(connection, bytearray() if content is None else content, limit)
        finally:
            connection.close()


async def _hear(connection: Connection, content: bytearray, limit: int) -> _Answer:
    while (frame := await connection.receive()) is not None:
        letter, payload = frame
        try:
            if letter == TOLD:
                return _read(payload, _Answer)
            if letter == FAILED:
                text, hint = _read(payload, tuple[str, str])
                raise UserError(text, hint=hint)
        except (ValueError, RecursionError):
            break
        if letter != DATA or len(content) + len(payload) > limit:
            break
        content += payload
    raise Unreachable(_BROKE)


def _read(payload: bytes, type: type[T]) -> T:
    try:
        return msgspec.json.decode(payload, type=type)
    except msgspec.DecodeError:  # or it holds a name that is not UTF-8
        return msgspec.convert(json.loads(payload, parse_constant=int), type)


async def _cut(data: bytes) -> AsyncIterable[bytes]:
    for at in range(0, len(data), _PIECE):
        yield data[at : at + _PIECE]
