"""Conversations that nobody used for long are deleted where the settings want that; their usage stays."""

from __future__ import annotations

from datetime import date
from pathlib import Path

import pytest

from hermes.control.sessions.retention import pruning
from hermes.control.usage import count_usage
from hermes.domain.settings.live import LiveSettings
from hermes.domain.settings.settings import SessionSettings
from hermes.testing.clock import FakeClock
from hermes.testing.harness import Journey, open_settings

DAY = 86400.0


@pytest.mark.parametrize("wanted", [True, False])
async def test_old_conversations_go(tmp_path: Path, wanted: bool) -> None:
    clock = FakeClock()
    settings = open_settings(sessions=SessionSettings(auto_prune=wanted, retention_days=30))
    async with Journey(folder=tmp_path, clock=clock, settings=settings) as chat:
        chat.world.write("hello")
        await chat.until_seen("You said: hello")
        await chat.until_idle()
        clock.jump(31 * DAY)
        chat.world.write("still here", chat="2", user="u2")
        await chat.until_seen("You said: still here", chat="2")
        await chat.until_idle()
        chore = pruning(chat.store, LiveSettings(settings), clock, chat.gateway.delete_session)
        assert await chore.run() == ("1 sessions deleted" if wanted else "switched off (sessions.auto_prune)")
        left = await chat.database.read(lambda tx: tx.sessions.find(""))
        assert len(left) == (1 if wanted else 2)
        await count_usage(chat.database)
        first, last = date(2026, 1, 1), date(2026, 12, 31)
        (total,) = await chat.database.read(lambda tx: tx.usage.sums((), first, last))
        assert total.used.calls == 2
