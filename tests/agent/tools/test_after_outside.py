"""What `terminal` asks once words from outside were read: where a command leads, this machine included."""

from __future__ import annotations

import asyncio
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from hermes.agent.context.project_files import PROJECT_NAMES, RULES, UPWARD
from hermes.agent.danger.scope import CommandScope
from hermes.agent.tools import files, patch
from hermes.agent.tools.registry import ApprovalCase, CommandRules
from hermes.agent.tools.terminal import ask_after_outside
from hermes.domain.ids import SessionId
from hermes.domain.ports.world import Backend
from hermes.domain.tools.services import ToolServices
from hermes.domain.tools.tool import ApprovalPrompt
from hermes.state.skills.places import PROJECT_FOLDERS

SESSION = SessionId("s")


def asked(command: str, folder: Path, **more: Any) -> tuple[str, ...]:
    prompt = question(command, folder, **more)
    return () if prompt is None else prompt.hosts


def question(
    command: str, folder: Path, *, running: bool = False, script: str | None = None, contained: bool = False
) -> ApprovalPrompt | None:
    async def processes(session: str) -> list[Any]:
        return [SimpleNamespace(running=running)]

    async def read(session: str, path: str, limit: int) -> bytes:
        return (script or "").encode()

    async def scope_in(world: object) -> CommandScope:
        raise AssertionError("the place is given")

    rules = CommandRules(scope_in=scope_in)
    if script is not None:
        asyncio.run(rules.trail.note_written(SESSION, (f"{folder}/a.py",)))
    backend = SimpleNamespace(processes=SimpleNamespace(list=processes), files=SimpleNamespace(read=read))
    scope = CommandScope(
        cwd=str(folder),
        workspace=str(folder),
        home="/home/ann",
        contained=contained,
        network_open=not contained,
    )
    case = ApprovalCase(
        services=ToolServices({Backend: backend, CommandRules: rules}), session=SESSION, scope=scope
    )
    return asyncio.run(ask_after_outside(case, {"command": command}))


def test_services_of_the_machine_are_asked_for_unless_the_session_left_something_running(
    tmp_path: Path,
) -> None:
    command = "curl -s http://localhost:9200/_cat"
    assert asked(command, tmp_path) == ("localhost",)
    assert asked(command, tmp_path, running=True) == ()
    assert asked("npm run dev & sleep 2; curl -s localhost:3000", tmp_path) == ()
    assert asked("ls 2>&1 && curl -s localhost:3000 &> out", tmp_path) == ("localhost",)


@pytest.mark.parametrize(
    ("script", "hosts"), [("import socket; socket.create_connection(v)", ("?",)), ("print(1)", ())]
)
def test_a_script_that_the_agent_wrote_is_read(tmp_path: Path, script: str, hosts: tuple[str, ...]) -> None:
    assert asked("python3 a.py", tmp_path, script=script) == hosts


ORDERS = [
    *PROJECT_NAMES,
    *UPWARD,
    f"{RULES}/a.mdc",
    "sub/CLAUDE.md",
    *(f"{name}/a/SKILL.md" for name in PROJECT_FOLDERS),
    ".agents",
    ".cursor",
]


@pytest.mark.parametrize("contained", [False, True])
@pytest.mark.parametrize("path", ORDERS)
def test_what_later_conversations_are_told_is_asked_for(path: str, contained: bool, tmp_path: Path) -> None:
    """Words of a page must not become orders in the next prompt."""
    scope = CommandScope(cwd=str(tmp_path), workspace=str(tmp_path), home="/home/ann", contained=contained)
    case = ApprovalCase(services=ToolServices({}), session=SESSION, scope=scope)
    whole = f"*** Begin Patch\n*** Add File: {path}\n+x\n*** End Patch"
    for before, after, arguments in (
        (files.ask_to_write, files.ask_after_outside, {"path": path, "content": "x"}),
        (patch._approval_check, patch._ask_after_outside, {"path": path, "old": "a", "new": "x"}),
        (patch._approval_check, patch._ask_after_outside, {"patch": whole}),
    ):
        asked_once = [asyncio.run(ask(case, arguments)) for ask in (before, after)]
        assert sum(prompt is not None for prompt in asked_once) == 1
        assert asyncio.run(after(case, {"path": "notes.md", "content": "x", "old": "a", "new": "x"})) is None
    for command in (f"echo x > {path}", f"cp page.md {path}"):
        prompt = question(command, tmp_path, contained=contained)
        assert (prompt is None) == bool(scope.write_fault(f"{tmp_path}/{path}")) and not (
            prompt and prompt.hosts
        )
