"""What `terminal` asks once words from outside were read: where a command leads, this machine included."""

from __future__ import annotations

import asyncio
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from hermes.agent.danger.scope import CommandScope
from hermes.agent.tools.registry import ApprovalCase, CommandRules
from hermes.agent.tools.terminal import ask_after_outside
from hermes.domain.ids import SessionId
from hermes.domain.ports.world import Backend
from hermes.domain.tools.services import ToolServices

SESSION = SessionId("s")


def asked(command: str, folder: Path, *, running: bool = False, script: str | None = None) -> tuple[str, ...]:
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
    scope = CommandScope(cwd=str(folder), workspace=str(folder), home="/home/ann")
    case = ApprovalCase(
        services=ToolServices({Backend: backend, CommandRules: rules}), session=SESSION, scope=scope
    )
    prompt = asyncio.run(ask_after_outside(case, {"command": command}))
    return () if prompt is None else prompt.hosts


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
