"""What a terminal does with a conversation that goes on elsewhere, and with one beside it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, cast

import msgspec
import pytest

from hermes.control.commands.registry import COMMANDS, CommandCall, CommandReply, CommandRequest, SlashCommand
from hermes.domain.chats.command_line import CallerReply
from hermes.domain.errors import UserError
from hermes.domain.ids import MAIN_AGENT, SessionId
from hermes.domain.tools.tool import Effect
from hermes.domain.turns.session import Session
from hermes.domain.word import replace
from hermes.entry.terminal.door import ResumedSession, SessionChoice, TerminalState, Visit
from hermes.entry.terminal.remote import GatewayConnection, enter_remote
from hermes.entry.terminal.served_door import (
    ServedDoor,
    find_session_to_resume,
    local_caller,
    terminal_caller,
)
from hermes.entry.terminal.talk import OK, ChatEnded, ChatPlan, TerminalConversation
from hermes.testing.api import ApiWorld
from hermes.testing.harness import Journey
from hermes.testing.platform_suite import until
from hermes.testing.tools import effect_tool


class Screen:
    """The view port, as far as a conversation needs it here."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def line(self, text: str, *, aside: bool = False) -> None:
        self.lines.append(text)

    def answer(self, text: str, whole: str = "") -> None:
        self.lines.append(text)

    def adopt(self, manner: object) -> None:
        return

    def refresh(self) -> None:
        return


class HandedOver:
    """A door whose every command hands the conversation over."""

    async def command(self, text: str) -> CallerReply:
        left, before = SessionId("fresh"), SessionId("moved")
        return CallerReply(text="It goes on in fake:9.", session=left, before=before, over=True)


async def test_it_leaves_with_a_conversation_that_was_handed_over() -> None:
    async def nothing(*_: object) -> Any:
        return ResumedSession()

    visit = Visit(door=cast(Any, HandedOver()), back=nothing, look_back=nothing)
    screen = Screen()
    talk = TerminalConversation(visit, cast(Any, screen), ChatPlan())
    with pytest.raises(ChatEnded) as leaving:
        await talk.obey("/handoff fake", None)
    assert leaving.value.code == OK and screen.lines == ["It goes on in fake:9."]
    assert list(talk.last_notes()) == [], "the new, empty session is no place to come back to"


async def test_what_begins_in_a_folder_stays_in_it(tmp_path: Path) -> None:
    async with Journey(folder=tmp_path) as chat:
        caller = local_caller(folder="/srv/project")
        door = ServedDoor(chat.gateway, caller, TerminalState(folder="/srv/project"))
        await door.say("hello", "k")
        for line in ("/bg look", "/new", "/branch"):
            await door.command(line)
        await chat.until_idle()
        sessions = await chat.database.read(lambda tx: tx.sessions.find("", 9))
        assert len(sessions) >= 3 and {session.workspace for session in sessions} == {"/srv/project"}


async def test_a_tag_stays_and_new_words_bring_back_what_was_archived(tmp_path: Path) -> None:
    async with Journey(folder=tmp_path) as chat:

        async def said(words: str) -> Session:
            turn = await door.say(words, words)
            await chat.until_idle()
            found = await chat.database.read(lambda tx: tx.sessions.get(turn.session))
            assert found is not None
            return found

        state = TerminalState(tag="nightly")
        door = ServedDoor(chat.gateway, terminal_caller(state), state)
        begun = await said("hello")
        assert begun.tag == "nightly"
        await chat.database.write(lambda tx: tx.sessions.save(replace(begun, archived=True)))
        again = await said("again")
        assert (again.id, again.tag, again.archived) == (begun.id, "nightly", False)
    with pytest.raises(UserError, match="no tag"):
        terminal_caller(TerminalState(tag="two words"))


async def test_a_command_that_takes_long_says_how_it_stands(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before its reply, in the terminal that gave it, over the socket."""
    screen, other = Screen(), Screen()

    async def look(request: CommandRequest) -> None:
        for text in ("Looking …", "Still looking …"):
            await request.progress(text)
        await until(lambda: len(screen.lines) == 2, "nothing is shown")

    def run(call: CommandCall) -> CommandReply:
        return CommandReply(text="Found.")

    slash = SlashCommand(name="look", run=run, summary="Look.", prepare=look)
    monkeypatch.setitem(COMMANDS, "look", slash)
    home = tmp_path / "home"
    async with ApiWorld(home=home), GatewayConnection(lambda: home / "gateway.sock") as line:
        for shown, words in ((other, "/status"), (screen, "/look")):
            visit = await enter_remote(line, SessionChoice())
            await TerminalConversation(visit, cast(Any, shown), ChatPlan()).obey(words, None)
    assert screen.lines == ["Looking …", "Still looking …", "Found."]
    assert len(other.lines) == 1


async def test_who_comes_in_is_told_what_the_agent_has(tmp_path: Path) -> None:
    async def act(tool: str, key: str, token: str) -> None:
        return

    async with Journey(folder=tmp_path) as chat:
        toolbox = (await chat.gateway.agents.get(MAIN_AGENT)).toolbox
        before = dict((await find_session_to_resume(chat.gateway, local_caller(), SessionChoice())).has)
        served = msgspec.structs.replace(effect_tool("now", Effect.READ, act), toolset="mcp-time")
        toolbox.offer("mcp-time", [served])
        toolbox.withdraw("mcp-maps", "it does not answer")
        after = dict((await find_session_to_resume(chat.gateway, local_caller(), SessionChoice())).has)
        assert after == {**before, "MCP": "1: time", "Broken": "maps"}
        assert re.fullmatch(r"\d+: [a-z_, ]+", before["Tools"])
