"""Changing one setting: the right file, everything else kept, all or nothing."""

from __future__ import annotations

import multiprocessing
import os
import stat
from pathlib import Path

import pytest

from hermes.domain.errors import UserError
from hermes.domain.turns.turn import BusyMode
from hermes.state.settings.by_key import set_setting, unset_setting, value_at
from hermes.state.settings.loader import load_settings

CONFIG = """\
# My settings
model: gpt-x  # the good one

agent:
    max_turns: 5   # enough
    # a remark
    system_prompt: |
        Two
        lines

telegram:
    allowed_users:
      - "1"   # me
      - 2
web: {a: 'b'}
"""


def config(home: Path) -> str:
    return (home / "config.yaml").read_text()


def test_a_value_is_changed_and_everything_else_stays(tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text(CONFIG)
    (tmp_path / "config.yaml").chmod(0o640)
    written = set_setting(tmp_path, "agent.max_turns", "7")
    assert config(tmp_path) == CONFIG.replace("max_turns: 5 ", "max_turns: 7 ")
    assert (written.file, written.name, written.secret) == (
        tmp_path / "config.yaml",
        "agent.max_turns",
        False,
    )
    assert stat.S_IMODE(os.stat(tmp_path / "config.yaml").st_mode) == 0o640
    assert sorted(path.name for path in tmp_path.iterdir() if path.is_file()) == ["config.yaml"]


@pytest.mark.parametrize(
    ("key", "text", "path", "value"),
    [
        ("model", "new", "model.default", "new"),
        ("model.provider", "custom", "model.provider", "custom"),
        ("approvals.mode", "OFF", "approvals.mode", "off"),
        ("display.busy_input_mode", "steer", "display.busy_input_mode", BusyMode.STEER),
        ("streaming.enabled", "no", "streaming.enabled", False),
        ("streaming.mode", "draft", "streaming.transport", "draft"),
        ("gateway.streaming.enabled", "no", "streaming.enabled", False),
        ("agent.clarify_timeout", "1.5", "agent.clarify_timeout", 1.5),
        ("max_running", "9", "gateway.max_running", 9),
        ("gateway.max_running", "9", "gateway.max_running", 9),
        ("allowed_users", "a, b", "allowed_users", ("a", "b")),
        ("allowed_users", "[a, 'b']", "allowed_users", ("a", "b")),
        ("timezone", "Europe/Berlin", "timezone", "Europe/Berlin"),
        ("agent.system_prompt", 'it\'s: "a" #1', "agent.system_prompt", 'it\'s: "a" #1'),
        ("agent.system_prompt", "true", "agent.system_prompt", "true"),
        ("agent.system_prompt", "two\nlines ▉", "agent.system_prompt", "two\nlines ▉"),
    ],
)
@pytest.mark.parametrize("before", ["", "# a remark\n", CONFIG, "max_running: 3\nstreaming: {cursor: x}\n"])
def test_what_is_written_is_read_back(
    tmp_path: Path, before: str, key: str, text: str, path: str, value: object
) -> None:
    if before:
        (tmp_path / "config.yaml").write_text(before)
    set_setting(tmp_path, key, text)
    loaded = load_settings(tmp_path, {})
    found: object = loaded.settings
    for name in path.split("."):
        found = getattr(found, name)
    assert found == value and loaded.problems == ()
    for line in before.splitlines():
        if "#" in line and "model" not in line:
            assert line in config(tmp_path)


@pytest.mark.parametrize(
    "before",
    [
        "",
        "telegram: {enabled: true}\n",
        "platforms:\n  telegram:\n",
        "gateway: {platforms: {telegram: {allowed_users: []}}}\n",
        "platforms: {telegram: {allowed_users: [1]}}\ntelegram: {allowed_users: [2]}\n",
    ],
)
def test_a_platform_is_changed_where_its_block_stands(tmp_path: Path, before: str) -> None:
    (tmp_path / "config.yaml").write_text(before)
    set_setting(tmp_path, "telegram.allowed_users", "7,8")
    set_setting(tmp_path, "platforms.telegram.require_mention", "true")
    block = load_settings(tmp_path, {}).settings.platforms["telegram"]
    assert block.allowed_users == ("7", "8") and block.require_mention is True


def test_an_agent_is_made_by_setting_its_model(tmp_path: Path) -> None:
    set_setting(tmp_path, "agents.work.model", "m")
    set_setting(tmp_path, "default_agent", "work")
    assert load_settings(tmp_path, {}).settings.agents["work"].model == "m"


@pytest.mark.parametrize(
    "before", ["", "agents:\n  work: {toolsets: [web]}\n", "gateway: {agents: {work: {toolsets: []}}}\n"]
)
def test_whatever_an_agent_has_can_be_set(tmp_path: Path, before: str) -> None:
    """Also under the name that the guide uses, wherever it stands."""
    (tmp_path / "config.yaml").write_text(before)
    for key in ("toolsets", "enabled_toolsets"):
        assert set_setting(tmp_path, f"agents.work.{key}", "file,todo").file.name == "config.yaml"
        assert load_settings(tmp_path, {}).settings.agents["work"].enabled_toolsets == ("file", "todo")
    set_setting(tmp_path, "agents.work.approvals.mode", "off")
    set_setting(tmp_path, "agents.work.budget.dollars", "2")
    settings = load_settings(tmp_path, {}).settings
    work = settings.agents["work"]
    assert work.approvals.mode == "off" and settings.approvals.mode != "off" and work.budget.dollars == 2
    assert value_at(settings, "agents.work.toolsets") == ("file", "todo")
    assert unset_setting(tmp_path, "agents.work.toolsets") is not None
    set_setting(tmp_path, "platforms.api_server.keys.desk.agents", "work,main")
    assert load_settings(tmp_path, {}).settings.platforms["api_server"].keys["desk"].agents == (
        "work",
        "main",
    )
    for key in ("approvals.mod", "terminal.cwd", "approvals"):
        with pytest.raises(UserError) as refused:
            set_setting(tmp_path, f"agents.work.{key}", "off")
        assert "“approvals.mode”" not in str(refused.value) and "“terminal" not in str(refused.value)


@pytest.mark.parametrize(
    ("key", "variable"),
    [
        ("OPENROUTER_API_KEY", "OPENROUTER_API_KEY"),
        ("SOME_TOOL_TOKEN", "SOME_TOOL_TOKEN"),
        ("model.api_key", "OPENAI_API_KEY"),
        ("telegram.token", "TELEGRAM_BOT_TOKEN"),
        ("platforms.mattermost.token", "MATTERMOST_TOKEN"),
        ("feishu.app_secret", "FEISHU_APP_SECRET"),
        ("TELEGRAM_ALLOWED_USERS", "TELEGRAM_ALLOWED_USERS"),
    ],
)
def test_secrets_and_variables_go_to_the_secrets_file(tmp_path: Path, key: str, variable: str) -> None:
    (tmp_path / ".env").write_text(
        f"# keys\nA=1\nexport {variable}='old\nvalue' # x\nB=2\n{variable}=older\nC='3'"
    )
    (tmp_path / ".env").chmod(0o644)
    written = set_setting(tmp_path, key, "a b#c=$d\"e'")
    assert (written.name, written.secret) == (variable, True)
    text = (tmp_path / ".env").read_text()
    assert text == f"# keys\nA=1\nB=2\n{variable}=\"a b#c=$d\\\"e'\"\nC='3'\n"
    assert stat.S_IMODE(os.stat(tmp_path / ".env").st_mode) == 0o600
    assert not (tmp_path / "config.yaml").exists()


def test_the_key_of_a_named_provider(tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text("model: {provider: anthropic}\n")
    set_setting(tmp_path, "model.api_key", "abc")
    assert load_settings(tmp_path, {}).settings.model.api_key.reveal() == "abc"
    assert (tmp_path / ".env").read_text() == "ANTHROPIC_API_KEY=abc\n"


@pytest.mark.parametrize(
    ("key", "value", "words"),
    [
        ("agent.max_turn", "5", "Did you mean “agent.max_turns”?"),
        ("max_turns", "5", "Did you mean “agent.max_turns”?"),
        ("modle", "x", "Did you mean “model”?"),
        ("HERMES_MODLE", "x", "Did you mean “HERMES_MODEL”?"),
        ("platforms.telegran.enabled", "true", "Did you mean “platforms.telegram”?"),
        ("telegram.allowed_user", "1", "Did you mean “platforms.telegram.allowed_users”?"),
        ("qqqqq.wwwww", "1", "not a known setting"),
        ("", "1", "not a known setting"),
        ("...", "1", "not a known setting"),
        ("agent", "1", "several values"),
        ("routes", "1", "several values"),
        ("terminal.backend", "firecracker", "would not start"),
        ("agents.My Agent.model", "x", "cannot be called"),
        ("agent.max_turns", "five", "must be a whole number of at least 1, not “five”"),
        ("approvals.mode", "manul", "Did you mean “manual”?"),
        ("streaming.enabled", "maybe", "must be true or false"),
        ("default_agent", "nobody", "not declared"),
        ("OPENAI_API_KEY", "<your key>", "placeholder"),
        ("OPENAI_API_KEY", "a\x07b", "control characters"),
        ("OPENAI_API_KEY", "a\udcffb", "control characters"),
        ("agent.system_prompt", "a\udcffb", "cannot be set so"),
    ],
)
def test_what_is_refused_changes_nothing(tmp_path: Path, key: str, value: str, words: str) -> None:
    (tmp_path / "config.yaml").write_text(CONFIG)
    (tmp_path / ".env").write_text("A=1\n")
    with pytest.raises(UserError) as caught:
        set_setting(tmp_path, key, value)
    assert words in str(caught.value)
    assert config(tmp_path) == CONFIG and (tmp_path / ".env").read_text() == "A=1\n"


@pytest.mark.parametrize(
    "broken", ["model: 'x\n", "a: 1\na: 2\n", "a: [*b]\n", "agent: 5\n", "x: " + "[" * 500]
)
def test_a_broken_file_is_not_touched(tmp_path: Path, broken: str) -> None:
    (tmp_path / "config.yaml").write_text(broken)
    with pytest.raises(UserError):
        set_setting(tmp_path, "agent.max_turns", "5")
    assert config(tmp_path) == broken


def test_a_failed_write_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "config.yaml").write_text(CONFIG)

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(UserError, match="No space left"):
        set_setting(tmp_path, "agent.max_turns", "9")
    assert config(tmp_path) == CONFIG
    assert [path.name for path in tmp_path.iterdir() if path.is_file()] == ["config.yaml"]


def test_a_linked_file_stays_a_link(tmp_path: Path) -> None:
    real = tmp_path / "dotfiles.yaml"
    real.write_text(CONFIG)
    (tmp_path / "config.yaml").symlink_to(real)
    set_setting(tmp_path, "agent.max_turns", "9")
    assert (tmp_path / "config.yaml").is_symlink() and "max_turns: 9" in real.read_text()


def _set(home: Path, number: int) -> None:
    set_setting(home, f"agents.a{number}.model", "m")


def test_changes_at_the_same_time_are_not_lost(tmp_path: Path) -> None:
    running = [multiprocessing.get_context("fork").Process(target=_set, args=(tmp_path, n)) for n in range(6)]
    for process in running:
        process.start()
    for process in running:
        process.join(30)
    assert len(load_settings(tmp_path, {}).settings.agents) == 6


# --- taking a setting out ---


@pytest.mark.parametrize(
    ("key", "gone"),
    [
        ("agent.max_turns", "    max_turns: 5   # enough\n"),
        ("agent.system_prompt", "    system_prompt: |\n        Two\n        lines\n"),
        ("model", "model: gpt-x  # the good one\n"),
        ("telegram.allowed_users", 'telegram:\n    allowed_users:\n      - "1"   # me\n      - 2\n'),
    ],
)
def test_a_setting_is_taken_out_and_everything_else_stays(tmp_path: Path, key: str, gone: str) -> None:
    (tmp_path / "config.yaml").write_text(CONFIG)
    (tmp_path / "config.yaml").chmod(0o640)
    written = unset_setting(tmp_path, key)
    assert written is not None and not written.secret
    assert config(tmp_path) == CONFIG.replace(gone, "")
    assert stat.S_IMODE(os.stat(tmp_path / "config.yaml").st_mode) == 0o640
    assert unset_setting(tmp_path, key) is None
    assert config(tmp_path) == CONFIG.replace(gone, "")


@pytest.mark.parametrize(
    ("before", "key", "after"),
    [
        ("# only a remark\n", "timezone", None),
        ("timezone: UTC\n", "timezone", "# Settings that are not written here have their default.\n"),
        ("allowed_users:\n- a\n- b\n# next\ntimezone: UTC\n", "allowed_users", "# next\ntimezone: UTC\n"),
        ("gateway:\n  streaming:\n    enabled: no\n  x: 3\n", "streaming.enabled", "gateway:\n  x: 3\n"),
        ("a: 1\n\nagent:\n  # why\n  max_turns: 3\n\n# end", "agent.max_turns", "a: 1\n\n\n# end"),
    ],
)
def test_where_it_stood(tmp_path: Path, before: str, key: str, after: str | None) -> None:
    (tmp_path / "config.yaml").write_text(before)
    assert (unset_setting(tmp_path, key) is None) is (after is None)
    assert config(tmp_path) == (before if after is None else after)


@pytest.mark.parametrize(
    "before",
    [
        "agent:\n  ? max_turns\n  : 3\n  system_prompt: x\n",
        "agent:\n  max_turns: &n 3\n  system_prompt: *n\n",
        "base: &b {max_turns: 3}\nagent:\n  <<: *b\n  system_prompt: x\n",
    ],
)
def test_what_cannot_be_taken_out_stays(tmp_path: Path, before: str) -> None:
    (tmp_path / "config.yaml").write_text(before)
    with pytest.raises(UserError, match="cannot be taken out"):
        unset_setting(tmp_path, "agent.max_turns")
    with pytest.raises(UserError, match="max_turn"):
        unset_setting(tmp_path, "agent.max_turn")
    assert config(tmp_path) == before


@pytest.mark.parametrize("key", ["platforms", "platforms.telegram", "telegram", "agent", "agents", "gateway"])
def test_a_whole_section_can_be_taken_out_and_may_be_missing(tmp_path: Path, key: str) -> None:
    assert unset_setting(tmp_path, key) is None
    kept = "timezone: UTC\n"
    block = "telegram" if key == "telegram" else key.partition(".")[0]
    inner = "telegram: {require_mention: true}" if block == "platforms" else "x: {max_turns: 3}"
    (tmp_path / "config.yaml").write_text(f"{block}:\n  {inner}\n{kept}")
    assert unset_setting(tmp_path, key) is not None
    assert config(tmp_path) == kept


def test_a_variable_is_taken_out(tmp_path: Path) -> None:
    (tmp_path / ".env").write_text('# keys\nA=1\nexport OPENAI_API_KEY="sk\nx"\nB=2\nOPENAI_API_KEY=sk-2\n')
    written = unset_setting(tmp_path, "OPENAI_API_KEY")
    assert written is not None and written.secret
    assert (tmp_path / ".env").read_text() == "# keys\nA=1\nB=2\n"
    assert stat.S_IMODE(os.stat(tmp_path / ".env").st_mode) == 0o600
    assert unset_setting(tmp_path, "OPENAI_API_KEY") is None


@pytest.mark.parametrize(
    ("text", "key"),
    [
        ("model: x\nterminal: docker\n", "terminal"),
        ("model: x\nterminal:\n  Backend: docker\n", "terminal.Backend"),
        (
            "model: x\nagents:\n  bee:\n    platform_toolsets: {telegram: [file]}\n",
            "agents.bee.platform_toolsets",
        ),
        ("model: x\ntoolset: [none]\n", "toolset"),
    ],
)
def test_what_stops_the_start_can_be_taken_out(tmp_path: Path, text: str, key: str) -> None:
    (tmp_path / "config.yaml").write_text(text)
    assert load_settings(tmp_path, {}).stops
    written = unset_setting(tmp_path, key)
    assert written is not None and written.name == key and config(tmp_path) == "model: x\n"
    with pytest.raises(UserError):
        unset_setting(tmp_path, key)


def test_a_variable_that_stops_the_start_can_be_taken_out(tmp_path: Path) -> None:
    (tmp_path / ".env").write_text("A=1\nTERMINAL_ENV=firecracker\n")
    assert unset_setting(tmp_path, "TERMINAL_ENV") is not None
    assert (tmp_path / ".env").read_text() == "A=1\n"


@pytest.mark.parametrize(
    "key", ["terminal.backend", "terminal", "terminal.backnd", "telegram.toolsets", "TERMINAL_ENV"]
)
def test_a_limit_that_would_stop_the_start_is_not_written(tmp_path: Path, key: str) -> None:
    with pytest.raises(UserError, match="is a limit that does not hold here") as refused:
        set_setting(tmp_path, key, "firecracker")
    assert "would not start" in (refused.value.hint or "") and not (tmp_path / "config.yaml").exists()
    assert set_setting(tmp_path, "terminal.backend", "local").name == "terminal.backend"
