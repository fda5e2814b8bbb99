"""How the C library keeps memory for a gateway: glibc gives each thread a heap of its own, most of which a
program with one interpreter lock never uses. Elsewhere nothing happens."""

from __future__ import annotations

import ctypes

_M_ARENA_MAX = -8


def use_one_arena() -> None:
    """One heap for all threads; call it before they start."""
    library = ctypes.CDLL(None)
    if hasattr(library, "mallopt"):
        library.mallopt(_M_ARENA_MAX, 1)


def give_back() -> None:
    """Return what loading the program has left free."""
    library = ctypes.CDLL(None)
    if hasattr(library, "malloc_trim"):
        library.malloc_trim(0)
