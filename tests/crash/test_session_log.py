"""The gateway is killed right after an answer, before its session log is written: the next one writes what is
missing, without anybody coming back to the session, and nothing twice."""

from __future__ import annotations

import asyncio
import json
import signal
from pathlib import Path

from hermes.testing.model_script import ModelRequest, Reply
from hermes.testing.ports import free_port
from tests.cli.command import PATIENCE
from tests.crash.terminal import new_home, serving
from tests.crash.test_http_kills import Place, asking


def echo(request: ModelRequest) -> Reply:
    return Reply(text=f"You said: {request.messages[-1]['content']}")


async def _say(place: Place, words: str) -> None:
    body = {"model": "main", "messages": [{"role": "user", "content": words}]}
    async with asking() as http:
        url, named = f"{place.address}/v1/chat/completions", {"X-Hermes-Session-Id": "notes"}
        async with http.post(url, json=body, headers=named) as answer:
            assert answer.status == 200, await answer.text()


async def test_what_was_not_written_is_written_by_the_next_life(tmp_path: Path, full: bool) -> None:
    with serving(echo) as server:
        place = Place(home=new_home(tmp_path, server), port=free_port())
        log = place.home / "sessions" / "notes.jsonl"
        said: list[str] = []
        missed = 0
        for life in range(6 if full else 3):
            with place.life() as running:
                for n in range(life + 1):  # the last one is answered moments before the kill
                    said.append(f"word {life} {n}")
                    await _say(place, said[-1])
                running.stop(signal.SIGKILL)
            missed += _messages(log) != _expected(said)
        with place.life():
            async with asyncio.timeout(PATIENCE):
                while len(_messages(log)) < 2 * len(said):  # noqa: ASYNC110
                    await asyncio.sleep(0.02)
        assert _messages(log) == _expected(said)
        assert missed, "no kill came before the log was written: the test has shown nothing"


def _messages(log: Path) -> list[tuple[str, str]]:
    lines = log.read_text().splitlines() if log.exists() else []
    return [(message["role"], message["content"]) for message in map(json.loads, lines)]


def _expected(said: list[str]) -> list[tuple[str, str]]:
    pairs = [(("user", words), ("assistant", f"You said: {words}")) for words in said]
    return [message for pair in pairs for message in pair]
