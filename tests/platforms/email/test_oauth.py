"""Mailboxes without passwords: tokens that are got, renewed, exchanged and taken back."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
import stat
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from hermes.domain.chats.adapter import AdapterContext
from hermes.domain.chats.message import Body
from hermes.domain.errors import HermesError, NeedsLogin, Unreachable, UserError
from hermes.domain.settings.declaring import Secret
from hermes.domain.settings.platforms import PlatformSettings
from hermes.entry.platforms.email.imap import ImapConnection, MailLogin
from hermes.entry.platforms.email.oauth import PROVIDERS, OAuthTokens
from hermes.entry.platforms.email.servers import MailServers
from hermes.testing.clock import FakeClock
from hermes.testing.platform_suite import Does, Inboxes, running, until
from tests.platforms.email.bed import RealBed
from tests.platforms.email.offices import ADDRESS, RealOffice
from tests.platforms.email.tokens import CLIENT, SECRET, TokenServer

REAL = (pytest.mark.server, pytest.mark.root, pytest.mark.xdist_group("mail"))


def context(server: TokenServer, folder: Path | None = None, **said: str) -> AdapterContext:
    told = {
        "EMAIL_ADDRESS": ADDRESS,
        "EMAIL_OAUTH_PROVIDER": "microsoft",
        "EMAIL_OAUTH_CLIENT_ID": CLIENT,
        "EMAIL_OAUTH_CLIENT_SECRET": SECRET,
        "EMAIL_OAUTH_REFRESH_TOKEN": "refresh-1",
        "EMAIL_OAUTH_TOKEN_URL": f"{server.url}/token",
        **said,
    }
    return AdapterContext(
        settings=PlatformSettings(),
        find=lambda name: Secret(told[name]) if name in told else None,
        folder=folder,
        clock=FakeClock(),
    )


def tokens(made: AdapterContext) -> OAuthTokens:
    return OAuthTokens(made, PROVIDERS["microsoft"])


async def test_a_token_is_used_until_it_ends_or_is_refused() -> None:
    async with TokenServer() as server:
        made = context(server)
        mine = tokens(made)
        assert [await mine.access() for _ in range(3)] == ["access-1"] * 3
        assert await mine.access(refused="access-0") == "access-1"
        assert await mine.access(refused="access-1") == "access-2"
        assert isinstance(made.clock, FakeClock)
        await made.clock.advance(3000)
        assert await mine.access() == "access-2"
        await made.clock.advance(500)
        assert await mine.access() == "access-3", "renewed before it ends"
        assert "offline_access" in server.asked[0]["scope"] and server.asked[0]["client_secret"] == SECRET


async def test_an_exchanged_refresh_token_is_kept_and_preferred_after_a_restart(tmp_path: Path) -> None:
    async with TokenServer() as server:
        server.rotates = True
        folder = tmp_path / "email"
        made = context(server, folder)
        assert await tokens(made).access() == "access-1"
        kept = folder / "oauth.json"
        assert stat.S_IMODE(kept.stat().st_mode) == 0o600
        assert [one.name for one in folder.iterdir()] == ["oauth.json"]
        again = tokens(made)
        assert await again.access(refused="access-1") == "access-2"
        assert server.asked[-1]["refresh_token"] == "refresh-access-1"
        # The operator logged in anew: what was kept came from another.
        server.refresh = "refresh-new"
        newer = tokens(context(server, folder, EMAIL_OAUTH_REFRESH_TOKEN="refresh-new"))
        assert await newer.access() == "access-3"
        assert server.asked[-1]["refresh_token"] == "refresh-new"
        # A file that cannot be read is none. A kept token that was taken back gives way to the operator's.
        server.refresh = "refresh-1"
        kept.write_text("{")
        assert await tokens(made).access(refused="access-2") == "access-4"
        server.refresh = "refresh-1"
        assert await tokens(made).access(refused="access-4") == "access-5"


@pytest.mark.parametrize(
    ("answer", "error", "words"),
    [
        (
            (400, {"error": "invalid_grant"}),
            NeedsLogin,
            "EMAIL_OAUTH_REFRESH_TOKEN any more, `hermes platforms login email` gets another",
        ),
        ((401, {"error": "invalid_client"}), NeedsLogin, "EMAIL_OAUTH_CLIENT_ID"),
        ((400, {"error": "invalid_scope", "error_description": "a\r\nb"}), NeedsLogin, "invalid_scope: a b"),
        ((503, "<html>"), Unreachable, "HTTP 503"),
        ((429, {"error": "slow"}), Unreachable, "HTTP 429"),
        ((200, "no json"), Unreachable, "HTTP 200"),
        ((200, {"token": 1}), Unreachable, "without an access token"),
        ((200, {"access_token": "a\u0001b"}), Unreachable, "without an access token"),
        ((302, ""), Unreachable, "HTTP 302"),
        ((200, "x" * 200_000), Unreachable, "too long"),
    ],
)
async def test_token_servers_that_refuse(
    answer: tuple[int, Any], error: type[HermesError], words: str
) -> None:
    async with TokenServer() as server:
        server.answers = [answer]
        with pytest.raises(error, match=words) as told:
            await tokens(context(server)).access()
        assert "\n" not in str(told.value)
        assert SECRET not in str(told.value) and "refresh-1" not in str(told.value)


@pytest.mark.parametrize(
    ("said", "error", "words"),
    [
        ({"EMAIL_OAUTH_PROVIDER": "yahoo"}, UserError, "google or microsoft is wanted"),
        ({"EMAIL_OAUTH_CLIENT_ID": ""}, NeedsLogin, "EMAIL_OAUTH_CLIENT_ID is missing"),
        ({"EMAIL_OAUTH_REFRESH_TOKEN": ""}, NeedsLogin, "EMAIL_OAUTH_REFRESH_TOKEN is missing"),
        ({"EMAIL_OAUTH_TOKEN_URL": "http://example.org/token"}, UserError, "https://"),
        ({"EMAIL_OAUTH_PROVIDER": ""}, NeedsLogin, "EMAIL_IMAP_HOST is missing"),
    ],
)
async def test_settings_that_are_wrong(said: dict[str, str], error: type[HermesError], words: str) -> None:
    with pytest.raises(error, match=words):
        MailServers(context(TokenServer(), **{"EMAIL_OAUTH_TOKEN_URL": "http://127.0.0.1:9/token"} | said))


async def test_a_token_server_that_is_not_there() -> None:
    with pytest.raises(Unreachable, match=r"127\.0\.0\.1:9 cannot be reached"):
        await tokens(context(TokenServer(), EMAIL_OAUTH_TOKEN_URL="http://127.0.0.1:9/token")).access()


def test_the_servers_of_a_provider_are_known() -> None:
    servers = MailServers(context(TokenServer(), EMAIL_OAUTH_TOKEN_URL="", EMAIL_OAUTH_PROVIDER="Google"))
    assert (servers.imap_host, servers.smtp_host) == ("imap.gmail.com", "smtp.gmail.com")


@contextlib.asynccontextmanager
async def imap_server(abilities: str, good: str) -> AsyncIterator[tuple[int, list[bytes]]]:
    """Knows how to let somebody in, and nothing else."""
    heard: list[bytes] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"* OK hello\r\n")
        while line := (await reader.readline()).rstrip(b"\r\n"):
            heard.append(line)
            tag, _, rest = line.partition(b" ")
            if rest == b"CAPABILITY":
                writer.write(b"* CAPABILITY IMAP4rev1 %s\r\n%s OK\r\n" % (abilities.encode(), tag))
                continue
            proof = rest.split()[2] if len(rest.split()) == 3 else b""
            if not proof:
                writer.write(b"+ \r\n")
                proof = (await reader.readline()).strip()
            if good.encode() in base64.b64decode(proof):
                writer.write(tag + b" OK in\r\n")
                continue
            writer.write(b"+ " + base64.b64encode(b'{"status":"400"}') + b"\r\n")
            heard.append((await reader.readline()).rstrip(b"\r\n"))
            writer.write(tag + b" NO [AUTHENTICATIONFAILED] Invalid credentials\r\n")
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    try:
        yield server.sockets[0].getsockname()[1], heard
    finally:
        server.close()
        await asyncio.sleep(0.01)


@pytest.mark.parametrize(
    ("abilities", "said", "yes"),
    [
        ("AUTH=XOAUTH2 AUTH=OAUTHBEARER SASL-IR", "user=me@example.org\1auth=Bearer good\1\1", b""),
        ("AUTH=XOAUTH2", "user=me@example.org\1auth=Bearer good\1\1", b""),
        ("AUTH=OAUTHBEARER SASL-IR", "n,a=me@example.org,\1host=127.0.0.1\1port=", b"AQ=="),
    ],
)
async def test_how_a_token_is_shown(abilities: str, said: str, yes: bytes) -> None:
    async with imap_server(abilities, "Bearer good") as (port, heard):

        def box(token: str) -> MailLogin:
            return MailLogin(
                host="127.0.0.1",
                port=port,
                user="me@example.org",
                password="",
                token=token,
                tls=None,
                seconds=40,
            )

        (await ImapConnection.open(box("good"))).close()
        shown = b" ".join(heard)
        if "SASL-IR" in abilities:
            proof = next(line.split()[3] for line in heard if b"AUTHENTICATE" in line)
            assert base64.b64decode(proof).startswith(said.encode())
        else:
            assert b"AUTHENTICATE XOAUTH2" in shown
        with pytest.raises(NeedsLogin, match="does not take the access token for me@"):
            await ImapConnection.open(box("bad"))
        assert heard[-1] == yes, "a refusal is answered as the mechanism wants it"


@pytest.mark.server
@pytest.mark.root
@pytest.mark.xdist_group("mail")
async def test_dovecot_and_postfix_with_tokens(tmp_path: Path) -> None:
    """A mail comes, an answer goes; a token that was taken back in between is renewed, and a refresh token
    that was taken back is said."""
    async with RealBed() as bed:
        office = bed.office
        assert isinstance(office, RealOffice)
        server = TokenServer(port=office.token_port)
        await server.up()
        try:
            bed.said |= {
                "EMAIL_PASSWORD": "",
                "EMAIL_OAUTH_CLIENT_ID": CLIENT,
                "EMAIL_OAUTH_REFRESH_TOKEN": "refresh-1",
                "EMAIL_OAUTH_TOKEN_URL": f"{server.url}/token",
            }
            found = await bed.connect().check()
            assert all(one.good for one in found) and "with an access token" in found[1].text
            inboxes, platform = Inboxes(), bed.connect()
            async with running(platform, inboxes.accept, None):
                await bed.do(Does.TEXT, "hello")
                await until(lambda: inboxes.texts == ["hello"], "it never came")
                server.valid.clear()
                await platform.send(bed.chat, Body(text="<p>yes</p>"), key="k", reply_to=inboxes.items[0].ref)
                assert len(bed.shown()) == 1 and len(server.valid) == 1
            server.valid.clear()
            server.refresh = "another"
            found = await bed.connect().check()
            assert [one.good for one in found[:2]] == [False, False]
            assert "EMAIL_OAUTH_REFRESH_TOKEN any more" in found[0].text and "login email" in found[0].hint
        finally:
            await server.down()
    assert json.dumps(server.asked).count("refresh-1") == len(server.asked)
