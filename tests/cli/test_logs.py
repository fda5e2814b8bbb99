"""`hermes logs`: the end of a log, what fits a filter, and what comes later."""

from __future__ import annotations

import json
import select
import signal
import sys
from datetime import datetime, timedelta
from pathlib import Path
from subprocess import PIPE

import pytest

from tests import nursery
from tests.cli.command import environment, hermes


def stamp(age: timedelta) -> str:
    return f"{datetime.now() - age:%Y-%m-%d %H:%M:%S},123"


@pytest.fixture
def home(tmp_path: Path) -> Path:
    home = tmp_path / "home"
    (home / "logs").mkdir(parents=True, mode=0o700)
    old, new = stamp(timedelta(hours=3)), stamp(timedelta(minutes=1))
    (home / "logs" / "gateway.log").write_text(
        f"{old} INFO    hermes.app gateway.ready\n"
        f"{old} ERROR   hermes.cron cron.failed job=news\n"
        "Traceback (most recent call last):\n"
        "  ValueError: news\n"
        f"{new} INFO    hermes.turn turn.done session=20260501_0900 seconds=4.1\n"
        f"{new} WARNING hermes.platform telegram.slow why=wind\n"
    )
    return home


def lines(home: Path, *words: str) -> list[str]:
    said = hermes(home, "logs", *words)
    assert said.code == 0, said
    return [line.partition(",123 ")[2] or line for line in said.out.splitlines()]


def test_what_fits(home: Path) -> None:
    assert len(lines(home)) == 6
    assert lines(home, "-n", "1") == ["WARNING hermes.platform telegram.slow why=wind"]
    assert lines(home, "--level", "error") == [
        "ERROR   hermes.cron cron.failed job=news",
        "Traceback (most recent call last):",
        "  ValueError: news",
    ], "the traceback belongs to its line"
    assert len(lines(home, "--since", "2h")) == 2
    assert lines(home, "--session", "20260501") == lines(home, "--component", "turn")
    assert lines(home, "--component", "telegram") == lines(home, "--grep", "WIND")
    assert hermes(home, "gateway", "logs", "-n", "1").out == hermes(home, "logs", "-n", "1").out
    none = hermes(home, "logs", "--grep", "nothing such")
    assert none.out == "" and "No line of the log fits." in none.err


def test_levels_of_others_are_shown_and_files_are_named(home: Path) -> None:
    log = home / "logs" / "gateway.log"
    with log.open("a") as file:
        file.write(f"{stamp(timedelta())} NOTICE  other.library odd\n")
    assert lines(home, "--level", "critical") == ["NOTICE  other.library odd"]
    (row,) = json.loads(hermes(home, "logs", "list", "--json").out)
    assert row["file"] == str(log) and row["size"] == log.stat().st_size


def test_wrong_words(home: Path, tmp_path: Path) -> None:
    said = hermes(home, "logs", "--level", "wraning")
    assert said.code == 2 and "did you mean WARNING?" in said.err
    assert hermes(home, "logs", "--since", "yesterday-ish").code == 2
    assert "did you mean errors?" in hermes(home, "logs", "eror").err
    missing = hermes(home, "logs", "errors")
    assert missing.code == 1 and "Nothing went wrong." in missing.err
    empty = hermes(tmp_path / "other", "logs", "list")
    assert empty.code == 0 and "hermes gateway start" in empty.out
    (row,) = json.loads(hermes(home, "logs", "list", "--json").out)
    assert row["name"] == "gateway" and row["size"] > 100


def test_it_follows(home: Path) -> None:
    command = [sys.executable, "-P", "-m", "hermes", "logs", "-f", "-n", "0", "--level", "error"]
    process = nursery.Popen(command, env=environment(home), cwd="/", stdout=PIPE, text=True)
    log = home / "logs" / "gateway.log"
    assert process.stdout is not None
    try:
        while True:  # until it listens, and one came that fits
            with log.open("a") as file:
                file.write(f"{stamp(timedelta())} INFO    hermes.app not.this\n")
                file.write(f"{stamp(timedelta())} ERROR   hermes.app this.one\n")
            if select.select([process.stdout], [], [], 0.5)[0]:
                assert process.stdout.readline().endswith("ERROR   hermes.app this.one\n")
                break
    finally:
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 130
        process.stdout.close()
