"""`hermes profile`: homes of their own, from their making to their removal."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest

from hermes.admin.shell.output import CliConsole
from hermes.cli import COMMANDS
from tests.cli.command import gateway, hermes


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "home"


def listed(home: Path, **more: str) -> dict[str, dict[str, object]]:
    return {row["name"]: row for row in json.loads(hermes(home, "profile", "list", "--json", **more).out)}


def test_a_profile_from_its_making_to_its_removal(home: Path) -> None:
    place = home / "profiles" / "work"
    missing = hermes(home, "-p", "work", "status")
    assert missing.code == 1 and "hermes profile create work" in missing.err
    created = hermes(home, "profile", "create", "work")
    assert created.code == 0 and str(place) in created.out
    assert place.stat().st_mode & 0o777 == 0o700
    again = hermes(home, "profile", "create", "work")
    assert again.code == 1 and "already" in again.err

    assert hermes(home, "-p", "work", "config", "set", "agent.max_turns", "7").code == 0
    assert hermes(home, "config", "get", "agent.max_turns").out == "60\n"
    assert hermes(home, "profile", "use", "work").code == 0
    assert hermes(home, "config", "get", "agent.max_turns").out == "7\n"
    assert hermes(home, "-p", "default", "config", "get", "agent.max_turns").out == "60\n"
    assert [row["in_use"] for row in listed(home).values()] == [False, True]

    unasked = hermes(home, "profile", "remove", "work")
    assert unasked.code == 1 and "--yes" in unasked.err and place.is_dir()
    removed = hermes(home, "profile", "remove", "work", "--yes")
    assert removed.code == 0 and not place.exists()
    (kept,) = (home / "profiles" / ".removed").iterdir()
    assert "max_turns: 7" in (kept / "config.yaml").read_text()
    assert str(kept) in removed.out and list(listed(home)) == ["default"]
    assert hermes(home, "config", "get", "agent.max_turns").out == "60\n", "it is in use no more"

    hermes(home, "profile", "create", "work")
    assert hermes(home, "profile", "remove", "work", "--purge", "--yes").code == 0
    assert list((home / "profiles" / ".removed").iterdir()) == [kept]


def test_profiles_of_one_name_can_be_removed_within_a_second(home: Path) -> None:
    for _ in range(4):
        assert hermes(home, "profile", "create", "work").code == 0
        assert hermes(home, "profile", "remove", "work", "--yes").code == 0
    assert len(list((home / "profiles" / ".removed").iterdir())) == 4


@pytest.mark.parametrize("name", ["Work", "default", "../up", "", "-x", "a b", "root", "x" * 65])
def test_a_name_that_cannot_be_one_is_refused(home: Path, name: str) -> None:
    refused = hermes(home, "profile", "create", "--", name)
    assert refused.code == 1 and "small letters" in refused.err and refused.clean
    assert not home.exists()


def test_what_cannot_be_used_or_removed_is_told(home: Path) -> None:
    for words, told in (
        (["use", "nobody"], "There is no profile “nobody”"),
        (["remove", "nobody", "-y"], "There is no profile “nobody”"),
        (["remove", "default", "-y"], "is the home itself"),
    ):
        refused = hermes(home, "profile", *words)
        assert refused.code == 1 and told in refused.err and refused.clean
    assert "Leave -p out" in hermes(home, "-p", "work", "profile", "list").err


def test_a_profile_in_use_that_is_gone_can_be_left(home: Path) -> None:
    home.mkdir()
    (home / "active_profile").write_text("gone\n")
    broken = hermes(home, "status")
    assert broken.code == 1 and "hermes profile use default" in broken.err
    assert listed(home)["default"]["in_use"] is False
    assert hermes(home, "profile", "use", "default").code == 0
    assert hermes(home, "status").clean and listed(home)["default"]["in_use"] is True


def test_a_choice_that_the_environment_overrules_is_told(home: Path) -> None:
    hermes(home, "profile", "create", "work")
    told = hermes(home, "profile", "use", "work", HERMES_PROFILE="default")
    assert told.code == 0 and f"HERMES_PROFILE is set in this environment and names {home}" in told.out
    inside = hermes(home / "profiles/work", "profile", "use", "default")
    assert "HERMES_HOME is set" in inside.out


def test_a_profile_with_a_gateway_is_not_removed(home: Path, tmp_path: Path) -> None:
    hermes(home, "profile", "create", "work")
    with gateway(home / "profiles" / "work"):
        assert "running (process" in str(listed(home)["work"]["gateway"])
        refused = hermes(home, "profile", "remove", "work", "--yes")
        assert refused.code == 1 and "hermes -p work gateway stop" in refused.err
    assert (home / "profiles" / "work").is_dir()


def test_hints_name_the_home_that_they_are_about(home: Path) -> None:
    """Whoever copies one works on the same home, also from a shell without our variables."""
    usual = home.parent / ".hermes"

    def start(place: Path, *words: str, **more: str) -> str:
        return hermes(place, *words, "status", **more).err

    assert f"with: HERMES_HOME={home} hermes gateway start, or" in start(home)
    assert "with: hermes gateway start, or" in start(usual, HERMES_HOME="")
    assert hermes(usual, "profile", "create", "work", HERMES_HOME="").code == 0
    assert "with: hermes -p work gateway start, or" in start(usual, "-p", "work", HERMES_HOME="")
    assert "with: hermes -p work gateway start, or" in start(usual, HERMES_HOME="", HERMES_PROFILE="work")
    missing = hermes(usual, "-p", "work", "sessions", "show", "nosuch", HERMES_HOME="")
    assert "`hermes -p work sessions list` shows them." in missing.err
    assert "hermes -p work -q 'tell me'" in hermes(usual, "-p", "work", "tell", "me", HERMES_HOME="").err
    assert hermes(usual, "profile", "use", "work", HERMES_HOME="").code == 0
    assert "with: hermes gateway start, or" in start(usual, HERMES_HOME="")
    assert "with: hermes -p default gateway start, or" in start(usual, "-p", "default", HERMES_HOME="")


@pytest.mark.parametrize("name", sorted({name.partition(" ")[0] for name in COMMANDS} - {"profile"}))
def test_every_command_is_spelled_for_its_home(name: str) -> None:
    console = CliConsole(out=io.StringIO(), err=io.StringIO(), hermes="hermes -p work")
    assert console.spell(f"See: hermes {name}, or `hermes {name}`") == (
        f"See: hermes -p work {name}, or `hermes -p work {name}`"
    )


def test_what_a_profile_is_for(home: Path) -> None:
    assert hermes(home, "profile", "create", "work", "--description", "Customers\nonly").code == 0
    assert listed(home)["work"]["description"] == "Customers only"
    assert hermes(home, "profile", "describe", "work", "Invoices").out == "Invoices\n"
    assert hermes(home, "profile", "rename", "work", "office").code == 0
    assert hermes(home, "profile", "describe", "office").out == "Invoices\n"
    assert "Invoices" in hermes(home, "profile", "show", "office").out
    long = hermes(home, "profile", "create", "long", "--description", "x" * 201)
    assert long.code == 1 and "200" in long.err and "long" not in listed(home)
    assert hermes(home, "profile", "describe", "office", "").code == 0
    assert listed(home)["office"]["description"] == ""
    assert "no profile" in hermes(home, "profile", "describe", "gone", "x").err
