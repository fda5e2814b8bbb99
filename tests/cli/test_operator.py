"""The operator's commands while a gateway has the home: each reaches it through its socket."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest

from hermes.cli import main
from hermes.domain.chats.address import Address, Source, SourceKind
from hermes.domain.chats.handoff import Handoff, HandoffState
from hermes.domain.ids import MAIN_AGENT, SessionId
from hermes.domain.ports.store import Tx
from hermes.domain.tools.tool import Grant
from hermes.state.home.homes import DATABASE_FILE
from hermes.state.store.writer import SqliteStore
from tests.cli.command import Said, gateway

NOW = datetime.now(UTC)
Say = Callable[..., Said]
GRANT = Grant(
    id="g_1", agent=MAIN_AGENT, person="fake:u1", digest="d", text="Run: rm -r build", by="fake:u1", at=NOW
)
HANDOFF = Handoff(
    id="ho_1",
    agent=MAIN_AGENT,
    session=SessionId("s1"),
    account="telegram",
    source=Source(address=Address(platform="terminal", chat="local"), kind=SourceKind.PRIVATE, user="local"),
    created_at=NOW,
    due_at=NOW,
    state=HandoffState.FAILED,
    error="the line is busy",
)
LOOKS = (
    ("pairing", "list"),
    ("access", "explain", "telegram:42", "user=42"),
    ("outbox", "list"),
    ("hooks", "list"),
    ("cron", "list"),
    ("cron", "status"),
    ("webhook", "list"),
    ("handoff", "list"),
    ("grants", "list"),
)


@pytest.fixture
def home(tmp_path: Path) -> Path:
    home = tmp_path / "home"
    home.mkdir()

    def unit(tx: Tx) -> None:
        tx.grants.add(GRANT)
        tx.handoffs.add(HANDOFF)

    async def fill() -> None:
        async with SqliteStore(home / DATABASE_FILE) as store:
            await store.write(unit)

    asyncio.run(fill())
    return home


@pytest.fixture
def hermes(home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Say:
    """The command in this process: only the gateway needs one of its own."""
    monkeypatch.setenv("HERMES_HOME", str(home))

    def say(*words: str) -> Said:
        code = main(words)
        told = capsys.readouterr()
        return Said(code, told.out, told.err)

    return say


def walk(hermes: Say) -> None:
    for words in LOOKS:
        said = hermes(*words)
        assert (said.code, said.err, said.clean) == (0, "", True), (words, said)
    assert "rm -r build" in hermes("grants", "list").out
    assert hermes("grants", "revoke", "g_1").out == "g_1 is revoked.\n"
    gone = hermes("grants", "revoke", "g_1")
    assert gone.code == 1 and "There is no grant “g_1”." in gone.err
    [told] = json.loads(hermes("handoff", "list", "--json").out)
    assert (told["id"], told["state"], told["error"]) == ("ho_1", "failed", "the line is busy")
    assert "the line is busy" in hermes("handoff", "list").out
    assert hermes("handoff", "retry", "ho_1").out.startswith("ho_1 will be retried")
    assert hermes("handoff", "cancel", "ho_1").out.startswith("ho_1 is cancelled")
    twice = hermes("handoff", "cancel", "ho_1")
    assert twice.code == 1 and "ho_1 is over: it is failed." in twice.err
    unknown = hermes("handoff", "retry", "ho_9")
    assert unknown.code == 1 and "ho_9" in unknown.err


def test_with_a_gateway_that_has_the_home(home: Path, hermes: Say) -> None:
    with gateway(home) as running:
        walk(hermes)
        assert running.stop() == 0


def test_the_same_where_nobody_has_it(hermes: Say) -> None:
    walk(hermes)
