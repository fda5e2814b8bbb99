"""Who commands, and what that means: every row of the ladder as a table, who counts as the owner or an admin,
and how it is found out which sandboxes work."""

from __future__ import annotations

import asyncio
import os
import sys
import time
from collections.abc import Mapping
from pathlib import Path

import pytest

from hermes.app.agents.agent_backends import AgentBackends
from hermes.app.agents.backends import GatewayBackends
from hermes.app.agents.ladder import (
    Commander,
    SandboxProbes,
    boundary_facts,
    choose,
    leaves_open,
    read_network,
)
from hermes.app.jobs import HomeJobs
from hermes.control.people.standing import is_trusted
from hermes.domain.chats.address import LOCAL_DOOR, Address, Source, SourceKind
from hermes.domain.clock import SystemClock
from hermes.domain.errors import UserError
from hermes.domain.ids import MAIN_AGENT, SessionId, TurnId
from hermes.domain.ports.world import (
    NO_NETWORK,
    OPEN_NETWORK,
    Backend,
    BackendRequest,
    Boundary,
    NetworkRules,
    World,
)
from hermes.domain.settings.declaring import Secret
from hermes.domain.settings.platforms import ApiKey, PlatformSettings
from hermes.domain.settings.settings import Profile, Route, RouteMatch, Settings, TerminalSettings
from hermes.domain.turns.turn import Cause, Guidance, Turn, TurnInput
from hermes.execution.local.backend import make_local
from hermes.execution.process_tree import children_of
from hermes.execution.sandboxes import probe as probing
from hermes.execution.sandboxes.probe import SandboxProbe
from hermes.testing.backends import fake_probes, make_boxed
from hermes.testing.platform_suite.testbed import until

KINDS = {"docker": Boundary.CONTAINER, "bubblewrap": Boundary.SANDBOX, "landlock": Boundary.WEAK}
PLATFORMS = {
    "chat": PlatformSettings(allowed_users=("ann",), allow_all_users=True),
    "team": PlatformSettings(allow_admin_from=("ann",), allowed_users=("bob",)),
    "api_server": PlatformSettings(
        keys={
            "admin": ApiKey(key=Secret("x"), scopes=("admin",)),
            "guest": ApiKey(key=Secret("y"), scopes=("chat", "sessions")),
            "unreadable": ApiKey(key=Secret("z"), scopes=("(none)",)),
        }
    ),
}


def source(
    user: str | None = "ann", kind: str = "private", platform: str = "chat", account: str = "default"
) -> Source:
    address = Address(platform=platform, account=account, chat="1")
    return Source(address=address, kind=SourceKind(kind), user=user)


TERMINAL = Commander(source=source(platform=LOCAL_DOOR))
ANN, BOB = Commander(source=source("ann")), Commander(source=source("bob"))
JOB = Commander(source=source(None, "job", "cron"), alone=True)


def settings(backend: str = "auto", network: tuple[str, ...] = (), *routes: Route) -> Settings:
    terminal = TerminalSettings(backend=backend, network=network)
    return Settings(terminal=terminal, platforms=PLATFORMS, routes=routes)


def probes(works: str) -> list[SandboxProbe]:
    return [
        SandboxProbe(name=name, boundary=kind, works=name in works.split()) for name, kind in KINDS.items()
    ]


def row(who: Commander, works: str = "", chosen: Settings | None = None) -> str:
    """What somebody gets, in short."""
    choice = choose(who, chosen or settings(), probes(works))
    if choice.refusal is not None:
        return "refused"
    marks = ("apart" if choice.apart else "", "asks" if choice.ask_all else "")
    return " ".join(filter(None, (choice.backend, str(choice.network), *marks)))


