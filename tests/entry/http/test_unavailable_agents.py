"""An agent that is declared but cannot be built: every door refuses with the reason, each time, and nobody
else answers in its place. Once it is put right it works, without a restart."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from hermes.app.agents import registry
from hermes.testing.api import ApiWorld, Heard
from hermes.testing.model import ScriptedModel, say
from hermes.testing.platform import fake_platform
from hermes.testing.world import World

SECRET = "the secret of the route"
CONFIG = """
agents:
  limited: {enabled_toolsets: [todo]}
routes:
  - {match: {kind: api}, agent: limited}
  - {match: {kind: webhook}, agent: limited}
  - {match: {kind: private}, agent: limited}
  - {match: {kind: job}, agent: limited}
platforms:
  fake: {allowed_users: [u1]}
  webhook:
    extra:
      routes:
        gh: {secret: the secret of the route, prompt: "{text}"}
        bound: {secret: the secret of the route, agent: limited, prompt: "{text}"}
"""
WHY = "The agent “limited” cannot be used: "


class Doors:
    """A gateway whose agent `limited` cannot be built while its `.env` holds a bot's token."""

    def __init__(self, folder: Path) -> None:
        self.fault = folder / "home" / "agents" / "limited" / ".env"
        self.fault.parent.mkdir(parents=True, mode=0o700)
        self.fault.write_text("TELEGRAM_BOT_TOKEN=123:abc\n")
        self.world, self.model = World(), ScriptedModel(lambda request: say("answered"))
        accounts = {"fake": fake_platform("plain", self.world)}
        self.api = ApiWorld(
            home=folder / "home", config=CONFIG, provider=self.model, accounts=accounts, tools=()
        )
        self.api.environ = {"WEBHOOK_PORT": "0"}

    async def chat(self, path: str = "/v1/chat/completions") -> Heard:
        return await self.api.post(path, {"messages": [{"role": "user", "content": "list files"}]})

    async def event(self, route: str, delivery: str) -> Heard:
        body = b'{"text": "something"}'
        signature = hmac.new(SECRET.encode(), body, hashlib.sha256).hexdigest()
        headers = {
            "Content-Type": "application/json",
            "X-Hub-Signature-256": f"sha256={signature}",
            "X-GitHub-Delivery": delivery,
            "X-GitHub-Event": "watch",
        }
        return await self.api.ask("POST", f"/webhooks/{route}", data=body, headers=headers)

    async def until(self, what: Callable[[], bool]) -> None:
        end = time.monotonic() + 30
        while not what():
            assert time.monotonic() < end, f"people see {self.world.seen()}"
            await asyncio.sleep(0.01)


async def test_api_and_webhooks_refuse_each_time_with_the_reason(tmp_path: Path) -> None:
    doors = Doors(tmp_path)
    async with doors.api as api:
        for path in ("/v1/chat/completions", "/v1/chat/completions", "/p/limited/v1/chat/completions"):
            heard = await doors.chat(path)
            assert heard.status == 503, heard.data
            assert heard.json["error"]["code"] == "agent_unavailable"
            assert heard.json["error"]["message"].startswith(WHY)
            assert heard.headers["x-should-retry"] == "false"
        named = await api.post("/v1/runs", {"input": "hello", "model": "limited"})
        assert named.status == 503, named.data
        for number in range(2):
            for route in ("gh", "bound"):
                heard = await doors.event(route, f"d{number}")
                assert heard.status == 503 and heard.json["error"]["message"].startswith(WHY), heard.data
        sets = await api.get("/v1/toolsets")
        assert sets.status == 200, sets.data
        assert not any(one["agent"] == "limited" for one in sets.json["data"])
        assert not doors.model.requests, "another agent answered"


async def test_chats_are_told_once_for_each_message_and_strangers_nothing(tmp_path: Path) -> None:
    doors = Doors(tmp_path)
    async with doors.api as api:
        for count in (1, 2):
            doors.world.write("list files")
            await doors.until(lambda count=count: len(doors.world.seen("1")) == count)  # type: ignore[misc]
        assert all(WHY in seen for seen in doors.world.seen("1")), doors.world.seen("1")
        doors.world.write("list files", user="stranger", chat="2")
        doors.world.write("/status")
        await doors.until(lambda: len(doors.world.seen("1")) == 3)
        assert not any(WHY in seen for seen in doors.world.seen("2"))
        assert (await api.app.gateway.open_work()).turns == {}
        assert not doors.model.requests, "another agent answered"


async def test_a_job_fails_with_the_reason_and_its_chat_is_told(tmp_path: Path) -> None:
    doors = Doors(tmp_path)
    async with doors.api as api:
        wish = {"prompt": "look", "schedule": "every 1h", "name": "look", "deliver": "fake:1"}
        made = await api.post("/api/jobs", wish)
        assert made.status == 200, made.data
        ident = made.json["job"]["id"]
        for count in (1, 2):
            assert (await api.post(f"/api/jobs/{ident}/run")).status == 200
            await doors.until(lambda count=count: len(doors.world.seen("1")) == count)  # type: ignore[misc]
        assert all(WHY in seen for seen in doors.world.seen("1")), doors.world.seen("1")
        assert not doors.model.requests, "another agent answered"


async def test_what_is_put_right_works_without_a_restart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    doors = Doors(tmp_path)
    async with doors.api as api:
        assert (await doors.chat()).status == 503
        doors.fault.unlink()
        assert (await doors.chat()).status == 503, "it is not tried again at once"
        monkeypatch.setattr(registry, "RETRY_SECONDS", 0.0)
        heard = await doors.chat()
        assert heard.status == 200, heard.data
        doors.world.write("hello")
        await doors.until(lambda: "answered" in "".join(doors.world.seen("1")))
        turns = await api.app.store.read(lambda tx: tx.sessions.find("", 10))
        assert turns == [], "the main agent has a conversation"
