"""The HTTP door of a gateway: its options and keys from the settings, its server, and the owner's socket.

The server is used when it was asked for or has a key. Without a key it is given a strong one, written to the
home's `.env`; with a weak one it is left closed and says why: the agent behind it runs commands."""

from __future__ import annotations

import asyncio
import ipaddress
import logging
import secrets
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from hermes.app.webhooks import AppWebhooks
from hermes.domain.errors import UserError
from hermes.domain.ids import AgentId
from hermes.domain.settings.declaring import Secret
from hermes.domain.settings.platforms import ApiKey, PlatformSettings
from hermes.entry.host import HostState
from hermes.entry.http.site.admission import ALL_SCOPES, HttpKey, Keyring, KeyScope, Principal
from hermes.entry.http.site.call import PLATFORM, HttpOptions, Site
from hermes.entry.http.site.key_strength import LEAST_CHARS, WIDE_BITS, bits_of, is_guessable, is_loopback
from hermes.entry.http.webhooks.receive import PLATFORM as WEBHOOKS
from hermes.state.settings.loader import SECRETS_FILE, LoadedSettings
from hermes.state.settings.names import platform_variable
from hermes.state.settings.reader import looks_like_placeholder
from hermes.state.settings.write import set_setting

log = logging.getLogger("hermes.app")
KEY = "API_SERVER_KEY"
DEFAULT_KEY = "default"
_TAKEN = (DEFAULT_KEY, "owner", "nobody")
_KEY_BYTES = 32
_NEW_KEY = f"python3 -c 'import secrets; print(secrets.token_urlsafe({_KEY_BYTES}))'"
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
        self._webhooks = AppWebhooks(home, loaded, environ)
        self._server: Any = None
        self.address = ""

    @property
    def is_wanted(self) -> bool:
        block = self._block
        if block.enabled is not None:
            return block.enabled
        return bool(self._find(KEY)) or bool(block.keys)

    async def open(self, door: Site) -> None:
        """The owner's socket always, the port if it is wanted. What is wrong with the port stops nothing
        else."""
        from hermes.entry.http.server import HttpServer

        self._server = HttpServer(replace(door, webhooks=self._webhooks.make(door.clock)))
        try:
            await self._server.open_socket(self._home, self._loaded.variables)
        except UserError as error:
            # Without it nobody can attach to this gateway; everything else works.
            log.error("http.no_socket why=%s", error)
        if self.is_wanted:
            await self._open_port(door)
        if await asyncio.to_thread(self._webhooks.wants_port, bool(self.address)):
            await self._open_webhooks()

    async def _open_port(self, door: Site) -> None:
        try:
            keys = await asyncio.to_thread(self._keys)
            port = await self._server.open_port(Keyring(keys, door.clock.monotonic))
        except UserError as error:
            log.error("http.closed why=%s", error)
            self._tell(PLATFORM, HostState.PARKED, str(error))
            return
        self.address = f"http://{_host(door.options.host)}:{port}"
        self._tell(PLATFORM, HostState.CONNECTED, self.address)

    async def _open_webhooks(self) -> None:
        try:
            port = await self._server.open_webhooks(self._webhooks.host, self._webhooks.port)
        except UserError as error:
            log.error("http.webhooks_closed why=%s", error)
            self._tell(WEBHOOKS, HostState.PARKED, str(error))
            return
        self._tell(WEBHOOKS, HostState.CONNECTED, f"http://{_host(self._webhooks.host)}:{port}")

    def drain(self) -> None:
        if self._server is not None:
            self._server.drain()

    async def close(self) -> None:
        if self._server is not None:
            await self._server.close()

    # --- settings ---

    @property
    def _block(self) -> PlatformSettings:
        return self._loaded.settings.platforms.get(PLATFORM, _NONE)

    def _find(self, variable: str) -> str:
        found = self._loaded.find(PLATFORM, variable)
        return "" if found is None else found.reveal().strip()

    @property
    def _is_wide(self) -> bool:
        return not is_loopback(self.options().host)

    def options(self) -> HttpOptions:
        known = HttpOptions()
        extra = self._block.extra
        return HttpOptions(
            host=self._find("API_SERVER_HOST") or known.host,
            port=_number("API_SERVER_PORT", self._find("API_SERVER_PORT"), known.port),
            origins=_words(self._find("API_SERVER_CORS_ORIGINS")),
            hosts=_words(extra.get("allowed_hosts", "")),
            model_name=self._find("API_SERVER_MODEL_NAME"),
            max_open=_number("max_concurrent_runs", extra.get("max_concurrent_runs", ""), known.max_open),
            max_body=_number("max_body_bytes", extra.get("max_body_bytes", ""), known.max_body),
            private_images=extra.get("allow_private_images", "").lower() == "true",
            finish_when_gone=extra.get("on_disconnect", "stop") == "finish",
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

    def _keys(self) -> list[HttpKey]:
        """All keys, each strong enough. May write one: call it off the loop."""
        keys = [self._named_key(name, key) for name, key in sorted(self._block.keys.items())]
        own = self._find(KEY)
        if not own and not keys:
            own = secrets.token_urlsafe(_KEY_BYTES)
            set_setting(self._home, KEY, own)
            self._loaded.secrets.learn(own)
            log.warning("http.key_made: a new API_SERVER_KEY is in %s", self._home / SECRETS_FILE)
        if own:
            check_key(KEY, own, wide=self._is_wide)
            keys.insert(0, HttpKey(secret=Secret(own), principal=Principal(name=DEFAULT_KEY)))
        return keys

    def _named_key(self, name: str, said: ApiKey) -> HttpKey:
        secret = said.key or Secret(self._find(platform_variable(PLATFORM, f"keys_{name}_key")))
        check_key(f"platforms.{PLATFORM}.keys.{name}", secret.reveal(), wide=self._is_wide)
        if name in _TAKEN:
            raise UserError(f"“{name}” is not a valid key name.", hint="Give it another name.")
        principal = Principal(
            name=name,
            # What stands for a list that could not be read names no scope and no agent.
            scopes=frozenset(KeyScope(scope) for scope in said.scopes if scope in ALL_SCOPES),
            agents=None if said.agents is None else frozenset(map(AgentId, said.agents)),
        )
        return HttpKey(secret=secret, principal=principal)


def check_key(name: str, key: str, *, wide: bool = False) -> None:
    if is_guessable(key) or looks_like_placeholder(key):
        why = f"it needs at least {LEAST_CHARS} characters that nobody can guess"
    elif wide and bits_of(key) < WIDE_BITS:
        why = "a server that others can reach needs a key that a program made"
    else:
        return
    raise UserError(f"{name} is too weak: {why}.", hint=f"Set a new one: {_NEW_KEY}")


def _words(text: str) -> tuple[str, ...]:
    return tuple(word.strip() for word in text.replace("\n", ",").split(",") if word.strip())


def _number(name: str, text: str, default: int) -> int:
    if not text:
        return default
    if not (text.isascii() and text.isdigit()):
        raise UserError(f"{name} must be a number, not “{text[:40]}”.")
    return int(text)


def _host(host: str) -> str:
    try:
        return f"[{host}]" if ipaddress.ip_address(host).version == 6 else host
    except ValueError:
        return host