@pytest.mark.parametrize(
    ("works", "terminal", "owner", "stranger"),
    [
        ("docker bubblewrap landlock", "local open", "docker open", "docker none apart"),
        ("bubblewrap landlock", "local open", "bubblewrap open", "bubblewrap none apart"),
        ("landlock", "local open", "landlock open", "refused"),
        ("", "local open", "local open asks", "refused"),
    ],
)
def test_the_ladder(works: str, terminal: str, owner: str, stranger: str) -> None:
    assert row(TERMINAL, works) == terminal
    assert row(ANN, works) == row(JOB, works) == row(Commander(), works) == owner
    assert row(Commander(source=TERMINAL.source, alone=True), works) == owner, "a sub-agent of the terminal"
    assert row(BOB, works) == row(Commander(source=source(None, "webhook")), works) == stranger
    assert row(Commander(source=JOB.source, maker=BOB.source, alone=True), works) == stranger
    assert row(Commander(source=ANN.source, maker=BOB.source), works) == stranger


@pytest.mark.parametrize("named", ["local", "landlock", "bubblewrap", "docker", "Bubblewrap "])
def test_what_is_named_is_what_is_used(named: str) -> None:
    name = named.strip().lower()
    for works in ("", "docker bubblewrap landlock"):
        assert row(TERMINAL, works, settings(named)) == row(ANN, works, settings(named)) == f"{name} open"
        stranger = "refused" if name == "local" else f"{name} none apart"
        assert row(BOB, works, settings(named)) == stranger
        assert not leaves_open(BOB, settings(named)), "nobody waits for what does not matter"
    assert leaves_open(BOB, settings()) and not leaves_open(TERMINAL, settings())


def test_a_world_must_hold_what_it_promises() -> None:
    world = World(workspace="/w", home="/h", system="", shell="")
    for boundary in Boundary:
        for network in (OPEN_NETWORK, NO_NETWORK):
            held = World(workspace="/w", home="/h", system="", shell="", boundary=boundary, network=network)
            fault = choose(BOB, settings("box"), ()).fault(held)
            fine = boundary in (Boundary.SANDBOX, Boundary.CONTAINER) and not network.open
            assert (fault is None) == fine, (boundary, network)
            assert choose(ANN, settings("box"), ()).fault(held) is None
    with pytest.raises(UserError, match="cannot limit the network"):
        choose(ANN, settings("box", ("none",)), ()).check(world)
    with pytest.raises(UserError, match="and none is set for them"):
        choose(BOB, settings("local"), ()).check()


def test_networks() -> None:
    assert row(ANN, "bubblewrap", settings("auto", ("none",))) == "bubblewrap none"
    assert row(TERMINAL, "bubblewrap", settings("auto", ("pypi.org",))) == "bubblewrap pypi.org"
    assert row(BOB, "bubblewrap", settings("auto", ("open",))) == "bubblewrap none apart", (
        "that is not theirs"
    )
    assert row(ANN, "", settings("auto", ("none",))) == row(TERMINAL, "", settings("auto", ("none",)))
    assert row(ANN, "", settings("auto", ("none",))) == "refused"
    route = Route(match=RouteMatch(platform="chat"), agent=MAIN_AGENT, network=("open",))
    assert row(BOB, "bubblewrap", settings("auto", ("none",), route)) == "bubblewrap open apart"
    assert read_network(("*.Example.org", "pypi.org")) == NetworkRules(hosts=("*.example.org", "pypi.org"))
    for wrong in [
        ("",),
        ("a b",),
        ("*",),
        ("*.*.a",),
        ("open", "a"),
        ("none", "none"),
        ("a/b",),
        ("x" * 300,),
    ]:
        with pytest.raises(ValueError):
            read_network(wrong)
        assert choose(ANN, settings("box", wrong), ()).network == NO_NETWORK, "unreadable denies"


def test_a_turn_says_who_commands() -> None:
    given = TurnInput(text="x", guidance=Guidance(origin=BOB.source, unattended="deny", backend="docker"))
    turn = Turn(
        id=TurnId("t"), session=SessionId("s"), agent=MAIN_AGENT, cause=Cause.JOB, input=given,
        created_at=SystemClock().now(), source=JOB.source,
    )  # fmt: skip
    who = Commander.of(turn)
    assert who == Commander(source=JOB.source, maker=BOB.source, alone=True, named="docker")
    assert row(who, "bubblewrap") == "docker none apart"


