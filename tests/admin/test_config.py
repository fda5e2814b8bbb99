"""`hermes config`, as it is typed and as it answers."""

from __future__ import annotations

import getpass
import io
import re
from pathlib import Path

import pytest
import yaml

import hermes
from hermes.admin.shell.command import UsageError, perform
from hermes.admin.shell.output import CliConsole
from hermes.agent.models.choose import ModelAccess, choose
from hermes.app.http import AppHttp
from hermes.domain.errors import UserError
from hermes.state.files.subscriptions import change
from hermes.state.settings.loader import load_settings
from hermes.state.settings.names import own_keys


def ask(home: Path, *args: str, **environ: str) -> tuple[int, str, str]:
    out, err = io.StringIO(), io.StringIO()
    try:
        code = perform("config", args, home, environ, CliConsole(out=out, err=err))
    except UserError as error:
        return 1, out.getvalue(), f"{error}\n"
    except UsageError as usage:
        return 2, out.getvalue(), str(usage)
    return code, out.getvalue(), err.getvalue()


def test_show_prints_what_counts_and_no_secret(tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text(
        "model: {default: m, api_key: secret-1}\ntelegram: {token: secret-2, allowed_users: [7]}\n"
        "agent: {system_prompt: say secret-3}\nroutes: [{match: {chat_id: 1}, agent: main}]\n"
    )
    (tmp_path / ".env").write_text("A_TOKEN=secret-3\n")
    code, out, err = ask(tmp_path, "show", HERMES_MAX_ITERATIONS="9", OPENAI_API_KEY="secret-4")
    assert code == 0 and err == "" and "secret-" not in out
    shown = yaml.safe_load(out)
    assert shown["agent"]["max_turns"] == 9 and shown["model"]["api_key"] == "***"
    assert shown["platforms"]["telegram"]["secrets"] == {"token": "***"}
    assert shown["platforms"]["telegram"]["allowed_users"] == ["7"]
    assert shown["agent"]["system_prompt"] == "say ‹secret›" and shown["routes"][0]["agent"] == "main"
    assert shown["display"]["busy_input_mode"] == "interrupt"


def test_show_speaks_of_problems(tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text("modle: x\n")
    code, _, err = ask(tmp_path, "show")
    assert code == 0 and "1 problem(s)" in err and "hermes config check" in err


@pytest.mark.parametrize(
    ("key", "said"),
    [
        ("agent.max_turns", "5\n"),
        ("model", "default: m\n"),
        ("model.default", "m\n"),
        ("model.api_key", "***\n"),
        ("model.max_tokens", "\n"),
        ("OPENAI_API_KEY", "***\n"),
        ("HERMES_MODEL", "\n"),
        ("streaming.enabled", "true\n"),
        ("max_running", "512\n"),
        ("telegram.allowed_users", "- '7'\n"),
        ("telegram.require_mention", "true\n"),
        ("platforms.telegram.token", "***\n"),
        ("platforms.slack.enabled", "\n"),
        ("agents.work.model", "w\n"),
        ("routes", ""),
    ],
)
def test_get(tmp_path: Path, key: str, said: str) -> None:
    (tmp_path / "config.yaml").write_text(
        "model: m\nagent: {max_turns: 5}\nagents: {work: {model: w}}\n"
        "telegram: {allowed_users: [7], require_mention: true, token: secret-1}\n"
    )
    code, out, err = ask(tmp_path, "get", key, OPENAI_API_KEY="secret-2")
    assert (code, err) == (0, "")
    assert out.startswith(said) if key == "model" else out == said
    assert "secret-" not in out


@pytest.mark.parametrize("command", [("get",), ("set",)])
@pytest.mark.parametrize(
    ("key", "words"),
    [
        ("agent.max_turn", "“agent.max_turns”"),
        ("HERMES_MODLE", "“HERMES_MODEL”"),
        ("__class__", "not a known"),
        ("terminal.modal_mode", "not used yet"),
        ("agent.max_turns.x", "not a known"),
        ("", "not a known"),
    ],
)
def test_unknown_keys_are_answered_with_the_nearest(
    tmp_path: Path, command: tuple[str], key: str, words: str
) -> None:
    code, out, err = ask(tmp_path, *command, key, *(["1"] if command == ("set",) else []))
    assert (code, out) == (1, "") and words in err and err.count("\n") == 1


def test_set_and_path(tmp_path: Path) -> None:
    home = tmp_path / "new"
    code, out, _ = ask(home, "set", "agent.max_turns", "8")
    assert code == 0 and out == f"agent.max_turns is set in {home / 'config.yaml'}\n"
    code, out, _ = ask(home, "set", "model.api_key", "secret-1", OPENAI_API_KEY="other")
    assert code == 0 and "OPENAI_API_KEY is set in" in out and "environment, which takes effect" in out
    assert "secret-1" not in out
    code, out, _ = ask(home, "set", "agent.max_turns", "9", HERMES_MAX_ITERATIONS="3")
    assert "which takes effect" in out
    ask(home, "set", "TELEGRAM_ALLOWED_USERS", "1")
    code, out, _ = ask(home, "set", "telegram.allowed_users", "2")
    assert "which takes effect" in out
    code, out, _ = ask(home, "path")
    assert out == f"{home / 'config.yaml'}\n{home / '.env'}\n"
    code, out, err = ask(home, "set", "agent.max_turns", "many")
    assert (code, out) == (1, "") and "whole number" in err


def test_a_model_with_its_provider_is_no_variables_doing(tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text("providers: {house: {base_url: 'http://h.example/v1'}}\n")
    assert "variable" not in ask(tmp_path, "set", "model", "custom:house:x")[1]
    assert "the provider “foo” is not known" in ask(tmp_path, "set", "model.provider", "foo")[1]
    assert "not known" not in ask(tmp_path, "set", "model.provider", "custom:house")[1]


def test_the_demo_model_is_meant_whatever_keys_are_set(tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text("model: demo\n")
    model = load_settings(tmp_path, {"ANTHROPIC_API_KEY": "sk-ant-api-0123"}).settings.model
    assert choose(model).way is ModelAccess.DEMO and not model.api_key


def test_a_prefill_file_that_is_gone_is_a_problem(tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text("prefill_messages_file: pre.json\n")
    code, said, _ = ask(tmp_path, "check")
    assert code != 0 and "pre.json cannot be read" in said
    (tmp_path / "pre.json").write_text("[]")
    assert ask(tmp_path, "check")[0] == 0


def test_unset(tmp_path: Path) -> None:
    ask(tmp_path, "set", "agent.max_turns", "8")
    ask(tmp_path, "set", "TELEGRAM_BOT_TOKEN", "1:abc")
    code, out, _ = ask(tmp_path, "unset", "agent.max_turns")
    assert code == 0 and out == f"agent.max_turns is not set any more in {tmp_path / 'config.yaml'}\n"
    code, out, _ = ask(tmp_path, "unset", "agent.max_turns")
    assert code == 0 and "is not set in" in out and "nothing was changed" in out
    code, out, _ = ask(tmp_path, "unset", "TELEGRAM_BOT_TOKEN", TELEGRAM_BOT_TOKEN="2:abc")
    assert code == 0 and out.endswith(
        "TELEGRAM_BOT_TOKEN is still set in the environment, which takes effect.\n"
    )
    assert "TELEGRAM" not in (tmp_path / ".env").read_text()
    assert ask(tmp_path, "get", "agent.max_turns")[1] == ask(tmp_path / "new", "get", "agent.max_turns")[1]


def test_a_value_in_braces_is_taken_out_and_its_neighbours_stay(tmp_path: Path) -> None:
    file = tmp_path / "config.yaml"
    file.write_text(
        "# mine\nstreaming: {cursor: '|', enabled: true} # both\n# below\nagent:\n  max_turns: 7\n"
    )
    assert ask(tmp_path, "unset", "streaming.cursor")[0] == 0
    left = file.read_text()
    assert "streaming: {enabled: true}" in left and "# both" in left and "# below\nagent:" in left
    assert ask(tmp_path, "unset", "streaming.enabled")[0] == 0
    assert file.read_text() == "# mine\n# below\nagent:\n  max_turns: 7\n"


def test_a_secret_that_is_left_out_is_asked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    refused = ask(tmp_path, "set", "OPENAI_API_KEY")
    assert refused[0] == 1 and "There is no value for OPENAI_API_KEY." in refused[2]
    monkeypatch.setattr(getpass, "getpass", lambda prompt, stream: "sk-typed-1234567")
    out = io.StringIO()
    console = CliConsole(out=out, err=out, interactive=True)
    assert perform("config", ["set", "OPENAI_API_KEY"], tmp_path, {}, console) == 0
    assert "OPENAI_API_KEY=sk-typed-1234567" in (tmp_path / ".env").read_text()
    assert "sk-typed" not in out.getvalue()
    with pytest.raises(UserError, match=r"There is no value for agent\.max_turns"):
        perform("config", ["set", "agent.max_turns"], tmp_path, {}, console)


@pytest.mark.parametrize(
    ("key", "says"),
    [
        ("telegram.nosuch", "is not a known setting"),
        ("telegram@work.webhook_prt", "webhook_port"),
        ("api_server.prot", "Did you mean “platforms.api_server.port”?"),
        ("webhook.nosuch", "is not a known setting"),
    ],
)
def test_a_key_that_a_platform_does_not_have_is_refused(tmp_path: Path, key: str, says: str) -> None:
    code, _, err = ask(tmp_path, "set", key, "1")
    assert code == 1 and says in err and not (tmp_path / "config.yaml").exists()


@pytest.mark.parametrize(
    "key",
    ["telegram.webhook_port", "telegram@work.webhook_port", "webhook.port", "api_server.max_connections",
     "telegram.channel_prompts.5", "slack.typing_indicator", "github.api_url"],
)  # fmt: skip
def test_a_key_of_a_platform_is_taken(tmp_path: Path, key: str) -> None:
    assert ask(tmp_path, "set", key, "1")[0] == 0


def test_every_key_that_the_server_reads_can_be_set() -> None:
    source = (Path(hermes.__file__).parent / "app/http.py").read_text()
    read = set(re.findall(r'(?:extra\.get|\bnumber)\("([a-z_]+)"', source))
    assert len(read) > 5 and read <= {*own_keys("api_server", ()), *own_keys("webhook", ())}


@pytest.mark.parametrize(
    ("config", "says"),
    [
        ("platforms: {api_server: {prot: 1}}", "Did you mean “platforms.api_server.port”?"),
        ("api_server: {max_runs: 1}", "“platforms.api_server.max_runs” is not"),
        ("gateway: {platforms: {api_server: {nosuch: {a: 1}}}}", "“platforms.api_server.nosuch” is not"),
        ("platforms: {api_server: {extra: {nosuch: 1}}}", "“platforms.api_server.extra.nosuch” is not"),
    ],
)  # fmt: skip
def test_a_key_that_the_http_server_does_not_have_is_reported(tmp_path: Path, config: str, says: str) -> None:
    (tmp_path / "config.yaml").write_text(config)
    code, out, err = ask(tmp_path, "check")
    assert code == 1 and says in out + err


def test_every_key_of_the_http_server_in_the_guide_is_taken(tmp_path: Path) -> None:
    guide = (Path(__file__).parents[2] / "docs/guides/http.md").read_text()
    keys = re.findall(
        r"^\| `([a-z_]+)(?:\.|`)", guide.partition("## Settings")[2].partition("**Limits")[0], re.M
    )
    older = ["reply_to_mode", "typing_indicator", "allow_from", "extra"]
    written = "".join(f"    {key}:\n" for key in {*keys, *older})
    (tmp_path / "config.yaml").write_text(f"platforms:\n  api_server:\n{written}")
    _, out, err = ask(tmp_path, "check")
    assert len(keys) > 15 and "known setting" not in out + err, (out, err)


def test_check(tmp_path: Path) -> None:
    assert ask(tmp_path, "check") == (0, "config ok\n", "")
    file = tmp_path / "config.yaml"
    file.write_text("kanban: {}\nagent:\n  max_turn: 3\n")
    code, out, _ = ask(tmp_path, "check")
    assert code == 1
    assert out.splitlines() == [
        f"{file}:3: “agent.max_turn” is not a known setting. Did you mean “agent.max_turns”?",
        f"note: {file}:1: “kanban” is known, but not used yet.",
    ]
    file.write_text("kanban: {}\n")
    assert ask(tmp_path, "check")[0] == 0
    file.write_text("terminal:\n  backend: local\n  network: none\n")
    code, out, _ = ask(tmp_path, "check")
    assert code == 1 and out.startswith(f"{file}:3: terminal.network does not hold: the backend local cannot")


def test_what_would_stop_the_start_is_not_set(tmp_path: Path) -> None:
    file = tmp_path / "config.yaml"
    refused = [
        ("network: none", "terminal.backend", "local", "the backend local cannot limit the network."),
        ("network: none", "terminal.backend", "ssh", "the backend ssh cannot limit the network."),
        (
            "backend: landlock",
            "terminal.network",
            "pypi.org",
            "landlock cannot limit the network to some hosts.",
        ),
        ("backend: local", "TERMINAL_NETWORK", "none", "the backend local cannot limit the network."),
        ("timeout: 5", "terminal.env_passthrough", "SOME_API_KEY", "SOME_API_KEY holds a credential"),
        ("timeout: 5", "terminal.backend", "bublewrap", "Did you mean “bubblewrap”? There are: "),
    ]
    for before, key, value, why in refused:
        file.write_text(f"terminal: {{{before}}}\n")
        code, _, err = ask(tmp_path, "set", key, value)
        assert code == 1 and why in err and "nothing was changed" in err
        assert file.read_text() == f"terminal: {{{before}}}\n" and not (tmp_path / ".env").exists()
    file.write_text("terminal: {network: none, backend: local}\n")
    assert ask(tmp_path, "set", "terminal.timeout", "7")[0] == 0, "what was wrong before is no reason"
    assert ask(tmp_path, "set", "terminal.backend", "landlock")[0] == 0


def test_check_names_a_machine_that_is_missing(tmp_path: Path) -> None:
    assert ask(tmp_path, "set", "terminal.backend", "ssh")[0] == 0
    code, out, _ = ask(tmp_path, "check")
    assert code == 1 and "No machine is named for the backend ssh" in out and "terminal.ssh_host" in out
    assert ask(tmp_path, "set", "terminal.ssh_host", "nas.lan")[0] == 0
    assert ask(tmp_path, "check")[0] == 0


def test_check_shows_no_secret_and_no_control_characters(tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text('agent: {max_turns: secret-1}\n"a\\e[31mb": 1\n')
    _, out, _ = ask(tmp_path, "check", A_KEY="secret-1")
    assert "secret-1" not in out and "\x1b" not in out


def test_help_and_wrong_use(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert ask(tmp_path, "--help")[0] == 0
    told = capsys.readouterr()
    assert told.err == "" and all(name in told.out for name in ("show", "get", "set", "path", "check"))
    for name in ("show", "get", "set", "path", "check"):
        assert ask(tmp_path, name, "--help")[0] == 0 and "." in capsys.readouterr().out
    for args in ([], ["nonsense"], ["get"], ["set"]):
        code, out, err = ask(tmp_path, *args)
        assert code == 2 and out == "" and "usage" in err


def test_a_home_that_is_a_file(tmp_path: Path) -> None:
    home = tmp_path / "file"
    home.write_text("")
    for args in (["show"], ["check"], ["set", "model", "x"]):
        code, out, err = ask(home, *args)
        assert (code, out) == (1, "") and str(home) in err


@pytest.mark.parametrize("key", ["changeme12345678", "aaaaaaaaaaaaaaaa", "short"])
def test_check_names_a_key_that_keeps_the_api_closed(tmp_path: Path, key: str) -> None:
    (tmp_path / ".env").write_text(f"API_SERVER_KEY={key}\n")
    (tmp_path / ".env").chmod(0o600)
    code, out, _ = ask(tmp_path, "check")
    assert code == 1 and out.startswith("API_SERVER_KEY is too weak: ") and key not in out
    (tmp_path / ".env").write_text("API_SERVER_KEY=oJ6tW0q3vYh2c8ZpLm4x\n")
    assert ask(tmp_path, "check")[:2] == (0, "config ok\n")
    (tmp_path / ".env").unlink()
    assert ask(tmp_path, "check", API_SERVER_ENABLED="true")[0] == 0
    assert not (tmp_path / ".env").exists()


def test_what_the_api_reads_can_be_set_as_variables_and_counts(tmp_path: Path) -> None:
    said = {
        "API_SERVER_PORT": "9001",
        "API_SERVER_HOST": "127.0.0.2",
        "API_SERVER_CORS_ORIGINS": "https://a.example, https://b.example",
        "API_SERVER_MODEL_NAME": "mine",
        "API_SERVER_ALLOWED_HOSTS": "hermes.example",
        "API_SERVER_MAX_BODY_BYTES": "12",
        "API_SERVER_ON_DISCONNECT": "finish",
    }
    for name, value in said.items():
        code, _, err = ask(tmp_path, "set", name, value)
        assert (code, err) == (0, "")
        assert ask(tmp_path, "get", name)[1] == f"{value}\n"
    loaded = load_settings(tmp_path, {})
    options = AppHttp(tmp_path, loaded, {}, lambda account, state, why: None).options()
    assert (options.host, options.port, options.model_name) == ("127.0.0.2", 9001, "mine")
    assert options.origins == ("https://a.example", "https://b.example")
    assert (options.hosts, options.max_body) == (("hermes.example",), 12) and options.finish_when_gone


@pytest.mark.parametrize("name", ["HERMES_HOME", "HERMES_PROFILE", "HERMES_RUNTIME_DIR"])
def test_a_variable_that_counts_before_the_file_is_read_is_refused(tmp_path: Path, name: str) -> None:
    code, out, err = ask(tmp_path, "set", name, "x")
    assert (code, out) == (1, "") and f"{name} counts only in the environment" in err


def test_check_says_once_that_a_file_of_comments_is_empty(tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text("# nothing yet\n")
    code, out, _ = ask(tmp_path, "check")
    assert code == 0 and out.count("config.yaml is empty") == 1 and out.endswith("config ok\n")


def test_check_looks_at_routes_made_by_command(tmp_path: Path) -> None:
    change(tmp_path, "ci", {"secret": "long-enough-to-sign", "deliver": "telegram"})
    code, out, _ = ask(tmp_path, "check")
    assert code == 1 and "Webhook route “ci”: telegram is not set up here" in out
    code, out, _ = ask(tmp_path, "check", TELEGRAM_BOT_TOKEN="123456:abcdefghijklmnopqrstuvwxyz")
    assert (code, out) == (0, "config ok\n")
    (tmp_path / "webhook_subscriptions.json").write_text("{")
    code, out, _ = ask(tmp_path, "check")
    assert code == 1 and "webhook_subscriptions.json" in out
