"""Backends by settings and route: which one a turn's commands run in, how long each lives, and what a plugin
that breaks costs. The backends here are the real local one under other names, and broken ones."""

from __future__ import annotations

import asyncio
import contextlib
import json
import shutil
import threading
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from pathlib import Path
from typing import Any

import pytest

from hermes import plugins
from hermes.agent.danger.judge import digest
from hermes.agent.danger.scope import CommandScope
from hermes.agent.tools.registry import CommandRules, scope_of
from hermes.app.agents.agent_backends import AgentBackends, BoundAgent
from hermes.app.agents.backends import GatewayBackends
from hermes.domain.chats.address import Address, Source, SourceKind
from hermes.domain.chats.rows import MediaItem, SearchHit
from hermes.domain.clock import SystemClock
from hermes.domain.errors import Unreachable, UserError
from hermes.domain.ids import MAIN_AGENT, AgentId, SessionId, TurnId
from hermes.domain.ports.agent import Run
from hermes.domain.ports.world import (
    NO_NETWORK,
    Backend,
    BackendRequest,
    Command,
    FolderRules,
    MakeBackend,
    World,
)
from hermes.domain.settings.settings import (
    AgentApprovals,
    HostedAgent,
    Profile,
    Route,
    RouteMatch,
    Settings,
    TerminalSettings,
)
from hermes.domain.tools.services import ToolServices
from hermes.domain.tools.tool import ApprovalPrompt, Tool, ToolContext, ToolResult
from hermes.domain.turns.event import AgentEvent, Answered, Asked, Notice, Verdict
from hermes.domain.turns.session import Session
from hermes.domain.turns.turn import Cause, Guidance, ParentCall, Turn, TurnInput
from hermes.domain.word import replace
from hermes.execution.backend_life import KeptBackend
from hermes.execution.local.backend import make_local
from hermes.testing.backends import local_backend
from hermes.testing.clock import FakeClock
from hermes.testing.model import ScriptedModel, call, say
from hermes.testing.tools import tool_services, tools_of
from tests.agent.driving import Driver, loop_of

BOX = World(
    workspace="/box", home="/root", system="Linux (box)", shell="bash", sandbox="a box", network=NO_NETWORK
)
AT = SystemClock().now()


class Boxed:
    """The local backend, seen from outside as a sandbox; counts how often it was opened and closed."""

    def __init__(self, inner: Backend, world: World = BOX) -> None:
        self.inner = inner
        self.world = world
        self.files = inner.files
        self.processes = inner.processes
        self.opened = 0
        self.closed = 0

    async def open(self) -> None:
        self.opened += 1

    async def health(self) -> str:
        return "it rattles"

    def idle(self) -> bool:
        return self.inner.idle()

    async def close(self) -> None:
        self.closed += 1
        await self.inner.close()

    async def place(self, session: str = "") -> World:
        return self.world

    async def cwd(self, session: str) -> str:
        return await self.inner.cwd(session)

    async def run(self, command: Command, output: Callable[[str], None]) -> Any:
        return await self.inner.run(command, output)

    async def start(self, command: Command, ended: Callable[..., None]) -> Any:
        return await self.inner.start(command, ended)


def boxed(request: BackendRequest) -> Boxed:
    return Boxed(make_local(request))


def owned(**changes: Any) -> Settings:
    """Where the person of these turns is an owner, and commands run on this machine unless it is said."""
    return Settings(**{"terminal": TerminalSettings(backend="local"), "allowed_users": ("me",), **changes})


def route(chat: str, backend: str, agent: str = "main") -> Route:
    return Route(match=RouteMatch(chat_id=chat), agent=AgentId(agent), backend=backend)


def turn(chat: str, session: str = "s", backend: str = "") -> Turn:
    return Turn(
        id=TurnId("t"),
        session=SessionId(session),
        agent=MAIN_AGENT,
        cause=Cause.MESSAGE,
        input=TurnInput(text="x", guidance=Guidance(backend=backend)),
        created_at=AT,
        source=Source(address=Address(platform="fake", chat=chat), kind=SourceKind.PRIVATE, user="me"),
    )


