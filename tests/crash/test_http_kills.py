"""The gateway is killed while clients follow its runs over HTTP. They come back to the next one with the
number of the last record they saw: every record once and in order, and the words whole."""

from __future__ import annotations

import asyncio
import contextlib
import json
import signal
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from hermes.domain.sse import SseParser
from hermes.testing.model_script import Call, ModelRequest, Pace, Reply
from hermes.testing.model_server import FakeModelServer
from hermes.testing.ports import free_port
from tests.cli.command import PATIENCE, Running, gateway
from tests.crash.terminal import new_home, serving
from tests.sampling import sampled

KEY = "a key that nobody guesses"
TALE = "one two three four five six seven eight nine ten eleven twelve thirteen and that was the tale."
DONE = "It was done as you wished."
DEED = "rm -rf ~/no-such-folder-of-a-test && echo did >> ~/effects"
LOOK = "echo a look around"
_SLOWLY = Pace(first_byte=0.3, between=0.05, sizes=(6,))


def teller(request: ModelRequest) -> Reply:
    said = [message for message in request.messages if message["role"] == "user"][-1]["content"]
    answered = request.messages[-1]["role"] == "tool"
    if said.startswith("clean") and not answered:
        return Reply(text=None, calls=(Call(name="terminal", arguments=json.dumps({"command": DEED})),))
    if said.startswith("look") and not answered:
        return Reply(text=None, calls=(Call(name="terminal", arguments=json.dumps({"command": LOOK})),))
    return Reply(text=DONE) if said.startswith("clean") else Reply(text=TALE, pace=_SLOWLY)


@dataclass
class Client:
    """Somebody who follows a run through several lives of its gateway."""

    address: str
    run: str
    last_id: str = ""
    words: str = ""
    records: list[tuple[int, str]] = field(default_factory=list)
    names: list[str] = field(default_factory=list)

    async def follow(self, until: str = "") -> None:
        """Read to the end of the stream, or until something was seen or said."""
        async with asyncio.timeout(PATIENCE):
            async for name in self._events():
                if until and (until == name or until in self.words):
                    return

    async def _events(self) -> AsyncIterator[str]:
        parser = SseParser()
        parser.last_id = self.last_id
        headers = {"Last-Event-ID": self.last_id} if self.last_id else {}
        async with asking() as http, http.get(self._url("/events"), headers=headers) as heard:
            assert heard.status == 200, await heard.text()
            async for data in heard.content.iter_any():
                for event in parser.feed(data):
                    self.last_id = event.id
                    yield self._see(json.loads(event.data), event.id)
                self.last_id = parser.last_id

    def _see(self, told: dict[str, Any], ident: str) -> str:
        name: str = told["event"]
        self.names.append(name)
        match name:
            case "message.delta":
                self.words += told["delta"]
            case "message.snapshot":
                self.words = told["text"]
            case "message.reset":
                self.words = ""
            case _:
                self.records.append((int(ident), name))
        return name

    def _url(self, path: str) -> str:
        return f"{self.address}/v1/runs/{self.run}{path}"

    async def status(self) -> dict[str, Any]:
        async with asking() as http, http.get(self._url("")) as heard:
            told: dict[str, Any] = await heard.json()
            return told

    async def approve(self) -> int:
        async with asking() as http, http.post(self._url("/approval"), json={"choice": "once"}) as heard:
            return heard.status


@contextlib.asynccontextmanager
async def asking() -> AsyncIterator[aiohttp.ClientSession]:
    async with aiohttp.ClientSession(headers={"Authorization": f"Bearer {KEY}"}) as http:
        yield http


@dataclass(frozen=True)
class Place:
    """A home whose gateway listens at the same address in all its lives."""

    home: Path
    port: int

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @contextlib.contextmanager
    def life(self) -> Iterator[Running]:
        with gateway(self.home, API_SERVER_KEY=KEY, API_SERVER_PORT=str(self.port)) as running:
            yield running

    async def begin(self, words: str) -> Client:
        async with asking() as http, http.post(f"{self.address}/v1/runs", json={"input": words}) as heard:
            assert heard.status == 202
            return Client(address=self.address, run=(await heard.json())["run_id"])


