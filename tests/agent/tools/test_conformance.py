"""The suite for tools and sources, over those that Hermes brings along; and that it notices what is wrong."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from hermes.agent.tools.registry import ToolInvocation, ToolRegistry
from hermes.domain.errors import HermesError
from hermes.domain.ids import SessionId
from hermes.domain.tools.services import ToolServices
from hermes.domain.tools.tool import ApprovalPrompt, Effect, Tool, ToolContext, ToolResult
from hermes.domain.word import replace
from hermes.testing.tool_suite import check_call, check_source, check_tool, tool_context
from hermes.testing.tools import DELEGATE, world_tools
from tests.agent.driving import tool
from tests.agent.tools.test_tools import Bench
from tests.journeys.test_toolbox import LabSource, plain

CALLS: dict[str, dict[str, object]] = {
    "read_file": {"path": "notes.txt"},
    "patch": {"path": "notes.txt", "old": "words", "new": "deeds"},
    "write_file": {"path": "notes.txt", "content": "new"},
    "search_files": {"pattern": "words"},
    "terminal": {"command": "echo hello"},
    "process": {"action": "list"},
    "session_search": {"query": "words"},
    "clarify": {"question": "Which?"},
    "todo": {"items": [{"text": "a", "status": "pending"}]},
}


@pytest.fixture
async def bench(tmp_path: Path) -> AsyncIterator[Bench]:
    made = Bench(tmp_path)
    (made.folder / "notes.txt").write_text("words\n")
    yield made
    await made.backend.close()


async def test_the_tools_that_hermes_brings_along(bench: Bench) -> None:
    assert set(CALLS) <= set(bench.tools)
    for name, arguments in CALLS.items():
        check_tool(bench.tools[name])
        result = await check_call(bench.tools[name], arguments)
        assert name == "clarify" or isinstance(result, ToolResult), f"{name}: {result}"
        nonsense = await check_call(bench.tools[name], {"nonsense": 1})
        assert isinstance(nonsense, HermesError), f"{name} takes anything"


async def test_the_tools_of_tests() -> None:
    async def nothing(name: str, key: str, token: str) -> None:
        """No world to act on."""

    for one in (*world_tools(nothing), DELEGATE):
        check_tool(one)


async def test_a_source(tmp_path: Path) -> None:
    await check_source(lambda: LabSource(plain("measure"), plain("weigh")))


async def _none(context: ToolContext, arguments: object) -> ToolResult:
    return None  # type: ignore[return-value]


async def _changing(context: ToolContext, arguments: dict[str, object]) -> ToolResult:
    arguments["more"] = 1
    return ToolResult(text="")


judged: list[int] = []


async def _moody(session: SessionId, arguments: object) -> ApprovalPrompt | None:
    judged.append(1)
    return ApprovalPrompt(text="?", digest=f"{len(judged)}")


@pytest.mark.parametrize(
    ("wrong", "why"),
    [
        (replace(tool("x"), description=" "), "no description"),
        (replace(tool("x"), parameters={"type": "object", "required": ["a"]}), "does not describe"),
        (replace(tool("x"), run=lambda context, arguments: None), "asynchronously"),
        (replace(tool("x y")), "its name"),
    ],
)
def test_it_notices_a_bad_tool(wrong: Tool, why: str) -> None:
    with pytest.raises(AssertionError, match=why):
        check_tool(wrong)


@pytest.mark.parametrize(
    ("wrong", "why"),
    [
        (replace(tool("x"), run=_none), "gave None"),
        (replace(tool("x"), run=_changing), "changed its arguments"),
        (replace(tool("x"), approval=_moody), "judged differently"),
        (replace(tool("x"), asks=lambda arguments: "you"), "waits for"),
    ],
)
async def test_it_notices_a_bad_call(wrong: Tool, why: str) -> None:
    with pytest.raises(AssertionError, match=why):
        await check_call(wrong, {})


async def test_it_notices_a_bad_source() -> None:
    with pytest.raises(AssertionError, match="one name"):
        await check_source(lambda: LabSource(plain("measure"), plain("measure")))
    assert tool_context().source is not None


def test_a_registered_tool_may_say_how_long_it_takes() -> None:
    own = ToolRegistry()

    @own.tool("lab", Effect.READ, seconds=60)
    async def measure(invocation: ToolInvocation) -> str:
        """Measure."""
        return "1"

    (made,) = own.make(ToolServices({}))
    assert made.name == "measure" and made.seconds == 60
