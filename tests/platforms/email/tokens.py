"""Who gives tokens (RFC 6749, RFC 8628), and who is asked about them: dovecot asks whose a token is."""

from __future__ import annotations

import itertools
from typing import Any
from urllib.parse import urlencode

from aiohttp import web

from tests.platforms.email.offices import ADDRESS

CLIENT, SECRET = "client-1", "hush"


class TokenServer:
    def __init__(self) -> None:
        self.port = 0
        self.refresh = "refresh-1"
        self.rotates = False
        self.life: Any = 3600
        self.valid: set[str] = set()
        """The access tokens that count."""
        self.asked: list[dict[str, str]] = []
        self.answers: list[tuple[int, Any]] = []
        """What is answered instead, first come first served."""
        self.decided = False
        self._numbers = itertools.count(1)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    async def up(self, port: int = 0) -> None:
        app = web.Application()
        app.router.add_post("/token", self._token)
        app.router.add_post("/devicecode", self._device)
        app.router.add_get("/consent", self._consent)
        app.router.add_get("/tokeninfo", self._whose)
        self._runner = web.AppRunner(app)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", port).start()
        self.port = self._runner.addresses[0][1]

    async def down(self) -> None:
        await self._runner.cleanup()

    async def __aenter__(self) -> TokenServer:
        await self.up()
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.down()

    def give(self) -> dict[str, Any]:
        token = f"access-{next(self._numbers)}"
        self.valid.add(token)
        told: dict[str, Any] = {"access_token": token, "token_type": "Bearer", "expires_in": self.life}
        if self.rotates:
            self.refresh = told["refresh_token"] = f"refresh-{token}"
        return told

    async def _token(self, request: web.Request) -> web.Response:
        asked = {str(name): str(value) for name, value in (await request.post()).items()}
        self.asked.append(asked)
        if self.answers:
            status, told = self.answers.pop(0)
            return (
                web.Response(status=status, text=told)
                if isinstance(told, str)
                else web.json_response(told, status=status)
            )
        if asked.get("client_id") != CLIENT or asked.get("client_secret", SECRET) != SECRET:
            return web.json_response({"error": "invalid_client"}, status=401)
        match asked.get("grant_type"):
            case "refresh_token" if asked.get("refresh_token") == self.refresh:
                return web.json_response(self.give())
            case "authorization_code" if asked.get("code") == "code-1" and asked.get("code_verifier"):
                return web.json_response(self.give() | {"refresh_token": self.refresh})
            case "urn:ietf:params:oauth:grant-type:device_code" if asked.get("device_code") == "device-1":
                if not self.decided:
                    return web.json_response({"error": "authorization_pending"}, status=400)
                return web.json_response(self.give() | {"refresh_token": self.refresh})
        told = {"error": "invalid_grant", "error_description": "Token has been expired or revoked."}
        return web.json_response(told, status=400)

    async def _device(self, request: web.Request) -> web.Response:
        self.asked.append({str(name): str(value) for name, value in (await request.post()).items()})
        return web.json_response(
            {
                "device_code": "device-1",
                "user_code": "ABCD-EFGH",
                "verification_uri": "https://example.org/device",
                "expires_in": 900,
                "interval": 0,
            }
        )

    async def _consent(self, request: web.Request) -> web.Response:
        """The person says yes, and the browser goes back to who asked."""
        self.asked.append(dict(request.query))
        back = urlencode({"code": "code-1", "state": request.query["state"]})
        raise web.HTTPFound(f"{request.query['redirect_uri']}?{back}")

    async def _whose(self, request: web.Request) -> web.Response:
        if request.query.get("access_token") not in self.valid:
            return web.json_response({"error": "invalid_token"}, status=400)
        return web.json_response({"email": ADDRESS, "expires_in": 100})
