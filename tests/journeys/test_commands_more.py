"""Further slash commands, each used as a person would: background work, branches, choices of a session."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from hermes.control.commands.registry import (
    COMMANDS,
    CommandCall,
    CommandReply,
    command,
    resolve,
    spell_commands,
)
from hermes.domain.chats.command_line import read_command
from hermes.domain.errors import UserError
from hermes.domain.ports.agent import ModelRequest
from hermes.domain.settings.settings import ApprovalSettings, DisplaySettings, SessionSettings
from hermes.domain.turns.event import Record, UserSaid
from hermes.domain.turns.turn import BusyMode
from hermes.domain.word import replace
from hermes.plugins import load_commands
from hermes.state.store.codec import decode_record
from hermes.testing.harness import Journey, open_settings
from hermes.testing.model import Say, call, echo, last_words, say
from hermes.testing.platform import KINDS, PLAIN
from hermes.testing.world import Deed
from tests.journeys.cut import cut_everywhere


def said(chat: Journey) -> list[str]:
    """What the model was told last, in people's words."""
    entries = chat.model.requests[-1].entries
    return [entry.record.text for entry in entries if isinstance(entry.record, UserSaid)]


def by_words(request: ModelRequest) -> Say:
    words = last_words(request)
    results = [entry for entry in request.entries if type(entry.record).__name__ == "ToolFinished"]
    if words.startswith("danger") and not results:
        return call("danger", '{"token": "x"}')
    return say(f"answer to {words}")


# --- resolution ---


@pytest.fixture
def gated() -> Iterator[None]:
    @command("zebra", "show stripes", gate="sessions.write_json", aliases=("stripes",))
    def zebra(call: CommandCall) -> CommandReply:
        return CommandReply(text="stripes")

    yield
    del COMMANDS["zebra"]


@pytest.mark.usefixtures("gated")
def test_a_gated_command_is_there_only_with_its_setting() -> None:
    load_commands()
    on, off = (open_settings(sessions=SessionSettings(write_json=value)) for value in (True, False))
    assert resolve("zebra", on).name == resolve("STRI", on).name == "zebra"
    with pytest.raises(UserError, match="There is no command /zebra"):
        resolve("zebra", off)


@pytest.mark.parametrize(
    ("typed", "name"),
    [
        ("BG", "background"),
        ("bt", "background"),
        ("For", "branch"),
        ("s", None),
        ("seth", "sethome"),
        ("tas", "agents"),
    ],
)
def test_starts_aliases_and_capitals(typed: str, name: str | None) -> None:
    load_commands()
    if name is None:
        with pytest.raises(UserError):
            resolve(typed)
    else:
        assert resolve(typed).name == name


@pytest.mark.parametrize(
    "text", ["/\u0430pprove", "/\u017ftop", "\u202e/stop", "/st\u200bop", "\uff0fstop", " /stop"]
)
def test_look_alikes_are_no_commands(text: str) -> None:
    assert read_command(text) is None


