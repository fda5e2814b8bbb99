"""Our backend `daytona` with the real SDK against the server whose address is given: the suite."""

from __future__ import annotations

import asyncio
import contextlib
import shutil
import sys
import traceback
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import aiohttp

from hermes.domain.errors import HermesError
from hermes.domain.ids import MAIN_AGENT
from hermes.domain.ports.world import OPEN_NETWORK, BackendRequest, Command
from hermes.domain.settings.settings import Profile, Settings, TerminalSettings
from hermes.execution.far.backend import FarBackend
from hermes.execution.sandboxes import daytona
from hermes.execution.sandboxes.daytona import make_daytona
from hermes.testing.backend_suite import CHECKS, GRANTED, GRANTED_NAME, SECRET, SECRET_NAME, Bed

URL, KEY, HOME, *NAMES = sys.argv[1:]


def make(home: Path, variables: Mapping[str, str] | None = None, **chosen: Any) -> FarBackend:
    home.mkdir(parents=True, exist_ok=True)
    environ = {"DAYTONA_API_KEY": KEY, "DAYTONA_API_URL": f"{URL}/api"}
    settings = Settings(terminal=TerminalSettings(**chosen))
    return make_daytona(
        BackendRequest(
            profile=Profile(agent=MAIN_AGENT, home=home, settings=settings),
            workspace=home / "work",
            environ={**environ, SECRET_NAME: SECRET, GRANTED_NAME: GRANTED, **(variables or {})},
            passthrough=(GRANTED_NAME,),
            share=lambda key, make: make(),
            network=OPEN_NETWORK,
        )
    )


async def again_and_gone() -> None:
    """What a killed gateway left ends; what is not kept goes; a sandbox that is gone costs one command."""
    home = Path(HOME) / "again"
    lost = make(home)
    await lost.open()
    note = Command(text="setsid sleep 4321 & echo on > file; export KEPT=1; cd /", session="s")
    assert (await lost.run(note, lambda words: None)).code == 0
    await lost.health()
    backend = make(home)
    await backend.open()
    bed = Bed(backend=backend, folder="")
    told = (await bed.run("pwd; echo $KEPT; cat ~/file; ps ax | grep -c '[s]leep 4321'", session="s")).output
    assert told == "/\n1\non\n0\n", told
    dying = asyncio.create_task(bed.run("echo up > ~/up; sleep 300"))
    while (await bed.run("cat ~/up", session="look")).code:  # noqa: ASYNC110
        await asyncio.sleep(0.05)
    await backend._place._sandbox.delete()  # type: ignore[attr-defined]
    try:
        await dying
    except HermesError as error:
        assert str(error)
    else:
        raise AssertionError("the command did not fail")
    assert (await bed.run("ls ~/up 2>/dev/null; echo anew > ~/new; cat ~/new")).output == "anew\n"
    stopped = await backend._place._client.get(backend._place._name)  # type: ignore[attr-defined]
    await stopped.stop()
    with contextlib.suppress(HermesError):  # the first may be the one that meets it
        await bed.run("true")
    assert (await bed.run("cat ~/new")).output == "anew\n"
    await backend.close()
    with contextlib.suppress(HermesError):
        await lost.close()
    for _ in range(2):  # the second finds what the first left
        brief = make(Path(HOME) / "brief", container_persistent=False)
        await brief.open()
        left = await Bed(backend=brief, folder="").run("ls ~/left 2>/dev/null; echo > ~/left")
        assert left.output == "", left
    await brief.close()


async def others_files() -> None:
    """Who gets the id and the folder of an agent that is gone has none of its files."""
    for _ in range(2):
        home = Path(HOME) / "gone"
        backend = make(home)
        await backend.open()
        bed = Bed(backend=backend, folder="")
        assert (await bed.run("cat ~/secret 2>/dev/null; echo mine > ~/secret")).output == ""
        await backend.close()
        shutil.rmtree(home)


async def stays() -> None:
    """The service hears that it is wanted, also while nobody asks anything."""
    daytona._STAY_SECONDS = 0.01
    backend = make(Path(HOME) / "stays")
    await backend.open()
    async with aiohttp.ClientSession() as web:
        while not int(await (await web.get(f"{URL}/asked")).text()):  # noqa: ASYNC110
            await asyncio.sleep(0.05)
    await backend.close()


async def refused() -> None:
    for chosen, given, words in (
        ({"daytona_image": "many:1"}, {}, "Daytona refuses the sandbox: "),
        ({"daytona_image": "bad:1"}, {}, "Daytona cannot make the sandbox: "),
        ({}, {"DAYTONA_API_KEY": ""}, "needs a key"),
        ({}, {"DAYTONA_API_KEY": "wrong"}, "Daytona refuses the key"),
        ({}, {"DAYTONA_API_URL": "http://127.0.0.1:9/api"}, "Daytona does not answer"),
    ):
        backend = make(Path(HOME) / "refused", given, **chosen)
        try:
            await backend.open()
        except HermesError as error:
            assert words in str(error) and "\n" not in str(error), error
        else:
            raise AssertionError(words)
        finally:
            await backend.close()


async def main() -> None:
    if NAMES == ["others"]:
        await again_and_gone()
        await others_files()
        await stays()
        await refused()
        return
    failed = []
    for name in NAMES or CHECKS:
        home = Path(HOME) / name
        backend = make(home)
        print(name, flush=True)
        try:
            await backend.open()
            world = await backend.place()
            folder = f"{world.workspace}/bed"
            await backend.run(Command(text=f"mkdir {folder}"), lambda words: None)
            bed = Bed(backend=backend, folder=folder, granted=True, again=partial(make, home))
            await CHECKS[name](bed)
        except BaseException:
            failed.append(name)
            traceback.print_exc()
        finally:
            await backend.close()
    assert not failed, failed


asyncio.run(main())