class Rig:
    def __init__(
        self, folder: Path, settings: Settings, makers: Mapping[str, Any], clock: FakeClock | None = None
    ) -> None:
        self.settings = settings
        self.folder = folder
        self.gateway = GatewayBackends(
            {"PATH": "/usr/bin:/bin", "HOME": str(folder)}, clock or FakeClock(), lambda: self.settings
        )
        self.gateway._makers = {"local": make_local, **makers}

    def agent(self, name: str = "main") -> AgentBackends:
        home = self.folder / name
        (home / "work").mkdir(parents=True, exist_ok=True)
        profile = Profile(agent=AgentId(name), home=home, settings=self.settings)
        return AgentBackends(profile, home / "work", self.gateway)


async def output(backend: Backend, text: str, session: str = "s") -> str:
    return (await backend.run(Command(text=text, session=session), lambda words: None)).output


def judging(agent: AgentBackends) -> ToolServices:
    async def scope_in(world: World) -> CommandScope:
        return CommandScope(cwd="/", workspace="/", home="/", wide=True)

    rules = CommandRules(scope_in=scope_in, approvals=agent.approvals)
    return ToolServices({Backend: agent.backend, CommandRules: rules})


async def test_a_backend_hears_what_variables_say_now(tmp_path: Path) -> None:
    """Those of `.env` are not of the environment, and a token may be another one by its next use."""
    given: list[BackendRequest] = []

    def make(request: BackendRequest) -> Backend:
        given.append(request)
        return make_local(request)

    rig = Rig(tmp_path, owned(terminal=TerminalSettings(backend="own")), {"own": make})
    await rig.agent().of(turn("c")).place()
    assert (given[0].variable("PATH"), given[0].variable("TOKEN")) == ("/usr/bin:/bin", "")
    rig.gateway.variable = lambda agent, name: f"{name} of {agent}"
    assert given[0].variable("TOKEN") == "TOKEN of main"


async def test_what_a_removed_agent_left_running_ends(tmp_path: Path) -> None:
    rig = Rig(tmp_path, owned(agents={"bee": HostedAgent()}), {})
    bee, main, there = rig.agent("bee"), rig.agent(), turn("7")
    for agent in (bee, main):
        with agent.bind(there):
            await agent.backend.start(Command(text="sleep 600", session="s"), lambda *ended: None)
    await rig.gateway.tend()
    assert [len(await agent.processes("s")) for agent in (bee, main)] == [1, 1]
    [held] = [one for one in bee._all() if one.is_open]
    rig.settings = owned()
    with bee.bind(there):
        await rig.gateway.tend()
        assert held.is_open, "a turn still runs there"
    await rig.gateway.tend()
    assert not held.is_open and await bee.processes("s") == [] and len(await main.processes("s")) == 1
    await rig.gateway.close()


async def test_a_task_of_a_task_stays_where_the_topmost_agents_commands_run(tmp_path: Path) -> None:
    """And what any agent above denies or asks for holds below it."""
    hosted = {
        "top": HostedAgent(backend="box", approvals=AgentApprovals(deny=("rm *",))),
        "middle": HostedAgent(approvals=AgentApprovals(ask=("git *",))),
        "low": HostedAgent(approvals=AgentApprovals(deny=("ls",))),
    }
    rig = Rig(tmp_path, owned(agents=hosted), {"box": boxed})
    low, names = rig.agent("low"), [AgentId(name) for name in hosted]
    for agent, above in ((names[1], (names[0],)), (names[2], tuple(names[:2]))):
        parent = ParentCall(agent=agent, turn=TurnId("u"), call=None, depth=2, above=above)
        below = replace(turn("7"), input=TurnInput(text="x", guidance=Guidance(parent=parent)))
        with low.bind(below):
            assert (await low.backend.place("s")).sandbox == "a box"
            given = await low.approvals("s")
            assert set(given.deny) == {"ls", "rm *"} and given.ask == ("git *",)
            scope = await scope_of(judging(low), "s", opens=False)
            assert scope.denies("rm x") and scope.denies("ls") and scope.locks("git push")
    assert (await low.approvals("another")).deny == ("ls",)
    await rig.gateway.close()


