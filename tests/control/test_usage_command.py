"""`/usage` tells who answered in another's place, and why a prompt was not cached."""

from __future__ import annotations

from pathlib import Path

import pytest

from hermes.control.commands.usage import _MISSES
from hermes.domain.ids import TurnId
from hermes.domain.models.usage import CacheMiss
from hermes.domain.ports.store import Tx
from hermes.domain.turns.event import Entry, ModelSaid
from hermes.testing.harness import Journey


def test_every_cause_has_words() -> None:
    assert set(_MISSES) == set(CacheMiss)


@pytest.mark.parametrize("days", ["", "7"])
async def test_the_last_reply_and_the_last_days(tmp_path: Path, days: str) -> None:
    async with Journey(folder=tmp_path) as chat:
        chat.world.write("hello")
        await chat.until_seen("You said: hello")
        await chat.until_idle()
        at = chat.clock.now()

        def add(tx: Tx) -> None:
            (session,) = tx.sessions.find("")
            said = ModelSaid(text="x", model="spare", via="openrouter#2", cache_miss=CacheMiss.EXPIRED)
            last = tx.journal.read(session.id)[-1]
            tx.journal.append(session.id, [Entry(seq=last.seq + 1, turn=TurnId("t"), at=at, record=said)])

        await chat.database.write(add)
        chat.world.write("/usage")
        await chat.until_seen("The last answer came from spare by openrouter.")
        await chat.until_seen("not found in the cache: the one before was too long ago.")
        chat.world.write(f"/insights {days}")
        await chat.until_seen("- scripted: 1 model call, ")
        chat.world.write("/insights soon")
        await chat.until_seen("Write how many days to look at.")


def test_another_key_is_not_another_provider() -> None:
    assert ModelSaid(via="#ONE_KEY").other_provider == ""
    assert ModelSaid(via="openrouter#2").other_provider == "openrouter"
