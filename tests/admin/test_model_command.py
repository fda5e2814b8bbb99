"""`hermes model`, as it is typed and as it answers."""

from __future__ import annotations

import argparse
import asyncio
import getpass
import io
import json
from pathlib import Path
from typing import Any

import pytest

from hermes.admin.commands import model as model_command
from hermes.admin.commands import model_setup
from hermes.admin.shell.command import CliCommand, perform
from hermes.admin.shell.output import CliConsole
from hermes.agent.models.choose import ModelChoice
from hermes.agent.models.servers import ModelListing, OfferedModel
from hermes.app.agents import model_search
from hermes.app.agents.model_search import _newest_of_family
from hermes.domain.errors import UserError
from hermes.domain.models.credential import Credential
from hermes.domain.settings.declaring import Secret
from hermes.state.home.credentials import CredentialFile
from hermes.state.settings.loader import load_settings
from hermes.testing.model_server import FakeModelServer

MODELS = ("big-model-70b", "big-model-8b", "gpt-4o")


async def ask(home: Path, *words: str, typed: str | None = None, **environ: str) -> str:
    """What is printed, or the error."""
    out, err = io.StringIO(), io.StringIO()
    console = CliConsole(out=out, err=err, interactive=typed is not None)
    given = {"HERMES_NO_PROBE": "1", **environ}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("sys.stdin", io.StringIO(typed or ""))
        try:
            await asyncio.to_thread(perform, "model", words, home, given, console)
        except UserError as error:
            return f"{out.getvalue()}{error}"
    return out.getvalue()


def write(home: Path, server: FakeModelServer, model: str = "big-model-8b") -> None:
    (home / "config.yaml").write_text(
        f"# mine\nmodel: {{default: {model}, base_url: '{server.base_url}'}}\n"
        f"providers: {{house: {{base_url: '{server.base_url}', api_key: house-key-123}}}}\n"
    )


def default_of(home: Path) -> tuple[str, str]:
    model = load_settings(home, {}).settings.model
    return model.provider, model.default


async def test_it_says_which_model_answers_and_chooses_another(tmp_path: Path) -> None:
    async with FakeModelServer(models=MODELS) as server:
        write(tmp_path, server)
        assert "big-model-8b by an OpenAI-compatible service" in await ask(tmp_path)
        assert json.loads(await ask(tmp_path, "--json"))["model"] == "big-model-8b"
        assert "The default model is now big-model-70b" in await ask(tmp_path, "70b", "--global")
        assert default_of(tmp_path) == ("auto", "big-model-70b")
        assert "# mine" in (tmp_path / "config.yaml").read_text()
        assert "is now custom:house:gpt-4o" in await ask(tmp_path, "custom:house:gpt")
        assert default_of(tmp_path) == ("custom:house", "gpt-4o")
        assert "is now custom:house:big-model-8b" in await ask(tmp_path, "8b", "--provider", "house")
        assert "is now custom:house:big-model-70b" in await ask(tmp_path, "70b", ANTHROPIC_API_KEY="sk-ant-1")
        assert default_of(tmp_path) == ("custom:house", "big-model-70b"), "it stays at its provider"


async def test_a_provider_that_there_is_not_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def check(name: str, provider: str = "") -> str:
        console = CliConsole(out=io.StringIO(), err=io.StringIO(), interactive=False)
        command = CliCommand(
            name="chat",
            asked=argparse.Namespace(),
            home=tmp_path,
            environ={"HERMES_NO_PROBE": "1"},
            console=console,
        )
        try:
            await model_command.check_model(command, name, provider)
        except UserError as error:
            return str(error)
        return ""

    async with FakeModelServer(models=(*MODELS, "qwen3:8b", "phi3:mini")) as server:
        write(tmp_path, server)
        for fine in (("big",), ("phi3:mini",), ("house:any",), ("x", "house"), ("anthropic:new",)):
            assert await check(*fine) == ""
        assert "provider “groqq” is not known. Did you mean groq?" in await check("x", "groqq")
        assert "There is no provider “hause”" in await check("hause:x")
        assert "Did you mean custom:house?" in await check("hause:x")
        for free in (
            ("deepseek/deepseek-r1:free",),
            ("vendor/x:thinking",),
            ("r1:free",),
            ("nosuch:7b",),
            ("x", "local"),
        ):
            assert await check(*free) == ""
        assert "serves a whole home" in await check("x", "demo")
        assert "provider “plug” is not known" in await check("x", "plug")
        monkeypatch.setattr(model_command, "providers", lambda: {"plug": None})
        assert await check("x", "plug") == ""


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("big",), "“big” fits 2 models: big-model-8b, big-model-70b. Write more of the name."),
        (("gpt-4p",), "There is no model “gpt-4p” here. Did you mean gpt-4o?"),
        (("x", "--provider", "groqq"), "The provider “groqq” is not known. Did you mean groq?"),
        (("x", "--provider", "groq"), "GROQ_API_KEY is not set. hermes config set GROQ_API_KEY …"),
        (("x", "--provider", "nous"), "nobody is logged in there. hermes auth login nous"),
    ],
)
async def test_mistakes_change_nothing(tmp_path: Path, words: tuple[str, ...], said: str) -> None:
    async with FakeModelServer(models=MODELS) as server:
        write(tmp_path, server)
        before = (tmp_path / "config.yaml").read_text()
        assert said in await ask(tmp_path, *words)
        assert (tmp_path / "config.yaml").read_text() == before
        assert "HERMES_MODEL is set" in await ask(tmp_path, "70b", HERMES_MODEL="big-model-8b")


