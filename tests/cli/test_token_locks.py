"""Several gateways, one token: one holder at every moment, and another as soon as it is gone."""

from __future__ import annotations

import asyncio
import contextlib
import json
import time
from collections.abc import AsyncIterator, Callable
from functools import partial
from pathlib import Path

from tests.cli.command import PATIENCE, Running, gateway, hermes
from tests.cli.test_stopping import until

SECRET = "12345:the-token-nobody-may-read"


class Service:
    """The platform: it counts who is connected, and so does every sample."""

    def __init__(self) -> None:
        self.connected: set[int] = set()
        self.samples: list[int] = []
        self.port = 0

    @contextlib.asynccontextmanager
    async def open(self) -> AsyncIterator[Service]:
        server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.port = server.sockets[0].getsockname()[1]
        sampling = asyncio.create_task(self._sample())
        try:
            yield self
        finally:
            sampling.cancel()
            server.close()

    def has(self, pid: int) -> bool:
        """Whether this process is connected and no other."""
        return self.connected == {pid}

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        pid = int(await reader.readline())
        self.connected.add(pid)
        try:
            await reader.read()
        finally:
            self.connected.discard(pid)
            writer.close()

    async def _sample(self) -> None:
        while True:
            self.samples.append(len(self.connected))
            await asyncio.sleep(0.01)


@contextlib.asynccontextmanager
async def life(home: Path, service: Service) -> AsyncIterator[Running]:
    script = (str(Path(__file__).with_name("lock_child.py")), str(home), str(service.port))
    manager = gateway(home, script=script, TELEGRAM_BOT_TOKEN=SECRET)
    running = await asyncio.to_thread(manager.__enter__)
    try:
        yield running
    finally:
        await asyncio.to_thread(manager.__exit__, None, None, None)


def state(home: Path) -> dict[str, str]:
    told: dict[str, str] = json.loads((home / "gateway_state.json").read_text())["platforms"].get(
        "telegram", {}
    )
    return told


async def test_two_gateways_on_one_token(
    tmp_path: Path, full: bool, record_property: Callable[[str, object], None]
) -> None:
    one, two = tmp_path / "one", tmp_path / "two"
    for home in (one, two):
        home.mkdir(mode=0o700)
    waits: list[float] = []
    async with Service().open() as service, contextlib.AsyncExitStack() as lives:
        holder = await lives.enter_async_context(life(one, service))
        await until(partial(service.has, holder.process.pid))
        other = await lives.enter_async_context(life(two, service))
        await until(lambda: state(two).get("state") == "waiting")
        told = state(two)["error_message"]
        assert told == f"the gateway of {one} (process {holder.process.pid}) uses the same credential"
        shown = await asyncio.to_thread(hermes, two, "status")
        assert "waiting (the gateway of" in shown.out
        homes = [one, two]
        for round_ in range(6 if full else 2):
            began = time.monotonic()
            if round_ % 2:
                assert await asyncio.to_thread(holder.stop) == 0  # in order, and without warning
            else:
                holder.process.kill()
            await until(partial(service.has, other.process.pid))
            waits.append(time.monotonic() - began)
            homes.reverse()
            await asyncio.to_thread(holder.process.wait, PATIENCE)
            holder, other = other, await lives.enter_async_context(life(homes[1], service))
        assert max(service.samples) == 1 and len(service.samples) > 100
    folder = tmp_path / ".local" / "state" / "hermes" / "gateway-locks"
    names = [path.name for path in folder.iterdir()]
    assert sum(name.startswith("telegram-") for name in names) == 1
    assert not any(SECRET[:8] in name for name in names)
    assert not any(SECRET[:8] in path.read_text() for path in folder.iterdir())
    record_property("samples", len(service.samples))
    record_property("takeover", max(waits))
    print(f"\n{len(service.samples)} samples, one holder in each; takeover after at most {max(waits):.2f} s")
