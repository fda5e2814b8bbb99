"""The backends `docker` and `podman` over real containers: what every backend does, and what only they do."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

from hermes.domain.errors import HermesError, UserError
from hermes.domain.ids import MAIN_AGENT
from hermes.domain.ports.world import (
    NO_NETWORK,
    BackendRequest,
    Boundary,
    Command,
    NetworkRules,
    OpenEgress,
)
from hermes.domain.settings.settings import Profile, Settings, TerminalSettings
from hermes.domain.word import replace
from hermes.execution.far.backend import FarBackend
from hermes.execution.sandboxes.container import make_podman, probe_podman
from hermes.execution.sandboxes.probe import SandboxProbe
from hermes.testing.backend_suite import CHECKS, SECRET, SECRET_NAME, Bed
from tests.execution.containers import EXTRA_ARGS, PLAIN_IMAGE, PYTHON_IMAGE, Podman

pytestmark = [pytest.mark.server, pytest.mark.root]
IMAGES = {"python": PYTHON_IMAGE, "plain": PLAIN_IMAGE}


@pytest.fixture(scope="module")
def podman() -> Iterator[Podman]:
    engine = Podman()
    yield engine
    engine.close()


@pytest.fixture(autouse=True)
def emptied(podman: Podman) -> Iterator[None]:
    yield
    podman.run("rm", "-af")


def request_for(
    podman: Podman,
    home: Path,
    image: str = PYTHON_IMAGE,
    *,
    network: NetworkRules = NO_NETWORK,
    open_egress: OpenEgress | None = None,
    **chosen: Any,
) -> BackendRequest:
    (home / "workspace").mkdir(parents=True, exist_ok=True)
    given = {"docker_binary": str(podman.binary), "docker_image": image, "container_memory": 512}
    settings = TerminalSettings(**{**given, "docker_extra_args": EXTRA_ARGS, **chosen})
    return BackendRequest(
        profile=Profile(agent=MAIN_AGENT, home=home, settings=Settings(terminal=settings)),
        workspace=home / "workspace",
        environ={SECRET_NAME: SECRET, "PATH": "/usr/bin:/bin:/usr/sbin:/sbin", "HOME": "/root"},
        share=lambda key, make: make(),
        network=network,
        open_egress=open_egress,
    )


@contextlib.asynccontextmanager
async def opened(podman: Podman, home: Path, image: str = PYTHON_IMAGE, **given: Any) -> AsyncIterator[Bed]:
    backend = make_podman(request_for(podman, home, image, **given))
    try:
        await backend.open()
        yield Bed(backend=backend, folder="/workspace")
    finally:
        await backend.close()


@pytest.mark.parametrize("image", IMAGES)
@pytest.mark.parametrize("name", CHECKS)
async def test_conformance(name: str, image: str, podman: Podman, tmp_path: Path) -> None:
    async with opened(podman, tmp_path / "home", IMAGES[image]) as bed:
        await CHECKS[name](bed)


async def test_its_world(podman: Podman, tmp_path: Path) -> None:
    backend = make_podman(request_for(podman, tmp_path / "home"))
    world = await backend.place()
    assert (world.boundary, world.network, world.host_files) == (Boundary.CONTAINER, NO_NETWORK, False)
    assert podman.run("ps", "-aq") == ""
    wide = request_for(podman, tmp_path / "home", docker_extra_args=("--privileged",))
    assert (await make_podman(wide).place()).boundary == Boundary.WEAK


async def test_a_container_is_found_again_after_a_restart(podman: Podman, tmp_path: Path) -> None:
    async with opened(podman, tmp_path / "home") as bed:
        await bed.run("cd /tmp; echo kept > there; export WORD=1; echo file > /workspace/file")
        first = podman.run("ps", "-q")
        process = await bed.backend.start(
            Command(text="sleep 300", session="b", timeout=0), lambda view: None
        )
        assert process.running
    assert podman.run("ps", "-q") == first
    assert "sleep 300" not in podman.run("top", first.strip(), "args")
    async with opened(podman, tmp_path / "home") as bed:
        assert (await bed.run("pwd; cat there; echo $WORD")).output == "/tmp\nkept\n1\n"
        assert podman.run("ps", "-q") == first
    # Other settings make another container; the folders stay.
    async with opened(podman, tmp_path / "home", container_memory=256) as bed:
        assert (await bed.run("cat /workspace/file; ls /tmp/there")).output.startswith("file\n")
        assert podman.run("ps", "-aq") != first and len(podman.run("ps", "-aq").split()) == 1


async def test_one_that_is_not_kept_goes_with_its_folders(podman: Podman, tmp_path: Path) -> None:
    async with opened(podman, tmp_path / "home", container_persistent=False) as bed:
        await bed.run("echo x > ~/file")
    assert podman.run("ps", "-aq") == ""
    assert not list((tmp_path / "home/sandboxes/podman").iterdir())


async def test_what_an_earlier_gateway_left_goes(podman: Podman, tmp_path: Path) -> None:
    request = request_for(podman, tmp_path / "home", container_persistent=False)
    lost = make_podman(replace(request, workspace=tmp_path / "home/workspace/of another"))
    await lost.open()  # a gateway that was killed never closes it
    orphan = podman.run("ps", "-q").strip()
    assert lost._warming is not None
    await lost._warming
    await lost._pool.close()
    async with opened(podman, tmp_path / "home", network=NetworkRules(open=False, hosts=())) as bed:
        assert (await bed.run("echo on")).output == "on\n"
    other = request_for(podman, tmp_path / "other")
    backend = make_podman(other)
    await backend.open()
    await backend.close()
    left = podman.run("ps", "-aq").split()
    assert orphan not in left and len(left) == 2, "containers of another home are left alone"


async def test_a_container_that_dies_costs_one_command(podman: Podman, tmp_path: Path) -> None:
    async with opened(podman, tmp_path / "home") as bed:
        running = asyncio.create_task(bed.run("echo up > /workspace/up; sleep 300"))
        up = tmp_path / "home/workspace/up"
        while not await asyncio.to_thread(up.exists):  # noqa: ASYNC110
            await asyncio.sleep(0.02)
        await asyncio.to_thread(podman.run, "rm", "-af")
        with pytest.raises(HermesError) as broken:
            await running
        assert str(broken.value)
        assert (await bed.run("cat /workspace/up")).output == "up\n"


@pytest.mark.parametrize("image", IMAGES)
async def test_who_kills_the_supervisor_leaves_nobody(image: str, podman: Podman, tmp_path: Path) -> None:
    async with opened(podman, tmp_path / "home", IMAGES[image]) as bed:
        await bed.run("true")
        orphan = "env -i setsid sleep 321 >/dev/null 2>&1 & "
        with contextlib.suppress(HermesError):
            await bed.run(orphan + "p=$PPID; kill -9 $(cut -d' ' -f4 /proc/$p/stat) $p; sleep 300", timeout=3)
        end = time.monotonic() + 20
        while "321" in (await bed.run("ps")).output:
            assert time.monotonic() < end
            await asyncio.sleep(0.1)


async def test_a_folder_elsewhere_is_bound_only_if_the_owner_says_so(podman: Podman, tmp_path: Path) -> None:
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "mine").write_text("mine\n")
    home = tmp_path / "home"
    request = request_for(podman, home, docker_run_as_host_user=True)
    for bound, output in ((False, ""), (True, "mine\n")):
        terminal = replace(request.profile.settings.terminal, docker_mount_cwd_to_workspace=bound)
        profile = Profile(agent=MAIN_AGENT, home=home, settings=Settings(terminal=terminal))
        backend = make_podman(replace(request, profile=profile, workspace=folder))
        await backend.open()
        result = await backend.run(Command(text="cat mine 2>/dev/null; touch new"), lambda words: None)
        assert result.output == output and (folder / "new").exists() is bound
        await backend.close()


async def test_what_is_missing_is_one_sentence(podman: Podman, tmp_path: Path) -> None:
    secret = tmp_path / "home/secrets"
    for chosen, words in (
        ({"docker_image": "localhost/none:1"}, "The image localhost/none:1 is not on this machine"),
        ({"docker_binary": str(tmp_path / "none")}, "There is no .*/none on this machine"),
        ({"docker_volumes": (f"{secret}:/x",)}, "a home of Hermes"),
        ({"docker_volumes": (f"{tmp_path}:/x:ro",)}, "a home of Hermes"),
        ({"docker_volumes": ("/var/run:/x",)}, "a socket by which"),
        ({"docker_extra_args": ("-v", "/run/docker.sock:/x")}, "a socket by which"),
        ({"docker_extra_args": ("--mount=type=bind,source=/,target=/host",)}, "cannot be bound"),
    ):
        backend = make_podman(request_for(podman, tmp_path / "home", **chosen))
        with pytest.raises(UserError, match=words) as refused:
            await backend.open()
        assert refused.value.hint
        await backend.close()
    assert podman.run("ps", "-aq") == ""


async def test_probes_start_what_the_settings_name(podman: Podman, tmp_path: Path) -> None:
    request = request_for(podman, tmp_path / "home")
    terminal = request.profile.settings.terminal
    assert await probe_podman(request.environ, terminal) == SandboxProbe(
        name="podman", boundary=Boundary.CONTAINER, works=True
    )
    missing = replace(terminal, docker_image=TerminalSettings().docker_image)
    found = await probe_podman(request.environ, missing)
    assert not found.works and "podman pull nikolaik/python-nodejs" in found.remedy
    found = await probe_podman(request.environ, replace(terminal, docker_runtime="none-such"))
    assert not found.works and found.why
    assert podman.run("ps", "-aq") == ""


async def test_listed_hosts_are_reached_by_the_proxy_alone(podman: Podman, tmp_path: Path) -> None:
    heard: list[bytes] = []
    folder = tmp_path / "egress"
    folder.mkdir(mode=0o711)

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        heard.append(await reader.readline())
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nConnection: close\r\n\r\nhello")
        await writer.drain()
        writer.close()

    proxy = await asyncio.start_unix_server(serve, folder / "socket")
    (folder / "socket").chmod(0o666)

    async def open_egress() -> Path:
        return folder / "socket"

    rules = NetworkRules(hosts=("example.org",))
    fetch = "python3 -c 'import urllib.request as u; print(u.urlopen(\"http://example.org/x\").read())'"
    async with proxy:
        async with opened(podman, tmp_path / "home", network=rules, open_egress=open_egress) as bed:
            assert (await bed.run(fetch)).output == "b'hello'\n"
            assert heard == [b"GET http://example.org/x HTTP/1.1\r\n"]
            direct = "import socket; socket.create_connection(('192.0.2.1', 80), 2)"
            assert "unreachable" in (await bed.run(f'python3 -c "{direct}"')).output
        backend = make_podman(
            request_for(podman, tmp_path / "home", PLAIN_IMAGE, network=rules, open_egress=open_egress)
        )
        with pytest.raises(UserError, match="has no Python"):
            await backend.open()
        await backend.close()


async def test_the_walls_inside(podman: Podman, tmp_path: Path) -> None:
    async with opened(podman, tmp_path / "home", docker_env=("GIVEN=1",)) as bed:
        told = (await bed.run("cat /proc/self/status; id -u; echo $GIVEN; env | grep -c SECRET")).output
        for line in (
            "CapEff:\t0000000000000000",
            "CapBnd:\t0000000000000000",
            "NoNewPrivs:\t1",
            "Seccomp:\t2",
        ):
            assert line in told
        assert told.endswith("0\n1\n0\n"), "who owns the workspace"
        for attempt in ("touch /x", "touch /etc/x", "touch /usr/x", "mount -t tmpfs x /mnt", "chroot / true"):
            assert (await bed.run(attempt)).code != 0, attempt
        assert (await bed.run("touch /workspace/a ~/a /tmp/a")).code == 0
        forks = "for i in $(seq 600); do sleep 20 & done 2>/dev/null; set -- /proc/[0-9]*; echo here $#"
        told = (await bed.run(forks, timeout=20)).output
        assert int(told.rpartition("here ")[2] or 0) <= 260


async def test_a_flood_fills_no_memory(podman: Podman, tmp_path: Path) -> None:
    async with opened(podman, tmp_path / "home", PLAIN_IMAGE) as bed:
        result = await bed.run(
            "dd if=/dev/zero bs=1M count=300 2>/dev/null | tr '\\0' x; echo end", timeout=60
        )
        assert result.cut and result.output.endswith("xend\n")
    assert isinstance(bed.backend, FarBackend)
