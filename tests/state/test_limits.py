"""Limits fail closed: what is empty, unknown or unreadable where a list restricts gives less, never all."""

from __future__ import annotations

from pathlib import Path

import pytest

from hermes.domain.settings.declaring import EVERY_ONE, NONE_LISTED
from hermes.domain.settings.platforms import ApiKey, PlatformSettings
from hermes.state.settings.loader import LoadedSettings, load_settings

SECRET = "oJ6tW0q3vYh2c8ZpLm4x"


def loaded(home: Path, text: str, **environ: str) -> LoadedSettings:
    home.mkdir(mode=0o700, exist_ok=True)
    (home / "config.yaml").write_text(text)
    return load_settings(home, environ)


def read_key(home: Path, rights: str) -> tuple[ApiKey, LoadedSettings]:
    text = f"agents: {{bee: {{}}}}\napi_server:\n  keys:\n    bob:\n      key: {SECRET}\n      {rights}\n"
    found = loaded(home, text)
    return found.settings.platforms["api_server"].keys["bob"], found


@pytest.mark.parametrize(
    ("rights", "scopes", "agents"),
    [
        ("scopes: chat", ("chat",), None),
        ("scopes: chat, Sessions", ("chat", "sessions"), None),
        ("scopes: [chat]", ("chat",), None),
        ("agents: bee", ("chat",), ("bee",)),
        ("agents: [bee, main]", ("chat",), ("bee", "main")),
        ("# nothing is said", ("chat",), None),
    ],
)
def test_a_plain_text_is_a_list_of_what_stands_between_its_commas(
    tmp_path: Path, rights: str, scopes: tuple[str, ...], agents: tuple[str, ...] | None
) -> None:
    key, found = read_key(tmp_path / "home", rights)
    assert (key.scopes, key.agents, found.problems) == (scopes, agents, ())


NO_RIGHTS = (
    *("scopes:", "scopes: null", 'scopes: ""', "scopes: []", 'scopes: [""]', "scopes: ','", "scopes: '[]'"),
    *("scopes: all", "scopes: '*'", "scopes: 5", "scopes: {chat: true}", "scopes: [[chat]]"),
    *("scopes: [chat, nosuch]", "scopes: ${NOT_SET}", "scope: chat"),
    *("agents:", "agents: null", 'agents: ""', "agents: []", 'agents: [""]', "agents: ${NOT_SET}"),
    *("agents: nosuch", "agents: [bee, nosuch]", "agents: 7", "agents: {bee: true}", "agent: bee"),
)


@pytest.mark.parametrize("rights", NO_RIGHTS)
def test_a_key_whose_rights_cannot_be_read_has_none(tmp_path: Path, rights: str) -> None:
    key, found = read_key(tmp_path / "home", rights)
    assert (key.scopes, key.agents) == (NONE_LISTED, NONE_LISTED)
    (problem,) = found.problems
    assert problem.line == 6 and problem.file.endswith("config.yaml"), problem
    assert "api_server.keys.bob.agent" in str(problem) or "api_server.keys.bob.scope" in str(problem)
    assert SECRET not in str(problem)
    assert not [note for note in found.notes if "scopes is a secret" in str(note)]


@pytest.mark.parametrize("written", ['[""]', "','", "{a: 1}", "[[1]]", '["${NOT_SET}"]', "[a, {b: c}]"])
@pytest.mark.parametrize(
    ("name", "instead"),
    [
        ("allowed_chats", NONE_LISTED),
        ("allowed_topics", NONE_LISTED),
        ("allow_admin_from", NONE_LISTED),
        ("group_allow_admin_from", NONE_LISTED),
        ("user_allowed_commands", NONE_LISTED),
        ("ignored_channels", EVERY_ONE),
        ("allowed_users", ()),
        ("allowed_roles", ()),
        ("group_allowed_users", ()),
        ("group_allowed_chats", ()),
    ],
)
def test_a_list_that_cannot_be_read_denies(
    tmp_path: Path, name: str, instead: tuple[str, ...], written: str
) -> None:
    found = loaded(tmp_path / "home", f"telegram:\n  {name}: {written}\n")
    assert getattr(found.settings.platforms["telegram"], name) == instead
    assert [problem.line for problem in found.problems] == [2]


def test_a_variable_without_a_name_in_it_denies_too(tmp_path: Path) -> None:
    found = loaded(tmp_path / "home", "", TELEGRAM_ALLOWED_CHATS=" , ")
    assert found.settings.platforms["telegram"].allowed_chats == NONE_LISTED and len(found.problems) == 1


def test_an_empty_list_means_what_the_reference_says(tmp_path: Path) -> None:
    found = loaded(tmp_path / "home", "telegram: {allowed_chats: [], ignored_channels: []}\n")
    assert found.settings.platforms["telegram"] == PlatformSettings() and not found.problems


@pytest.mark.parametrize("written", ['[""]', "','", "{a: 1}", "[nosuch, {}]"])
def test_an_agent_whose_toolsets_cannot_be_read_has_none(tmp_path: Path, written: str) -> None:
    for name in ("enabled_toolsets", "disabled_toolsets"):
        found = loaded(tmp_path / "home", f"agents:\n  bee: {{{name}: {written}}}\n")
        assert found.settings.agents["bee"].enabled_toolsets == ("none",) and found.problems


@pytest.mark.parametrize(
    ("name", "field"),
    [
        ("allowed_channels", "allowed_chats"),
        ("allowed_rooms", "allowed_chats"),
        ("allowed_groups", "allowed_chats"),
        ("ignored_threads", "ignored_channels"),
        ("free_response_chats", "free_response_channels"),
    ],
)
def test_a_list_may_have_the_name_that_its_variables_have(tmp_path: Path, name: str, field: str) -> None:
    found = loaded(tmp_path / "home", f"discord: {{{name}: [a], {field}: [b]}}\n")
    assert set(getattr(found.settings.platforms["discord"], field)) == {"a", "b"} and not found.problems


@pytest.mark.parametrize("written", ["[5]", "[true]", "[ls, '']", "[[a]]", "{a: 1}", "[ls, ~]", "5", "true"])
def test_a_list_of_denied_commands_that_are_no_texts_stops_the_start(tmp_path: Path, written: str) -> None:
    found = loaded(tmp_path / "home", f"approvals:\n  deny: {written}\n")
    assert [stop.line for stop in found.stops] == [2] and found.settings.approvals.deny in ((), EVERY_ONE)


@pytest.mark.parametrize("written", ["[ls]", "['5', 'true']", "ls, git push*", "[]", "", "'5'"])
def test_denied_commands_that_are_texts_stop_nothing(tmp_path: Path, written: str) -> None:
    found = loaded(tmp_path / "home", f"approvals:\n  deny: {written}\n")
    assert not found.problems


@pytest.mark.parametrize("written", ["[]", "", "''", "null"])
def test_toolsets_that_are_written_and_empty_are_none(tmp_path: Path, written: str) -> None:
    text = f"toolsets: {written}\nagents:\n  bee:\n    enabled_toolsets: {written}\n"
    settings = loaded(tmp_path / "home", text).settings
    assert settings.toolsets == settings.agents["bee"].enabled_toolsets == ("none",)
    settings = loaded(tmp_path / "home", "agents: {bee: {}}\n").settings
    assert settings.toolsets == settings.agents["bee"].enabled_toolsets == ()
