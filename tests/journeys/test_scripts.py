"""Journeys of scripts that call tools: what they do passes the same dispatcher, and a crash at any write
repeats nothing and tells what had been started."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path

import pytest

from hermes.domain.chats.rows import SearchHit
from hermes.domain.ports.agent import ModelRequest
from hermes.domain.tools.tool import Effect, Tool, ToolContext
from hermes.domain.turns.event import ToolFinished, ToolStarted
from hermes.testing.backends import fixed_scope, local_backend
from hermes.testing.harness import Journey
from hermes.testing.model import Say, call, say
from hermes.testing.tools import tool_services, tools_of, world_tools
from hermes.testing.world import Deed
from tests.journeys.cut import cut_everywhere

CODE = """
import hermes_tools as tools
print(tools.read(token="a"))
print(tools.once(token="b"))
print(tools.keyed(token="c"))
try:
    tools.danger(token="d")
except tools.ToolError as error:
    print(error)
"""


async def _nobody(query: str, limit: int, context: ToolContext, *place: object) -> list[SearchHit]:
    return []


@pytest.fixture
async def execute_code(tmp_path: Path) -> AsyncIterator[Tool]:
    backend = local_backend(home=tmp_path / "agent", environ={"PATH": "/usr/bin:/bin"}, workspace=tmp_path)
    await backend.open()
    services = tool_services(backend=backend, recall=_nobody, scope_in=fixed_scope())
    yield tools_of(services, "code_execution")[0]
    await backend.close()


def _script(request: ModelRequest) -> Say:
    done = [entry.record.text for entry in request.entries if isinstance(entry.record, ToolFinished)]
    return say(done[-1]) if done else call("execute_code", json.dumps({"code": CODE}))


def _journey(execute_code: Tool, folder: Path) -> Journey:
    chat = Journey(folder=folder, script=_script)
    chat.tools = [*world_tools(chat.world.effect), execute_code]
    return chat


async def test_what_a_script_calls_is_checked_and_kept(tmp_path: Path, execute_code: Tool) -> None:
    async with _journey(execute_code, tmp_path) as chat:
        chat.world.write("go")
        await chat.until_seen("read did a")
        await chat.until_idle()
        (answer,) = chat.world.seen()
        assert "once did b\nkeyed did c" in answer and "[success; 4 tool calls" in answer
        assert "danger would have to be asked for" in answer and "May I do d?" in answer
        assert not any(deed.text == "d" for deed in chat.world.did(Deed.EFFECT))
        records = [entry.record for entry in chat.model.requests[-1].entries]
        starts = [(r.name, r.effect, r.inside) for r in records if isinstance(r, ToolStarted)]
        assert starts == [
            ("execute_code", Effect.ONCE, ""),
            ("once", Effect.ONCE, '{"token": "b"}'),
            ("keyed", Effect.KEYED, '{"token": "c"}'),
        ]


async def _story(chat: Journey) -> None:
    if not chat.world.updates:
        chat.world.write("go")
    await chat.until_taken()
    await chat.until_idle()
    answer = "\n".join(chat.world.seen())
    done = Counter(deed.chat for deed in chat.world.did(Deed.EFFECT))
    assert max(done.values(), default=0) <= 1, "a crash repeats nothing that a script did"
    if "[success" not in answer:
        assert "outcome is unknown" in answer
        for name in ("once", "keyed"):  # what happened was on disk before
            assert not done[name] or f'{name} {{"token"' in answer


@pytest.mark.parametrize("after", [True, False], ids=["after", "before"])
async def test_a_crash_at_any_write_repeats_nothing_and_is_told(
    tmp_path: Path, execute_code: Tool, full: bool, after: bool
) -> None:
    await cut_everywhere(tmp_path, partial(_journey, execute_code), _story, after=after, full=full)
