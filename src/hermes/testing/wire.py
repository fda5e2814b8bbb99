"""The world behind a socket: a test keeps it, and a process that may be killed talks to it, one JSON line for
a question and one for its answer."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from dataclasses import asdict

from hermes.domain.errors import HermesError, Refused, Unreachable
from hermes.testing.world import Update, Upload, World

_CALLS = ("poll", "ack", "send", "edit", "delete", "find", "download", "effect", "open_thread", "set_menu")
_LINE = 16 * 1024 * 1024


class WorldServer:
    def __init__(self, world: World) -> None:
        self._world = world
        self._server: asyncio.Server | None = None
        self._clients: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> WorldServer:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0, limit=_LINE)
        return self

    async def __aexit__(self, *exc: object) -> None:
        assert self._server is not None
        self._server.close()
        for client in list(self._clients):
            client.cancel()
        await asyncio.gather(*self._clients, return_exceptions=True)

    @property
    def port(self) -> int:
        assert self._server is not None
        port: int = self._server.sockets[0].getsockname()[1]
        return port

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._clients.add(task)
        try:
            while line := await reader.readline():
                answer = await self._answer(json.loads(line))
                writer.write(json.dumps(answer).encode() + b"\n")
                await writer.drain()
        except (ConnectionError, asyncio.CancelledError):
            # The process under test was killed, or the test is over.
            return
        finally:
            self._clients.discard(task)
            writer.close()

    async def _answer(self, question: dict[str, object]) -> dict[str, object]:
        name = str(question["call"])
        arguments = question["with"]
        assert name in _CALLS and isinstance(arguments, dict)
        try:
            result = await getattr(self._world, name)(**arguments)
        except Refused as error:
            return {"refused": str(error)}
        except Unreachable as error:
            return {"unreachable": str(error), "after": error.after, "maybe": error.maybe_done}
        if name == "poll":
            return {"result": [asdict(update) for update in result]}
        return {"result": result}


class RemoteWorld:
    """The same interface from the other side. Each call has a connection of its own when it needs one."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._idle: list[tuple[asyncio.StreamReader, asyncio.StreamWriter]] = []

    async def poll(self, after: int, limit: int = 100) -> Sequence[Update]:
        rows = await self._ask("poll", after=after, limit=limit)
        assert isinstance(rows, list)
        return [
            Update(**{**row, "uploads": tuple(Upload(**upload) for upload in row["uploads"])}) for row in rows
        ]

    async def ack(self, upto: int) -> None:
        await self._ask("ack", upto=upto)

    async def send(
        self,
        chat: str,
        text: str,
        key: str,
        buttons: list[str] | None = None,
        reply_to: str | None = None,
        files: list[str] | None = None,
    ) -> str:
        more = {"buttons": buttons, "reply_to": reply_to, "files": files}
        return str(await self._ask("send", chat=chat, text=text, key=key, **more))

    async def edit(self, ref: str, text: str) -> None:
        await self._ask("edit", ref=ref, text=text)

    async def delete(self, ref: str) -> None:
        await self._ask("delete", ref=ref)

    async def find(self, chat: str, key: str) -> str | None:
        found = await self._ask("find", chat=chat, key=key)
        return None if found is None else str(found)

    async def download(self, ref: str, part: int = 0) -> str:
        return str(await self._ask("download", ref=ref, part=part))

    async def open_thread(self, chat: str, name: str) -> str:
        return str(await self._ask("open_thread", chat=chat, name=name))

    async def set_menu(self, names: list[str]) -> None:
        await self._ask("set_menu", names=names)

    async def effect(self, name: str, key: str, token: str) -> None:
        await self._ask("effect", name=name, key=key, token=token)

    async def _ask(self, call: str, **arguments: object) -> object:
        try:
            reader, writer = self._idle.pop() if self._idle else await asyncio.open_connection(
                "127.0.0.1", self._port, limit=_LINE
            )  # fmt: skip
            writer.write(json.dumps({"call": call, "with": arguments}).encode() + b"\n")
            line = await reader.readline()
        except OSError as error:
            raise Unreachable(f"the service is gone: {error}", maybe_done=True) from error
        if not line:
            raise Unreachable("the service closed the connection", maybe_done=True)
        self._idle.append((reader, writer))
        return _result(json.loads(line))


def _result(answer: dict[str, object]) -> object:
    error: HermesError
    if "refused" in answer:
        error = Refused(str(answer["refused"]))
        raise error
    if "unreachable" in answer:
        after = answer.get("after")
        error = Unreachable(
            str(answer["unreachable"]),
            after=float(after) if isinstance(after, int | float) else None,
            maybe_done=bool(answer.get("maybe")),
        )
        raise error
    return answer["result"]