async def test_the_route_of_a_turn_names_its_backend(tmp_path: Path) -> None:
    settings = owned(routes=(route("5", "box"), route("6", "")))
    rig = Rig(tmp_path, settings, {"box": boxed})
    agent = rig.agent()
    assert (await agent.of(turn("5")).place()).sandbox == "a box"
    assert [(await agent.of(turn(chat)).place()).host_files for chat in ("6", "7")] == [True, True]
    # What tools hold follows the turn that runs, session by session.
    with agent.bind(turn("5", "boxed")), agent.bind(turn("7", "free")):
        assert (await agent.backend.place("boxed")).sandbox == "a box"
        assert (await agent.backend.place("free")).sandbox == ""
    with agent.bind(turn("7", "boxed")):
        assert (await agent.backend.place("boxed")).sandbox == ""
    # A job runs where its maker's commands do.
    assert (await agent.of(turn("7", backend="box")).place()).sandbox == "a box"
    assert (await agent.of_source(turn("5").source).place()).sandbox == "a box"
    assert (await agent.of_source(None).place()).sandbox == ""
    await rig.gateway.close()


async def test_a_turn_stays_where_it_began_whatever_the_settings_become(tmp_path: Path) -> None:
    rig = Rig(tmp_path, owned(terminal=TerminalSettings(backend="box")), {"box": boxed})
    agent = rig.agent()
    with agent.bind(turn("7")):
        rig.settings = owned()
        assert (await agent.backend.place("s")).sandbox == "a box"
        # So do the files that it sends, which are taken by the agent's runtime of now.
        assert (await rig.agent().backend.place("s")).sandbox == "a box"
    # What it left running is at nobody's mercy, least of all at that of the new default.
    with pytest.raises(UserError, match="No turn runs in the session s"):
        await output(agent.backend, "echo loose")
    assert not rig.gateway.bound, "it was remembered for ever"
    late, next_one = agent.bind(turn("7", backend="box")), agent.bind(turn("7", backend="box"))
    late.__enter__()
    with next_one:
        late.__exit__(None, None, None)
        assert (await agent.backend.place("s")).sandbox == "a box"
    await rig.gateway.close()


@pytest.mark.parametrize(
    "after",
    [owned(terminal=TerminalSettings(backend="docker")), owned(routes=(route("5", "docker"),))],
)
async def test_backends_of_settings_that_do_not_count_yet_are_made(tmp_path: Path, after: Settings) -> None:
    rig = Rig(tmp_path, owned(), {})
    profile = Profile(agent=MAIN_AGENT, home=tmp_path, settings=after)
    with pytest.raises(UserError, match="no backend “docker”"):
        AgentBackends(profile, tmp_path, rig.gateway)


async def test_an_agent_that_moves_gets_another_backend(tmp_path: Path) -> None:
    clock = FakeClock()
    rig = Rig(tmp_path, owned(), {}, clock)
    before = rig.agent()
    assert await output(before.backend, "pwd", "") == f"{tmp_path}/main/work\n"
    home = tmp_path / "moved"
    (home / "work").mkdir(parents=True)
    after = AgentBackends(
        Profile(agent=MAIN_AGENT, home=home, settings=rig.settings), home / "work", rig.gateway
    )
    assert await output(after.backend, "pwd", "") == f"{home}/work\n"
    assert await output(before.backend, "pwd", "") == f"{tmp_path}/main/work\n", "a turn was moved"
    assert len(rig.gateway.facts()["backends"]) == 2
    await clock.leap(rig.settings.terminal.lifetime_seconds)
    await rig.gateway.tend()
    assert [fact["open"] for fact in rig.gateway.facts()["backends"]] == [False], (
        "the one that is left behind is shown"
    )
    await rig.gateway.close()


async def test_the_route_counts_whichever_agent_answers(tmp_path: Path) -> None:
    rig = Rig(tmp_path, owned(routes=(route("5", "box", "guest"),)), {"box": boxed})
    assert (await rig.agent("main").of(turn("5")).place()).sandbox == "a box"


@pytest.mark.parametrize(
    "settings",
    [owned(terminal=TerminalSettings(backend="docker")), owned(routes=(route("5", "docker"),))],
)
async def test_a_backend_that_is_not_there_stops_its_agent(tmp_path: Path, settings: Settings) -> None:
    with pytest.raises(UserError, match="no backend “docker”") as error:
        Rig(tmp_path, settings, {}).agent()
    assert "local" in (error.value.hint or "")


