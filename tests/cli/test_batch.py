"""`hermes batch`: many prompts, cut off and continued, and their conversations as samples."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from hermes.admin.batch.distributions import PRESETS, choose_toolsets, read_distribution, spell_distribution
from hermes.domain.errors import UserError
from hermes.testing.model_script import Call, ModelRequest, Pace, Reply
from hermes.testing.model_server import FakeModelServer
from tests import nursery
from tests.cli.command import PATIENCE, Said, end_gateway, environment, hermes

SECRET = "sk-batch-0123456789abcdefghij"


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "home"


def dataset(tmp_path: Path, count: int) -> Path:
    path = tmp_path / "Some Prompts.jsonl"
    path.write_text("".join(json.dumps({"prompt": f"item {n}", "source": n}) + "\n" for n in range(count)))
    return path


def samples(home: Path, run: str, name: str = "trajectories.jsonl") -> list[dict[str, Any]]:
    return [json.loads(line) for line in (home / "batches" / run / name).read_text().splitlines()]


def noting(ledger: Path) -> Any:
    """A model that has each item written down once, then answers."""

    def respond(request: ModelRequest) -> Reply:
        if request.messages[-1]["role"] == "tool":
            return Reply(text=f"Noted. The key is {SECRET}.", pace=Pace(sizes=(4,), between=0.01))
        number = request.last_user_message.split()[-1]
        call = Call(name="terminal", arguments=json.dumps({"command": f"echo {number} >> {ledger}"}))
        return Reply(reasoning="I should write it down.", calls=(call,))

    return respond


async def ask(home: Path, *words: str, **more: str) -> Said:
    return await asyncio.to_thread(lambda: hermes(home, *words, **more))


def begin(home: Path, *words: str, **more: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-P", "-m", "hermes", *words]
    quiet = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    return nursery.Popen(command, env=environment(home, **more), cwd="/", text=True, **quiet)  # type: ignore[call-overload, no-any-return]


def until_noted(ledger: Path, count: int) -> None:
    end = time.monotonic() + PATIENCE
    while not ledger.exists() or len(ledger.read_text().split()) < count:
        assert time.monotonic() < end
        time.sleep(0.01)


async def test_a_batch_killed_three_times_ends_complete_and_repeats_nothing(
    home: Path, tmp_path: Path
) -> None:
    ledger, items = tmp_path / "ledger", 24
    async with FakeModelServer(noting(ledger)) as server:
        told = {"OPENAI_BASE_URL": server.base_url, "OPENAI_API_KEY": SECRET, "HERMES_MODEL": "fake-model"}
        words = ("batch", "run", str(dataset(tmp_path, items)), "--run", "kills", "-w", "3")
        for noted, victim in ((3, "both"), (8, "command"), (14, "both")):
            running = begin(home, *words, **told)
            await asyncio.to_thread(until_noted, ledger, noted)
            if victim == "both":
                await asyncio.to_thread(end_gateway, home)
            running.kill()
            running.wait()
        ended = await ask(home, *words, **told)
    assert ended.clean and ended.code == 0, ended
    assert f"{items} of {items} items have an answer" in ended.out
    times = Counter(ledger.read_text().split())
    assert set(times.values()) == {1}, "a tool that may not be repeated was"
    lines = samples(home, "kills")
    assert sorted(line["prompt_index"] for line in lines) == list(range(items))
    humans = [turn["value"] for line in lines for turn in line["conversations"] if turn["from"] == "human"]
    assert Counter(humans) == Counter(f"item {n}" for n in range(items))
    assert SECRET not in (home / "batches" / "kills" / "trajectories.jsonl").read_text()


async def test_a_sample_has_the_documented_form(home: Path, tmp_path: Path) -> None:
    ledger = tmp_path / "ledger"
    async with FakeModelServer(noting(ledger)) as server:
        told = {"OPENAI_BASE_URL": server.base_url, "HERMES_MODEL": "fake-model"}
        words = ("batch", "run", str(dataset(tmp_path, 2)), "-d", "terminal=100,file=100,spotify=100")
        ended = await ask(home, *words, **told)
        assert ended.code == 0 and "Left out, for the agent has no such toolset: spotify" in ended.err
    first = samples(home, "some-prompts")[0]
    assert first.keys() == {
        "prompt_index", "conversations", "metadata", "timestamp", "model", "completed", "partial",
        "api_calls", "toolsets_used", "tool_stats", "tool_error_counts",
    }  # fmt: skip
    assert first["metadata"] == {"source": 0} and first["completed"] and not first["partial"]
    assert first["toolsets_used"] == ["terminal", "file"] and first["api_calls"] == 2
    assert first["tool_stats"]["terminal"] == {"count": 1, "success": 1, "failure": 0}
    assert first["tool_error_counts"]["read_file"] == 0 and "clarify" not in first["tool_stats"]
    system, human, call, result, answer = first["conversations"]
    assert [turn["from"] for turn in (system, human, call, result, answer)] == [
        "system", "human", "gpt", "tool", "gpt",
    ]  # fmt: skip
    tools = json.loads(system["value"].split("<tools>\n")[-1].split("\n</tools>")[0])
    assert {"name", "description", "parameters"} == tools[0].keys()
    assert call["value"].startswith("<think>\nI should write it down.\n</think>\n<tool_call>\n")
    called = json.loads(call["value"].split("<tool_call>\n")[1].split("\n</tool_call>")[0])
    assert called == {"name": "terminal", "arguments": {"command": f"echo 0 >> {ledger}"}}
    response = json.loads(result["value"].split("<tool_response>\n")[1].split("\n</tool_response>")[0])
    assert response["name"] == "terminal" and response.keys() == {"tool_call_id", "name", "content"}
    assert answer["value"].startswith("<think>\n\n</think>\nNoted.")


async def test_what_fails_is_told_apart_and_kept(home: Path, tmp_path: Path) -> None:
    def respond(request: ModelRequest) -> Reply:
        return Reply(text="" if "item 1" in request.last_user_message else "Fine.")

    async with FakeModelServer(respond) as server:
        told = {"OPENAI_BASE_URL": server.base_url, "HERMES_MODEL": "fake-model"}
        ended = await ask(home, "batch", "run", str(dataset(tmp_path, 3)), "--run", "part", **told)
        assert ended.code == 3 and "2 of 3 items have an answer" in ended.out and "empty answer" in ended.out
        status = await ask(home, "batch", "status", "part", "--json", **told)
        facts = json.loads(status.out)
        assert facts == {
            "run": "part", "items": 3, "done": 2, "failed": 1, "stopped": 0, "running": 0, "waiting": 0,
        }  # fmt: skip
        assert [line["prompt_index"] for line in samples(home, "part", "failed_trajectories.jsonl")] == [1]
        listed = await ask(home, "batch", "list", "--json", **told)
        assert [run["name"] for run in json.loads(listed.out)] == ["part"]
        sessions = await ask(home, "sessions", "list", "--json", **told)
        assert "batch_" not in sessions.out, "items do not crowd the list of conversations"
        elsewhere = tmp_path / "elsewhere"
        exported = await ask(home, "batch", "export", "part", "-o", str(elsewhere), "--reasoned", **told)
        assert exported.code == 0 and (elsewhere / "trajectories.jsonl").read_text() == ""
        assert json.loads((elsewhere / "statistics.json").read_text())["left_out"] == 3
        removed = await ask(home, "batch", "remove", "part", "--yes", **told)
        assert "with 3 conversations" in removed.out and not (home / "batches" / "part").exists()
        gone = await ask(home, "batch", "status", "part", **told)
        assert gone.code == 1 and "There is no batch run" in gone.err


async def test_an_item_may_have_a_picture(home: Path, tmp_path: Path) -> None:
    picture = tmp_path / "dot.png"
    picture.write_bytes(bytes.fromhex("89504e470d0a1a0a") + b"a dot")
    path = tmp_path / "pictures.jsonl"
    path.write_text(json.dumps({"prompt": "what is it?", "image": str(picture)}) + "\n")
    async with FakeModelServer() as server:
        told = {"OPENAI_BASE_URL": server.base_url, "HERMES_MODEL": "fake-model"}
        ended = await ask(home, "batch", "run", str(path), **told)
        assert ended.code == 0, ended
        shown = [part for part in server.requests[-1].messages[-1]["content"] if part["type"] == "image_url"]
    assert shown[0]["image_url"]["url"].startswith("data:image/png;base64,")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "has no items"),
        ('{"prompt": "a"}\n{"prompt"', "Line 2 of bad.jsonl is not JSON"),
        ('{"text": "a"}\n', "Line 1 of bad.jsonl has no prompt"),
        ("[" * 100_000 + "\n", "Line 1 of bad.jsonl is not JSON"),
        ('{"prompt": "a", "cwd": "nowhere"}\n', "names a cwd that is no folder"),
        ('{"prompt": "a", "image": "x.png"}\n', "names an image that is no file"),
    ],
)
def test_a_file_with_a_mistake_begins_nothing(home: Path, tmp_path: Path, text: str, words: str) -> None:
    path = tmp_path / "bad.jsonl"
    path.write_text(text)
    refused = hermes(home, "batch", "run", str(path))
    assert refused.code == 1 and words in refused.err and refused.clean
    assert not (home / "batches").exists()


def test_wrong_words_are_explained(home: Path, tmp_path: Path) -> None:
    path = dataset(tmp_path, 1)
    for words, expected in (
        (("run",), "Give a file with prompts"),
        (("run", str(tmp_path / "none.jsonl")), "cannot be read"),
        (("run", str(path), "-d", "everything"), "is not a distribution of toolsets"),
        (("run", str(path), "--run", "../up"), "cannot be called"),
        (("run", "--run", "none"), "There is no batch run"),
        (("export", "none"), "There is no batch run"),
    ):
        refused = hermes(home, "batch", *words)
        assert refused.code in (1, 2) and expected in refused.err and refused.clean, refused


def test_toolsets_are_chosen_by_chance_and_always_alike() -> None:
    distribution = read_distribution("file=100, terminal=50,web=0")
    assert read_distribution(spell_distribution(distribution)) == distribution
    chosen = [choose_toolsets(distribution, "run", index) for index in range(400)]
    assert chosen == [choose_toolsets(distribution, "run", index) for index in range(400)]
    assert all("file" in names and "web" not in names for names in chosen)
    assert 120 < sum("terminal" in names for names in chosen) < 280
    assert choose_toolsets({"a": 0.0, "b": 0.0}, "run", 1) == ("a",), "never none at all"
    assert choose_toolsets(PRESETS["default"], "run", 1) == (), "all"
    for wrong in ("file", "file=101", "file=-1", "=5", "file=x", "file=1,"):
        with pytest.raises(UserError):
            read_distribution(wrong)


def everything(home: Path) -> bytes:
    return b"".join(path.read_bytes() for path in home.rglob("*") if path.is_file())


async def test_samples_keep_no_ephemeral_words(home: Path, tmp_path: Path) -> None:
    async with FakeModelServer([Reply(text="Fine.")] * 4) as server:
        told = {"OPENAI_BASE_URL": server.base_url, "HERMES_MODEL": "fake-model"}
        told["HERMES_EPHEMERAL_SYSTEM_PROMPT"] = "ephemeral-words"
        ended = await ask(home, "batch", "run", str(dataset(tmp_path, 1)), **told)
        assert ended.code == 0 and b"ephemeral-words" in server.requests[0].raw
    kept = await asyncio.to_thread(everything, home)
    assert b"item 0" in kept and b"ephemeral-words" not in kept


async def test_an_item_that_cannot_be_begun_keeps_no_other_from_that(home: Path, tmp_path: Path) -> None:
    folder, path = tmp_path / "folder", tmp_path / "mixed.jsonl"
    folder.mkdir()
    prompts = [{"prompt": "x" * 1_000_001}, {"prompt": "half \ud83d"}, {"prompt": "fine", "cwd": str(folder)}]
    path.write_text("".join(json.dumps(item) + "\n" for item in prompts))
    async with FakeModelServer() as server:
        told = {"OPENAI_BASE_URL": server.base_url, "HERMES_MODEL": "fake-model"}
        ended = await ask(home, "batch", "run", str(path), **told)
        assert ended.code == 3 and ended.clean and "2 of 3 items have an answer" in ended.out, ended
        folder.rmdir()
        again = await ask(home, "batch", "run", "--run", "mixed", **told)
        assert again.code == 3 and "2 of 3" in again.out and again.clean
    (home / "batches" / "mixed" / "run.json").write_text("{")
    listed = hermes(home, "batch", "list")
    assert listed.code == 0 and "cannot be read" in listed.err and listed.clean


async def test_no_secret_leaves_with_a_sample_however_often_it_is_quoted(home: Path, tmp_path: Path) -> None:
    key = 'pa"ss\\wo/rd-123456'
    told = json.dumps({"settings": json.dumps({"key": key})})

    def respond(request: ModelRequest) -> Reply:
        if request.messages[-1]["role"] == "tool":
            return Reply(text=told)
        write = json.dumps({"path": str(tmp_path / "settings.json"), "content": told})
        return Reply(calls=(Call(name="write_file", arguments=write),))

    async with FakeModelServer(respond) as server:
        before = {"OPENAI_BASE_URL": server.base_url, "OPENAI_API_KEY": SECRET, "HERMES_MODEL": "fake-model"}
        ended = await ask(home, "batch", "run", str(dataset(tmp_path, 1)), "--run", "quoted", **before)
        assert ended.code == 0, ended
        assert "wo/rd-123456" in str(samples(home, "quoted"))
        later = {**before, "OPENAI_API_KEY": key}
        assert (await ask(home, "batch", "export", "quoted", **later)).code == 0
    (line,) = samples(home, "quoted")
    assert "wo/rd-123456" not in str(line) and "<tool_call>" in str(line)
