"""A fake of an OpenAI-compatible API for pictures and speech, as the official SDK of OpenAI understands it.

It remembers what it was asked. `python -m hermes.testing.media_server` serves one until it is stopped."""

from __future__ import annotations

import asyncio
import struct
import zlib
from base64 import b64encode
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web

KEY = "sk-media-0123456789abcdef"
USAGE = {"input_tokens": 11, "output_tokens": 272, "total_tokens": 283}
OPUS = b"OggS" + b"\0" * 24 + b"OpusHead" + b"\2" * 300
WORDS = "The birch canoe slid on the smooth planks."


def png(width: int = 2, height: int = 2) -> bytes:
    """A real picture, all red."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    head = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    rows = (b"\0" + b"\xff\0\0" * width) * height
    parts = [chunk(b"IHDR", head), chunk(b"IDAT", zlib.compress(rows)), chunk(b"IEND", b"")]
    return b"\x89PNG\r\n\x1a\n" + b"".join(parts)


@dataclass
class MediaServer:
    """`by_url` has pictures told by their address, as older models did. `failure` is the answer to
    everything, if it is set: a status and an error of the service."""

    url: str = ""
    asked: list[tuple[str, dict[str, Any]]] = field(default_factory=list)
    by_url: bool = False
    failure: tuple[int, str] | None = None
    _runner: web.AppRunner | None = None

    async def __aenter__(self) -> MediaServer:
        app = web.Application(client_max_size=64 * 1024 * 1024)
        app.router.add_post("/v1/{path:.+}", self._answer)
        app.router.add_get("/made.png", self._made)
        self._runner = web.AppRunner(app)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", 0)
        await site.start()
        self.url = f"http://127.0.0.1:{self._runner.addresses[0][1]}/v1"
        return self

    async def __aexit__(self, *exc: object) -> None:
        assert self._runner is not None
        await self._runner.cleanup()

    async def _made(self, request: web.Request) -> web.Response:
        return web.Response(body=png(), content_type="image/png")

    async def _answer(self, request: web.Request) -> web.Response:
        path = request.match_info["path"]
        if request.headers.get("Authorization") != f"Bearer {KEY}":
            return _error(401, "Incorrect API key provided.", "invalid_api_key")
        given = await (_form(request) if request.content_type.startswith("multipart/") else request.json())
        self.asked.append((path, given))
        if self.failure is not None:
            return _error(*self.failure, "server_error")
        match path:
            case "images/generations" | "images/edits":
                return self._picture(given)
            case "audio/speech":
                return web.Response(body=OPUS, content_type="audio/ogg")
            case "audio/transcriptions":
                if not given.get("file"):
                    return _error(400, "file is required", "invalid_request_error")
                return web.json_response({"text": WORDS, "usage": {"type": "tokens", **USAGE}})
            case "chat/completions":
                return self._chat(given)
        return _error(404, f"no {path}", "not_found")

    def _picture(self, given: dict[str, Any]) -> web.Response:
        if not given.get("prompt") or not given.get("size"):
            return _error(400, "prompt and size are required", "invalid_request_error")
        base = self.url.removesuffix("/v1")
        made = {"url": f"{base}/made.png"} if self.by_url else {"b64_json": b64encode(png()).decode()}
        return web.json_response({"created": 1, "data": [made], "usage": USAGE})

    def _chat(self, given: dict[str, Any]) -> web.Response:
        url = f"data:image/png;base64,{b64encode(png()).decode()}"
        message = {
            "role": "assistant",
            "content": "Here it is.",
            "images": [{"type": "image_url", "image_url": {"url": url}}],
        }
        return web.json_response(
            {
                "id": "c1",
                "object": "chat.completion",
                "created": 1,
                "model": given.get("model"),
                "choices": [{"index": 0, "message": message, "finish_reason": "stop"}],
                "usage": {"prompt_tokens": 5, "completion_tokens": 1290, "total_tokens": 1295, "cost": 0.04},
            }
        )


def _error(status: int, message: str, code: str) -> web.Response:
    error = {"message": message, "type": code, "param": None, "code": code}
    return web.json_response({"error": error}, status=status)


async def _form(request: web.Request) -> dict[str, Any]:
    given: dict[str, Any] = {}
    async for part in await request.multipart():
        name = getattr(part, "name", None) or ""
        data = await part.read()  # type: ignore[union-attr]
        file = getattr(part, "filename", None)
        given.setdefault(name, []).append((file, data)) if file else given.update({name: data.decode()})
    return given


async def _serve() -> None:
    async with MediaServer() as server:
        print(server.url, flush=True)
        await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(_serve())