async def test_a_backend_that_is_gone_stops_nobody_else(tmp_path: Path) -> None:
    rig = Rig(tmp_path, owned(routes=(route("5", "docker", "guest"),)), {})
    with pytest.raises(UserError, match="docker"):
        rig.agent("guest")
    agent = rig.agent("main")
    assert await output(agent.backend, "echo on", "") == "on\n"
    # What was meant for the sandbox does not run without one.
    with pytest.raises(UserError, match="docker"):
        await agent.of(turn("5")).place()
    with agent.bind(turn("5")), pytest.raises(UserError, match="docker"):
        await output(agent.backend, "echo loose")
    await rig.gateway.close()


def _raises(request: BackendRequest) -> Backend:
    raise RuntimeError("no engine")


@pytest.mark.parametrize(
    ("make", "says"),
    [(_raises, "RuntimeError: no engine"), (lambda request: "nothing", "made has no `open`")],
)
async def test_a_plugin_that_cannot_make_one(tmp_path: Path, make: MakeBackend, says: str) -> None:
    with pytest.raises(UserError, match=says):
        Rig(tmp_path, owned(terminal=TerminalSettings(backend="bad")), {"bad": make}).agent()


async def test_a_plugin_that_hangs_while_it_makes_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(plugins, "LOAD_SECONDS", 0.05)
    never = threading.Event()
    settings = owned(terminal=TerminalSettings(backend="bad"))
    with pytest.raises(UserError) as error:
        Rig(tmp_path, settings, {"bad": lambda request: never.wait(30)}).agent()  # type: ignore[dict-item]
    never.set()
    assert str(error.value) == "The backend “bad” cannot be made (its function did not end within 0.05 s)."


class Broken(Boxed):
    """Breaks where it is told to."""

    def __init__(self, inner: Backend, where: str) -> None:
        super().__init__(inner)
        self.where = where

    async def open(self) -> None:
        if self.where == "hang":
            await asyncio.Event().wait()
        if self.where == "open":
            raise KeyError("engine")

    async def place(self, session: str = "") -> World:
        if self.where == "relative":
            return World(workspace="box", home="/root", system="", shell="")
        return BOX if self.where != "lie" else {"workspace": "/"}  # type: ignore[return-value]

    async def run(self, command: Command, output: Callable[[str], None]) -> Any:
        raise ZeroDivisionError("in run")


@pytest.mark.parametrize(
    ("where", "says"),
    [
        ("open", "the backend bad broke .KeyError"),
        ("hang", "the backend bad did not answer within 0.05 s"),
        ("run", "the backend bad broke .ZeroDivisionError: in run"),
    ],
)
async def test_a_backend_that_breaks_costs_one_sentence(tmp_path: Path, where: str, says: str) -> None:
    inner = local_backend(home=tmp_path, workspace=tmp_path, environ={"HOME": str(tmp_path)})
    kept = KeptBackend("bad", Broken(inner, where), FakeClock(), open_seconds=0.05)
    for _ in range(2):
        with pytest.raises(Unreachable, match=says):
            await kept.use(lambda backend: backend.run(Command(text="true"), lambda text: None))
    assert kept.idle()


@pytest.mark.parametrize("where", ["open", "hang", "cancelled"])
async def test_what_was_opened_halfway_is_closed(tmp_path: Path, where: str) -> None:
    inner = local_backend(home=tmp_path, workspace=tmp_path, environ={"HOME": str(tmp_path)})
    backend = Broken(inner, where.replace("cancelled", "hang"))
    kept = KeptBackend("bad", backend, FakeClock(), open_seconds=60 if where == "cancelled" else 0.05)
    using = asyncio.create_task(kept.use(lambda each: output(each, "true")))
    if where == "cancelled":
        await asyncio.sleep(0.01)
        using.cancel()
    with pytest.raises(asyncio.CancelledError if where == "cancelled" else Unreachable):
        await using
    assert (backend.closed, kept.is_open) == (1, False)


