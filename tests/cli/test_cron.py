"""`hermes cron`: the same commands on a home at rest and on one with a gateway."""

from __future__ import annotations

import json
import time
from pathlib import Path

from tests.cli.command import PATIENCE, gateway, hermes


def test_a_home_without_a_gateway(tmp_path: Path) -> None:
    home = tmp_path / "home"
    assert "No jobs." in hermes(home, "cron", "list").out
    made = hermes(
        home, "cron", "create", "every 2h", "look at the mail", "--name", "Mail", HERMES_TIMEZONE="UTC"
    )
    assert made.code == 0 and "every 2h" in made.out and made.clean, made
    assert "No gateway is running" in made.err
    (job,) = json.loads(hermes(home, "cron", "list", "--json").out)
    assert (job["name"], job["deliver"], job["prompt"]) == ("Mail", "local", "look at the mail")
    assert "Paused: “Mail”." in hermes(home, "cron", "pause", "mail").out
    assert "--all" in hermes(home, "cron", "list").out
    assert "Resumed" in hermes(home, "cron", "resume", "Mail").out
    assert "every 1d" in hermes(home, "cron", "edit", "Mail", "--schedule", "every 1d", "--repeat", "3").out
    wrong = hermes(home, "cron", "create", "0 25 * * *", "x")
    assert wrong.code == 1 and "the hour “25”" in wrong.err and wrong.clean
    assert "no job" in hermes(home, "cron", "run", "nobody").err
    assert "no gateway is running" in hermes(home, "cron", "status").out
    assert "Removed" in hermes(home, "cron", "remove", "Mail").out


def test_where_jobs_deliver_to_on_a_home_at_rest(tmp_path: Path) -> None:
    """The same places as while a gateway runs: of an account its credential is enough."""
    home = tmp_path / "home"
    home.mkdir()
    (home / ".env").write_text("TELEGRAM_BOT_TOKEN=1:a\nTELEGRAM_BOT_TOKEN__WORK=2:b\n")
    for target in ("telegram:123", "telegram@work:123"):
        made = hermes(home, "cron", "create", "every 2h", "say hello", "--deliver", target)
        assert made.code == 0 and made.clean, made
    wrong = hermes(home, "cron", "create", "every 2h", "say hello", "--deliver", "telegram@shop:123")
    assert wrong.code == 1 and wrong.clean
    assert "There is no platform “telegram@shop” in use." in wrong.err and "telegram@work:chat" in wrong.err
    (home / "config.yaml").write_text("api_server: {port: 9099}\nemail: {enabled: false}\n")
    for target in ("slack", "api_server:1", "email:me@example.org"):
        wrong = hermes(home, "cron", "create", "every 2h", "say hello", "--deliver", target)
        assert wrong.code == 1 and "There is: telegram:chat, telegram@work:chat, local." in wrong.err


def test_tick_runs_what_is_due(tmp_path: Path) -> None:
    home = tmp_path / "home"
    (home / "scripts").mkdir(parents=True)
    (home / "scripts" / "hello.sh").write_text("echo from the script in $PWD\n")
    folder = str(tmp_path)
    asked = ("--script", "hello.sh", "--no-agent", "--name", "Hello", "--workdir", folder)
    assert hermes(home, "cron", "create", "30m", *asked).code == 0
    (home / "BOOT.md").write_text("Say hello to the morning.")
    hook = home / "hooks" / "starts"
    hook.mkdir(parents=True)
    (hook / "HOOK.yaml").write_text("events: [gateway:startup]\n")
    (hook / "handler.py").write_text("def handle(event, context): open('started', 'w')\n")
    assert "Nothing was due." in hermes(home, "cron", "tick").out
    assert "Waiting: “Hello”." in hermes(home, "cron", "run", "Hello").out
    ticked = hermes(home, "cron", "tick")
    assert "1 run ended." in ticked.out, ticked
    (file,) = (home / "cron" / "output").glob("*/*.md")
    assert f"from the script in {folder}" in file.read_text()
    assert "ok" in hermes(home, "cron", "runs", "Hello").out
    assert not (hook / "started").exists()
    assert "boot_" not in hermes(home, "sessions", "list").out


def test_a_home_with_a_gateway(tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    with gateway(home):
        made = hermes(home, "cron", "create", "every 2h", "say hello", "--name", "Hello")
        assert made.code == 0, made
        assert "Run by  the gateway" in hermes(home, "cron", "status").out
        assert "it runs the jobs" in hermes(home, "cron", "tick").err
        assert "Started" in hermes(home, "cron", "run", "hel").out
        end = time.monotonic() + PATIENCE
        while (
            not (runs := json.loads(hermes(home, "cron", "runs", "--json").out)) or runs[0]["state"] != "over"
        ):
            assert time.monotonic() < end, runs
        assert runs[0]["status"] == "ok"
        assert "Another job is called" in hermes(home, "cron", "create", "1h", "x", "--name", "hello").err
        assert "Removed" in hermes(home, "cron", "remove", "Hello").out


def test_a_job_without_an_agent_goes_where_the_routes_say(tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    (home / "config.yaml").write_text(
        "agents: {bee: {}}\nroutes:\n- match: {kind: job, chat_id: Mail}\n  agent: bee\n"
    )
    for asked, agent in (
        (["--name", "Mail"], "bee"),
        (["--name", "Mail", "--agent", "main"], "main"),
        ([], "main"),
    ):
        assert hermes(home, "cron", "create", "every 2h", "look", *asked).code == 0
        jobs = json.loads(hermes(home, "cron", "list", "--json").out)
        assert [job["agent"] for job in jobs] == [agent]
        assert hermes(home, "cron", "remove", jobs[0]["id"]).code == 0
