"""How a gateway keeps its memory small. The C library: glibc gives each thread a heap of its own, most of
which a program with one interpreter lock never uses; elsewhere nothing happens. Compiled code that is not
worth what it brings along."""

from __future__ import annotations

import contextlib
import ctypes
import mimetypes
import sys
from collections.abc import Iterator
from types import ModuleType
from typing import cast

_M_ARENA_MAX = -8


def use_one_arena() -> None:
    """One heap for all threads; call it before they start."""
    library = ctypes.CDLL(None)
    if hasattr(library, "mallopt"):
        library.mallopt(_M_ARENA_MAX, 1)


def leave_out_cpp() -> None:
    """aiohttp keeps its callbacks in a list compiled from C++, whose library takes a megabyte; the one
    in Python does as well here. Call it before aiohttp is loaded."""
    sys.modules.setdefault("frozenlist._frozenlist", cast(ModuleType, None))  # as if it were not installed


@contextlib.contextmanager
def late_types() -> Iterator[None]:
    """aiohttp wants the types of files when it is imported, for what it would serve; the machine's long list
    of them is read when somebody else asks for one."""
    files, mimetypes.knownfiles = mimetypes.knownfiles, []
    try:
        yield
    finally:
        mimetypes.knownfiles = files
        mimetypes._db = None  # type: ignore[attr-defined]  # as if nobody had asked


def give_back() -> None:
    """Return what loading the program has left free."""
    library = ctypes.CDLL(None)
    if hasattr(library, "malloc_trim"):
        library.malloc_trim(0)
