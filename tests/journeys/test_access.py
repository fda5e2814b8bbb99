"""Who is answered where: groups, threads, mentions, tiers, and sessions of their own."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path

import pytest

from hermes.domain.settings.platforms import PlatformSettings
from hermes.domain.settings.settings import Settings
from hermes.testing.harness import Journey, open_settings
from hermes.testing.world import Update
from tests.journeys.test_pairing import code_in, owner_approves


def told(**said: object) -> Settings:
    return open_settings(platforms={"fake": PlatformSettings(allow_all_users=True, **said)})  # type: ignore[arg-type]


async def outcome(chat: Journey, update: Update) -> str | None:
    await chat.until_taken()
    [row] = await chat.database.read(lambda tx: tx.inbox.find(update.delivery))
    return row.outcome


async def test_people_of_a_group_have_sessions_of_their_own_and_a_thread_is_shared(tmp_path: Path) -> None:
    async with Journey(folder=tmp_path) as chat:
        for user in ("ann", "bob"):
            chat.world.write(f"{user} in the group", chat="g", user=user, kind="group")
            chat.world.write(f"{user} in the thread", chat="t", user=user, kind="thread", thread="7")
            await chat.until_seen(f"You said: {user} in the group", f"You said: {user} in the thread")
        await chat.until_idle()
        sessions = await chat.database.read(lambda tx: tx.sessions.find(""))
        assert len(sessions) == 3
    apart = tmp_path / "apart"
    await asyncio.to_thread(apart.mkdir)
    async with Journey(folder=apart, settings=open_settings(thread_sessions_per_user=True)) as chat:
        for user in ("ann", "bob"):
            chat.world.write(f"{user} in the thread", chat="t", user=user, kind="thread", thread="7")
            await chat.until_seen(f"You said: {user} in the thread")
        assert len(await chat.database.read(lambda tx: tx.sessions.find(""))) == 2


async def test_in_a_group_it_answers_who_speaks_to_it(tmp_path: Path) -> None:
    settings = told(require_mention=True, free_response_channels=("lobby",))
    async with Journey(folder=tmp_path, settings=settings) as chat:
        among = chat.world.write("just talking", chat="g", kind="group")
        assert await outcome(chat, among) == "not for us: nobody spoke to us"
        assert await chat.database.read(lambda tx: tx.sessions.find("")) == []
        chat.world.write("hey you", chat="g", kind="group", mentions_us=True)
        await chat.until_seen("You said: hey you")
        chat.world.write("and you", chat="g", kind="group", reply_to_us=True)
        await chat.until_seen("You said: and you")
        chat.world.write("/status", chat="g", kind="group")
        await chat.until_seen("Idle.", chat="g")
        chat.world.write("free", chat="lobby", kind="group")
        await chat.until_seen("You said: free", chat="lobby")
        other = chat.world.write("/new@another_bot", chat="g", kind="group")
        assert await outcome(chat, other) == "not for us: it is for another bot"


async def test_the_log_names_once_who_is_not_let_in(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    settings = open_settings(platforms={"fake": PlatformSettings(allowed_users=("ann",))})
    async with Journey(folder=tmp_path, settings=settings) as chat:
        for words in ("a secret of mine", "hello?"):
            chat.world.write(words, chat="b", user="bob")
        chat.world.write("hello", chat="a", user="ann")
        await chat.until_seen("You said: hello", chat="a")
        await chat.until_taken()
    [told] = [record.getMessage() for record in caplog.records if record.name == "hermes.access"]
    assert told.startswith("access.denied account=fake user=bob chat=fake:b why=denied: ")
    assert "secret" not in caplog.text


async def test_a_thread_it_takes_part_in_needs_no_mention(tmp_path: Path) -> None:
    settings = told(require_mention=True)
    async with Journey(folder=tmp_path, settings=settings) as chat:
        first = chat.world.write("early", chat="t", kind="thread", thread="7")
        assert await outcome(chat, first) == "not for us: nobody spoke to us"
        chat.world.write("you there", chat="t", kind="thread", thread="7", mentions_us=True)
        await chat.until_seen("You said: you there")
        chat.world.write("go on", chat="t", kind="thread", thread="7", user="bob")
        await chat.until_seen("You said: go on")


async def test_what_it_was_not_told_does_not_disturb_a_running_turn(tmp_path: Path) -> None:
    settings = told(require_mention=True)
    async with Journey(folder=tmp_path, settings=settings, kind="plain") as chat:
        asked = chat.world.write("use danger", chat="g", kind="group", mentions_us=True)
        aside = chat.world.write("never mind me", chat="g", kind="group")
        assert await outcome(chat, aside) == "not for us: nobody spoke to us"
        assert await outcome(chat, asked) == "turn"
        await chat.until_seen("You said: use danger")


async def test_a_user_may_use_what_is_listed_idle_or_running(tmp_path: Path) -> None:
    settings = told(allow_admin_from=("boss",), user_allowed_commands=("status", "/stop"))
    async with Journey(folder=tmp_path, settings=settings) as chat:
        chat.world.write("/new")
        refusal = "You may not use /new here. You may use /help, /status, /stop, /whoami."
        await chat.until_seen(refusal)
        assert len(await chat.database.read(lambda tx: tx.sessions.find(""))) == 1
        chat.world.write("/res")
        await chat.until(
            lambda: any("You may not use /resume" in text or "could be" in text for text in chat.world.seen())
        )
        chat.world.write("/stop")
        await chat.until_seen("Nothing is running.")
        chat.world.write("/help")
        await chat.until_seen("- /status: what is running here")
        listing = next(text for text in chat.world.seen() if "- /status" in text)
        assert "/undo" not in listing
        chat.world.write("/new", user="boss", chat="2")
        await chat.until_seen("New session", chat="2")
        chat.world.write("/whoami")
        await chat.until_seen(
            "You: u1 (u1)",
            "Access: allowed: fake allows everybody",
            "Tier: user, because fake.allow_admin_from does not name you",
            "Commands: /help, /status, /stop, /whoami",
        )


async def test_whoami_tells_a_paired_person_why(tmp_path: Path) -> None:
    async with Journey(folder=tmp_path, settings=open_settings(platforms={})) as chat:
        chat.world.write("hello?")
        await owner_approves(chat, code_in(await chat.until_seen("pairing code")))
        await chat.until_seen("Paired!")
        chat.world.write("/whoami")
        await chat.until_seen("Access: allowed: paired", "fake.allow_admin_from names no admins")
