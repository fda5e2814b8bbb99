"""Logins to MCP servers against a real authorization server: `oidc-provider` 9.13.3 of npm with registration,
PKCE, resource indicators (RFC 8707) and its own pages; and an MCP server that asks it about every token."""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from datetime import timedelta
from functools import partial
from pathlib import Path
from urllib.parse import urljoin

import aiohttp
import pytest

from hermes.app.agents.credentials import CredentialStore
from hermes.app.agents.mcp import McpLogin
from hermes.domain.clock import SystemClock
from hermes.domain.errors import NeedsLogin, UserError
from hermes.domain.models.credential import Credential
from hermes.domain.settings.declaring import Secret
from hermes.domain.settings.mcp import McpOAuth, McpServer
from hermes.execution.egress.reach import Reach
from hermes.execution.mcp.login import log_in
from hermes.state.home.credentials import CredentialFile
from hermes.state.settings.secrets import Secrets
from tests.foreign.environments import ROOT, node
from tests.mcp.bed import bed, served

pytestmark = pytest.mark.server
FILES = ROOT / "tests" / "foreign" / "mcp"
FORM = re.compile(r'<form[^>]*action="([^"]+)"')
INPUT = re.compile(r'<input[^>]*name="([^"]+)"[^>]*value="([^"]*)"')


@contextlib.contextmanager
def world(folder: Path, **how: str) -> Iterator[tuple[str, Path]]:
    """The address of the closed MCP server, and the file with the grants that were given."""
    program, place = node("mcp-node", FILES)
    log = folder / "grants"
    script = place / "authorization_server.mjs"
    script.write_bytes((FILES / "authorization_server.mjs").read_bytes())
    with (
        served(str(program), str(script), "{port}", str(log), env=how) as issuer,
        served(sys.executable, str(FILES / "resource_server.py"), "{port}", issuer) as server,
    ):
        yield f"{server}/mcp", log


async def browse(address: str, deny: bool = False) -> None:
    """What a person does: log in and consent, and be led back."""
    jar = aiohttp.CookieJar(unsafe=True)
    async with aiohttp.ClientSession(cookie_jar=jar) as session:
        async with session.get(address) as response:
            page, place = await response.text(), str(response.url)
        for _ in range(4):
            form = FORM.search(page)
            if form is None:
                return
            if deny:
                async with session.get(place + "/abort"):
                    return
            data = dict(INPUT.findall(page)) | {"login": "ann", "password": "any"}
            async with session.post(urljoin(place, form[1]), data=data) as response:
                page, place = await response.text(), str(response.url)


async def logged_in(url: str, server: McpServer | None = None, deny: bool = False) -> Credential:
    going: list[asyncio.Task[None]] = []

    def tell(address: str) -> None:
        going.append(asyncio.create_task(browse(address, deny)))

    try:
        chosen = server or McpServer(url=url, auth="oauth")
        return await log_in("t", chosen, SystemClock().now(), reach=Reach(), tell=tell)
    finally:
        await asyncio.gather(*going, return_exceptions=True)


def login(home: Path) -> McpLogin:
    clock = SystemClock()
    return McpLogin(server="t", store=CredentialStore(home, Secrets(), clock), clock=clock)


def stored(home: Path) -> Credential:
    return CredentialFile(home).read_anew().of("mcp-t")[0]


def change(home: Path, **fields: object) -> None:
    from hermes.domain.word import replace

    CredentialFile(home).update("mcp-t", lambda now: replace(now, **fields))


def refreshes(log: Path) -> list[str]:
    return [line for line in log.read_text().splitlines() if "refresh" in line]


@pytest.mark.parametrize("rotate", ["1", "0"], ids=["rotating", "lasting"])
async def test_a_login_lasts_and_is_renewed(tmp_path: Path, rotate: str) -> None:
    with world(tmp_path, ROTATE=rotate) as (url, log):
        server = McpServer(url=url, auth="oauth")
        async with bed(tmp_path, server, get_token=login(tmp_path).get_token) as made:
            with pytest.raises(Exception, match="hermes mcp login t"):
                await made.tools()
        CredentialFile(tmp_path).add(await logged_in(url))
        async with bed(tmp_path, server, get_token=login(tmp_path).get_token) as made:
            assert (await made.call("whoami")).text == "somebody with a token"
            first = stored(tmp_path)
            change(tmp_path, expires_at=SystemClock().now() - timedelta(seconds=1))
            await asyncio.sleep(1.1)  # how long a file is believed
            assert (await made.call("whoami")).text == "somebody with a token"
            assert stored(tmp_path).key != first.key and len(refreshes(log)) == 1
            change(tmp_path, key=Secret("a-token-that-is-refused"))
            await asyncio.sleep(1.1)
            assert (await made.call("whoami")).text == "somebody with a token"
            assert len(refreshes(log)) == 2 and not any("refused" in line for line in refreshes(log))


