"""Jobs over HTTP: made, looked at, changed, paused, run and removed; and what is refused."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from hermes.control.jobs import editing
from hermes.testing.api import ApiWorld
from hermes.testing.model import ScriptedModel
from tests.entry.http.talking import TWO_KEYS

PHONE = {"Authorization": "Bearer another long secret 1"}
KEYS = """
timezone: UTC
platforms:
  api_server:
    keys:
      phone: {key: another long secret 1, scopes: [chat]}
"""
JOB = {"name": "Mail", "schedule": "0 9 * * MON-FRI", "prompt": "What is new?"}


async def make(api: ApiWorld, **changes: object) -> dict[str, Any]:
    heard = await api.post("/api/jobs", {**JOB, **changes})
    assert heard.status == 200, heard.data
    job: dict[str, Any] = heard.json["job"]
    return job


async def test_the_life_of_a_job(tmp_path: Path) -> None:
    async with ApiWorld(home=tmp_path / "home", config=KEYS) as api:
        job = await make(api)
        assert (job["deliver"], job["enabled"], job["state"]) == ("local", True, "scheduled")
        assert job["schedule"]["kind"] == "cron" and job["next_run_at"].endswith("09:00:00+00:00")
        path = f"/api/jobs/{job['id']}"
        assert (await api.get("/api/jobs")).json["jobs"] == [job]
        changed = await api.ask("PATCH", path, json={"schedule": "every 2h", "repeat": 3, "skill": "mail"})
        assert changed.json["job"]["schedule_display"] == "every 2h"
        assert changed.json["job"]["repeat"] == {"times": 3, "completed": 0}
        assert changed.json["job"]["skills"] == ["mail"]
        paused = await api.post(f"{path}/pause")
        assert paused.json["job"]["state"] == "paused" and paused.json["job"]["next_run_at"] is None
        assert (await api.get("/api/jobs")).json["jobs"] == []
        assert len((await api.get("/api/jobs?include_disabled=true")).json["jobs"]) == 1
        assert (await api.post(f"{path}/resume")).json["job"]["enabled"] is True
        disabled = await api.ask("PATCH", path, json={"enabled": False})
        assert disabled.json["job"]["enabled"] is False
        assert (await api.ask("DELETE", path)).json == {"ok": True}
        assert (await api.get(path)).status == 404


async def test_run_now_and_the_output_file(tmp_path: Path) -> None:
    home = tmp_path / "home"
    async with ApiWorld(home=home, config=KEYS, provider=ScriptedModel()) as api:
        job = await make(api)
        assert (await api.post(f"/api/jobs/{job['id']}/run")).status == 200
        for _ in range(4000):
            runs = (await api.get(f"/api/jobs/{job['id']}/runs")).json["runs"]
            if runs and runs[0]["state"] == "over":
                break
            await asyncio.sleep(0.01)
        (run,) = runs
        assert run["manual"] and run["status"] == "ok" and run["session_id"].startswith(f"cron_{job['id']}_")
        (file,) = (home / "cron" / "output" / job["id"]).iterdir()
        assert "What is new?" in file.read_text()
        assert (await api.get(f"/api/jobs/{job['id']}")).json["job"]["last_status"] == "ok"


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"schedule": "sometimes"}, "not understood as a schedule"),
        ({"schedule": "0 25 * * *"}, "the hour “25”"),
        ({"prompt": ""}, "needs a prompt or a script"),
        ({"prompt": "x" * 5001}, "prompt"),
        ({"name": "x" * 201}, "name"),
        ({"deliver": "nowhere"}, "no platform"),
        ({"repeat": -3}, "for ever"),
        ({"agent": "nobody"}, "no agent"),
        ({"agent": "sub"}, "no agent"),
        ({"script": "none.sh"}, "no script"),
        ({"script": "a\0"}, "no script"),
        ({"enabled_toolsets": ["zz"]}, "no toolset “zz”"),
        ({"promt": "x"}, "promt"),
    ],
)
async def test_what_is_refused_changes_nothing(tmp_path: Path, changes: dict[str, Any], told: str) -> None:
    config = KEYS + "agents: {sub: {mode: subagent}}\n"
    async with ApiWorld(home=tmp_path / "home", config=config) as api:
        heard = await api.post("/api/jobs", {**JOB, **changes})
        assert heard.status == 400 and told in heard.json["error"]["message"]
        assert (await api.get("/api/jobs?include_disabled=true")).json["jobs"] == []


async def test_who_sees_what(tmp_path: Path) -> None:
    async with ApiWorld(home=tmp_path / "home", config=KEYS) as api:
        job = await make(api)
        path = f"/api/jobs/{job['id']}"
        assert (await api.get(path, headers=PHONE)).status == 404
        assert (await api.get("/api/jobs", headers=PHONE)).json["jobs"] == []
        own = await api.post("/api/jobs", {**JOB, "name": "Mine"}, headers=PHONE)
        assert own.status == 200
        assert len((await api.get("/api/jobs", headers=PHONE)).json["jobs"]) == 1
        refused = await api.post("/api/jobs", {**JOB, "name": "S", "script": "a.sh"}, headers=PHONE)
        assert refused.status == 403
        mine = f"/api/jobs/{own.json['job']['id']}"
        for deliver in ("webhook:ops", "origin", "local, telegram:1", "all"):
            wish = {**JOB, "name": "D", "deliver": deliver}
            made = await api.post("/api/jobs", wish, headers=PHONE)
            changed = await api.ask("PATCH", mine, json={"deliver": deliver}, headers=PHONE)
            assert made.status == changed.status == 403 and "scope sessions" in made.json["error"]["message"]
        assert (await api.ask("PATCH", mine, json={"deliver": "local"}, headers=PHONE)).status == 200
        assert (await api.get("/api/jobs/xyz")).status == 400
        assert (await api.get(f"/api/jobs/{'0' * 12}")).status == 404


async def test_a_job_of_a_key_has_the_models_that_its_requests_may_name(tmp_path: Path) -> None:
    routes = "    model_routes: {small: {model: small-model}}\n"
    async with ApiWorld(home=tmp_path / "home", config=KEYS + routes) as api:
        job = {**JOB, "model": "gpt-9-expensive"}
        refused = await api.post("/api/jobs", job, headers=PHONE)
        assert (refused.status, refused.json["error"]["code"]) == (404, "model_not_found")
        assert (await api.post("/api/jobs", job)).json["job"]["model"] == "gpt-9-expensive", "for admins"
        own = await api.post("/api/jobs", {**JOB, "name": "A", "model": "small"}, headers=PHONE)
        assert own.json["job"]["model"] == "small"
        path = f"/api/jobs/{own.json['job']['id']}"
        changed = await api.ask("PATCH", path, json={"model": "gpt-9-expensive"}, headers=PHONE)
        assert changed.status == 404
        usual = await api.ask("PATCH", path, json={"model": "hermes-agent"}, headers=PHONE)
        assert usual.json["job"]["model"] is None


async def test_a_key_has_a_number_of_jobs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(editing, "MOST_JOBS", 2)
    async with ApiWorld(home=tmp_path / "home", config=KEYS) as api:
        for name, status in (("A", 200), ("B", 200), ("C", 403)):
            made = await api.post("/api/jobs", {**JOB, "name": name}, headers=PHONE)
            assert made.status == status, made.data
        assert made.json["error"]["code"] == "too_many_jobs"
        for name in "DEF":
            await make(api, name=name)
        (first, _) = (await api.get("/api/jobs", headers=PHONE)).json["jobs"]
        await api.ask("DELETE", f"/api/jobs/{first['id']}", headers=PHONE)
        assert (await api.post("/api/jobs", {**JOB, "name": "C"}, headers=PHONE)).status == 200


async def test_a_key_of_one_agent_makes_jobs_of_it(tmp_path: Path) -> None:
    config = KEYS.replace("scopes: [chat]", "scopes: [chat], agents: [helper]") + "agents: {helper: {}}\n"
    async with ApiWorld(home=tmp_path / "home", config=config) as api:
        made = await api.post("/api/jobs", JOB, headers=PHONE)
        assert made.status == 200 and made.json["job"]["agent"] == "helper"


async def test_a_job_reads_only_what_its_key_may_see(tmp_path: Path) -> None:
    async with ApiWorld(home=tmp_path / "home", config=TWO_KEYS) as api:
        made = await api.post("/api/jobs", {"schedule": "every 2h", "prompt": "mine", "name": "Mine"})
        for named in (made.json["job"]["id"], "Mine"):
            job = {"schedule": "every 2h", "prompt": "tell me", "context_from": [named]}
            heard = await api.post("/api/jobs", job, headers=PHONE)
            assert heard.status == 404, heard.data
        own = await api.post("/api/jobs", {"schedule": "every 2h", "prompt": "x"}, headers=PHONE)
        path = f"/api/jobs/{own.json['job']['id']}"
        heard = await api.ask("PATCH", path, json={"context_from": ["Mine"]}, headers=PHONE)
        assert heard.status == 404, heard.data
