"""The real process and its database file: what a stop leaves, what a disk that takes nothing does to callers,
and a file that goes away."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from hermes.state.backup import backups_of
from hermes.state.engine import look_into
from hermes.state.profiles import DATABASE_FILE
from tests.cli.command import gateway
from tests.ports import free_port

KEY = "a key that nobody guesses"


@pytest.fixture
def home(tmp_path: Path) -> Path:
    folder = tmp_path / "home"
    folder.mkdir(mode=0o700)
    return folder


@pytest.fixture
def port() -> int:
    return free_port()


def served(port: int) -> dict[str, str]:
    return {"API_SERVER_KEY": KEY, "API_SERVER_PORT": str(port)}


def ask(port: int, path: str, body: object = None) -> tuple[int, dict[str, str], Any]:
    """Status, headers and what was said; a call that is not answered fails the test."""
    data = None if body is None else json.dumps(body).encode()
    headers = {"Authorization": f"Bearer {KEY}", "Content-Type": "application/json"}
    request = urllib.request.Request(f"http://127.0.0.1:{port}{path}", data, headers)
    try:
        with urllib.request.urlopen(request, timeout=40) as answer:
            return answer.status, dict(answer.headers), json.loads(answer.read())
    except urllib.error.HTTPError as error:
        with error:
            return error.code, dict(error.headers), json.loads(error.read())


def test_a_clean_stop_leaves_a_backup_of_everything(home: Path, port: int) -> None:
    with gateway(home, **served(port)) as running:
        assert ask(port, "/v1/runs", {"input": "remember me"})[0] == 202
        assert running.stop() == 0
    [made] = backups_of(home / DATABASE_FILE)
    with look_into(made).connection as db:
        said = "SELECT count(*) FROM journal WHERE body LIKE '%remember me%'"
        assert db.execute(said).fetchall() >= [(1,)]
        assert db.execute("SELECT closed_at IS NOT NULL FROM boots").fetchall() == [(1,)]
