"""Files that go out: their bytes and their names. And files that an adapter keeps for itself."""

from __future__ import annotations

import asyncio
import json
import os
import tempfile
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from hermes.domain.chats.adapter import AdapterContext
from hermes.domain.chats.message import Attachment
from hermes.domain.errors import Refused, UserError
from hermes.entry.kit.payload import as_text, dig, read_json

ANY_MIME = "application/octet-stream"


def file_name(file: Attachment) -> str:
    """The name of a file; one that has none gets the ending of its kind."""
    return file.name or f"file.{(file.mime or 'application/bin').rpartition('/')[2]}"


async def read_file(context: AdapterContext, file: Attachment) -> bytes:
    """The bytes of a file; a `Refused` if it is gone, for it does not come back."""
    try:
        return await context.open_file(file)
    except UserError as error:
        raise Refused(str(error)) from error


def write_private(path: Path, text: str) -> None:
    """The old file or the new one, never half of it; for nobody else's eyes."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    descriptor, draft = tempfile.mkstemp(dir=path.parent, prefix=f".{path.stem}-")
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        os.replace(draft, path)
    except BaseException:
        Path(draft).unlink(missing_ok=True)
        raise
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


class Unstored:
    """An event that a service hands over once, on disk until it is stored: what a crash or a full store
    leaves there is stored at the next start. Without a folder nothing is kept."""

    def __init__(self, context: AdapterContext) -> None:
        self._file = None if context.folder is None else context.folder / "unstored.json"

    async def store(self, event: Any, accept: Callable[[Any], Awaitable[None]]) -> None:
        if self._file is not None:
            await asyncio.to_thread(write_private, self._file, json.dumps(event))
        await accept(event)
        await self._forget()

    async def store_left(self, accept: Callable[[Any], Awaitable[None]]) -> None:
        """Store what an earlier life left."""
        try:
            left = None if self._file is None else read_json(await asyncio.to_thread(self._file.read_bytes))
        except OSError:
            left = None
        if left is not None:
            await accept(left)
            await self._forget()

    async def _forget(self) -> None:
        if self._file is not None:
            await asyncio.to_thread(self._file.unlink, missing_ok=True)


def read_kept(context: AdapterContext, file: str, of: str, name: str) -> str:
    """A secret that `write_kept` stored for the same account, or nothing."""
    if context.folder is None:
        return ""
    try:
        kept = read_json((context.folder / file).read_text("utf-8"))
    except (OSError, ValueError):
        return ""
    secret = as_text(dig(kept, name)) if dig(kept, "of") == of else ""
    context.learn(secret)
    return secret


def write_kept(context: AdapterContext, file: str, of: str, name: str, secret: str) -> None:
    """Keep a secret in an adapter's folder, with whose it is; an OSError if that fails."""
    context.learn(secret)
    if context.folder is not None:
        write_private(context.folder / file, json.dumps({"of": of, name: secret}))
