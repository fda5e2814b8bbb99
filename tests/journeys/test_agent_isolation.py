"""No marker crosses from one agent to another: with many people at once, under live reloads, and under
`kill -9`. At full scale 500 people on five platforms do more than 20,000 things with eight agents."""

from __future__ import annotations

import asyncio
import random
import subprocess
import sys
import time
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from hermes.domain.errors import UserError
from hermes.domain.settings.live import SettingsReport
from hermes.entry.terminal.remote import GatewayConnection
from tests import nursery
from tests.cli.command import ROOT
from tests.journeys.isolation import Crowd, scan

PLANTED = {"text", "memory", "file", "job", "soul", "media"}


async def test_no_marker_crosses(
    tmp_path: Path, full: bool, record_property: Any, caplog: pytest.LogCaptureFixture
) -> None:
    users, each = (500, 28) if full else (20, 8)
    crowd = Crowd(tmp_path / "home", users, seed=7)
    await crowd.live(each)
    assert crowd.operations == users * each * 3 // 2 and (not full or crowd.operations >= 20_000)
    crossed = [*crowd.watch.crossed, *await scan(tmp_path / "home")]
    record_property("operations", crowd.operations)
    record_property("markers seen", dict(crowd.watch.seen))
    assert not crossed, crossed[:20]
    assert crowd.watch.seen.keys() >= PLANTED, "the markers were not even told to their own agents"
    logged = [r for r in caplog.messages if "MARK" in r and "secret" in r]
    assert not logged, logged[:5]


async def test_no_marker_crosses_while_settings_change(tmp_path: Path, full: bool) -> None:
    """Agents come and go, approvals and time zones change, and now and then a change is refused."""
    users, each = (200, 28) if full else (12, 8)
    home = tmp_path / "home"
    crowd = Crowd(home, users, seed=3)
    numbers, adopted, refused = count(1), 0, 0

    async def reload() -> None:
        nonlocal adopted, refused
        n = next(numbers)
        more = f"extra{n % 3}: {{timezone: Asia/Tokyo, approvals: {{deny: [rm{n}*]}}}}"
        text = crowd.api.config.replace("a7: {}", f"a7: {{description: day {n}}}, {more}")
        (home / "config.yaml").write_text(text if n % 5 else f"{text}timezone: Mars/Sea\n")
        async with GatewayConnection(lambda: home / "gateway.sock") as line:
            try:
                report = await line.ask("/control/settings", {}, SettingsReport)
                adopted += bool(report.changed)
            except UserError:
                refused += 1

    await crowd.live(each, reload)
    assert adopted >= 3 and (refused or adopted < 5), (adopted, refused)
    crossed = [*crowd.watch.crossed, *await scan(home)]
    assert crowd.operations == users * each * 3 // 2 and not crossed, crossed[:20]


def test_no_marker_crosses_under_kills(tmp_path: Path, full: bool, record_property: Any) -> None:
    """The gateway is killed in the middle of its work, again and again, and goes on with it."""
    lives, users = (12, 100) if full else (2, 12)
    home, dice = tmp_path / "home", random.Random(5)
    environ = {"PATH": "/usr/bin:/bin", "HOME": str(tmp_path), "PYTHONPATH": f"{ROOT / 'src'}:{ROOT}"}
    for life in range(1, lives + 2):
        last = life == lives + 1
        words = [str(home), str(users), "5" if last else "10000", str(life)]
        process = nursery.Popen(
            [sys.executable, "-m", "tests.journeys.isolation", *words],
            env=environ,
            cwd=str(ROOT),
            stdout=subprocess.PIPE,
            text=True,
        )
        assert process.stdout is not None and process.stdout.readline() == "ready\n"
        done = tmp_path / f"operations.{life}"
        if last:
            assert process.wait(280) == 0
        else:
            end = time.monotonic() + 60
            while not done.exists() or int(done.read_text() or 0) < users:
                assert process.poll() is None and time.monotonic() < end
                time.sleep(0.01)
            time.sleep(dice.random() * 0.3)
            process.kill()
            process.wait()
        process.stdout.close()
    counts = [int((tmp_path / f"operations.{life}").read_text() or 0) for life in range(1, lives + 2)]
    record_property("operations", sum(counts))
    assert not (tmp_path / "crossed").exists(), (tmp_path / "crossed").read_text()[:2000]
    crossed = asyncio.run(scan(home))
    assert not crossed, crossed[:20]
