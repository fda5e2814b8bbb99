"""Attached images, read for the model. A request carries them as data URLs; one that cannot be read is
missing there, which is told to the model in words, and the turn goes on."""

from __future__ import annotations

import asyncio
import logging
from base64 import b64encode
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace

from hermes.agent.context import is_image
from hermes.domain.errors import HermesError
from hermes.domain.event import UserSaid
from hermes.domain.message import Attachment
from hermes.domain.ports import Media, ModelPiece, ModelRequest, Provider

log = logging.getLogger("hermes.pictures")
MOST_IMAGES = 20
MOST_BYTES = 32 * 1024 * 1024
_UNTOLD = "image/png"


class Illustrated:
    """A provider whose requests carry the images of the conversation, the latest first if there are more than
    one request should hold. Those are read for each request and kept nowhere."""

    def __init__(self, provider: Provider, media: Media) -> None:
        self._provider = provider
        self._media = media

    def call(self, request: ModelRequest) -> AsyncIterator[ModelPiece]:
        wanted = {image.sha256: image for image in _latest_first(request) if image.sha256}
        return self._with_images(request, wanted) if wanted else self._provider.call(request)

    async def _with_images(
        self, request: ModelRequest, wanted: dict[str, Attachment]
    ) -> AsyncIterator[ModelPiece]:
        images: dict[str, str] = {}
        room = MOST_BYTES
        for sha256, image in list(wanted.items())[:MOST_IMAGES]:
            data = await self._read(sha256)
            room -= len(data)
            if room < 0:
                break
            if data:
                images[sha256] = await asyncio.to_thread(_data_url, image, data)
        async for piece in self._provider.call(replace(request, images=images)):
            yield piece

    async def _read(self, sha256: str) -> bytes:
        try:
            return await self._media.open(sha256)
        except HermesError as error:
            log.warning("picture.unreadable why=%s", error)
            return b""


def _latest_first(request: ModelRequest) -> Iterator[Attachment]:
    for entry in reversed(request.entries):
        record = entry.record
        if isinstance(record, UserSaid) and record.attachments:
            yield from filter(is_image, reversed(record.attachments))
    for earlier in reversed(request.history):
        yield from filter(is_image, reversed(earlier.attachments))


def _data_url(image: Attachment, data: bytes) -> str:
    return f"data:{image.mime or _UNTOLD};base64,{b64encode(data).decode('ascii')}"
