"""The server's own manners: keys, hosts, origins, sizes, and errors that say what is wrong."""

from __future__ import annotations

import asyncio
import io
import json
import secrets
import socket
from pathlib import Path

import pytest

from hermes.agent.tools.registry import toolsets
from hermes.domain.errors import UserError
from hermes.domain.ids import AgentId
from hermes.entry.host import HostState
from hermes.testing.api import ApiWorld
from hermes.testing.model import ScriptedModel
from tests.entry.http.talking import PHONE, PHONE_KEY

JSON = {"Content-Type": "application/json"}
HI = {"model": "hermes-agent", "messages": [{"role": "user", "content": "hi"}]}


async def test_words_come_back_in_the_openai_shape(tmp_path: Path) -> None:
    async with ApiWorld(home=tmp_path / "home") as api:
        heard = await api.post("/v1/chat/completions", HI)
        assert heard.status == 200
        assert heard.json["choices"][0]["message"] == {"role": "assistant", "content": "You said: hi"}
        assert heard.json["choices"][0]["finish_reason"] == "stop"
        assert heard.json["object"] == "chat.completion"
        assert heard.headers["X-Hermes-Session-Id"].startswith("api_")


@pytest.mark.parametrize("kind", ["Application/JSON ; charset=utf-8", "application/vnd.chat+json"])
async def test_json_may_be_named_in_other_ways(kind: str, tmp_path: Path) -> None:
    async with ApiWorld(home=tmp_path / "home") as api:
        body = json.dumps(HI).encode()
        heard = await api.ask("POST", "/v1/chat/completions", data=body, headers={"Content-Type": kind})
        assert heard.status == 200


async def test_a_gateway_warms_up_without_asking_the_model(tmp_path: Path) -> None:
    model = ScriptedModel()
    async with ApiWorld(home=tmp_path / "home", provider=model) as api:
        state = api.app.loops.states["warm-up"]
        await asyncio.wait_for(_ended("warm-up"), 30)
        assert state.failures == 0 and not model.requests


async def _ended(name: str) -> None:
    for task in asyncio.all_tasks():
        if task.get_name() == name:
            await task


async def test_a_stream_says_the_same(tmp_path: Path) -> None:
    async with ApiWorld(home=tmp_path / "home") as api:
        events = [event async for event in api.events("/v1/chat/completions", {**HI, "stream": True})]
        assert events[-1].data == "[DONE]"
        assert "You said: hi" in "".join(event.data for event in events)


@pytest.mark.parametrize("header", ["", "Bearer", "Bearer wrong", "Basic abc", "Bearer \xff"])
async def test_without_the_key_nothing_happens(header: str, tmp_path: Path) -> None:
    async with ApiWorld(home=tmp_path / "home") as api:
        heard = await api.post("/v1/chat/completions", HI, headers={"Authorization": header})
        assert heard.status == 401
        assert heard.json["error"]["code"] == "invalid_api_key"
        assert not await api.app.store.read(lambda tx: tx.sessions.find(""))


async def test_guessing_puts_off_further_guesses_and_never_the_right_key(tmp_path: Path) -> None:
    async with ApiWorld(home=tmp_path / "home") as api:
        for number in range(10):
            heard = await api.get("/v1/models", headers={"Authorization": f"Bearer guess {number}"})
            assert heard.status == 401
            assert (await api.get("/v1/models")).status == 200
        for wrong in ("guess 3", "guess 11"):
            heard = await api.get("/v1/models", headers={"Authorization": f"Bearer {wrong}"})
            assert heard.status == 429 and int(heard.headers["Retry-After"]) > 0
        assert (await api.get("/v1/models", headers={"Authorization": ""})).status == 401
        assert (await api.get("/v1/models")).status == 200


async def test_an_old_key_is_no_guessing(tmp_path: Path) -> None:
    async with ApiWorld(home=tmp_path / "home") as api:
        for _ in range(30):
            assert (await api.get("/v1/models", headers={"Authorization": "Bearer old"})).status == 401
        assert (await api.get("/v1/models")).status == 200


