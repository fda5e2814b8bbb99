"""What an MCP server gives back, as a tool's result: text, pictures and files, structured data. All of it was
written elsewhere."""

from __future__ import annotations

import asyncio
import base64
import binascii
import json
from collections.abc import Iterable
from typing import Any

from hermes.domain.chats.message import MOST_SHOWN, SHOWN_IMAGES, Attachment, MediaKind
from hermes.domain.ports.world import Media
from hermes.domain.text import one_line
from hermes.domain.tools.tool import ToolResult
from hermes.domain.word import replace

_LARGEST_FILE = 32 << 20
_MOST_FILES = 16


class _Parts:
    def __init__(self, media: Media | None) -> None:
        self._media = media
        self.texts: list[str] = []
        self.files: list[Attachment] = []

    async def add(self, block: Any) -> None:
        kind = getattr(block, "type", "")
        if kind == "text":
            self.texts.append(block.text)
        elif kind in ("image", "audio"):
            await self.keep(block.data, kind)
        elif kind == "resource_link":
            self.texts.append(f"{block.name}: {block.uri} {block.description or ''}".rstrip())
        elif kind == "resource":
            await self.add_resource(block.resource)
        else:
            self.texts.append(f"[something of the kind “{one_line(str(kind), 40)}”, which cannot be shown]")

    async def add_resource(self, resource: Any) -> None:
        if hasattr(resource, "text"):
            self.texts.append(resource.text)
        else:
            await self.keep(resource.blob, str(resource.uri))

    async def keep(self, encoded: str, name: str) -> None:
        """What a file is, its own bytes tell."""
        shown = one_line(name.rpartition("/")[2] or name, 80)
        if self._media is None or len(encoded) > _LARGEST_FILE or len(self.files) >= _MOST_FILES:
            self.texts.append(f"[{shown}: a file that is too large, or one too many, and was not kept]")
            return
        try:
            data = await asyncio.to_thread(base64.b64decode, encoded, validate=True)
        except (binascii.Error, ValueError):
            self.texts.append(f"[{shown}: a file that cannot be read]")
            return
        item = await self._media.receive(lambda sink: sink(data), limit=_LARGEST_FILE)
        file = item.attached(shown)
        if file.kind is MediaKind.IMAGE and (item.mime not in SHOWN_IMAGES or item.size > MOST_SHOWN):
            file = replace(file, kind=MediaKind.FILE)  # a model's service refuses it, again and again
        self.files.append(file)

    def result(self, *, failed: bool = False, data: object = None) -> ToolResult:
        text = "\n".join(self.texts)
        if not text.strip() and data is not None:
            text = json.dumps(data, ensure_ascii=False)
        if not text.strip() and not self.files:
            text = "It says nothing." if not failed else "It failed, and does not say why."
        return ToolResult(text=text, attachments=tuple(self.files), data=data, failed=failed, outside=True)


async def call_result(result: Any, media: Media | None) -> ToolResult:
    parts = _Parts(media)
    for block in result.content:
        await parts.add(block)
    return parts.result(failed=bool(result.is_error), data=result.structured_content)


async def resource_result(contents: Iterable[Any], media: Media | None) -> ToolResult:
    parts = _Parts(media)
    for resource in contents:
        await parts.add_resource(resource)
    return parts.result()


async def prompt_result(messages: Iterable[Any], media: Media | None) -> ToolResult:
    parts = _Parts(media)
    for message in messages:
        parts.texts.append(f"{message.role}:")
        await parts.add(message.content)
    return parts.result()


def listed(lines: Iterable[str], none: str) -> ToolResult:
    return ToolResult(text="\n".join(lines) or none, outside=True)
