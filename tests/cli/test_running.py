"""What the commands print is the same, whether a gateway has the home or nobody has."""

from __future__ import annotations

import json
import socket
from pathlib import Path

import pytest

from hermes.admin.process.running import find_running
from tests.cli.command import Said, gateway, hermes


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "home"


def asked(home: Path, session: str) -> list[Said]:
    return [
        hermes(home, *words)
        for words in (
            ["sessions", "list"],
            ["sessions", "archive", session],
            ["sessions", "list", "--json", "--archived", "--source", "terminal"],
            ["sessions", "list", "--json"],
            ["sessions", "archive", session, "--undo"],
            ["sessions", "list", "--json", "--agent", "main", "-n", "1"],
            ["sessions", "search", "walrus"],
            ["sessions", "search", "--json", "walrus", "OR", "otter"],
            ["sessions", "show", session],
            ["sessions", "show", session[:-2], "--json"],
            ["sessions", "export", session],
            ["sessions", "show", "nosuch"],
            ["sessions", "show", "2"],
            ["sessions", "list", "--agent", "nobody"],
            ["trace", "nosuch"],
        )
    ]


def test_the_same_with_and_without_a_gateway(home: Path) -> None:
    for words in ("tell me of the walrus", "tell me of the otter", "über \x1b[31m “größe”"):
        assert hermes(home, "-z", words).code == 0
    [latest, *_] = json.loads(hermes(home, "sessions", "list", "--json").out)
    with gateway(home) as running:
        live = asked(home, latest["id"])
        assert running.stop() == 0
    stored = asked(home, latest["id"])
    assert live == stored and all(said.clean for said in live)
    assert [said.code for said in live] == [0] * 11 + [1] * 4
    assert [len(json.loads(said.out)) for said in live[2:4]] == [1, 2]


def test_status_says_why_the_api_is_closed_and_not_how_to_open_it(home: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        key = "nobody guesses this one, 4711"
        with gateway(home, API_SERVER_KEY=key, API_SERVER_PORT=port) as running:
            running.until("http.closed")
            told = hermes(home, "status").out
    assert "api_server: parked" in told and "API_SERVER_ENABLED" not in told


def test_a_turn_is_traced_and_a_session_deleted_while_a_gateway_runs(home: Path) -> None:
    with gateway(home) as running:
        assert hermes(home, "-z", "the walrus").code == 0
        assert hermes(home, "-z", "the otter").code == 0
        otter, walrus = json.loads(hermes(home, "sessions", "list", "--json").out)
        [hit] = json.loads(hermes(home, "sessions", "search", "--json", "the walrus").out)[:1]
        assert hit["session"] == walrus["id"]
        asking = find_running(home, {})
        assert asking is not None
        [found] = asking.ask("GET", "/control/session", list, name=walrus["id"])
        turn = found["entries"][0]["turn"]
        live = hermes(home, "trace", turn)
        assert live.code == 0 and f"{turn} in {walrus['id']}: done (start 1)" in live.out
        refused = hermes(home, "sessions", "delete", walrus["id"])
        assert (
            refused.code == 1
            and "This needs a confirmation, and there is no terminal to ask in." in refused.err
        )
        deleted = hermes(home, "sessions", "delete", walrus["id"], "--yes")
        assert deleted.code == 0 and "is deleted." in deleted.out
        assert not (home / "sessions" / f"{walrus['id']}.jsonl").exists()
        assert [one["id"] for one in json.loads(hermes(home, "sessions", "list", "--json").out)] == [
            otter["id"]
        ]
        assert running.stop() == 0


def test_a_gateway_that_was_killed_is_nobody(home: Path) -> None:
    with gateway(home) as running:
        running.process.kill()
        running.process.wait()
    assert (home / "gateway.sock").exists()
    assert hermes(home, "sessions", "list").out.startswith("No sessions yet.")
    assert hermes(home, "-z", "hello").code == 0
    assert len(hermes(home, "sessions", "list").out.splitlines()) == 2
