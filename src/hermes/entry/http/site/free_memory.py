"""Memory that the C library keeps although nobody uses it. After much has come and gone at once it is full of
holes, and gives nothing back by itself."""

from __future__ import annotations

import ctypes
from typing import Any, ClassVar

_WORTH_IT = 16 * 1024 * 1024


class _Heap(ctypes.Structure):
    """`struct mallinfo2` of glibc; `fordblks` is what is free."""

    _names = "arena ordblks smblks hblks hblkhd usmblks fsmblks uordblks fordblks keepcost"
    _fields_: ClassVar[list[tuple[str, Any]]] = [(name, ctypes.c_size_t) for name in _names.split()]


class FreeMemory:
    """Gives it back to the system whenever more of it has become free. Where the C library cannot, nothing
    happens."""

    def __init__(self) -> None:
        library = ctypes.CDLL(None)
        self.able = hasattr(library, "mallinfo2") and hasattr(library, "malloc_trim")
        if self.able:
            self._ask, self._trim = library.mallinfo2, library.malloc_trim
            self._ask.restype = _Heap
        self._free = self._measure()

    def give_back(self) -> bool:
        """Whether it was worth it."""
        free = self._measure()
        if free < self._free + _WORTH_IT:
            self._free = min(self._free, free)
            return False
        self._trim(0)
        # What was given back still counts as free, until it is used again.
        self._free = self._measure()
        return True

    def _measure(self) -> int:
        return int(self._ask().fordblks) if self.able else 0
