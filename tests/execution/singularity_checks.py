"""Run by an ordinary user, over a real apptainer: `<program>:<image>:<part>… <folder>`."""

from __future__ import annotations

import asyncio
import contextlib
import subprocess
import sys
import time
import traceback
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from hermes.domain.errors import HermesError, UserError
from hermes.domain.ids import MAIN_AGENT
from hermes.domain.ports.world import NO_NETWORK, BackendRequest, Boundary, Command, NetworkRules
from hermes.domain.settings.settings import Profile, Settings, TerminalSettings
from hermes.domain.word import replace
from hermes.execution.far.backend import FarBackend
from hermes.execution.sandboxes.singularity import make_apptainer, probe_apptainer
from hermes.testing.backend_suite import CHECKS, GRANTED, GRANTED_NAME, SECRET, SECRET_NAME, Bed

PROGRAM, IMAGE, *PARTS = map(Path, sys.argv[1].split(":"))
FOLDER = Path(sys.argv[2])


def request_for(home: Path, **chosen: Any) -> BackendRequest:
    (home / "workspace").mkdir(parents=True, exist_ok=True)
    given = {"singularity_image": str(IMAGE), "container_memory": 2048, **chosen}
    network, egress = given.pop("network", NO_NETWORK), given.pop("open_egress", None)
    environ = {"PATH": f"{PROGRAM.parent}:/usr/bin:/bin", "HOME": str(FOLDER)}
    return BackendRequest(
        profile=Profile(agent=MAIN_AGENT, home=home, settings=Settings(terminal=TerminalSettings(**given))),
        workspace=home / "workspace",
        environ={**environ, SECRET_NAME: SECRET, GRANTED_NAME: GRANTED},
        passthrough=(GRANTED_NAME,),
        share=lambda key, make: make(),
        network=network,
        open_egress=egress,
    )


def instances() -> list[str]:
    told = subprocess.run(["pgrep", "-af", "Apptainer instance"], capture_output=True, text=True, check=False)
    return [line for line in told.stdout.splitlines() if "pgrep" not in line]


async def none_is_left() -> bool:
    """Whoever has been told to end is seen for a moment longer."""
    give_up = time.monotonic() + 20
    while instances() and time.monotonic() < give_up:  # noqa: ASYNC110
        await asyncio.sleep(0.05)
    return not instances()


async def kill_all() -> None:
    for line in instances():
        await asyncio.to_thread(subprocess.run, ["kill", "-KILL", line.split()[0]], check=False)
    while instances():  # noqa: ASYNC110
        await asyncio.sleep(0.05)


@contextlib.asynccontextmanager
async def opened(home: Path, **chosen: Any) -> AsyncIterator[Bed]:
    def make() -> FarBackend:
        return make_apptainer(request_for(home, **chosen))

    backend = make()
    try:
        await backend.open()
        yield Bed(backend=backend, folder="/workspace", granted=True, again=make, kill=kill_all)
    finally:
        await backend.close()


async def conformance() -> None:
    failed = []
    for name, check in CHECKS.items():
        async with opened(FOLDER / name) as bed:
            try:
                await check(bed)
            except BaseException:
                failed.append(name)
                traceback.print_exc()
        assert await none_is_left(), name
    assert not failed, failed


async def walls() -> None:
    async with opened(FOLDER / "walls", docker_env=("GIVEN=1",)) as bed:
        world = await bed.backend.place()
        assert (world.boundary, world.network) == (Boundary.CONTAINER, NO_NETWORK)
        told = (await bed.run("cat /proc/self/status; echo $GIVEN; env | grep -c SECRET; ls /var/tmp")).output
        for line in (
            "CapEff:\t0000000000000000",
            "CapBnd:\t0000000000000000",
            "NoNewPrivs:\t1",
            "Seccomp:\t2",
        ):
            assert line in told, told
        assert told.endswith("1\n0\n"), told
        for attempt in (
            "touch /x", "touch /etc/x", "mount -t tmpfs x /mnt", "unshare -U true", f"ls {FOLDER}",
            "echo 1 > /proc/sys/kernel/core_pattern", "echo x > /sys/kernel/uevent_helper",
            "python3 -c 'import socket; socket.socket(socket.AF_UNIX)'",
            "python3 -c 'import socket; socket.create_connection((\"192.0.2.1\", 80), 2)'",
        ):  # fmt: skip
            assert (await bed.run(attempt)).code != 0, attempt
        thread = "import threading as t; a = t.Thread(target=print, args=('ran',)); a.start(); a.join()"
        assert (await bed.run(f'python3 -c "{thread}"')).output == "ran\n"
        assert (await bed.run("touch /workspace/a ~/a /tmp/a /var/tmp/a")).code == 0
        forks = "for i in $(seq 900); do sleep 20 & done 2>/dev/null; set -- /proc/[0-9]*; echo here $#"
        told = (await bed.run(forks, timeout=30)).output
        assert int(told.rpartition("here ")[2] or 0) <= 520, told[-200:]
    project = FOLDER / "project"
    project.mkdir()
    (project / "mine").write_text("mine\n")
    async with opened(FOLDER / "walls", docker_volumes=(f"{project}:/data:ro",)) as bed:
        assert (await bed.run("cat /data/mine; ls ~/a /tmp/a; touch /data/x || echo no")).output.endswith(
            "no\n"
        )
    async with opened(FOLDER / "walls", container_persistent=False) as bed:
        assert (await bed.run("ls ~/a")).code == 0
    assert list((FOLDER / "walls/sandboxes/apptainer").iterdir()) == []
    assert (FOLDER / "walls/workspace/a").exists()


