"""Hooks in processes of their own: what they are told, what they may not see, and that none of them can hang,
crash or flood the gateway."""

from __future__ import annotations

import asyncio
import os
import time
from pathlib import Path

import pytest

from hermes.admin.process.run import loop_factory
from hermes.domain.errors import Unreachable
from hermes.domain.system.hooks import Hook
from hermes.execution.hooks.processes import HookProcesses

SCRIBBLING = """
import contextlib, os, time
def handle(event, context):
    for number in range(3, 20):
        with contextlib.suppress(OSError):
            os.write(number, b"!\\n")
    time.sleep(60)
"""
CHILD = """
import subprocess, sys, time, pathlib
def handle(event, context):
    if event == "load":
        return
    child = subprocess.Popen(["sleep", "600"], start_new_session=True)
    pathlib.Path("child").write_text(str(child.pid))
    pathlib.Path("begun").touch()
    time.sleep(600)
"""


def hook(folder: Path, code: str, *, timeout: float = 40.0, name: str = "one") -> Hook:
    place = folder / name
    place.mkdir(parents=True)
    (place / "handler.py").write_text(code)
    return Hook(name=name, folder=str(place), events=("agent:end",), timeout=timeout)


@pytest.fixture
async def processes(tmp_path: Path):  # type: ignore[no-untyped-def]
    environ = {"PATH": os.environ["PATH"], "OPENAI_API_KEY": "very secret"}
    running = HookProcesses(tmp_path, environ)
    yield running
    await running.close()


async def turns_while(work: asyncio.Task[object]) -> int:
    """How often the loop came round while something went on; how quickly is measured by bench/hooks.py."""
    turns = 0
    while not work.done():
        await asyncio.sleep(0.005)
        turns += 1
    return turns


async def test_sync_and_async_handlers_answer(tmp_path: Path, processes: HookProcesses) -> None:
    plain = hook(tmp_path, "def handle(event, context): return {'event': event, 'n': context['n'] + 1}")
    later = hook(
        tmp_path,
        "import asyncio\nasync def handle(event, context):\n    await asyncio.sleep(0)\n    return 'done'",
        name="two",
    )
    assert (await processes.call(plain, "agent:end", {"n": 1})).answer == {"event": "agent:end", "n": 2}
    assert (await processes.call(later, "agent:end", {})).answer == "done"


def test_on_the_loop_of_the_gateway(tmp_path: Path) -> None:
    loop = loop_factory()
    if loop is None:
        pytest.skip("uvloop is not installed")
    hanging = hook(tmp_path, "import time\ndef handle(event, context): time.sleep(context['n'])", timeout=3.0)

    async def calls() -> object:
        processes = HookProcesses(tmp_path, {"PATH": os.environ["PATH"]})
        # Loading counts against the first call, however long it takes.
        await processes.call(hook_with(hanging, 40.0), "agent:end", {"n": 0})
        with pytest.raises(Unreachable, match="no answer within 3 s"):
            await processes.call(hanging, "agent:end", {"n": 600})
        heard = await processes.call(hook_with(hanging, 40.0), "agent:end", {"n": 0})
        await processes.close()
        return heard.answer

    with asyncio.Runner(loop_factory=loop) as runner:
        assert runner.run(calls()) is None


async def test_one_process_lives_on(tmp_path: Path, processes: HookProcesses) -> None:
    counting = hook(
        tmp_path,
        "n = 0\ndef handle(event, context):\n    global n\n    n += 1\n    print('heard', n)\n    return n",
    )
    for number in (1, 2, 3):
        heard = await processes.call(counting, "agent:end", {})
        assert heard.answer == number
    assert "heard 2" in heard.output


async def test_the_environment_is_built_from_nothing(tmp_path: Path, processes: HookProcesses) -> None:
    looking = hook(tmp_path, "import os\ndef handle(event, context): return dict(os.environ)")
    seen = (await processes.call(looking, "agent:end", {})).answer
    assert isinstance(seen, dict)
    assert "OPENAI_API_KEY" not in seen and seen["HERMES_HOME"] == str(tmp_path)


@pytest.mark.parametrize(
    ("code", "why"),
    [
        ("def handle(event, context): raise KeyError('people said this')", "KeyError in handler.py, line 1"),
        ("def handle(event, context): raise SystemExit(3)", "SystemExit in handler.py, line 1"),
        ("import os\ndef handle(event, context): os._exit(7)", "its process ended with code 7"),
        ("import os\nos._exit(7)", "its process ended with code 7"),
        ("def handle(event, context): return {1, 2}", "returned a set"),
        ("def handle(event, context): return float('nan')", "returned a float"),
        ("def handle(event, context): return 'x' * 1_000_000", "longer than"),
        ("def handle(event, context)", "SyntaxError in handler.py, line 1"),
        ("x = 1", "no function handle"),
        ("import nowhere_to_be_found", "it cannot be loaded: ModuleNotFoundError in handler.py, line 1"),
        ("def handle(event, context):\n    while True: print('x' * 10_000)", "it printed more than 1 MB"),
        (SCRIBBLING, "wrote where only answers belong"),
    ],
)
async def test_what_goes_wrong_is_said(tmp_path: Path, processes: HookProcesses, code: str, why: str) -> None:
    bad = hook(tmp_path, code)
    for _ in range(2):
        with pytest.raises(Unreachable) as told:
            await processes.call(bad, "agent:end", {})
        assert why in str(told.value) and "people said" not in str(told.value)