@pytest.mark.parametrize(
    ("who", "trusted"),
    [
        (None, True),
        (source("x", platform=LOCAL_DOOR), True),
        (source("x", "api", "script"), True),
        (source(None, "job", "cron"), True),
        (source("ann"), True),
        (source("ann", "group"), True),
        (source("bob"), False),
        (source(None, "group"), False),
        (source("ann", platform="team"), True),
        (source("bob", platform="team"), False),
        (source("ann", "group", "team"), True),
        (source("ann", platform="other"), False),
        (source("ann", account="second"), False),
        (source("ann", "webhook", "webhook"), False),
        (source("u", "api", "api_server"), True),
        (source("u", "api", "api_server", "owner"), True),
        (source("u", "api", "api_server", "admin"), True),
        (source("u", "api", "api_server", "guest"), False),
        (source("u", "api", "api_server", "unreadable"), False),
        (source("u", "api", "api_server", "gone"), False),
    ],
)
def test_who_is_the_owner_or_an_admin(who: Source | None, trusted: bool) -> None:
    assert is_trusted(who, settings()) is trusted


# --- what works here ---


async def test_probes_are_asked_once_and_kept() -> None:
    asked: list[str] = []

    async def probe(environ: Mapping[str, str], terminal: TerminalSettings) -> list[SandboxProbe]:
        asked.append(terminal.backend)
        await asyncio.sleep(0)
        return [SandboxProbe(name=name, boundary=KINDS[name], works=True) for name in ("landlock", "docker")]

    known = SandboxProbes({}, probe)
    first, second = await asyncio.gather(known.get(), known.get())
    assert first is second and asked == ["auto"]
    assert [each.name for each in first] == ["docker", "landlock"], "the strongest first"
    known.renew()
    assert await known.get() is first, "while it looks, the old answer counts"
    await known.close()


async def test_a_probe_that_hangs_or_fails_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    async def hang(name: str, environ: Mapping[str, str], terminal: TerminalSettings) -> SandboxProbe:
        if name == "docker":
            await asyncio.Event().wait()
        raise OSError("no such file")

    monkeypatch.setattr(probing, "PROBE_SECONDS", 0.01)
    monkeypatch.setattr(probing, "probe_sandbox", hang)
    found = {each.name: each for each in await probing.probe_all({}, TerminalSettings())}
    assert not any(each.works for each in found.values()) and found.keys() == probing.PROBES.keys()
    assert found["docker"].why == "it did not start within 0.01 s"
    assert "no such file" in found["landlock"].why


async def test_sandboxes_are_tried_in_a_process_of_their_own() -> None:
    environ = {"PATH": "/no/such/folder"}
    found = {each.name: each for each in await probing.probe_in_child(environ, TerminalSettings())}
    assert found.keys() == probing.PROBES.keys()
    assert not found["docker"].works and found["docker"].why and found["docker"].remedy


async def test_a_try_that_dies_leaves_no_sandbox_and_a_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "/bin/false")
    found = await probing.probe_in_child({}, TerminalSettings())
    assert {each.name for each in found} == probing.PROBES.keys()
    assert all(not each.works and "ended with code 1" in each.why for each in found)


async def test_a_try_that_does_not_end_is_killed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    deaf = tmp_path / "deaf"
    deaf.write_text("#!/bin/sh\ntrap '' TERM\n: >\"$0.heard\"\nwhile :; do sleep 0.1; done\n")
    deaf.chmod(0o700)
    before = set(children_of(os.getpid()))
    monkeypatch.setattr(sys, "executable", str(deaf))
    monkeypatch.setattr(probing, "_END_SECONDS", 0.1)
    asked = asyncio.create_task(probing.probe_in_child(dict(os.environ), TerminalSettings()))
    await until(Path(f"{deaf}.heard").exists, "it was not started")
    asked.cancel()
    await asyncio.wait([asked])
    assert set(children_of(os.getpid())) <= before


async def test_probes_that_nobody_waits_for_any_more_end() -> None:
    before = set(children_of(os.getpid()))
    known = SandboxProbes({"PATH": os.environ["PATH"]})
    known.renew()
    await asyncio.sleep(0.05)
    await known.close()
    assert set(children_of(os.getpid())) <= before


