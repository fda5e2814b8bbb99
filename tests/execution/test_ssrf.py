"""Whatever an address looks like, nothing inside is connected to: counted by listeners there."""

from __future__ import annotations

import asyncio
import gzip
import zlib
from collections.abc import AsyncIterator, Iterator, Sequence
from ipaddress import IPv4Address
from urllib.parse import quote

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from hermes.domain.errors import HermesError, Refused, Unreachable, UserError
from hermes.domain.ports.world import WebRequest
from hermes.execution.egress.client import EgressClient
from hermes.execution.egress.parts import EgressParts
from hermes.execution.egress.reach import Reach
from tests.execution.egress_site import HOST, INSIDE, OTHER, Site, is_open, look_up, open_site

_WIDE = str.maketrans("0123456789.", "０１２３４５６７８９．")
_ROUND = str.maketrans("0123456789", "⓪①②③④⑤⑥⑦⑧⑨")


def notations(ip: str) -> Iterator[str]:
    """The ways in which programs and networks write an IPv4 address."""
    a, b, c, d = map(int, ip.split("."))
    whole = int(IPv4Address(ip))
    hexed, high, low = f"{whole:08x}", f"{whole >> 16:x}", f"{whole & 0xFFFF:x}"
    yield from (ip, f"{ip}.", f"{ip}..", str(whole), f"0x{hexed}", f"0X{hexed.upper()}", f"0{whole:o}")
    yield from (f"{a}.{whole & 0xFFFFFF}", f"{a}.{b}.{c << 8 | d}", f"0x{a:x}.0x{b:x}.0x{c:x}.0x{d:x}")
    yield from (f"0{a:o}.0{b:o}.0{c:o}.0{d:o}", f"000{a:o}.{b}.{c}.{d}", f"0x{a:x}.{b}.0{c:o}.{d}")
    yield from (ip.translate(_WIDE), ip.translate(_ROUND), ip.replace(".", "。"), ip.replace(".", "｡"))
    yield from (f"[::ffff:{ip}]", f"[::ffff:{high}:{low}]", f"[0:0:0:0:0:ffff:{high}:{low}]", f"[::{ip}]")
    yield from (f"[::ffff:0:{ip}]", f"[64:ff9b::{ip}]", f"[64:ff9b:1::{ip}]", f"[2002:{high}:{low}::1]")
    yield from (f"[2001:0:4136:e378:8000:63bf:{whole >> 16 ^ 0xFFFF:x}:{whole & 0xFFFF ^ 0xFFFF:x}]",)
    yield from (f"[2606:4700::5efe:{ip}]", f"[2606:4700::200:5efe:{ip}]", f"[::ffff:{ip}%25eth0]", f"[{ip}]")
    yield from (f"{ip}%00", f"%31{ip[1:]}", f"{ip}%2f", f"{ip} ", f"{ip}\t.example.org")


_FURTHER = """0 0.0.0.0 [::] [::1] [0:0:0:0:0:0:0:1] [::1%25lo] [fe80::1] [fe80::1%25eth0] [fc00::1]
    [fd00::1] [fe90::1]
    [fd00:ec2::254] [fec0::1] [ff02::1] [3fff::1] [5f00::1] [100::1] [2001:db8::1] 100.64.0.1 172.16.0.1
    172.31.255.255 198.18.0.1 192.0.2.1 198.51.100.1 203.0.113.1 224.0.0.1 240.0.0.1 255.255.255.255
    192.0.0.192 192.88.99.1 100.100.100.200 168.63.129.16 127.255.255.254 127.0.0.1.1 1.2.3.4.5 256.0.0.1
    0x 0x7f.1 0177.1 017700000001 127.0.0.1e0 4294967296 18446744073709551617 localhost LOCALHOST localhost.
    ⓛⓞⓒⓐⓛⓗⓞⓢⓣ a.localhost printer.local nas.lan db.internal x.corp router.home box.home.arpa intranet
    metadata metadata.google.internal metadata.goog instance-data x.metadata.google.internal
    rebound.example.org [::ffff:127.0.0.1]. -- .. . *"""