@pytest.mark.parametrize("where", ["lie", "relative"])
async def test_a_backend_that_lies_about_its_world_is_not_judged_by_it(tmp_path: Path, where: str) -> None:
    inner = local_backend(home=tmp_path, workspace=tmp_path, environ={"HOME": str(tmp_path)})
    kept = KeptBackend("bad", Broken(inner, where), FakeClock())
    with pytest.raises(Unreachable, match="does not say where"):
        await kept.place()
    await kept.tend(300)
    assert "does not say where" in kept.trouble and kept.world is None


async def test_it_is_opened_once_let_go_when_idle_and_opened_again(tmp_path: Path) -> None:
    clock = FakeClock()
    inner = local_backend(home=tmp_path, workspace=tmp_path, environ={"HOME": str(tmp_path)})
    backend = Boxed(inner)
    kept = KeptBackend("box", backend, clock)
    await kept.tend(300)
    assert (backend.opened, kept.is_open, kept.trouble) == (0, False, "")
    runs = (kept.use(lambda each: output(each, "echo hi")) for _ in range(3))
    assert await asyncio.gather(*runs) == ["hi\n"] * 3
    assert backend.opened == 1
    await clock.leap(299)
    await kept.tend(300)
    assert kept.is_open and kept.trouble == "it rattles"
    # A process in the background keeps it.
    started = await kept.use(
        lambda each: each.start(Command(text="sleep 300", session="s", timeout=0), lambda view: None)
    )
    await clock.leap(1000)
    await kept.tend(300)
    assert kept.is_open and not kept.idle()
    await kept.use(lambda each: each.processes.kill("s", started.id))
    await clock.leap(300)
    await kept.tend(300)
    assert (backend.closed, kept.is_open) == (1, False)
    assert await kept.use(lambda each: output(each, "echo again")) == "again\n"
    assert backend.opened == 2
    await kept.close()


async def test_agents_share_one_process_that_starts_commands(tmp_path: Path) -> None:
    rig = Rig(tmp_path, owned(), {})
    parents = set()
    for name in ("main", "bee", "wasp"):
        parents.add(await output(rig.agent(name).backend, "cut -d' ' -f4 /proc/$PPID/stat", ""))
    assert len(parents) == 1
    assert [fact["agent"] for fact in rig.gateway.facts()["backends"]] == ["main", "bee", "wasp"]
    await rig.gateway.close()
    assert not any(fact["open"] for fact in rig.gateway.facts()["backends"])


async def test_one_that_will_not_close_does_not_hold_the_others(tmp_path: Path, monkeypatch: Any) -> None:
    made: list[Stuck] = []

    class Stuck(Boxed):
        async def close(self) -> None:
            made.append(self)
            await asyncio.Event().wait()

    monkeypatch.setattr("hermes.execution.backend_life._CLOSE_SECONDS", 0.05)
    rig = Rig(tmp_path, owned(routes=(route("5", "stuck"),)), {"stuck": lambda r: Stuck(make_local(r))})
    agent = rig.agent()
    for chat in ("5", "6"):
        await output(agent.of(turn(chat)), "true")
    await rig.gateway.close()
    assert not any(fact["open"] for fact in rig.gateway.facts()["backends"])
    (stuck,) = made
    await stuck.inner.close()


async def test_a_file_that_came_is_named_by_the_backends_path(tmp_path: Path) -> None:
    world = World(workspace=str(tmp_path / "box"), home="/root", system="", shell="bash", sandbox="a box")
    settings = owned(routes=(route("5", "box"),))
    rig = Rig(tmp_path, settings, {"box": lambda request: Boxed(make_local(request), world)})
    kept = tmp_path / "abc.pdf"
    kept.write_bytes(b"0123456789" * 300_000)
    item = MediaItem(sha256="abc", path="abc.pdf", size=3_000_000, mime="application/pdf", stored_at=AT)
    agent = rig.agent()
    assert await agent.bring(turn("6"), item, str(kept)) == str(kept)
    copy = await agent.bring(turn("5"), item, str(kept))
    assert copy == f"{world.workspace}/incoming/abc.pdf"
    assert await asyncio.to_thread(Path(copy).read_bytes) == kept.read_bytes()
    await rig.gateway.close()


