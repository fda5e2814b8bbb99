"""`terminal` with sudo in the command: who is asked for a password, and what is refused."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from hermes.agent.danger.judge import judge_command
from hermes.agent.danger.scope import CommandScope
from hermes.app.agents.sudo import VARIABLE, SudoPasswords
from hermes.control.turn import passwords
from hermes.control.turn.passwords import PasswordDesk
from hermes.domain.chats.address import LOCAL_DOOR, Address, Source, SourceKind
from hermes.domain.errors import UserError
from hermes.domain.ids import MAIN_AGENT, CallId, SessionId, TurnId
from hermes.domain.ports.world import Boundary, Command, CommandResult
from hermes.domain.settings.declaring import Secret
from hermes.domain.settings.settings import Settings
from hermes.domain.tools.tool import ToolContext, ToolResult
from hermes.domain.word import replace
from hermes.state.settings.secrets import Secrets
from hermes.testing.backends import fixed_scope, local_backend
from hermes.testing.tools import tool_services, tools_of

SCOPE = CommandScope(cwd="/work", workspace="/work", home="/home/ann")


def context(platform: str = LOCAL_DOOR) -> ToolContext:
    source = Source(address=Address(platform=platform, chat="1"), kind=SourceKind.PRIVATE, user="u")
    return ToolContext(
        agent=MAIN_AGENT, session=SessionId("s"), turn=TurnId("t"), call_id=CallId("c"), key="k",
        output=lambda text: None, source=source,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("command", "found"),
    [
        ("sudo apt-get update", ("",)),
        ("cd /tmp && sudo -u bob -n id", ("-u bob -n",)),
        ("echo x | sudo -S id", ("-S",)),
        ("x=$(sudo id); (sudo -k id)", ("", "-k")),
        ("bash -c 'sudo id'", ("",)),
        ("'su'do id", ("",)),
        ("echo sudo id", ()),
        ("grep -r 'sudo rm' . # sudo", ()),
        ("cat <<'END'\nsudo id\nEND", ()),
    ],
)
def test_real_words_alone(command: str, found: tuple[str, ...]) -> None:
    assert judge_command(command, SCOPE).sudo == found


class World:
    """A local backend that says of itself what a test wants, and notes what it is told to run."""

    def __init__(self, tmp_path: Path, **world: Any) -> None:
        self.real = local_backend(home=tmp_path / "agent", environ={"PATH": "/bin"}, workspace=tmp_path)
        self._told = world
        self.ran: list[Command] = []
        self.files, self.processes, self.cwd = self.real.files, self.real.processes, self.real.cwd
        self.result = CommandResult(output="", code=0)

    async def place(self, session: str = "") -> Any:
        return replace(await self.real.place(), **self._told)

    async def run(self, command: Command, output: object) -> CommandResult:
        self.ran.append(command)
        if command.password is not None and self.result.code:
            assert await command.password(0) == ""
        return self.result


async def use(world: World, command: str, sudo: Any = None) -> ToolResult:
    async def none(query: str, limit: int, context: ToolContext, *place: object) -> list[Any]:
        return []

    backend: Any = world
    given = tool_services(backend=backend, recall=none, scope_in=fixed_scope(SCOPE), sudo=sudo)
    (terminal,) = (tool for tool in tools_of(given) if tool.name == "terminal")
    return await terminal.run(context(), {"command": command})


async def refuses(context: ToolContext, wrong: int) -> str:
    raise UserError("There is none.", hint="Set one.")


async def test_it_may_ask_only_where_it_is_run(tmp_path: Path) -> None:
    world = World(tmp_path)
    await use(world, "sudo true", refuses)
    await use(world, "echo sudo true", refuses)
    assert [command.password is not None for command in world.ran] == [True, False]
    world.result = CommandResult(output="sudo: no password was provided\n", code=1)
    text = (await use(world, "sudo true", refuses)).text
    assert text.endswith("[exit code 1]\n[sudo: There is none. Set one.]")
    for options in ("-S", "-nS", "--stdin", "-A", "--askpass"):
        with pytest.raises(UserError, match="not from a command"):
            await use(world, f"echo word | sudo {options} true", refuses)


@pytest.mark.parametrize("told", [{"sandbox": "bubblewrap"}, {"boundary": Boundary.CONTAINER}])
async def test_there_is_none_in_a_sandbox(tmp_path: Path, told: dict[str, Any]) -> None:
    world = World(tmp_path, **told)
    with pytest.raises(UserError, match="There is no sudo in this sandbox"):
        await use(world, "sudo true", refuses)
    assert world.ran == []


async def test_who_gives_it() -> None:
    desk = PasswordDesk()
    none, one = Secrets({}), Secrets({VARIABLE: "of the settings"})

    def given(secrets: Secrets) -> SudoPasswords:
        return SudoPasswords(secrets, Settings, lambda: desk)

    assert await given(one)(context(), 0) == "of the settings"
    with pytest.raises(UserError, match="did not accept SUDO_PASSWORD"):
        await given(one)(context(), 1)
    assert "of the settings" not in one.redact("it is of the settings")
    for platform, secrets in (("telegram", none), ("telegram", one), (LOCAL_DOOR, none)):
        with pytest.raises(UserError, match="never asked for in a conversation"):
            await given(secrets)(context(platform), 0)  # a stranger; and a terminal that nobody sits at
    following = desk.follow(TurnId("t"))
    heard = asyncio.ensure_future(anext(following))
    await asyncio.sleep(0)
    asking = asyncio.ensure_future(given(none)(context(), 0))
    request = await heard
    assert not desk.give("another", Secret("x")) and desk.give(request.id, Secret("typed"))
    assert await asking == "typed" and not desk.give(request.id, Secret("late"))
    assert await given(none)(context(), 0) == "typed", "kept for the session"
    heard = asyncio.ensure_future(anext(following))
    asking = asyncio.ensure_future(given(none)(context(), 1))
    request = await heard
    assert request.text.startswith("Wrong.") and desk.give(request.id, Secret(""))
    with pytest.raises(UserError, match="No password was given"):
        await asking
    await following.aclose()
    with pytest.raises(UserError, match="never asked for"):
        await given(none)(context(), 0)  # the wrong one is forgotten, and nobody is there any more


async def test_nobody_waits_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(passwords, "ANSWER_SECONDS", 0.01)
    with pytest.raises(UserError, match=r"within 0\.01 s"):
        await PasswordDesk().ask(SessionId("s"), TurnId("t"), 0)
