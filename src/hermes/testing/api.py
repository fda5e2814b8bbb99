"""A whole gateway behind its HTTP door, on a free port of this machine: for journeys of API clients.

Start another over the same home to see it recover; `key` is what clients send."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

import aiohttp

from hermes.app.agents.ladder import SandboxProbes
from hermes.app.app import App
from hermes.app.overrides import AppOverrides
from hermes.domain.ports.agent import Provider
from hermes.domain.ports.platform import Platform
from hermes.domain.sse import SseEvent, SseParser
from hermes.domain.tools.tool import Tool
from hermes.entry.host import HostState
from hermes.testing.backends import fake_probes
from hermes.testing.model import ScriptedModel

KEY = "a key that nobody guesses"


@dataclass(frozen=True, slots=True, kw_only=True)
class Heard:
    """An answer, read to its end."""

    status: int
    headers: Mapping[str, str]
    data: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.data)


@dataclass(slots=True, kw_only=True)
class ApiWorld:
    """`async with ApiWorld(home=…) as api: await api.post("/v1/…", {…})`."""

    home: Path
    provider: Provider | None = field(default_factory=ScriptedModel)
    tools: tuple[Tool, ...] | None = None
    accounts: Mapping[str, Platform] | None = None
    environ: Mapping[str, str] = field(default_factory=dict)
    config: str = ""
    key: str = KEY
    probes: SandboxProbes | None = None
    """Which sandboxes work; none if nobody says. Commands run on this machine, unless `config` says something
    of `terminal`, or `environ` names another backend as TERMINAL_ENV (empty: the settings do)."""
    app: App = field(init=False)
    address: str = field(init=False, default="")
    platforms: dict[str, tuple[HostState, str]] = field(init=False, default_factory=dict)
    http: aiohttp.ClientSession = field(init=False)
    _living: asyncio.Task[None] = field(init=False)
    _running: asyncio.Event = field(init=False, default_factory=asyncio.Event)

    async def __aenter__(self) -> Self:
        self.home.mkdir(parents=True, exist_ok=True)
        if self.config:
            (self.home / "config.yaml").write_text(self.config, encoding="utf-8")
        environ = {
            "PATH": os.environ["PATH"],
            "HOME": str(self.home.parent),
            "HERMES_RESERVE_MB": "0",
            "API_SERVER_KEY": self.key,
            "API_SERVER_PORT": "0",
            "TERMINAL_ENV": "" if "terminal:" in self.config else "local",
            **self.environ,
        }
        given = AppOverrides(
            provider=self.provider,
            tools=self.tools,
            platforms=self.accounts,
            probes=self.probes or fake_probes(),
        )
        self.app = App(self.home, environ, given)
        self._living = asyncio.create_task(self.app.live(self._hear), name="gateway")
        waiting = asyncio.create_task(self._running.wait(), name="ready")
        await asyncio.wait((self._living, waiting), return_when=asyncio.FIRST_COMPLETED)
        waiting.cancel()
        if self._living.done():
            self._living.result()
        self.http = aiohttp.ClientSession(headers={"Authorization": f"Bearer {self.key}"})
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.http.close()
        self.app.stop()
        self.app.stop()
        await self._living

    # --- what the gateway tells ---

    def _hear(self, facts: Mapping[str, Any]) -> None:
        platforms = facts["platforms"].items()
        self.platforms = {name: (HostState(one["state"]), one["error_message"]) for name, one in platforms}
        if facts["gateway_state"] == "running":
            self.address = facts["api"]
            self._running.set()

    # --- asking ---

    async def get(self, path: str, **options: Any) -> Heard:
        return await self.ask("GET", path, **options)

    async def post(self, path: str, body: object = None, **options: Any) -> Heard:
        return await self.ask("POST", path, json=body, **options)

    async def ask(self, method: str, path: str, **options: Any) -> Heard:
        async with self.http.request(method, self.address + path, **options) as response:
            return Heard(status=response.status, headers=response.headers, data=await response.read())

    async def events(
        self, path: str, body: object = None, *, method: str = "POST", **options: Any
    ) -> AsyncIterator[SseEvent]:
        """The events of a stream as they come."""
        if body is not None:
            options["json"] = body
        parser = SseParser()
        async with self.http.request(method, self.address + path, **options) as response:
            assert response.status == 200, await response.text()
            async for data in response.content.iter_any():
                for event in parser.feed(data):
                    yield event
