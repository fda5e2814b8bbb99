"""Homes: which one, how it is made usable, and where agents live in it."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from hermes.domain.errors import UserError
from hermes.domain.ids import MAIN_AGENT, AgentId
from hermes.domain.settings.settings import HostedAgent, Settings
from hermes.state.home.homes import (
    DATABASE_FILE,
    HOME_FOLDERS,
    active_profile,
    agent_home,
    find_home,
    prepare_home,
    profile_home,
    profile_names,
)


def test_the_home_without_profiles(tmp_path: Path) -> None:
    assert find_home({"HOME": str(tmp_path)}, None) == tmp_path / ".hermes"
    assert find_home({"HOME": "/x", "HERMES_HOME": str(tmp_path)}, None) == tmp_path
    assert find_home({"HOME": "/x", "HERMES_HOME": "~/y"}, None) == Path("/x/y")
    assert find_home({"HERMES_HOME": "relative"}, None) == Path.cwd() / "relative"
    with pytest.raises(UserError):
        find_home({"HERMES_HOME": "a\0b"}, None)


def test_profiles_are_homes_below_the_root_home(tmp_path: Path) -> None:
    work, play = tmp_path / "profiles" / "work", tmp_path / "profiles" / "play"
    work.mkdir(parents=True)
    play.mkdir()
    (tmp_path / "profiles" / "Not A Name").mkdir()
    environ = {"HERMES_HOME": str(tmp_path)}
    assert profile_names(tmp_path) == ("play", "work") and profile_names(work) == ()
    assert find_home(environ, "work") == work
    assert find_home(environ | {"HERMES_PROFILE": "play"}, None) == play
    assert find_home(environ | {"HERMES_PROFILE": "play"}, "work") == work
    assert find_home({"HERMES_HOME": str(work)}, None) == work
    assert find_home({"HERMES_HOME": str(work)}, "play") == play
    assert find_home(environ, "default") == tmp_path


def test_the_profile_in_use_stays(tmp_path: Path) -> None:
    environ = {"HERMES_HOME": str(tmp_path)}
    (tmp_path / "profiles" / "work").mkdir(parents=True)
    assert active_profile(tmp_path) == "default"
    (tmp_path / "active_profile").write_text("work\n")
    assert find_home(environ, None) == tmp_path / "profiles" / "work"
    assert find_home(environ, "default") == tmp_path
    (tmp_path / "active_profile").write_text("default\n")
    assert find_home(environ, None) == tmp_path
    for content in (b"gone", b"../../etc", b"\xff\xfe"):
        (tmp_path / "active_profile").write_bytes(content)
        with pytest.raises(UserError) as caught:
            find_home(environ, None)
        assert "hermes profile use default" in caught.value.hint
    (tmp_path / "active_profile").write_bytes(b" \n")
    assert find_home(environ, None) == tmp_path


@pytest.mark.parametrize("name", ["../x", "A", "", "a b", "root", "hermes", "x" * 65, "-a", "a\n", "é"])
def test_names_that_no_profile_may_have(tmp_path: Path, name: str) -> None:
    with pytest.raises(UserError, match="cannot be called"):
        profile_home(tmp_path, name)


def test_a_profile_that_is_not_there(tmp_path: Path) -> None:
    (tmp_path / "profiles" / "work").mkdir(parents=True)
    with pytest.raises(UserError, match="Did you mean “work”"):
        find_home({"HERMES_HOME": str(tmp_path)}, "wrok")
    with pytest.raises(UserError, match="hermes profile create other"):
        find_home({"HERMES_HOME": str(tmp_path)}, "other")


def test_a_home_is_made_for_us_alone(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        home = prepare_home(tmp_path / "deep" / "home")
    finally:
        os.umask(before)
    assert stat.S_IMODE(home.stat().st_mode) == 0o700
    assert all((home / name).is_dir() for name in HOME_FOLDERS)
    assert prepare_home(home) == home


def test_a_home_that_cannot_be_used_is_told_with_path_and_remedy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "file"
    file.write_text("")
    with pytest.raises(UserError, match=f"{file} is a file") as caught:
        prepare_home(file)
    assert caught.value.hint == "Set HERMES_HOME to a folder of yours."
    with pytest.raises(UserError, match="cannot be created"):
        prepare_home(file / "below")
    home = prepare_home(tmp_path / "home")
    (home / "logs").rmdir()
    (home / "logs").write_text("")
    with pytest.raises(UserError, match=str(home / "logs")):
        prepare_home(home)
    (home / "logs").unlink()
    with monkeypatch.context() as patch:
        patch.setattr(os, "access", lambda *_: False)
        with pytest.raises(UserError, match=f"chmod u\\+rwx {home}"):
            prepare_home(home)
    with monkeypatch.context() as patch:
        patch.setattr(os, "geteuid", lambda: 54321)
        with pytest.raises(UserError, match=f"sudo chown -R 54321 {home}"):
            prepare_home(home)
    with pytest.raises(UserError):
        prepare_home(Path("/a\0b"))


def test_where_agents_live(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/me")
    agents = {
        "work": HostedAgent(),
        "far": HostedAgent(home_dir="/far"),
        "near": HostedAgent(home_dir="near"),
        "mine": HostedAgent(home_dir="~/mine"),
        "lost": HostedAgent(home_dir="~no-such-user/x"),
    }
    settings = Settings(agents=agents)

    def place(name: str) -> Path:
        return agent_home(tmp_path, AgentId(name), settings)

    assert agent_home(tmp_path, MAIN_AGENT, Settings()) == tmp_path
    assert place("work") == tmp_path / "agents" / "work"
    assert (place("far"), place("near"), place("mine")) == (Path("/far"), tmp_path / "near", Path("/me/mine"))
    for name in ("lost", "wrok", "../x"):
        with pytest.raises(UserError):
            place(name)


def test_the_pages_call_the_database_by_its_name() -> None:
    pages = [*(Path(__file__).parents[2] / "docs").rglob("*.md")]
    words = {page.name: page.read_text(encoding="utf-8") for page in pages}
    assert DATABASE_FILE in words["running.md"]
    assert not [name for name, text in words.items() if "state.db" in text]
