"""A gateway in a process of its own, to be killed: `python -m hermes.testing.victim <folder> <port> <kind>`.

The store is real, the model is scripted, the platform and the tools' effects live behind a socket in the
test. `--model URL` asks a model server by the real provider instead. `--kill point:n` ends it there with a
real SIGKILL."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import os
import signal
import sys
from pathlib import Path

from hermes.agent.models.endpoint import HttpProvider, ModelEndpoint
from hermes.agent.models.formats.chat_completions.provider import ChatCompletions
from hermes.agent.run.loop import AgentLoop
from hermes.app.agents.registry import AgentRegistry
from hermes.control.core import Runtime
from hermes.control.gateway import Gateway
from hermes.control.wiring import GatewayParts
from hermes.control.workers import Supervisor
from hermes.domain.clock import SystemClock
from hermes.domain.errors import HermesError
from hermes.domain.ids import MAIN_AGENT, AgentId
from hermes.domain.ports.agent import Provider
from hermes.domain.settings.live import LiveSettings
from hermes.domain.settings.settings import DisplaySettings, Profile
from hermes.domain.tools.toolbox import Toolbox
from hermes.domain.turns.turn import BusyMode
from hermes.state.files.media import MediaFiles
from hermes.state.store.sqlite import StoreOptions
from hermes.state.store.writer import SqliteStore
from hermes.testing.crash import KillingProvider, KillingService, KillingStore, KillSwitch
from hermes.testing.harness import open_settings
from hermes.testing.model import ScriptedModel, obedient
from hermes.testing.platform import KINDS, PlainFake, fake_platform
from hermes.testing.tools import world_tools
from hermes.testing.wire import RemoteWorld


async def live(folder: Path, port: int, kind: str, switch: KillSwitch, model_url: str = "") -> None:
    settings = open_settings(display=DisplaySettings(busy_input_mode=BusyMode.QUEUE))
    clock = SystemClock()
    service = KillingService(RemoteWorld(port), switch)
    # Many lives share one disk: no spare bytes for each.
    database = await SqliteStore(folder / "state.db", StoreOptions(reserve_bytes=0)).open()
    store = KillingStore(database, switch)
    model = _model(model_url)
    agent = AgentLoop(
        provider=KillingProvider(model, switch),
        toolbox=Toolbox(world_tools(service.effect)),
        model="scripted",
        system="",
        clock=clock,
    )
    profile = Profile(agent=MAIN_AGENT, home=folder, settings=settings)
    media = MediaFiles(folder / "media", store.scoped(MAIN_AGENT), clock)
    runtime = Runtime(profile=profile, agent=agent, store=store.scoped(MAIN_AGENT), media=media)

    async def build(agent: AgentId) -> Runtime:
        return runtime

    gateway = Gateway(
        GatewayParts(
            store=store,
            agents=AgentRegistry([MAIN_AGENT], build),
            live=LiveSettings(settings),
            clock=clock,
            loops=Supervisor(clock),
            capabilities={"fake": KINDS[kind]},
        )
    )
    platform = fake_platform(kind, service)
    await gateway.start()
    gateway.attach("fake", platform)
    receiving = asyncio.create_task(_receive(gateway, platform))
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    print("ready", flush=True)
    await stop.wait()
    receiving.cancel()
    await gateway.stop(grace=10.0)
    if isinstance(model, HttpProvider):
        await model.close()
    await database.close()


def _model(url: str) -> Provider:
    return HttpProvider(ModelEndpoint(base_url=url), ChatCompletions()) if url else ScriptedModel(obedient)


async def _receive(gateway: Gateway, platform: PlainFake) -> None:
    while True:
        cursor = await gateway.cursor("fake")
        with contextlib.suppress(HermesError):
            await platform.run(lambda items, at: gateway.accept("fake", items, at), cursor)
        await asyncio.sleep(0.05)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("port", type=int)
    parser.add_argument("kind", choices=sorted(KINDS))
    parser.add_argument("--kill", default="", metavar="POINT:N")
    parser.add_argument("--model", default="", metavar="URL", help="a server that speaks chat completions")
    chosen = parser.parse_args()
    switch = KillSwitch.set_to(chosen.kill)
    asyncio.run(live(chosen.folder, chosen.port, chosen.kind, switch, chosen.model))
    # Exit without waiting for stray threads: the test waits for this process.
    sys.stdout.flush()
    os._exit(0)


if __name__ == "__main__":
    main()