@pytest.mark.parametrize("where", ["the folder", "above it"])
async def test_a_folder_that_a_link_replaced_is_not_worked_in(tmp_path: Path, where: str) -> None:
    """What is judged by the folder's name would happen where the link leads."""
    rig = Rig(tmp_path, owned(), {})
    agent, folder, other = rig.agent(), tmp_path / "above/project", tmp_path / "other"
    folder.mkdir(parents=True)
    (other / "project").mkdir(parents=True)
    runs: list[str] = []

    class Alone:
        def spawn(self, work: Coroutine[Any, Any, None], name: str, broke: Callable[[str], None]) -> None:
            raise AssertionError("nothing goes on beside this run")

    class Working:
        async def run(self, run: Run) -> AsyncIterator[AgentEvent]:
            runs.append((await output(agent.backend, "pwd; echo x > made", run.session.id)).strip())
            yield Notice(text="worked")

    async def worked() -> list[str]:
        now = turn("4")
        session = Session(
            id=now.session, agent=AgentId("main"), created_at=AT, updated_at=AT, workspace=str(folder)
        )
        run = Run(session=session, turn=now, transcript=(), scope=Alone())
        return [each.text async for each in BoundAgent(Working(), agent).run(run) if isinstance(each, Notice)]

    assert await worked() == ["worked"] and runs == [str(folder)]
    replaced = folder if where == "the folder" else folder.parent
    await asyncio.to_thread(shutil.rmtree, replaced)
    replaced.symlink_to(other if where == "above it" else other / "project")
    told = await worked()
    assert len(told) == 2 and str(folder) in told[0] and "link" in told[0]
    assert runs[1:] == [str(tmp_path / "main/work")] and not list(other.rglob("made"))
    await rig.gateway.close()


async def test_a_file_comes_to_the_folder_of_its_session(tmp_path: Path) -> None:
    def box(request: BackendRequest) -> Boxed:
        world = World(
            workspace=f"{request.workspace}/box", home="/root", system="", shell="bash", sandbox="b"
        )
        return Boxed(make_local(request), world)

    rig = Rig(tmp_path, owned(routes=(route("5", "box"),)), {"box": box})
    kept, folder = tmp_path / "abc.pdf", tmp_path / "project"
    kept.write_bytes(b"0123")
    folder.mkdir()
    item = MediaItem(sha256="abc", path="abc.pdf", size=4, mime="application/pdf", stored_at=AT)
    copy = await rig.agent().bring(turn("5"), item, str(kept), str(folder))
    assert copy == f"{folder}/box/incoming/abc.pdf"
    assert await asyncio.to_thread(Path(copy).read_bytes) == b"0123"
    await rig.gateway.close()


@pytest.mark.parametrize("broken", [False, True])
async def test_a_backend_is_made_beside_the_loop_and_once(tmp_path: Path, broken: bool) -> None:
    going, made, begun, loop = threading.Event(), list[str](), asyncio.Event(), asyncio.get_running_loop()

    def slow(request: BackendRequest) -> Backend:
        if request.workspace.name == "project":
            made.append(request.share("one", lambda: "of all"))
            loop.call_soon_threadsafe(begun.set)
            assert going.wait(60)
            if broken:
                raise UserError("no box today")
        return make_local(request)

    (tmp_path / "project").mkdir()
    rig = Rig(tmp_path, owned(routes=(route("5", "slow"),)), {"slow": slow})
    agent = rig.agent()
    asked = [turn("5", session) for session in ("a", "b", "c")]
    with contextlib.ExitStack() as bound:
        for each in asked:
            bound.enter_context(agent.bind(each, str(tmp_path / "project")))
        tasks = [asyncio.create_task(agent.backend.place(each.session)) for each in asked]
        await asyncio.wait_for(begun.wait(), 60)  # the loop goes on
        tasks.pop().cancel()
        await asyncio.sleep(0)
        going.set()
        places = await asyncio.gather(*tasks, return_exceptions=True)
    assert made == ["of all"]
    words = [str(place) if broken else getattr(place, "workspace", place) for place in places]
    assert words == ["no box today" if broken else str(tmp_path / "project")] * 2
    await rig.gateway.close()


