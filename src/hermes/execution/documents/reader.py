"""Reads documents that anybody wrote, in a process of their own: it has a few seconds, little memory, no key,
and, where the kernel can close them, neither files nor network. A hostile document costs that process."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from pathlib import Path
from typing import Any

from hermes.domain.errors import UserError
from hermes.domain.ports.world import DocumentText
from hermes.execution.scripts import run_program

LARGEST = 50_000_000
MOST_CHARS = 2_000_000
SECONDS = 30.0
_AT_ONCE = 2
_START = (
    "import sys; sys.path.insert(0, sys.argv.pop(1)); "
    "from hermes.execution.documents import child; sys.path.pop(0); child.main()"
)
_SOURCES = str(Path(__file__).parents[3])


class DocumentProcess:
    """Its calls are `DocumentReader`'s; a few documents are read at once."""

    def __init__(self, *, seconds: float = SECONDS, python: str = sys.executable) -> None:
        self._seconds = seconds
        self._python = python
        self._turn = asyncio.Semaphore(_AT_ONCE)

    async def __call__(
        self, data: bytes, mime: str = "", *, limit: int = MOST_CHARS, url: str = ""
    ) -> DocumentText:
        if len(data) > LARGEST:
            raise UserError(f"The document has {len(data):,} bytes, more than {LARGEST:,}.")
        limit = min(limit, MOST_CHARS)
        answer = await self.ask({"read": mime, "limit": limit, "url": url}, data, most=12 * limit + 100_000)
        return DocumentText(text=answer["text"], title=answer["title"], cut=answer["cut"])

    async def ask(self, order: dict[str, object], data: bytes = b"", *, most: int) -> dict[str, Any]:
        """What the process answers; a `UserError` with its reason if it does not."""
        head = json.dumps(order).encode() + b"\n"
        command = (self._python, "-I", "-c", _START, _SOURCES)
        environ = {name: os.environ[name] for name in ("LANG", "TZ", "SSL_CERT_FILE") if name in os.environ}
        async with self._turn:
            end = await run_program(command, head + data, self._seconds, environ=environ, most=most)
        if end.code is None:
            raise UserError(f"It could not be read within {self._seconds:g} s.")
        try:
            answer: dict[str, Any] = json.loads(end.output)
        except ValueError:
            raise UserError("It takes more memory or time than one document may have.") from None
        if "error" in answer:
            raise UserError(answer["error"])
        return answer
