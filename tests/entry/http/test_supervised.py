"""Every loop that a real gateway starts breaks at its first step: each is shown in health by its name and
goes on after a pause, and the gateway works as if nothing had been."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from hermes.control import workers
from hermes.control.workers import Supervisor
from hermes.testing.api import ApiWorld

PATIENCE = 60.0
LOOPS = (
    "intake",
    "expiry",
    "cron",
    "handoffs",
    "hook events",
    "session logs",
    "session expiry",
    "retention",
    "database backup",
    "event streams",
)


class Planted:
    """Breaks each loop once, as it begins to live; `lives` counts how often each has begun."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.lives: dict[str, int] = {}
        keep = Supervisor.keep

        def planted(
            loops: Supervisor, name: str, live: Callable[[], Awaitable[object]], task: str | None = None
        ) -> asyncio.Task[None]:
            async def break_once() -> None:
                self.lives[name] = self.lives.get(name, 0) + 1
                if self.lives[name] == 1:
                    raise RuntimeError(f"planted in {name}")
                await live()

            return keep(loops, name, break_once, task)

        monkeypatch.setattr(Supervisor, "keep", planted)
        monkeypatch.setattr(workers, "_FIRST_PAUSE", 0.01)

    async def until(self, done: Callable[[], bool]) -> None:
        async with asyncio.timeout(PATIENCE):
            while not done():  # noqa: ASYNC110
                await asyncio.sleep(0.01)


async def test_every_loop_goes_on_after_it_broke(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    planted = Planted(monkeypatch)
    home = tmp_path / "home"
    words: dict[str, Any] = {"model": "main", "messages": [{"role": "user", "content": "hi"}]}
    async with ApiWorld(home=home) as api:
        named = {"X-Hermes-Session-Id": "notes"}
        answered = await api.post("/v1/chat/completions", words, headers=named)
        assert answered.status == 200
        streamed = await api.post("/v1/chat/completions", words | {"stream": True}, headers=named)
        assert streamed.status == 200
        await planted.until(lambda: all(planted.lives.get(name, 0) >= 2 for name in LOOPS))
        shown = {loop["name"]: loop for loop in (await api.get("/health/detailed")).json["loops"]}
    for name in LOOPS:
        assert shown[name]["failures"] >= 1 and shown[name]["why"] == f"RuntimeError: planted in {name}", name
        assert shown[name]["ok"], f"{name} broke once, and goes on"
    assert planted.lives.keys() <= shown.keys(), "each loop is shown by its name"
    assert (home / "sessions" / "notes.jsonl").read_text().count("\n") == 4, (
        "the log was written all the same"
    )
