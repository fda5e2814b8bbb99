"""What every backend must do, over every kind that comes with Hermes."""

from __future__ import annotations

from pathlib import Path

import pytest

from hermes.testing.backend_suite import CHECKS
from tests.execution.beds import BEDS, children, make_bed


@pytest.mark.parametrize("kind", BEDS)
@pytest.mark.parametrize("name", CHECKS)
async def test_conformance(name: str, kind: str, tmp_path: Path) -> None:
    before = children()
    bed = make_bed(kind, tmp_path)
    await bed.backend.open()
    try:
        await CHECKS[name](bed)
    finally:
        await bed.backend.close()
    assert children() <= before
