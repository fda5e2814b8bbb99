"""`hermes memory setup`: chooses a memory provider, and says what is wrong with one that there is not."""

from __future__ import annotations

from pathlib import Path

from tests.cli.command import hermes


def test_a_provider_is_chosen_or_refused_in_a_sentence(tmp_path: Path) -> None:
    home = tmp_path / "home"
    refused = hermes(home, "memory", "setup", "elephant")
    assert refused.code == 1 and refused.clean and "no memory provider “elephant”" in refused.err
    chosen = hermes(home, "memory", "setup", "none")
    assert chosen.code == 0 and "provider: none" in (home / "config.yaml").read_text()
