"""`hermes setup`: what is asked, that it is tried before it is written, and that it can be left anywhere."""

from __future__ import annotations

import asyncio
import getpass
import io
import json
from pathlib import Path

import pytest

from hermes.admin.commands import platform_setup, sandbox_services
from hermes.admin.shell.command import perform
from hermes.admin.shell.output import CliConsole
from hermes.domain.chats.adapter import Finding
from hermes.domain.errors import UserError
from hermes.state.settings import by_key
from hermes.state.settings.by_key import set_settings
from hermes.state.settings.loader import load_settings
from hermes.testing.model_script import failure
from hermes.testing.model_server import FakeModelServer

KEY = "sk-right-0123456789"


async def setup(
    home: Path, *words: str, typed: str | None = None, hidden: tuple[str, ...] = (), **environ: str
) -> str:
    """What is printed, with the error behind it."""
    out, left = io.StringIO(), [*hidden]
    console = CliConsole(out=out, err=io.StringIO(), interactive=typed is not None)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("sys.stdin", io.StringIO(typed or ""))
        patch.setattr(getpass, "getpass", lambda prompt, stream=None: left.pop(0))
        try:
            given = {"HERMES_NO_PROBE": "1", **environ}
            await asyncio.to_thread(perform, "setup", words, home, given, console, "1.0")
        except UserError as error:
            return f"{out.getvalue()}{error} {error.hint}"
    assert not left, "not everything was asked"
    return out.getvalue()


def model_of(home: Path) -> tuple[str, str, str]:
    model = load_settings(home, {}).settings.model
    return model.provider, model.default, model.base_url


async def test_a_server_of_ones_own_is_tried_before_anything_is_written(tmp_path: Path) -> None:
    home = tmp_path / "home"
    async with FakeModelServer(key=KEY, models=("small", "large")) as server:
        typed = f"Another address\n{server.base_url}\nlarge\n\nlarge\ndone\n"
        said = await setup(home, typed=typed, hidden=("sk-wrong-0123456789", "", "", "", KEY))
        assert said.count("did not accept the key") == 1 and "auth list" not in said, "it was just typed"
        assert "It does not answer" in said and "large answered after" in said
        assert "sk-wrong" not in said and KEY not in said
        assert server.requests[-1].last_user_message == "Answer with the single word: ready"
    assert model_of(home) == ("custom", "large", server.base_url)
    assert load_settings(home, {}).settings.model.api_key.reveal() == KEY
    assert "hermes chat" in said and "hermes doctor" in said


async def test_a_server_of_ones_own_neither_gets_nor_replaces_another_key(tmp_path: Path) -> None:
    (tmp_path / ".env").write_text("OPENAI_API_KEY=sk-of-openai-0123\n")
    (tmp_path / ".env").chmod(0o600)
    async with FakeModelServer() as server:
        typed = f"custom\n{server.base_url}\nfake-model\n"
        assert "Saved in" in await setup(tmp_path, "model", typed=typed, hidden=("",))
        assert not [one for one in server.requests if "sk-of-openai" in str(one.headers)]
        assert server.requests
        assert load_settings(tmp_path, {}).settings.model.api_key.reveal() == ""
        await setup(tmp_path, "model", typed="custom\n\nfake-model\n", hidden=("key-of-mine-0123",))
        assert "key-of-mine-0123" in str(server.requests[-1].headers)
        await setup(tmp_path, "model", typed="custom\n\nfake-model\n", hidden=("",))
        assert "key-of-mine-0123" in str(server.requests[-1].headers), "it keeps the one it has"
    secrets = load_settings(tmp_path, {}).secrets
    assert secrets.reveal("OPENAI_API_KEY") == "sk-of-openai-0123"
    assert secrets.reveal("CUSTOM_API_KEY") == "key-of-mine-0123"


async def test_a_script_gives_the_key_of_openai_with_an_address(tmp_path: Path) -> None:
    def kept(name: str) -> str:
        return load_settings(tmp_path, {}).variable(name)

    async with FakeModelServer(key=KEY) as server, FakeModelServer() as other:
        words = ("--model", "fake-model", "--base-url")
        assert "answered after" in await setup(tmp_path, *words, server.base_url, OPENAI_API_KEY=KEY)
        assert (kept("CUSTOM_API_KEY"), kept("OPENAI_API_KEY")) == (KEY, "")
        again = await setup(tmp_path, *words, server.base_url, OPENAI_API_KEY="sk-of-openai-0123")
        assert "answered after" in again, "its own key is kept"
        said = await setup(tmp_path, *words, other.base_url)
        assert f"CUSTOM_API_KEY is the key of {server.base_url}. Nothing was changed." in said
        assert not other.requests
        said = await setup(tmp_path, *words, other.base_url, OPENAI_API_KEY="sk-of-openai-0123")
        assert "answered after" in said and kept("CUSTOM_API_KEY") == "sk-of-openai-0123"
        assert KEY not in str([one.headers for one in other.requests])


