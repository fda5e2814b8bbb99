"""The plug is pulled after an event was acknowledged and before it is answered: it is answered once, and
twenty repeats of it change nothing."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from hermes.domain.ids import MAIN_AGENT, SessionId
from hermes.domain.ports.store import Tx
from hermes.domain.settings.declaring import Secret
from hermes.domain.turns.event import Finished, ModelSaid
from hermes.entry.http.webhooks.signatures import sign
from hermes.state.home.homes import DATABASE_FILE
from hermes.state.store.writer import SqliteStore
from hermes.testing.ports import free_port
from tests import nursery
from tests.cli.command import PATIENCE, environment, gateway, hermes

SECRET = "a secret of senders"
TALE = "one two three four five six seven eight nine ten and that was the tale."
SCRIPT = {
    "rules": [
        {"match": "", "reply": {"text": TALE, "pace": {"first_byte": 0.5, "between": 0.1, "sizes": [6]}}}
    ]
}
CONFIG = """
model: {{default: fake, base_url: "{url}"}}
platforms:
  webhook:
    extra: {{port: {port}, routes: {{ci: {{secret: a secret of senders, prompt: "Tell of {{id}}"}}}}}}
"""
BODY = b'{"id": "build 7"}'


@pytest.fixture
def model(tmp_path: Path) -> Iterator[tuple[str, Path]]:
    script, log = tmp_path / "script.json", tmp_path / "model.log"
    script.write_text(json.dumps(SCRIPT))
    log.touch()
    command = [sys.executable, "-m", "hermes.testing.model_server", "--script", script, "--log", log]
    with nursery.Popen(command, stdout=subprocess.PIPE, env=environment(tmp_path), text=True) as process:
        assert process.stdout is not None
        try:
            yield process.stdout.readline().strip(), log
        finally:
            process.kill()


def send(port: int) -> tuple[int, dict[str, str]]:
    """The same delivery, signed anew as a sender does that tries again."""
    headers = sign(BODY, Secret(SECRET), now=time.time())
    headers |= {"Content-Type": "application/json", "X-Request-ID": "delivery-1"}
    asked = urllib.request.Request(f"http://127.0.0.1:{port}/webhooks/ci", data=BODY, headers=headers)
    with urllib.request.urlopen(asked, timeout=PATIENCE) as answer:
        return answer.status, json.loads(answer.read())


def asked_of(log: Path) -> int:
    told = [json.loads(line) for line in log.read_text().splitlines()]
    return sum(one["what"] == "request" and "build 7" in json.dumps(one) for one in told)


def until(what: Callable[[], object], why: str) -> None:
    end = time.monotonic() + PATIENCE
    while not what():
        assert time.monotonic() < end, why
        time.sleep(0.02)


@pytest.mark.parametrize("moment", ["at once", "while it speaks"])
async def test_killed_between_acknowledgement_and_answer(
    tmp_path: Path, model: tuple[str, Path], moment: str
) -> None:
    url, log = model
    home, port = tmp_path / "home", free_port()
    home.mkdir()
    (home / "config.yaml").write_text(CONFIG.format(url=url, port=port))
    with gateway(home) as running:
        assert send(port) == (
            202,
            {"status": "accepted", "route": "ci", "event": "unknown", "delivery_id": "delivery-1"},
        )
        if moment == "while it speaks":
            until(lambda: asked_of(log), "the model was not asked")
            await asyncio.sleep(0.8)
        running.process.kill()
        running.process.wait()
    with gateway(home) as running:
        assert [send(port)[1]["status"] for _ in range(20)] == ["duplicate"] * 20
        until(lambda: _answered(home), "it was not answered after the restart")
        assert running.stop() == 0
    records = await stored(home)
    assert sum(isinstance(one, Finished) for one in records) == 1
    assert [one.text for one in records if isinstance(one, ModelSaid)] == [TALE]
    assert 1 <= asked_of(log) <= 2


def _answered(home: Path) -> bool:
    return any(TALE in path.read_text() for path in (home / "sessions").glob("*.jsonl"))


async def stored(home: Path) -> list[object]:
    listed = hermes(home, "sessions", "list").out.splitlines()[1:]
    sessions = [SessionId(line.split()[0]) for line in listed]
    assert len(sessions) == 1, listed

    def look(tx: Tx) -> list[object]:
        assert not tx.recovery.due(0, 9)
        return [entry.record for one in sessions for entry in tx.journal.read(one)]

    async with SqliteStore(home / DATABASE_FILE) as store:
        return await store.scoped(MAIN_AGENT).read(look)
