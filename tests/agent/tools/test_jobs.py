"""`cronjob`: what it asks the gateway for, and when a person is asked first."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from hermes.app.jobs import job_tool
from hermes.domain.chats.rows import SearchHit
from hermes.domain.errors import UserError
from hermes.domain.ids import MAIN_AGENT, CallId, SessionId, TurnId
from hermes.domain.tools.tool import Tool, ToolContext
from hermes.testing.backends import fixed_scope, local_backend
from hermes.testing.harness import Journey
from hermes.testing.tools import tool_services, tools_of


async def nothing(query: str, limit: int, context: ToolContext, *place: object) -> list[SearchHit]:
    return []


def cronjob(folder: Path, chat: Journey | None) -> Tool:
    backend = local_backend(home=folder, environ=os.environ, workspace=folder)
    act = job_tool(lambda: None if chat is None else chat.gateway)
    bench = tool_services(backend=backend, recall=nothing, scope_in=fixed_scope(), jobs=act)
    (tool,) = tools_of(bench, "cronjob")
    return tool


async def use(tool: Tool, turn: TurnId | None = None, **arguments: Any) -> str:
    context = ToolContext(
        agent=MAIN_AGENT,
        session=SessionId("s"),
        turn=turn or TurnId("t"),
        call_id=CallId("c"),
        key="k",
        output=lambda text: None,
    )
    return (await tool.run(context, arguments)).text


async def test_the_life_of_a_job(tmp_path: Path) -> None:
    async with Journey(folder=tmp_path) as chat:
        tool = cronjob(tmp_path, chat)
        asked = chat.world.write("look after my oven")
        await chat.until_seen("look after my oven")
        turn = (await chat.database.read(lambda tx: tx.inbox.find(asked.delivery)))[0].turn
        assert "There are no jobs." in await use(tool, turn, action="list")
        made = await use(
            tool, turn, action="create", schedule="every 2h", prompt="look", name="Oven", repeat=3
        )
        assert made.startswith("Made: ") and "every 2h" in made
        assert "every 1d" in await use(tool, turn, action="update", job="oven", schedule="every 1d")
        assert (await use(tool, turn, action="pause", job="Oven")).startswith("Paused")
        assert (await use(tool, turn, action="resume", job="Oven")).startswith("Resumed")
        assert (await use(tool, turn, action="run", job="Oven")).startswith("Runs now")
        assert "There are no jobs." in await use(tool, action="list"), "a turn of nobody's sees nothing"
        assert (await use(tool, turn, action="remove", job="Oven")).startswith("Removed")
        for wrong in (
            {"action": "pause"},
            {"action": "pause", "job": "x"},
            {"action": "create", "prompt": "x"},
        ):
            with pytest.raises(UserError):
                await use(tool, turn, **wrong)


@pytest.mark.parametrize(
    ("arguments", "asked"),
    [
        ({"action": "create", "schedule": "1h", "prompt": "x"}, ""),
        ({"action": "create", "schedule": "1h", "prompt": "x", "deliver": "origin, local"}, ""),
        ({"action": "create", "schedule": "1h", "prompt": "x", "deliver": "telegram:5"}, "telegram:5"),
        ({"action": "update", "job": "x", "deliver": "all"}, "all"),
        ({"action": "create", "schedule": "1h", "script": "wipe.sh"}, "wipe.sh"),
        ({"action": "list"}, ""),
    ],
)
async def test_what_is_asked_for_first(tmp_path: Path, arguments: Mapping[str, Any], asked: str) -> None:
    tool = cronjob(tmp_path, None)
    assert callable(tool.approval)
    ask = await tool.approval(SessionId("s"), arguments)
    assert (ask is None) == (not asked)
    assert ask is None or (asked in ask.text and ask.digest)


def test_a_workbench_without_jobs_has_no_such_tool(tmp_path: Path) -> None:
    backend = local_backend(home=tmp_path, environ=os.environ, workspace=tmp_path)
    bench = tool_services(backend=backend, recall=nothing, scope_in=fixed_scope())
    assert "cronjob" not in {tool.name for tool in tools_of(bench)}
