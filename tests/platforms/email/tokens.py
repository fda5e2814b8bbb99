"""Who gives tokens (RFC 6749, RFC 8628), and who is asked about them: dovecot asks whose a token is."""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlencode

from aiohttp import web

from hermes.testing.served import Route, ServedFake
from tests.platforms.email.offices import ADDRESS

CLIENT, SECRET = "client-1", "hush"


@dataclass
class TokenServer(ServedFake):
    refresh: str = "refresh-1"
    rotates: bool = False
    life: Any = 3600
    valid: set[str] = field(default_factory=set)
    """The access tokens that count."""
    asked: list[dict[str, str]] = field(default_factory=list)
    answers: list[tuple[int, Any]] = field(default_factory=list)
    """What is answered instead, first come first served."""
    decided: bool = False
    _numbers: Any = field(default_factory=lambda: itertools.count(1))

    def routes(self) -> Iterable[Route]:
        yield "POST", "/token", self._token
        yield "POST", "/devicecode", self._device
        yield "GET", "/consent", self._consent
        yield "GET", "/tokeninfo", self._whose

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
