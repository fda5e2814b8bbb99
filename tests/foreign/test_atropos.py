"""Agents as an environment of Atropos: its own `process` mode runs them against the fake model."""

from __future__ import annotations

import asyncio
import json
import os
from pathlib import Path

import pytest

from hermes.testing.model_script import Call, ModelRequest, Reply
from hermes.testing.model_server import FakeModelServer
from tests.foreign.environments import ROOT, python_of

pytestmark = [pytest.mark.slow]
ENVIRONMENT = ROOT / "tests" / "foreign" / "clients" / "atropos_env.py"


def summing(request: ModelRequest) -> Reply:
    if request.messages[-1]["role"] == "tool":
        return Reply(text="It is written.")
    call = Call(name="terminal", arguments=json.dumps({"command": "echo 2 > sum.txt"}))
    return Reply(reasoning="easy", calls=(call,))


async def run(tmp_path: Path, *words: str) -> None:
    python = await asyncio.to_thread(python_of, "atropos")
    told = {
        "PATH": os.environ["PATH"],
        "HOME": str(tmp_path),
        "HERMES_HOME": str(tmp_path / "hermes"),
        "TERMINAL_ENV": "local",
        "HF_HUB_OFFLINE": "1",
        "WANDB_MODE": "disabled",
    }
    process = await asyncio.create_subprocess_exec(
        str(python), *words, env=told, cwd=tmp_path,
        stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT,
    )  # fmt: skip
    output, _ = await process.communicate()
    assert process.returncode == 0, output.decode()[-4000:]


async def test_rollouts_are_processed_and_rewarded(tmp_path: Path) -> None:
    tokenizer, groups = tmp_path / "tokenizer", tmp_path / "groups.jsonl"
    await run(tmp_path, str(ROOT / "tools" / "link.py"), str(ROOT))
    await run(tmp_path, str(ENVIRONMENT), "tokenizer", str(tokenizer))
    async with FakeModelServer(summing) as server:
        await run(
            tmp_path, str(ENVIRONMENT), "process",
            "--env.tokenizer_name", str(tokenizer),
            "--env.use_wandb", "false",
            "--env.total_steps", "2",
            "--env.group_size", "2",
            "--env.ensure_scores_are_not_same", "false",
            "--env.include_messages", "true",
            "--env.data_path_to_save_groups", str(groups),
            "--openai.base_url", server.base_url,
            "--openai.api_key", "none",
            "--openai.model_name", "fake-model",
        )  # fmt: skip
    first, second = (json.loads(line) for line in groups.read_text().splitlines())
    assert first["scores"] == [1.0, 1.0] and second["scores"] == [0.0, 0.0], "two is one plus one only"
    for tokens, masks, messages in zip(first["tokens"], first["masks"], first["messages"], strict=True):
        assert len(tokens) == len(masks) and {-100} < set(masks)
        assert [message["role"] for message in messages] == [
            "system",
            "user",
            "assistant",
            "tool",
            "assistant",
        ]