@pytest.mark.parametrize(
    ("options", "status", "code"),
    [
        ({"data": b"{", "headers": JSON}, 400, "invalid_json"),
        ({"data": b'{"metadata":' + b'{"x":' * 100_000, "headers": JSON}, 400, "invalid_json"),
        ({"json": {**HI, "x": 1}}, 400, "unsupported_parameter"),
        ({"data": b"{}", "headers": {"Content-Type": "text/plain"}}, 415, "unsupported_content_type"),
        (
            {"data": io.BytesIO(b" " * 11_000_000), "headers": JSON},
            413,
            "body_too_large",
        ),
        ({"json": {"messages": "hi"}}, 400, "invalid_request"),
        ({"json": {"messages": []}}, 400, "invalid_request"),
        ({"json": {**HI, "model": "gpt-none"}}, 404, "model_not_found"),
        (
            {"json": {"messages": [{"role": "user", "content": [{"type": "file"}]}]}},
            400,
            "unsupported_content_type",
        ),
        ({"json": HI, "headers": {"X-Hermes-Session-Id": "../x"}}, 400, "invalid_request"),
        ({"json": HI, "headers": {"Host": "evil.example"}}, 403, "host_not_allowed"),
        ({"json": HI, "headers": {"Origin": "https://evil.example"}}, 403, "origin_not_allowed"),
    ],
    ids=lambda value: value if isinstance(value, str) else None,
)
async def test_bad_requests_get_their_error_and_start_nothing(
    options: dict[str, object], status: int, code: str, tmp_path: Path
) -> None:
    async with ApiWorld(home=tmp_path / "home") as api:
        heard = await api.ask("POST", "/v1/chat/completions", **options)
        assert (heard.status, heard.json["error"]["code"]) == (status, code)
        assert heard.json["error"]["message"].endswith((".", "?"))
        assert not await api.app.store.read(lambda tx: tx.sessions.find(""))


async def test_a_body_that_grows_beyond_the_limit_is_cut_off(tmp_path: Path) -> None:
    async def endless() -> object:
        for _ in range(200):
            yield b" " * 100_000

    async with ApiWorld(home=tmp_path / "home") as api:
        headers = {"Content-Type": "application/json"}
        heard = await api.ask("POST", "/v1/chat/completions", data=endless(), headers=headers)
        assert heard.status == 413


async def test_a_weak_key_keeps_the_door_closed(tmp_path: Path) -> None:
    async with ApiWorld(home=tmp_path / "home", key="short") as api:
        assert api.address == ""
        state, why = api.platforms["api_server"]
        assert state is HostState.PARKED
        assert "at least 16" in why


@pytest.mark.parametrize("key", ["a" * 16, "passwordpassword", "1234567890123456", "my-secret-api-key"])
async def test_a_key_that_can_be_guessed_keeps_the_door_closed(tmp_path: Path, key: str) -> None:
    async with ApiWorld(home=tmp_path / "home", key=key) as api:
        state, why = api.platforms["api_server"]
        assert api.address == "" and state is HostState.PARKED
        assert "nobody can guess" in why and "token_urlsafe" in why and key not in why


WIDE = {"API_SERVER_HOST": "0.0.0.0"}


async def test_a_server_that_others_reach_wants_a_key_that_was_made(tmp_path: Path) -> None:
    async with ApiWorld(home=tmp_path / "home", environ=WIDE) as api:
        state, why = api.platforms["api_server"]
        assert api.address == "" and state is HostState.PARKED and "a key that a program made" in why


@pytest.mark.parametrize(
    ("host", "hosts", "status"),
    [
        ("127.0.0.1", "[]", 200),
        ("192.0.2.7:8642", "[]", 200),
        ("[2001:db8::7]:8642", "[]", 200),
        (socket.gethostname(), "[]", 200),
        ("evil.example", "[]", 403),
        ("evil.example", "[api.example]", 403),
        ("api.example:443", "[api.example]", 200),
        ("any.example", "['*']", 200),
        ("192.0.2.7", "[api.example]", 200),
        ("[", "[]", 403),
    ],
)
async def test_a_server_that_others_reach_answers_to_its_own_names(
    tmp_path: Path, host: str, hosts: str, status: int
) -> None:
    config = f"api_server: {{allowed_hosts: {hosts}}}\n"
    key = secrets.token_urlsafe(32)
    async with ApiWorld(home=tmp_path / "home", key=key, config=config, environ=WIDE) as api:
        address = api.address.replace("0.0.0.0", "127.0.0.1")
        async with api.http.get(f"{address}/v1/models", headers={"Host": host}) as response:
            assert response.status == status


