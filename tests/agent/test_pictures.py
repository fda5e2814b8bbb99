"""Attached images: read once for a turn, the latest first, and never in the way of it."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest

from hermes.agent.models import images as pictures
from hermes.agent.models.endpoint import HttpProvider, ModelEndpoint
from hermes.agent.models.formats.chat_completions.provider import ChatCompletions
from hermes.agent.models.images import ImageAttachingProvider
from hermes.domain.chats.message import Attachment, MediaKind
from hermes.domain.chats.rows import MediaItem
from hermes.domain.errors import FaultKind, ModelFault, Refused, UserError
from hermes.domain.ports.agent import ModelRequest
from hermes.domain.settings.declaring import Secret
from hermes.domain.turns.event import Entry, ModelSaid, UserSaid
from hermes.domain.turns.turn import EarlierMessage, Speaker
from hermes.domain.word import replace
from hermes.testing.clock import settle
from hermes.testing.model import Say, ScriptedModel, say
from hermes.testing.model_script import Reply, failure
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


def looking_at(*images: Attachment, history: tuple[EarlierMessage, ...] = ()) -> ModelRequest:
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
    async for _ in ImageAttachingProvider(model, shelf).call(request):
        pass
    return model.requests[0]


async def test_images_go_along_as_data_urls() -> None:
    history = (EarlierMessage(by=Speaker.USER, attachments=(image("old"),)),)
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
        provider = HttpProvider(ModelEndpoint(base_url=server.base_url, key=Secret(KEY)), ChatCompletions())
        request = looking_at(image("cat"), image("lost"))
        heard = await hear(ImageAttachingProvider(provider, Shelf(cat=data)), request)  # type: ignore[arg-type]
        await provider.close()
        assert heard.whole
        seen, lost = (one["content"] for one in server.requests[0].messages[1:4:2])
        assert [part["type"] for part in seen] == ["text", "image_url"]
        kind, _, body = seen[1]["image_url"]["url"].partition(",")
        assert kind == "data:image/jpeg;base64" and base64.b64decode(body) == data
        (words,) = lost
        assert words["text"].startswith("image 1") and "could not be fetched" in words["text"]


# --- models that take none ---

REFUSALS = [
    (400, "Invalid content type. image_url is only supported by certain models."),
    (400, "This model does not support image inputs"),
    (400, "At most 0 image(s) may be provided in one request."),
    (400, "fake-model is not a multimodal model"),
    (400, "Image input is not enabled for this model"),
    (404, "No endpoints found that support image input"),
    (422, "Failed to deserialize the JSON body: messages[1]: unknown variant `image_url`, expected `text`"),
    (400, "'messages.1.content' must be a string"),
    (500, "image input is not supported - hint: if this is unexpected, you may need to provide the mmproj"),
]


def sees_pictures(request: Any) -> bool:
    return any(isinstance(message["content"], list) for message in request.messages)


@pytest.mark.parametrize(("status", "words"), REFUSALS)
async def test_a_model_that_takes_no_pictures_is_told_of_them_in_words(status: int, words: str) -> None:
    def respond(request: Any) -> Any:
        return failure(status, words) if sees_pictures(request) else Reply(text="ok")

    async with FakeModelServer(respond, key=KEY) as server:
        provider = HttpProvider(ModelEndpoint(base_url=server.base_url, key=Secret(KEY)), ChatCompletions())
        illustrated = ImageAttachingProvider(provider, Shelf(cat=b"x"))
        request = looking_at(image("cat"), image(ref="https://example.org/a.png"))
        for _ in range(2):
            heard = await hear(illustrated, request)  # type: ignore[arg-type]
            assert heard.whole and heard.error is None
        other = await hear(illustrated, replace(request, model="another"))  # type: ignore[arg-type]
        await provider.close()
    assert other.whole
    assert [sees_pictures(one) for one in server.requests] == [True, False, False, True, False]
    told = [one["content"] for one in server.requests[1].messages[1:4:2]]
    assert told[0] == "image 0\n\n[attached: image, image/jpeg; not shown, for this model takes no pictures]"
    assert told[1].startswith("image 1") and "example.org" not in told[1].partition("not shown")[2]


async def test_a_picture_that_is_refused_blinds_nobody_to_the_next() -> None:
    def respond(request: Any) -> Any:
        seen = json.dumps(request.messages)
        return failure(400, "Could not process image") if "YmFk" in seen else Reply(text="ok")

    async with FakeModelServer(respond, key=KEY) as server:
        provider = HttpProvider(ModelEndpoint(base_url=server.base_url, key=Secret(KEY)), ChatCompletions())
        illustrated = ImageAttachingProvider(provider, Shelf(bad=b"bad", good=b"good"))
        for picture in ("bad", "bad", "good"):
            assert (await hear(illustrated, looking_at(image(picture)))).whole  # type: ignore[arg-type]
        await provider.close()
    assert [sees_pictures(one) for one in server.requests] == [True, False, False, True]


async def test_other_troubles_are_none_of_its_business() -> None:
    late = ModelFault("late", kind=FaultKind.NO_IMAGES)
    model = ScriptedModel([Say(text="half", breaks_after=2, error=late), say("ok")])
    illustrated = ImageAttachingProvider(model, Shelf(a=b"1"))
    with pytest.raises(ModelFault):
        async for _ in illustrated.call(looking_at(image("a"))):
            pass
    assert len(model.requests) == 1, "what was heard stays heard"
    for error in (Refused("no"), ModelFault("no image", kind=FaultKind.BAD_REQUEST)):
        refused = ImageAttachingProvider(ScriptedModel([Say(error=error)]), Shelf(a=b"1"))
        with pytest.raises(type(error)):
            async for _ in refused.call(looking_at(image("a"))):
                pass


# --- read once ---


async def test_the_calls_of_a_turn_read_a_picture_once(monkeypatch: pytest.MonkeyPatch) -> None:
    shelf, model = Shelf(a=b"1" * 10, b=b"2" * 10), ScriptedModel(lambda request: say("ok"))
    illustrated = ImageAttachingProvider(model, shelf)

    async def ask_about(*names: str) -> None:
        async for _ in illustrated.call(looking_at(*map(image, names))):
            pass

    for _ in range(60):
        await ask_about("a", "b", "gone")
    assert sorted(one for one in shelf.read if one != "gone") == ["a", "b"]
    assert model.requests[0].images == model.requests[-1].images and len(model.requests) == 60
    monkeypatch.setattr(pictures, "MOST_BYTES", 15)
    await ask_about("b")
    await ask_about("a")
    await ask_about("b")
    assert shelf.read[-2:] == ["a", "b"], "only so many bytes are kept"
    assert illustrated._shelf._bytes == 10 and len(illustrated._shelf._urls) == 1


async def test_pictures_are_not_kept_for_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pictures, "KEPT_SECONDS", 0.0)
    illustrated = ImageAttachingProvider(ScriptedModel([say("ok")]), Shelf(a=b"1"))
    async for _ in illustrated.call(looking_at(image("a"))):
        pass
    await settle()
    assert not illustrated._shelf._urls and illustrated._shelf._bytes == 0
