"""Our backend `modal` with the real SDK, against a service in this process: the suite of backends, or what
only it does."""

from __future__ import annotations

import asyncio
import os
import shutil
import sys
import traceback
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

from modal_service import FakeModal

from hermes.domain.errors import HermesError
from hermes.domain.ids import MAIN_AGENT
from hermes.domain.ports.world import NO_NETWORK, OPEN_NETWORK, BackendRequest, Command, NetworkRules
from hermes.domain.settings.settings import Profile, Settings, TerminalSettings
from hermes.execution.far.backend import FarBackend
from hermes.execution.sandboxes import modal as subject
from hermes.execution.sandboxes.modal import make_modal
from hermes.testing.backend_suite import CHECKS, GRANTED, GRANTED_NAME, SECRET, SECRET_NAME, Bed

HOME, *NAMES = sys.argv[1:]
TOKEN = ("ak-1", "as-1")


def request(
    home: Path, variables: Mapping[str, str] | None = None, network: Any = OPEN_NETWORK, **chosen: Any
) -> BackendRequest:
    home.mkdir(parents=True, exist_ok=True)
    environ = {"MODAL_TOKEN_ID": TOKEN[0], "MODAL_TOKEN_SECRET": TOKEN[1]}
    settings = Settings(terminal=TerminalSettings(**chosen))
    return BackendRequest(
        profile=Profile(agent=MAIN_AGENT, home=home, settings=settings),
        workspace=home / "work",
        environ={**environ, SECRET_NAME: SECRET, GRANTED_NAME: GRANTED, **(variables or {})},
        passthrough=(GRANTED_NAME,),
        share=lambda key, make: make(),
        network=network,
    )


def make(home: Path, *given: Any, **chosen: Any) -> FarBackend:
    return make_modal(request(home, *given, **chosen))


async def fails(asked: Any, words: str) -> None:
    try:
        await asked
    except HermesError as error:
        told = str(error)
        assert words in told and "\n" not in told and len(told) < 400, told
    else:
        raise AssertionError(words)


async def conformance(service: FakeModal, names: list[str]) -> None:
    failed = []
    for name in names or CHECKS:
        print(name, flush=True)
        home = Path(HOME) / name
        backend = make(home)
        try:
            await backend.open()
            world = await backend.place()
            folder = f"{world.workspace}/bed"
            await backend.run(Command(text=f"mkdir {folder}"), lambda words: None)

            async def kill() -> None:
                [sandbox] = service.running()
                await service.end(sandbox)

            bed = Bed(backend=backend, folder=folder, granted=True, again=partial(make, home), kill=kill)
            await CHECKS[name](bed)
        except BaseException:
            failed.append(name)
            traceback.print_exc()
        finally:
            await backend.close()
        assert not service.running(), name
    assert not failed, failed


async def again(service: FakeModal) -> None:
    """What a killed gateway left ends, with its files kept; the order is what the settings say."""
    home = Path(HOME) / "again"
    lost = make(home, container_cpu=2, container_memory=512)
    await lost.open()
    note = Command(text="setsid sleep 4323 & echo on > file; export KEPT=1; cd /", session="s")
    assert (await lost.run(note, lambda words: None)).code == 0
    await lost.health()
    [first] = service.running()
    resources = first.definition.resources
    assert (resources.milli_cpu_max, resources.memory_mb_max) == (2000, 512), resources
    assert first.definition.timeout_secs == 24 * 3600
    access = first.definition.network_access
    assert access.network_access_type == access.OPEN
    assert "nikolaik" in service.images[first.definition.image_id]
    backend = make(home)
    await backend.open()
    [second] = service.running()
    assert second.id != first.id and second.definition.name == first.definition.name
    bed = Bed(backend=backend, folder="")
    told = (await bed.run("pwd; echo $KEPT; cat ~/file; ps ax | grep -c '[s]leep 4323'", session="s")).output
    assert told == "/\n1\non\n0\n", told
    await backend.close()
    closed = make(home, network=NO_NETWORK)
    await closed.open()
    [third] = service.running()
    access = third.definition.network_access
    assert access.network_access_type == access.BLOCKED
    assert third.definition.name != first.definition.name
    await closed.close()
    assert service.running() == []
    other = make(Path(HOME) / "other")
    await other.open()
    assert (await other.run(Command(text="ls ~"), lambda words: None)).output == ""
    shutil.rmtree(Path(HOME) / "other")
    await other.close()
    assert service.running() == [] and not (Path(HOME) / "other" / "sandboxes").exists(), (
        "who comes next has its files"
    )


