"""What every tool and every source of tools must keep to, as functions that plugins call in their own tests:
`check_tool(tool)`, `await check_call(tool, arguments)`, `await check_source(make)`."""

from __future__ import annotations

import asyncio
import inspect
import json
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta

from hermes.domain.chats.address import Address, Source, SourceKind
from hermes.domain.errors import HermesError
from hermes.domain.ids import MAIN_AGENT, CallId, SessionId, TurnId
from hermes.domain.tools.tool import (
    Approval,
    ChildTask,
    Clarification,
    ClientCall,
    Tool,
    ToolContext,
    ToolResult,
)
from hermes.domain.tools.toolbox import Toolbox, ToolSource, tool_fault

PERSON = Source(address=Address(platform="fake", chat="1"), kind=SourceKind.PRIVATE, user="u1")
_PATIENCE = 40.0


def tool_context(key: str = "k") -> ToolContext:
    """The context of a call that a person caused and that may take a minute."""
    return ToolContext(
        agent=MAIN_AGENT,
        session=SessionId("s"),
        turn=TurnId("t"),
        call_id=CallId("c"),
        key=key,
        output=lambda text: None,
        source=PERSON,
        deadline=datetime.now(UTC) + timedelta(minutes=1),
    )


def check_tool(tool: Tool) -> None:
    """A tool can be offered to a model: what is said of it is complete, and its schema is one."""
    fault = tool_fault(tool)
    assert not fault, f"{tool.name}: {fault}"
    assert tool.description.strip(), f"{tool.name} has no description"
    assert tool.toolset, f"{tool.name} is in no toolset"
    assert tool.seconds >= 0, f"{tool.name}: its seconds are negative"
    schema = json.loads(json.dumps(tool.parameters))
    properties = schema.get("properties", {})
    for name in schema.get("required", ()):
        assert name in properties, f"{tool.name} requires “{name}”, which it does not describe"
    for name, property_schema in properties.items():
        assert isinstance(property_schema, dict), f"{tool.name}: “{name}” has no schema"
    assert inspect.iscoroutinefunction(tool.run), f"{tool.name} does not run asynchronously"
    assert isinstance(tool.approval, Approval) or callable(tool.approval), f"{tool.name}: its approval"


async def check_call(tool: Tool, arguments: Mapping[str, object]) -> ToolResult | HermesError:
    """A call gives a result that can be stored, or says in a sentence why not. It leaves its arguments as
    they are, and can be judged more than once."""
    given = json.dumps(arguments, sort_keys=True, default=str)
    if tool.asks is not None:
        wanted = tool.asks(arguments)
        assert isinstance(wanted, Clarification | ChildTask | ClientCall), f"{tool.name} waits for {wanted!r}"
    if not isinstance(tool.approval, Approval):
        judged = [await _judge(tool, arguments) for _ in range(2)]
        assert judged[0] == judged[1], f"{tool.name} is judged differently the second time"
    try:
        async with asyncio.timeout(_PATIENCE):
            result = await tool.run(tool_context(), arguments)
    except HermesError as error:
        assert str(error).strip(), f"{tool.name} fails without a word"
        return error
    assert isinstance(result, ToolResult), f"{tool.name} gave {result!r}"
    assert isinstance(result.text, str), f"{tool.name}: its text is {result.text!r}"
    assert json.dumps(arguments, sort_keys=True, default=str) == given, f"{tool.name} changed its arguments"
    return result


async def _judge(tool: Tool, arguments: Mapping[str, object]) -> str | None:
    assert not isinstance(tool.approval, Approval)
    try:
        prompt = await tool.approval(SessionId("s"), arguments)
    except HermesError as error:
        return str(error)
    assert prompt is None or (prompt.text and prompt.digest), f"{tool.name} asks without words or digest"
    return None if prompt is None else prompt.digest


async def check_source(make: Callable[[], ToolSource]) -> None:
    """A source can be opened, asked, closed and opened again; its tools can be offered beside others, and
    while nothing changes it is silent."""
    source, box = make(), Toolbox()
    for _ in range(2):
        async with asyncio.timeout(_PATIENCE):
            await source.open()
            tools = await source.tools()
        for tool in tools:
            check_tool(tool)
        assert len({tool.name for tool in tools}) == len(tools), "two tools have one name"
        box.offer("source", tools)
        assert list(box.all) == [tool.name for tool in tools] and not box.problems
        again = await source.tools()
        assert [tool.name for tool in again] == [tool.name for tool in tools], "it changes without a word"
        waiting = asyncio.ensure_future(source.changed())
        await asyncio.sleep(0)
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
        async with asyncio.timeout(_PATIENCE):
            await source.close()
        box.withdraw("source")
        assert not box.all
