"""What hooks decide survives the gateway: stopped at each write, and killed by the very hook that it asks."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from hermes.control.hooks.dispatch import Hooks
from hermes.domain.system.hooks import Hook, HookAnswer
from hermes.execution.hooks.processes import HookProcesses
from hermes.state.files.hook_files import read_hooks
from hermes.testing.harness import Journey
from hermes.testing.world import World
from tests.journeys.cut import one_life, stops

MOST_WRITES = 60
ANSWERS: dict[str, object] = {
    "no": {"decision": "deny", "message": "Not today."},
    "mine": {"decision": "handled", "message": "I did it."},
    "change": {"decision": "rewrite", "command_name": "title", "raw_args": "Changed"},
    "a denied turn": {"decision": "deny", "message": "Not a word."},
}


class Deciding:
    """Hooks that decide by the words alone, so that any life decides the same."""

    async def call(self, hook: Hook, event: str, context: Mapping[str, object]) -> HookAnswer:
        await asyncio.sleep(0)
        return HookAnswer(answer=ANSWERS.get(str(context.get("args", context.get("message")))))

    async def close(self) -> None:
        pass


def deciding() -> Hooks:
    hook = Hook(name="gate", folder="gate", events=("command:*", "gate:*", "agent:*", "session:*"))
    return Hooks([([hook], Deciding())])


@pytest.mark.parametrize("after", [True, False], ids=["after", "before"])
@pytest.mark.parametrize(
    ("writes", "sees"),
    [
        (("/title no",), "Not today."),
        (("/title mine",), "I did it."),
        (("/title change",), "now called “Changed”"),
        (("a denied turn",), "Not a word."),
        (("hello", "/new Fresh"), "New session “Fresh”"),
    ],
)
async def test_stopped_at_each_write(
    tmp_path: Path, full: bool, writes: Sequence[str], sees: str, after: bool
) -> None:
    for number in stops(full, MOST_WRITES, f"{sees} {after}"):
        folder, world = tmp_path / str(number), World(keyed=True)
        folder.mkdir()

        async def live(chat: Journey, world: World = world) -> None:
            if not world.updates:
                for text in writes:
                    world.write(text)
            await chat.until_seen(sees)
            await chat.until_idle()

        first = Journey(folder=folder, world=world, hooks=deciding())
        crashed = await one_life(first, live, stop_at=number, after=after)
        if crashed:
            await one_life(Journey(folder=folder, world=world, hooks=deciding()), live)
        assert sum(sees in text for text in world.seen()) == 1, (number, world.seen())
        if not crashed:
            return
    pytest.fail("the story never came to its end")


# --- a real kill ---

KILLING = """
import os, pathlib, signal, time
def handle(event, context):
    asked = pathlib.Path("asked")
    asked.write_text((asked.read_text() if asked.exists() else "") + str(os.getpid()) + " ")
    if len(asked.read_text().split()) == 1:
        os.kill(os.getppid(), signal.SIGKILL)
        time.sleep(600)
    return {"decision": "handled", "message": "I did it."}
"""
FIRST_LIFE = """
import asyncio, pathlib, sys
sys.path.insert(0, sys.argv[2])
from tests.crash.test_hooks import first_life
asyncio.run(first_life(pathlib.Path(sys.argv[1])))
"""


def with_processes(home: Path) -> Hooks:
    return Hooks([(read_hooks(home).hooks, HookProcesses(home, {"PATH": os.environ["PATH"]}))])


async def first_life(home: Path) -> None:
    async with Journey(folder=home, hooks=with_processes(home)) as chat:
        chat.world.write("/title mine")
        await asyncio.sleep(90)


async def test_killed_while_a_hook_decides(tmp_path: Path) -> None:
    place = tmp_path / "hooks" / "gate"
    place.mkdir(parents=True)
    (place / "HOOK.yaml").write_text("events: ['command:*']\ntimeout: 20\n")
    (place / "handler.py").write_text(KILLING)
    root = str(Path(__file__).parents[2])
    life = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", FIRST_LIFE, str(tmp_path), root),
        env={**os.environ, "PYTHONPATH": f"{root}/src"},
    )
    assert await asyncio.wait_for(life.wait(), 60) == -signal.SIGKILL
    async with Journey(folder=tmp_path, hooks=with_processes(tmp_path)) as chat:
        await chat.until_seen("I did it.")
        await chat.hooks.close()
        assert chat.world.seen() == ["I did it."]
    pids = (place / "asked").read_text().split()
    assert len(pids) == 2 and not any(map(alive, pids))


def alive(pid: str) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False
