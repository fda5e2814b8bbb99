"""The backend `daytona` with the real SDK, over a service whose sandboxes run their commands here."""

from __future__ import annotations

import asyncio
import os
import shutil
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from aiohttp import web

from hermes.domain.errors import UserError
from hermes.domain.ids import AgentId
from hermes.domain.ports.world import NetworkRules
from hermes.domain.word import replace
from hermes.execution.sandboxes.bound_place import BoundPlace
from hermes.execution.sandboxes.daytona import DaytonaPlace, make_daytona
from hermes.execution.sandboxes.kept import read_kept
from hermes.execution.sandboxes.modal import ModalPlace
from hermes.testing.backends import backend_request
from hermes.testing.ports import free_port
from tests.foreign.daytona_server import FakeDaytona
from tests.foreign.environments import ROOT, python_of

CLIENT = ROOT / "tests" / "foreign" / "clients" / "daytona_suite.py"


async def run(tmp_path: Path, *words: str) -> tuple[int | None, str]:
    python = await asyncio.to_thread(python_of, "daytona")
    told = {"PATH": os.environ["PATH"], "HOME": str(tmp_path)}
    process = await asyncio.create_subprocess_exec(
        str(python), *words, env=told, cwd=tmp_path,
        stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT,
    )  # fmt: skip
    output, _ = await process.communicate()
    return process.returncode, output.decode()[-4000:]


@pytest.fixture
async def service(tmp_path: Path) -> AsyncIterator[FakeDaytona]:
    fake, port = FakeDaytona("dtn-1", tmp_path / "sandboxes"), free_port()
    fake.url = f"http://127.0.0.1:{port}"
    runner = web.AppRunner(fake.app())
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", port).start()
    yield fake
    await runner.cleanup()


async def suite(service: FakeDaytona, tmp_path: Path, *names: str) -> None:
    code, output = await run(tmp_path, str(ROOT / "tools" / "link.py"), str(ROOT))
    assert code == 0, output
    code, output = await run(tmp_path, str(CLIENT), service.url, service.key, str(tmp_path / "homes"), *names)
    assert code == 0, output


@pytest.mark.slow
async def test_conformance(service: FakeDaytona, tmp_path: Path) -> None:
    await suite(service, tmp_path)
    assert {sandbox.state for sandbox in service.sandboxes.values()} == {"stopped"}


@pytest.mark.slow
async def test_what_only_it_does(service: FakeDaytona, tmp_path: Path) -> None:
    await suite(service, tmp_path, "others")
    assert {sandbox.state for sandbox in service.sandboxes.values()} == {"stopped"}
    assert len(service.sandboxes) == 4, "what is not kept is gone"


async def test_what_it_cannot_hold_or_do_without_is_one_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "daytona", None)
    request = backend_request(home=tmp_path, workspace=tmp_path, environ={})
    with pytest.raises(UserError, match="needs its packages") as missing:
        await make_daytona(request).open()
    assert missing.value.hint == "Run: hermes platforms install daytona"
    hosts = NetworkRules(open=False, hosts=("pypi.org",))
    with pytest.raises(UserError, match="cannot limit the network to some hosts"):
        await make_daytona(replace(request, network=hosts)).open()


async def test_a_sandbox_is_that_of_its_home_alone(tmp_path: Path) -> None:
    """It goes along when its agent gets another id. Nobody has it who gets the id of one that is gone, or
    whose home has the same path on another machine."""
    request = backend_request(home=tmp_path, workspace=tmp_path / "workspace", environ={})
    renamed = replace(request, profile=replace(request.profile, agent=AgentId("office")))
    for place in (DaytonaPlace, ModalPlace):
        kept = [place(each).kept for each in (request, renamed)]
        first, again = map(read_kept, kept)
        assert first == again, "the renamed agent lost its sandbox"
        shutil.rmtree(tmp_path / "sandboxes")
        assert read_kept(kept[0]).name != first.name
    folders = {BoundPlace(each, "docker", "image").folder for each in (request, renamed)}
    assert len(folders) == 1
