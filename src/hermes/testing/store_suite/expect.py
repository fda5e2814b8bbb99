"""What a check expects to be refused, without a test framework."""

from __future__ import annotations

from collections.abc import Awaitable


async def raises(kind: type[BaseException], act: Awaitable[object]) -> BaseException:
    """Await the act and return the error of that kind; anything else is a failed check."""
    try:
        result = await act
    except kind as error:
        return error
    raise AssertionError(f"{kind.__name__} was expected, but it went through: {result!r}")
