"""Commands in two phases: what takes time is done before the transaction, and what was decided on is looked
at again inside it. For chats and for callers alike."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import apsw
import pytest

from hermes.control.commands import registry
from hermes.control.commands.menu import menu_entries
from hermes.control.commands.registry import (
    COMMANDS,
    SOURCES,
    CommandCall,
    CommandReply,
    CommandRequest,
    SlashCommand,
)
from hermes.control.commands.run import CHANGED, LATE, MOST_TIMES
from hermes.control.core import Runtime
from hermes.control.hooks.dispatch import Hooks
from hermes.control.turn.claim import next_session
from hermes.domain.chats.capabilities import MenuLimits
from hermes.domain.errors import Unreachable, UserError
from hermes.domain.ids import AgentId
from hermes.domain.settings.platforms import PlatformSettings
from hermes.domain.settings.settings import QuickCommand, Route, RouteMatch, Settings
from hermes.domain.system.hooks import Hook, HookAnswer
from hermes.domain.word import replace
from hermes.entry.terminal.door import SessionChoice, TerminalState
from hermes.entry.terminal.served_door import find_session_to_resume, local_caller
from hermes.testing.harness import Journey, open_settings
from hermes.testing.model import obedient
from hermes.testing.world import Deed
from tests.journeys.cut import cut_everywhere


@dataclass
class Fetching:
    """A command that fetches something before it runs: `/fetch`. It waits at the door while it is closed."""

    door: asyncio.Event = field(default_factory=asyncio.Event)
    begun: list[CommandRequest] = field(default_factory=list)
    done: list[CommandCall] = field(default_factory=list)
    meanwhile: Callable[[CommandRequest], Awaitable[None]] | None = None

    async def prepare(self, request: CommandRequest) -> str:
        self.begun.append(request)
        if self.meanwhile is not None:
            await self.meanwhile(request)
        await self.door.wait()
        return f"fetched {request.args}"

    def run(self, call: CommandCall) -> CommandReply:
        self.done.append(call)
        call.tx.sessions.save(replace(call.session, title=f"{call.prepared}, time {len(self.done)}"))
        return CommandReply(text=f"Here: {call.prepared}.")


@pytest.fixture
def fetching(monkeypatch: pytest.MonkeyPatch) -> Fetching:
    made = Fetching()
    made.door.set()
    install(monkeypatch, made)
    return made


def install(monkeypatch: pytest.MonkeyPatch, made: Fetching, **options: object) -> None:
    slash = SlashCommand(name="fetch", run=made.run, summary="x", prepare=made.prepare, **options)  # type: ignore[arg-type]
    monkeypatch.setitem(COMMANDS, "fetch", slash)


# --- what it prepared ---------------------------------------------------------------------------------


async def test_a_chat_gets_what_the_command_prepared(tmp_path: Path, fetching: Fetching) -> None:
    quick = {"get": QuickCommand(type="alias", target="/fetch it")}
    async with Journey(folder=tmp_path, settings=open_settings(quick_commands=quick)) as chat:
        chat.world.write("/fetch a")
        await chat.until_seen("Here: fetched a.")
        chat.world.write("/get now")
        await chat.until_seen("Here: fetched it now.")
        assert [request.name for request in fetching.begun] == ["fetch", "fetch"]
        # The session that it was prepared for, before there was one, is the one that began with it.
        [session] = await chat.database.read(lambda tx: tx.sessions.find(""))
        assert [request.session.id for request in fetching.begun] == [session.id] * 2
        assert [request.begins for request in fetching.begun] == [True, False]


async def test_a_caller_gets_what_the_command_prepared(tmp_path: Path, fetching: Fetching) -> None:
    async with Journey(folder=tmp_path) as chat:
        replied = await chat.gateway.command(local_caller(), "/fetch b")
        assert replied.text == "Here: fetched b."
        assert fetching.begun[0].session.id == replied.session
        assert (await chat.gateway.command(local_caller(), "/fetch c")).session == replied.session


@pytest.mark.parametrize(
    ("error", "says"),
    [
        (UserError("The shop is closed.", hint="Come back."), "The shop is closed. Come back."),
        (Unreachable("no connection"), "no connection"),
    ],
)
async def test_what_cannot_be_prepared_is_said_once(
    tmp_path: Path, fetching: Fetching, error: Exception, says: str
) -> None:
    async def fail(request: CommandRequest) -> None:
        raise error

    fetching.meanwhile = fail
    async with Journey(folder=tmp_path) as chat:
        chat.world.write("/fetch a")
        await chat.until_seen(says)
        await chat.until_idle()
        assert (await chat.gateway.command(local_caller(), "/fetch a")).text == says
        assert (chat.world.seen(), fetching.done, len(fetching.begun)) == ([says], [], 2)


async def test_a_command_that_breaks_while_it_prepares_is_given_up(
    tmp_path: Path, fetching: Fetching
) -> None:
    async def break_down(request: CommandRequest) -> None:
        raise ZeroDivisionError

    fetching.meanwhile = break_down
    async with Journey(folder=tmp_path) as chat:
        chat.world.write("/fetch a")
        await chat.until_seen("/fetch broke (ZeroDivisionError), so nothing was done. The log says where.")
        chat.world.write("hello")
        await chat.until_seen("You said: hello")
        assert (fetching.done, len(fetching.begun)) == ([], 1), "it was tried again"


def _raise(error: BaseException) -> CommandReply:
    raise error


@pytest.mark.parametrize(
    ("end", "kind"),
    [
        (lambda: _raise(RuntimeError("no\nengine")), "RuntimeError"),
        (lambda: _raise(StopIteration()), "StopIteration"),
        (lambda: _raise(SystemExit(3)), "SystemExit"),
        (lambda: None, "TypeError"),
        (lambda: CommandReply(text=7), "TypeError"),  # type: ignore[arg-type]
    ],
)
async def test_a_command_that_breaks_is_undone_and_said_once(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    end: Callable[[], CommandReply],
    kind: str,
) -> None:
    calls: list[str] = []

    def run(call: CommandCall) -> CommandReply:
        calls.append(call.args)
        call.tx.sessions.save(replace(call.session, title="half done"))
        return end()

    monkeypatch.setitem(COMMANDS, "load", SlashCommand(name="load", run=run, summary="Load."))
    says = f"/load broke ({kind}), so nothing was done. The log says where."
    async with Journey(folder=tmp_path) as chat:
        chat.world.write("/load a")
        await chat.until_seen(says)
        await chat.until_idle()
        assert (await chat.gateway.command(local_caller(), "/load b")).text == says
        assert calls == ["a", "b"], "it was tried again"
        sessions = await chat.store.read(lambda tx: tx.sessions.find(""))
        assert sessions and all(session.title != "half done" for session in sessions)
    lines = [record for record in caplog.records if record.levelname in ("WARNING", "ERROR")]
    assert [line.getMessage().split(" at=")[0].split(":")[0] for line in lines] == [
        f"command.broke name=load why={kind}"
    ] * 2
    assert not any("\n" in line.getMessage() or line.exc_info for line in lines)


async def test_what_the_store_could_not_do_is_no_fault_of_the_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[str] = []

    def run(call: CommandCall) -> CommandReply:
        calls.append(call.args)
        if len(calls) == 1:
            raise apsw.BusyError("locked")
        return CommandReply(text="Done.")

    monkeypatch.setitem(COMMANDS, "load", SlashCommand(name="load", run=run, summary="Load."))
    async with Journey(folder=tmp_path) as chat:
        chat.world.write("/load a")
        await chat.until_seen("Done.")
        assert len(calls) == 2


async def test_one_that_hangs_hits_its_deadline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    hanging = Fetching()
    install(monkeypatch, hanging, seconds=0.05)
    async with Journey(folder=tmp_path) as chat:
        chat.world.write("/fetch a")
        chat.world.write("hello")
        late = LATE.format(name="fetch", seconds=0.05)
        await chat.until_seen(late, "You said: hello")
        assert (await chat.gateway.command(local_caller(), "/fetch a")).text == late
        assert hanging.done == []


async def test_progress_is_said_once_however_often_it_is_prepared(tmp_path: Path, fetching: Fetching) -> None:
    async with Journey(folder=tmp_path) as chat:

        async def tell(request: CommandRequest) -> None:
            await request.progress("Still fetching …")
            if len(fetching.begun) == 1:
                await begin_anew(chat, request)

        fetching.meanwhile = tell
        chat.world.write("/fetch a")
        await chat.until_seen("Here: fetched a.")
        assert chat.world.seen() == ["Still fetching …", "Here: fetched a."]


# --- who and what else waits --------------------------------------------------------------------------


async def test_others_are_not_held_up_and_the_chat_keeps_its_order(
    tmp_path: Path, fetching: Fetching
) -> None:
    fetching.door.clear()
    async with Journey(folder=tmp_path) as chat:
        chat.world.write("/fetch a")
        await chat.until(lambda: bool(fetching.begun))
        chat.world.write("/title later")
        chat.world.write("and words")
        chat.world.write("hello", chat="2")
        await chat.until_seen("You said: hello", chat="2")
        assert chat.world.seen("1") == []
        fetching.door.set()
        await chat.until_seen("You said: and words", chat="1")
        assert [text.partition(" ")[0] for text in chat.world.seen("1")] == ["Here:", "This", "You"]


@pytest.mark.parametrize("queued_before", [True, False])
async def test_what_stops_or_allows_something_goes_ahead(
    tmp_path: Path, fetching: Fetching, queued_before: bool
) -> None:
    fetching.door.clear()
    async with Journey(folder=tmp_path, script=obedient) as chat:
        chat.world.write("m1 danger")
        await chat.until_seen("May I do m1?")
        if not queued_before:
            chat.world.write("/fetch a")
            await chat.until(lambda: bool(fetching.begun))
        else:
            # All of them are accepted together.
            chat.world.write("/fetch a")
        chat.world.write("later")
        chat.world.write("/approve")
        await chat.until_seen("answer to m1")
        chat.world.write("/stop")
        await chat.until_seen("Nothing is running.")
        assert fetching.done == [] and not any("answer to nobody" in text for text in chat.world.seen())
        fetching.door.set()
        await chat.until_seen("Here: fetched a.", "answer to nobody")
        assert sum(done.deed is Deed.EFFECT for done in chat.world.log) == 1


async def test_a_stop_that_takes_long_stops_nothing_that_was_said_after_it(
    tmp_path: Path, fetching: Fetching
) -> None:
    fetching.door.clear()
    asked, ruled = asyncio.Event(), asyncio.Event()

    class Slow:
        async def call(self, hook: Hook, event: str, context: Mapping[str, object]) -> HookAnswer:
            if event == "command:stop":
                asked.set()
                await ruled.wait()
            return HookAnswer(answer=None)

        async def close(self) -> None:
            return

    hooks = Hooks([([Hook(name="gate", folder="", events=("command:*",))], Slow())])
    async with Journey(folder=tmp_path, hooks=hooks) as chat:
        chat.world.write("/fetch a")
        await chat.until(lambda: bool(fetching.begun))
        chat.world.write("/stop")
        await asked.wait()
        chat.world.write("after it")
        fetching.door.set()
        await chat.until_seen("Here: fetched a.")
        assert not any("after it" in text for text in chat.world.seen())
        ruled.set()
        await chat.until_seen("Nothing is running.", "You said: after it")


# --- what changed meanwhile ---------------------------------------------------------------------------


async def begin_anew(chat: Journey, request: CommandRequest) -> None:
    """Another session takes the place of the one it was asked for in."""
    await chat.database.write(lambda tx: next_session(tx, request.key, request.source, chat.clock.now()))


async def test_it_is_prepared_again_for_another_session(tmp_path: Path, fetching: Fetching) -> None:
    async with Journey(folder=tmp_path) as chat:

        async def once(request: CommandRequest) -> None:
            if len(fetching.begun) == 1:
                await begin_anew(chat, request)

        for give in (
            lambda: chat.world.write("/fetch a"),
            lambda: asyncio.ensure_future(chat.gateway.command(local_caller(), "/fetch a")),
        ):
            fetching.begun.clear()
            fetching.done.clear()
            fetching.meanwhile = once
            give()
            await chat.until(lambda: bool(fetching.done))
            first, second = (request.session.id for request in fetching.begun)
            assert first != second == fetching.done[0].session.id
        await chat.until_idle()
        assert chat.world.seen() == ["Here: fetched a."]


async def test_what_changes_every_time_is_not_done(tmp_path: Path, fetching: Fetching) -> None:
    async with Journey(folder=tmp_path) as chat:
        fetching.meanwhile = lambda request: begin_anew(chat, request)
        chat.world.write("/fetch a")
        await chat.until_seen(CHANGED.format(name="fetch"))
        assert (len(fetching.begun), fetching.done) == (MOST_TIMES, [])
        replied = await chat.gateway.command(local_caller(), "/fetch a")
        assert replied.text == CHANGED.format(name="fetch") and fetching.done == []


async def test_whoever_may_not_speak_any_more_is_not_served(tmp_path: Path, fetching: Fetching) -> None:
    settings = open_settings(platforms={"fake": PlatformSettings(allowed_users=("u1",))})
    async with Journey(folder=tmp_path, settings=settings) as chat:

        async def shut_out(request: CommandRequest) -> None:
            closed = open_settings(platforms={"fake": PlatformSettings(allowed_users=("u2",))})
            chat.gateway._parts.live.adopt(closed)

        fetching.meanwhile = shut_out
        chat.world.write("/fetch a")
        await chat.until_taken()
        assert (len(fetching.begun), fetching.done, chat.world.seen()) == (1, [], [])


class Listening:
    """A hook that is asked about commands."""

    def __init__(self) -> None:
        self.heard: list[str] = []

    def hooks(self) -> Hooks:
        return Hooks([([Hook(name="gate", folder="", events=("command:*",))], self)])

    async def call(self, hook: Hook, event: str, context: Mapping[str, object]) -> HookAnswer:
        self.heard.append(str(context["session_id"]))
        return HookAnswer(answer=None)

    async def close(self) -> None:
        """Nothing is open."""


async def test_nobody_hears_of_who_may_not_speak_or_may_not_use_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made, gate = Fetching(), Listening()
    made.door.set()
    install(monkeypatch, made, admin=True)
    settings = open_settings(
        platforms={"fake": PlatformSettings(allowed_users=("u1",), unauthorized_dm_behavior="ignore")}
    )
    async with Journey(folder=tmp_path, settings=settings, hooks=gate.hooks()) as chat:
        chat.world.write("/fetch a", chat="9", user="stranger")
        await chat.until_taken()
        assert (gate.heard, made.begun) == ([], [])
        chat.world.write("/fetch a")
        await chat.until_seen("Here: fetched a.")
        [session] = await chat.database.read(lambda tx: tx.sessions.find(""))
        # A hook hears of the session that then begins.
        assert gate.heard == [session.id]
    admins = open_settings(
        platforms={"fake": PlatformSettings(allow_all_users=True, allow_admin_from=("u2",))}
    )
    async with Journey(folder=tmp_path, settings=admins, world=chat.world) as chat:
        chat.world.write("/fetch b")
        await chat.until_seen("You may not use /fetch here.")
        assert len(made.begun) == 1


# --- crashes ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
async def test_a_crash_has_it_prepared_again_and_done_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, full: bool, after: bool
) -> None:
    made = Fetching()
    made.door.set()
    install(monkeypatch, made)

    async def tell(request: CommandRequest) -> None:
        await request.progress("Still fetching …")

    made.meanwhile = tell

    async def live(chat: Journey) -> None:
        if not chat.world.updates:
            made.begun.clear()
            chat.world.write("/fetch a")
            chat.world.write("m1 once")
        await chat.until_seen("Here: fetched a.", "answer to m1")
        await chat.until_idle()
        assert made.begun
        [session] = await chat.database.read(lambda tx: tx.sessions.find(""))
        assert session.title is not None and session.title.startswith("fetched a, time ")
        assert chat.world.seen().count("Here: fetched a.") == 1

    def make(folder: Path) -> Journey:
        return Journey(folder=folder, script=obedient)

    await cut_everywhere(tmp_path, make, live, after=after, full=full)


async def test_a_crash_while_it_prepares_takes_the_row_again(tmp_path: Path, fetching: Fetching) -> None:
    fetching.door.clear()
    async with Journey(folder=tmp_path) as chat:
        chat.world.write("/fetch a")
        await chat.until(lambda: bool(fetching.begun))
        await chat.abandon()
    fetching.door.set()
    async with Journey(folder=tmp_path, world=chat.world) as chat:
        await chat.until_seen("Here: fetched a.")
        assert (len(fetching.begun), len(fetching.done)) == (2, 1)


# --- commands of an agent -----------------------------------------------------------------------------


def skill_of_helper(settings: Settings, runtime: Runtime | None) -> Iterable[SlashCommand]:
    """A plugin's: the agent `helper` knows how to brew, and what it calls help is not."""
    if runtime is not None and runtime.profile.agent == "helper":
        yield SlashCommand(name="brew", summary="make tea", run=brew, prepare=boil)
        yield SlashCommand(name="help", summary="not this one", run=brew)


