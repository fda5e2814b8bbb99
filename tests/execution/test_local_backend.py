"""What is the local backend's own."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from pathlib import Path

import pytest

from hermes.domain.errors import Unreachable, UserError
from hermes.domain.ports.world import Command, CommandResult
from hermes.execution.commands.output_capture import SAVED_BYTES
from hermes.execution.local.backend import LocalBackend, build_environment
from hermes.testing.backend_suite import SECRET, SECRET_NAME, Bed
from hermes.testing.backends import local_backend
from tests.execution.beds import children

Make = Callable[[], LocalBackend]


@pytest.fixture
async def make(tmp_path: Path) -> AsyncIterator[Make]:
    made: list[LocalBackend] = []

    def build() -> LocalBackend:
        workspace = tmp_path / "work"
        workspace.mkdir(exist_ok=True)
        environ = {**os.environ, SECRET_NAME: SECRET}
        made.append(local_backend(home=tmp_path / "home", environ=environ, workspace=workspace))
        return made[-1]

    yield build
    for backend in made:
        await backend.close()


@pytest.fixture
def bed(make: Make, tmp_path: Path) -> Bed:
    return Bed(backend=make(), folder=str(tmp_path / "work"))


async def run(backend: LocalBackend, text: str, **more: object) -> CommandResult:
    command = Command(text=text, session="s", **more)  # type: ignore[arg-type]
    return await backend.run(command, lambda words: None)


async def test_closing_ends_everything(make: Make, tmp_path: Path) -> None:
    before = children()
    backend = make()
    bed = Bed(backend=backend, folder=str(tmp_path / "work"))
    note = f"echo $$ >> {bed.folder}/pids; exec sleep 300"
    for trick in ("", "setsid ", "nohup "):
        await backend.start(
            Command(text=f"{trick}bash -c '{note}'", session="s", timeout=0), lambda view: None
        )
    await bed.noted(3)
    await run(backend, "sleep 300 &")
    await backend.close()
    assert children() <= before


async def test_a_session_goes_on_after_a_restart(make: Make) -> None:
    await run(make(), "cd /usr; export COLOUR='deep blue'")
    assert (await run(make(), "pwd; echo $COLOUR")).output == "/usr\ndeep blue\n"


async def test_an_output_far_too_long(make: Make, full: bool) -> None:
    backend = make()
    result = await run(backend, f"yes | head -c {'1G' if full else '150M'}")
    assert result.code == 0 and result.cut
    assert len(result.output) < 60_000
    saved = await backend.files.stat("s", result.saved)
    assert saved is not None and saved.size == SAVED_BYTES


async def test_a_reader_that_is_slow_does_not_hold_the_command(make: Make) -> None:
    backend = make()
    heard: list[str] = []
    command = Command(text="yes | head -c 20M; echo; echo end", session="s")
    result = await backend.run(command, heard.append)
    assert result.output.endswith("end\n")
    assert sum(map(len, heard)) < 1 << 20


async def test_a_folder_that_is_gone(make: Make, tmp_path: Path) -> None:
    backend = make()
    await run(backend, "mkdir -p deep/er; cd deep/er")
    (tmp_path / "work/deep/er").rmdir()
    result = await run(backend, "pwd")
    assert result.output.endswith(f"{tmp_path}/work/deep\n") and "is gone" in result.output
    with pytest.raises(UserError, match="no folder"):
        await run(backend, "pwd", cwd="/not/there")


async def test_a_killed_runner_is_replaced(make: Make) -> None:
    backend = make()
    before = children()
    await run(backend, "true")
    for pid in children() - before:
        with suppress(ProcessLookupError):  # the command itself may just be gone
            os.kill(pid, signal.SIGKILL)
    assert (await run(backend, "echo again")).output == "again\n"


async def test_a_killed_supervisor_takes_its_command_along(make: Make, tmp_path: Path) -> None:
    backend = make()
    bed = Bed(backend=backend, folder=str(tmp_path / "work"))
    note = f"setsid bash -c 'echo $$ >> {bed.folder}/pids; exec sleep 300' &"
    script = f"{note} echo $PPID > {bed.folder}/supervisor; wait"
    task = asyncio.create_task(run(backend, script))
    await bed.noted(1)
    await bed.noted(1, "supervisor")
    os.kill(int((tmp_path / "work/supervisor").read_text()), signal.SIGKILL)
    with pytest.raises(Unreachable):
        await task
    while await bed.survivors():  # noqa: ASYNC110
        await asyncio.sleep(0.01)


GATEWAY = """
import asyncio, os, sys
from pathlib import Path
from hermes.domain.ports.world import Command
from hermes.testing.backends import local_backend

