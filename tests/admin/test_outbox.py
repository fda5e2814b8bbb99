"""`hermes outbox list` tells what a message is, also one that is nothing but files."""

from __future__ import annotations

import io
from datetime import UTC, datetime
from pathlib import Path

import pytest

from hermes.admin.commands import outbox
from hermes.admin.shell.command import perform
from hermes.admin.shell.output import CliConsole
from hermes.domain.chats.address import Address
from hermes.domain.chats.message import Attachment, Body, MediaKind
from hermes.domain.chats.rows import OutboxRow


class Place:
    running = True

    def __init__(self, row: OutboxRow) -> None:
        self._row = row

    def ask(self, perform: object, **asked: object) -> list[OutboxRow]:
        return [self._row]


def test_files_without_words_are_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    files = tuple(
        Attachment(kind=MediaKind.FILE, ref="sha256:1", name=name) for name in ("plan.pdf", "big.bin")
    )
    row = OutboxRow(
        key="turn_1:1",
        to=Address(platform="slack", chat="D1"),
        body=Body(attachments=files),
        created_at=datetime.now(UTC),
    )
    monkeypatch.setattr(outbox, "open_home", lambda *asked: Place(row))
    out = io.StringIO()
    assert perform("outbox", ["list"], tmp_path, {}, CliConsole(out=out, err=out)) == 0
    assert "📎 plan.pdf, 📎 big.bin" in out.getvalue()