HOSTS = [
    *notations("127.0.0.1"),
    *notations("10.1.2.3"),
    *notations("169.254.169.254"),
    *notations("192.168.0.254"),
    *_FURTHER.split(),
]
WHOLE = [
    "file:///etc/passwd", "ftp://{ip}/", "gopher://{ip}:{port}/_x", "dict://{ip}:{port}/", "ldap://{ip}/",
    "unix:///run/docker.sock", "javascript:alert(1)", "data:text/plain,x", "//{ip}:{port}/",
    "http:{ip}:{port}", "http:///{ip}:{port}/", "http://user@{ip}:{port}/", "http://user:word@example.com/",
    "http://example.com@{ip}:{port}/", "http://{ip}:{port}#@example.com/", "http://{ip}:{port}?@example.com/",
    "http://{ip}:{port}\\@example.com/", "http://example.com\\@{ip}:{port}/", "http://{ip}:{port};@example.com/",
    "http://[::1]:{port}.example.com/", "http://{ip}:{port}:80/", "http://{ip}:0/", "http://{ip}:99999/",
    "http://{ip}:-1/", "http://example.com:25/", "http://example.com:22/", "http://example.com:6379/",
    "https://{ip}:{port}/", "HTTP://{ip}:{port}/", "hTTp://LocalHost:{port}/", " http://{ip}:{port}/",
    "http://\u200b{ip}:{port}/", "http://{ip}\u00ad:{port}/", "http://\n{ip}:{port}/", "http://[::1:{port}/",
    "nonsense", "", "http://", "https://", "http://:{port}/",
]  # fmt: skip


