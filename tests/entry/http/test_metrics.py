"""The numbers of `/metrics` are in the format that Prometheus reads, and count what happened."""

from __future__ import annotations

from pathlib import Path

from prometheus_client.parser import text_string_to_metric_families

from hermes.domain.errors import Refused
from hermes.entry.http.api.metrics import family
from hermes.testing.api import ApiWorld, Heard
from hermes.testing.model import Say, ScriptedModel, call, say

HI = {"messages": [{"role": "user", "content": "hi"}]}


def _numbers(heard: Heard) -> dict[tuple[str, frozenset[tuple[str, str]]], float]:
    assert heard.status == 200
    assert heard.headers["Content-Type"].startswith("text/plain; version=0.0.4")
    families = list(text_string_to_metric_families(heard.data.decode()))
    assert all(one.documentation and one.type != "unknown" for one in families)
    assert len({one.name for one in families}) == len(families)
    samples = [sample for one in families for sample in one.samples]
    numbers = {(sample.name, frozenset(sample.labels.items())): sample.value for sample in samples}
    assert len(numbers) == len(samples)
    return numbers


def _of(numbers: dict[tuple[str, frozenset[tuple[str, str]]], float], name: str, **labels: str) -> float:
    return numbers[name, frozenset(labels.items())]


async def test_what_happened_is_counted(tmp_path: Path) -> None:
    model = ScriptedModel([say("fine"), Say(error=Refused("no")), Say(error=Refused("no"))])
    async with ApiWorld(home=tmp_path / "home", provider=model) as api:
        assert (await api.post("/v1/chat/completions", HI)).status == 200
        assert (await api.post("/v1/chat/completions", HI)).status == 502
        assert (await api.get("/v1/models/secret-name")).status == 404
        assert (await api.get("/secret/path")).status == 404
        heard = await api.get("/metrics")
        numbers = _numbers(heard)
    assert _of(numbers, "hermes_turns_total", end="finished") == 1
    assert _of(numbers, "hermes_turns_total", end="failed") == 1
    chat = {"method": "POST", "route": "/v1/chat/completions"}
    assert _of(numbers, "hermes_http_requests_total", **chat, status="2xx") == 1
    assert _of(numbers, "hermes_http_requests_total", **chat, status="5xx") == 1
    assert _of(numbers, "hermes_http_request_seconds_count", **chat) == 2
    assert _of(numbers, "hermes_http_request_seconds_bucket", **chat, le="+Inf") == 2
    one = {"method": "GET", "route": "/v1/models/{model}", "status": "4xx"}
    assert _of(numbers, "hermes_http_requests_total", **one) == 1
    unmatched = {"method": "unmatched", "route": "unmatched", "status": "4xx"}
    assert _of(numbers, "hermes_http_requests_total", **unmatched) == 1
    assert b"secret" not in heard.data
    assert _of(numbers, "process_resident_memory_bytes") > 1_000_000
    assert _of(numbers, "process_open_fds") > 3
    assert _of(numbers, "hermes_store_commit_seconds_count") > 2
    assert _of(numbers, "hermes_running") == 1
    assert _of(numbers, "hermes_platform_up", platform="api_server") == 1


async def test_what_waits_is_counted(tmp_path: Path) -> None:
    model = ScriptedModel([call("terminal", '{"command": "rm -rf ~/no-such-folder"}')])
    async with ApiWorld(home=tmp_path / "home", provider=model) as api:
        async for _ in api.events("/v1/chat/completions", {**HI, "stream": True}):
            numbers = _numbers(await api.get("/metrics"))
            if _of(numbers, "hermes_turns_open", state="waiting"):
                break
        assert _of(numbers, "hermes_questions_open") == 1
        assert _of(numbers, "hermes_turns_open", state="running") == 0


async def test_metrics_need_the_right_key(tmp_path: Path) -> None:
    config = "platforms: {api_server: {keys: {phone: {key: another long secret 1, scopes: [chat]}}}}"
    async with ApiWorld(home=tmp_path / "home", config=config) as api:
        assert (await api.get("/metrics", headers={"Authorization": ""})).status == 401
        phone = {"Authorization": "Bearer another long secret 1"}
        assert (await api.get("/metrics", headers=phone)).status == 403
        assert (await api.get("/health/detailed", headers=phone)).status == 403
        assert (await api.get("/v1/capabilities", headers=phone)).json["scopes"] == ["chat"]


def test_a_label_cannot_break_out() -> None:
    page = "".join(family("a", "gauge", "Told.", [({"l": 'x"\n\\y'}, 1.5)]))
    (found,) = text_string_to_metric_families(page)
    assert found.samples[0].labels == {"l": 'x"\n\\y'}
    assert found.samples[0].value == 1.5