@pytest.mark.parametrize("line", ["/retry", "/undo", "/branch", "/resume x", "/model default"])
async def test_what_may_not_run_mid_turn_is_refused_in_one_sentence(tmp_path: Path, line: str) -> None:
    async with Journey(folder=tmp_path, script=by_words) as chat:
        chat.world.write("danger")
        await chat.until_seen("May I do x?")
        chat.world.write(line)
        await chat.until_seen("does not work while a turn runs. Wait, or /stop first.")
        chat.world.write("yes")
        await chat.until_seen("answer to danger")


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("/background look", "Working on it as bg_"),
        ("/queue more", "Queued behind 1."),
        ("/steer left", "It will hear this after its next step."),
        ("/status", "waiting for an answer"),
        ("/stop", "Stopped."),
        ("/new Fresh", "New session “Fresh”."),
        ("/approve", "answer to danger"),
        ("/deny no", "answer to danger"),
    ],
)
async def test_what_always_works_while_a_turn_waits(tmp_path: Path, line: str, told: str) -> None:
    async with Journey(folder=tmp_path, script=by_words) as chat:
        chat.world.write("danger")
        await chat.until_seen("May I do x?")
        chat.world.write(line)
        await chat.until_seen(told)


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("/background look", "Working on it as bg_"),
        ("/queue more", "Queued behind 1."),
        ("/steer left", "It will hear this after its next step."),
        ("/status", "running"),
        ("/stop", "Stopped."),
        ("/new Fresh", "New session “Fresh”."),
        ("/approve", "Nothing"),
        ("/deny", "Nothing"),
    ],
)
async def test_what_always_works_while_a_turn_runs(tmp_path: Path, line: str, told: str) -> None:
    held = asyncio.Event()

    def script(request: ModelRequest) -> Say:
        slow = Say(text="a long answer", pieces=4, hold=held)
        return slow if last_words(request) == "slow" else echo(request)

    async with Journey(folder=tmp_path, script=script, kind="plain") as chat:
        chat.world.write("slow")
        await chat.until(lambda: bool(chat.model.requests))
        chat.world.write(line)
        await chat.until_seen(told)
        held.set()


# --- the commands ---


async def test_start_says_nothing_and_version_profile_usage_tell(tmp_path: Path) -> None:
    async with Journey(folder=tmp_path, script=by_words) as chat:
        chat.world.write("/start")
        chat.world.write("/version")
        await chat.until_seen("Hermes")
        assert len(chat.world.seen()) == 1
        chat.world.write("/profile")
        await chat.until_seen("Agent main")
        assert not any(str(tmp_path) in text for text in chat.world.seen())
        chat.world.write("/usage")
        await chat.until_seen("The model was not asked yet.")
        chat.world.write("hello")
        await chat.until_seen("answer to hello")
        await chat.until_idle()
        chat.world.write("/usage")
        await chat.until_seen("This session: 1 model call, ")


async def test_commands_come_in_pages(tmp_path: Path) -> None:
    async with Journey(folder=tmp_path) as chat:
        chat.world.write("/commands")
        await chat.until_seen("Page 1 of 2. /commands 2 shows more.")
        chat.world.write("/commands 2")
        await chat.until_seen("Page 2 of 2.")
        seen = "\n".join(chat.world.seen())
        assert all(f"/{name}" in seen for name, one in COMMANDS.items() if not (one.admin or one.terminal))
        chat.world.write("/commands 99")
        await chat.until_seen("“99” is not a page. There are 2.")


async def test_branch_goes_on_in_a_copy_and_resume_goes_back(tmp_path: Path) -> None:
    async with Journey(folder=tmp_path, script=by_words) as chat:
        chat.world.write("/branch")
        await chat.until_seen("There is nothing to branch from yet.")
        chat.world.write("one")
        await chat.until_seen("answer to one")
        await chat.until_idle()
        chat.world.write("/branch Other way")
        seen = await chat.until_seen("You are in “Other way”")
        back = seen[-1].split("/resume ")[1].split()[0]
        chat.world.write("two")
        await chat.until_seen("answer to two")
        await chat.until_idle()
        assert said(chat) == ["one", "two"]
        chat.world.write(f"/resume {back}")
        await chat.until_seen("1 message long")
        chat.world.write("three")
        await chat.until_seen("answer to three")
        assert said(chat) == ["one", "three"]


async def test_background_work_answers_in_the_chat_and_beside_it(tmp_path: Path) -> None:
    async with Journey(folder=tmp_path, script=by_words) as chat:
        chat.world.write("danger first")
        await chat.until_seen("May I do x?")
        chat.world.write("/bg look it up")
        await chat.until_seen("Working on it as bg_", "answer to look it up")
        assert said(chat) == ["look it up"]
        chat.world.write("/tasks")
        await chat.until_seen("waiting for an answer")
        chat.world.write("/sessions")
        seen = await chat.until_seen("← here")
        assert "bg_" not in seen[-1]
        chat.world.write("/background")
        await chat.until_seen("/background needs a text.")


