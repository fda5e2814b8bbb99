"""`hermes memory setup`: chooses a memory provider, and says what is wrong with one that there is not. And
what its other commands do with files that people have changed."""

from __future__ import annotations

import json
from pathlib import Path

from tests.cli.command import gateway, hermes


def test_a_provider_is_chosen_or_refused_in_a_sentence(tmp_path: Path) -> None:
    home = tmp_path / "home"
    refused = hermes(home, "memory", "setup", "elephant")
    assert refused.code == 1 and refused.clean and "no memory provider “elephant”" in refused.err
    chosen = hermes(home, "memory", "setup", "none")
    assert chosen.code == 0 and "provider: none" in (home / "config.yaml").read_text()
    chosen = hermes(home, "memory", "setup", "hindsight")
    missing = "hindsight cannot be used yet. Set its key, HINDSIGHT_API_KEY"
    assert chosen.code == 0 and missing in chosen.err and missing in hermes(home, "memory", "status").err
    assert missing not in hermes(home, "memory", "status", HINDSIGHT_API_KEY="key-0123456789").err


def _remember(home: Path, *entries: str) -> Path:
    (home / "memories").mkdir(parents=True, exist_ok=True)
    file = home / "memories" / "MEMORY.md"
    file.write_text("\n§\n".join(entries))
    return file


def test_entries_of_files_that_no_gateway_has_read_are_listed(tmp_path: Path) -> None:
    home = tmp_path / "home"
    assert "Nothing is remembered" in hermes(home, "memory", "list").out
    _remember(home, "I like tea")
    assert "I like tea" in hermes(home, "memory", "list").out


def test_what_people_wrote_into_the_files_outlives_a_command(tmp_path: Path) -> None:
    home = tmp_path / "home"
    with gateway(home):
        _without_losses(home)
    _without_losses(home)


def _without_losses(home: Path) -> None:
    file = _remember(home, "I like tea", "The box is called LEMON")
    entries = {entry["text"]: entry["id"] for entry in json.loads(hermes(home, "memory", "export").out)}
    assert entries.keys() == {"I like tea", "The box is called LEMON"}
    file.write_text(file.read_text().rstrip().replace("tea", "coffee") + "\n§\nA new note")
    lemon = str(entries["The box is called LEMON"])
    assert hermes(home, "memory", "edit", lemon, "The box is called MANGO").code == 0
    assert set(file.read_text().strip().split("\n§\n")) == {
        "I like coffee",
        "The box is called MANGO",
        "A new note",
    }
    file.write_text(file.read_text().rstrip() + "\n§\nAnother note")
    assert hermes(home, "memory", "forget", lemon, "--yes").code == 0
    assert set(file.read_text().strip().split("\n§\n")) == {"I like coffee", "A new note", "Another note"}
