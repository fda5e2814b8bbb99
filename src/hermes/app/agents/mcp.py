"""The MCP servers of one agent: which it has, where they run, what was accepted of them, and who may use
them."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from hermes.app.agents.agent_backends import AgentBackends
from hermes.app.agents.backends import GatewayBackends
from hermes.app.agents.credentials import CredentialStore
from hermes.app.homes import WORKSPACE
from hermes.control.people.standing import is_trusted
from hermes.domain.chats.address import Source
from hermes.domain.clock import Clock, SystemClock
from hermes.domain.errors import NeedsLogin, UserError
from hermes.domain.ids import AgentId
from hermes.domain.ports.world import Backend, Media
from hermes.domain.settings.mcp import McpServer
from hermes.domain.settings.settings import Profile, Settings
from hermes.domain.tools.mcp import McpPins, toolset_of
from hermes.domain.tools.tool import Tool
from hermes.domain.tools.toolbox import ToolsetLimit, ToolSource
from hermes.domain.word import replace
from hermes.state.settings.secrets import Secrets

if TYPE_CHECKING:
    from hermes.execution.mcp.source import McpSource

_EARLY_SECONDS = 30.0


def servers_of(agent: AgentId, settings: Settings) -> Mapping[str, McpServer]:
    return {
        name: server
        for name, server in settings.mcp_servers.items()
        if server.enabled and (not server.agents or agent in server.agents)
    }


def login_name(server: str) -> str:
    """What a login to a server goes by among the credentials."""
    return f"mcp-{server}"


class McpLogin(Struct, frozen=True, kw_only=True):
    """The login to one server. Its token is renewed by one task in one process, as those of models are."""

    server: str
    store: CredentialStore
    clock: Clock

    async def get_token(self, refused: str) -> str:
        """A token that is valid, and not the one that was refused; `NeedsLogin` if there is none."""
        logins = await self.store.read(login_name(self.server))
        usable = [each for each in logins if not each.dead]
        if not usable:
            raise NeedsLogin(f"{self.server} needs a login: hermes mcp login {self.server}")
        (login, *_), soon = usable, self.clock.now() + timedelta(seconds=_EARLY_SECONDS)
        late = login.expires_at is not None and login.expires_at <= soon
        if late or login.key.reveal() == refused:
            if not login.refresh:
                raise NeedsLogin(f"the login at {self.server} is over: hermes mcp login {self.server}")
            login = await self.store.renew(login)
        return login.key.reveal()


def mcp_sources(
    profile: Profile, backends: AgentBackends, media: Media | None, store: CredentialStore, clock: Clock
) -> dict[str, ToolSource]:
    """A source for each server, by its toolset. Whoever gives the store of logins closes it after them."""
    sources: dict[str, ToolSource] = {}
    for name, server in servers_of(profile.agent, profile.settings).items():
        login = McpLogin(server=name, store=store, clock=clock)
        token = login.get_token if server.auth else None
        backend = backends.of_server(server.backend)
        sources[toolset_of(name)] = _source(profile, name, backend, media=media, get_token=token)
    return sources


def known_tools(profile: Profile) -> list[Tool]:
    """The tools of an agent's servers as they were last seen; no server is asked. Reads files."""
    tools: list[Tool] = []
    for name in servers_of(profile.agent, profile.settings):
        source = _source(profile, name, None)
        with contextlib.suppress(UserError):  # pins that cannot be read accept nothing
            source.read_pins()
        tools += source.offered()
    return tools


def _source(
    profile: Profile,
    name: str,
    backend: Backend | None,
    *,
    media: Media | None = None,
    get_token: Callable[[str], Awaitable[str]] | None = None,
) -> McpSource:
    from hermes.execution.mcp.connection import McpPlace  # most gateways have none, and load none of it
    from hermes.execution.mcp.source import McpSource, PinBook
    from hermes.state.home.mcp_pins import McpPinFile

    server, file = profile.settings.mcp_servers[name], McpPinFile(profile.home, name)
    place = McpPlace(name=name, server=server, backend=backend, get_token=get_token)
    return McpSource(place, PinBook(read=file.read, change=file.change), media)


async def try_server(
    profile: Profile, name: str, secrets: Secrets, environ: Mapping[str, str]
) -> dict[str, Any]:
    """Connect to a server once, in this process, and tell what it has; a `HermesError` says why not."""
    from hermes.execution.mcp.source import McpSource

    server = replace(profile.settings.mcp_servers[name], agents=(), enabled=True)
    settings = replace(profile.settings, mcp_servers={name: server})
    made = GatewayBackends(environ, SystemClock(), lambda: settings)
    made.variable = lambda agent, name: secrets.reveal(name) or environ.get(name, "")
    await asyncio.to_thread(made.load)
    profile, began = replace(profile, settings=settings), time.monotonic()
    workspace = profile.home / WORKSPACE
    workspace.mkdir(mode=0o700, parents=True, exist_ok=True)
    backends, clock = AgentBackends(profile, workspace, made), SystemClock()
    store = CredentialStore(profile.home, secrets, clock)
    source = mcp_sources(profile, backends, None, store, clock)[toolset_of(name)]
    assert isinstance(source, McpSource)
    try:
        await source.open()
        facts = await source.connection.use(_facts)
        seconds, pins = time.monotonic() - began, source.read_pins() or McpPins()
        tools = [each.name for each in pins.offered if server.tools.allows(each.name)]
        return facts | {"tools": tools, "waiting": [*pins.waiting], "seconds": seconds}
    finally:
        await source.close()
        await store.close()
        await made.close()


async def _facts(client: Any) -> dict[str, Any]:
    return {"protocol": client.protocol_version}


def mcp_limits(settings: Callable[[], Settings], source: Source | None) -> Sequence[ToolsetLimit]:
    """Strangers have only the servers that are open to them; one that is switched off, nobody."""
    servers = settings().mcp_servers
    if not servers:
        return ()
    trusted = is_trusted(source, settings())
    closed = (name for name, each in servers.items() if not each.enabled or not (trusted or each.strangers))
    return (ToolsetLimit(disabled=tuple(toolset_of(name) for name in closed)),)
