"""Our client as the conformance suite runs it: the address of a server is its last argument. It logs in if it
has to, lists the tools, and calls the first of them."""

import asyncio
import json
import os
import sys
import tempfile
from pathlib import Path

import aiohttp

from hermes.app.agents.credentials import CredentialStore
from hermes.app.agents.mcp import McpLogin
from hermes.domain.clock import SystemClock
from hermes.domain.settings.declaring import Secret
from hermes.domain.settings.mcp import McpOAuth, McpServer
from hermes.execution.egress.reach import Reach
from hermes.execution.mcp.login import log_in
from hermes.state.home.credentials import CredentialFile
from hermes.state.settings.secrets import Secrets
from tests.mcp.bed import bed

ARGUMENTS = {"add_numbers": {"a": 5, "b": 3}}


async def main(url: str) -> None:
    home, clock, scenario = Path(tempfile.mkdtemp()), SystemClock(), os.environ["MCP_CONFORMANCE_SCENARIO"]
    told = json.loads(os.environ.get("MCP_CONFORMANCE_CONTEXT", "{}"))
    own = McpOAuth(client_id=told.get("client_id", ""), client_secret=Secret(told.get("client_secret", "")))
    server, get_token = McpServer(url=url, timeout=20.0, oauth=own), None
    if scenario.startswith("auth/"):
        going: list[asyncio.Task[None]] = []
        tell = lambda address: going.append(asyncio.create_task(browse(address)))  # noqa: E731
        CredentialFile(home).add(await log_in("t", server, clock.now(), reach=Reach(), tell=tell))
        await asyncio.gather(*going)
        get_token = McpLogin(server="t", store=CredentialStore(home, Secrets(), clock), clock=clock).get_token
    async with bed(home, server, get_token=get_token) as made:
        tools = [name.removeprefix("mcp__t__") for name in await made.tools()]
        for name in tools[:1]:
            print(await made.call(name, **ARGUMENTS.get(name, {})))


async def browse(address: str) -> None:
    async with aiohttp.ClientSession() as session, session.get(address) as response:
        await response.read()


asyncio.run(main(sys.argv[-1]))