async def dies(service: FakeModal) -> None:
    """A sandbox that ends by itself costs the commands in it; files are as they were kept last."""
    subject._SAVE_SECONDS = 0.2
    backend = make(Path(HOME) / "dies")
    await backend.open()
    bed = Bed(backend=backend, folder="")
    await bed.run("echo early > ~/early")
    before = service.snapshots
    while service.snapshots < before + 2:  # noqa: ASYNC110
        await asyncio.sleep(0.05)
    subject._SAVE_SECONDS = 600.0
    dying = [asyncio.create_task(bed.run(f"echo up > ~/up{n}; sleep 300", session=str(n))) for n in range(3)]
    while (await bed.run("cat ~/up0 ~/up1 ~/up2", session="look")).code:  # noqa: ASYNC110
        await asyncio.sleep(0.05)
    [sandbox] = service.running()
    await service.end(sandbox)
    for task in dying:
        await fails(task, "")
    told = await asyncio.gather(*(bed.run("cat ~/early; cat ~/up$0", session=f"n{n}") for n in range(3)))
    assert all("early\n" in each.output for each in told), told
    [now] = service.running()
    service.full = True
    crowd = [asyncio.create_task(bed.run("sleep 1", session=f"c{n}")) for n in range(6)]
    await asyncio.wait(crowd)
    told = {str(task.exception()) for task in crowd if task.exception() is not None}
    assert told == {"the sandbox cannot run anything (too many processes)"}, told
    service.full = False
    await asyncio.gather(*(bed.run("sleep 1", session=f"c{n}") for n in range(6)))
    while sum(each.process.returncode is None for each in now.execs.values()) > 3:  # noqa: ASYNC110
        await asyncio.sleep(0.05)  # those that wait; the others have left
    assert service.running() == [now]
    await backend.close()


async def slow(service: FakeModal) -> None:
    """Keeping files may take longer than whoever closes waits; nothing is ended before it is done."""
    home = Path(HOME) / "slow"
    backend = make(home)
    await backend.open()
    await backend.run(Command(text="echo on > ~/file"), lambda words: None)
    before = service.snapshots
    service.stuck.clear()
    closing = asyncio.create_task(backend.close())
    done, _ = await asyncio.wait((closing,), timeout=0.5)
    assert not done and len(service.running()) == 1
    closing.cancel()
    await asyncio.wait((closing,))
    opening = asyncio.create_task(backend.open())
    await asyncio.sleep(0.2)
    service.stuck.set()
    await opening
    assert (await backend.run(Command(text="cat ~/file"), lambda words: None)).output == "on\n"
    assert len(service.running()) == 1 and service.snapshots == before + 1
    service.stuck.clear()
    closing = asyncio.create_task(backend.close())
    await asyncio.sleep(0.2)
    closing.cancel()
    await asyncio.wait((closing,))
    service.stuck.set()
    while service.running():  # noqa: ASYNC110
        await asyncio.sleep(0.05)
    brief = make(home, container_persistent=False)
    await brief.open()
    assert (await brief.run(Command(text="ls ~"), lambda words: None)).output == ""
    before = service.snapshots
    await brief.close()
    assert not service.running() and service.snapshots == before


async def refused(service: FakeModal) -> None:
    home = Path(HOME) / "refused"
    for chosen, given, words in (
        ({"modal_image": "bad:1"}, {}, "Modal cannot make the sandbox: "),
        ({"modal_image": "im-none"}, {}, "Modal cannot make the sandbox: "),
        ({}, {"MODAL_TOKEN_ID": ""}, "needs a token"),
        ({}, {"MODAL_TOKEN_SECRET": "wrong"}, "Modal refuses the token"),
    ):
        backend = make(home, given, **chosen)
        await fails(backend.open(), words)
        await fails(backend.run(Command(text="true"), lambda words: None), words)
        await backend.close()
    service.quota = 0
    await fails(make(home).open(), "Modal refuses the sandbox: too many")
    service.quota, service.slow, subject._SECONDS = 100, True, 2.0
    await fails(make(home).open(), "has not made the sandbox yet")
    service.slow, subject._SECONDS = False, 50.0
    backend = make(home)
    await backend.open()
    await backend.close()
    service.images.clear()
    await fails(make(home).open(), "no longer has the files")
    [kept] = [path for path in (home / "sandboxes/modal").iterdir() if b'"im-' in path.read_bytes()]
    kept.write_text("{")
    await fails(make(home).open(), "cannot be read")
    await fails(make(home, {}, NetworkRules(hosts=("pypi.org",))).open(), "cannot limit the network to some")
    assert service.running() == []
    os.environ["MODAL_SERVER_URL"] = "http://127.0.0.1:9"
    subject._SECONDS = 2.0
    await fails(make(Path(HOME) / "away").open(), "Modal does not do what it is asked")


async def main() -> None:
    service = FakeModal(TOKEN, Path(HOME) / "service")
    await service.listen()
    os.environ["MODAL_SERVER_URL"] = service.url
    if NAMES and NAMES[0] in OTHERS:
        await OTHERS[NAMES[0]](service)
    else:
        await conformance(service, NAMES)


OTHERS = {"again": again, "dies": dies, "slow": slow, "refused": refused}
asyncio.run(main())