async def test_what_background_work_asks_is_answered_in_the_chat(tmp_path: Path) -> None:
    async with Journey(folder=tmp_path, script=by_words, kind="plain") as chat:
        chat.world.write("/bg danger there")
        await chat.until_seen("May I do x?")
        chat.world.write("/approve", user="eve")
        await chat.until_seen("Nothing waits for a decision.")
        assert not chat.world.did(Deed.EFFECT)
        chat.world.write("yes")
        await chat.until_seen("answer to danger there")
        assert len(chat.world.did(Deed.EFFECT)) == 1


async def test_a_background_task_is_stopped_by_its_name(tmp_path: Path) -> None:
    async with Journey(folder=tmp_path, script=by_words) as chat:
        chat.world.write("/bg danger there")
        seen = await chat.until_seen("May I do x?", "Working on it as bg_")
        task = next(text for text in seen if "bg_" in text).split(" as ")[1].split(". ")[0]
        chat.world.write("/stop nothing")
        await chat.until_seen("There is no background task “nothing” of yours.")
        chat.world.write(f"/stop {task}", chat="2", user="eve")
        await chat.until_seen(f"There is no background task “{task}” of yours.")
        chat.world.write(f"/stop {task}")
        await chat.until_seen(f"Stopped {task}.")
        await chat.until_idle()
        chat.world.write("/agents")
        await chat.until_seen("Nothing is running.")
        assert not chat.world.did(Deed.EFFECT)


async def test_only_admins_see_everybodys_sessions(tmp_path: Path) -> None:
    async with Journey(folder=tmp_path, script=by_words) as chat:
        chat.world.write("secret", chat="1", user="ann")
        await chat.until_seen("answer to secret")
        await chat.until_idle()
        for line in ("/resume --all", "/sessions all", "/resume Diary --all"):
            chat.world.write(line, chat="2", user="bob")
        await chat.until(lambda: len(chat.world.seen("2")) == 3)
        assert all("Only an admin sees everybody" in text for text in chat.world.seen("2"))


async def test_an_admin_resumes_anybodys_session(tmp_path: Path) -> None:
    chat = Journey(folder=tmp_path, script=by_words)
    chat.is_admin = lambda source: source.user == "root"
    async with chat:
        chat.world.write("secret", chat="1", user="ann")
        await chat.until_seen("answer to secret")
        await chat.until_idle()
        chat.world.write("/title Diary", chat="1", user="ann")
        await chat.until_seen("Diary")
        chat.world.write("/resume Diary --all", chat="2", user="root")
        await chat.until_seen("Back in “Diary”", chat="2")


async def test_sessions_are_found_by_what_was_said(tmp_path: Path) -> None:
    async with Journey(folder=tmp_path, script=by_words) as chat:
        chat.world.write("the aardvark sleeps")
        await chat.until_seen("answer to the aardvark")
        await chat.until_idle()
        chat.world.write("/sessions search aardvark")
        await chat.until_seen("← here")
        chat.world.write("/sessions search aardvark", chat="2", user="eve")
        await chat.until_seen("There are no such sessions.", chat="2")


async def test_the_model_is_chosen_for_one_session(tmp_path: Path) -> None:
    settings = open_settings()
    settings = replace(settings, model=replace(settings.model, default="big"))
    async with Journey(folder=tmp_path, script=by_words, settings=settings) as chat:
        chat.world.write("/model")
        await chat.until_seen("To choose from: big, default")
        chat.world.write("/model bigg")
        await chat.until_seen("There is no model “bigg” here. Did you mean big?")
        chat.world.write("/model BIG")
        await chat.until_seen("answers with big from now on")
        chat.world.write("hello")
        await chat.until_seen("answer to hello")
        assert chat.model.requests[-1].model == "big"
        chat.world.write("hello", chat="2", user="u2")
        await chat.until_seen("answer to hello", chat="2")
        assert chat.model.requests[-1].model == "scripted"
        await chat.until_idle()
        chat.world.write("/model default")
        await chat.until_seen("the default again")


