"""Slash commands: each one used as a person would."""

from __future__ import annotations

from pathlib import Path

import pytest

from hermes.control.commands.registry import COMMANDS, resolve
from hermes.domain.chats.command_line import read_command
from hermes.domain.errors import UserError
from hermes.domain.settings.platforms import PlatformSettings
from hermes.domain.turns.event import UserSaid
from hermes.plugins import load_commands
from hermes.testing.harness import Journey, open_settings
from hermes.testing.model import echo


async def test_help_lists_every_command(tmp_path: Path) -> None:
    async with Journey(folder=tmp_path) as chat:
        chat.world.write("/help")
        seen = "\n".join(await chat.until_seen("/whoami"))
        assert all(
            f"/{known.name}" in seen for known in COMMANDS.values() if not (known.admin or known.terminal)
        )
        assert "/pair" not in seen


async def test_undo_hides_the_last_turn_from_the_model(tmp_path: Path) -> None:
    async with Journey(folder=tmp_path) as chat:
        for word in ("one", "two"):
            chat.world.write(word)
            await chat.until_seen(f"You said: {word}")
        await chat.until_idle()
        chat.world.write("/undo")
        await chat.until_seen("Undone: the last turn.")
        chat.world.write("three")
        await chat.until_seen("You said: three")
        said = [
            entry.record.text
            for entry in chat.model.requests[-1].entries
            if isinstance(entry.record, UserSaid)
        ]
        assert said == ["one", "three"]


async def test_retry_says_the_last_message_again(tmp_path: Path) -> None:
    async with Journey(folder=tmp_path) as chat:
        chat.world.write("again please")
        await chat.until_seen("You said: again please")
        await chat.until_idle()
        chat.world.write("/retry")
        await chat.until(lambda: chat.world.seen().count("You said: again please") == 2)
        said = [
            entry.record.text
            for entry in chat.model.requests[-1].entries
            if isinstance(entry.record, UserSaid)
        ]
        assert said == ["again please"]


async def test_title_sessions_and_resume(tmp_path: Path) -> None:
    async with Journey(folder=tmp_path) as chat:
        chat.world.write("alpha")
        await chat.until_seen("You said: alpha")
        await chat.until_idle()
        chat.world.write("/title My Plan")
        await chat.until_seen("“My Plan”")
        chat.world.write("/new")
        await chat.until_seen("New session")
        chat.world.write("beta")
        await chat.until_seen("You said: beta")
        await chat.until_idle()
        chat.world.write("/sessions")
        await chat.until_seen("“My Plan” (", ": beta ← here")
        chat.world.write("/resume my plan")
        await chat.until_seen("Back in “My Plan”")
        chat.world.write("gamma")
        await chat.until_seen("You said: gamma")
        said = [
            entry.record.text
            for entry in chat.model.requests[-1].entries
            if isinstance(entry.record, UserSaid)
        ]
        assert said == ["alpha", "gamma"]


async def test_a_refused_command_changes_nothing(tmp_path: Path) -> None:
    async with Journey(folder=tmp_path) as chat:
        chat.world.write("/new Plan")
        await chat.until_seen("New session “Plan”")
        chat.world.write("/new Plan")
        await chat.until_seen("Another session is called “Plan”.")
        chat.world.write("alpha")
        await chat.until_seen("You said: alpha")
        sessions = await chat.database.read(lambda tx: tx.sessions.find(""))
        assert [session.title for session in sessions].count("Plan") == 1
        assert len(sessions) == 2


async def test_a_stranger_cannot_resume_somebody_elses_session(tmp_path: Path) -> None:
    async with Journey(folder=tmp_path) as chat:
        chat.world.write("secret", chat="1", user="ann")
        await chat.until_seen("You said: secret")
        await chat.until_idle()
        chat.world.write("/title Diary", chat="1", user="ann")
        await chat.until_seen("Diary")
        chat.world.write("/resume Diary", chat="2", user="bob")
        await chat.until_seen("There is no session “Diary” of yours.")
        chat.world.write("/sessions", chat="2", user="bob")
        await chat.until(lambda: len(chat.world.seen("2")) == 2)
        assert "Diary" not in chat.world.seen("2")[1]


async def test_status_whoami_and_trace(tmp_path: Path) -> None:
    async with Journey(folder=tmp_path) as chat:
        first = chat.world.write("hello")
        await chat.until_seen("You said: hello")
        await chat.until_idle()
        chat.world.write("/status")
        await chat.until_seen("Idle.")
        chat.world.write("/whoami")
        await chat.until_seen("agent:main:fake:private:1", "fake allows everybody")
        chat.world.write(f"/trace {first.delivery}")
        await chat.until_seen("inbox", "turn", "record", "outbox", ": sent")


async def test_a_wrong_command_names_the_nearest(tmp_path: Path) -> None:
    async with Journey(folder=tmp_path) as chat:
        chat.world.write("/stauts")
        await chat.until_seen("There is no command /stauts. Did you mean /status?")
        chat.world.write("/undo many")
        await chat.until_seen("“many” is not a number of turns.")
        chat.world.write("/queue")
        await chat.until_seen("/queue needs a text.")


async def test_denied_people_get_no_answer_and_leave_a_reason(tmp_path: Path) -> None:
    settings = open_settings(platforms={"fake": PlatformSettings(allowed_users=("u2",))})
    async with Journey(folder=tmp_path, settings=settings) as chat:
        update = chat.world.write("let me in")
        await chat.until_idle()
        rows = await chat.database.read(lambda tx: tx.inbox.find(update.delivery))
        assert rows[0].outcome == "denied: on no list; there is a list of who may write"
        assert chat.world.seen() == []


async def test_a_message_over_the_limit_is_refused_in_one_sentence(tmp_path: Path) -> None:
    async with Journey(folder=tmp_path, script=echo) as chat:
        chat.world.write("x" * 10_000_000)
        await chat.until_seen("10,000,000 characters; 1,000,000 are the most")
        chat.world.write("a\0b\ud800c")
        await chat.until_seen("You said: a\ufffdb\ufffdc")


def test_reading_a_line_as_a_command() -> None:
    assert read_command("/New  A Title ") == ("new", "A Title")
    assert read_command("/new@my_bot x") == ("new", "x")
    assert read_command("/set_home") == ("set-home", "")
    assert read_command("!new", "!") == ("new", "")
    assert read_command("/etc/passwd") is None
    assert read_command("hello /new") is None
    assert read_command("/undo \u20143") == ("undo", "--3")
    assert read_command("/") is None


def test_a_start_that_only_one_command_has_is_enough() -> None:
    load_commands()
    assert resolve("who").name == "whoami"
    assert resolve("q").name == "queue"
    with pytest.raises(UserError, match="could be"):
        resolve("st")
