"""A limit that would not hold stops the start: each name of the table, in every place, and each spelling of a
limit that is mistyped; what narrows nothing stops nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

from hermes.domain.settings.platforms import PlatformSettings
from hermes.domain.settings.settings import HostedAgent
from hermes.state.home.findings import is_slip
from hermes.state.settings.by_key import set_setting, unset_setting
from hermes.state.settings.loader import LoadedSettings, load_settings
from hermes.state.settings.names import LATER, PLATFORM_KEYS, PLATFORMS
from hermes.state.settings.unsupported_limits import NARROWING, OF_ONE, SECURITY_KNOWN, VARIABLES
from hermes.state.settings.value_reader import known_keys
from hermes.state.settings.values import knobs


def loaded(home: Path, text: str | bytes, **environ: str) -> LoadedSettings:
    home.mkdir(mode=0o700, exist_ok=True)
    (home / "config.yaml").write_bytes(text if isinstance(text, bytes) else text.encode())
    return load_settings(home, environ)


def written(name: str, value: str) -> str:
    """The dotted name as nested lines, beginning in line 1."""
    parts = name.split(".")
    lines = ["  " * depth + f"{part}:" for depth, part in enumerate(parts)]
    return "\n".join(lines) + f" {value}\n"


def stopped(found: LoadedSettings, name: str, line: int) -> None:
    assert [(stop.line, f"“{name}”" in stop.message) for stop in found.stops] == [(line, True)], found.stops
    assert found.stops[0].hint and str(found.stops[0]) in map(str, found.problems)


NARROWS = {"security.tirith_fail_open": "false", "terminal.backend": "firecracker"}
LIMITS = sorted([*NARROWING, "security.something", "terminal.backend"])


@pytest.mark.parametrize("prefix", ["", "gateway.", "agents.bee.", "platforms.telegram."])
@pytest.mark.parametrize("name", LIMITS)
def test_a_limit_that_nothing_honours_stops_the_start(tmp_path: Path, prefix: str, name: str) -> None:
    found = loaded(tmp_path / "home", written(prefix + name, NARROWS.get(name, "docker")))
    stopped(found, prefix + name, len((prefix + name).split(".")))


@pytest.mark.parametrize("name", LIMITS)
@pytest.mark.parametrize("value", ["", "null", "[]", "{}", '""'])
def test_what_narrows_nothing_stops_nothing(tmp_path: Path, name: str, value: str) -> None:
    assert not loaded(tmp_path / "home", written(name, value)).stops


@pytest.mark.parametrize(
    "text",
    [
        "terminal: {backend: local, timeout: 60, container_memory: 5120}",
        "terminal: {backend: LOCAL}",
        "security: {redact_secrets: true, allow_private_urls: false, tirith_enabled: false, tirith_path: /x}",
        "security: {website_blocklist: {enabled: false, domains: [a.example]}}",
        "privacy: {redact_pii: false}",
        "platform_toolsets: {telegram: []}",
        "browser: {headed: true}\nweb: {backend: x}\ndisplay: {skin: dark}",
    ],
)
def test_settings_that_decorate_or_are_as_they_are_here_are_no_limits(tmp_path: Path, text: str) -> None:
    assert not loaded(tmp_path / "home", text).stops


@pytest.mark.parametrize(
    ("text", "line", "name"),
    [
        ("model: x\nterminal: docker\n", 2, "terminal"),
        ("terminal:\n  - docker\n", 1, "terminal"),
        ("terminal:\n  Backend: docker\n", 2, "terminal.Backend"),
        ("terminal:\n  backnd: docker\n", 2, "terminal.backnd"),
        ("terminal:\n  env_tpye: docker\n", 2, "terminal.env_tpye"),
        ("Terminal:\n  backend: docker\n", 2, "Terminal.backend"),
        ("terminal:\n  backend: local\n  backends: docker\n", 3, "terminal.backends"),
        ("security: strict\n", 1, "security"),
        ("security:\n  website_blocklist: [a.example]\n", 2, "security.website_blocklist"),
        ("sandbx: docker\n", 1, "sandbx"),
        ("agents:\n  bee:\n    terminal: docker\n", 3, "agents.bee.terminal"),
    ],
)
def test_a_limit_that_is_spelled_otherwise_stops_the_start(
    tmp_path: Path, text: str, line: int, name: str
) -> None:
    found = loaded(tmp_path / "home", text)
    stopped(found, name, line)
    assert not [note for note in found.notes if "not used yet" in note.message]


def test_no_name_that_is_known_here_resembles_a_limit() -> None:
    limits = {part for name in NARROWING for part in name.split(".")} | set(OF_ONE["platforms"])
    names = {part for key in [*known_keys(), *LATER, *SECURITY_KNOWN] for part in key.split(".")}
    names |= PLATFORMS | PLATFORM_KEYS | set(knobs(PlatformSettings)) | set(knobs(HostedAgent))
    assert {(name, limit) for name in names - limits for limit in limits if is_slip(name, limit)} == set()


@pytest.mark.parametrize("section", sorted(OF_ONE))
def test_a_limit_for_one_agent_or_platform_stops_the_start(tmp_path: Path, section: str) -> None:
    for name in OF_ONE[section]:
        own = f"{section}.{'bee' if section == 'agents' else 'slack'}.{name}"
        stopped(loaded(tmp_path / "home", written(own, "[file]")), own, 3)


@pytest.mark.parametrize("name", sorted(VARIABLES))
def test_a_variable_that_nothing_honours_stops_the_start(tmp_path: Path, name: str) -> None:
    found = loaded(tmp_path / "home", "", **{name: "firecracker"})
    assert [stop.file for stop in found.stops] == ["environment"] and name in found.stops[0].message
    (tmp_path / "home" / ".env").write_text(f"A=1\n{name}=firecracker\n")
    (stop,) = loaded(tmp_path / "home", "").stops
    assert stop.file.endswith(".env") and stop.line == 2
    assert not loaded(tmp_path / "other", "", TERMINAL_ENV="local").stops


@pytest.mark.parametrize(
    ("text", "line", "meant"),
    [
        ("telegram:\n  alowed_chats: [1]\n", 2, "allowed_chats"),
        ("telegram:\n  group_polcy: disabled\n", 2, "group_policy"),
        ("agent:\n  disabled_toolset: [terminal]\n", 2, "agent.disabled_toolsets"),
        ("disabled_toolsets: [terminal]\n", 1, "agent.disabled_toolsets"),
        ("toolset: [none]\n", 1, "toolsets"),
        ("approvals:\n  denies: ['git push*']\n", 2, "approvals.deny"),
        ("agents:\n  bee:\n    allowed_users: [1]\n", 3, "allowed_users"),
    ],
)
def test_a_mistyped_limit_stops_the_start(tmp_path: Path, text: str, line: int, meant: str) -> None:
    (stop,) = loaded(tmp_path / "home", text).stops
    assert stop.line == line and meant in str(stop)


@pytest.mark.parametrize("text", ["modle: x\n", "agent: {max_turn: 3}\n", "agents: {bee: {toolset: [x]}}\n"])
def test_other_mistakes_do_not_stop_it(tmp_path: Path, text: str) -> None:
    found = loaded(tmp_path / "home", text)
    assert found.problems and not found.stops


BROKEN: dict[str, bytes] = {
    "random bytes": bytes(range(128, 256)) * 4,
    "an open list": b"model: x\nallowed_users: [a\n",
    "a tab": b"agent:\n\tmax_turns: 5\n",
    "a list": b"- model\n- x\n",
    "a word": b"hello\n",
    "a key twice": b"telegram: {allowed_chats: [1]}\ntelegram: {}\n",
    "another encoding": "model: x\n".encode("utf-16"),
}


@pytest.mark.parametrize("name", sorted(BROKEN))
def test_a_file_that_cannot_be_read_stops_the_start(tmp_path: Path, name: str) -> None:
    found = loaded(tmp_path / "home", BROKEN[name])
    assert found.stops and all(stop.line for stop in found.stops)


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("agent:\n bad: [\n", 2),
        ("agent:\n bad: {\n\n\n", 2),
        ("model: x\nagent:\n bad: [a,\n  {b: [\n", 4),
        ("model: x\nagent:\n bad: [a,\n  b,\n", 3),
    ],
)
def test_a_bracket_that_is_never_closed_is_told_where_it_is_opened(
    tmp_path: Path, text: str, line: int
) -> None:
    (stop,) = loaded(tmp_path / "home", text).stops
    assert stop.line == line and "never closed" in stop.message


def test_a_key_twice_is_not_said_to_count(tmp_path: Path) -> None:
    (stop,) = loaded(tmp_path / "home", "model: x\nmodel: y\n").stops
    assert stop.line == 2 and stop.hint == "Keep one of the two."


def test_what_stands_in_place_of_a_file_stops_the_start(tmp_path: Path) -> None:
    for name in ("config.yaml", ".env"):
        home = tmp_path / name
        (home / name).mkdir(parents=True)
        (stop,) = load_settings(home, {}).stops
        assert stop.file.endswith(name) and "folder" in stop.message
    (tmp_path / ".env" / ".env").rmdir()
    (tmp_path / ".env" / ".env").write_text('A=1\nTELEGRAM_ALLOWED_CHATS="-100\n')
    assert [stop.line for stop in load_settings(tmp_path / ".env", {}).stops] == [2]


def test_an_empty_file_is_said_to_be_empty(tmp_path: Path) -> None:
    for text in ("", "\n# nothing\n", "{}\n"):
        found = loaded(tmp_path / "home", text)
        assert ["is empty" in note.message for note in found.notes] == [True] and not found.stops
    assert not load_settings(tmp_path / "none", {}).notes


def test_an_emptied_file_stops_the_start_of_a_home_that_was_used(tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir(mode=0o700)
    (home / "gateway.db").touch()
    for text in ("", "\n \n"):
        found = loaded(home, text)
        (stop,) = found.stops
        assert "config.yaml is empty" in stop.message and "remove the file" in stop.hint and not found.notes
    for text in ("# nothing\n", "{}\n", "model: x\n"):
        assert not loaded(home, text).stops
    (home / "config.yaml").unlink()
    assert not load_settings(home, {}).stops


def test_taking_the_last_setting_out_does_not_stop_the_next_start(tmp_path: Path) -> None:
    home = tmp_path / "home"
    loaded(home, "agent:\n  max_turns: 5\n")
    (home / "gateway.db").touch()
    assert unset_setting(home, "agent.max_turns") is not None
    assert not load_settings(home, {}).stops
    set_setting(home, "agent.max_turns", "6")
    assert load_settings(home, {}).settings.agent.max_turns == 6
