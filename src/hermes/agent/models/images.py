"""Attached images, read for the model. A request carries them as data URLs; one that cannot be read is
missing there, which is told to the model in words, and the turn goes on."""

from __future__ import annotations

import asyncio
import logging
from base64 import b64encode
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable, Iterator, Sequence

from hermes.agent.context.transcript_messages import is_image
from hermes.domain.chats.message import Attachment
from hermes.domain.errors import FaultKind, HermesError, ModelFault
from hermes.domain.models.model_facts import ModelFacts
from hermes.domain.ports.agent import ModelPiece, ModelRequest, Provider
from hermes.domain.ports.world import Media
from hermes.domain.text import one_line
from hermes.domain.turns.event import Notice, ToolFinished, UserSaid
from hermes.domain.word import replace

log = logging.getLogger("hermes.pictures")
MOST_IMAGES = 20
MOST_BYTES = 32 * 1024 * 1024
KEPT_SECONDS = 60.0
_MOST_BLIND = 1000
_UNTOLD = "image/png"
_DROPPED = "{model} takes no pictures: it is told of them in words only."


class _ImageCache:
    """Pictures as requests carry them, by their hash: the calls of a turn read them once.
    It has those of the latest requests, up to so many bytes, and none once nobody has asked for a while."""

    def __init__(self, media: Media) -> None:
        self._media = media
        self._urls: OrderedDict[str, tuple[str, int]] = OrderedDict()
        self._bytes = 0
        self._clearing: asyncio.TimerHandle | None = None

    async def take(self, sha256: str, image: Attachment) -> tuple[str, int]:
        """A data URL and how large the picture is; nothing if it cannot be read."""
        found = self._urls.get(sha256) or await self._read(sha256, image)
        if not found[0]:
            return found
        if sha256 not in self._urls:
            self._bytes += found[1]
        self._urls[sha256] = found
        self._urls.move_to_end(sha256)
        while self._bytes > MOST_BYTES:
            self._bytes -= self._urls.popitem(last=False)[1][1]
        if self._clearing is not None:
            self._clearing.cancel()
        self._clearing = asyncio.get_running_loop().call_later(KEPT_SECONDS, self._clear)
        return found

    async def _read(self, sha256: str, image: Attachment) -> tuple[str, int]:
        try:
            data = await self._media.open(sha256)
        except HermesError as error:
            log.warning("picture.unreadable why=%s", error)
            return "", 0
        if not data:
            return "", 0
        encoded = (await asyncio.to_thread(b64encode, data)).decode("ascii")
        return f"data:{image.mime or _UNTOLD};base64,{encoded}", len(data)

    def _clear(self) -> None:
        self._urls.clear()
        self._bytes = 0


class ImageAttachingProvider:
    """A provider whose requests carry the images of the conversation, the latest first if there are more than
    one request should hold. A model that takes no pictures is told of them in words, from its first refusal
    on, or from the beginning if that is known of it."""

    def __init__(
        self,
        provider: Provider,
        media: Media,
        facts: Callable[[str], ModelFacts] = lambda model: ModelFacts(),
    ) -> None:
        self._provider = provider
        self._facts = facts
        self._shelf = _ImageCache(media)
        self._blind: OrderedDict[tuple[str, str], None] = OrderedDict()
        """Models that refused pictures, all of them or after a certain one; asked again after a restart."""

    def call(self, request: ModelRequest) -> AsyncIterator[ModelPiece]:
        pictures = list(_latest_first(request))
        return self._with_images(request, pictures) if pictures else self._provider.call(request)

    async def _with_images(
        self, request: ModelRequest, pictures: Sequence[Attachment]
    ) -> AsyncIterator[ModelPiece]:
        latest = (request.model, pictures[0].sha256 or pictures[0].ref)
        seen = self._facts(request.model).images is not False
        if seen and latest not in self._blind and (request.model, "") not in self._blind:
            begun = False
            try:
                async for piece in self._provider.call(replace(request, images=await self._read(pictures))):
                    begun = True
                    yield piece
                return
            except ModelFault as fault:
                if begun or fault.kind is not FaultKind.NO_IMAGES:
                    raise
                log.warning("pictures.refused model=%s why=%s", one_line(request.model), fault)
                yield Notice(text=_DROPPED.format(model=one_line(request.model, 60)))
                self._blind[latest if fault.only_this else (request.model, "")] = None
                while len(self._blind) > _MOST_BLIND:
                    self._blind.popitem(last=False)
        async for piece in self._provider.call(replace(request, images=None)):
            yield piece

    async def _read(self, pictures: Sequence[Attachment]) -> dict[str, str]:
        wanted = {image.sha256: image for image in pictures if image.sha256}
        images: dict[str, str] = {}
        room = MOST_BYTES
        for sha256, image in list(wanted.items())[:MOST_IMAGES]:
            url, size = await self._shelf.take(sha256, image)
            room -= size
            if room < 0:
                break
            if url:
                images[sha256] = url
        return images


def _latest_first(request: ModelRequest) -> Iterator[Attachment]:
    for entry in reversed(request.entries) if request.has_files else ():
        record = entry.record
        if isinstance(record, UserSaid | ToolFinished) and record.attachments:
            yield from filter(is_image, reversed(record.attachments))
    for earlier in reversed(request.history):
        yield from filter(is_image, reversed(earlier.attachments))