async def test_a_script_without_a_key_writes_none(tmp_path: Path) -> None:
    async with FakeModelServer(key=KEY) as server:
        await setup(tmp_path, "--base-url", server.base_url, "--model", "fake-model", "--no-check")
        assert not load_settings(tmp_path, {}).variable("CUSTOM_API_KEY")
        set_settings(tmp_path, {"OPENAI_API_KEY": KEY})
        typed = "custom\n\nfake-model\n"
        assert "answered after" in await setup(tmp_path, "model", typed=typed, hidden=("",)), "it is kept"
    loaded = load_settings(tmp_path, {})
    assert loaded.settings.model.api_key.reveal() == KEY and not loaded.variable("CUSTOM_API_KEY")


async def test_a_wrong_key_or_address_is_named_at_once(tmp_path: Path) -> None:
    async with FakeModelServer(key=KEY) as server:
        place = server.base_url.removeprefix("http://").removesuffix("/v1")
        typed = f"custom\n{place}\nfake-model\n"
        said = await setup(tmp_path, "model", typed=typed, hidden=("sk-wrong-0123456789", KEY))
    assert f"Its address is http://{place}/v1." in said and "answered after" in said
    assert model_of(tmp_path) == ("custom", "fake-model", f"http://{place}/v1")
    said = await setup(tmp_path, "model", typed="custom\n\n", hidden=("", ""))
    assert f"Nothing answers at http://{place}/v1" in said


async def test_whoever_leaves_has_changed_nothing(tmp_path: Path) -> None:
    async with FakeModelServer(key=KEY) as server:
        typed = f"custom\n{server.base_url}\nfake-model\n"
        said = await setup(tmp_path, "model", typed=typed, hidden=("sk-wrong-0123456789", "", ""))
    assert "Nothing was changed." in said
    assert not (tmp_path / ".env").exists() and not (tmp_path / "config.yaml").exists()


async def test_it_works_without_a_key_and_can_be_repeated(tmp_path: Path) -> None:
    assert "demo model answers now" in await setup(tmp_path, typed="None yet\ndone\n")
    assert model_of(tmp_path) == ("demo", "", "")
    said = await setup(tmp_path, "--quick", typed="")
    assert "Nothing is missing." in said
    said = await setup(tmp_path, typed="agent\nsmart\nx\n25\n\n")
    assert "hermes doctor" in said, "whoever leaves the choice has finished"
    assert "That is no number" in said
    settings = load_settings(tmp_path, {}).settings
    assert (settings.approvals.mode, settings.agent.max_turns) == ("smart", 25)
    assert model_of(tmp_path) == ("demo", "", "")


async def test_scripts_set_up_without_questions(tmp_path: Path) -> None:
    refused = await setup(tmp_path)
    assert "no terminal to ask" in refused and "--non-interactive --provider openrouter" in refused
    assert "There is nothing to set up" in await setup(tmp_path, "--non-interactive")
    assert "Did you mean openrouter?" in await setup(tmp_path, "--provider", "opnrouter")
    keyless = await setup(tmp_path, "--provider", "openrouter")
    assert "Nothing was changed." in keyless and "export OPENROUTER_API_KEY=…" in keyless
    async with FakeModelServer(key=KEY) as server:
        words = ("--base-url", server.base_url, "--model", "fake-model", "--json")
        wrong = await setup(tmp_path, *words, CUSTOM_API_KEY="sk-wrong-0123456789")
        assert "does not answer" in wrong and not (tmp_path / ".env").exists()
        told = json.loads(await setup(tmp_path, *words, CUSTOM_API_KEY=KEY))
        assert told["ok"] and told["model"].startswith("fake-model answered after")
    assert model_of(tmp_path) == ("custom", "fake-model", server.base_url)
    assert load_settings(tmp_path, {}).secrets.reveal("CUSTOM_API_KEY") == KEY
    assert "demo model answers" in await setup(tmp_path, "--provider", "demo")
    assert model_of(tmp_path) == ("demo", "", ""), "an address of before would go along"


async def test_a_key_that_a_service_repeats_is_not_shown(tmp_path: Path) -> None:
    echoing = failure(401, f"Incorrect API key provided: {KEY}")
    async with FakeModelServer(lambda request: echoing) as server:
        words = ("--base-url", server.base_url, "--model", "fake-model")
        said = await setup(tmp_path, *words, CUSTOM_API_KEY=KEY)
    assert "does not answer" in said and "Nothing was changed." in said and KEY not in said