class Listener:
    """On this machine, in both families; counts whoever comes."""

    def __init__(self) -> None:
        self.connections = 0
        self.port = 0

    async def take(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        writer.close()


@pytest.fixture
async def inside() -> AsyncIterator[Listener]:
    listener = Listener()
    servers = [await asyncio.start_server(listener.take, "127.0.0.1", 0)]
    listener.port = servers[0].sockets[0].getsockname()[1]
    try:
        servers.append(await asyncio.start_server(listener.take, "::1", listener.port))
    except OSError:
        pass  # a machine without IPv6
    yield listener
    for server in servers:
        server.close()


async def to_here(name: str, port: int) -> Sequence[str]:
    return ["127.0.0.1"]


@pytest.mark.parametrize("private_all", [False, True])
async def test_no_form_of_an_address_leads_inside(inside: Listener, private_all: bool) -> None:
    """Every name leads to this machine. With a grant for all, metadata stay closed."""
    urls = [f"http://{host}:{inside.port}/" for host in HOSTS]
    urls += [form.replace("{ip}", "127.0.0.1").replace("{port}", str(inside.port)) for form in WHOLE]
    if private_all:
        urls = [f"http://{host}/" for host in notations("169.254.169.254")]
        urls += ["http://metadata.google.internal/", "http://[fd00:ec2::254]/", "http://100.100.100.200/"]
    assert len(urls) >= (36 if private_all else 230) and len(set(urls)) >= len(urls) - 2
    client = EgressClient(EgressParts(reach=lambda: Reach(look_up=to_here, private_all=private_all)))
    for url in urls:
        with pytest.raises(UserError, match="was not fetched"):
            await client.fetch(url, seconds=20)
    assert inside.connections == 0


async def test_the_listener_counts(inside: Listener) -> None:
    client = EgressClient(EgressParts(reach=lambda: Reach(private=("127.0.0.1",))))
    with pytest.raises(UserError):
        await client.fetch(f"http://127.0.0.1:{inside.port}/")
    assert inside.connections == 1


@pytest.fixture
async def site() -> AsyncIterator[Site]:
    async with open_site() as site:
        yield site


class Changing:
    """Answers with another address each time, the last one for ever."""

    def __init__(self, *answers: str) -> None:
        self.answers = [answer.split() for answer in answers]
        self.asked = 0

    async def __call__(self, name: str, port: int) -> Sequence[str]:
        self.asked += 1
        return self.answers[min(self.asked, len(self.answers)) - 1]


OPEN, CLOSED = "127.0.0.1", "127.0.0.2"
REBINDING = [
    # answers of the name, and whether the first of them may be reached
    ((OPEN, CLOSED), True),
    ((f"{OPEN} {OPEN}", CLOSED), True),
    ((CLOSED, OPEN), False),
    ((f"{OPEN} {CLOSED}", OPEN), False),
    ((f"{CLOSED} {OPEN}",), False),
    ((f"{OPEN} ::1", OPEN), False),
    ((f"{OPEN} ::ffff:127.0.0.2",), False),
    ((f"{OPEN} 64:ff9b::7f00:2",), False),
    ((f"{OPEN} 169.254.169.254",), False),
    ((f"{OPEN} fe80::1%lo",), False),
    (("0.0.0.0", OPEN), False),
    (("", OPEN), False),
]


@pytest.mark.parametrize(("answers", "reached"), REBINDING)
async def test_a_name_that_answers_differently(site: Site, answers: tuple[str, ...], reached: bool) -> None:
    names = Changing(*answers)
    client = EgressClient(EgressParts(reach=lambda: Reach(look_up=names, is_open=is_open)))
    for _ in range(3):
        try:
            page = await client.fetch(f"http://{HOST}:{site.port}/hello", seconds=20)
            assert page.data == b"hello"
        except UserError:
            pass
    assert bool(site.seen) is reached or answers[-1] == OPEN
    assert names.asked == 3 and site.connections == 0


async def test_a_redirect_to_a_name_that_changed_meanwhile(site: Site) -> None:
    names = Changing(OPEN, CLOSED)
    client = EgressClient(EgressParts(reach=lambda: Reach(look_up=names, is_open=is_open)))
    with pytest.raises(UserError, match="not the open one"):
        await client.fetch(f"http://{HOST}:{site.port}/to?u=/hello")
    assert names.asked == 2 and site.connections == 0 and len(site.seen) == 1


def open_client(**more: object) -> EgressClient:
    reach = Reach(look_up=look_up, is_open=is_open, **more)  # type: ignore[arg-type]
    return EgressClient(EgressParts(reach=lambda: reach))


CHAINS = [
    ["http://127.0.0.2:{port}/"],
    ["http://{inside}:{port}/"],
    ["/to?u=http://127.0.0.2:{port}/"],
    ["http://{other}:{port}/to?u=http://127.0.0.2:{port}/"],
    ["//127.0.0.2:{port}/"],
    ["http://127.2:{port}/"],
    ["http://0x7f000002:{port}/"],
    ["http://[::ffff:127.0.0.2]:{port}/"],
    ["http://１２７.０.０.２:{port}/"],
    ["http://user:word@127.0.0.2:{port}/"],
    ["file:///etc/passwd"],
    ["http://{other}:{port}/to?u=/to?u=//127.0.0.2:{port}/"],
    ["gopher://127.0.0.2:{port}/"],
]


@pytest.mark.parametrize("chain", CHAINS)
@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
async def test_redirects_that_lead_inside(site: Site, chain: list[str], status: int) -> None:
    target = chain[0].replace("{port}", str(site.port)).replace("{inside}", INSIDE).replace("{other}", OTHER)
    with pytest.raises(UserError, match="was not fetched"):
        await open_client().fetch(f"http://{HOST}:{site.port}/to?s={status}&u={quote(target, safe='')}")
    assert site.connections == 0 and site.seen


async def test_a_page_redirects_and_no_cookies(site: Site) -> None:
    client = open_client()
    url = f"http://{HOST}:{site.port}"
    page = await client.fetch(f"{url}/to?u=/hello")
    assert (page.url, page.status, page.data, page.mime) == (f"{url}/hello", 200, b"hello", "text/plain")
    assert b"cookie" not in (await client.fetch(f"{url}/echo")).data.lower()
    with pytest.raises(UserError, match="more than 5 times"):
        await client.fetch(f"{url}/to?u=/to?u=/to?u=/to?u=/to?u=/to?u=/to?u=/hello")
    one = await client.request(WebRequest(url=f"{url}/to?u=/hello"))
    assert (one.status, one.headers["location"]) == (302, "/hello")


async def test_what_goes_along_to_another_host(site: Site) -> None:
    url, other = f"http://{HOST}:{site.port}", f"http://{OTHER}:{site.port}"
    headers = {
        "Authorization": "Bearer x",
        "X-Api-Key": "y",
        "Accept": "text/plain",
        "Host": "z",
        "Cookie": "a=b",
    }

    async def ask(target: str, status: int, **more: object) -> None:
        await open_client().request(
            WebRequest(url=f"{url}/to?s={status}&u={target}", headers=headers, redirects=3, **more)  # type: ignore[arg-type]
        )

    await ask(f"{url}/echo", 302)
    assert site.seen[-1].headers["authorization"] == "Bearer x"
    assert site.seen[-1].headers["host"] == f"{HOST}:{site.port}" and "cookie" not in site.seen[-1].headers
    await ask(f"{other}/echo", 302)
    assert not {"authorization", "x-api-key"} & site.seen[-1].headers.keys()
    assert site.seen[-1].headers["accept"] == "text/plain"
    await ask(f"{url}/echo", 307, method="POST", body=b"data")
    assert (site.seen[-1].method, site.seen[-1].body) == ("POST", b"data")
    await ask(f"{url}/echo", 302, method="POST", body=b"data")
    assert (site.seen[-1].method, site.seen[-1].body) == ("GET", b"")
    with pytest.raises(Refused, match="body is not sent on"):
        await ask(f"{other}/echo", 308, method="POST", body=b"data")


async def test_whether_it_may_be_tried_again(site: Site) -> None:
    """Whoever sends once must know whether anything was sent."""
    for url in (f"http://gone.example.org:{site.port}/", f"http://{HOST}:2/"):
        with pytest.raises(Unreachable) as error:
            await open_client().request(WebRequest(url=url, method="POST", body=b"x"))
        assert error.value.offline and not error.value.maybe_done
    with pytest.raises(Unreachable) as error:
        await open_client().request(WebRequest(url=f"http://{INSIDE}:{site.port}/", private=True))
    assert error.value.maybe_done and not error.value.offline and site.connections == 1
    with pytest.raises(Refused):
        await open_client().check(f"http://{INSIDE}:{site.port}/")
    with pytest.raises(Unreachable):
        await open_client().check("http://gone.example.org/")
    await open_client().check(f"http://{HOST}:{site.port}/hello")
    assert not site.seen and site.connections == 1


async def test_what_is_not_sent(site: Site) -> None:
    url = f"http://{HOST}:{site.port}/echo"
    for request in (
        WebRequest(url=url, method="CONNECT"),
        WebRequest(url=url, method="TRACE"),
        WebRequest(url=url, method="GET / HTTP/1.1\r\nX:"),
        WebRequest(url=url, headers={"X": "a\r\nY: b"}),
        WebRequest(url=url, headers={"X\r\nY": "b"}),
    ):
        with pytest.raises(HermesError):
            await open_client().request(request)
    assert not site.seen


async def test_lists_and_grants(site: Site) -> None:
    url = f"http://{HOST}:{site.port}/hello"
    inside = f"http://{INSIDE}:{site.port}/hello"
    for more in (
        {"allow": (OTHER,)},
        {"deny": (HOST,)},
        {"deny": ("*",)},
        {"allow": ("(none)",)},
        {"allow": (f"{HOST}:1",)},
    ):
        with pytest.raises(UserError, match="settings"):
            await open_client(**more).fetch(url)
    assert not site.seen
    assert (await open_client(allow=("*.example.org",)).fetch(url)).data == b"hello"
    for grant in (INSIDE, "127.0.0.2", "127.0.0.0/8", f"{INSIDE}:{site.port}", "*.example.org"):
        before = site.connections
        with pytest.raises(UserError, match="did not answer"):  # it only counts
            await open_client(private=(grant,)).fetch(inside)
        assert site.connections == before + 1
    for grant in ("10.0.0.0/8", f"{INSIDE}:1", "nonsense/8", ""):
        with pytest.raises(UserError, match="not the open one"):
            await open_client(private=(grant,)).fetch(inside)
    with pytest.raises(UserError, match="not the open one"):
        await open_client(private=("*", "0.0.0.0/0"), private_all=True).fetch("http://metadata.example.org/")


BOMB = b"\0" * 50_000_000


async def packed(request: web.Request) -> web.StreamResponse:
    kind = request.path.strip("/")
    headless = zlib.compressobj(wbits=-15)
    body = {
        "gzip": lambda: (gzip.compress(b"hello"), "gzip"),
        "members": lambda: (gzip.compress(b"hel") + gzip.compress(b"lo") + b"\0\0", "gzip"),
        "behind": lambda: (gzip.compress(b"hello") + b"\x1f?", "gzip"),
        "deflate": lambda: (zlib.compress(b"hello"), "deflate"),
        "headless": lambda: (headless.compress(b"hello") + headless.flush(), "deflate"),
        "bomb": lambda: (gzip.compress(BOMB), "gzip"),
        "twice": lambda: (gzip.compress(gzip.compress(BOMB)), "gzip, gzip"),
        "cut": lambda: (gzip.compress(b"hello" * 9)[:-9], "gzip"),
        "exact": lambda: (gzip.compress(b"\0" * 900_000), "gzip"),
        "broken": lambda: (b"\x1f\x8bnonsense", "gzip"),
        "other": lambda: (b"x", "br"),
    }
    if kind in body:
        data, coding = body[kind]()
        return web.Response(body=data, headers={"Content-Encoding": coding})
    response = web.StreamResponse(headers={"X-Long": "x" * 100_000} if kind == "headers" else {})
    await response.prepare(request)
    while kind == "drip":
        await response.write(b"a")
        await asyncio.sleep(0.02)
    while kind == "endless":
        await response.write(b"a" * 65_536)
    return response


@pytest.mark.parametrize(
    ("path", "why"),
    [
        ("bomb", "more than 1,000,000 bytes"),
        ("twice", "not read"),
        ("broken", "cannot be unpacked"),
        ("cut", "cannot be unpacked"),
        ("other", "not read"),
        ("headers", "did not answer"),
        ("drip", r"no answer within 0\.5 s"),
        ("endless", "more than 1,000,000 bytes"),
    ],
)
async def test_limits(path: str, why: str) -> None:
    app = web.Application()
    app.router.add_get("/{tail}", packed)
    async with TestServer(app) as server:
        url = f"http://{HOST}:{server.port}"
        for good in ("gzip", "members", "behind", "deflate", "headless"):
            assert (await open_client().fetch(f"{url}/{good}")).data == b"hello"
        assert len((await open_client().fetch(f"{url}/exact", limit=900_000)).data) == 900_000
        with pytest.raises(UserError, match=why):
            seconds = 0.5 if path == "drip" else 40
            await open_client().fetch(f"{url}/{path}", limit=1_000_000, seconds=seconds)