HANGING = """
import asyncio, pathlib, signal, time
for number in (1, 2, 15):
    signal.signal(number, signal.SIG_IGN)
{kind}def handle(event, context):
    if event == "load":
        return
    if pathlib.Path("begun").exists():
        return "here again"
    pathlib.Path("begun").touch()
    {hang}
"""


async def until_it_hangs(processes: HookProcesses, hanging: Hook) -> None:
    """Call it until it has hung: a busy machine may not load it, or come to it, in time."""
    while not begun(hanging):
        await processes.call(hook_with(hanging, 40.0), "load", {})
        with pytest.raises(Unreachable, match="no answer within 3 s"):
            await processes.call(hanging, "agent:end", {})


@pytest.mark.parametrize(
    ("kind", "hang"),
    [
        ("", "time.sleep(600)"),
        ("async ", "await asyncio.sleep(600)"),
        pytest.param("", "while True: pass", marks=pytest.mark.full),
    ],
)
async def test_one_that_hangs_is_killed_and_begun_anew(
    tmp_path: Path, processes: HookProcesses, kind: str, hang: str
) -> None:
    hanging = hook(tmp_path, HANGING.format(kind=kind, hang=hang), timeout=3.0)
    await until_it_hangs(processes, hanging)
    assert (await processes.call(hook_with(hanging, 40.0), "agent:end", {})).answer == "here again"


def hook_with(known: Hook, timeout: float) -> Hook:
    return Hook(name=known.name, folder=known.folder, events=known.events, timeout=timeout)


async def test_what_it_started_goes_with_it(tmp_path: Path, processes: HookProcesses) -> None:
    await until_it_hangs(processes, hook(tmp_path, CHILD, timeout=3.0))
    child = int((tmp_path / "one" / "child").read_text())
    end = time.monotonic() + 40
    while alive(child):
        assert time.monotonic() < end, "what the hook started lives on"
        await asyncio.sleep(0.01)


def begun(hook: Hook) -> bool:
    return Path(hook.folder, "begun").exists()


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


async def test_one_call_that_hangs_spoils_no_other(tmp_path: Path, processes: HookProcesses) -> None:
    code = (
        "import time, pathlib\ndef handle(event, context):\n"
        "    if context['who'] == 'bad': time.sleep(600)\n"
        "    if not pathlib.Path('begun').exists():\n"
        "        pathlib.Path('begun').touch()\n        time.sleep(600)\n"
        "    return context['who']"
    )
    bad = hook(tmp_path, code, timeout=3.0)
    good = asyncio.create_task(processes.call(hook_with(bad, 80.0), "agent:end", {"who": "good"}))
    while not begun(bad) and not good.done():  # noqa: ASYNC110
        await asyncio.sleep(0.01)
    with pytest.raises(Unreachable):
        await processes.call(bad, "agent:end", {"who": "bad"})
    assert (await good).answer == "good"


async def test_a_slow_import_is_waited_for(tmp_path: Path, processes: HookProcesses) -> None:
    slow = hook(
        tmp_path, "import time\ntime.sleep(1.5)\ndef handle(event, context): return 'at last'", timeout=0.3
    )
    with pytest.raises(Unreachable):
        await processes.call(slow, "agent:end", {})
    assert (await processes.call(hook_with(slow, 40.0), "agent:end", {})).answer == "at last"


@pytest.mark.parametrize(
    "code",
    [
        "def handle(event, context):\n    while True: print('x' * 10_000)",
        "def handle(event, context):\n    while True: pass",
        "import os\ndef handle(event, context): os._exit(1)",
        "def handle(event, context): return 'x' * 200_000",
    ],
)
async def test_the_loop_goes_on(tmp_path: Path, processes: HookProcesses, code: str) -> None:
    bad = hook(tmp_path, code, timeout=1.0)

    async def calls() -> None:
        for _ in range(3):
            try:
                await processes.call(bad, "agent:end", {"text": "x" * 10_000})
            except Unreachable:
                pass

    assert await turns_while(asyncio.create_task(calls())) > 3


async def test_closing_leaves_nothing_behind(tmp_path: Path) -> None:
    processes = HookProcesses(tmp_path, {"PATH": os.environ["PATH"]})
    answer = (
        await processes.call(hook(tmp_path, "import os\ndef handle(e, c): return os.getpid()"), "x", {})
    ).answer
    assert isinstance(answer, int) and alive(answer)
    await processes.close()
    assert not alive(answer)
