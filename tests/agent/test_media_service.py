"""Pictures and speech of a service: what it is asked, what comes of it, and what is said if nothing does."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from hermes.agent.models.media_service import MOST_HEARD, MediaService
from hermes.domain.errors import FaultKind, ModelFault
from hermes.domain.models.model_facts import ModelFacts
from hermes.domain.settings.declaring import Secret
from hermes.domain.word import replace
from hermes.execution.egress.client import EgressClient
from hermes.testing.media_server import KEY, OPUS, WORDS, MediaServer, png

PRICES = ModelFacts(price_in=5.0, price_out=40.0)


@pytest.fixture
async def server() -> AsyncIterator[MediaServer]:
    async with MediaServer() as server:
        yield server


def service_at(server: MediaServer) -> MediaService:
    return MediaService(
        base_url=server.url, model="m1", egress=EgressClient(), key=Secret(KEY), facts=PRICES, seconds=20.0
    )


async def test_a_picture(server: MediaServer) -> None:
    data, usage = await service_at(server).paint("a cat", "portrait", ())
    assert data == png()
    assert (usage.prompt, usage.completion, usage.model, usage.role) == (11, 272, "m1", "image_gen")
    assert usage.cost == pytest.approx((11 * 5 + 272 * 40) / 1e6)
    asked = {"model": "m1", "prompt": "a cat", "size": "1024x1536", "n": 1}
    assert server.asked == [("images/generations", asked)]


async def test_a_picture_after_others(server: MediaServer) -> None:
    data, _ = await service_at(server).paint("a hat", "square", [("image/png", png(3, 3))])
    path, asked = server.asked[0]
    assert data == png() and path == "images/edits"
    assert asked["image[]"] == [("picture0", png(3, 3))] and asked["prompt"] == "a hat"


async def test_a_picture_that_is_told_by_its_address(server: MediaServer) -> None:
    server.by_url = True
    assert (await service_at(server).paint("a cat", "square", ()))[0] == png()


async def test_a_picture_in_an_answer(server: MediaServer) -> None:
    data, usage = await service_at(server).paint_in_chat("a cat", "landscape", [("image/png", png())])
    asked = server.asked[0][1]
    assert data == png() and usage.cost == 0.04 and usage.completion == 1290
    assert asked["modalities"] == ["image", "text"] and asked["image_config"] == {"aspect_ratio": "3:2"}
    assert asked["messages"][0]["content"][1]["image_url"]["url"].startswith("data:image/png;base64,")


async def test_speech(server: MediaServer) -> None:
    data, usage = await service_at(server).speak("Hello", "alloy")
    assert data == OPUS and (usage.role, usage.cost) == ("tts", None)
    wanted = {"model": "m1", "input": "Hello", "voice": "alloy", "response_format": "opus"}
    assert server.asked == [("audio/speech", wanted)]


async def test_words(server: MediaServer) -> None:
    text, usage = await service_at(server).hear("voice.ogg", "audio/ogg", OPUS)
    assert text == WORDS and usage.role == "stt" and usage.prompt == 11
    assert server.asked[0][1]["file"] == [("voice.ogg", OPUS)] and server.asked[0][1]["model"] == "m1"
    with pytest.raises(ModelFault, match="takes up to 25 MiB"):
        await service_at(server).hear("voice.ogg", "audio/ogg", b"\0" * (MOST_HEARD + 1))


async def test_what_goes_wrong_is_said(server: MediaServer) -> None:
    wrong = replace(service_at(server), key=Secret("sk-wrong-0123456789"))
    with pytest.raises(ModelFault) as fault:
        await wrong.speak("Hello", "alloy")
    assert fault.value.kind is FaultKind.BAD_KEY and "sk-wrong" not in str(fault.value)
    server.failure = (400, "Your prompt was rejected")
    with pytest.raises(ModelFault, match="Your prompt was rejected"):
        await service_at(server).paint("x", "square", ())
    away = replace(service_at(server), base_url="http://127.0.0.1:9/v1")
    with pytest.raises(ModelFault, match=r"m1 at http://127\.0\.0\.1:9/v1 gave nothing"):
        await away.hear("voice.ogg", "audio/ogg", OPUS)
