"""A dangerous deed: buttons, words and /approve allow it, silence denies it, and who clicks late hears what
became of it, over any crash."""

from __future__ import annotations

from pathlib import Path

import pytest

from hermes.domain.settings.settings import ApprovalSettings
from hermes.domain.word import replace
from hermes.testing.clock import FakeClock
from hermes.testing.harness import Journey, open_settings
from tests.acceptance.telling import KINDS, button, deeds, obeys, seen_once, write
from tests.journeys.cut import cut_everywhere


def journey(folder: Path, kind: str = "edits") -> Journey:
    settings = open_settings(approvals=ApprovalSettings(timeout=3600.0))
    return Journey(folder=folder, kind=kind, script=obeys, settings=settings, clock=FakeClock())


async def asked(chat: Journey, token: str) -> None:
    write(chat.world, f"do {token}")
    await chat.until_seen(f"May I do {token}?")


async def answered(chat: Journey, token: str) -> None:
    await chat.until_seen(f"answer to do {token}")
    await chat.until_idle()


async def talk(chat: Journey) -> None:
    """Allowed by a button, or by a word where there is none."""
    await asked(chat, "x")
    if chat.kind == "edits":
        if not any(update.button for update in chat.world.updates):
            chat.world.write("", button=button(chat.world, "May I do x?", "once"))
    else:
        write(chat.world, "yes")
    await answered(chat, "x")
    assert deeds(chat.world) in ([], ["x"]), "never twice; not at all only where a crash left it unknown"
    seen_once(chat.world, "For that I would do x.", "answer to do x")


@pytest.mark.parametrize("kind", KINDS)
async def test_allowed_in_every_way(tmp_path: Path, kind: str) -> None:
    async with journey(tmp_path, kind) as chat:
        await talk(chat)
        for token, decision in (("y", "/approve session"), ("z", "/approve always")):
            await asked(chat, token)
            chat.world.write(decision)
            await answered(chat, token)
        assert deeds(chat.world) == ["x", "y", "z"]
        for token in ("y", "z"):
            chat.world.write(f"do {token}")
            await chat.until(lambda t=token: deeds(chat.world).count(t) == 2)  # type: ignore[misc]
        chat.world.write("/new")
        await chat.until_seen("New session")
        chat.world.write("do z")
        await chat.until(lambda: deeds(chat.world).count("z") == 3)
        chat.world.write("do y")
        await chat.until(lambda: sum("May I do y?" in text for text in chat.world.seen()) == 2)
        assert len(await chat.database.read(lambda tx: tx.grants.list())) == 1, "always is kept, and once"


@pytest.mark.parametrize("after", [True, False], ids=["after", "before"])
async def test_stopped_at_each_write(tmp_path: Path, full: bool, after: bool) -> None:
    await cut_everywhere(tmp_path, journey, talk, after=after, full=full)


@pytest.mark.parametrize("kind", KINDS)
async def test_two_at_once_are_allowed_with_all(tmp_path: Path, kind: str) -> None:
    async with journey(tmp_path, kind) as chat:
        await asked(chat, "x")
        chat.world.write("/bg do y")
        await chat.until_seen("May I do y?")
        chat.world.write("/approve all session")
        await chat.until_seen("answer to do x", "answer to do y")
        assert deeds(chat.world) == ["x", "y"]


@pytest.mark.parametrize("kind", KINDS)
async def test_silence_denies_and_a_late_click_after_a_crash_is_told_so(tmp_path: Path, kind: str) -> None:
    chat = journey(tmp_path, kind)
    async with chat:
        await asked(chat, "x")
        late = button(chat.world, "May I do x?", "once") if kind == "edits" else ""
        await chat.abandon()
    clock = chat.clock
    assert isinstance(clock, FakeClock)
    clock.jump(3601)
    async with replace(chat) as chat:
        await chat.until_seen("answer to do x")
        if kind == "edits":
            await chat.until_seen("⌛ Nobody answered in time.")
            chat.world.write("", button=late)  # a screen that was not drawn anew
            await chat.until_seen("Too late: nobody answered in time, so it was denied.")
        else:
            chat.world.write("/approve")
            await chat.until_seen("Nothing")
        await chat.until_idle()
        assert deeds(chat.world) == []
