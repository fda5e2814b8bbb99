"""Every way out of a sandbox that we know, tried: none may succeed."""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import os
import platform
import secrets
import shutil
import signal
import socket
import subprocess
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from hermes.domain.errors import HermesError, UserError
from hermes.domain.ports.world import OPEN_NETWORK, Command, FileSearch
from hermes.execution.sandboxes import seccomp
from hermes.execution.sandboxes.bubblewrap import WORKSPACE, make_bubblewrap
from hermes.testing.backend_suite import Bed
from hermes.testing.backends import backend_request
from tests.attack.escapes import ATTEMPTS, SHARED, Attempt
from tests.execution.beds import ENVIRON, make_bed

MARK = "mark-7Hq2ZxW9"


@dataclass(slots=True)
class Outside:
    """What is beside the workspace, and what came there from inside."""

    folder: Path
    tag: str = field(default_factory=lambda: secrets.token_hex(4))
    words: dict[str, object] = field(default_factory=dict)
    heard: list[str] = field(default_factory=list)
    sockets: list[socket.socket] = field(default_factory=list)

    @property
    def out(self) -> Path:
        return self.folder / "outside"

    def listen(self, name: str, family: int, kind: int, address: str | tuple[str, int]) -> socket.socket:
        door = socket.socket(family, kind)
        door.bind(address)
        self.sockets.append(door)
        if kind == socket.SOCK_STREAM:
            door.listen(64)
        threading.Thread(target=self._hear, args=(name, door, kind), daemon=True).start()
        return door

    def _hear(self, name: str, door: socket.socket, kind: int) -> None:
        with contextlib.suppress(OSError):
            while True:
                if kind == socket.SOCK_STREAM:
                    door.accept()[0].close()
                else:
                    door.recv(10)
                self.heard.append(name)

    def told(self, name: str) -> str:
        return (self.out / name).read_text()


@pytest.fixture
def outside(tmp_path: Path) -> Iterator[Outside]:
    place = Outside(tmp_path)
    for name in ("person/.ssh", "run"):
        (place.out / name).mkdir(parents=True)
    for name in ("secret", "doomed", "person/.ssh/id_ed25519"):
        (place.out / name).write_text(MARK)
    home, work = tmp_path / "home", tmp_path / "work"
    home.mkdir()
    work.mkdir()
    (home / ".env").write_text(f"KEY={MARK}\n")
    for link, target in (("link-out", "secret"), ("link-new", "new"), ("folder-out", "")):
        (work / link).symlink_to(place.out / target)
    for shared in (Path("/tmp"), Path("/dev/shm")):
        (shared / f"hermes-escape-{place.tag}").mkdir(exist_ok=True)
    victim = subprocess.Popen(["sleep", "300"], env={"SECRET": MARK})
    key = secrets.randbelow(0x7FFFFFFF) + 1  # the machine's: other runs of these tests have theirs
    memory = ctypes.CDLL(None).shmget(key, 4096, 0o1600)
    with _short_names(place, home, work):
        tcp = place.listen("tcp", socket.AF_INET, socket.SOCK_STREAM, ("0.0.0.0", 0))
        udp = place.listen("udp", socket.AF_INET, socket.SOCK_DGRAM, ("127.0.0.1", 0))
        place.words = {
            "out": place.out, "home": home, "mark": MARK, "tag": place.tag, "gateway": os.getpid(),
            "victim": victim.pid, "port": tcp.getsockname()[1], "udp": udp.getsockname()[1],
            "shared": f"0x{key:08x}",
            **{f"call_{name}": number for name, number in _numbers().items()},
        }  # fmt: skip
        yield place
    victim.kill()
    victim.wait()
    ctypes.CDLL(None).shmctl(memory, 0, None)
    for shared in (Path("/tmp"), Path("/dev/shm")):
        shutil.rmtree(shared / f"hermes-escape-{place.tag}", ignore_errors=True)


@contextlib.contextmanager
def _short_names(place: Outside, home: Path, work: Path) -> Iterator[None]:
    """Paths of sockets must be short, so they are made from the folder they are in."""
    before = os.getcwd()
    os.chdir(place.out / "run")
    try:
        for name in ("docker.sock", "podman.sock", "dbus", "systemd"):
            place.listen(name, socket.AF_UNIX, socket.SOCK_STREAM, name)
        place.listen("packets", socket.AF_UNIX, socket.SOCK_DGRAM, "packets")
        place.listen("abstract", socket.AF_UNIX, socket.SOCK_STREAM, f"\0hermes-escape-{place.tag}")
        abstract = f"\0hermes-escape-packets-{place.tag}"
        place.listen("abstract packets", socket.AF_UNIX, socket.SOCK_DGRAM, abstract)
        for folder, name in ((home, "gateway.sock"), (work, "socket")):
            os.chdir(folder)
            place.listen(name, socket.AF_UNIX, socket.SOCK_STREAM, name)
    finally:
        os.chdir(before)
    yield
    for door in place.sockets:
        with contextlib.suppress(OSError):
            door.shutdown(socket.SHUT_RDWR)
        door.close()


