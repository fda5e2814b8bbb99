"""One run of one bench in a process of its own: `python -m bench.child <name> <folder> [--quick]`."""

from __future__ import annotations

import importlib
import json
import logging
import os
import sys
from dataclasses import asdict
from pathlib import Path

from bench.figure import Figure


def main(arguments: list[str]) -> None:
    name, folder, *more = arguments
    # The programs that it measures write to stdout, too; what is asked for must stand there alone.
    answer = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    # As a gateway logs by default: nothing below a warning is even put together.
    logging.basicConfig(level=logging.WARNING, stream=sys.stderr)
    module = importlib.import_module(f"bench.{name}")
    figures: list[Figure] = module.measure(Path(folder), "--quick" in more)
    with answer:
        answer.write(json.dumps([asdict(figure) for figure in figures]))


if __name__ == "__main__":
    main(sys.argv[1:])