# --- what a person allows counts in the world it was asked for ---


REMOVE = {"command": "rm -rf /srv/data"}


def tools_in(rig: Rig, agent: AgentBackends) -> dict[str, Tool]:
    home = str(rig.folder)

    async def scope_in(world: World) -> CommandScope:
        return CommandScope(cwd="/", workspace="/w", home=home, homes=FolderRules(closed=("/closed",)))

    services = tool_services(backend=agent.backend, recall=_nobody, scope_in=scope_in)
    return {tool.name: tool for tool in tools_of(services)}


async def _nobody(query: str, limit: int, context: ToolContext, *place: object) -> list[SearchHit]:
    return []


async def prompt_for(tool: Tool, session: str, arguments: Mapping[str, object]) -> ApprovalPrompt:
    assert callable(tool.approval)
    asked = await tool.approval(SessionId(session), arguments)
    assert asked is not None
    return asked


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("terminal", REMOVE),
        ("read_file", {"path": "/closed/x"}),
        ("write_file", {"path": "/closed/x", "content": "a"}),
        ("patch", {"path": "/closed/x", "old": "a", "new": "b"}),
    ],
)
async def test_what_is_allowed_in_one_world_is_asked_for_in_another(
    tmp_path: Path, name: str, arguments: Mapping[str, object]
) -> None:
    def far(request: BackendRequest) -> Boxed:
        return Boxed(make_local(request), replace(BOX, sandbox="", host="far.example"))

    def near(request: BackendRequest) -> Boxed:  # says nothing of itself but what the local one says
        return Boxed(make_local(request), replace(BOX, sandbox="", host_files=True))

    settings = owned(routes=(route("5", "box"), route("6", "far"), route("7", "near")))
    rig = Rig(tmp_path, settings, {"box": boxed, "far": far, "near": near})
    agent = rig.agent()
    tool = tools_in(rig, agent)[name]
    asked: dict[str, ApprovalPrompt] = {}
    for chat in ("4", "5", "6", "7"):
        with agent.bind(turn(chat, chat)):
            asked[chat] = await prompt_for(tool, chat, arguments)
    assert len({each.digest for each in asked.values()}) == 4
    assert "Where:" not in asked["4"].text, "the gateway's machine is where things happen if nothing is said"
    assert asked["5"].text.endswith("\nWhere: box, sandbox a box, network none")
    assert asked["6"].text.endswith("\nWhere: far, far.example, network none")
    assert asked["7"].text.endswith("\nWhere: near, network none")
    await rig.gateway.close()


async def test_what_was_allowed_here_before_is_still_allowed_here(tmp_path: Path) -> None:
    rig = Rig(tmp_path, owned(), {})
    tools = tools_in(rig, agent := rig.agent())
    with agent.bind(turn("4")):
        cwd = await agent.backend.cwd("s")
        assert (await prompt_for(tools["terminal"], "s", REMOVE)).digest == digest(REMOVE["command"], cwd)
        assert (await prompt_for(tools["read_file"], "s", {"path": "/closed/x"})).digest == "read:/closed/x"
    await rig.gateway.close()


async def test_a_word_given_for_a_sandbox_does_not_count_once_the_route_is_gone(tmp_path: Path) -> None:
    rig = Rig(tmp_path, owned(routes=(route("5", "box"),)), {"box": boxed})
    agent = rig.agent()
    ran: list[str] = []
    terminal = tools_in(rig, agent)["terminal"]

    async def run(context: ToolContext, arguments: Mapping[str, object]) -> ToolResult:
        ran.append((await agent.backend.place(context.session)).backend)
        return ToolResult(text="gone")

    command = call("terminal", json.dumps(REMOVE))
    chat = Driver(
        loop_of(ScriptedModel([command, say("so"), command, say("so")]), replace(terminal, run=run))
    )
    with agent.bind(turn("5")):
        question = (await chat.say("clear it"))[-1]
    assert isinstance(question, Asked) and "Where: box" in question.text
    rig.settings = owned()
    chat.add(Answered(question=question.question, verdict=Verdict.ALWAYS, by="me"))
    with agent.bind(turn("5")):
        await chat.go()
    assert ran == [], "it ran on the machine itself"
    chat.granted = frozenset({question.digest})
    with agent.bind(turn("5")):
        again = (await chat.say("clear it again"))[-1]
    assert isinstance(again, Asked) and again.digest != question.digest
    await rig.gateway.close()


