"""The HTTP server of a gateway: its options, keys and webhook routes from the settings, its ports, and the
owner's socket.

The server is used when it was asked for or has a key. Without a key it is given a strong one, written to the
home's `.env`; with a weak one it is left closed and says why: the agent behind it runs commands."""

from __future__ import annotations

import asyncio
import ipaddress
import logging
import secrets
from collections.abc import Awaitable, Callable, Mapping
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hermes.app.accounts import declared_accounts
from hermes.domain.chats.address import read_platform, spell_platform
from hermes.domain.clock import Clock
from hermes.domain.errors import UserError
from hermes.domain.ids import MAIN_AGENT, AgentId
from hermes.domain.settings.declaring import Secret
from hermes.domain.settings.platforms import ApiKey, PlatformSettings
from hermes.domain.text import one_line
from hermes.entry.host import HostState
from hermes.entry.http.site import admission
from hermes.entry.http.site.endpoint import PLATFORM, Site
from hermes.entry.http.site.key_strength import LEAST_CHARS, WIDE_BITS, bits_of, is_guessable
from hermes.entry.http.webhooks import PLATFORM as WEBHOOKS
from hermes.execution.scripts import Scripts
from hermes.plugins import platform_manifests
from hermes.state.files.subscriptions import WebhookSubscriptions
from hermes.state.settings.loader import SECRETS_FILE, LoadedSettings
from hermes.state.settings.names import platform_variable
from hermes.state.settings.secrets import looks_like_placeholder

if TYPE_CHECKING:
    from hermes.entry.http.webhooks.receive import Webhooks
    from hermes.entry.http.webhooks.routes import WebhookRoute

log = logging.getLogger("hermes.app")
KEY = "API_SERVER_KEY"
DEFAULT_KEY = "default"
_TAKEN = (DEFAULT_KEY, "owner", "nobody")
_KEY_BYTES = 32
_NEW_KEY = f"python3 -c 'import secrets; print(secrets.token_urlsafe({_KEY_BYTES}))'"
DEFAULT_HOST = "127.0.0.1"
DEFAULT_PORT = 8644
DEFAULT_RATE = 30
"""Events a minute, for each route."""
DEFAULT_MAX_BODY = 1_048_576
DEFAULT_SCRIPT_SECONDS = 30
_MOST_LINES = 1 << 20
_NONE = PlatformSettings()