def _numbers() -> dict[str, int]:
    column = 0 if platform.machine() == "x86_64" else 1
    calls = {**seccomp._DENIED, "clone": seccomp._CLONE, "clone3": seccomp._CLONE3}
    return {name: numbers[column] or -1 for name, numbers in calls.items()}


async def escapes(bed: Bed, outside: Outside, attempts: list[Attempt]) -> list[str]:
    """Which of them succeeded, by what they say themselves."""
    prelude = "PY=$(command -v python3 || ls /opt/hermes/python/bin/python3* | head -1); "
    found = []
    for attempt in attempts:
        text = prelude + attempt.text.format_map(outside.words)
        command = Command(text=text, session=attempt.name, timeout=30)
        if "ESCAPED" in (await bed.backend.run(command, lambda words: None)).output:
            found.append(attempt.name)
    return found


async def test_no_way_leads_out_of_bubblewrap(outside: Outside) -> None:
    assert len(ATTEMPTS) >= 60 and len({attempt.name for attempt in ATTEMPTS}) == len(ATTEMPTS)
    bed = make_bed("bubblewrap", outside.folder)
    await bed.backend.open()
    try:
        assert await escapes(bed, outside, [*ATTEMPTS]) == []
        await _file_tools_stay_inside(bed)
    finally:
        await bed.backend.close()
    assert outside.heard == []
    assert not (outside.out / "written").exists() and not (outside.out / "new").exists()
    assert outside.told("doomed") == outside.told("secret") == MARK


async def test_landlock_holds_what_it_promises(outside: Outside) -> None:
    bed = make_bed("landlock", outside.folder)
    await bed.backend.open()
    try:
        weak = [*SHARED, *(attempt for attempt in ATTEMPTS if attempt.weak)]
        assert len(weak) >= 60
        assert await escapes(bed, outside, weak) == []
        await _file_tools_stay_inside(bed)
    finally:
        await bed.backend.close()
    assert outside.heard == []
    assert not (outside.out / "written").exists() and not (outside.out / "new").exists()
    assert outside.told("doomed") == outside.told("secret") == MARK


async def test_an_open_network_opens_no_sockets_of_the_machine(outside: Outside) -> None:
    """The abstract ones belong to the network, which is then shared."""
    make_bed("bubblewrap", outside.folder)  # installs what is needed
    request = backend_request(
        home=outside.folder / "home",
        workspace=outside.folder / "work",
        environ=ENVIRON,
        network=OPEN_NETWORK,
    )
    bed = Bed(backend=make_bubblewrap(request), folder=WORKSPACE)
    await bed.backend.open()
    try:
        pairs = [attempt for attempt in ATTEMPTS if "abstract" in attempt.name or "a pair" in attempt.name]
        assert len(pairs) == 4 and await escapes(bed, outside, pairs) == []
    finally:
        await bed.backend.close()
    assert outside.heard == []


async def test_the_attempts_are_real(outside: Outside) -> None:
    """Without a sandbox they succeed."""
    signal.signal(signal.SIGUSR1, signal.SIG_IGN)
    bed = make_bed("local", outside.folder)
    await bed.backend.open()
    plain = [*SHARED, *(attempt for attempt in ATTEMPTS if attempt.open)]
    try:
        missed = {attempt.name for attempt in plain} - {*await escapes(bed, outside, plain)}
    finally:
        await bed.backend.close()
        signal.signal(signal.SIGUSR1, signal.SIG_DFL)
    assert missed == set()


async def _file_tools_stay_inside(bed: Bed) -> None:
    """By the links that were there before the sandbox began."""
    files = bed.backend.files
    for path in ("link-out", "folder-out/secret", "../outside/secret"):
        with contextlib.suppress(UserError):
            assert MARK.encode() not in await files.read("s", path)
    with contextlib.suppress(UserError):
        await files.write("s", "folder-out/by-tool", b"x")
    found = await files.search(FileSearch(pattern=MARK, under="."))
    assert found.matches == ()


RACE = """
mkdir -p race/real; echo plain > race/real/file
while :; do
  ln -sfn {out} race/way; ln -sfn race/real race/way 2>/dev/null; rm -f race/way
  mkdir race/way 2>/dev/null && echo plain > race/way/secret; rm -rf race/way
done
"""


@pytest.mark.parametrize("kind", ["bubblewrap", "landlock"])
async def test_a_link_that_comes_and_goes(kind: str, outside: Outside, full: bool) -> None:
    bed = make_bed(kind, outside.folder)
    await bed.backend.open()
    files = bed.backend.files
    try:
        racing = asyncio.create_task(bed.run(RACE.format_map(outside.words), timeout=120, session="race"))
        for number in range(2000 if full else 200):
            with contextlib.suppress(HermesError):
                assert MARK.encode() not in await files.read("s", f"{bed.folder}/race/way/secret")
            with contextlib.suppress(HermesError):
                await files.write("s", f"{bed.folder}/race/way/w{number}", b"x")
        assert not racing.done()
        racing.cancel()
        await asyncio.wait((racing,))
    finally:
        await bed.backend.close()
    assert [path.name for path in outside.out.iterdir() if path.name.startswith("w")] == []
