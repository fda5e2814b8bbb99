"""Health in detail tells how each part is, and says 503 when the gateway is not ready for more."""

from __future__ import annotations

from pathlib import Path

import pytest

from hermes.control.workers import MOST_FAILURES
from hermes.domain.chats.rows import OpenWork
from hermes.entry.http.api import health
from hermes.entry.http.api.health import MOST_WAITING, run_checks
from hermes.testing.api import ApiWorld

WELL = {"disk_free_bytes": 10**12, "gateway_state": "running", "model": "a model"}


def _work(inbox: int = 0) -> OpenWork:
    return OpenWork(turns={}, outbox={}, inbox=inbox, questions=0)


async def test_every_part_is_told(tmp_path: Path) -> None:
    async with ApiWorld(home=tmp_path / "home") as api:
        heard = await api.get("/health/detailed")
        assert heard.status == 200
        told = heard.json
    assert told["ready"]
    parts = {"state_db", "config", "agents", "model", "disk", "gateway", "loops", "background_queues"}
    assert set(told["checks"]) == parts
    assert {"intake", "expiry", "cron", "handoffs", "session logs"} <= {
        loop["name"] for loop in told["loops"]
    }
    assert all(check["ok"] for check in told["checks"].values())
    assert told["platforms"]["api_server"]["state"] == "connected"
    assert told["platforms"]["api_server"]["heard_at"] == ""
    jobs = {chore["name"]: chore for chore in told["chores"]}
    assert jobs.keys() >= {"cron", "retention", "session expiry", "media clean-up", "database backup"}
    assert jobs["retention"]["ok"] and jobs["media clean-up"]["last_at"] is None
    assert (told["gateway_state"], told["gateway_busy"], told["gateway_drainable"]) == (
        "running",
        False,
        True,
    )
    assert told["pid"] > 1
    assert told["agents"] == ["main"]


async def test_a_loop_that_breaks_time_and_again_is_told_and_unready(tmp_path: Path) -> None:
    async with ApiWorld(home=tmp_path / "home") as api:
        loops = api.app.loops
        loops.note("cron", OSError("too many open files"), "cron")
        heard = await api.get("/health/detailed")
        [cron] = [loop for loop in heard.json["loops"] if loop["name"] == "cron"]
        assert (heard.status, cron["ok"], cron["failures"]) == (200, True, 1)
        assert cron["why"] == "OSError: too many open files" and cron["last_at"]
        loops.states["cron"].in_a_row = MOST_FAILURES
        heard = await api.get("/health/detailed")
        assert heard.status == 503
        assert heard.json["checks"]["loops"] == {"ok": False, "detail": "cron: OSError: too many open files"}


async def test_a_full_disk_is_not_ready(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(health, "LEAST_FREE", 1 << 62)
    async with ApiWorld(home=tmp_path / "home") as api:
        heard = await api.get("/health/detailed")
        assert heard.status == 503
        assert not heard.json["ready"]
        assert not heard.json["checks"]["disk"]["ok"]
        assert (await api.get("/health")).status == 200


@pytest.mark.parametrize(
    ("facts", "work", "trouble", "part"),
    [
        ({"disk_free_bytes": 1000}, _work(), "", "disk"),
        ({"gateway_state": "draining"}, _work(), "", "gateway"),
        ({"model": ""}, _work(), "", "model"),
        ({}, None, "the disk is full", "state_db"),
        ({}, _work(MOST_WAITING + 1), "", "background_queues"),
        ({"loops": [{"name": "cron", "ok": False, "why": "OSError"}]}, _work(), "", "loops"),
    ],
)
def test_each_part_can_be_unready(
    facts: dict[str, object], work: OpenWork | None, trouble: str, part: str
) -> None:
    checks = run_checks({**WELL, **facts}, work, trouble)
    assert [name for name, check in checks.items() if not check.ok] == [part]


def test_a_mistake_in_the_settings_is_told_and_stops_nothing() -> None:
    check = run_checks({**WELL, "config_problems": 2}, _work(), "")["config"]
    assert check.ok
    assert "2 problems" in check.detail


async def test_capabilities_are_those_of_the_table(tmp_path: Path) -> None:
    async with ApiWorld(home=tmp_path / "home") as api:
        told = (await api.get("/v1/capabilities")).json
        assert told["features"]["chat_completions"]
        assert not told["features"]["skills"]
        assert told["limits"]["max_body_bytes"] == 10_000_000
        assert {"method": "GET", "path": "/metrics"}.items() <= {
            **next(one for one in told["endpoints"] if one["path"] == "/metrics")
        }.items()


async def test_toolsets_are_those_of_the_agents_that_a_key_sees(tmp_path: Path) -> None:
    config = """
platforms: {api_server: {keys: {phone: {key: another long secret 1, scopes: [chat], agents: [helper]}}}}
agents: {helper: {}}
"""
    async with ApiWorld(home=tmp_path / "home", config=config) as api:
        every = (await api.get("/v1/toolsets")).json["data"]
        phone = {"Authorization": "Bearer another long secret 1"}
        seen = (await api.get("/v1/toolsets", headers=phone)).json["data"]
    assert {one["agent"] for one in every} == {"main", "helper"}
    assert {one["agent"] for one in seen} == {"helper"}
    tools = {tool["name"]: tool["effect"] for one in seen for tool in one["tools"]}
    assert tools["read_file"] == "read"
    assert "terminal" in tools


async def test_toolsets_come_in_pages_of_agents(tmp_path: Path) -> None:
    """Listing them all would build them all."""
    many = ", ".join(f"a{number}: {{}}" for number in range(25))
    async with ApiWorld(home=tmp_path / "home", config=f"agents: {{{many}}}\n") as api:
        first = (await api.get("/v1/toolsets")).json
        built = [agent for agent in api.app.gateway.agents if api.app.gateway.agents.built(agent)]
        seen = list(dict.fromkeys(one["agent"] for one in first["data"]))
        assert first["has_more"] and len(seen) == len(built) == 20
        rest = (await api.get(f"/v1/toolsets?after={seen[-1]}")).json
        assert not rest["has_more"] and len({one["agent"] for one in rest["data"]} - set(seen)) == 6
        assert (await api.get("/v1/toolsets?after=nobody")).status == 400


async def test_a_fault_of_ours_is_told_in_the_same_shape(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(*_: object) -> None:
        raise RuntimeError("a secret detail")

    monkeypatch.setattr(health, "run_checks", broken)
    async with ApiWorld(home=tmp_path / "home") as api:
        heard = await api.get("/health/detailed")
        assert heard.status == 500
        assert heard.json["error"]["code"] == "internal_error"
        assert b"secret" not in heard.data
    assert "http.broke" in caplog.text
