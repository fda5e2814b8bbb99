"""The fakes of search services are accepted by their makers' SDKs; Debian's searx is really asked; and the
package ddgs goes where it is told to go."""

from __future__ import annotations

import asyncio
import fcntl
import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import yaml
from aiohttp import ClientError, ClientSession, web
from aiohttp.test_utils import TestServer

from hermes.domain.errors import UserError
from hermes.domain.settings.settings import SecuritySettings, Settings
from hermes.domain.settings.web import WebSettings
from hermes.execution.documents.reader import DocumentProcess
from hermes.execution.egress.client import EgressClient
from hermes.execution.web.access import WebAccess
from hermes.testing.clock import FakeClock
from hermes.testing.ports import free_port
from tests.execution.search_services import PAGE, serve_searches
from tests.foreign.environments import ROOT, python_of

pytestmark = [pytest.mark.server, pytest.mark.xdist_group("foreign")]
SDKS = ROOT / "tests" / "foreign" / "clients" / "search_sdks.py"
EXAMPLE = Path("/usr/share/doc/searx/examples/settings.yml")


def searx_settings(port: int, upstream: str, *, answers: bool) -> str:
    """Those of the package, with one engine: a site of ours."""
    settings = yaml.safe_load(EXAMPLE.read_text())
    settings["server"] |= {"port": port, "secret_key": "nothing-is-secret-here"}
    settings["outgoing"]["request_timeout"] = 10.0
    settings["engines"] = [
        {
            "name": "bees",
            "engine": "json_engine",
            "shortcut": "be",
            "categories": "general",
            "enable_http": answers,
            "search_url": f"{upstream}/found?q={{query}}",
            "results_query": "items",
            "url_query": "link",
            "title_query": "name",
            "content_query": "about",
        }
    ]
    return yaml.safe_dump(settings)


def access(url: str = "", **given: object) -> WebAccess:
    security = given.pop("security", SecuritySettings())
    settings = Settings(web=WebSettings(searxng_url=url, **given), security=security)  # type: ignore[arg-type]
    return WebAccess(
        settings=lambda: settings,
        key=lambda name: "",
        egress=EgressClient(),
        documents=DocumentProcess(python=str(python_of("web"))),
        clock=FakeClock(),
    )


async def test_the_sdks_accept_the_fakes() -> None:
    async with serve_searches() as fake:
        client = await asyncio.create_subprocess_exec(
            str(await asyncio.to_thread(python_of, "web")), str(SDKS), fake.url, PAGE,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, env={"PATH": os.environ["PATH"]},
        )  # fmt: skip
        output, errors = await client.communicate()
    assert client.returncode == 0, errors.decode()[-3000:]
    assert json.loads(output) == {
        "tavily": ["of bees", "read by tavily"],
        "exa": [["of bees", "and wasps"], "read by exa"],
        "firecrawl": ["of bees", "read by firecrawl"],
    }


def searx_program() -> str:
    with (Path(tempfile.gettempdir()) / "hermes-apt.lock").open("w") as alone:
        fcntl.flock(alone, fcntl.LOCK_EX)
        if shutil.which("searx-run") is None:
            if os.geteuid() != 0 or shutil.which("apt-get") is None:
                pytest.skip("searx is not here, and only root with apt-get can install it")
            environ = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
            wanted = ["apt-get", "install", "-y", "-q", "--no-install-recommends", "searx"]
            for command in (wanted, ["apt-get", "update", "-q"], wanted):
                subprocess.run(command, env=environ, capture_output=True, timeout=600, check=False)
    program = shutil.which("searx-run")
    if program is None:
        pytest.skip("there is no searx among the packages of this system")
    return program


@asynccontextmanager
async def running_searx(folder: Path, upstream: str, *, answers: bool = True) -> AsyncIterator[str]:
    port, settings = free_port(), folder / "settings.yml"
    environ = {"PATH": "/usr/bin:/bin", "HOME": str(folder), "SEARX_SETTINGS_PATH": str(settings)}
    program = await asyncio.to_thread(searx_program)
    settings.write_text(searx_settings(port, upstream, answers=answers))
    with (folder / "searx.log").open("wb") as log:
        server = await asyncio.create_subprocess_exec(
            program, env=environ, cwd=folder, stdout=log, stderr=log, start_new_session=True
        )
    try:
        url = f"http://127.0.0.1:{port}"
        async with ClientSession() as client:
            for _ in range(600):
                assert server.returncode is None, (folder / "searx.log").read_text()[-3000:]
                try:
                    await (await client.get(f"{url}/about")).read()
                    break
                except ClientError:
                    await asyncio.sleep(0.1)
        yield url
    finally:
        if server.returncode is None:
            os.killpg(server.pid, 9)
        await server.wait()


async def test_a_real_searx_is_asked(tmp_path: Path) -> None:
    async def found(request: web.Request) -> web.Response:
        item = {"link": "https://bees.example/", "name": "Bees", "about": f"of {request.query['q']}"}
        return web.json_response({"items": [item]})

    site = web.Application()
    site.router.add_get("/found", found)
    async with TestServer(site) as upstream:
        place = str(upstream.make_url("")).rstrip("/")
        async with running_searx(tmp_path, place) as url:
            (hit,) = await access(url).search("small bees", 5)
            assert (hit.title, hit.url, hit.text) == ("Bees", "https://bees.example/", "of small bees")
        async with running_searx(tmp_path, place, answers=False) as url:
            with pytest.raises(UserError, match="None of its engines answers"):
                await access(url).search("small bees", 5)


async def test_ddgs_goes_through_the_proxy_and_says_that_nobody_answers() -> None:
    asked: list[str] = []

    async def refuse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        asked.append((await reader.readline()).decode())
        writer.write(b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\n\r\n")
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(refuse, "127.0.0.1", 0)
    async with server:
        port = server.sockets[0].getsockname()[1]
        security = SecuritySettings(egress_proxy=f"http://127.0.0.1:{port}")
        with pytest.raises(UserError, match="ddgs: It cannot be asked"):
            await access(keyless=True, security=security).search("bees", 5)
    assert any(line.startswith("CONNECT ") and "duckduckgo" in line for line in asked), asked


async def test_what_ddgs_finds_has_the_fields_that_are_read() -> None:
    program = "from ddgs.results import TextResult; print(*sorted(vars(TextResult())))"
    python = await asyncio.to_thread(python_of, "web")
    told = await asyncio.to_thread(subprocess.run, [python, "-c", program], capture_output=True, text=True)
    assert told.stdout.split() == ["body", "href", "title"], told.stderr
