"""The backend `ssh` over a real sshd."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from hermes.domain.errors import HermesError, UserError
from hermes.domain.ids import MAIN_AGENT
from hermes.domain.ports.world import NO_NETWORK, OPEN_NETWORK, BackendRequest, Boundary, Command
from hermes.domain.settings.settings import Profile, Settings, TerminalSettings
from hermes.execution.far.backend import FarBackend
from hermes.execution.sandboxes.ssh_machine import make_ssh, probe_ssh
from hermes.testing.backend_suite import CHECKS, Bed
from tests.execution.beds import ENVIRON
from tests.execution.ssh_server import SshServer

pytestmark = [pytest.mark.server, pytest.mark.root]
SESSION = "s"


@pytest.fixture(scope="module")
def server() -> Iterator[SshServer]:
    made = SshServer()
    yield made
    made.close()


def request_for(server: SshServer, home: Path, **chosen: Any) -> BackendRequest:
    home.mkdir(parents=True, exist_ok=True)
    given = {"ssh_host": "127.0.0.1", "ssh_port": server.port, "ssh_key": str(server.key)} | chosen
    network = given.pop("network", OPEN_NETWORK)
    settings = Settings(terminal=TerminalSettings(**given))
    return BackendRequest(
        profile=Profile(agent=MAIN_AGENT, home=home, settings=settings),
        workspace=home / "work",
        environ=ENVIRON,
        share=lambda key, make: make(),
        network=network,
    )


@contextlib.asynccontextmanager
async def opened(server: SshServer, home: Path, **chosen: Any) -> Any:
    backend = make_ssh(request_for(server, home, **chosen))
    try:
        await backend.open()
        yield backend
    finally:
        await backend.close()


@pytest.mark.parametrize("name", CHECKS)
async def test_conformance(name: str, server: SshServer, tmp_path: Path) -> None:
    (tmp_path / "bed").mkdir()
    async with opened(server, tmp_path / "home") as backend:
        await CHECKS[name](Bed(backend=backend, folder=str(tmp_path / "bed")))


async def test_its_world_is_that_machine(server: SshServer, tmp_path: Path) -> None:
    backend = make_ssh(request_for(server, tmp_path / "home"))
    world = await backend.place()
    assert (world.host, world.sandbox) == (f"127.0.0.1:{server.port}", "")
    assert (world.boundary, world.host_files) == (Boundary.NONE, False)
    await backend.close()


async def test_commands_die_with_the_connection(server: SshServer, tmp_path: Path) -> None:
    async with opened(server, tmp_path / "home") as backend:
        pids = tmp_path / "pids"
        text = f"setsid bash -c 'echo $$ >> {pids}; exec sleep 300' & echo $BASHPID >> {pids}; sleep 300"
        running = asyncio.create_task(backend.run(Command(text=text, session=SESSION), lambda words: None))
        await _until(lambda: pids.exists() and len(pids.read_text().split()) == 2)
        server.cut()
        with pytest.raises(HermesError):
            await running
        await _until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in pids.read_text().split()))
        # The next command connects anew.
        result = await backend.run(Command(text="echo back", session=SESSION), lambda words: None)
        assert result.output == "back\n"


async def _until(holds: Any) -> None:
    end = time.monotonic() + 30
    while not await asyncio.to_thread(holds):
        assert time.monotonic() < end
        await asyncio.sleep(0.02)


async def test_what_is_wrong_is_one_sentence(server: SshServer, tmp_path: Path) -> None:
    other = tmp_path / "other"
    await asyncio.to_thread(server.make_key, other)
    for chosen, words in (
        ({"ssh_host": ""}, "No machine is named"),
        ({"ssh_host": "-oProxyCommand=id"}, "is no host of ssh"),
        ({"ssh_key": str(tmp_path / "none")}, "is not there or cannot be read"),
        ({"ssh_key": str(other)}, "refused the login"),
        ({"ssh_port": 1}, "takes no ssh connections"),
        ({"ssh_host": "nowhere.invalid"}, "There is no machine named nowhere.invalid"),
        ({"network": NO_NETWORK}, "cannot limit the network"),
    ):
        request = request_for(server, tmp_path / "home", **chosen)
        backend = make_ssh(request)
        with pytest.raises(UserError, match=words) as refused:
            await backend.open()
        assert refused.value.hint
        await backend.close()
        probe = await probe_ssh(request)
        assert not probe.works and words in probe.why


async def test_another_host_key_is_refused(tmp_path: Path) -> None:
    server = await asyncio.to_thread(SshServer)
    try:
        async with opened(server, tmp_path / "home") as backend:
            assert isinstance(backend, FarBackend)
        assert "ssh-ed25519" in (tmp_path / "home/ssh/known_hosts").read_text()
        server.stop()
        server.make_key(server.folder / "host_key")
        await asyncio.to_thread(server.start)
        backend = make_ssh(request_for(server, tmp_path / "home"))
        with pytest.raises(UserError, match="another host key") as refused:
            await backend.open()
        assert "ssh-keygen -R" in refused.value.hint
        await backend.close()
    finally:
        server.close()
