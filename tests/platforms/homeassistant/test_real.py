"""The adapter against a real Home Assistant, where one is installed: it wants a newer Python than we do.

uv venv --python 3.13 /tmp/ha && uv pip install --python /tmp/ha/bin/python homeassistant==2025.4.4
REAL_HASS=/tmp/ha/bin/hass ./test --all tests/platforms/homeassistant/test_real.py
"""

from __future__ import annotations

import asyncio
import os
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp
import pytest

from hermes.domain.chats.address import Address
from hermes.domain.chats.message import Body
from hermes.domain.errors import NeedsLogin, Refused, UserError
from hermes.execution.house.home_assistant import HomeAssistantHouse
from hermes.testing.platform_suite import Inboxes, running, until
from hermes.testing.ports import free_port
from tests.platforms.homeassistant.bed import HomeBed

HASS = os.environ.get("REAL_HASS", "")
pytestmark = [
    pytest.mark.server,
    pytest.mark.xdist_group("foreign"),
    pytest.mark.skipif(not HASS, reason="REAL_HASS names no Home Assistant"),
]
CONFIG = """
http: {{server_host: 127.0.0.1, server_port: {port}}}
api:
auth:
websocket_api:
persistent_notification:
input_boolean:
  door: {{name: Front door}}
"""


@asynccontextmanager
async def home(folder: Path) -> AsyncIterator[tuple[str, str]]:
    """A Home Assistant with one user; its address and a token."""
    port = free_port()
    (folder / "configuration.yaml").write_text(CONFIG.format(port=port))
    # It fetches packages of its parts when it starts for the first time.
    kept = {name: value for name, value in os.environ.items() if name.startswith(("UV_", "SSL_", "HTTPS_"))}
    path = f"{Path(HASS).parent}:{os.environ['PATH']}"
    environ = {**kept, "UV_NATIVE_TLS": "true", "PATH": path, "HOME": str(folder)}
    quiet = {"stdout": asyncio.subprocess.DEVNULL, "stderr": asyncio.subprocess.DEVNULL}
    process = await asyncio.create_subprocess_exec(HASS, "-c", str(folder), env=environ, **quiet)
    url = f"http://127.0.0.1:{port}"
    try:
        async with asyncio.timeout(500), aiohttp.ClientSession() as session:
            while True:
                try:
                    async with session.get(f"{url}/api/onboarding") as response:
                        if response.status == 200:
                            break
                except aiohttp.ClientError:
                    pass
                await asyncio.sleep(0.5)
            yield url, await log_in(session, url)
    finally:
        process.kill()
        await process.wait()
        shutil.rmtree(folder, ignore_errors=True)


async def log_in(session: aiohttp.ClientSession, url: str) -> str:
    """Make the first user, who is its owner."""
    client = {"client_id": f"{url}/"}
    user = {"name": "Ann", "username": "ann", "password": "secret-1", "language": "en"}
    async with session.post(f"{url}/api/onboarding/users", json=client | user) as response:
        code = (await response.json())["auth_code"]
    form = {**client, "grant_type": "authorization_code", "code": code}
    async with session.post(f"{url}/auth/token", data=form) as response:
        token: str = (await response.json())["access_token"]
    return token


async def test_a_real_home_assistant(tmp_path: Path) -> None:
    folder = tmp_path / "home"
    folder.mkdir()
    async with home(folder) as (url, token), aiohttp.ClientSession() as session:
        bed = HomeBed()
        bed.folder = tmp_path / "kept"
        bed.said |= {"HASS_URL": url, "HASS_TOKEN": token, "HASS_WATCH_DOMAINS": "input_boolean"}
        headers = {"Authorization": f"Bearer {token}"}

        async def post(path: str, data: dict[str, str]) -> None:
            async with session.post(f"{url}/api/{path}", json=data, headers=headers) as response:
                assert response.status == 200, await response.text()

        assert "2025.4.4" in (await bed.connect().check())[0].text
        inboxes, platform = Inboxes(), bed.connect()
        platform.ping_seconds = 0.2
        async with running(platform, inboxes.accept, None) as task:
            await until(lambda: inboxes.batches > 1 or task.done(), "no sign of life")
            assert not task.done(), task.exception()
            await post("events/hermes_message", {"text": "Is the door shut?", "chat": "voice", "user": "ann"})
            await until(lambda: inboxes.texts == ["Is the door shut?"], lambda: f"it heard {inboxes.texts}")
            await post("services/input_boolean/turn_on", {"entity_id": "input_boolean.door"})
            await until(lambda: len(inboxes.items) == 2, "the door is not told of")
            expected = "[Home Assistant] Front door (input_boolean.door) changed from off to on."
            assert inboxes.items[1].text == expected

            async def say(chat: str, text: str) -> None:
                to = Address(platform="homeassistant", chat=chat)
                await platform.send(to, Body(text=text), key=f"key of {text}", reply_to=None)

            await say("events", "noted")
            await say("voice", "it is open")
            with pytest.raises(Refused):
                await say("notify.nobody", "x")
        async with session.ws_connect(f"{url}/api/websocket") as socket:
            await socket.receive_json()
            await socket.send_json({"type": "auth", "access_token": token})
            await socket.receive_json()
            await socket.send_json({"id": 1, "type": "persistent_notification/get"})
            shown = (await socket.receive_json())["result"]
            await socket.send_json(
                {
                    "id": 2,
                    "type": "homeassistant/expose_entity",
                    "assistants": ["conversation"],
                    "entity_ids": ["input_boolean.door"],
                    "should_expose": True,
                }
            )
            assert (await socket.receive_json())["success"]
        assert ("Hermes", "noted") in [(one["title"], one["message"]) for one in shown]
        house = HomeAssistantHouse(lambda: url, lambda: token)
        entities = {one.id: one.state for one in await house.entities()}
        assert entities["input_boolean.door"] == "on" and "sun.sun" not in entities
        assert (await house.act("input_boolean.door", "turn_off", {})).state == "off"
        with pytest.raises(UserError, match="exposed"):
            await house.act("sun.sun", "turn_off", {})
        with pytest.raises(UserError, match="refuses"):
            await house.act("input_boolean.door", "explode", {})
        bed.said["HASS_TOKEN"] = "wrong"
        with pytest.raises(NeedsLogin, match="HASS_TOKEN"):
            await bed.connect().run(inboxes.accept, None)
        with pytest.raises(NeedsLogin, match="HASS_TOKEN"):
            await bed.connect().check()
