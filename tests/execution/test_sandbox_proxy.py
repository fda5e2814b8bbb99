"""The proxy of sandboxes lets through to the listed hosts alone, and reads every request in one way."""

from __future__ import annotations

import asyncio
import os
import stat
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from hermes.execution.egress import forwarder, proxy
from tests.execution.egress_site import HOST, MAIN, OTHER, Site, open_proxy, open_site, rules, say

FORWARDER = Path(forwarder.__file__)


@pytest.fixture
async def site() -> AsyncIterator[Site]:
    async with open_site() as site:
        yield site


@pytest.fixture
async def door(site: Site, tmp_path: Path) -> AsyncIterator[Path]:
    """Leads to the site alone, by name and port."""
    async with open_proxy(tmp_path / "e") as made:
        yield await made.open(MAIN, rules(f"{HOST}:{site.port}"))


async def test_a_request_and_a_tunnel(site: Site, door: Path) -> None:
    answer = await say(door, f"GET http://{HOST}:{site.port}/hello HTTP/1.1\r\nHost: x\r\n\r\n".encode())
    assert answer.startswith(b"HTTP/1.1 200 OK\r\n") and answer.endswith(b"\r\n\r\nhello")
    assert site.seen[-1].headers["host"] == f"{HOST}:{site.port}"
    reader, writer = await asyncio.open_unix_connection(door)
    writer.write(f"CONNECT {HOST}:{site.port} HTTP/1.1\r\n\r\n".encode())
    assert await reader.readuntil(b"\r\n\r\n") == b"HTTP/1.1 200 Connection established\r\n\r\n"
    writer.write(b"GET /hello HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
    assert (await reader.read()).endswith(b"hello")
    writer.close()


@pytest.mark.parametrize(
    "target",
    [
        "other.example.net:{port}",
        "api.example.org:80",
        "api.example.org:443",
        "127.0.0.1:{port}",
        "127.1:{port}",
        "0x7f000001:{port}",
        "[::1]:{port}",
        "[::ffff:127.0.0.1]:{port}",
        "localhost:{port}",
        "api.example.org.evil.net:{port}",
        "evil-api.example.org:{port}",
        "sub.api.example.org:{port}",
        "inside.example.org:{port}",
        "metadata.example.org:{port}",
        "169.254.169.254:{port}",
        "api.example.org:22",
        "api.example.org%00.evil.net:{port}",
    ],
)
async def test_what_is_not_listed(site: Site, door: Path, target: str) -> None:
    place = target.format(port=site.port)
    for head in (f"CONNECT {place} HTTP/1.1", f"GET http://{place}/hello HTTP/1.1"):
        answer = await say(door, f"{head}\r\n\r\n".encode())
        assert answer.startswith((b"HTTP/1.1 403 ", b"HTTP/1.1 400 ")), answer
        assert answer.count(b"\n\r\n") == 1 and answer.endswith(b".\n")
    assert not site.seen and not site.connections


async def test_a_listed_name_that_leads_inside(site: Site, tmp_path: Path) -> None:
    names = ("inside.example.org", "metadata.example.org", "*.example.org", "127.0.0.2", "localhost")
    async with open_proxy(tmp_path / "e") as made:
        door = await made.open(MAIN, rules(*(f"{name}:{site.port}" for name in names)))
        for name in ("inside.example.org", "metadata.example.org", "127.0.0.2", "localhost"):
            answer = await say(door, f"CONNECT {name}:{site.port} HTTP/1.1\r\n\r\n".encode())
            assert answer.startswith(b"HTTP/1.1 403 ") and b"not the open one" in answer
        assert made.counts == {"refused": 4}
    assert not site.connections


async def test_names_below_and_usual_ports(site: Site, tmp_path: Path) -> None:
    async with open_proxy(tmp_path / "e") as made:
        below = await made.open(MAIN, rules(f"*.example.org:{site.port}"))
        assert b" 200 " in await say(below, f"GET http://{HOST}:{site.port}/hello HTTP/1.0\r\n\r\n".encode())
        assert b" 403 " in await say(below, f"GET http://example.org:{site.port}/ HTTP/1.0\r\n\r\n".encode())
        usual = await made.open(MAIN, rules(HOST))
        assert b" 403 " in await say(usual, f"GET http://{HOST}:{site.port}/ HTTP/1.0\r\n\r\n".encode())
        assert usual != below and await made.open(MAIN, rules(HOST)) == usual
        nothing = await made.open(MAIN, rules())
        assert b" 403 " in await say(nothing, b"CONNECT api.example.org:443 HTTP/1.1\r\n\r\n")


async def test_the_sockets_are_private_and_gone_at_the_end(tmp_path: Path) -> None:
    async with open_proxy(tmp_path / "e") as made:
        door = await made.open(MAIN, rules(HOST))
        assert stat.S_IMODE(os.stat(tmp_path / "e").st_mode) == 0o700
        assert os.listdir(door.parent) == ["s"]
        waiting = await asyncio.open_unix_connection(door)
        assert b" 400 " in await say(door, b"\r\n\r\n")  # so the first one is served, too
    assert not door.parent.exists()
    assert await waiting[0].read() == b""
    waiting[1].close()


SMUGGLED = [
    "POST {u} HTTP/1.1\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nhello",
    "POST {u} HTTP/1.1\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "POST {u} HTTP/1.1\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "POST {u} HTTP/1.1\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
    "POST {u} HTTP/1.1\r\nTransfer-Encoding: xchunked\r\n\r\n0\r\n\r\n",
    "POST {u} HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "POST {u} HTTP/1.1\r\nTransfer-Encoding : chunked\r\n\r\n0\r\n\r\n",
    "POST {u} HTTP/1.1\r\nContent-Length: +5\r\n\r\nhello",
    "POST {u} HTTP/1.1\r\nContent-Length: 0x5\r\n\r\nhello",
    "POST {u} HTTP/1.1\r\nContent-Length: 5, 5\r\n\r\nhello",
    "POST {u} HTTP/1.1\r\nContent-Length: -1\r\n\r\nhello",
    "GET {u} HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n",
    "GET {u} HTTP/1.1\r\nX: a\r\n folded: b\r\n\r\n",
    "GET {u} HTTP/1.1\r\nX: a\nTransfer-Encoding: chunked\r\n\r\n",
    "GET {u} HTTP/1.1\r\nX: a\rY: b\r\n\r\n",
    "GET {u} HTTP/1.1\r\nX: a\0b\r\n\r\n",
    "GET {u} HTTP/1.1\r\nno colon\r\n\r\n",
    "GET {u} HTTP/1.1\r\n: empty\r\n\r\n",
    "GET  {u} HTTP/1.1\r\n\r\n",
    "GET {u} HTTP/1.1 \r\n\r\n",
    "GET\t{u}\tHTTP/1.1\r\n\r\n",
    "GET {u} HTTP/2.0\r\n\r\n",
    "GET {u}\r\n\r\n",
    "GET /hello HTTP/1.1\r\nHost: api.example.org\r\n\r\n",
    "GET {u}#part HTTP/1.1\r\n\r\n",
    "GET ftp://api.example.org/ HTTP/1.1\r\n\r\n",
    "GET http://name:word@api.example.org/ HTTP/1.1\r\n\r\n",
    "GET http://127.0.0.1\\@api.example.org/ HTTP/1.1\r\n\r\n",
    "CONNECT api.example.org HTTP/1.1\r\n\r\n",
    "CONNECT name@api.example.org:443 HTTP/1.1\r\n\r\n",
    "CONNECT api.example.org:443 HTTP/1.1\r\nContent-Length: 4\r\n\r\nGET ",
    "CONNECT api.example.org:99999 HTTP/1.1\r\n\r\n",
    "\r\n\r\nGET {u} HTTP/1.1\r\n\r\n",
]


@pytest.mark.parametrize("text", SMUGGLED)
async def test_what_could_be_read_in_two_ways(site: Site, door: Path, text: str) -> None:
    answer = await say(door, text.replace("{u}", f"http://{HOST}:{site.port}/hello").encode())
    assert answer.startswith((b"HTTP/1.1 400 ", b"HTTP/1.1 403 ")), answer
    assert not site.seen


async def test_a_second_request_on_the_same_connection_is_never_read(site: Site, door: Path) -> None:
    url = f"http://{HOST}:{site.port}/echo"
    one = f"POST {url}?one HTTP/1.1\r\nContent-Length: 4\r\nConnection: keep-alive\r\n\r\nbody"
    answer = await say(door, f"{one}GET {url}?two HTTP/1.1\r\n\r\n".encode())
    assert answer.count(b"HTTP/1.1 ") == 1 and b"Connection: close" in answer
    assert [(seen.path, seen.body) for seen in site.seen] == [("/echo?one", b"body")]


async def test_headers_of_one_connection_stay_there(site: Site, door: Path) -> None:
    lines = (
        f"POST http://{HOST}:{site.port}/echo HTTP/1.1\r\nHost: elsewhere\r\nConnection: x-mine, close\r\n"
        "X-Mine: 1\r\nX-Yours: 2\r\nProxy-Authorization: Basic eA==\r\nUpgrade: h2c\r\nTE: trailers\r\n"
        "Proxy-Connection: keep-alive\r\nTransfer-Encoding: chunked\r\n\r\n"
        "5;extension\r\nhello\r\n6\r\n world\r\n0\r\nTrailer: x\r\n\r\n"
    )
    assert b" 200 " in await say(door, lines.encode())
    seen = site.seen[-1]
    assert seen.body == b"hello world" and seen.headers["x-yours"] == "2"
    gone = {"x-mine", "proxy-authorization", "upgrade", "te", "proxy-connection", "trailer"}
    assert not gone & seen.headers.keys() and seen.headers["host"] == f"{HOST}:{site.port}"


@pytest.mark.parametrize("body", ["5\r\nhel", "5\r\nhelloX\r\n0\r\n\r\n", "g\r\n\r\n", "\r\n", "-1\r\n\r\n"])
async def test_a_body_that_cannot_be_read(site: Site, door: Path, body: str) -> None:
    head = f"POST http://{HOST}:{site.port}/echo HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n"
    answer = await say(door, (head + body).encode())
    assert answer.startswith((b"HTTP/1.1 400", b"HTTP/1.1 502")) or not answer
    assert not site.seen  # it answers whole requests only


async def test_slow_and_endless_clients(site: Site, door: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(proxy, "HEAD_SECONDS", 0.2)
    assert b" 408 " in await say(door, b"GET http", end=False)
    monkeypatch.setattr(proxy, "HEAD_SECONDS", 60.0)
    assert b" 400 " in await say(door, b"GET http://a/ HTTP/1.1\r\n" + b"X: y\r\n" * 10_000, end=False)
    assert await say(door, b"GET http://a/ HTT") == b""
    assert await say(door, b"") == b""
    assert not site.seen


async def test_connections_on_which_nothing_moves(
    site: Site, door: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(proxy, "IDLE_SECONDS", 0.3)
    head = f"POST http://{HOST}:{site.port}/echo HTTP/1.1\r\nContent-Length: 10\r\n\r\nhalf"
    assert (await say(door, head.encode(), end=False)).startswith(b"HTTP/1.1 502 ")
    tunnel = f"CONNECT {HOST}:{site.port} HTTP/1.1\r\n\r\nGET /hello"
    established = b"HTTP/1.1 200 Connection established\r\n\r\n"
    assert await say(door, tunnel.encode(), end=False) == established
    assert not site.seen


async def test_two_hundred_connections_at_once(site: Site, door: Path) -> None:
    url = f"http://{HOST}:{site.port}/hello"
    answers = await asyncio.gather(*(say(door, f"GET {url} HTTP/1.0\r\n\r\n".encode()) for _ in range(200)))
    assert sum(answer.endswith(b"hello") for answer in answers) == 200


async def test_more_connections_than_there_may_be(
    site: Site, door: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(proxy, "MOST_CONNECTIONS", 2)
    held = [await asyncio.open_unix_connection(door) for _ in range(2)]
    for _, writer in held:
        writer.write(b"GET ")
    assert b" 503 " in await say(door, b"", end=False)
    for _, writer in held:
        writer.close()


async def test_a_host_that_does_not_answer(site: Site, tmp_path: Path) -> None:
    async with open_proxy(tmp_path / "e") as made:
        door = await made.open(MAIN, rules(f"{HOST}:9", "gone.example.org"))
        for head in (f"CONNECT {HOST}:9", "GET http://gone.example.org/", "CONNECT gone.example.org:443"):
            answer = await say(door, f"{head} HTTP/1.1\r\n\r\n".encode())
            assert answer.startswith(b"HTTP/1.1 502 ") and answer.endswith(b".\n")


class Forwarded:
    """The forwarder as a sandbox runs it: a bare Python with nothing of ours."""

    def __init__(self, door: Path) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-I", "-S", str(FORWARDER), "0", str(door), "--until-stdin-ends"],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, env={},
        )  # fmt: skip
        assert self._process.stdout is not None
        self.url = f"http://127.0.0.1:{int(self._process.stdout.readline())}"

    def close(self) -> int:
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.close()
        self._process.stdout.close()
        return self._process.wait(40)


@pytest.fixture
async def forwarded(door: Path) -> AsyncIterator[str]:
    made = await asyncio.to_thread(Forwarded, door)
    yield made.url
    assert await asyncio.to_thread(made.close) == 0


async def run(*words: str, **environ: str) -> tuple[int, str]:
    process = await asyncio.create_subprocess_exec(
        *words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env={"PATH": os.environ["PATH"], **environ}
    )
    output, _ = await process.communicate()
    return process.returncode or 0, output.decode()


async def test_curl_and_urllib_by_the_forwarder(site: Site, forwarded: str) -> None:
    url = f"http://{HOST}:{site.port}"
    told = {"http_proxy": forwarded, "https_proxy": forwarded}
    assert await run("curl", "-sS", f"{url}/hello", **told) == (0, "hello")
    assert await run("curl", "-sS", "-p", f"{url}/hello", **told) == (0, "hello")
    data = "d" * 2_000_000
    sent = await run(
        "curl", "-sS", "-H", "Expect: 100-continue", "--data-binary", "@-", f"{url}/echo", **told
    )
    assert sent[0] == 0 and site.seen[-1].method == "POST"
    code, _ = await run("curl", "-sS", "-F", f"f={data[:90_000]}", f"{url}/echo", **told)
    assert code == 0 and data[:90_000].encode() in site.seen[-1].body
    size = await run("curl", "-sS", "-o", "/dev/null", "-w", "%{size_download}", f"{url}/large", **told)
    assert size == (0, "3000000")
    code, words = await run("curl", "-sS", f"http://{OTHER}:{site.port}/hello", **told)
    assert code == 0 and "not among the hosts that this sandbox may reach" in words
    code, words = await run("curl", "-sS", f"https://{OTHER}/", **told)
    assert code == 56 and "403" in words
    fetch = "import sys, urllib.request as u; print(u.urlopen(sys.argv[1]).read().decode())"
    assert await run(sys.executable, "-c", fetch, f"{url}/hello", **told) == (0, "hello\n")
    code, words = await run(sys.executable, "-c", fetch, f"http://{OTHER}:{site.port}/", **told)
    assert code == 1 and "403" in words


async def test_a_forwarder_without_its_gateway(tmp_path: Path) -> None:
    made = await asyncio.to_thread(Forwarded, tmp_path / "gone")
    code, _ = await run("curl", "-sS", "http://api.example.org/", http_proxy=made.url)
    assert code != 0
    assert await asyncio.to_thread(made.close) == 0