async def test_a_list_is_live_or_published(tmp_path: Path) -> None:
    async with FakeModelServer(models=MODELS) as server:
        write(tmp_path, server)
        rows = json.loads(await ask(tmp_path, "list", "--json"))
        assert [row["name"] for row in rows] == list(MODELS)
        assert rows[2]["context_length"] is None, "a server here reads as much as it was started with"
    published = await ask(tmp_path, "list", "--provider", "anthropic")
    assert "claude-opus-4-5" in published and "200,000" in published and "yes" in published


async def test_it_asks_step_by_step_on_a_terminal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[str] = []

    async def listed(choice: ModelChoice, seconds: float = 1.0) -> ModelListing:
        seen.append(f"{choice.provider} {choice.key.reveal()}")
        return ModelListing(models=tuple(OfferedModel(name=name) for name in MODELS), status=200)

    def answered(search: model_search.ModelSearch) -> str:
        assert search.own is not None
        return f"{search.own.model} of {search.own.provider} answered"

    monkeypatch.setattr(model_search, "list_models", listed)
    monkeypatch.setattr(model_setup, "try_model", answered)
    monkeypatch.setattr(getpass, "getpass", lambda prompt, stream=None: "typed-key-0123")
    said = await ask(tmp_path, typed="groq\n2\n")
    assert "big-model-8b of groq answered" in said and "typed-key" not in said
    assert "3. gpt-4o (128,000 tokens, $2.5 in, $10 out per million)" in said
    assert default_of(tmp_path) == ("groq", "big-model-8b") and {*seen} == {"groq typed-key-0123"}
    assert load_settings(tmp_path, {}).secrets.reveal("GROQ_API_KEY") == "typed-key-0123"
    assert "Nothing was changed." in await ask(tmp_path, typed="\n")
    assert "There is no “nosuch” in the list." in await ask(tmp_path, typed="nosuch\n")
    assert "hermes auth login openai-codex" in await ask(tmp_path, typed="openai-codex\n")


async def test_what_is_published_is_fetched_anew_or_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    many: dict[str, Any] = {f"m{number}": {"limit": {"context": 4096}} for number in range(300)}
    answers = iter([None, {"error": "no"}, {"openai": {"models": many}}])

    async def fetch(url: str, seconds: float) -> Any:
        assert url == "https://models.dev/api.json"
        return next(answers)

    monkeypatch.setattr(model_command, "fetch_json", fetch)
    for _ in range(2):
        assert "gave no list of models. What is known of models is of 20" in await ask(tmp_path, "--refresh")
        assert not (tmp_path / "cache" / "models.tsv").exists()
    assert "300 models are known" in await ask(tmp_path, "--refresh")
    assert "m7" in await ask(tmp_path, "list", "--provider", "openai")


async def test_a_stored_key_counts_like_one_of_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def listed(choice: ModelChoice, seconds: float = 1.0) -> ModelListing:
        assert choice.key.reveal() == "stored-key-0123"
        return ModelListing(models=(OfferedModel(name="Hermes-9"),), status=200)

    monkeypatch.setattr(model_search, "list_models", listed)
    credential = Credential(id="1", provider="nous", label="mine", key=Secret("stored-key-0123"))
    CredentialFile(tmp_path).add(credential)
    assert "Hermes-9" in await ask(tmp_path, "list", "--provider", "nous")
    assert "is now nous:Hermes-9" in await ask(tmp_path, "hermes", "--provider", "nous")


@pytest.mark.parametrize("before", ["", "model: {provider: demo}\n", "model: demo\n"])
async def test_a_model_by_name_takes_the_place_of_the_demo_model(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, before: str
) -> None:
    async def listed(choice: ModelChoice, seconds: float = 1.0) -> ModelListing:
        return ModelListing(models=(), status=None)

    monkeypatch.setattr(model_search, "list_models", listed)
    (tmp_path / "config.yaml").write_text(before or "{}\n")
    assert "No model but the demo model can answer: no key is set." in await ask(tmp_path, "sonnet")
    assert (tmp_path / "config.yaml").read_text() == (before or "{}\n")
    said = await ask(tmp_path, "sonnet", ANTHROPIC_API_KEY="sk-ant-1")
    assert f"is now {'anthropic:' if before else ''}claude-sonnet-" in said
    assert "could not be checked" not in said
    assert "by Anthropic" in await ask(tmp_path, ANTHROPIC_API_KEY="sk-ant-1")


@pytest.mark.parametrize(
    ("text", "published", "chosen"),
    [
        ("sonnet", ["claude-sonnet-5", "claude-sonnet-4-5-20250929", "claude-opus-5"], "claude-sonnet-5"),
        ("Opus", ["claude-opus-5", "claude-opus-4.8", "claude-opus-4-latest"], "claude-opus-5"),
        ("gpt", ["gpt-6", "gpt-6-mini", "gpt-5"], ""),
        ("gpt-5", ["gpt-6", "gpt-5.5", "gpt-5"], "gpt-5"),
        ("none", ["gpt-6"], ""),
    ],
)
def test_a_family_means_its_newest_model(text: str, published: list[str], chosen: str) -> None:
    assert _newest_of_family(text, published) == chosen
