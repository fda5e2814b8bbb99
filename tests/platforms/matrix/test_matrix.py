"""Matrix: the suite that every adapter passes, and what is Matrix's own."""

from __future__ import annotations

import pytest

from hermes.testing.platform_suite import CHECKS, Check, conform
from tests.platforms.matrix.bed import MatrixBed


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
async def test_matrix_conforms(check: Check, full: bool) -> None:
    await conform(check, MatrixBed, full=full)