async def test_a_key_is_made_where_there_is_none(tmp_path: Path) -> None:
    home = tmp_path / "home"
    async with ApiWorld(home=home, key="", environ={"API_SERVER_ENABLED": "true"}) as api:
        made = (home / ".env").read_text().split("API_SERVER_KEY=")[1].strip()
        assert len(made) >= 32
        assert (await api.get("/v1/models", headers={"Authorization": f"Bearer {made}"})).status == 200


async def test_keys_have_names_scopes_and_agents(tmp_path: Path) -> None:
    config = """
platforms:
  api_server:
    keys:
      phone: {key: another long secret 1, scopes: [chat], agents: [helper]}
agents:
  helper: {}
"""
    async with ApiWorld(home=tmp_path / "home", config=config) as api:
        phone = {"Authorization": "Bearer another long secret 1"}
        shown = await api.get("/v1/models", headers=phone)
        assert [model["id"] for model in shown.json["data"]] == ["helper", "helper:task"]
        assert (await api.post("/v1/chat/completions", HI, headers=phone)).status == 404
        heard = await api.post("/v1/chat/completions", {**HI, "model": "helper"}, headers=phone)
        assert heard.status == 200


@pytest.mark.parametrize(
    "rights", ["scopes: []", "scopes: ''", "scopes:", "scopes: everything", "agents: []"]
)
async def test_a_key_whose_rights_cannot_be_read_may_nothing(tmp_path: Path, rights: str) -> None:
    key = "oJ6tW0q3vYh2c8ZpLm4x"
    config = f"api_server:\n  keys:\n    bob:\n      key: {key}\n      {rights}\n"
    async with ApiWorld(home=tmp_path / "home", config=config) as api:
        bob = {"Authorization": f"Bearer {key}"}
        for path in ("/v1/models", "/api/sessions", "/metrics"):
            assert (await api.get(path, headers=bob)).status == 403
        assert (await api.post("/v1/chat/completions", HI, headers=bob)).status == 403


NOT_EVERYWHERE = {"browser", "image_gen", "tts", "homeassistant", "notify"}
"""Toolsets that need a program or a service which a machine may have or not."""


@pytest.mark.parametrize(
    ("config", "left"),
    [
        ("toolsets: [none]", set()),
        ("toolsets: none", set()),
        ("toolsets: []", set()),
        ("toolsets: [hermes-cli]", None),
        ("toolsets: [hermes-cli, none]", set()),
        ("toolsets: [spotify, file]", {"file"}),
        ("toolsets: [spotify]", set()),
        ("toolsets: {file: true}", set()),
        ("gateway: {toolsets: file}", {"file"}),
        ("toolsets: [file, todo]\nagent: {disabled_toolsets: [todo, browser]}", {"file"}),
        ("agent: {disabled_toolsets: '*'}", set()),
        ("agent: {disabled_toolsets: [[terminal]]}", set()),
    ],
)
async def test_toolsets_are_limited_for_every_agent(
    tmp_path: Path, config: str, left: set[str] | None
) -> None:
    text = f"{config}\nagents: {{bee: {{disabled_toolsets: [browser]}}, ant: {{enabled_toolsets: [file]}}}}\n"
    async with ApiWorld(home=tmp_path / "home", config=text) as api:
        listed = [
            one for one in (await api.get("/v1/toolsets")).json["data"] if one["name"] not in NOT_EVERYWHERE
        ]
        shown = {(one["agent"], one["name"]) for one in listed}
        wanted = set(toolsets()) - NOT_EVERYWHERE if left is None else left
        few = wanted & {"file"}
        assert shown == {(agent, name) for agent in ("main", "bee") for name in wanted} | {
            ("ant", name) for name in few
        }


async def test_disabled_toolsets_are_gone_and_the_rest_is_there(tmp_path: Path) -> None:
    config = "agent: {disabled_toolsets: [terminal, file]}\n"
    async with ApiWorld(home=tmp_path / "home", config=config) as api:
        shown = {one["name"] for one in (await api.get("/v1/toolsets")).json["data"]} - NOT_EVERYWHERE
        assert shown == set(toolsets()) - NOT_EVERYWHERE - {"terminal", "file"}