async def test_the_busy_mode_is_chosen_for_one_session_and_lasts(tmp_path: Path) -> None:
    async with Journey(folder=tmp_path, script=by_words) as chat:
        chat.world.write("/busy dance")
        await chat.until_seen("“dance” is no way to be busy. Known: interrupt, queue, steer.")
        chat.world.write("/busy queue")
        await chat.until_seen("queue, from now on")
    async with Journey(folder=tmp_path, world=chat.world, script=by_words) as again:
        again.world.write("danger")
        await again.until_seen("May I do x?")
        again.world.write("second")
        await again.until_taken()
        again.world.write("/busy")
        await again.until_seen("A message that comes while a turn runs: queue.")
        again.world.write("/approve")
        await again.until_seen("answer to danger", "answer to second")


async def test_forty_messages_behind_a_turn_are_all_answered_after_a_restart(tmp_path: Path) -> None:
    settings = open_settings(display=DisplaySettings(busy_input_mode=BusyMode.QUEUE))
    chat = Journey(folder=tmp_path, script=by_words, settings=settings)
    async with chat:
        chat.world.write("danger")
        await chat.until_seen("May I do x?")
        for number in range(70):
            chat.world.write(f"follow-up {number}.")
        await chat.until_taken()
        await chat.abandon()
    async with Journey(folder=tmp_path, world=chat.world, script=by_words, settings=settings) as again:
        again.world.write("/approve")
        await again.until_seen("answer to danger", *(f"answer to follow-up {n}." for n in range(70)))
        answers = [text for text in again.world.seen() if text.startswith("answer to follow-up")]
        assert answers == [f"answer to follow-up {n}." for n in range(70)]


async def test_stop_clears_however_many_wait(tmp_path: Path) -> None:
    settings = open_settings(display=DisplaySettings(busy_input_mode=BusyMode.QUEUE))
    async with Journey(folder=tmp_path, script=by_words, settings=settings) as chat:
        chat.world.write("danger")
        await chat.until_seen("May I do x?")
        for number in range(70):
            chat.world.write(f"follow-up {number}.")
        chat.world.write("/stop")
        await chat.until_seen("Stopped and 70 waiting.")
        await chat.until_idle()
        assert not any("answer to" in text for text in chat.world.seen())


async def test_yolo_asks_nothing_in_this_session_and_lasts(tmp_path: Path) -> None:
    async with Journey(folder=tmp_path, script=by_words) as chat:
        chat.world.write("/yolo")
        await chat.until_seen("Nothing is asked in this session")
    async with Journey(folder=tmp_path, world=chat.world, script=by_words) as again:
        again.world.write("danger")
        await again.until_seen("answer to danger")
        again.world.write("danger", chat="2", user="u2")
        await again.until_seen("May I do x?", chat="2")
        assert len(again.world.did(Deed.EFFECT)) == 1


async def test_a_command_is_there_only_if_its_setting_says_so(tmp_path: Path) -> None:
    async with Journey(folder=tmp_path, script=by_words) as chat:
        chat.world.write("/yolo")
        await chat.until_seen("Nothing is asked in this session")
    settings = open_settings(approvals=ApprovalSettings(yolo_command=False))
    async with Journey(folder=tmp_path, world=chat.world, script=by_words, settings=settings) as again:
        again.world.write("/yolo")
        await again.until_seen("There is no command /yolo")
        again.world.write("danger")
        await again.until_seen("May I do x?")
        again.world.write("/help", chat="3", user="u3")
        await again.until_seen("/undo", chat="3")
        assert not any("/yolo" in text for text in again.world.seen("3"))
        assert not again.world.did(Deed.EFFECT)


async def test_only_an_admin_switches_approvals_off_for_several_people(tmp_path: Path) -> None:
    async with Journey(folder=tmp_path, script=by_words) as chat:
        chat.world.write("/yolo", kind="channel")
        await chat.until_seen("only an admin may switch approvals off")


