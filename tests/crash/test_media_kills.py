"""A real SIGKILL while a file is on its way: it is got again, whole, and the message is answered once."""

from __future__ import annotations

import hashlib
import signal
from pathlib import Path

import pytest

from hermes.testing.history import check_history
from hermes.testing.world import Deed
from tests.crash.lives import Lives

PICTURE = b"\x89PNG\r\n\x1a\n" + bytes(range(256)) * 2000
PASSINGS = ("before:1", "after:1", "after:2", "before:4", "after:4", "after:5", "after:8")


@pytest.mark.parametrize("passing", PASSINGS)
async def test_killed_while_a_file_is_on_its_way(tmp_path: Path, full: bool, passing: str) -> None:
    if not full and passing != "after:2":
        pytest.skip("in the full run")
    async with Lives(folder=tmp_path, kind="edits") as lives:
        world = lives.world
        uploads = (world.photo(PICTURE, "cat.png"), world.upload(b"a note", "note.txt"))
        world.write("m1 read", uploads=uploads)
        await lives.begin(kill=f"download.{passing}")
        assert await lives.died() == -signal.SIGKILL, "the point was never passed"
        await lives.begin()
        await lives.until_answered(1)
        assert await lives.end() == 0
        assert check_history(world) == [] and await lives.leftovers() == []
        fetched = [entry.key for entry in world.did(Deed.FETCHED)]
        assert all(1 <= fetched.count(upload.ref) <= 2 for upload in uploads)
    kept = {one.name: one.read_bytes() for one in (tmp_path / "media").rglob("*") if one.is_file()}
    digest = hashlib.sha256(PICTURE).hexdigest()
    assert len(kept) == 2 and kept[f"{digest}.png"] == PICTURE