async def test_a_plain_text_is_the_scope_of_a_key(tmp_path: Path) -> None:
    config = f"api_server: {{keys: {{phone: {{key: {PHONE_KEY}, scopes: chat}}}}}}\n"
    async with ApiWorld(home=tmp_path / "home", config=config) as api:
        assert (await api.post("/v1/chat/completions", HI)).status == 200
        owned = (await api.get("/api/sessions")).json
        assert owned["data"]
        assert (await api.get("/api/sessions", headers=PHONE)).json["data"] == []


async def test_a_page_of_a_known_origin_may_ask(tmp_path: Path) -> None:
    environ = {"API_SERVER_CORS_ORIGINS": "https://chat.example"}
    async with ApiWorld(home=tmp_path / "home", environ=environ) as api:
        headers = {"Origin": "https://chat.example", "Access-Control-Request-Method": "POST"}
        heard = await api.ask("OPTIONS", "/v1/chat/completions", headers=headers)
        assert heard.status == 200
        assert heard.headers["Access-Control-Allow-Origin"] == "https://chat.example"
        assert "POST" in heard.headers["Access-Control-Allow-Methods"]
        assert "X-Hermes-Session-Id" in heard.headers["Access-Control-Allow-Headers"]
        heard = await api.post("/v1/chat/completions", HI, headers={"Origin": "https://chat.example"})
        assert heard.headers["Access-Control-Allow-Origin"] == "https://chat.example"
        assert heard.headers["X-Content-Type-Options"] == "nosniff"


async def test_a_page_may_send_what_its_library_sends(tmp_path: Path) -> None:
    environ = {"API_SERVER_CORS_ORIGINS": "https://chat.example"}
    asked = "authorization, content-type, x-stainless-os, x-stainless-retry-count, bad header"
    async with ApiWorld(home=tmp_path / "home", environ=environ) as api:
        headers = {"Access-Control-Request-Method": "POST", "Access-Control-Request-Headers": asked}
        heard = await api.ask(
            "OPTIONS", "/v1/chat/completions", headers={"Origin": "https://chat.example", **headers}
        )
        allowed = heard.headers["Access-Control-Allow-Headers"].split(", ")
        assert {"x-stainless-os", "x-stainless-retry-count", "X-Hermes-Chat-Id"} <= set(allowed)
        assert "bad header" not in allowed
        heard = await api.ask(
            "OPTIONS", "/v1/chat/completions", headers={"Origin": "https://evil.example", **headers}
        )
        assert heard.status == 403 and "Access-Control-Allow-Headers" not in heard.headers


async def test_a_page_of_the_server_itself_may_ask(tmp_path: Path) -> None:
    async with ApiWorld(home=tmp_path / "home") as api:
        assert (await api.post("/v1/chat/completions", HI, headers={"Origin": api.address})).status == 200
        for other in ("http://127.0.0.1:1", "http://localhost", "null", f"{api.address}.evil.example"):
            heard = await api.post("/v1/chat/completions", HI, headers={"Origin": other})
            assert (heard.status, heard.json["error"]["code"]) == (403, "origin_not_allowed"), other


@pytest.mark.parametrize("trusted", [True, False])
async def test_behind_a_trusted_proxy_each_client_has_its_own_guesses(tmp_path: Path, trusted: bool) -> None:
    proxies = "[10.0.0.0/8, 127.0.0.1]" if trusted else "[10.0.0.0/8]"
    config = f"platforms: {{api_server: {{trusted_proxies: {proxies}}}}}\n"

    async def guess(number: int, passed: str) -> int:
        headers = {"Authorization": f"Bearer guess {number}", "X-Forwarded-For": passed}
        return (await api.get("/v1/models", headers=headers)).status

    async with ApiWorld(home=tmp_path / "home", config=config) as api:
        for number in range(10):
            # What stands before the last foreign address is only said; the proxies behind it are ours.
            assert await guess(number, f"9.9.9.{number}, 8.8.8.8, 10.0.0.7") == 401
        assert await guess(11, "9.9.9.9, 8.8.8.8") == 429
        assert await guess(12, "1.1.1.1") == (401 if trusted else 429)
        assert (await api.get("/v1/models")).status == 200