async def boil(request: CommandRequest) -> str:
    return f"{request.runtime.profile.agent} boils"


def brew(call: CommandCall) -> CommandReply:
    return CommandReply(text=f"Tea: {call.prepared}.")


def broken(settings: Settings, runtime: Runtime | None) -> list[SlashCommand]:
    raise ZeroDivisionError


async def test_an_agent_has_commands_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "SOURCES", [broken, *SOURCES, skill_of_helper])
    quick = {
        "brew": QuickCommand(type="exec", command="true"),
        "tea": QuickCommand(type="alias", target="brew"),
    }
    routes = (Route(match=RouteMatch(chat_id="2"), agent=AgentId("helper")),)
    settings = open_settings(routes=routes, quick_commands={"tea": quick["tea"]})
    async with Journey(folder=tmp_path, agents=("main", "helper"), settings=settings) as chat:
        chat.world.write("/brew", chat="1")
        await chat.until_seen("There is no command /brew.", chat="1")
        chat.world.write("/tea", chat="2")
        await chat.until_seen("Tea: helper boils.", chat="2")
        chat.world.write("/help brew", chat="2")
        await chat.until_seen("/brew: make tea", chat="2")
        chat.world.write("/help help", chat="2")
        await chat.until_seen("list the commands, or explain one", chat="2")
        for agent, has in (("main", False), ("helper", True)):
            runtime = await chat.gateway.agents.get(AgentId(agent))
            menu = {entry.name for entry in menu_entries("fake", settings, MenuLimits(), runtime)}
            caller = local_caller(AgentId(agent))
            choice = SessionChoice(terminal=TerminalState(agent=AgentId(agent)))
            visit = await find_session_to_resume(chat.gateway, caller, choice)
            assert ("brew" in menu, "brew" in visit.commands) == (has, has)
            assert {"help", "tea"} <= menu & set(visit.commands)
    # A command of the settings stays what it is, too: the first that brings a name has it.
    runtime = replace_agent(runtime, "helper")
    known = {
        slash.name: slash for slash in registry.known_commands(open_settings(quick_commands=quick), runtime)
    }
    assert known["brew"].summary == "run true"


def replace_agent(runtime: Runtime, agent: str) -> Runtime:
    return replace(runtime, profile=replace(runtime.profile, agent=AgentId(agent)))
