"""What the platforms share, where no vendor's own tests show it."""

from __future__ import annotations

import ast
import asyncio
import re
import socket
from pathlib import Path

import aiohttp
import pytest
from aiohttp import web

import hermes.entry.platforms as platforms
from hermes.domain.chats.adapter import AdapterContext
from hermes.domain.errors import NeedsLogin, Refused, Unreachable
from hermes.domain.settings.declaring import Secret
from hermes.domain.settings.platforms import PlatformSettings
from hermes.entry.kit.errors import error_table, seconds_of
from hermes.entry.kit.http import HttpAnswer, HttpClient, UploadForm
from hermes.entry.kit.listener import is_secret, listening
from hermes.entry.kit.payload import Recent, as_dicts, as_size, dig, integer, read_json, shaped
from hermes.entry.kit.socket import SocketFeed
from hermes.entry.kit.token import AppToken, TokenExpired
from hermes.testing.clock import FakeClock
from hermes.testing.ports import free_port


async def test_a_listener_that_is_closed_while_it_opens_leaves_no_port_taken() -> None:
    port = free_port()
    context = AdapterContext(
        settings=PlatformSettings(), find=lambda name: Secret(str(port)) if name == "SLACK_PORT" else None
    )

    async def answer(request: web.Request) -> web.Response:
        return web.Response()

    async def hold() -> None:
        async with listening(context, "/", answer, variables="SLACK", usual_port="1"):
            await asyncio.Event().wait()

    for steps in range(12):
        holding = asyncio.create_task(hold())
        for _ in range(steps):
            await asyncio.sleep(0)
        holding.cancel()
        await asyncio.wait((holding,))
        with socket.create_server(("127.0.0.1", port)):
            pass  # nobody else has it


@pytest.mark.parametrize(
    ("given", "secret", "same"),
    [("a", "a", True), ("a", "b", False), ("", "", False), ("ä\udc80", "a", False)],
)
def test_secrets(given: str, secret: str, same: bool) -> None:
    assert is_secret(given, secret) is same


async def test_nothing_is_opened_after_the_end() -> None:
    client = HttpClient("It", HttpAnswer)
    await client.close()
    with pytest.raises(Unreachable, match="has ended") as raised:
        await client.exchange("GET", "http://127.0.0.1/")
    assert not raised.value.maybe_done


error_for = error_table("It", {(401, "token"): (NeedsLogin, "no entry: {why}")}, too_large={"big"})


@pytest.mark.parametrize(
    ("status", "code", "error", "words"),
    [
        (429, "token", Unreachable, "slower"),
        (503, "token", NeedsLogin, "no entry: why"),
        (503, "", Unreachable, "fault of its own"),
        (503, "big", Unreachable, "fault of its own"),
        (401, "", NeedsLogin, "no entry: why"),
        (400, "token", NeedsLogin, "no entry: why"),
        (413, "", Refused, "too large"),
        (400, "big", Refused, "too large"),
        (400, "", Refused, "refuses it (why)"),
    ],
)
def test_error_tables(status: int, code: str, error: type[Exception], words: str) -> None:
    found = error_for(status, code, "why", 7.0)
    assert type(found) is error and words in str(found)
    if isinstance(found, Unreachable):
        assert (found.after, found.maybe_done) == ((7.0, False) if status == 429 else (None, True))


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("7", 7.0), ("0.5", 0.5), (None, None), ("soon", None), ("-1", None), ("123456", None), ("٣", None)],
)
def test_seconds(text: str | None, seconds: float | None) -> None:
    assert seconds_of(text) == seconds


def test_readers() -> None:
    assert read_json("[" * 100_000) is None and read_json(b"\xff") is None
    assert dig({"a": {"b": 1}}, "a", "b") == 1 and dig({"a": [1]}, "a", "b") is None
    assert as_dicts([{}, 1, None]) == [{}] and as_dicts({}) == []
    assert [as_size(value) for value in (0, True, -1, 2**53, "1")] == [0, None, None, None, None]
    for value in (True, 1.0, "1", 2**62):
        with pytest.raises(ValueError):
            integer(value)


def test_what_is_recent() -> None:
    recent: Recent[str, int] = Recent(2)
    recent.update({"a": 1, "b": 2})
    recent["a"] = 3
    recent["c"] = 4
    assert dict(recent) == {"a": 3, "c": 4}


# --- what touches a network is written once ---

KIT_ALONE = {
    "ClientTimeout": {},
    "ws_connect": {},
    "AppRunner": {},
    "BytesIO": {"signal/api.py": "its JSON holds whole files, and is sent in pieces; the kit times it"},
    "ClientSession": {
        "discord/api.py": "names itself, and hands the session to the kit",
        "mattermost/api.py": "keeps no cookies, and hands the session to the kit",
        "matrix/api.py": "has many requests at once, and hands the session to the kit",
    },
    "TCPSite": {"email/oauth.py": "a login by browser, run by the command line and never by the gateway"},
    "open_connection": {"email/imap.py": "IMAP is no HTTP; its files are timed by the kit"},
}
"""What platforms leave to the kit, and the few that may not, because …"""


