"""`hermes config` on the whole file: edit, diff, migrate, schema."""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from hermes.admin.commands.config import plain
from hermes.admin.shell.command import perform
from hermes.admin.shell.output import CliConsole
from hermes.domain.errors import UserError
from hermes.domain.settings.settings import Settings
from hermes.state.settings import history, whole_changes
from hermes.state.settings.history import earlier_configs
from hermes.state.settings.loader import check_text, load_settings
from hermes.state.settings.migration import CONFIG_VERSION, plan_migration
from hermes.state.settings.names import PlatformNames
from hermes.state.settings.schema import settings_schema
from hermes.state.settings.value_reader import known_keys

OLD = """# my file
_config_version: 33
model:
  model: gpt-4o   # the good one
  provider: custom:house
# fallbacks
fallback_model: {provider: openrouter, model: x}
custom_providers:
  - name: House
    url: http://127.0.0.1:9/v1  # here
streaming:
  mode: edit
reset_by_type: {dm: {mode: none}}
"""


def config(home: Path, *words: str, typed: str | None = None, **environ: str) -> tuple[int, str]:
    """The exit code and what is said, the error included."""
    out, err = io.StringIO(), io.StringIO()
    console = CliConsole(out=out, err=err, interactive=typed is not None)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("sys.stdin", io.StringIO(typed or ""))
        try:
            code = perform("config", words, home, environ, console)
        except UserError as error:
            return 1, f"{out.getvalue()}{error} {error.hint}"
    return code, out.getvalue() + err.getvalue()


def test_an_older_file_is_migrated_after_asking(tmp_path: Path) -> None:
    file = tmp_path / "config.yaml"
    file.write_text(OLD)
    meant = load_settings(tmp_path, {}).settings
    _, said = config(tmp_path, "check")
    assert "older names (model.model → model.default" in said and "hermes config migrate" in said
    assert "--yes" in config(tmp_path, "migrate")[1] and file.read_text() == OLD
    assert "Nothing was changed" in config(tmp_path, "migrate", typed="n\n")[1] and file.read_text() == OLD
    told = json.loads(config(tmp_path, "migrate", "--dry-run", "--json")[1])
    assert told["version"] == 33 and len(told["changes"]) == 6 and file.read_text() == OLD
    assert config(tmp_path, "migrate", typed="y\n")[0] == 0
    text = file.read_text()
    assert all(remark in text for remark in ("# my file", "# the good one", "# fallbacks", "# here"))
    assert f"_config_version: {CONFIG_VERSION}" in text and "custom_providers" not in text
    assert load_settings(tmp_path, {}).settings == meant
    assert [kept.text for kept in earlier_configs(tmp_path, text)] == [OLD]
    assert config(tmp_path, "rollback")[0] == 0 and file.read_text() == OLD
    assert config(tmp_path, "migrate", "--yes")[0] == 0 and file.read_text() == text
    assert "up to date" in config(tmp_path, "migrate")[1]
    assert "older" not in config(tmp_path, "check")[1]


def test_a_mistake_that_was_there_before_does_not_keep_a_file_old(tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text(f"{OLD}nonsense_key: 1\n")
    code, said = config(tmp_path, "migrate", "--yes")
    assert code == 0, said
    assert plan_migration(tmp_path).version == CONFIG_VERSION


@pytest.mark.parametrize("cut", [1, 2])
def test_a_migration_that_is_cut_off_leaves_the_old_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cut: int
) -> None:
    """The copy first, then the file."""
    (tmp_path / "config.yaml").write_text(OLD)
    write, writes = history.replace_text, 0

    def stop(path: Path, text: str, mode: int) -> None:
        nonlocal writes
        writes += 1
        if writes == cut:
            raise KeyboardInterrupt
        write(path, text, mode)

    for module in (history, whole_changes):
        monkeypatch.setattr(module, "replace_text", stop)
    with pytest.raises(KeyboardInterrupt):
        config(tmp_path, "migrate", "--yes")
    assert (tmp_path / "config.yaml").read_text() == OLD
    for module in (history, whole_changes):
        monkeypatch.setattr(module, "replace_text", write)
    assert config(tmp_path, "migrate", "--yes")[0] == 0
    assert plan_migration(tmp_path).version == CONFIG_VERSION
    assert [kept.text for kept in earlier_configs(tmp_path, "")] == [OLD]