async def test_a_refresh_without_a_refresh_token_keeps_the_old_one(tmp_path: Path) -> None:
    with world(tmp_path, STRIP="1") as (url, log):
        CredentialFile(tmp_path).add(await logged_in(url))
        before = stored(tmp_path)
        for _ in range(2):
            change(tmp_path, expires_at=SystemClock().now() - timedelta(seconds=1))
            await login(tmp_path).get_token("")
        after = stored(tmp_path)
        assert after.refresh == before.refresh and after.key != before.key and after.client == before.client
        assert len(refreshes(log)) == 2


PROCESS = """
import asyncio, sys
from pathlib import Path
from tests.foreign.test_mcp_login import login
print(asyncio.run(login(Path(sys.argv[1])).get_token("")))
"""


async def test_two_processes_renew_a_token_once(tmp_path: Path) -> None:
    with world(tmp_path, ROTATE="1") as (url, log):
        CredentialFile(tmp_path).add(await logged_in(url))
        for _ in range(3):
            before = len(refreshes(log)) if log.exists() else 0
            change(tmp_path, expires_at=SystemClock().now() - timedelta(seconds=1))
            command = [sys.executable, "-c", PROCESS, str(tmp_path)]
            env = {"PYTHONPATH": f"{ROOT / 'src'}:{ROOT}", "PATH": "/usr/bin:/bin"}
            start = partial(subprocess.Popen, command, env=env, stdout=subprocess.PIPE, text=True)
            both = [await asyncio.to_thread(start) for _ in range(3)]
            tokens = {await asyncio.to_thread(one.communicate) for one in both}
            assert len(tokens) == 1 and len(refreshes(log)) == before + 1
        assert not any("refused" in line for line in refreshes(log))


async def test_a_login_that_was_taken_back_is_said_to_be_over(tmp_path: Path) -> None:
    with world(tmp_path) as (url, _):
        CredentialFile(tmp_path).add(await logged_in(url))
        change(tmp_path, refresh=Secret("taken-back"), expires_at=SystemClock().now() - timedelta(seconds=1))
        with pytest.raises(NeedsLogin, match="hermes mcp login t"):
            await login(tmp_path).get_token("")
        assert stored(tmp_path).dead
        with pytest.raises(NeedsLogin, match="hermes mcp login t"):
            await login(tmp_path).get_token("")


async def test_nothing_is_thrown_away_while_the_server_is_away(tmp_path: Path) -> None:
    with world(tmp_path) as (url, _):
        CredentialFile(tmp_path).add(await logged_in(url))
    before = stored(tmp_path)
    change(tmp_path, expires_at=SystemClock().now() - timedelta(seconds=1))
    with pytest.raises(Exception, match="could not be reached"):
        await login(tmp_path).get_token("")
    assert stored(tmp_path).refresh == before.refresh and not stored(tmp_path).dead


async def test_a_client_that_was_registered_by_hand_and_a_refusal(tmp_path: Path) -> None:
    with world(tmp_path) as (url, log):
        own = McpOAuth(
            client_id="known-client",
            client_secret=Secret("a-secret-of-the-known-client"),
            redirect_port=48123,
        )
        known = McpServer(url=url, auth="oauth", oauth=own)
        CredentialFile(tmp_path).add(await logged_in(url, known))
        client = stored(tmp_path).client
        assert client is not None and client.basic and client.client_id == "known-client"
        change(tmp_path, expires_at=SystemClock().now() - timedelta(seconds=1))
        await login(tmp_path).get_token("")
        assert refreshes(log) == ["refresh_token"]
        own = McpOAuth(scope="openid tools")
        wider = await logged_in(url, McpServer(url=url, auth="oauth", oauth=own))
        assert wider.key
        with pytest.raises(UserError, match="The login was refused"):
            await logged_in(url, deny=True)


async def test_a_server_that_wants_no_login_says_so(tmp_path: Path) -> None:
    with served(sys.executable, str(ROOT / "tests" / "mcp" / "servers.py"), "http", "{port}") as place:
        with pytest.raises(UserError, match="wants no login"):
            await logged_in(f"{place}/mcp")


def test_what_is_stored_shows_no_secret(tmp_path: Path) -> None:
    file = CredentialFile(tmp_path)
    from hermes.domain.models.credential import OAuthClient

    client = OAuthClient(token_url="http://h/token", client_id="c", client_secret=Secret("hidden"))
    file.add(Credential(id="mcp-t", provider="mcp-t", label="t", key=Secret("k"), client=client))
    assert stored(tmp_path).client == client and "hidden" not in repr(stored(tmp_path))
    assert (
        json.loads(file.path.read_text())["credential_pool"]["mcp-t"][0]["client"]["client_secret"]
        == "hidden"
    )