def test_platforms_leave_the_network_to_the_kit() -> None:
    folder = Path(platforms.__path__[0])
    used: dict[str, set[str]] = {name: set() for name in KIT_ALONE}
    for path in folder.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            name = (
                getattr(node.func, "attr", getattr(node.func, "id", "")) if isinstance(node, ast.Call) else ""
            )
            if name in used:
                used[name].add(path.relative_to(folder).as_posix())
    assert used == {name: set(places) for name, places in KIT_ALONE.items()}


class _BrokenSocket:
    async def close(self, *, code: int) -> None:
        """It is gone already."""


async def test_a_reader_that_breaks_ends_its_connection(caplog: pytest.LogCaptureFixture) -> None:
    """Otherwise nobody would hear anything any more, and nobody would know."""
    feed: SocketFeed[str] = SocketFeed(_BrokenSocket())  # type: ignore[arg-type]

    async def read() -> None:
        await feed.queue.put("hello")
        raise ZeroDivisionError

    feed.start(read())
    assert await feed.next() == "hello"
    with pytest.raises(Unreachable, match="reader broke"):
        await feed.next()
    await feed.close()
    assert "socket.broke" in caplog.text


async def test_what_nobody_waits_for_is_told_when_it_breaks(caplog: pytest.LogCaptureFixture) -> None:
    client = HttpClient("It", HttpAnswer)

    async def courtesy() -> None:
        raise ZeroDivisionError

    client.aside(courtesy())
    await client.close()
    assert "aside.broke service=It" in caplog.text


class Tokens:
    """A service that gives tokens, and takes the latest one."""

    def __init__(self, seconds: float = 7200.0) -> None:
        self.given = 0
        self.seconds = seconds

    async def fetch(self) -> tuple[str, float]:
        await asyncio.sleep(0)
        self.given += 1
        return f"token-{self.given}", self.seconds

    async def call(self, token: str) -> str:
        if token != f"token-{self.given}":
            raise TokenExpired("that token does not count")
        return token


def context_at(clock: FakeClock, learnt: list[str]) -> AdapterContext:
    return AdapterContext(
        settings=PlatformSettings(), find=lambda name: None, clock=clock, learn=learnt.append
    )


async def test_a_token_is_got_once_and_again_before_it_runs_out() -> None:
    clock, tokens, learnt = FakeClock(), Tokens(), list[str]()
    token = AppToken(context_at(clock, learnt), tokens.fetch)
    assert set(await asyncio.gather(*(token.get() for _ in range(20)))) == {"token-1"}
    await clock.advance(6_899)
    assert await token.get() == "token-1"
    await clock.advance(2)
    assert await token.get() == "token-2"
    assert learnt == ["token-1", "token-2"], "no text shows them"


async def test_a_short_token_is_used_for_half_its_life() -> None:
    clock, tokens = FakeClock(), Tokens(60.0)
    token = AppToken(context_at(clock, []), tokens.fetch)
    await token.get()
    await clock.advance(29)
    assert await token.get() == "token-1"
    await clock.advance(2)
    assert await token.get() == "token-2"


async def test_a_token_that_is_not_taken_is_replaced_once() -> None:
    tokens = Tokens()
    token = AppToken(context_at(FakeClock(), []), tokens.fetch)
    await token.get()
    tokens.given += 1
    assert await token.use(tokens.call) == "token-3"

    async def never(token: str) -> str:
        raise TokenExpired("not this one")

    with pytest.raises(NeedsLogin, match="not this one"):
        await token.use(never)
    assert tokens.given == 4, "asked once more, and not for ever"


def test_an_id_with_half_a_character_is_none() -> None:
    """JSON may spell one, whatever the shape: stored it would stop the account for ever."""
    anything = re.compile(r"[^\s;]+")
    assert shaped("ä😀", anything) == "ä😀"
    for spelled in ('"+1\\ud8005551"', '"a b"', "5", "null"):
        with pytest.raises(ValueError):
            shaped(read_json(spelled), anything)


async def test_names_of_files_stand_in_a_form_as_they_are() -> None:
    """Telegram's server, Go's (Mattermost) and WeCom's show percent signs that aiohttp writes by itself."""
    form = UploadForm({"chat": "1"})
    form.add_field("media", b"data", filename='报告 "1"\r\nX-Evil: 1.pdf', content_type="application/pdf")
    writer = form()
    assert isinstance(writer, aiohttp.MultipartWriter)
    told = [part.headers["Content-Disposition"] for part, _, _ in writer]
    assert told == [
        'form-data; name="chat"',
        'form-data; name="media"; filename="报告 \\"1\\" X-Evil: 1.pdf"',
    ]
