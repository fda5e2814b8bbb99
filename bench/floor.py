"""The floor: the least that a durable gateway in Python does with a turn. It stores what was said, asks the
model with the whole conversation, passes its words on, and stores the answer; both commits reach the disk. No
product, but what the language, the library and the disk leave to be saved.
`python -m bench.floor <port> <database> <model address>`."""

from __future__ import annotations

import json
import sqlite3
import sys
from collections.abc import AsyncIterator

import aiohttp
from aiohttp import web

_PROMPT = {"role": "system", "content": "Answer shortly, and say so when you do not know. " * 24}
_SCHEMA = (
    "PRAGMA journal_mode = WAL",
    "PRAGMA synchronous = FULL",
    "CREATE TABLE IF NOT EXISTS said (n INTEGER PRIMARY KEY, session TEXT, role TEXT, text TEXT)",
    "CREATE INDEX IF NOT EXISTS said_session ON said (session, n)",
)


class Floor:
    def __init__(self, path: str, model: str) -> None:
        self._db = sqlite3.connect(path, isolation_level=None)
        for statement in _SCHEMA:
            self._db.execute(statement)
        self._url = f"{model}/chat/completions"
        self._http: aiohttp.ClientSession | None = None

    async def lifetime(self, app: web.Application) -> AsyncIterator[None]:
        async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as self._http:
            yield

    async def health(self, request: web.Request) -> web.Response:
        return web.json_response({"status": "ok"})

    async def complete(self, request: web.Request) -> web.StreamResponse:
        body = await request.json()
        session = request.headers.get("X-Hermes-Session-Id", "")
        self._store(session, "user", body["messages"][-1]["content"])
        out: web.StreamResponse | None = None
        if body.get("stream"):
            out = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
            await out.prepare(request)
        words: list[str] = []
        async for data, heard in self._answer(session):
            words += heard
            if out is not None:
                await out.write(data)
        text = "".join(words)
        self._store(session, "assistant", text)
        if out is not None:
            await out.write_eof()
            return out
        message = {"role": "assistant", "content": text}
        return web.json_response({"choices": [{"index": 0, "message": message, "finish_reason": "stop"}]})

    async def _answer(self, session: str) -> AsyncIterator[tuple[bytes, list[str]]]:
        """The model's stream as it comes, with the words in each piece."""
        assert self._http is not None
        query = "SELECT role, text FROM said WHERE session = ? ORDER BY n"
        history = [{"role": role, "content": text} for role, text in self._db.execute(query, (session,))]
        asked = {"model": "fake-model", "stream": True, "messages": [_PROMPT, *history]}
        rest = b""
        async with self._http.post(self._url, json=asked) as response:
            async for data in response.content.iter_any():
                *lines, rest = (rest + data).split(b"\n")
                yield data, [_word(line[6:]) for line in lines if line.startswith(b"data: {")]

    def _store(self, session: str, role: str, text: str) -> None:
        self._db.execute("INSERT INTO said (session, role, text) VALUES (?, ?, ?)", (session, role, text))


def _word(event: bytes) -> str:
    choices = json.loads(event).get("choices")
    return (choices[0]["delta"].get("content") or "") if choices else ""


def main(port: str, path: str, model: str) -> None:
    floor = Floor(path, model)
    app = web.Application()
    app.cleanup_ctx.append(floor.lifetime)
    app.router.add_get("/health", floor.health)
    app.router.add_post("/v1/chat/completions", floor.complete)
    web.run_app(app, host="127.0.0.1", port=int(port), print=None, access_log=None)


if __name__ == "__main__":
    main(*sys.argv[1:])
