"""A home that was really used: an agent has to ask before it reads, changes or deletes any file in it."""

from __future__ import annotations

import shlex
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path

import pytest

from hermes.agent.danger.scope import UserLocks, is_wide
from hermes.app.agents.world_scopes import WorldScopes
from hermes.app.homes import closed_homes
from hermes.app.messaging import Messaging
from hermes.domain.errors import UserError
from hermes.domain.ids import MAIN_AGENT, AgentId, CallId, SessionId, TurnId
from hermes.domain.settings.settings import HostedAgent, Profile, Settings
from hermes.domain.tools.tool import Tool, ToolContext
from hermes.state.files.media import MediaFiles
from hermes.state.home.locks import runtime_folders
from hermes.state.store.writer import SqliteStore
from hermes.testing.api import ApiWorld
from hermes.testing.backends import local_backend
from hermes.testing.clock import FakeClock
from tests.cli.command import gateway, hermes

AGENTS = "agents: {bee: {}, wasp: {home_dir: ../wasp}}\n"
SESSION = SessionId("")
"""No session in particular: no turn runs here, which would have a backend of its own."""
MADE = (
    ".env", "config.yaml", "gateway.db", "gateway.db-wal", "gateway.lock", "gateway.pid", "gateway.sock",
    "gateway_state.json", "logs/gateway.log", "backups/*.db", "sessions/*.jsonl", "cache/shells/*",
    "cache/output/*", "agents/bee/memories/MEMORY.md", "skills/mine/SKILL.md", "profiles/other/config.yaml",
)  # fmt: skip


def use(home: Path) -> set[Path]:
    """Let a gateway work in a fresh home; all files that were there at some time."""
    for name in (
        ".env",
        "skills/mine/SKILL.md",
        "agents/bee/memories/MEMORY.md",
        "agents/bee/memories/USER.md",
        "profiles/other/config.yaml",
    ):
        (home / name).parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        (home / name).write_text("")
        (home / name).chmod(0o600)
    (home / "config.yaml").write_text(AGENTS)
    with gateway(home) as running:
        assert "20000" in hermes(home, "-z", "run: seq 20000").out
        seen = set(home.parent.rglob("*"))
        assert running.stop() == 0
    seen |= set(home.parent.rglob("*"))
    for pattern in MADE:
        assert any(path.match(f"{home}/{pattern}") for path in seen), pattern
    return {path for path in seen if not path.is_dir() and path.suffix != ".stderr"}


def asker(tools: list[Tool]) -> Callable[..., Awaitable[bool]]:
    by_name = {tool.name: tool for tool in tools}

    async def asks(name: str, **arguments: object) -> bool:
        """Whether somebody is asked first, or nobody can allow it."""
        approval = by_name[name].approval
        assert callable(approval)
        return await approval(SESSION, arguments) is not None or await refuses(name, arguments)

    async def refuses(name: str, arguments: Mapping[str, object]) -> bool:
        context = ToolContext(
            agent=MAIN_AGENT,
            session=SESSION,
            turn=TurnId("t"),
            call_id=CallId("c"),
            key="k",
            output=lambda text: None,
        )
        result = await by_name[name].run(context, arguments)
        return result.failed and "out of reach" in result.text

    return asks


async def unasked(asks: Callable[..., Awaitable[bool]], path: Path) -> set[str]:
    """What can be done with a file without asking."""
    name = shlex.quote(str(path))
    tried = {
        "read": await asks("read_file", path=str(path)) and await asks("terminal", command=f"cat {name}"),
        "searched": await asks("search_files", path=str(path), pattern="x"),
        "write": await asks("write_file", path=str(path), content="")
        and await asks("terminal", command=f"echo > {name}"),
        "patched": await asks("patch", path=str(path), old="a", new="b"),
        "deleted": await asks("terminal", command=f"rm -f {name}"),
        "moved": await asks("terminal", command=f"mv {name} /tmp/elsewhere"),
    }
    return {what for what, asked in tried.items() if not asked}


async def test_every_file_of_a_used_home_is_asked_for(tmp_path: Path) -> None:
    home = tmp_path / "home"
    files = use(home)
    readable = {
        MAIN_AGENT: ("cache/output/", "skills/", "SOUL.md"),
        AgentId("bee"): ("agents/bee/memories/MEMORY.md", "agents/bee/SOUL.md"),
        AgentId("wasp"): (),
    }
    environ = {"HERMES_HOME": str(home), "HERMES_RUNTIME_DIR": str(tmp_path / "run")}
    async with ApiWorld(home=home, environ=environ) as world:
        for agent, prefixes in readable.items():
            asks = asker(list((await world.app.gateway.agents.get(agent)).toolbox.all.values()))
            for path in files:
                name = str(path.relative_to(home)) if path.is_relative_to(home) else str(path)
                may = {"read", "searched"} if name.startswith(prefixes) and prefixes else set()
                assert await unasked(asks, path) == may, (agent, path)
            for whole in (home, tmp_path / "wasp", home / "agents", tmp_path):
                # Deleting the user's whole home is not asked for: it is refused.
                assert whole == tmp_path or await asks("terminal", command=f"rm -rf {whole}"), (agent, whole)
                assert await asks("terminal", command=f"tar czf /tmp/x.tgz {whole}"), (agent, whole)
                assert await asks("terminal", command=f"grep -r key {whole}"), (agent, whole)


