"""`hermes memory setup`: chooses a memory provider, and says what is wrong with one that there is not. And
what `hermes memory list` says of files that no gateway has read."""

from __future__ import annotations

from pathlib import Path

from tests.cli.command import hermes


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


def test_entries_of_files_that_no_gateway_has_read_are_told(tmp_path: Path) -> None:
    home = tmp_path / "home"
    (home / "memories").mkdir(parents=True)
    assert "MEMORY.md" not in hermes(home, "memory", "list").err
    (home / "memories" / "MEMORY.md").write_text("I like tea\n")
    listed = hermes(home, "memory", "list")
    assert "What stands new in MEMORY.md counts once the gateway runs" in listed.err
