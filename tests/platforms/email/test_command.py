"""`hermes platforms test email` and `hermes platforms login email`, as an operator uses them: what is wrong
is said in one sentence, with what to do about it."""

from __future__ import annotations

import asyncio
import io
import re
import socket
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from hermes.admin.shell.command import perform
from hermes.admin.shell.output import CliConsole
from hermes.domain.errors import UserError
from hermes.domain.word import replace
from hermes.entry.platforms.email.oauth import PROVIDERS
from hermes.state.settings.loader import load_settings
from hermes.testing.platform_suite import until
from tests.platforms.email.bed import ApartBed, EmailBed, RealBed
from tests.platforms.email.offices import ADDRESS, PASSWORD, RealOffice
from tests.platforms.email.tokens import CLIENT, SECRET, TokenServer

REAL = (pytest.mark.server, pytest.mark.root, pytest.mark.xdist_group("mail"))
pytestmark = pytest.mark.filterwarnings("ignore:Requiring AUTH while not requiring TLS:UserWarning")


async def run(words: list[str], home: Path, said: Mapping[str, str], out: io.StringIO) -> int:
    console = CliConsole(out=out, err=out, interactive=False)
    return await asyncio.to_thread(perform, "platforms", words, home, said, console)


async def examined(bed: EmailBed, home: Path, said: Mapping[str, str]) -> list[str]:
    """What is printed."""
    out = io.StringIO()
    code = await run(["test", "email"], home, {**bed.variables(), **said}, out)
    told = out.getvalue()
    assert PASSWORD not in told and (code == 0) == ("✗" not in told), told
    return told.splitlines()


PLAIN = {
    "a wrong password": (
        {"EMAIL_PASSWORD": "wrong"},
        [
            "✗ The IMAP server does not know",
            "Set EMAIL_PASSWORD anew",
            "✗ The SMTP server does not take",
            "Set",
        ],
    ),
    "a name that there is not": (
        {"EMAIL_TLS": "true", "EMAIL_IMAP_HOST": "no.invalid", "EMAIL_SMTP_HOST": "no.invalid"},
        ["✗ The IMAP server no.invalid:", "no such name", "✗ The SMTP server no.invalid:", "no such name"],
    ),
    "a port where nobody is": (
        {"EMAIL_IMAP_PORT": "9", "EMAIL_SMTP_PORT": "9"},
        [
            "(Connection refused)",
            "See EMAIL_IMAP_HOST and EMAIL_IMAP_PORT",
            "(Connection refused)",
            "See EMAIL_SM",
        ],
    ),
    "a server that does not encrypt": (
        {"EMAIL_TLS": "true", "EMAIL_IMAP_HOST": "localhost", "EMAIL_SMTP_HOST": "localhost"},
        ["✗ The IMAP server does not encrypt", "See EMAIL_IMAP_PORT", "(no STARTTLS)", "See EMAIL_SMTP_PORT"],
    ),
    "a folder that there is not": (
        {"EMAIL_FOLDER": "Nowhere/Ünder"},
        ["✗ There is no folder “Nowhere/Ünder”", "EMAIL_FOLDER", "✓ 127.0.0.1 takes mail with the password."],
    ),
    "nothing": ({"EMAIL_PASSWORD": ""}, ["✗ EMAIL_PASSWORD is missing", "docs/platforms/email.md"]),
}


