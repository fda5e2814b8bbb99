"""Programs that are run to their end, and what they leave behind."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Callable

import pytest

from hermes.admin.process.run import loop_factory
from hermes.domain.errors import Unreachable
from hermes.execution.far.programs import run_program

ENV = {"PATH": os.environ["PATH"]}
LEAVES_A_CHILD = ["sh", "-c", "sleep 60 & echo $!; echo 'not so well' >&2; exit 3"]


@pytest.mark.parametrize("loop", [None, loop_factory()], ids=["asyncio", "uvloop"])
def test_a_child_that_holds_the_output_is_not_waited_for(
    loop: Callable[[], asyncio.AbstractEventLoop] | None,
) -> None:
    with asyncio.Runner(loop_factory=loop) as runner:
        done = runner.run(run_program(LEAVES_A_CHILD, ENV, 30))
    os.kill(int(done.output), signal.SIGKILL)
    assert (done.code, done.complaint) == (3, "not so well")


async def test_one_that_takes_too_long_is_killed() -> None:
    with pytest.raises(Unreachable, match=r"sh did not answer within 0\.2 s"):
        await run_program(["sh", "-c", "exec sleep 600"], ENV, 0.2)


async def test_one_that_is_not_there() -> None:
    with pytest.raises(Unreachable, match="/nowhere/to cannot be started"):
        await run_program(["/nowhere/to"], ENV, 5)
