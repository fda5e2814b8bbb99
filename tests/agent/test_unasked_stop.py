"""A gateway that ends though nobody asked it to has crashed, however orderly its last steps were."""

from __future__ import annotations

import asyncio
import os
import sqlite3
from pathlib import Path

import pytest

from hermes.app.app import App
from hermes.app.overrides import AppOverrides
from hermes.state.home.homes import DATABASE_FILE


@pytest.mark.parametrize("asked", [True, False])
async def test_only_a_stop_that_was_asked_for_is_clean(tmp_path: Path, asked: bool) -> None:
    home = tmp_path / "home"
    home.mkdir(mode=0o700)
    environ = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "HERMES_NO_PROBE": "1"}
    app = App(home, environ, AppOverrides(platforms={}, tools=()))
    async with asyncio.timeout(30):
        living = asyncio.create_task(app.live())
        ready = asyncio.create_task(app._ready.wait())
        await asyncio.wait((living, ready), return_when=asyncio.FIRST_COMPLETED)
        if asked:
            app.stop()
        else:
            living.cancel()  # as the loop does with every task when an exit leaves it
        await asyncio.wait((living,))
    with sqlite3.connect(home / DATABASE_FILE) as database:
        ((closed_at,),) = database.execute("SELECT closed_at FROM boots").fetchall()
    assert (closed_at is not None) is asked
