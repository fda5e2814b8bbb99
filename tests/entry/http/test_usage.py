"""What models took, over HTTP; and what a client hears whose budget is spent."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from hermes.testing.api import ApiWorld
from hermes.testing.model import ScriptedModel, say

PHONE = {"Authorization": "Bearer another long secret 1"}
KEYS = """
platforms:
  api_server:
    keys:
      phone: {key: another long secret 1, scopes: [chat]}
models:
  scripted: {price_in: 1000, price_out: 2000}
"""
HI: dict[str, Any] = {"messages": [{"role": "user", "content": "hi"}]}


def model() -> ScriptedModel:
    return ScriptedModel(lambda request: say("two words"))


async def test_a_key_sees_its_own_usage_and_an_admin_everything(tmp_path: Path) -> None:
    async with ApiWorld(home=tmp_path / "home", provider=model(), config=KEYS) as api:
        for headers in ({}, {}, PHONE):
            assert (await api.post("/v1/chat/completions", HI, headers=headers)).status == 200
        everything = (await api.get("/v1/usage?by=person&days=2")).json
        assert {line["name"]: line["calls"] for line in everything["groups"]} == {
            "api_server": 2,
            "api_server@phone": 1,
        }
        assert everything["total"]["calls"] == 3 and len(everything["days"]) == 2
        (own,) = (await api.get("/v1/usage", headers=PHONE)).json["groups"]
        assert own["name"] == "scripted" and own["calls"] == 1
        assert own["prompt_tokens"] == 1 and own["completion_tokens"] == 2
        assert own["cost"] == pytest.approx((1 * 1000 + 2 * 2000) / 1e6)
        assert own["cost_status"] == "estimated"
        refused = await api.get("/v1/usage?person=api_server", headers=PHONE)
        assert refused.status == 403 and "leave out “person”" in refused.json["error"]["message"]
        only = (await api.get("/v1/usage?person=api_server@phone")).json
        assert only["total"]["calls"] == 1
        for wrong in ("days=0", "days=x", "by=moon"):
            assert (await api.get(f"/v1/usage?{wrong}")).status == 400


async def test_a_client_hears_that_its_budget_is_spent(tmp_path: Path) -> None:
    config = f"{KEYS}budgets: {{phones: {{person: api_server@phone, calls: 1}}}}\n"
    async with ApiWorld(home=tmp_path / "home", provider=model(), config=config) as api:
        assert (await api.post("/v1/chat/completions", HI, headers=PHONE)).status == 200
        for path, body in (
            ("/v1/chat/completions", HI),
            ("/v1/chat/completions", HI | {"stream": True}),
            ("/v1/responses", {"input": "hi"}),
            ("/v1/runs", {"input": "hi"}),
        ):
            refused = await api.post(path, body, headers=PHONE)
            assert refused.status == 429, path
            error = refused.json["error"]
            assert error["code"] == "insufficient_quota" and "“phones” is spent: 1 of 1" in error["message"]
            assert 0 < int(refused.headers["Retry-After"]) <= 86400
            assert refused.headers["x-should-retry"] == "false"
        assert (await api.post("/v1/chat/completions", HI)).status == 200, "another key goes on"
