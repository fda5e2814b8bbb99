"""The gateway's ways out: the client for addresses from outside, and the proxy of sandboxes, both by the
settings of now. It lives as long as the gateway."""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING

from hermes.domain.errors import UserError
from hermes.domain.ids import AgentId
from hermes.domain.ports.world import OPEN_NETWORK, BackendRequest
from hermes.domain.settings.settings import SecuritySettings, Settings
from hermes.domain.text import one_line
from hermes.domain.word import replace
from hermes.execution.egress.broker import AgentBroker, BoundSecret
from hermes.execution.egress.client import EgressClient
from hermes.execution.egress.parts import EgressParts
from hermes.execution.egress.reach import Reach
from hermes.execution.egress.wire import Wire, check_proxy
from hermes.state.home.locks import runtime_folders
from hermes.state.home.wholefile import write_whole

if TYPE_CHECKING:
    from hermes.execution.egress.proxy import SandboxProxy

FOLDER = "egress"
_LONGEST = 85
"""The path of a socket has about a hundred bytes; its last two names take fifteen."""
_KEY_FILE = "broker.key"
_KEY_BYTES = 32
_MOST_LIST_BYTES = 10_000_000


class AppEgress:
    """`check` comes before settings count; afterwards they are asked for at each use."""

    def __init__(self, home: Path, environ: Mapping[str, str], settings: Callable[[], Settings]) -> None:
        self._home = home
        self._settings = settings
        self._reaches: list[tuple[SecuritySettings, Reach]] = []
        self._key = b""
        self.parts = EgressParts(reach=self._reach, wire=self._wire, broker=self._broker)
        self._folder = egress_folder(home, environ)
        self._pages: SandboxProxy | None = None

    @cached_property
    def proxy(self) -> SandboxProxy:
        """Loaded by the first sandbox that may reach some hosts."""
        from hermes.execution.egress.proxy import SandboxProxy

        return SandboxProxy(self._folder, self.parts)

    def check(self, settings: Settings) -> None:
        """A `UserError` if what settings say of the ways out cannot hold. Reads files, so it runs in a
        thread."""
        security = settings.security
        if security.egress_proxy:
            check_proxy(security.egress_proxy)
        if security.broker and not self._key:
            self._key = _read_key(self._home / FOLDER)
        self._reaches = [*self._reaches[-3:], (security, make_reach(self._home, security))]

    def client(self, agent: str = "") -> EgressClient:
        return EgressClient(self.parts, agent)

    async def pin_host(self, host: str, port: int) -> Sequence[str]:
        """The addresses of a host that a program of ours may connect to itself; `Refused` if it may not."""
        return await self._reach().pin(host, port)

    def lead_out(self, request: BackendRequest) -> BackendRequest:
        """A backend that may reach some hosts gets the way to them, and the placeholders of its agent."""
        if request.network.open or not request.network.hosts:
            return request
        agent: AgentId = request.profile.agent
        variables = self._broker(agent).variables
        return replace(
            request,
            open_egress=lambda: self.proxy.open(agent, request.network),
            environ={**request.environ, **variables},
            passthrough=(*request.passthrough, *variables),
        )

    async def browser_door(self) -> Path:
        """The socket through which browsers reach the open network. No secret is put in for a page."""
        from hermes.execution.egress.proxy import SandboxProxy

        if self._pages is None:
            parts = EgressParts(reach=self._browser_reach, wire=self._wire)
            self._pages = SandboxProxy(self._folder, parts)
        return await self._pages.open(AgentId("browser"), OPEN_NETWORK)

    async def browser_check(self, url: str) -> None:
        """Whether a page may lead there."""
        await EgressClient(EgressParts(reach=self._browser_reach)).check(url)

    def _browser_reach(self) -> Reach:
        reach, settings = self._reach(), self._settings().browser
        return replace(reach, private_all=True) if settings.allow_private_urls else reach

    async def close(self) -> None:
        if self._pages is not None:
            await self._pages.close()
        if "proxy" in self.__dict__:
            await self.proxy.close()

    def _reach(self) -> Reach:
        security = self._settings().security
        for checked, reach in self._reaches:
            if checked is security:
                return reach
        return make_reach(self._home, security)

    def _wire(self) -> Wire:
        return Wire(proxy=self._settings().security.egress_proxy)

    def _broker(self, agent: str) -> AgentBroker:
        bound = [
            BoundSecret(
                name=name,
                value=each.value,
                hosts=each.hosts,
                places=frozenset(each.places),
                variable=each.variable,
            )
            for name, each in self._settings().security.broker.items()
            if self._key and not {agent, "*"}.isdisjoint(each.agents)
        ]
        return AgentBroker(agent, bound, self._key)


def make_reach(home: Path, security: SecuritySettings) -> Reach:
    """Reads the shared lists of sites."""
    listed = security.website_blocklist
    sites: list[str] = []
    if listed.enabled:
        sites = [*listed.domains]
        for name in listed.shared_files:
            sites += _read_list(home / os.path.expanduser(name))
    return Reach(
        allow=security.allowed_hosts,
        deny=tuple(pattern for site in sites for pattern in (site, f"*.{site.removeprefix('*.')}")),
        private=security.private_hosts,
        private_all=security.allow_private_urls,
    )


def _read_list(path: Path) -> list[str]:
    try:
        if path.stat().st_size > _MOST_LIST_BYTES:
            raise OSError("it is too long")
        lines = path.read_text("utf-8").splitlines()
    except (OSError, ValueError) as error:
        raise UserError(
            f"The list of sites {one_line(str(path), 200)} cannot be read ({type(error).__name__}).",
            hint="Put it there, or take it out of security.website_blocklist.shared_files.",
        ) from error
    words = (line.partition("#")[0].strip().lower() for line in lines)
    return [word for word in words if word]


def _read_key(folder: Path) -> bytes:
    """What placeholders are made with, so that they stay the same."""
    path = folder / _KEY_FILE
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    if not path.exists():
        write_whole(path, secrets.token_bytes(_KEY_BYTES))
    key = path.read_bytes()
    if len(key) != _KEY_BYTES:
        raise UserError(f"{path} is damaged.", hint="Remove it: agents get new placeholders.")
    return key


def egress_folder(home: Path, environ: Mapping[str, str]) -> Path:
    """In the home, or, where that is too long a path for a socket, in the user's runtime folder."""
    folder = home / FOLDER
    if len(os.fsencode(folder)) <= _LONGEST:
        return folder
    return runtime_folders(environ)[-1] / f"egress-{sha256(os.fsencode(home)).hexdigest()[:16]}"