async def test_each_agent_works_freely_in_its_own_workspace_alone(tmp_path: Path) -> None:
    home = tmp_path / "home"
    own = {
        "main": home / "workspace",
        "bee": home / "agents/bee/workspace",
        "wasp": tmp_path / "wasp/workspace",
    }
    async with ApiWorld(home=home, config=AGENTS) as world:
        for agent in own:
            runtime = await world.app.gateway.agents.get(AgentId(agent))
            asks = asker(list(runtime.toolbox.all.values()))
            for owner, workspace in own.items():
                done = await unasked(asks, workspace / "notes.txt")
                assert done == (
                    {"read", "searched", "write", "patched", "deleted", "moved"} if owner == agent else set()
                )


async def test_nothing_is_sent_from_a_workspace_that_is_too_wide(tmp_path: Path) -> None:
    home, letter = tmp_path / ".hermes", tmp_path / "letter.txt"
    (tmp_path / "project").mkdir()
    for path in (letter, tmp_path / "project" / "letter.txt"):
        path.write_text("dear")
    messaging = Messaging(home, lambda: pytest.fail("nothing is sent"))
    profile = Profile(agent=MAIN_AGENT, home=home, settings=Settings())
    async with SqliteStore(None) as store:
        media = MediaFiles(home / "media", store.scoped(MAIN_AGENT), FakeClock())
        scopes, environ = WorldScopes(profile, (str(home),), UserLocks), {"HOME": str(tmp_path)}
        backend = local_backend(home=home, workspace=tmp_path, environ=environ)
        wide = messaging.files(profile, backend, media, scopes)
        with pytest.raises(UserError, match="outside of the folders"):
            await wide("s", str(letter))
        backend = local_backend(home=home, workspace=tmp_path / "project", environ=environ)
        own = messaging.files(profile, backend, media, scopes)
        assert (await own("s", "letter.txt")).name == "letter.txt"


def test_the_usual_home_and_that_of_a_profile_are_closed_too(tmp_path: Path) -> None:
    usual, other = tmp_path / ".hermes", tmp_path / "elsewhere"
    for home in (usual / "profiles/work", other / "profiles/work", other):
        closed = closed_homes(home, {"HOME": str(tmp_path), "HERMES_HOME": str(home)}, Settings())
        root = usual if home.is_relative_to(usual) else other
        assert {str(home), str(root), str(usual)} <= set(closed)


def test_homes_inside_another_are_closed_with_it(tmp_path: Path) -> None:
    home = tmp_path / ".hermes"
    hosted = {f"bee{number}": HostedAgent() for number in range(50)}
    hosted["wasp"] = HostedAgent(home_dir=str(tmp_path / ".hermes-wasp"))
    settings = Settings(agents=hosted)
    closed = closed_homes(home, {"HOME": str(tmp_path), "XDG_STATE_HOME": str(tmp_path / "state")}, settings)
    locks = tmp_path / "state/hermes/gateway-locks"
    listed = set(map(str, runtime_folders({})))
    assert {str(home), str(tmp_path / ".hermes-wasp"), str(locks)} | listed <= set(closed)
    assert len(set(closed) - listed) < 6


def test_a_socket_outside_of_the_home_is_closed_too(tmp_path: Path) -> None:
    home, runtime = tmp_path / ("deep/" * 30), tmp_path / "run"
    runtime.mkdir()
    closed = closed_homes(home, {"HOME": str(tmp_path), "XDG_RUNTIME_DIR": str(runtime)}, Settings())
    sockets = [path for path in closed if path.endswith(".sock")]
    assert sockets and all(not path.startswith(str(home)) for path in sockets)


def test_a_home_folder_is_too_wide_by_any_name(tmp_path: Path) -> None:
    real, link = tmp_path / "real", tmp_path / "link"
    (real / "project").mkdir(parents=True)
    link.symlink_to(real)
    for workspace, home in ((real, link), (link, real), (tmp_path, link)):
        assert is_wide(str(workspace), str(home))
    assert not is_wide(str(real / "project"), str(link))