def test_a_file_that_changed_meanwhile_or_is_newer_is_left_alone(tmp_path: Path) -> None:
    file = tmp_path / "config.yaml"
    file.write_text(OLD)
    change = plan_migration(tmp_path).change
    file.write_text(OLD + "timezone: UTC\n")
    assert change is not None
    with pytest.raises(UserError, match="changed meanwhile"):
        whole_changes.write_change(change)
    file.write_text(f"_config_version: {CONFIG_VERSION + 1}\nmodel: {{model: x}}\n")
    code, said = config(tmp_path, "check")
    assert code == 1 and "newer Hermes" in said
    assert "Update Hermes" in config(tmp_path, "migrate", "-y")[1]
    file.write_text("_config_version: soon\n")
    assert "is no version" in config(tmp_path, "migrate", "-y")[1]
    file.write_text("a: [\n")
    assert config(tmp_path, "migrate", "-y")[0] == 1
    assert {path.name for path in tmp_path.iterdir()} == {"config.yaml"}


@pytest.mark.parametrize(
    "text",
    [
        "",
        "# only a remark\n",
        "model: {default: a, model: b}\n",
        "fallback_model: {provider: openai, model: x}\nfallback_providers: [{provider: groq, model: y}]\n",
        "custom_providers: [{url: 'http://127.0.0.1/v1'}]\n",
        "custom_providers: 5\n",
        "reset_by_type: [dm]\n",
    ],
)
def test_what_cannot_be_renamed_without_loss_stays(tmp_path: Path, text: str) -> None:
    (tmp_path / "config.yaml").write_text(text)
    assert plan_migration(tmp_path).change is None
    assert (tmp_path / "config.yaml").read_text() == text


def test_a_name_that_is_taken_is_left_to_a_person(tmp_path: Path) -> None:
    both = "fallback_model: {provider: groq, model: y}\nfallback_providers: [{provider: openai, model: x}]\n"
    (tmp_path / "config.yaml").write_text("_config_version: 33\n" + both)
    planned = plan_migration(tmp_path)
    assert planned.changes == () and planned.change is not None
    assert planned.change.after == f"_config_version: {CONFIG_VERSION}\n{both}"


