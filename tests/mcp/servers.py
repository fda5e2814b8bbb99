"""An MCP server for tests, made with the SDK's own server side: `python servers.py [http PORT]`. It does what
the words of its environment say (`BEHAVE`)."""

from __future__ import annotations

import base64
import os
import sys
import time
from typing import Any

from mcp.server.mcpserver import Context, Image, MCPServer
from mcp.server.request_state import RequestStateSecurity
from mcp_types import (
    CreateMessageRequest,
    CreateMessageRequestParams,
    ElicitRequest,
    ElicitRequestFormParams,
    InputRequiredResult,
    SamplingMessage,
    TextContent,
)
from pydantic import BaseModel

BEHAVE = os.environ.get("BEHAVE", "")
DOT = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPhfDwAChwGA60e6kgAAAABJRU5ErkJggg=="
)
# A key that lasts, so that a question outlives the process.
server = MCPServer("tests", request_state_security=RequestStateSecurity(keys=["k" * 32]))


class Sum(BaseModel):
    total: int


@server.tool()
def add(a: int, b: int) -> Sum:
    """Add two numbers."""
    return Sum(total=a + b)


@server.tool()
def note(words: str) -> str:
    """Write words down."""
    with open(os.environ.get("NOTES", os.devnull), "a") as file:
        file.write(words + "\n")
    return f"noted {words}"


@server.tool()
def show() -> Image:
    """Show a picture."""
    return Image(data=DOT, format="png")


@server.tool()
def variable(name: str) -> str:
    """Tell a variable of the environment."""
    return os.environ.get(name, "(none)")


@server.tool()
async def nap(seconds: float, context: Context) -> str:
    """Take a nap."""
    import anyio

    await context.report_progress(0, 1, "sleeping")
    await anyio.sleep(seconds)
    return "awake"


@server.tool()
def crash() -> str:
    """End at once."""
    os._exit(7)


@server.tool()
async def grow(context: Context) -> str:
    """Have one more tool."""

    def grown() -> str:
        """A tool that came later."""
        return "grown"

    server.add_tool(grown)
    await context.notify_tools_changed()
    return "grew"


@server.tool()
def order(what: str, context: Context) -> Any:
    """Order something; how many is asked."""
    if context.request_state == "asked" and context.input_responses:
        answer = context.input_responses["count"]
        return (
            f"{answer.content['count']} of {what} ordered" if answer.action == "accept" else "nothing ordered"
        )
    fields = {"count": {"type": "integer", "description": "a number"}}
    asked = ElicitRequestFormParams(
        message=f"How many of {what}?",
        requested_schema={"type": "object", "properties": fields, "required": ["count"]},
    )
    return InputRequiredResult(input_requests={"count": ElicitRequest(params=asked)}, request_state="asked")


@server.tool()
def muse(context: Context) -> Any:
    """Have a model think."""
    if context.input_responses:
        return context.input_responses["thought"].content.text
    words = SamplingMessage(role="user", content=TextContent(type="text", text="What is life?"))
    wish = CreateMessageRequest(params=CreateMessageRequestParams(messages=[words], max_tokens=10))
    return InputRequiredResult(input_requests={"thought": wish}, request_state="x")


@server.resource("note://one")
def one() -> str:
    """A note."""
    return "the first note"


@server.resource("note://by/{author}")
def notes_of(author: str) -> str:
    """Notes of one author."""
    return f"notes of {author}"


@server.prompt()
def greet(name: str) -> str:
    """Greet somebody."""
    return f"Say hello to {name}."


if BEHAVE.startswith("describe "):
    server._tool_manager._tools["add"].description = BEHAVE.removeprefix("describe ")
if BEHAVE.startswith("many "):
    for number in range(int(BEHAVE.removeprefix("many "))):

        def made(text: str = "") -> str:
            return text

        server.add_tool(
            made, name=f"tool_{number}", description=f"Tool number {number}, which does its own thing."
        )


if __name__ == "__main__":
    if BEHAVE == "hang":
        time.sleep(600)
    if BEHAVE == "flood":
        while True:
            os.write(1, b'{"jsonrpc":"2.0","method":"notifications/message","params":{}}\n' * 1000)
    if BEHAVE == "endless":
        while True:
            os.write(1, b"x" * 65536)
    if BEHAVE == "noise":
        print("Welcome! Listening on stdio …", flush=True)
    if BEHAVE == "exit":
        print("no such database", file=sys.stderr)
        sys.exit(3)
    if len(sys.argv) > 1 and sys.argv[1] == "http":
        server.run("streamable-http", port=int(sys.argv[2]))
    else:
        server.run("stdio")
