"""A database that was found damaged under a running gateway: a person at a door can still stop and answer."""

from __future__ import annotations

from pathlib import Path

import pytest

from hermes.domain.errors import Unreachable
from hermes.entry.terminal.served_door import ServedDoor, local_caller
from hermes.testing.harness import Journey


async def test_stopping_and_answering_commands_are_taken(tmp_path: Path) -> None:
    async with Journey(folder=tmp_path) as chat:
        door = ServedDoor(chat.gateway, local_caller())
        await door.command("/new")
        chat.database._note_damage("a page is spoilt")
        with pytest.raises(Unreachable, match="damaged"):
            await door.command("/new")
        for line in ("/stop", "/approve", "/deny"):
            assert (await door.command(line)).text
