"""Pictures and speech in a whole gateway: looked at, made, spoken and heard by services that the settings
name, and brought to the person."""

from __future__ import annotations

import asyncio
import json
from base64 import b64encode
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from hermes.agent.context.transcript_messages import result_text
from hermes.domain.ports.agent import ModelRequest
from hermes.domain.turns.event import ToolFinished, UserSaid
from hermes.testing.api import ApiWorld
from hermes.testing.media_server import KEY, WORDS, MediaServer, png
from hermes.testing.model import Say, ScriptedModel, call, say
from hermes.testing.platform import fake_platform
from hermes.testing.world import World
from tests.journeys.test_media_in import OGG

CONFIG = """\
platforms: {{fake: {{allow_all_users: true, allow_admin_from: [u1]}}}}
image_gen: {{model: painter, base_url: '{url}', api_key: {key}}}
tts: {{provider: openai, openai: {{base_url: '{url}', api_key: {key}}}}}
stt: {{provider: openai, openai: {{base_url: '{url}', api_key: {key}}}}}
"""


class Place:
    def __init__(self, server: MediaServer, world: World, model: ScriptedModel, home: Path) -> None:
        self.server, self.world, self.model, self.home = server, world, model, home

    def results(self) -> list[ToolFinished]:
        entries = self.model.requests[-1].entries
        return [entry.record for entry in entries if isinstance(entry.record, ToolFinished)]

    async def until(self, what: Callable[[], bool]) -> None:
        for _ in range(2000):
            if what():
                return
            await asyncio.sleep(0.005)
        raise AssertionError(f"people see {self.world.seen()}")


@asynccontextmanager
async def living(folder: Path, script: Callable[[ModelRequest], Say], more: str = "") -> AsyncIterator[Place]:
    world, model = World(), ScriptedModel(script)
    async with MediaServer() as server:
        config = CONFIG.format(url=server.url, key=KEY) + more
        accounts = {"fake": fake_platform("edits", world, "fake")}
        async with ApiWorld(home=folder / "home", config=config, provider=model, accounts=accounts):
            yield Place(server, world, model, folder / "home")


def calls(name: str, **arguments: object) -> Callable[[ModelRequest], Say]:
    """Makes one call, then says that it is done."""

    def script(request: ModelRequest) -> Say:
        if any(isinstance(entry.record, ToolFinished) for entry in request.entries):
            return say("I have finished.")
        return call(name, json.dumps(arguments))

    return script


async def test_a_picture_is_made_and_sent(tmp_path: Path) -> None:
    async with living(tmp_path, calls("image_generate", prompt="a cat", aspect_ratio="square")) as place:
        place.world.write("draw a cat")
        await place.until(lambda: any("📎 image: picture.png" in seen for seen in place.world.seen()))
        (result,) = place.results()
        assert not result.failed and result.usage is not None and result.usage.completion == 272
        assert place.server.asked[0][1]["size"] == "1024x1024"
        assert place.model.requests[-1].images in (None, {}), "what it had made costs no tokens"
        assert result.attachments[0].outgoing and f"at {result.attachments[0].path}" in result_text(result)
        assert [seen for seen in place.world.seen() if "I have finished." in seen]


async def test_a_picture_that_cannot_be_made(tmp_path: Path) -> None:
    async with living(tmp_path, calls("image_generate", prompt="a cat")) as place:
        place.server.failure = (400, "There is no such size.")
        place.world.write("draw a cat")
        await place.until(lambda: any("I have finished." in seen for seen in place.world.seen()))
        (result,) = place.results()
        assert result.failed and "Nothing was made: " in result.text and "no such size" in result.text


async def test_a_text_is_spoken_on_request(tmp_path: Path) -> None:
    async with living(tmp_path, calls("text_to_speech", text="Good morning")) as place:
        place.world.write("/voice tts")
        place.world.write("say good morning")
        await place.until(lambda: any("📎 voice: voice.ogg" in seen for seen in place.world.seen()))
        await place.until(lambda: any("I have finished." in seen for seen in place.world.seen()))
        spoken = [given["input"] for path, given in place.server.asked if path == "audio/speech"]
        assert spoken == ["Good morning"], "an answer with a voice message is not spoken as well"


async def test_a_voice_message_is_heard_and_answered_aloud(tmp_path: Path) -> None:
    def script(request: ModelRequest) -> Say:
        said = [entry.record for entry in request.entries if isinstance(entry.record, UserSaid)][-1]
        return say(f"You said: {said.attachments[0].text}")

    async with living(tmp_path, script, "voice: {auto_tts: true}\n") as place:
        place.world.write("", uploads=(place.world.upload(OGG, kind="voice"),))
        await place.until(lambda: any("📎 voice: voice.ogg" in seen for seen in place.world.seen()))
        assert any(f"You said: {WORDS}" in seen for seen in place.world.seen())
        paths = [path for path, _ in place.server.asked]
        assert paths == ["audio/transcriptions", "audio/speech"]


async def test_a_picture_is_shown_to_a_model_that_sees(tmp_path: Path) -> None:
    url = f"data:image/png;base64,{b64encode(png()).decode()}"
    async with living(tmp_path, calls("vision_analyze", image_url=url, question="what?")) as place:
        place.world.write("look")
        await place.until(lambda: any("I have finished." in seen for seen in place.world.seen()))
        (result,) = place.results()
        assert not result.failed and result.attachments[0].mime == "image/png"
        assert list((place.model.requests[-1].images or {}).values()) == [url]


async def test_a_picture_is_described_to_a_model_that_does_not(tmp_path: Path) -> None:
    def script(request: ModelRequest) -> Say:
        said = [entry.record for entry in request.entries if isinstance(entry.record, UserSaid)][-1]
        if "The picture is data" in said.text:
            assert said.attachments and request.entries[-1].record is said
            return say("It is red.")
        return calls("vision_analyze", image_url="red.png", question="which colour?")(request)

    more = "agent: {image_input_mode: text}\nauxiliary: {vision: {model: seer}}\n"
    async with living(tmp_path, script, more) as place:
        workspace = place.home / "workspace"
        (workspace / "red.png").write_bytes(png())
        place.world.write("look")
        await place.until(lambda: any("I have finished." in seen for seen in place.world.seen()))
        (result,) = place.results()
        assert result.text == "It is red." and not result.outside


@pytest.mark.parametrize(
    ("address", "why"),
    [
        ("nothing.png", "There is no picture nothing.png."),
        ("words.txt", "is no picture (text/plain)"),
        ("data:image/png;base64,!!!", "The data URL cannot be read."),
        ("http://127.0.0.1:9/cat.png", "was not fetched"),
    ],
)
async def test_what_is_no_picture(tmp_path: Path, address: str, why: str) -> None:
    async with living(tmp_path, calls("vision_analyze", image_url=address, question="what?")) as place:
        (place.home / "workspace" / "words.txt").write_text("only words")
        place.world.write("look")
        await place.until(lambda: any("I have finished." in seen for seen in place.world.seen()))
        (result,) = place.results()
        assert result.failed and why in result.text


async def test_a_model_that_sees_nothing_and_nobody_who_does(tmp_path: Path) -> None:
    more = "agent: {image_input_mode: text}\n"
    async with living(tmp_path, calls("vision_analyze", image_url="x.png", question="?"), more) as place:
        place.world.write("look")
        await place.until(lambda: any("I have finished." in seen for seen in place.world.seen()))
        assert "Set auxiliary.vision.model." in place.results()[0].text