async def orphans() -> None:
    """What a killed gateway left behind: in the same folder, and for a folder that nobody asks for again."""
    home, gateway = FOLDER / "orphans", dict[Any, Any]()
    left = []
    for workspace in (home / "workspace", home / "workspace/other", FOLDER / "another/workspace"):
        of = home if workspace.is_relative_to(home) else FOLDER / "another"
        request = replace(
            request_for(of), workspace=workspace, share=lambda k, make: gateway.setdefault(k, make())
        )
        lost = make_apptainer(request)
        await lost.open()
        note = Command(text="setsid sleep 4321 & echo on", session="s")
        assert (await lost.run(note, lambda words: None)).output == "on\n"
        await lost.health()
        left.append(lost)
    assert len(instances()) == 3, instances()
    async with opened(home) as bed:
        assert "4321" not in (await bed.run("ps")).output
        assert len(instances()) == 2, "this one, and that of another home"
    for lost in left:
        await lost.close()


async def dies() -> None:
    async with opened(FOLDER / "dies") as bed:
        running = asyncio.create_task(bed.run("echo up > up; sleep 300"))
        while not (FOLDER / "dies/workspace/up").exists():  # noqa: ASYNC110
            await asyncio.sleep(0.02)
        await kill_all()
        try:
            await running
        except HermesError as error:
            assert str(error)
        else:
            raise AssertionError("the command did not fail")
        assert (await bed.run("cat up")).output == "up\n"


async def refused() -> None:
    home = FOLDER / "refused"
    broken = FOLDER / "broken.sif"
    broken.write_text("no image")
    for chosen, words in (
        ({"singularity_image": ""}, "No image is named for the backend apptainer."),
        ({"singularity_image": "docker://alpine"}, "nothing is fetched unasked"),
        ({"singularity_image": str(FOLDER / "none.sif")}, "is not there or cannot be read"),
        ({"singularity_image": str(broken)}, "apptainer cannot start a container: "),
        ({"docker_volumes": (f"{home}/x:/x",)}, "a home of Hermes"),
        ({"docker_volumes": ("named:/x",)}, "cannot be bound"),
        ({"docker_volumes": ("/var/run:/x",)}, "a socket by which"),
        ({"network": NetworkRules(hosts=("example.org",))}, "no egress proxy"),
    ):
        backend = make_apptainer(request_for(home, **chosen))
        try:
            await backend.open()
        except UserError as error:
            assert words in str(error) and "\n" not in str(error), error
        else:
            raise AssertionError(words)
        finally:
            await backend.close()
    assert instances() == []


async def hosts() -> None:
    heard: list[bytes] = []
    folder = FOLDER / "egress"
    folder.mkdir()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        heard.append(await reader.readline())
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nConnection: close\r\n\r\nhello")
        await writer.drain()
        writer.close()

    async def open_egress() -> Path:
        return folder / "socket"

    rules = NetworkRules(hosts=("example.org",))
    fetch = "python3 -c 'import urllib.request as u; print(u.urlopen(\"http://example.org/x\").read())'"
    async with await asyncio.start_unix_server(serve, folder / "socket"):
        async with opened(FOLDER / "hosts", network=rules, open_egress=open_egress) as bed:
            told = (await bed.run(fetch)).output
            assert told == "b'hello'\n", told
            assert heard == [b"GET http://example.org/x HTTP/1.1\r\n"]


async def probed() -> None:
    request = request_for(FOLDER / "probed")
    terminal = request.profile.settings.terminal
    found = await probe_apptainer(request.environ, terminal)
    assert found.works and found.boundary is Boundary.CONTAINER, found
    found = await probe_apptainer(request.environ, replace(terminal, singularity_image="/none.sif"))
    assert not found.works and "terminal.singularity_image" in found.remedy
    assert instances() == []


async def main() -> None:
    for part in PARTS:
        await globals()[str(part)]()


asyncio.run(main())
