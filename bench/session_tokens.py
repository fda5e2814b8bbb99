"""What a session of twenty turns with a tool call each has a model read: all tokens, and those behind what
the request before began with, which a cache would have. `python -m bench.session_tokens --existing VENV` asks
the existing product, installed in that environment, the same and prints both."""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp

from hermes.testing.model_script import Call, ModelRequest, Reply
from hermes.testing.model_server import FakeModelServer

TURNS = 20
KEY = "bench-key-0123456789abcdef"
CHARS_PER_TOKEN = 4
CACHED_PRICE = 0.1
"""What a token from a cache costs of one that is read anew, with most services."""


def reading(request: ModelRequest) -> Reply:
    """A model that reads a file in each turn, then answers; what else it is asked it answers briefly."""
    if not isinstance(request.body, dict) or not request.body.get("tools"):
        return Reply(text="A title")
    if request.messages[-1]["role"] == "tool":
        return Reply(text="It says hello, as it did before.")
    number = request.last_user_message.split()[-1]
    if not number.isdecimal():  # words of the product's own
        return Reply(text="All is said. It says hello.")
    arguments = json.dumps({"path": "small.txt", "offset": 1, "limit": 100 + int(number)})
    return Reply(calls=(Call(name="read_file", arguments=arguments, id=f"call_{number}"),))


@dataclass(frozen=True, slots=True, kw_only=True)
class Bill:
    requests: int
    first: int
    total: int
    fresh: int
    changed: int

    @property
    def billed(self) -> int:
        return round(self.fresh + CACHED_PRICE * (self.total - self.fresh))


def bill(requests: Sequence[Mapping[str, Any]]) -> Bill:
    """Tokens of the requests of a session. `fresh` are those behind the beginning that a request shares with
    the one before; `changed` counts requests that do not begin with all the messages of the one before."""
    total = fresh = changed = 0
    before: list[str] = []
    for body in requests:
        parts = [json.dumps(body.get("tools", [])), *(json.dumps(message) for message in body["messages"])]
        shared = next(
            (n for n, (a, b) in enumerate(zip(before, parts, strict=False)) if a != b),
            min(len(before), len(parts)),
        )
        changed += bool(before) and shared < len(before)
        total += sum(map(len, parts))
        fresh += sum(map(len, parts[shared:]))
        before = parts
    first = sum(len(json.dumps(part)) for part in (requests[0].get("tools", []), requests[0]["messages"]))
    count = CHARS_PER_TOKEN
    return Bill(
        requests=len(requests),
        first=first // count,
        total=total // count,
        fresh=fresh // count,
        changed=changed,
    )


async def measure(command: Sequence[str], folder: Path) -> Bill:
    """Run a gateway with its HTTP door and hold a conversation with it."""
    home = folder / ".hermes"
    home.mkdir(parents=True)
    (folder / "small.txt").write_text("hello\n")
    async with FakeModelServer(reading) as server, aiohttp.ClientSession() as client:
        port = 20000 + os.getpid() % 20000
        served = f"provider: custom, base_url: {server.base_url}, api_key: sk-fake"
        (home / "config.yaml").write_text(f"model: {{default: fake-model, {served}}}\n")
        told = {
            "PATH": os.environ["PATH"], "HOME": str(folder), "HERMES_HOME": str(home), "LANG": "C.UTF-8",
            "API_SERVER_ENABLED": "true", "API_SERVER_KEY": KEY, "API_SERVER_PORT": str(port),
            "API_SERVER_HOST": "127.0.0.1", "TERMINAL_CWD": str(folder), "TERMINAL_ENV": "local",
        }  # fmt: skip
        process = await asyncio.create_subprocess_exec(
            *command,
            env=told,
            cwd=folder,
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.DEVNULL,
        )
        try:
            await _until_ready(client, port)
            for number in range(TURNS):
                await _ask(client, port, f"Read small.txt, please; this is request {number}")
        finally:
            process.terminate()
            await process.wait()
        bodies = [request.body for request in server.requests if isinstance(request.body, dict)]
        return bill([body for body in bodies if body.get("tools")])


async def _until_ready(client: aiohttp.ClientSession, port: int) -> None:
    async with asyncio.timeout(120):
        while True:
            try:
                async with client.get(f"http://127.0.0.1:{port}/health") as answer:
                    if answer.status == 200:
                        return
            except aiohttp.ClientError:
                pass
            await asyncio.sleep(0.1)


async def _ask(client: aiohttp.ClientSession, port: int, text: str) -> None:
    headers = {"Authorization": f"Bearer {KEY}", "X-Hermes-Session-Id": "bench"}
    body = {"model": "fake-model", "messages": [{"role": "user", "content": text}]}
    url = f"http://127.0.0.1:{port}/v1/chat/completions"
    async with client.post(url, json=body, headers=headers) as answer:
        words = await answer.json()
        assert answer.status == 200 and "hello" in words["choices"][0]["message"]["content"], words


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.session_tokens", description=__doc__)
    parser.add_argument("--existing", type=Path, help="an environment with hermes-agent 0.19.0 in it")
    chosen = parser.parse_args()
    commands = {"ours": [sys.executable, "-P", "-m", "hermes", "gateway", "run"]}
    if chosen.existing is not None:
        root = chosen.existing.resolve()
        commands["existing"] = [str(root / "bin" / "python"), str(root / "bin" / "hermes"), "gateway", "run"]
    bills = {}
    for name, command in commands.items():
        with tempfile.TemporaryDirectory() as folder:
            bills[name] = asyncio.run(measure(command, Path(folder)))
    print(f"{TURNS} turns, a tool call each; tokens are characters / {CHARS_PER_TOKEN}")
    for name, each in bills.items():
        print(
            f"  {name:<9} {each.requests} requests · first {each.first:,} · read in all {each.total:,} · "
            f"new {each.fresh:,} · billed with a cache {each.billed:,} · beginnings changed {each.changed}"
        )
    if len(bills) == 2:
        ours, theirs = bills["ours"], bills["existing"]
        read, billed = ours.total / theirs.total, ours.billed / theirs.billed
        print(f"  ours / existing: {read:.1%} read, {billed:.1%} billed")
    return 0


if __name__ == "__main__":
    sys.exit(main())