def test_providers_are_named_where_none_were(tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text(
        "providers:\ncustom_providers: [{name: a, url: 'http://127.0.0.1/v1'}]\n"
    )
    assert config(tmp_path, "migrate", "-y")[0] == 0
    assert load_settings(tmp_path, {}).settings.providers["a"].base_url == "http://127.0.0.1/v1"
    assert "custom_providers" not in (tmp_path / "config.yaml").read_text()


@pytest.mark.parametrize("version", ["-1", "true", "soon", "[1]"])
def test_what_is_no_version_is_told(tmp_path: Path, version: str) -> None:
    (tmp_path / "config.yaml").write_text(f"_config_version: {version}\n")
    code, said = config(tmp_path, "migrate", "-y")
    assert code == 1 and "is no version" in said
    assert config(tmp_path, "check")[0] == 1


def test_the_schema_knows_every_setting(tmp_path: Path) -> None:
    schema = json.loads(config(tmp_path, "schema")[1])
    jsonschema.Draft202012Validator.check_schema(schema)
    for key in known_keys():
        holder = schema
        for part in key.split("."):
            holder = holder["properties"][part]
        assert holder.get("description") or holder.get("properties") or "type" in holder, key


SCHEMA = settings_schema(PlatformNames())


@pytest.mark.parametrize(
    ("text", "fits"),
    [
        (OLD, True),
        ("model: gpt-4o\ntelegram@work: {allowed_users: [1, 2], own_key: x}\n", True),
        ("agent: {max_turns: 7, disabled_toolsets: web}\napprovals: {mode: off}\n", True),
        ("platforms: {telegram: {token: x}}\nroutes: [{match: {platform: telegram}, agent: main}]\n", True),
        ("display:\nskin: ares\n", False),
        ("display: {skin: ares}\ngateway: {streaming: {transport: edit}}\n", True),
        ("agent: {max_turns: many}\n", False),
        ("agent: {max_turn: 5}\n", False),
        ("approvals: {mode: never}\n", False),
        ("telegramm: {token: x}\n", False),
    ],
)
def test_the_schema_and_the_reader_judge_alike(text: str, fits: bool) -> None:
    data: Any = yaml.safe_load(text)
    assert jsonschema.Draft202012Validator(SCHEMA).is_valid(data) is fits
    assert (not check_text(text)[1]) is fits


def test_a_variable_may_stand_for_any_value() -> None:
    assert jsonschema.Draft202012Validator(SCHEMA).is_valid({"agent": {"max_turns": "${TURNS}"}})


def test_the_defaults_fit_the_schema() -> None:
    def stated(value: Any) -> Any:
        """Without what is not set and what stands elsewhere in a file."""
        if isinstance(value, dict):
            return {name: stated(inner) for name, inner in value.items() if inner not in (None, {})}
        return value

    jsonschema.validate(stated(plain(Settings())), SCHEMA)


def test_what_differs_from_the_defaults(tmp_path: Path) -> None:
    assert "Every setting has its default." in config(tmp_path, "diff")[1]
    (tmp_path / "config.yaml").write_text(
        "agent:\n  max_turns: 7\nproviders: {house: {base_url: 'http://a/v1', api_key: sk-house-12345678}}\n"
    )
    rows = {
        row["key"]: row for row in json.loads(config(tmp_path, "diff", "--json", HERMES_TIMEZONE="UTC")[1])
    }
    assert rows["agent.max_turns"] == {
        "key": "agent.max_turns",
        "default": 60,
        "value": 7,
        "where": "config.yaml:2",
    }
    assert rows["timezone"]["where"] == "a variable"
    assert rows["providers.house.api_key"]["value"] == "***"
    assert "sk-house" not in config(tmp_path, "diff")[1]


def test_values_as_json(tmp_path: Path) -> None:
    assert json.loads(config(tmp_path, "get", "agent.max_turns", "--json")[1]) == 60
    assert json.loads(config(tmp_path, "show", "--json")[1])["approvals"]["mode"] == "manual"
    assert json.loads(config(tmp_path, "check", "--json")[1]) == {"ok": True, "problems": [], "notes": []}
    assert config(tmp_path, "env-path")[1] == f"{tmp_path / '.env'}\n"


def editor(tmp_path: Path, *texts: str) -> str:
    """A program that puts these texts into the file, one each time."""
    script = tmp_path / "editor.py"
    script.write_text(
        "import pathlib, sys\n"
        f"texts, count = {texts!r}, pathlib.Path({str(tmp_path / 'count')!r})\n"
        "number = len(count.read_text()) if count.exists() else 0\n"
        "count.write_text('x' * (number + 1))\n"
        "pathlib.Path(sys.argv[1]).write_text(texts[number])\n"
    )
    return f"{sys.executable} {script}"


def test_an_edited_file_is_checked_before_it_is_written(tmp_path: Path) -> None:
    home = tmp_path / "home"
    wrong, right = "agent: {max_turn: 5}\n", "agent: {max_turns: 5}\n"
    code, said = config(home, "edit", typed="\n", EDITOR=editor(tmp_path, wrong, right))
    assert code == 0 and "Did you mean “agent.max_turns”?" in said
    assert (home / "config.yaml").read_text() == right
    assert [kept.text for kept in earlier_configs(home, "")] == []
    for answer in ("discard\n", ""):
        (tmp_path / "count").unlink()
        said = config(home, "edit", typed=answer, EDITOR=editor(tmp_path, wrong))[1]
        assert "Nothing was changed" in said and (home / "config.yaml").read_text() == right
    assert config(home, "edit", typed="", EDITOR="true") == (0, "Nothing was changed.\n")
    assert "export EDITOR" in config(home, "edit", typed="", EDITOR="no-such-editor-here")[1]
    assert "failed; nothing was changed" in config(home, "edit", typed="", EDITOR="false")[1]
    assert "config set" in config(home, "edit")[1]