class AppHttp:
    """Opened with the gateway, closed with it. `tell` hears how it is, as of any platform."""

    def __init__(
        self,
        home: Path,
        loaded: LoadedSettings,
        environ: Mapping[str, str],
        tell: Callable[[str, HostState, str], None],
    ) -> None:
        self._home = home
        self._loaded = loaded
        self._tell = tell
        self._find = partial(_find, loaded, PLATFORM)
        self._webhooks = AppWebhooks(home, loaded, environ)
        self._server: Any = None
        self.address = ""
        self._webhook_address = ""
        self._opening = asyncio.Lock()

    @property
    def is_wanted(self) -> bool:
        block = self._block
        if block.enabled is not None:
            return block.enabled
        return bool(self._find(KEY)) or bool(block.keys)

    async def open(self, site: Site) -> None:
        """The owner's socket always, the port if it is wanted. What is wrong with the port stops nothing
        else."""
        from hermes.entry.http.server import HttpServer

        self._server = HttpServer(site, cache(partial(self._webhooks.make, site.clock)))
        try:
            await self._server.open_socket(self._home, self._loaded.variables)
        except UserError as error:
            # Without it nobody can attach to this gateway; everything else works.
            log.error("http.no_socket why=%s", error)
        if self.is_wanted:
            self.address = await self._opened(PLATFORM, "closed", site.options.host, self._open_port(site))
        await self.open_webhooks()

    async def open_webhooks(self) -> str:
        """Where webhooks come in, empty if nowhere. Their own port is opened as soon as there is a reason
        to."""
        async with self._opening:
            if self._webhook_address or self._webhooks.is_off:
                return self._webhook_address
            if not await asyncio.to_thread(self._webhooks.wants_port):
                return self.address
            host, port = self._webhooks.host, self._webhooks.port
            opening = self._server.open_webhooks(host, port)
            self._webhook_address = await self._opened(WEBHOOKS, "webhooks_closed", host, opening)
            return self._webhook_address or self.address

    async def _open_port(self, site: Site) -> int:
        keys = await asyncio.to_thread(self._keys)
        port: int = await self._server.open_port(admission.Keyring(keys, site.clock.monotonic))
        return port

    async def _opened(self, platform: str, closed: str, host: str, opening: Awaitable[int]) -> str:
        """Wait for a port and report it: its address, or nothing if it stays closed."""
        try:
            address = f"http://{_host(host)}:{await opening}"
        except UserError as error:
            log.error("http.%s why=%s", closed, error)
            self._tell(platform, HostState.PARKED, str(error))
            return ""
        self._tell(platform, HostState.CONNECTED, address)
        return address

    def drain(self) -> None:
        if self._server is not None:
            self._server.drain()

    async def close(self) -> None:
        if self._server is not None:
            await self._server.close()

    @property
    def _block(self) -> PlatformSettings:
        return self._loaded.settings.platforms.get(PLATFORM, _NONE)

    @property
    def _is_wide(self) -> bool:
        return not admission.is_loopback(self.options().host)

    def options(self) -> admission.HttpOptions:
        default = admission.HttpOptions()

        def text(name: str) -> str:
            return self._find(platform_variable(PLATFORM, name))

        def number(name: str, fallback: float) -> int:
            return _number(platform_variable(PLATFORM, name), text(name), int(fallback))

        # The rest is for chats and jobs, and for other keys.
        most = number("max_concurrent_runs", self._loaded.settings.gateway.max_running * 3 // 4 or 1)
        return admission.HttpOptions(
            host=text("host") or default.host,
            port=number("port", default.port),
            origins=_words(text("cors_origins")),
            hosts=_words(text("allowed_hosts")),
            model_name=text("model_name"),
            max_runs=most,
            max_runs_per_client=number("max_runs_per_client", most * 5 // 6 or 1),
            max_body=number("max_body_bytes", default.max_body),
            proxies=_networks(text("trusted_proxies")),
            max_connections=number("max_connections", default.max_connections),
            idle_seconds=number("idle_timeout", default.idle_seconds),
            body_seconds=number("body_timeout", default.body_seconds),
            private_images=text("allow_private_images").lower() == "true",
            finish_when_gone=text("on_disconnect") == "finish",
            approval_items=_asks_with_items(text("approval_requests")),
        )

    def key_problem(self) -> str:
        """Why the server would stay closed, as far as its keys tell; one that is still to be made is fine."""
        if not self.is_wanted or not (self._find(KEY) or self._block.keys):
            return ""
        try:
            self._keys()
        except UserError as error:
            return str(error)
        return ""

    def _keys(self) -> list[admission.HttpKey]:
        """All keys, each strong enough. May write one: call it off the loop."""
        keys = [self._named_key(name, key) for name, key in sorted(self._block.keys.items())]
        own = self._find(KEY)
        if not own and not keys:
            from hermes.state.settings.by_key import set_setting  # rarely needed, and large

            own = secrets.token_urlsafe(_KEY_BYTES)
            set_setting(self._home, KEY, own)
            self._loaded.secrets.learn(own)
            log.warning("http.key_made: a new API_SERVER_KEY is in %s", self._home / SECRETS_FILE)
        if own:
            check_key(KEY, own, wide=self._is_wide)
            keys.insert(
                0, admission.HttpKey(secret=Secret(own), principal=admission.Principal(name=DEFAULT_KEY))
            )
        return keys

    def _named_key(self, name: str, settings: ApiKey) -> admission.HttpKey:
        secret = settings.key or Secret(self._find(platform_variable(PLATFORM, f"keys_{name}_key")))
        check_key(f"platforms.{PLATFORM}.keys.{name}", secret.reveal(), wide=self._is_wide)
        if name in _TAKEN:
            raise UserError(f"“{name}” is not a valid key name.", hint="Give it another name.")
        principal = admission.Principal(
            name=name,
            # What stands for a list that could not be read names no scope and no agent.
            scopes=frozenset(
                admission.KeyScope(scope) for scope in settings.scopes if scope in admission.ALL_SCOPES
            ),
            agents=None if settings.agents is None else frozenset(map(AgentId, settings.agents)),
            max_runs=settings.max_runs,
        )
        return admission.HttpKey(secret=secret, principal=principal)


def check_key(name: str, key: str, *, wide: bool = False) -> None:
    if is_guessable(key) or looks_like_placeholder(key):
        why = f"it needs at least {LEAST_CHARS} characters that nobody can guess"
    elif wide and bits_of(key) < WIDE_BITS:
        why = "a server that others can reach needs a key that a program made"
    else:
        return
    raise UserError(f"{name} is too weak: {why}.", hint=f"Set a new one: {_NEW_KEY}")


def _find(loaded: LoadedSettings, platform: str, variable: str) -> str:
    secret = loaded.find(platform, variable)
    return "" if secret is None else secret.reveal().strip()


def _words(text: str) -> tuple[str, ...]:
    return tuple(word.strip() for word in text.replace("\n", ",").split(",") if word.strip())


def _asks_with_items(given: str) -> bool:
    if given not in ("", "items", "words"):
        raise UserError(
            f"“{given[:40]}” is no way to ask for approvals.",
            hint=f"Set platforms.{PLATFORM}.approval_requests to items or words.",
        )
    return given != "words"


def _number(name: str, text: str, default: int) -> int:
    if not text:
        return default
    if not (text.isascii() and text.isdigit()):
        raise UserError(f"{name} must be a number, not “{text[:40]}”.")
    return int(text)


def _networks(text: str) -> tuple[admission.Network, ...]:
    try:
        return tuple(ipaddress.ip_network(word, strict=False) for word in _words(text))
    except ValueError as error:
        raise UserError(
            f"trusted_proxies must hold addresses or networks ({error}).", hint="For example: 10.0.0.0/8"
        ) from error


def _host(host: str) -> str:
    try:
        return f"[{host}]" if ipaddress.ip_address(host).version == 6 else host
    except ValueError:
        return host


class AppWebhooks:
    """What an operator said of webhooks, and what is made of it."""

    def __init__(self, home: Path, loaded: LoadedSettings, environ: Mapping[str, str]) -> None:
        self._home = home
        self._loaded = loaded
        self._find = partial(_find, loaded, WEBHOOKS)
        self._scripts = Scripts(home, environ)
        self._subscriptions = WebhookSubscriptions(home)
        self._block = loaded.settings.platforms.get(WEBHOOKS, _NONE)
        self.static = static_routes(loaded)

    @property
    def is_off(self) -> bool:
        return self._block.enabled is False

    def wants_port(self) -> bool:
        """Whether webhooks get a port of their own: asked for, or there are routes. The API's port takes them
        too, but their address must not change when that is opened. Looks at the file of subscriptions: call
        it off the loop."""
        if self.is_off:
            return False
        if self._find("WEBHOOK_PORT") or self._block.extra.get("port"):
            return True
        return bool(self._block.enabled or self.static or self._subscriptions.read())

    @property
    def host(self) -> str:
        return self._find("WEBHOOK_HOST") or DEFAULT_HOST

    @property
    def port(self) -> int:
        return self._number("WEBHOOK_PORT", DEFAULT_PORT)

    @property
    def address(self) -> str:
        """Where a gateway that starts now takes what comes on a route; empty if nowhere."""
        return "" if self.is_off else f"http://{_host(self.host)}:{self.port}"

    def make(self, clock: Clock) -> Webhooks | None:
        """Nothing where webhooks are switched off."""
        if self.is_off:
            return None
        from hermes.entry.http.webhooks.receive import RateLimiter, Webhooks
        from hermes.entry.http.webhooks.routes import RouteTable

        for name, problem in route_problems(self._loaded, self.static).items():
            log.warning("webhook.broken_route route=%s: %s", name, problem)
        return Webhooks(
            routes=RouteTable(self.static, self._subscriptions.read, shared_secret(self._loaded)),
            read_lines=self._lines,
            run_script=self._run,
            rates=RateLimiter(self._number("WEBHOOK_RATE_LIMIT", DEFAULT_RATE), clock.monotonic),
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

    def _number(self, variable: str, default: int) -> int:
        text = self._find(variable)
        if text and not (text.isascii() and text.isdigit()):
            log.warning("webhook.setting %s must be a whole number; it counts as %d", variable, default)
            return default
        return int(text) if text else default


def shared_secret(loaded: LoadedSettings) -> Secret:
    """The secret of routes that have none of their own."""
    return loaded.find(WEBHOOKS, "WEBHOOK_SECRET") or Secret("")


def route_problems(loaded: LoadedSettings, routes: Mapping[str, WebhookRoute]) -> dict[str, str]:
    """What keeps a route from doing what it says, by its name: a mistake in it, an agent or a platform that
    is not there."""
    accounts = {
        account.name for account in declared_accounts(platform_manifests(), loaded) if account.enabled
    }
    wrong: dict[str, str] = {}
    for name, route in routes.items():
        to = spell_platform(*read_platform(route.platform)) if route.platform else ""
        if route.problem:
            wrong[name] = route.problem
        elif route.agent and route.agent != MAIN_AGENT and AgentId(route.agent) not in loaded.settings.agents:
            wrong[name] = f"there is no agent “{one_line(route.agent, 64)}”."
        elif to == "github" and to not in accounts:
            wrong[name] = "github_comment needs GITHUB_TOKEN, or GITHUB_ENABLED=true and the gh command."
        elif to and to not in accounts:
            wrong[name] = f"{one_line(to, 64)} is not set up here, so no answer can go there."
    return wrong


def static_routes(loaded: LoadedSettings) -> dict[str, WebhookRoute]:
    block = loaded.settings.platforms.get(WEBHOOKS, _NONE)
    routes = block.trees.get("routes")
    if routes is None:
        return {}
    from hermes.entry.http.webhooks.routes import read_routes  # large, and rarely needed

    return read_routes(routes, shared_secret(loaded))