async def test_model_also_takes_what_the_service_offers(tmp_path: Path) -> None:
    offered = [f"offered-{number:02}" for number in range(40)]
    async with Journey(folder=tmp_path, kind="plain", offered=offered) as chat:
        chat.world.write("/model")
        await chat.until_seen("offered-29, default and 10 more that the provider offers")
        chat.world.write("/model OFFERED-35")
        await chat.until_seen("This session answers with offered-35 from now on.")
        chat.world.write("/model ofered-07")
        await chat.until_seen("Did you mean offered-07?")


async def test_commands_are_named_as_they_are_given_in_that_chat(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(KINDS, "plain", replace(PLAIN, command_prefix="!"))
    script = [call("danger", '{"token": "x"}'), say("it is done")]
    async with Journey(folder=tmp_path, kind="plain", script=script) as chat:
        for line, words in {
            "!help new": "!new [title]: begin a new session in this chat (also !reset)",
            "!stahtus": "There is no command /stahtus. Did you mean !status?",
            "do it": "Reply yes, session, always or no (or !approve, !deny).",
            "!deny": "it is done",
        }.items():
            chat.world.write(line)
            await chat.until_seen(words)


@pytest.mark.parametrize(
    ("said", "told"),
    [
        ("Write /sethome in a chat.", "Write !sethome in a chat."),
        ("Wait, or /stop first.", "Wait, or !stop first."),
        ("/etc/new, a/new, ~/new, /new/x, /new.txt and /newer", None),
    ],
)
def test_paths_are_no_commands(said: str, told: str | None) -> None:
    assert spell_commands(said, "!") == (told or said)
    assert spell_commands(said, "/") == said


# --- what commands read ---


async def test_commands_decode_no_whole_transcripts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """They run in the writer, which everybody waits for."""
    decoded = 0

    def count(kind: str, data: bytes | str) -> Record:
        nonlocal decoded
        decoded += threading.current_thread().name == "store-writer"
        return decode_record(kind, data)

    settings = open_settings(approvals=ApprovalSettings(destructive_slash_confirm=True))
    async with Journey(folder=tmp_path, kind="plain", settings=settings) as chat:
        for number in range(12):
            chat.world.write(f"word {number}")
            await chat.until_seen(f"You said: word {number}")
        await chat.until_idle()
        session = (await chat.database.read(lambda tx: tx.sessions.find("")))[0].id
        monkeypatch.setattr("hermes.state.store.tables.journal.decode_record", count)
        monkeypatch.setattr("hermes.control.commands.session._COUNTED", 9)
        for line, reply, most in (
            ("/usage", "This session: 12 model calls, 210 tokens read, 48 written, cost unknown.", 0),
            ("/trace", "finished", 4),
            ("/new", "Shall I begin a new session?", 3),
            ("/branch copy", "a copy", 2),
            (f"/resume {session}", "more than 2 messages long", 9),
        ):
            await chat.until_idle()
            decoded = 0
            chat.world.write(line)
            await chat.until_seen(reply)
            assert decoded <= most, line
            if line == "/new":
                chat.world.write("no")
                await chat.until_seen("Nothing was changed")
                await chat.until_idle()


@pytest.mark.parametrize("after", [True, False], ids=["after", "before"])
async def test_a_chosen_model_is_cut_at_each_write(tmp_path: Path, full: bool, after: bool) -> None:
    asked: dict[str, str] = {}

    def answer(request: ModelRequest) -> Say:
        asked["hello"] = request.model
        return say("answered")

    def make(folder: Path) -> Journey:
        asked.clear()
        chat = Journey(folder=folder, script=answer, offered=("openai:some-model",))
        chat.world.write("/model some-model")
        chat.world.write("hello")
        return chat

    async def story(chat: Journey) -> None:
        await chat.until_seen("This session answers with openai:some-model from now on.", "answered")
        await chat.until_idle()
        assert asked["hello"] == "openai:some-model"

    await cut_everywhere(tmp_path, make, story, after=after, full=full)
