"""The model server of the benches, in a process of its own, so that its work is nobody else's figure:
`python -m bench.model` prints its address and serves until its stdin ends.

What it says follows from the last words of the person: `burst 500`, `single 500` (words, all together or one
by one), `tools 5` (rounds), `slow 2` (seconds); `facts` tells what it saw; all else is a short answer."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import aiohttp

from hermes.testing.model_script import Call, ModelRequest, Pace, RawReply, Reply, Said
from hermes.testing.model_server import FakeModelServer

WORD = "word "
_ANSWER = "The next train to the sea leaves at nine and costs twelve, that is all there is to say."
_BETWEEN = 0.001
_BURST_BYTES = 4096
"""One write of a burst: some two dozen words, as they come from a service over the network."""


@dataclass(slots=True)
class Counts:
    most: int = 0
    """The most requests that were open at once, since facts were last asked for."""


def main() -> None:
    asyncio.run(_serve())


async def _serve() -> None:
    counts = Counts()
    server = FakeModelServer(lambda request: _say(server, counts, request))
    async with server:
        print(server.base_url, flush=True)
        await asyncio.to_thread(sys.stdin.read)


def _say(server: FakeModelServer, counts: Counts, request: ModelRequest) -> Said:
    messages = request.messages
    place = max(at for at, one in enumerate(messages) if one["role"] == "user")
    word, _, rest = str(messages[place]["content"]).partition(" ")
    counts.most = max(counts.most, len(server.requests) - len(server.exchanges))
    match word:
        case "facts":
            told = json.dumps(_facts(server, counts))
            counts.most = 0
            return Reply(text=told)
        case "burst":
            headers = {"Content-Type": "text/event-stream; charset=utf-8"}
            return RawReply(body=_events(int(rest)), headers=headers, pace=Pace(write=_BURST_BYTES))
        case "single":
            return Reply(text=WORD * int(rest), pace=Pace(between=_BETWEEN, sizes=(len(WORD),)))
        case "slow":
            return Reply(text=_ANSWER, pace=Pace(first_byte=float(rest)))
        case "tools":
            done = sum(one["role"] == "tool" for one in messages[place:])
            if done < int(rest):
                call = Call(id=f"call_{done}", name="read", arguments=f'{{"token": "round {done}"}}')
                return Reply(text=None, calls=(call,))
    return Reply(text=_ANSWER)


def _events(words: int) -> bytes:
    """A stream whose every word is an event, as one piece of bytes."""

    def event(delta: dict[str, str], finish: str | None = None) -> bytes:
        choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}
        chunk = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1_700_000_000}
        return b"data: %b\n\n" % json.dumps({**chunk, "model": "fake-model", "choices": [choice]}).encode()

    return event({"content": WORD}) * words + event({}, "stop") + b"data: [DONE]\n\n"


def _facts(server: FakeModelServer, counts: Counts) -> dict[str, int]:
    """How many requests were open at once, and what the last one from a gateway weighed."""
    facts = {"most": counts.most, "system": 0, "schemas": 0}
    for request in reversed(server.requests):
        if request.body.get("tools"):
            facts["system"] = sum(
                len(one["content"].encode()) for one in request.messages if one["role"] == "system"
            )
            facts["schemas"] = len(json.dumps(request.body["tools"], separators=(",", ":")).encode())
            break
    return facts


# --- from the other side ---


@contextmanager
def model_process() -> Iterator[str]:
    """A model server that runs meanwhile; its base address."""
    command = [sys.executable, "-m", "bench.model"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None and process.stdout is not None
        try:
            yield process.stdout.readline().strip()
        finally:
            process.stdin.close()
            process.wait()


class Direct:
    """A bare program that asks the same server: one session, one request, the answer read and parsed."""

    def __init__(self, url: str, session: aiohttp.ClientSession) -> None:
        self.base_url = url
        self._url = f"{url}/chat/completions"
        self._session = session

    async def ask(self, text: str) -> str:
        said: list[str] = []
        async with self._session.post(self._url, json=_request(text)) as response:
            async for line in response.content:
                if line.startswith(b"data: {"):
                    choices = json.loads(line[6:])["choices"]
                    said += [choices[0]["delta"].get("content") or ""] if choices else []
        return "".join(said)

    async def relay(self, text: str, out: asyncio.StreamWriter) -> None:
        """Pass the stream on as it comes, without a look into it."""
        async with self._session.post(self._url, json=_request(text)) as response:
            while data := await response.content.readany():
                out.write(data)
                await out.drain()

    async def facts(self) -> dict[str, int]:
        told: dict[str, int] = json.loads(await self.ask("facts"))
        return told


def _request(text: str) -> dict[str, Any]:
    return {"model": "fake-model", "stream": True, "messages": [{"role": "user", "content": text}]}


def surroundings(home: os.PathLike[str]) -> dict[str, str]:
    """The environment of a gateway that asks no model but ours."""
    kept = {name: os.environ[name] for name in ("PATH", "PYTHONPATH", "LANG") if name in os.environ}
    return {**kept, "HOME": os.fspath(home), "HERMES_HOME": os.fspath(home), "HERMES_NO_PROBE": "1"}


if __name__ == "__main__":
    main()