async def test_a_platform_is_set_up_from_its_variables(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    good = False

    async def findings(declared: object, home: Path) -> list[Finding]:
        return [
            Finding(good=good, text="The token is refused." if not good else "fine", hint="Ask BotFather.")
        ]

    monkeypatch.setattr(platform_setup, "findings_of", findings)
    missing = await setup(tmp_path, "--platform", "telegram")
    assert "lacks TELEGRAM_BOT_TOKEN" in missing
    token = {"TELEGRAM_BOT_TOKEN": "123456789:AAF-a-token-of-alpha"}
    refused = await setup(tmp_path, "--platform", "telegram", **token)
    assert "The token is refused. Nothing was changed." in refused and "Ask BotFather." in refused
    assert not (tmp_path / ".env").exists()
    good = True
    assert "telegram is set up" in await setup(tmp_path, "--platform", "telegram", **token)
    assert "AAF-a-token" in (tmp_path / ".env").read_text()


async def test_a_part_that_there_is_not_names_the_nearest(tmp_path: Path) -> None:
    assert "Did you mean model?" in await setup(tmp_path, "modle")


async def test_settings_can_be_begun_anew(tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text("# mine\nagent: {max_turns: 7}\n")
    assert "--yes" in await setup(tmp_path, "--reset", "--provider", "demo")
    assert "# mine" in (tmp_path / "config.yaml").read_text()
    await setup(tmp_path, "--reset", "--yes", "--provider", "demo")
    assert "# mine" in (tmp_path / "config.yaml.reset-1").read_text()
    assert load_settings(tmp_path, {}).settings.agent.max_turns == 60


@pytest.mark.parametrize("cut", [1, 2])
def test_cut_off_between_its_writes_it_can_be_repeated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cut: int
) -> None:
    """The key first, then all of config.yaml in one step: a model never goes with the address of another."""
    (tmp_path / "config.yaml").write_text("model: {provider: custom, base_url: 'http://127.0.0.1:9/v1'}\n")
    before, writes, write = model_of(tmp_path), 0, by_key.replace_text

    def stop(path: Path, text: str, mode: int) -> None:
        nonlocal writes
        writes += 1
        if writes == cut:
            raise KeyboardInterrupt
        write(path, text, mode)

    wanted: dict[str, str | None] = {
        "GROQ_API_KEY": "gsk-0123456789",
        "model.provider": "groq",
        "model.default": "m",
        "model.base_url": None,
    }
    monkeypatch.setattr(by_key, "replace_text", stop)
    with pytest.raises(KeyboardInterrupt):
        set_settings(tmp_path, wanted)
    assert model_of(tmp_path) == before
    monkeypatch.setattr(by_key, "replace_text", write)
    set_settings(tmp_path, wanted)
    assert model_of(tmp_path) == ("groq", "m", "")
    assert load_settings(tmp_path, {}).secrets.reveal("GROQ_API_KEY") == "gsk-0123456789"


def test_what_cannot_be_written_changes_nothing(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="placeholder"):
        set_settings(tmp_path, {"GROQ_API_KEY": "your-key-here", "model.provider": "groq"})
    assert not list(tmp_path.iterdir())


async def test_older_names_are_renamed_after_asking(tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text("model: {model: x, provider: demo} # mine\n")
    await setup(tmp_path, "--quick", typed="n\n")
    assert "model: x" in (tmp_path / "config.yaml").read_text()
    said = await setup(tmp_path, "--quick", typed="\n")
    assert "model.model → model.default" in said
    assert "default: x" in (tmp_path / "config.yaml").read_text()
    assert "# mine" in (tmp_path / "config.yaml").read_text()


async def test_a_service_that_runs_commands_gets_its_packages_and_its_key(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    installed: list[str] = []
    monkeypatch.setattr(sandbox_services, "is_installed", lambda extra: extra.name in installed)
    monkeypatch.setattr(
        sandbox_services, "install_extra", lambda extra, name, console: installed.append(name)
    )
    said = await setup(tmp_path, "terminal", typed="daytona\n", hidden=("",))
    assert "Daytona needs a key. Nothing was changed." in said
    assert not (tmp_path / "config.yaml").exists()
    assert "terminal.backend is daytona." in await setup(
        tmp_path, "terminal", typed="daytona\n", hidden=("dtn-1",)
    )
    assert installed == ["daytona"]
    loaded = load_settings(tmp_path, {})
    assert loaded.settings.terminal.backend == "daytona"
    assert sandbox_services.missing_keys("daytona", loaded) == []
    assert "terminal.backend is daytona." in await setup(tmp_path, "terminal", typed="daytona\n")
    said = await setup(tmp_path, "terminal", typed="modal\n", hidden=("ak-1", ""))
    assert "Modal needs a key. Nothing was changed." in said
    await setup(tmp_path, "terminal", typed="modal\n", hidden=("ak-1", "as-1"))
    loaded = load_settings(tmp_path, {})
    assert (loaded.variable("MODAL_TOKEN_ID"), loaded.variable("MODAL_TOKEN_SECRET")) == ("ak-1", "as-1")
