"""Stopping a busy gateway: it exits 0, nothing is lost, and the turn goes on after the restart."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from hermes.admin.process.home_files import home_holder
from hermes.control.outbound.notices import STOPPED
from hermes.testing.wire import WorldServer
from hermes.testing.world import World
from tests.cli.command import PATIENCE, Running, environment, gateway, hermes


@pytest.fixture
def home(tmp_path: Path) -> Path:
    folder = tmp_path / "home"
    folder.mkdir(mode=0o700)
    (folder / "config.yaml").write_text("platforms: {fake: {allow_all_users: true}}\n")
    return folder


@contextlib.asynccontextmanager
async def life(home: Path, port: int, grace: float = 0.5) -> AsyncIterator[Running]:
    """One life of the gateway. Blocking, so beside the loop that keeps the world."""
    script = (str(Path(__file__).with_name("gateway_child.py")), str(home), str(port), str(grace))
    manager = gateway(home, script=script)
    running = await asyncio.to_thread(manager.__enter__)
    try:
        yield running
    finally:
        await asyncio.to_thread(manager.__exit__, None, None, None)


async def until(what: Callable[[], bool]) -> None:
    end = time.monotonic() + PATIENCE
    while not what():
        assert time.monotonic() < end
        await asyncio.sleep(0.01)


async def test_a_stop_in_the_middle_of_a_turn_loses_nothing(home: Path) -> None:
    world = World()
    async with WorldServer(world) as server:
        (home / "hold").touch()
        world.write("hello")
        async with life(home, server.port) as running:
            await until(lambda: bool(world.messages))
            status = await asyncio.to_thread(hermes, home, "status")
            assert "fake: connected" in status.out
            assert await asyncio.to_thread(running.stop) == 0, running.err
        world.write("are you there?")
        (home / "hold").unlink()
        async with life(home, server.port) as running:
            await until(lambda: any("are you there?" in text for text in world.seen()))
            assert await asyncio.to_thread(running.stop, signal.SIGINT) == 0
    assert world.seen() == ["You said: hello", STOPPED, "You said: are you there?"]
    listed = await asyncio.to_thread(hermes, home, "sessions", "list")
    assert "fake:1" in listed.out or "fake:u1" in listed.out


async def test_an_idle_gateway_stops_at_once(home: Path) -> None:
    async with WorldServer(World()) as server, life(home, server.port, 600.0) as running:
        assert await asyncio.to_thread(running.stop) == 0
        assert "Traceback" not in running.err


async def test_a_second_signal_hurries(home: Path) -> None:
    world = World()
    async with WorldServer(world) as server:
        (home / "hold").touch()
        world.write("hello")
        async with life(home, server.port, 600.0) as running:
            await until(lambda: bool(world.messages))
            running.process.send_signal(signal.SIGTERM)
            await until(lambda: '"draining"' in (home / "gateway_state.json").read_text())
            assert await asyncio.to_thread(running.stop) == 0, running.err
            assert "app.hurry" in running.err
            assert "Traceback" not in running.err
        (home / "hold").unlink()
        async with life(home, server.port) as running:
            await until(lambda: world.seen() == ["You said: hello", STOPPED])


async def test_without_a_model_the_demo_model_answers(home: Path) -> None:
    world = World()
    async with WorldServer(world) as server:
        (home / "no-model").touch()
        world.write("hello")
        async with life(home, server.port) as running:
            await until(lambda: any("Offline demo model, not an AI" in text for text in world.seen()))
            assert "model demo, the offline demo model" in running.err
            assert await asyncio.to_thread(running.stop) == 0 and "Traceback" not in running.err


async def test_what_was_said_can_be_looked_at(home: Path) -> None:
    world = World()
    async with WorldServer(world) as server:
        first = world.write("remember the \x1b[31mblue\x1b[0m elephant")
        async with life(home, server.port) as running:
            await until(lambda: any("elephant" in text for text in world.seen()))
            await asyncio.sleep(0.2)
            assert await asyncio.to_thread(running.stop) == 0

    def look() -> None:
        listed = hermes(home, "sessions", "list")
        session = listed.out.splitlines()[1].split()[0]
        assert listed.code == 0 and listed.out.startswith("SESSION")
        found = hermes(home, "sessions", "search", "elephant")
        assert session in found.out and found.code == 0
        shown = hermes(home, "sessions", "show", session[:-2])
        assert "elephant" in shown.out and "You said:" in shown.out and "\x1b" not in shown.out
        exported = hermes(home, "sessions", "export", session)
        assert [line.split('"')[3] for line in exported.out.splitlines()] == ["user", "assistant"]
        file = home.parent / "out.jsonl"
        written = hermes(home, "sessions", "export", session, "-o", str(file))
        assert written.out == "" and file.read_text() == exported.out
        traced = hermes(home, "trace", first.delivery)
        assert [line.split()[0] for line in traced.out.splitlines()][:3] == ["inbox", "turn", "record"]
        turn = traced.out.split("turn_")[1].split()[0]
        assert "inbox" in hermes(home, "trace", f"turn_{turn}").out
        assert hermes(home, "trace", first.delivery, "--json").out.startswith("[")
        narrow = hermes(home, "sessions", "list", COLUMNS="60")
        assert all(len(line) <= 60 for line in narrow.out.splitlines())
        refused = hermes(home, "sessions", "delete", session)
        assert refused.code == 1 and "--yes" in refused.err
        assert hermes(home, "sessions", "delete", session, "--yes").code == 0
        assert hermes(home, "sessions", "list").out.startswith("No sessions yet.")
        assert hermes(home, "sessions", "search", "elephant").out.startswith("No message matches")

    await asyncio.to_thread(look)


@pytest.mark.parametrize("module", ["hermes.admin.process.run", "hermes.app", "asyncio.runners"])
def test_asked_to_stop_while_it_loads_it_ends_in_order(module: str, tmp_path: Path) -> None:
    """A process of its own, since it is about loading."""
    code = (
        "import os, signal, sys\n"
        "class AtImport:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        if name == sys.argv[0]: os.kill(os.getpid(), signal.SIGTERM)\n"
        "sys.meta_path.insert(0, AtImport())\n"
        f"sys.argv = [{module!r}, 'gateway', 'run']\n"
        "from hermes.cli import main\n"
        "sys.exit(main())"
    )
    home = tmp_path / "home"
    done = subprocess.run(
        [sys.executable, "-P", "-c", code], env=environment(home), capture_output=True, text=True, check=False
    )
    assert done.returncode == 0 and "Traceback" not in done.stderr, done
    assert home_holder(home) is None
