"""The file in which an owner gives chats their names."""

from __future__ import annotations

import json
import logging
from pathlib import Path

import pytest

from hermes.state.files.aliases import FILE, ChannelAliases


def test_names_are_read_and_read_again(tmp_path: Path) -> None:
    aliases = ChannelAliases(tmp_path)
    assert aliases.read() == {}
    (tmp_path / FILE).write_text(json.dumps({"Telegram": {"42": "Boss", "43": 7, "": "x"}}))
    assert aliases.read() == {"telegram": {"42": "Boss"}}
    (tmp_path / FILE).write_text(json.dumps({"slack": {"C0123": "Ops\nroom"}}))
    assert aliases.read() == {"slack": {"C0123": "Ops room"}}
    (tmp_path / FILE).unlink()
    assert aliases.read() == {}


@pytest.mark.parametrize("text", ["{", "[]", '{"telegram": []}', "[" * 100_000, "\xff"])
def test_a_broken_file_names_nothing_and_is_told_of(
    tmp_path: Path, text: str, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / FILE).write_bytes(text.encode("latin-1"))
    with caplog.at_level(logging.WARNING):
        assert ChannelAliases(tmp_path).read() == {}
    assert "aliases.unreadable" in caplog.text
