"""An authorization server as a fake: device codes by RFC 8628, tokens by RFC 6749, in its plain dialect or in
that of OpenAI's account server.

Refresh tokens rotate: each is good for one use, and a second use of one ends the whole login, as RFC 9700
(4.14.2) advises and as Nous and OpenAI do (`refresh_token_reused`). `decide` is what the person says."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass, field
from typing import Any, Self

from aiohttp import web

from hermes.agent.models.login.services import DeviceLogin

_CLIENT = "test-client"


@dataclass
class FakeLoginServer:
    """`polls` are the answers to questions for a token before the person has decided; `rotates` says whether
    a refresh gives another refresh token; `fails` answers the next refreshes with these statuses."""

    codex: bool = False
    decide: str = "yes"
    interval: int = 1
    polls: list[str] = field(default_factory=list)
    rotates: bool = True
    fails: list[int] = field(default_factory=list)
    slow: float = 0.0
    lives: int = 3600
    refreshes: int = 0
    refreshing: asyncio.Event = field(default_factory=asyncio.Event)
    asked: list[dict[str, str]] = field(default_factory=list)
    at: list[float] = field(default_factory=list)
    good: set[str] = field(default_factory=set)
    used: set[str] = field(default_factory=set)
    url: str = ""
    _given: int = 0
    _runner: web.AppRunner | None = None

    async def __aenter__(self) -> Self:
        app = web.Application()
        app.router.add_post("/code", self._code)
        app.router.add_post("/poll", self._poll)
        app.router.add_post("/token", self._token)
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=1.0)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", 0).start()
        self.url = f"http://127.0.0.1:{self._runner.addresses[0][1]}"
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._runner is not None
        await self._runner.cleanup()
        await asyncio.sleep(0)

    def login(self, provider: str, *, header: str = "") -> DeviceLogin:
        dialect: dict[str, Any] = {}
        if self.codex:
            dialect = {
                "poll_url": f"{self.url}/poll",
                "verification_url": "https://login.test/device",
                "redirect_uri": "https://login.test/callback",
            }
        return DeviceLogin(
            provider=provider,
            title="The test login",
            code_url=f"{self.url}/code",
            token_url=f"{self.url}/token",
            client_id=_CLIENT,
            scope="" if self.codex else "talk",
            refresh_header=header,
            source="RFC 8628",
            **dialect,
        )

    def tokens(self) -> dict[str, Any]:
        """A new login, as if somebody had logged in."""
        self._given += 1
        self.good = {f"refresh-{self._given}"}
        return self._answer(f"refresh-{self._given}")

    def _answer(self, refresh: str) -> dict[str, Any]:
        shown = {"refresh_token": refresh} if refresh else {}
        return {
            "access_token": f"access-{self._given}",
            "expires_in": self.lives,
            "token_type": "Bearer",
        } | shown

    async def _code(self, request: web.Request) -> web.Response:
        given = await self._read(request)
        if given.get("client_id") != _CLIENT:
            return _error("invalid_client", 401)
        if self.codex:
            # github.com/openai/codex: codex-rs/login/src/device_code_auth.rs (the interval is a text)
            answer = {"device_auth_id": "device-1", "user_code": "ABCD-EFGH", "interval": str(self.interval)}
            return web.json_response(answer)
        return web.json_response(
            {
                "device_code": "device-1",
                "user_code": "WDJB-MJHT",
                "verification_uri": "https://login.test/device",
                "verification_uri_complete": "https://login.test/device?user_code=WDJB-MJHT",
                "expires_in": 900,
                "interval": self.interval,
            }
        )

    async def _poll(self, request: web.Request) -> web.Response:
        given = await self._read(request)
        self.at.append(time.monotonic())
        if given != {"device_auth_id": "device-1", "user_code": "ABCD-EFGH"}:
            return _error("invalid_request")
        if self.polls:
            return web.Response(status=int(self.polls.pop(0)))
        return web.json_response(
            {"authorization_code": "code-1", "code_challenge": "c", "code_verifier": "verifier-1"}
        )

    async def _token(self, request: web.Request) -> web.Response:
        given = await self._read(request)
        match given.get("grant_type"):
            case "urn:ietf:params:oauth:grant-type:device_code":
                return self._by_device(given)
            case "authorization_code":
                right = (given.get("code"), given.get("code_verifier")) == ("code-1", "verifier-1")
                return web.json_response(self.tokens()) if right else _error("invalid_grant")
            case "refresh_token":
                return await self._by_refresh(given)
            case _:
                return _error("unsupported_grant_type")

    def _by_device(self, given: dict[str, str]) -> web.Response:
        self.at.append(time.monotonic())
        if given.get("device_code") != "device-1":
            return _error("invalid_grant")
        if self.polls:
            return _error(self.polls.pop(0))
        return web.json_response(self.tokens()) if self.decide == "yes" else _error(self.decide)

    async def _by_refresh(self, given: dict[str, str]) -> web.Response:
        self.refreshes += 1
        self.refreshing.set()
        refresh = given.get("refresh_token", "")
        if self.fails:
            return web.Response(status=self.fails.pop(0), text="<html>no</html>")
        if refresh in self.used:
            self.good = set()
            return _error("refresh_token_reused")
        if refresh not in self.good:
            return _error("invalid_grant")
        self._given += 1
        following = ""
        if self.rotates:
            self.used.add(refresh)
            following = f"refresh-{self._given}"
            self.good = {following}
        await asyncio.sleep(self.slow)
        return web.json_response(self._answer(following))

    async def _read(self, request: web.Request) -> dict[str, str]:
        is_json = request.content_type == "application/json"
        given = {
            str(k): str(v) for k, v in (await request.json() if is_json else await request.post()).items()
        }
        if "x-refresh" in request.headers:
            given["refresh_token"] = request.headers["x-refresh"]
        self.asked.append(given)
        return given


def _error(name: str, status: int = 400) -> web.Response:
    return web.json_response({"error": name, "error_description": "as the test wants it"}, status=status)
