"""Attached images: read for each request, the latest first, and never in the way of a turn."""

from __future__ import annotations

import base64
from dataclasses import replace

import pytest

from hermes.agent import pictures
from hermes.agent.pictures import Illustrated
from hermes.agent.providers.openai import Endpoint, OpenAIProvider
from hermes.domain.errors import UserError
from hermes.domain.event import Entry, ModelSaid, UserSaid
from hermes.domain.message import Attachment, MediaKind
from hermes.domain.ports import ModelRequest
from hermes.domain.rows import MediaItem
from hermes.domain.settings import Secret
from hermes.domain.turn import Earlier, Speaker
from hermes.testing.model import ScriptedModel, say
from hermes.testing.model_server import FakeModelServer
from hermes.testing.provider_suite import KEY, ask, hear


class Shelf:
    """Files in memory, and which of them were read."""

    def __init__(self, **files: bytes) -> None:
        self.files = files
        self.read: list[str] = []

    async def put(self, data: bytes, mime: str) -> MediaItem:
        raise AssertionError("nothing is stored here")

    async def open(self, sha256: str) -> bytes:
        self.read.append(sha256)
        if sha256 not in self.files:
            raise UserError("It is gone.")
        return self.files[sha256]


def image(sha256: str | None = None, *, ref: str = "r", problem: str | None = None) -> Attachment:
    return Attachment(kind=MediaKind.IMAGE, ref=ref, mime="image/jpeg", sha256=sha256, problem=problem)


def looking_at(*images: Attachment, history: tuple[Earlier, ...] = ()) -> ModelRequest:
    """Each image in a message of its own, with a reply between."""
    plain = ask("x")
    entry = plain.entries[0]
    entries: list[Entry] = []
    for place, one in enumerate(images):
        said = UserSaid(text=f"image {place}", attachments=(one,))
        entries += [replace(entry, seq=2 * place + 1, record=said)]
        entries += [replace(entry, seq=2 * place + 2, record=ModelSaid(text="seen"))]
    return replace(plain, entries=[*entries, replace(entry, seq=99)], history=history)


async def told(request: ModelRequest, shelf: Shelf) -> ModelRequest:
    model = ScriptedModel([say("ok")])
    async for _ in Illustrated(model, shelf).call(request):
        pass
    return model.requests[0]


async def test_images_go_along_as_data_urls() -> None:
    history = (Earlier(by=Speaker.USER, attachments=(image("old"),)),)
    request = await told(looking_at(image("new"), history=history), Shelf(new=b"\x00\xff", old=b"o"))
    assert request.images == {"new": "data:image/jpeg;base64,AP8=", "old": "data:image/jpeg;base64,bw=="}


async def test_a_conversation_without_images_reads_nothing() -> None:
    shelf = Shelf()
    request = looking_at(image(ref="https://example.org/a.png"), image(problem="too large"))
    assert (await told(request, shelf)).images == {} and shelf.read == []


async def test_what_is_gone_does_not_stop_the_others() -> None:
    request = await told(looking_at(image("a"), image("gone"), image("b")), Shelf(a=b"1", b=b"2"))
    assert sorted(request.images) == ["a", "b"]


async def test_the_latest_images_come_first_when_there_are_too_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pictures, "MOST_IMAGES", 2)
    shelf = Shelf(a=b"1", b=b"2", c=b"3")
    assert sorted((await told(looking_at(*map(image, "abcc")), shelf)).images) == ["b", "c"]
    assert shelf.read == ["c", "b"]
    monkeypatch.setattr(pictures, "MOST_BYTES", 3)
    big = Shelf(a=b"1", b=b"22", c=b"33")
    assert list((await told(looking_at(*map(image, "abc")), big)).images) == ["c"]


async def test_a_picture_reaches_the_service_whole() -> None:
    data = bytes(range(256)) * 4096
    async with FakeModelServer(key=KEY) as server:
        provider = OpenAIProvider(Endpoint(base_url=server.base_url, key=Secret(KEY)))
        request = looking_at(image("cat"), image("lost"))
        heard = await hear(Illustrated(provider, Shelf(cat=data)), request)  # type: ignore[arg-type]
        await provider.close()
        assert heard.whole
        seen, lost = (one["content"] for one in server.requests[0].messages[1:4:2])
        assert [part["type"] for part in seen] == ["text", "image_url"]
        kind, _, body = seen[1]["image_url"]["url"].partition(",")
        assert kind == "data:image/jpeg;base64" and base64.b64decode(body) == data
        (words,) = lost
        assert words["text"].startswith("image 1") and "could not be fetched" in words["text"]
