"""Proxies: of a platform and of the whole machine, HTTP and SOCKS."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from hermes.domain.chats.adapter import AdapterContext
from hermes.domain.chats.message import Body
from hermes.domain.errors import Unreachable, UserError
from hermes.domain.settings.declaring import Secret
from hermes.domain.settings.platforms import PlatformSettings
from hermes.entry.kit import proxy
from hermes.entry.kit.http import HttpAnswer, HttpClient
from hermes.entry.kit.proxy import proxy_for
from hermes.state.settings.loader import load_settings
from hermes.testing.platform_suite import Does, Inboxes, running, until
from hermes.testing.served import ServedBed
from tests.platforms.discord.bed import DiscordBed
from tests.platforms.mattermost.bed import MattermostBed
from tests.platforms.slack.bed import SlackBed
from tests.platforms.socks import SocksProxy
from tests.platforms.telegram.bed import TelegramBed

BEDS: list[tuple[Callable[[], ServedBed], str]] = [
    (TelegramBed, "TELEGRAM_PROXY"),
    (DiscordBed, "DISCORD_PROXY"),
    (SlackBed, "SLACK_PROXY"),
    (MattermostBed, "MATTERMOST_PROXY"),
]


@pytest.mark.parametrize(("make", "variable"), BEDS, ids=[variable for _, variable in BEDS])
async def test_everything_goes_through_a_socks_proxy(make: Callable[[], ServedBed], variable: str) -> None:
    async with SocksProxy(password="pass").up() as socks, make() as bed:
        bed.said[variable] = f"socks5://user:pass@127.0.0.1:{socks.port}"
        inboxes, platform = Inboxes(), bed.connect()
        async with running(platform, inboxes.accept, None):
            await bed.do(Does.TEXT, "hello")
            await until(lambda: inboxes.texts == ["hello"], "it never came")
            await platform.send(bed.chat, Body(text="and back"), key="k", reply_to=None)
        assert [one.text for one in bed.shown()] == ["and back"]
        assert socks.reached, "nothing went through the proxy"


async def test_names_are_looked_up_behind_a_socks_proxy() -> None:
    async with SocksProxy().up() as socks, TelegramBed() as bed:
        there = f"http://telegram.invalid:{bed.server.port}"
        for scheme in ("socks5", "socks5h"):
            bed.said |= {"TELEGRAM_PROXY": f"{scheme}://127.0.0.1:{socks.port}", "TELEGRAM_BASE_URL": there}
            platform = bed.connect()
            assert (await platform.api.call("getMe"))["is_bot"]
            await platform.api.close()
        assert socks.reached == ["telegram.invalid", "telegram.invalid"]


async def test_trouble_with_a_socks_proxy_is_ours() -> None:
    """A wrong password, a place that cannot be reached, and a proxy that is none."""
    async with SocksProxy(password="right").up() as socks:
        for wrong in (f"user:wrong@127.0.0.1:{socks.port}", f"127.0.0.1:{socks.port}", "127.0.0.1:9"):
            client = HttpClient("It", HttpAnswer, proxy=f"socks5://{wrong}")
            for work in (
                lambda client=client: client.exchange("GET", "http://x.invalid/"),
                lambda client=client: client.download("http://x.invalid/", _nowhere),
                lambda client=client: client.connect("ws://x.invalid/"),
            ):
                with pytest.raises(Unreachable) as error:
                    await work()
                assert not error.value.maybe_done and "wrong" not in str(error.value)
            await client.close()
    async with SocksProxy().up() as socks:
        client = HttpClient("It", HttpAnswer, proxy=f"socks5://127.0.0.1:{socks.port}")
        with pytest.raises(Unreachable, match="It cannot be reached"):
            await client.exchange("GET", "http://x.invalid:9/")
        await client.close()


async def _nowhere(piece: bytes) -> None:
    raise AssertionError("nothing comes")


def chosen(url: str = "https://api.telegram.org", **said: str) -> str | None:
    context = AdapterContext(
        settings=PlatformSettings(), find=lambda name: Secret(said[name]) if name in said else None
    )
    return proxy_for(context, "TELEGRAM_PROXY", url)


@pytest.mark.parametrize(
    ("said", "url", "wanted"),
    [
        ({}, "https://x.invalid", None),
        ({"TELEGRAM_PROXY": "http://p:1"}, "https://x.invalid", "http://p:1"),
        ({"TELEGRAM_PROXY": "http://p:1", "HTTPS_PROXY": "http://q:1"}, "https://x.invalid", "http://p:1"),
        ({"HTTPS_PROXY": "http://q:1"}, "https://x.invalid", "http://q:1"),
        ({"https_proxy": "q:1"}, "https://x.invalid", "http://q:1"),
        ({"HTTP_PROXY": "http://q:1"}, "https://x.invalid", None),
        ({"HTTP_PROXY": "http://q:1"}, "http://x.invalid", "http://q:1"),
        ({"ALL_PROXY": "socks5://q:1"}, "https://x.invalid", "socks5://q:1"),
        ({"ALL_PROXY": "socks5://q:1", "NO_PROXY": "y.invalid, .x.invalid"}, "https://a.x.invalid", None),
        ({"ALL_PROXY": "socks5://q:1", "NO_PROXY": "x.invalid"}, "https://ax.invalid", "socks5://q:1"),
        ({"ALL_PROXY": "socks5://q:1", "no_proxy": "*"}, "https://x.invalid", None),
        ({"ALL_PROXY": "http://q:1"}, "http://127.0.0.1:8065", None),
        ({"ALL_PROXY": "http://q:1"}, "http://localhost:8065", None),
        ({"TELEGRAM_PROXY": "http://p:1", "NO_PROXY": "*"}, "http://127.0.0.1", "http://p:1"),
    ],
)
def test_which_proxy_counts(said: dict[str, str], url: str, wanted: str | None) -> None:
    assert chosen(url, **said) == wanted


@pytest.mark.parametrize("value", ["ftp://x:1", "socks6://x:1", "http://", "socks5://user:secret@h/path/x"])
def test_what_is_no_proxy(value: str) -> None:
    with pytest.raises(UserError, match="TELEGRAM_PROXY is no proxy") as error:
        chosen(TELEGRAM_PROXY=value)
    assert "secret" not in str(error.value)


def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(proxy, "find_spec", lambda name: None)
    with pytest.raises(UserError, match="HTTPS_PROXY is a SOCKS proxy") as error:
        chosen(HTTPS_PROXY="socks5://h:1")
    assert "hermes platforms install socks" in error.value.hint
    assert chosen(HTTPS_PROXY="http://h:1") == "http://h:1", "others need none"


def test_the_machines_proxy_counts_for_every_account(tmp_path: Path) -> None:
    loaded = load_settings(
        tmp_path, {"HTTPS_PROXY": "http://user:pw@h:1", "TELEGRAM_PROXY__WORK": "http://w:1"}
    )
    for account in ("telegram", "telegram@work"):
        found = loaded.find(account, "HTTPS_PROXY")
        assert found is not None and found.reveal() == "http://user:pw@h:1"
    own = loaded.find("telegram@work", "TELEGRAM_PROXY")
    assert (
        own is not None and own.reveal() == "http://w:1" and loaded.find("telegram", "TELEGRAM_PROXY") is None
    )
