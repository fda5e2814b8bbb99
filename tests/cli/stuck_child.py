"""A real gateway process whose event loop is held by a call that does not return.

`stuck_child.py <home> <how>`: with `loop` the call waits; with `interpreter` native code keeps everything to
itself, in a thread, as `re` does. With `task` and `thread` the loop is free, and only they will not end;
`anew` is such a thread in the first life of a `hermes gateway run`."""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from hermes import cli
from hermes.admin.process import watchdog
from hermes.admin.process.run import GatewayProcess, StateFile
from hermes.app.overrides import AppOverrides
from hermes.domain.settings.settings import Settings
from hermes.domain.word import replace


def hold_the_loop() -> None:
    time.sleep(120)


async def hold_the_task() -> None:
    """As a plugin may that catches everything."""
    while True:
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.sleep(60)


def hold_the_interpreter() -> None:
    re.match("(a+)+$", "a" * 60 + "!")


def impatient(settings: Settings) -> Settings:
    return replace(settings, gateway=replace(settings.gateway, stuck_seconds=4.0))


def main(home: Path, how: str) -> int:
    watchdog._BEAT, watchdog._SUSPICIOUS = 0.1, 0.3  # type: ignore[misc]
    write = StateFile.write
    stuck: list[object] = []

    def then_stuck(self: StateFile, facts: Mapping[str, Any]) -> None:
        write(self, facts)
        if facts["gateway_state"] == "running" and not stuck:
            stuck.append(how)
            loop = asyncio.get_running_loop()
            if how == "task":
                stuck.append(loop.create_task(hold_the_task()))
            elif how == "thread" or (how == "anew" and not (home / "stuck").exists()):
                (home / "stuck").touch()
                loop.run_in_executor(None, hold_the_loop)
            elif how == "loop":
                loop.call_later(0.5, hold_the_loop)
            elif how == "interpreter":
                loop.call_later(0.5, lambda: loop.run_in_executor(None, hold_the_interpreter))

    StateFile.write = then_stuck  # type: ignore[method-assign]
    if how == "anew":
        return cli.main(["gateway", "run"])
    process = GatewayProcess(
        home=home,
        environ=os.environ,
        given=AppOverrides(change=impatient),
        say=lambda line: print(line, file=sys.stderr, flush=True),
    )
    return process.run()


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), sys.argv[2]))