@pytest.fixture
def server() -> Iterator[FakeModelServer]:
    with serving(teller) as server:
        yield server


@pytest.fixture
def place(tmp_path: Path, server: FakeModelServer) -> Place:
    return Place(home=new_home(tmp_path, server), port=free_port())


def kill(life: Running) -> None:
    assert life.stop(signal.SIGKILL) == -signal.SIGKILL


async def check_whole(place: Place, client: Client, words: str) -> None:
    """What the client put together over several lives is what somebody sees who comes only now."""
    assert client.words == words
    assert client.names[-1] == "run.completed"
    late = Client(address=place.address, run=client.run)
    await late.follow()
    assert late.words == words
    assert client.records == late.records
    numbers = [number for number, _ in client.records]
    assert numbers == sorted(numbers)
    told = await client.status()
    assert (told["status"], told["output"]) == ("completed", words)


@pytest.mark.parametrize("word", sampled([("two",), ("seven",), ("thirteen",)], {("seven",)}))
async def test_killed_while_words_come(place: Place, word: str) -> None:
    with place.life() as life:
        client = await place.begin("look around and tell")
        await client.follow(until=f"{word} ")
        kill(life)
    assert "run.completed" not in client.names
    with place.life():
        await client.follow()
        assert "message.reset" in client.names, "the words of the call that was cut off are void"
        await check_whole(place, client, TALE)
        assert client.names.count("tool.started") == client.names.count("tool.completed") == 1


async def test_killed_again_and_again(place: Place) -> None:
    with place.life() as life:
        client = await place.begin("tell the tale")
        await client.follow(until="three ")
        kill(life)
    with place.life() as life:
        await client.follow(until="five ")
        kill(life)
    with place.life():
        await client.follow()
        await check_whole(place, client, TALE)


async def test_killed_while_an_approval_is_open(place: Place) -> None:
    effects = place.home.parent / "effects"
    with place.life() as life:
        client = await place.begin("clean up")
        await client.follow(until="approval.request")
        kill(life)
    assert not effects.exists()
    with place.life():
        assert (await client.status())["status"] == "waiting_for_approval"
        following = asyncio.create_task(client.follow())
        assert await client.approve() == 200
        await following
        assert client.names.count("approval.request") == 1
        await check_whole(place, client, DONE)
        assert await client.approve() == 409
    assert effects.read_text() == "did\n"


async def chat(place: Place, *messages: dict[str, str], tries: int = 0) -> str:
    """What a client hears that names no session and counts its tries."""
    body = {"messages": messages, "tools": []}
    headers = {"X-Stainless-Retry-Count": str(tries)}
    async with asyncio.timeout(PATIENCE), asking() as http:
        async with http.post(f"{place.address}/v1/chat/completions", json=body, headers=headers) as heard:
            told = await heard.json()
            assert heard.status == 200, told
            return str(told["choices"][0]["message"]["content"])


async def test_an_answer_in_a_conversation_continues_the_run_of_another_life(place: Place) -> None:
    """The client sends the whole conversation each time; a try that is repeated does nothing again."""
    effects = place.home.parent / "effects"
    asked = {"role": "user", "content": "clean up"}
    with place.life() as life:
        question = await chat(place, asked)
        kill(life)
    assert "(Question q_" in question and not effects.exists()
    answer = ({"role": "assistant", "content": question}, {"role": "user", "content": "yes"})
    with place.life() as life:
        assert await chat(place, asked, *answer) == DONE
        kill(life)
    with place.life():
        assert await chat(place, asked, *answer, tries=1) == DONE
    assert effects.read_text() == "did\n"


async def test_an_ended_run_is_told_by_the_next_life(place: Place) -> None:
    with place.life() as life:
        client = await place.begin("tell the tale")
        await client.follow()
        kill(life)
    with place.life():
        await check_whole(place, client, TALE)