async def test_variables_that_are_given_or_taken_away_count_at_the_next_turn(tmp_path: Path) -> None:
    """Nothing that runs is lost for it, and a turn that began before stays where it is."""
    rig = Rig(tmp_path, owned(), {})
    rig.gateway._environ = {**rig.gateway._environ, "FOO_X": "foo1"}
    agent = rig.agent()
    look = "echo ${FOO_X-none}"

    async def seen(session: str) -> str:
        with agent.bind(turn("1", session)):
            return await output(agent.backend, look, session)

    assert await seen("a") == "none\n"
    given = owned(terminal=TerminalSettings(backend="local", env_passthrough=("FOO_X",)))
    with agent.bind(turn("1", "b")):
        started = await agent.backend.start(Command(text="sleep 60", session="b"), lambda view: None)
        rig.settings = given
        assert await seen("c") == "none\n", "the process is in the backend that was there"
        assert await output(agent.backend, look, "b") == "none\n"
        await agent.backend.processes.kill("b", started.id)
        assert await output(agent.backend, look, "b") == "none\n"
    assert await seen("d") == "foo1\n"
    rig.settings = owned()
    assert await seen("e") == "none\n"
    await rig.gateway.tend()
    assert rig.gateway._retired == []
    await rig.gateway.close()


async def test_what_a_backend_is_made_from_counts_at_the_next_turn(tmp_path: Path) -> None:
    made: list[str] = []

    def there(request: BackendRequest) -> Backend:
        made.append(request.profile.settings.terminal.ssh_host)
        return boxed(request)

    def at(host: str, **more: Any) -> Settings:
        return owned(terminal=TerminalSettings(backend="box", ssh_host=host, **more))

    rig = Rig(tmp_path, at(""), {"box": there})
    agent = rig.agent()
    with agent.bind(turn("1")):
        await output(agent.backend, "true")
        rig.settings = at("nas.lan")
        await output(agent.backend, "true")
        assert made == [""], "a turn that began before stays where it is"
    agent = rig.agent()
    for host in ("nas.lan", "nas.lan", "other.lan"):
        rig.settings = at(host, timeout=len(made) * 10.0)
        agent = rig.agent()
        with agent.bind(turn("1")):
            await output(agent.backend, "true")
    assert made == ["", "nas.lan", "other.lan"]
    await rig.gateway.tend()
    assert rig.gateway._retired == []
    await rig.gateway.close()


async def test_placeholders_of_the_broker_count_at_the_next_turn(tmp_path: Path) -> None:
    rig = Rig(tmp_path, owned(), {})
    placeholders = {"TOKEN": "first"}
    rig.gateway.lead_out = lambda request: replace(
        request,
        environ={**request.environ, **placeholders},
        passthrough=(*request.passthrough, *placeholders),
    )
    backend = rig.agent().of(turn("1"))
    assert await output(backend, "echo $TOKEN", "") == "first\n"
    before = rig.gateway.of_agent(MAIN_AGENT, tmp_path / "main")
    placeholders["TOKEN"] = "second"
    assert await output(backend, "echo $TOKEN", "other") == "second\n"
    assert rig.gateway.of_agent(MAIN_AGENT, tmp_path / "main") != before
    await rig.gateway.close()


async def test_backends_are_made_while_others_are_looked_at(tmp_path: Path) -> None:
    rig = Rig(tmp_path, owned(), {})
    rig.agent()
    kept = rig.gateway._kept

    class Growing(str):
        """Stands for a thread that makes one while this is compared."""

        def __eq__(self, other: object) -> bool:
            kept[(AgentId(f"{len(kept)}"), "x", tmp_path, tmp_path, NO_NETWORK)] = next(iter(kept.values()))
            return True

        __hash__ = str.__hash__

    assert len(rig.gateway.of_agent(AgentId(Growing("main")), tmp_path / "main")) == 1
    assert len(kept) == 2
    await rig.gateway.close()