def test_facts_name_the_boundary_of_each_route() -> None:
    routes = (
        Route(match=RouteMatch(platform="chat"), agent=MAIN_AGENT, backend="docker", network=("pypi.org",)),
        Route(match=RouteMatch(platform="team"), agent=MAIN_AGENT),
    )
    facts = boundary_facts(settings("auto", (), *routes), probes("bubblewrap"))
    assert [(each["route"], each["who"], each["backend"], each["network"]) for each in facts] == [
        ("", "terminal", "local", "open"),
        ("", "owner and admins", "bubblewrap", "open"),
        ("", "strangers", "bubblewrap", "none"),
        ("routes[0]", "owner and admins", "docker", "pypi.org"),
        ("routes[0]", "strangers", "docker", "pypi.org"),
    ]


async def test_folders_of_strangers_go_when_nothing_has_used_them_for_long(tmp_path: Path) -> None:
    for name, days in (("old", 40), ("new", 1)):
        folder = tmp_path / "main" / "sandboxes" / "bubblewrap" / name / "workspace"
        folder.mkdir(parents=True)
        (folder / "file").write_text("x")
        at = time.time() - days * 86_400
        os.utime(folder, (at, at))
    gateway = GatewayBackends({}, SystemClock(), settings, fake_probes())
    own = tmp_path / "main" / "sandboxes" / "bubblewrap" / "workspace-0123abcd" / "home"
    own.mkdir(parents=True)
    os.utime(own, (0, 0))
    assert await gateway.sweep([tmp_path / "main"]) == "1 folders removed"
    assert {path.name for path in own.parent.parent.iterdir()} == {"new", "workspace-0123abcd"}


async def test_nobody_waits_for_the_probes_before_a_command_does(tmp_path: Path) -> None:
    begun, go = asyncio.Event(), asyncio.Event()

    async def probe(environ: Mapping[str, str], terminal: TerminalSettings) -> list[SandboxProbe]:
        begun.set()
        await go.wait()
        return [SandboxProbe(name="docker", boundary=KINDS["docker"], works=False)]

    gateway = GatewayBackends({}, SystemClock(), settings, SandboxProbes({}, probe))
    gateway._makers = {"local": make_local}
    agent = AgentBackends(Profile(agent=MAIN_AGENT, home=tmp_path, settings=settings()), tmp_path, gateway)
    assert await agent.place(ANN.source) is None and not begun.is_set()
    terminal = await agent.place(TERMINAL.source)
    assert terminal is not None and terminal.backend == "local", "that is sure before"
    assert gateway.facts()["boundaries"] == []
    looking = asyncio.create_task(gateway.tend())
    await begun.wait()
    go.set()
    await looking
    world = await agent.place(ANN.source)
    assert world is not None and world.backend == "local" and gateway.facts()["boundaries"]
    with pytest.raises(UserError, match="none works on this machine"):
        await agent.place(BOB.source)
    await gateway.close()


async def test_a_sandbox_is_given_the_folder_of_an_owners_job(tmp_path: Path) -> None:
    """The folder is on this machine, and commands would not see it by themselves."""

    class Blind:
        async def stat(self, session: str, path: str) -> None:
            return None

    def make(request: BackendRequest) -> Backend:
        backend = make_boxed("bubblewrap", request)
        backend.files = Blind()  # type: ignore[misc, assignment]
        return backend

    gateway = GatewayBackends({}, SystemClock(), settings, fake_probes("bubblewrap"))
    gateway._makers = {"bubblewrap": make}
    agent = AgentBackends(Profile(agent=MAIN_AGENT, home=tmp_path, settings=settings()), tmp_path, gateway)
    jobs = HomeJobs(tmp_path, {}, agent)
    folder, link = tmp_path / "project", tmp_path / "link"
    folder.mkdir()
    link.symlink_to(folder)
    run = SessionId("cron_0123456789ab_20260101_000000")
    for maker in (None, ANN.source):
        await jobs.check("", str(folder), maker)
        for path in (folder, link):
            assert await jobs.enter(run, str(path), maker) == str(folder)
    for path, who in ((folder, BOB.source), (tmp_path / "none", None), (Path("project"), None)):
        with pytest.raises(UserError, match="There is no folder"):
            await jobs.check("", str(path), who)
    await gateway.close()