async def test_bad_proxies_stop_the_start_with_a_sentence(tmp_path: Path) -> None:
    config = "platforms: {api_server: {trusted_proxies: my-proxy}}\n"
    with pytest.raises(UserError, match="trusted_proxies must hold addresses or networks"):
        async with ApiWorld(home=tmp_path / "home", config=config):
            pass


async def test_a_further_key_sees_what_it_began_and_nothing_else(tmp_path: Path) -> None:
    config = f"platforms: {{api_server: {{keys: {{phone: {{key: {PHONE_KEY}}}}}}}}}\n"
    async with ApiWorld(home=tmp_path / "home", config=config) as api:
        mine = {"X-Hermes-Session-Id": "mine"}
        assert (await api.post("/v1/chat/completions", HI, headers=mine)).status == 200
        assert (await api.post("/v1/chat/completions", HI, headers={**PHONE, **mine})).status == 404
        assert (await api.get("/api/sessions", headers=PHONE)).json["data"] == []
        own = {**PHONE, "X-Hermes-Session-Id": "own"}
        assert (await api.post("/v1/chat/completions", HI, headers=own)).status == 200
        assert [one["id"] for one in (await api.get("/api/sessions", headers=PHONE)).json["data"]] == ["own"]


async def test_a_key_with_one_agent_need_not_name_it(tmp_path: Path) -> None:
    config = f"""
platforms: {{api_server: {{keys: {{phone: {{key: {PHONE_KEY}, agents: [helper]}}}}}}}}
agents: {{helper: {{}}}}
"""
    async with ApiWorld(home=tmp_path / "home", config=config) as api:
        heard = await api.post("/v1/chat/completions", {"messages": HI["messages"]}, headers=PHONE)
        assert (heard.status, heard.json["model"]) == (200, "helper")
        found = await api.app.store.scoped(AgentId("helper")).read(lambda tx: tx.sessions.find(""))
        assert [one.id for one in found] == [heard.headers["X-Hermes-Session-Id"]]


async def test_a_named_session_goes_on(tmp_path: Path) -> None:
    async with ApiWorld(home=tmp_path / "home") as api:
        headers = {"X-Hermes-Session-Id": "notes"}
        await api.post("/v1/chat/completions", HI, headers=headers)
        heard = await api.post("/v1/chat/completions", HI, headers=headers)
        assert heard.headers["X-Hermes-Session-Id"] == "notes"
        journal = await api.app.store.read(lambda tx: tx.journal.read("notes"))  # type: ignore[arg-type]
        assert sum(type(entry.record).__name__ == "UserSaid" for entry in journal) == 2


async def test_a_profile_in_the_path_is_the_default_agent_there(tmp_path: Path) -> None:
    async with ApiWorld(home=tmp_path / "home", config="agents:\n  helper: {}\n") as api:
        heard = await api.post("/p/helper/v1/chat/completions", HI)
        assert heard.status == 200
        found = await api.app.store.scoped(AgentId("helper")).read(lambda tx: tx.sessions.find(""))
        assert [one.id for one in found] == [heard.headers["X-Hermes-Session-Id"]]
        missing = await api.post("/p/nobody/v1/chat/completions", HI)
        assert (missing.status, missing.json["error"]["code"]) == (404, "unknown_agent")


async def test_without_a_key_nobody_is_told_which_agents_there_are(tmp_path: Path) -> None:
    async with ApiWorld(home=tmp_path / "home", config="agents:\n  helper: {}\n") as api:
        for path in ("health", "docs", "v1/health", "v1/models"):
            heard = [
                await api.ask("GET", f"/p/{name}/{path}", headers={"Authorization": ""})
                for name in ("helper", "nobody")
            ]
            assert heard[0].status == heard[1].status and heard[0].data == heard[1].data, path


@pytest.mark.parametrize("name", ["owner", "default"])
async def test_a_key_may_not_have_the_name_of_somebody_else(name: str, tmp_path: Path) -> None:
    config = f"platforms: {{api_server: {{keys: {{{name}: {{key: another long secret 1}}}}}}}}\n"
    async with ApiWorld(home=tmp_path / "home", config=config) as api:
        assert api.address == ""
        assert "is not a valid key name" in api.platforms["api_server"][1]
