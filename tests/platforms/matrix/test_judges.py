"""The fake homeserver is judged by matrix-nio, which we did not write, before our adapter may trust it: it
logs in, receives, replies, edits, reacts, deletes, uploads and reads back. The same program runs against a
real Synapse (`test_synapse.py`): where the two differ, the fake is wrong."""

from __future__ import annotations

import pytest

from tests.platforms.matrix.bed import MatrixBed
from tests.platforms.matrix.judge import EXPECTED, judged

pytestmark = [pytest.mark.server, pytest.mark.xdist_group("synapse")]


async def test_matrix_nio_accepts_the_fake() -> None:
    assert await judged(MatrixBed(), "secret of hermes") == EXPECTED
