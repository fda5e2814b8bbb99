"""What hooks decide survives the gateway: stopped at each write, and killed by the very hook that it asks."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from hermes.control.hooks import Hooks
from hermes.domain.hooks import Heard, Hook
from hermes.execution.hook_processes import HookProcesses
from hermes.state.hook_files import read_hooks
from hermes.testing.crash import StoppingStore
from hermes.testing.harness import Journey
from hermes.testing.world import World

MOST_WRITES = 30
ANSWERS: dict[str, object] = {
    "no": {"decision": "deny", "message": "Not today."},
    "mine": {"decision": "handled", "message": "I did it."},
    "change": {"decision": "rewrite", "command_name": "title", "raw_args": "Changed"},
    "a denied turn": {"decision": "deny", "message": "Not a word."},
}


class Deciding:
    """Hooks that decide by the words alone, so that any life decides the same."""

    async def call(self, hook: Hook, event: str, context: Mapping[str, object]) -> Heard:
        await asyncio.sleep(0)
        return Heard(answer=ANSWERS.get(str(context.get("args", context.get("message")))))

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
async def test_stopped_at_each_write(tmp_path: Path, writes: Sequence[str], sees: str, after: bool) -> None:
    for number in range(1, MOST_WRITES):
        folder, world = tmp_path / str(number), World(keyed=True)
        folder.mkdir()
        first = Journey(folder=folder, world=world, hooks=deciding())
        first.wrap_store = lambda store, n=number: StoppingStore(store, n, after=after)  # type: ignore[misc]
        whole = await lived_whole(first, writes, sees)
        if not whole:
            async with Journey(folder=folder, world=world, hooks=deciding()) as second:
                await second.until_seen(sees)
                await second.until_idle()
        assert sum(sees in text for text in world.seen()) == 1, (number, world.seen())
        if whole:
            return
    raise AssertionError("the story never came to its end")


async def lived_whole(chat: Journey, writes: Sequence[str], sees: str) -> bool:
    """Live until the story is told or the store stops; whether it was told to its end."""
    try:
        await asyncio.wait_for(chat.__aenter__(), 0.5)
    except TimeoutError:
        for text in writes:
            chat.world.write(text)
        await chat.abandon()
        return False
    assert isinstance(chat.store, StoppingStore)
    for text in writes:
        chat.world.write(text)

    async def live() -> None:
        await chat.until_seen(sees)
        await chat.until_idle()
        await chat.__aexit__()

    living = asyncio.create_task(live())
    stopped = asyncio.create_task(chat.store.stopped.wait())
    await asyncio.wait((living, stopped), return_when=asyncio.FIRST_COMPLETED)
    whole = living.done()
    for task in (living, stopped):
        task.cancel()
    await (living if whole else chat.abandon())
    return whole


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
        await asyncio.sleep(30)


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
    assert await asyncio.wait_for(life.wait(), 30) == -signal.SIGKILL
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
