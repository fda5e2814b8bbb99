"""Names of pictures' addresses are looked up; here they lead to the open network without asking anybody."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from hermes.execution.egress import reach


@pytest.fixture(autouse=True)
def names(monkeypatch: pytest.MonkeyPatch) -> None:
    async def look_up(name: str, port: int) -> Sequence[str]:
        inside = name.startswith("inside.")
        return ["10.0.0.7"] if inside else [] if name.startswith("gone.") else ["93.184.216.34"]

    monkeypatch.setattr(reach, "look_up", look_up)
