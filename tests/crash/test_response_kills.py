"""The plug is pulled while a stored response is streamed: its client comes back with the number of the last
event that it has, and is told the rest."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from hermes.domain.sse import SseParser
from hermes.stream.fold.steps import SAID_AGAIN
from hermes.testing.ports import free_port
from tests import nursery
from tests.cli.command import PATIENCE, environment, gateway

KEY = "a key that nobody guesses"
TALE = "one two three four five six seven eight nine ten and that was the tale."
OTHER = "a wholly different tale, since models are like that."
PACE = {"first_byte": 0.2, "between": 0.1, "sizes": [6]}
CONFIG = 'model: {{default: fake, base_url: "{url}"}}\n'


@contextlib.contextmanager
def model(folder: Path, text: str, thought: str = "") -> Iterator[str]:
    """A model that thinks and says this, slowly; its address."""
    script = folder / "script.json"
    reply = {"text": text, "reasoning": thought, "pace": PACE}
    script.write_text(json.dumps({"rules": [{"match": "", "reply": reply}]}))
    command = [sys.executable, "-m", "hermes.testing.model_server", "--script", script]
    with nursery.Popen(command, stdout=subprocess.PIPE, env=environment(folder), text=True) as process:
        assert process.stdout is not None
        try:
            yield process.stdout.readline().strip()
        finally:
            process.kill()


def open_stream(port: int, path: str, body: object = None) -> Any:
    data = None if body is None else json.dumps(body).encode()
    headers = {"Authorization": f"Bearer {KEY}", "Content-Type": "application/json"}
    asked = urllib.request.Request(f"http://127.0.0.1:{port}/v1/responses{path}", data=data, headers=headers)
    return urllib.request.urlopen(asked, timeout=PATIENCE)


def events(stream: Any) -> Iterator[Any]:
    parser = SseParser()
    while line := stream.readline():
        for event in parser.feed(line):
            if event.data == "[DONE]":
                return
            yield json.loads(event.data)


def spoken(told: list[Any]) -> str:
    return "".join(one["delta"] for one in told if one["type"] == "response.output_text.delta")


@pytest.mark.parametrize("again", [TALE, OTHER], ids=["same words", "other words"])
def test_killed_while_it_is_streamed(tmp_path: Path, again: str) -> None:
    home, port = tmp_path / "home", free_port()
    home.mkdir()
    facts = {"API_SERVER_KEY": KEY, "API_SERVER_PORT": str(port)}
    heard: list[Any] = []
    with model(tmp_path, TALE) as url:
        (home / "config.yaml").write_text(CONFIG.format(url=url))
        with gateway(home, **facts) as running:
            with open_stream(port, "", {"input": "Tell me", "stream": True}) as stream:
                for event in events(stream):
                    heard.append(event)
                    if len(spoken(heard)) > 20:
                        break
                running.process.kill()
                running.process.wait()
    name, number = heard[0]["response"]["id"], heard[-1]["sequence_number"]
    with model(tmp_path, again) as url:
        (home / "config.yaml").write_text(CONFIG.format(url=url))
        with gateway(home, **facts) as running:
            with open_stream(port, f"/{name}?stream=true&starting_after={number}") as stream:
                rest = list(events(stream))
            with open_stream(port, f"/{name}") as answer:
                stored = json.loads(answer.read())
            assert running.stop() == 0
    numbers = [one["sequence_number"] for one in heard + rest]
    assert numbers == sorted(set(numbers))
    assert rest[-1]["type"] == "response.completed"
    assert rest[-1]["response"] == stored
    assert stored["output"][-1]["content"][0]["text"] == again
    added = [one for one in heard + rest if one["type"] == "response.output_item.added"]
    if again == TALE:
        assert spoken(heard + rest) == TALE
        assert len(added) == 1
    else:
        assert spoken(rest) == f"\n\n{SAID_AGAIN}\n\n{OTHER}"
        assert [one["output_index"] for one in added] == [0, 1]


THOUGHT = "hm let me think of a good tale to tell"


@pytest.mark.parametrize("thinks", [True, False], ids=["while it thinks", "while it speaks"])
@pytest.mark.parametrize("again", [THOUGHT, "another idea altogether"], ids=["same thought", "other thought"])
def test_killed_after_thoughts_were_told(tmp_path: Path, again: str, thinks: bool) -> None:
    home, port = tmp_path / "home", free_port()
    home.mkdir()
    facts = {"API_SERVER_KEY": KEY, "API_SERVER_PORT": str(port)}
    asked = {"input": "Tell me", "stream": True, "reasoning": {"summary": "auto"}}
    heard: list[Any] = []
    kind = "response.reasoning_summary_text.delta" if thinks else "response.output_text.delta"
    with model(tmp_path, TALE, THOUGHT) as url:
        (home / "config.yaml").write_text(CONFIG.format(url=url))
        with gateway(home, **facts) as running:
            with open_stream(port, "", asked) as stream:
                for event in events(stream):
                    heard.append(event)
                    if event["type"] == kind:
                        break
                running.process.kill()
                running.process.wait()
    name, number = heard[0]["response"]["id"], heard[-1]["sequence_number"]
    with model(tmp_path, TALE, again) as url:
        (home / "config.yaml").write_text(CONFIG.format(url=url))
        with gateway(home, **facts) as running:
            with open_stream(port, f"/{name}?stream=true&starting_after={number}") as stream:
                rest = list(events(stream))
            with open_stream(port, f"/{name}") as answer:
                stored = json.loads(answer.read())
            assert running.stop() == 0
    numbers = [one["sequence_number"] for one in heard + rest]
    assert numbers == sorted(set(numbers)) and rest[-1]["response"] == stored
    assert [item["type"] for item in stored["output"]] == ["reasoning", "message"]
    assert stored["output"][0]["summary"][0]["text"] == again
    opened, closed = (
        [(one["output_index"], one["item"]["type"]) for one in heard + rest if one["type"] == what]
        for what in ("response.output_item.added", "response.output_item.done")
    )
    assert opened == closed
    kept = ["reasoning"] if thinks else ["reasoning", "message"]
    same = again == THOUGHT
    assert [kind for _, kind in opened] == [*([] if same else kept), "reasoning", "message"]


def test_a_response_in_the_background_goes_on_in_the_next_life(tmp_path: Path) -> None:
    home, port = tmp_path / "home", free_port()
    home.mkdir()
    facts = {"API_SERVER_KEY": KEY, "API_SERVER_PORT": str(port)}
    with model(tmp_path, TALE) as url:
        (home / "config.yaml").write_text(CONFIG.format(url=url))
        with gateway(home, **facts) as running:
            with open_stream(port, "", {"input": "Tell me", "background": True}) as answer:
                begun = json.loads(answer.read())
            running.process.kill()
            running.process.wait()
        assert begun["status"] in ("queued", "in_progress")
        with gateway(home, **facts):
            end = time.monotonic() + PATIENCE
            found = begun
            while found["status"] in ("queued", "in_progress"):
                assert time.monotonic() < end, "it was not answered after the restart"
                time.sleep(0.05)
                with open_stream(port, f"/{begun['id']}") as answer:
                    found = json.loads(answer.read())
    assert found["status"] == "completed"
    assert found["output"][0]["content"][0]["text"] == TALE