@pytest.mark.parametrize("name", PLAIN)
async def test_what_is_wrong(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    said, wanted = PLAIN[name]
    find = socket.getaddrinfo

    def found(host: Any, *rest: Any, **more: Any) -> Any:
        if host == "no.invalid":
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
        return find(host, *rest, **more)

    monkeypatch.setattr(socket, "getaddrinfo", found)
    async with ApartBed() as bed:
        _like(await examined(bed, tmp_path, said), wanted)


async def test_when_all_is_well(tmp_path: Path) -> None:
    async with ApartBed() as bed:
        wanted = [
            f"✓ 127.0.0.1 lets {ADDRESS} read; it tells of new mail at once.",
            "✓ 127.0.0.1 takes mail with the password.",
            "✓ The From line is believed",
        ]
        _like(await examined(bed, tmp_path, {}), wanted)


async def test_servers_that_are_mixed_up(tmp_path: Path) -> None:
    async with ApartBed() as bed:
        said = {"EMAIL_IMAP_PORT": str(bed.smtp.port), "EMAIL_SMTP_PORT": str(bed.imap.port)}
        wanted = [
            "✗ What answers there is no IMAP server.",
            "See",
            "✗ What answers there is no SMTP server.",
            "See",
        ]
        _like(await examined(bed, tmp_path, said), wanted)


@pytest.mark.server
@pytest.mark.root
@pytest.mark.xdist_group("mail")
async def test_certificates_of_real_servers(tmp_path: Path) -> None:
    async with RealBed() as bed:
        office = bed.office
        assert isinstance(office, RealOffice)
        said = {
            "EMAIL_TLS": "true",
            "EMAIL_IMAP_HOST": "localhost",
            "EMAIL_SMTP_HOST": "localhost",
            "EMAIL_IMAP_PORT": str(office.imap_port),
            "EMAIL_SMTP_PORT": str(office.smtp_port),
        }
        bad = ["shows a certificate that cannot be trusted (self-signed", "EMAIL_CA_FILE"] * 2
        _like(await examined(bed, tmp_path, said), bad)
        said["EMAIL_CA_FILE"] = str(office.folder / "cert.pem")
        _like(await examined(bed, tmp_path, said), ["✓ localhost lets", "✓ localhost takes"])
        other = said | {"EMAIL_IMAP_HOST": "127.0.0.1", "EMAIL_SMTP_HOST": "127.0.0.1"}
        _like(await examined(bed, tmp_path, other), ["not valid for '127.0.0.1'", "Set EMAIL_IMAP_HOST"])
        _like(
            await examined(bed, tmp_path, said | {"EMAIL_PASSWORD": "no"}),
            ["✗", "", "✗ The SMTP", "Set EMAIL_P"],
        )


def _like(told: list[str], wanted: list[str]) -> None:
    assert len(told) >= len(wanted), told
    for line, part in zip(told, wanted, strict=False):
        assert part in line, told


# --- the login ---


def oauth(server: TokenServer, **said: str) -> dict[str, str]:
    return {
        "EMAIL_ADDRESS": ADDRESS,
        "EMAIL_OAUTH_PROVIDER": "microsoft",
        "EMAIL_OAUTH_CLIENT_ID": CLIENT,
        "EMAIL_OAUTH_TOKEN_URL": f"{server.url}/token",
        **said,
    }


@pytest.mark.parametrize(("name", "tail"), [("email", ""), ("email@shop", "__SHOP")])
async def test_let_in_by_a_code(tmp_path: Path, name: str, tail: str) -> None:
    out, home = io.StringIO(), tmp_path / "home"
    async with TokenServer() as server:
        said = {f"{variable}{tail}": value for variable, value in oauth(server).items()}
        running = asyncio.create_task(run(["login", name], home, said, out))
        await until(lambda: "ABCD-EFGH" in out.getvalue(), out.getvalue)
        assert "https://example.org/device" in out.getvalue()
        await until(lambda: len(server.asked) > 1, "it does not ask whether somebody decided")
        server.decided = True
        assert await running == 0
    assert f"Saved EMAIL_OAUTH_REFRESH_TOKEN{tail} in" in out.getvalue()
    assert "refresh-1" not in out.getvalue(), "it is a secret"
    kept = load_settings(home, {}, platforms=["email"]).find(name, "EMAIL_OAUTH_REFRESH_TOKEN")
    assert kept is not None and kept.reveal() == "refresh-1"
    assert "offline_access" in server.asked[0]["scope"]


async def test_let_in_with_a_browser(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out, home = io.StringIO(), tmp_path / "home"
    async with TokenServer() as server:
        google = replace(PROVIDERS["google"], consent_url=f"{server.url}/consent")
        monkeypatch.setitem(PROVIDERS, "google", google)
        said = oauth(server, EMAIL_OAUTH_PROVIDER="google", EMAIL_OAUTH_CLIENT_SECRET=SECRET)
        running = asyncio.create_task(run(["login", "email"], home, said, out))
        await until(lambda: "ssh -L" in out.getvalue(), out.getvalue)
        url = re.findall(r"^http\S+/consent\S+$", out.getvalue(), re.MULTILINE)[0]
        back = re.findall(r"ssh -L (\d+)", out.getvalue())[0]
        async with aiohttp.ClientSession() as http:
            async with http.get(f"http://127.0.0.1:{back}/?code=stolen&state=guessed") as answer:
                assert answer.status == 404, "nobody else may answer in the person's place"
            async with http.get(url) as answer:
                assert answer.status == 200 and "close this page" in await answer.text()
        assert await running == 0
    assert server.asked[0]["code_challenge_method"] == "S256" and server.asked[0]["login_hint"] == ADDRESS
    kept = load_settings(home, {}, platforms=["email"]).find("email", "EMAIL_OAUTH_REFRESH_TOKEN")
    assert kept is not None and kept.reveal() == "refresh-1"


@pytest.mark.parametrize(
    ("said", "words"),
    [
        ({"EMAIL_OAUTH_PROVIDER": ""}, "not said who lets us in"),
        ({"EMAIL_OAUTH_CLIENT_ID": ""}, "EMAIL_OAUTH_CLIENT_ID is missing"),
        ({"EMAIL_OAUTH_TOKEN_URL": "http://127.0.0.1:9/token"}, "cannot be reached"),
        ({"EMAIL_OAUTH_CLIENT_ID": "another"}, "does not know this client"),
    ],
)
async def test_logins_that_fail(said: dict[str, str], words: str, tmp_path: Path) -> None:
    async with TokenServer() as server:
        server.decided = True
        with pytest.raises(UserError, match=words) as told:
            await run(["login", "email"], tmp_path / "home", oauth(server) | said, io.StringIO())
        assert "\n" not in str(told.value)
    assert not (tmp_path / "home" / ".env").exists()


async def test_a_platform_without_a_login(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="has no such login"):
        await run(["login", "telegram"], tmp_path, {}, io.StringIO())
