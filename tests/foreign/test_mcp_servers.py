"""MCP servers of other makers, as people use them: `server-everything`, `-filesystem` and `-memory` 2026.8.31
of npm, `mcp-server-time` and `mcp-server-git` 2026.10.19 of PyPI; and the official conformance suite, 0.1.16
of npm, with our client."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from pathlib import Path

import pytest

from hermes.domain.clock import SystemClock
from hermes.domain.settings.mcp import McpServer
from hermes.execution.process_tree import descendants
from hermes.state.files.media import MediaFiles
from hermes.state.store.writer import SqliteStore
from tests.foreign.environments import ROOT, node, python_of
from tests.foreign.test_mcp_login import FILES
from tests.mcp.bed import bed, served

pytestmark = pytest.mark.server
# Left out: `basic-cimd` wants a public document about this client, `scope-step-up` a second login without a
# person; `2025-03-26-oauth-metadata-backcompat` has metadata of another issuer, which mcp 2.3 refuses.
SCENARIOS = [
    *("initialize", "tools_call", "sse-retry", "auth/metadata-var3", "auth/scope-retry-limit"),
    *("auth/token-endpoint-auth-basic", "auth/token-endpoint-auth-post", "auth/pre-registration"),
    *("auth/2025-03-26-oauth-endpoint-fallback", "auth/resource-mismatch", "auth/offline-access-scope"),
]


def of_npm(name: str, *args: str) -> McpServer:
    program, place = node("mcp-node", FILES)
    script = place / "node_modules" / "@modelcontextprotocol" / name / "dist" / "index.js"
    return McpServer(command=str(program), args=(str(script), *args))


def of_pypi(name: str, *args: str) -> McpServer:
    return McpServer(command=str(python_of("mcp-servers").parent / name), args=args)


async def test_everything(tmp_path: Path) -> None:
    async with SqliteStore(None) as store:
        media = MediaFiles(tmp_path / "media", store.scoped("main"), SystemClock())  # type: ignore[arg-type]
        async with bed(tmp_path, of_npm("server-everything", "stdio"), media) as server:
            tools = await server.tools()
            assert len(tools) > 8 and "mcp__t__read_resource" in tools and "mcp__t__get_prompt" in tools
            assert "hello there" in (await server.call("echo", message="hello there")).text
            assert "5" in (await server.call("get-sum", a=2, b=3)).text
            picture = await server.call("get-tiny-image")
            assert [file.mime for file in picture.attachments] == ["image/png"]
            weather = await server.call("get-structured-content", location="New York")
            assert isinstance(weather.data, dict) and "temperature" in weather.data
            listed = await server.call("list_resources")
            assert "://" in listed.text
            uri = next(word for word in listed.text.split() if "://" in word)
            assert not (await server.call("read_resource", uri=uri)).failed
            assert "simple" in (await server.call("list_prompts")).text


async def test_everything_over_http(tmp_path: Path) -> None:
    given = of_npm("server-everything", "streamableHttp")
    with served(given.command, *given.args, env={"PORT": "{port}"}) as place:
        async with bed(tmp_path, McpServer(url=f"{place}/mcp")) as server:
            assert "hello" in (await server.call("echo", message="hello")).text


async def test_files(tmp_path: Path) -> None:
    folder = tmp_path / "shared"
    folder.mkdir()
    (folder / "a.txt").write_text("alpha")
    async with bed(tmp_path, of_npm("server-filesystem", str(folder))) as server:
        assert "alpha" in (await server.call("read_text_file", path=str(folder / "a.txt"))).text
        assert not (await server.call("write_file", path=str(folder / "b.txt"), content="beta")).failed
        assert (folder / "b.txt").read_text() == "beta"
        outside = await server.call("read_text_file", path="/etc/hostname")
        assert outside.failed and outside.outside


async def test_memory_survives_its_server(tmp_path: Path) -> None:
    entity = {"name": "Ada", "entityType": "person", "observations": ["likes tea"]}
    place = str(tmp_path / "memory.jsonl")
    server = of_npm("server-memory")
    server = type(server)(command=server.command, args=server.args, env=f'{{"MEMORY_FILE_PATH": "{place}"}}')
    async with bed(tmp_path, server) as made:
        assert not (await made.call("create_entities", entities=[entity])).failed
    async with bed(tmp_path, server) as made:
        assert "likes tea" in (await made.call("search_nodes", query="Ada")).text


@pytest.mark.parametrize("scenario", SCENARIOS)
async def test_the_official_conformance_suite(tmp_path: Path, scenario: str) -> None:
    program, place = node("mcp-node", FILES)
    suite = place / "node_modules" / "@modelcontextprotocol" / "conformance" / "dist" / "index.js"
    client = tmp_path / "client.sh"
    script = f"exec {sys.executable} {FILES / 'conformance_client.py'}"
    client.write_text(f'#!/bin/sh\ncd {ROOT}\nPYTHONPATH=src:. {script} "$@"\n')
    client.chmod(0o755)
    words = [str(program), str(suite), "client", "--command", str(client), "--scenario", scenario]
    done = await asyncio.to_thread(
        subprocess.run, words, cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False
    )
    assert "OVERALL: PASSED" in done.stdout + done.stderr, done.stdout[-3000:] + done.stderr[-3000:]


async def test_time_and_git(tmp_path: Path) -> None:
    repository = tmp_path / "repository"
    subprocess.run(["git", "init", "-q", str(repository)], check=True)  # noqa: ASYNC221
    (repository / "new.txt").write_text("new")
    for number, (server, tool, arguments, words) in enumerate(
        (
            (of_pypi("mcp-server-time"), "get_current_time", {"timezone": "Europe/Berlin"}, "Berlin"),
            (of_pypi("mcp-server-git"), "git_status", {"repo_path": str(repository)}, "new.txt"),
        )
    ):
        folder = tmp_path / str(number)
        folder.mkdir()
        async with bed(folder, server) as made:
            result = await made.call(tool, **arguments)
            assert words in result.text and not result.failed, result
    left = [pid for pid in descendants() if b"mcp-server" in _words(pid)]
    assert not left


def _words(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""