async def main(folder):
    backend = local_backend(home=folder / "home", environ=os.environ, workspace=folder)
    note = "echo $$ >> pids; exec sleep 300"
    for trick in ("", "setsid ", "nohup "):
        await backend.start(Command(text=f"{trick}bash -c '{note}'", timeout=0), lambda view: None)
    await backend.run(Command(text=f"(setsid bash -c '{note}' &) ; sleep 300"), lambda text: None)

asyncio.run(main(Path(sys.argv[1])))
"""


async def test_a_killed_gateway_leaves_nothing(bed: Bed) -> None:
    environ = {"PYTHONPATH": str(Path(__file__).parents[2] / "src"), "PATH": os.environ["PATH"]}
    gateway = await asyncio.create_subprocess_exec(sys.executable, "-c", GATEWAY, bed.folder, env=environ)
    await bed.noted(4)
    gateway.kill()
    await gateway.wait()
    while await bed.survivors():  # noqa: ASYNC110
        await asyncio.sleep(0.01)


HOP = """
import os, time
while True:
    if os.fork():
        os._exit(0)
    time.sleep(0.0005)
    os.utime("beat")
"""


async def test_a_process_that_changes_its_id_all_the_time(make: Make, tmp_path: Path) -> None:
    backend = make()
    (tmp_path / "work" / "hop.py").write_text(HOP)
    beat = tmp_path / "work" / "beat"
    beat.touch()
    python = sys.executable
    result = await run(backend, f"{python} -S hop.py & {python} -S hop.py; sleep 300", timeout=0.5)
    assert result.timed_out
    last = beat.stat().st_mtime_ns
    await run(backend, "sleep 0.2")
    assert beat.stat().st_mtime_ns == last


async def test_a_command_holds_nothing_of_its_runner(make: Make) -> None:
    """But its input and output, and 251, where its shell leaves its state."""
    result = await run(make(), "for fd in /proc/$$/fd/*; do readlink $fd; done | grep -c socket:")
    assert result.output == "0\n"


async def test_many_at_once(make: Make) -> None:
    backend = make()
    commands = (Command(text=f"sleep 0.05; echo {n}", session=str(n)) for n in range(20))
    results = await asyncio.gather(*(backend.run(command, lambda words: None) for command in commands))
    assert [result.output for result in results] == [f"{n}\n" for n in range(20)]


async def test_long_commands_and_strange_ones(make: Make) -> None:
    backend = make()
    long = "x" * 300_000
    assert (await run(backend, f"cat <<'EOF' | wc -c\n{long}\nEOF")).output.strip() == "300001"
    with pytest.raises(UserError, match="NUL"):
        await run(backend, "echo \0")
    assert (await run(backend, "set -x; echo hi")).output == "++ echo hi\nhi\n"
    assert (await run(backend, "trap 'echo bye' EXIT; export OWN=1; echo hi")).output == "hi\nbye\n"
    assert (await run(backend, "echo $OWN")).output == "1\n"


async def test_variables_of_one_command(make: Make) -> None:
    backend = make()
    assert (await run(backend, 'echo "$A"', env={"A": "it's"})).output == "it's\n"
    assert (await run(backend, 'echo "$A"', env={"A": "$(echo no)"})).output == "$(echo no)\n"


def test_the_environment_is_built_from_nothing() -> None:
    environ = {"PATH": "/bin", "HOME": "/h", "API_KEY": "x", "WANTED": "y", "BASH_ENV": "z"}
    built = build_environment(environ, ("WANTED", "MISSING"))
    assert built.keys() == {"PATH", "HOME", "LANG", "TERM", "USER", "WANTED"}
