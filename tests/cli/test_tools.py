"""`hermes tools`: what it writes, what it keeps, and that a running gateway adopts it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.command import gateway, hermes

CONFIG = """# mine
agent:
  disabled_toolsets: [memory]   # not yet
platform_toolsets:
  cli: [file, todo]  # little
"""


@pytest.fixture
def home(tmp_path: Path) -> Path:
    folder = tmp_path / "home"
    folder.mkdir(mode=0o700)
    (folder / "config.yaml").write_text(CONFIG)
    return folder


def states(home: Path, *where: str) -> dict[str, str]:
    listed = json.loads(hermes(home, "tools", "list", "--json", *where).out)["toolsets"]
    return {one["name"]: one["state"] for one in listed}


def test_lists_are_changed_and_remarks_are_kept(home: Path) -> None:
    assert states(home)["memory"] == "off" and states(home)["todo"] == "on"
    assert states(home, "--platform", "cli")["terminal"] == "off"
    assert hermes(home, "tools", "disable", "cronjob", "search_files").code == 0
    assert hermes(home, "tools", "enable", "memory").code == 0
    assert hermes(home, "tools", "enable", "debugging", "--platform", "cli").code == 0
    assert hermes(home, "tools", "disable", "todo", "patch", "--platform", "cli").code == 0
    text = (home / "config.yaml").read_text()
    assert "# mine" in text and "# not yet" in text
    found = states(home, "--platform", "cli")
    assert found["terminal"] == "on" and found["todo"] == found["cronjob"] == "off"
    assert (
        found["file"].startswith("without") and "patch" in found["file"] and "search_files" in found["file"]
    )
    assert states(home)["memory"] == "on" and states(home, "--platform", "telegram")["todo"] == "on"


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        ("disable teminal", "Did you mean terminal?"),
        ("enable web --platform telegrm", "not a known setting"),
        ("enable web --agent nobody", "There is no agent “nobody”"),
        ("list --agent nobody", "There is no agent “nobody”"),
        ("disable todo --agent main --platform cli", "not for both"),
        ("disable", "required: names"),
    ],
)
def test_what_cannot_be_done_is_said_and_changes_nothing(home: Path, words: str, complaint: str) -> None:
    said = hermes(home, "tools", *words.split())
    assert said.code != 0 and complaint in said.err and said.clean
    assert (home / "config.yaml").read_text() == CONFIG


def test_what_another_name_keeps_off_is_told(home: Path) -> None:
    assert hermes(home, "tools", "disable", "debugging").code == 0
    said = hermes(home, "tools", "enable", "terminal")
    assert said.code == 1 and "terminal is off because debugging is" in said.err
    said = hermes(home, "tools", "enable", "memory", "--platform", "telegram")
    assert said.code == 0 and "still leaves some of it out" in said.out + said.err


def test_a_gateway_that_runs_adopts_it(home: Path) -> None:
    with gateway(home):
        assert hermes(home, "tools", "disable", "todo").code == 0
        assert hermes(home, "config", "apply").out.startswith("No setting has changed")
        assert hermes(home, "-z", "hello", "--toolsets", "coding,-web").code == 0
        said = hermes(home, "-z", "hello", "--toolsets", "codng")
        assert said.code == 1 and "Did you mean coding?" in said.err
