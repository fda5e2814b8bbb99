"""A supervisor that is reached by standard input and output: the whole far end of one command, for places
where no descriptor can be passed. It imports nothing but a few modules of the standard library."""

from __future__ import annotations

import sys
from pathlib import Path

from hermes.domain.process_mark import AGENT, step_down
from hermes.execution.commands.supervisor import CommandSupervisor, FrameLink

_START = (
    "import sys; sys.path.insert(0, sys.argv.pop(1)); "
    "from hermes.execution.commands import stdio; stdio.main()"
)
_SOURCES = str(Path(__file__).parents[3])


def stdio_runner(shell: str, python: str = sys.executable) -> list[str]:
    """The command line that runs one command of a transport by pipes."""
    return [python, "-I", "-S", "-c", _START, _SOURCES, shell]


def main() -> None:
    """Argument: the shell."""
    step_down(AGENT)
    supervisor = CommandSupervisor(sys.argv[1])
    supervisor.take(FrameLink(0, 1))
    supervisor.live(lambda: None)
