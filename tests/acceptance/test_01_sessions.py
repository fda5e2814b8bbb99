"""Two people of one group have sessions of their own, a thread is shared, and an option separates it too."""

from __future__ import annotations

from pathlib import Path

import pytest

from hermes.domain.settings.settings import Settings
from hermes.domain.turns.event import UserSaid
from hermes.testing.harness import Journey, open_settings
from tests.acceptance.telling import KINDS, seen_once, write
from tests.journeys.cut import cut_everywhere

SHARED, APART = open_settings(), open_settings(thread_sessions_per_user=True)


async def told(chat: Journey) -> list[list[str]]:
    """What was said in each session."""
    found = await chat.database.read(lambda tx: tx.sessions.find(""))
    journals = [await chat.database.read(lambda tx, one=one: tx.journal.read(one.id)) for one in found]  # type: ignore[misc]
    return sorted(
        [entry.record.text for entry in journal if isinstance(entry.record, UserSaid)] for journal in journals
    )


async def talk(chat: Journey) -> None:
    for user in ("ann", "bob"):
        write(chat.world, f"{user} in the group", chat="g", user=user, kind="group")
        await chat.until_seen(f"You said: {user} in the group", chat="g")
        write(chat.world, f"{user} in the thread", chat="t", user=user, kind="thread", thread="7")
        await chat.until_seen(f"You said: {user} in the thread", chat="t")
    await chat.until_idle()
    shared = [["ann in the thread", "bob in the thread"]]
    apart = [["ann in the thread"], ["bob in the thread"]]
    threads = apart if chat.settings.thread_sessions_per_user else shared
    assert await told(chat) == sorted([["ann in the group"], ["bob in the group"], *threads])
    seen_once(chat.world, "You said: ann in the group", "You said: bob in the group", chat="g")
    seen_once(chat.world, "You said: ann in the thread", "You said: bob in the thread", chat="t")


@pytest.mark.parametrize("settings", [SHARED, APART], ids=["shared", "apart"])
@pytest.mark.parametrize("kind", KINDS)
async def test_a_group_and_a_thread(tmp_path: Path, kind: str, settings: Settings) -> None:
    async with Journey(folder=tmp_path, kind=kind, settings=settings) as chat:
        await talk(chat)


@pytest.mark.parametrize("after", [True, False], ids=["after", "before"])
async def test_stopped_at_each_write(tmp_path: Path, full: bool, after: bool) -> None:
    await cut_everywhere(
        tmp_path, lambda folder: Journey(folder=folder, kind="plain"), talk, after=after, full=full
    )
