"""The SQLite store, on a file and in memory, under the checks that every store has to pass."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path

import pytest

from hermes.domain.ports.store import Store
from hermes.state.store.writer import SqliteStore
from hermes.testing.store_suite import CHECKS, LASTING_CHECKS, Check


def opening(path: Path | None) -> Callable[[], AbstractAsyncContextManager[Store]]:
    @asynccontextmanager
    async def open_store() -> AsyncIterator[Store]:
        async with SqliteStore(path) as store:
            yield store

    return open_store


@pytest.mark.parametrize("check", [*CHECKS, *LASTING_CHECKS], ids=lambda check: check.__name__)
async def test_on_a_file(check: Check, tmp_path: Path) -> None:
    await check(opening(tmp_path / "state.db"))


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
async def test_in_memory(check: Check) -> None:
    await check(opening(None))
