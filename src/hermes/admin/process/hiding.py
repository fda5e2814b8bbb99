"""The keys of this process, out of sight of others that run as the same user: commands of its agents do.

Read once, secret variables leave the environment, so that no child inherits them, and the block from which
the system tells a process's environment (`/proc/<pid>/environ`, `ps e`) is blanked. Linux lets nobody but
root look into its memory afterwards, and writes no core file."""

from __future__ import annotations

import contextlib
import ctypes
import os
import sys

from hermes.state.settings.names import is_key_like
from hermes.state.settings.secrets import password_in

_PR_SET_DUMPABLE = 4
_ENV_START, _ENV_END = 47, 48
"""Where the block's addresses stand in `/proc/self/stat`, behind the name of the program."""


def hide_secrets() -> dict[str, str]:
    """The environment as it was given: from now on it is known to the caller alone."""
    given = dict(os.environ)
    # Taken out and put back, what is no secret lies elsewhere, and nobody reads the old block any more.
    os.environ.clear()
    if sys.platform == "linux":
        with contextlib.suppress(OSError, ValueError, IndexError):
            _blank()
        ctypes.CDLL(None).prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)
    os.environ.update(
        {name: value for name, value in given.items() if not (is_key_like(name) or password_in(value))}
    )
    return given


def _blank() -> None:
    with open("/proc/self/stat", "rb") as file:
        facts = file.read().rpartition(b")")[2].split()
    start, end = int(facts[_ENV_START]), int(facts[_ENV_END])
    if 0 < start < end:
        ctypes.memset(start, 0, end - start)
