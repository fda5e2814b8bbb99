"""The webhooks of a gateway: options and routes, from the settings and from the file of subscriptions."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from pathlib import Path

from hermes.domain.clock import Clock
from hermes.domain.settings.declaring import Secret
from hermes.domain.settings.platforms import PlatformSettings
from hermes.entry.http.webhooks.receive import PLATFORM, RateLimiter, Webhooks
from hermes.entry.http.webhooks.routes import RouteTable, WebhookRoute, problems, read_routes
from hermes.execution.scripts import Scripts
from hermes.state.files.subscriptions import WebhookSubscriptions
from hermes.state.settings.loader import LoadedSettings

log = logging.getLogger("hermes.app")
DEFAULT_HOST = "127.0.0.1"
DEFAULT_PORT = 8644
DEFAULT_RATE = 30
"""Events a minute, for each route."""
DEFAULT_MAX_BODY = 1_048_576
DEFAULT_SCRIPT_SECONDS = 30
_MOST_LINES = 1 << 20
_NONE = PlatformSettings()


class AppWebhooks:
    """What an operator said of webhooks, and what is made of it."""

    def __init__(self, home: Path, loaded: LoadedSettings, environ: Mapping[str, str]) -> None:
        self._home = home
        self._loaded = loaded
        self._scripts = Scripts(home, environ)
        self._subscriptions = WebhookSubscriptions(home)
        self._block = loaded.settings.platforms.get(PLATFORM, _NONE)
        self.static = static_routes(loaded)

    @property
    def is_off(self) -> bool:
        return self._block.enabled is False

    def wants_port(self, served: bool) -> bool:
        """Whether webhooks get a port of their own: asked for, or there are routes and no server beside.
        Looks at the file of subscriptions: call it off the loop."""
        if self.is_off:
            return False
        if self._find("WEBHOOK_PORT") or self._block.extra.get("port"):
            return True
        asked = bool(self._block.enabled or self.static or self._subscriptions.read())
        return asked and not served

    @property
    def host(self) -> str:
        return self._find("WEBHOOK_HOST") or DEFAULT_HOST

    @property
    def port(self) -> int:
        return self._number("WEBHOOK_PORT", DEFAULT_PORT)

    def make(self, clock: Clock) -> Webhooks | None:
        """Nothing where webhooks are switched off."""
        if self.is_off:
            return None
        for problem in problems(self.static):
            log.warning("webhook.broken_route %s", problem)
        rate = self._number("WEBHOOK_RATE_LIMIT", DEFAULT_RATE)
        return Webhooks(
            routes=RouteTable(self.static, self._subscriptions.read, shared_secret(self._loaded)),
            read_lines=self._lines,
            run_script=self._run,
            rates=RateLimiter(rate, clock.monotonic),
            max_body=self._number("WEBHOOK_MAX_BODY_BYTES", DEFAULT_MAX_BODY),
            script_seconds=self._number("WEBHOOK_SCRIPT_TIMEOUT_SECONDS", DEFAULT_SCRIPT_SECONDS),
        )

    async def _run(self, name: str, data: bytes, timeout: float) -> tuple[int | None, bytes]:
        end = await self._scripts.run(name, data, timeout)
        return end.code, end.output

    def _lines(self, name: str) -> frozenset[str]:
        with (self._home / name).open("rb") as file:
            text = file.read(_MOST_LINES).decode("utf-8", "replace")
        return frozenset(line for raw in text.splitlines() if (line := raw.strip()))

    def _find(self, variable: str) -> str:
        secret = self._loaded.find(PLATFORM, variable)
        return "" if secret is None else secret.reveal().strip()

    def _number(self, variable: str, default: int) -> int:
        text = self._find(variable)
        if text and not (text.isascii() and text.isdigit()):
            log.warning("webhook.setting %s must be a whole number; it counts as %d", variable, default)
            return default
        return int(text) if text else default


def shared_secret(loaded: LoadedSettings) -> Secret:
    """The secret of routes that have none of their own."""
    return loaded.find(PLATFORM, "WEBHOOK_SECRET") or Secret("")


def static_routes(loaded: LoadedSettings) -> dict[str, WebhookRoute]:
    block = loaded.settings.platforms.get(PLATFORM, _NONE)
    return read_routes(block.trees.get("routes"), shared_secret(loaded))
