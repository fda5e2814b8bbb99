"""A gateway with its HTTP door, an agent with tools of its own, and a model that does what the words say; it
lives until its input is closed.

`gateway_child.py <home>` prints its address."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path

from hermes.domain.errors import FaultKind, ModelFault, Refused
from hermes.domain.ids import CallId
from hermes.domain.ports.agent import ModelRequest
from hermes.domain.tools.tool import Effect, Tool, ToolCall, ToolContext, ToolResult
from hermes.domain.turns.event import ToolFinished, UserSaid
from hermes.domain.turns.turn import Speaker
from hermes.testing.api import ApiWorld
from hermes.testing.model import Say, ScriptedModel, call, last_words, say
from hermes.testing.tools import world_tools

DID: list[str] = []
"""What own tools did, in order: clients that repeat a request must not repeat it."""
FAULTS = {
    "no key": ModelFault("The model's service did not accept the key.", kind=FaultKind.BAD_KEY),
    "too long": ModelFault("This is longer than the model reads.", kind=FaultKind.TOO_LONG),
    "too many": ModelFault(
        "The account has used its share.",
        kind=FaultKind.LIMITED_UNTIL,
        after=0,
        until=datetime(2100, 1, 1, tzinfo=UTC),
    ),
    "withheld": ModelFault("A filter withheld the answer.", kind=FaultKind.FILTERED),
}
PARIS = json.dumps({"city": "Paris"})


def results_now(request: ModelRequest) -> list[ToolFinished]:
    """The results since the user last spoke, here or in the history that a client sent."""
    place = max(at for at, entry in enumerate(request.entries) if isinstance(entry.record, UserSaid))
    records = [entry.record for entry in request.entries[place:]]
    return [record for record in records if isinstance(record, ToolFinished)]


def script(request: ModelRequest) -> Say:
    words, results = last_words(request), results_now(request)
    must, wanted = request.options.must_call, request.options.json
    if must and not results:
        return call(must[0], PARIS)
    if wanted is not None:
        return say(PARIS, pieces=2)
    for name, fault in FAULTS.items():
        if name in words and ("after work" not in words or results):
            return Say(text="Well, ", breaks_after=6, error=fault) if "midway" in words else Say(error=fault)
    if "after work" in words:
        return call("once", json.dumps({"token": words}))
    if "weather" in words:
        answered = [result.text for result in results]
        past = [message.text for message in request.history if message.by is Speaker.TOOL]
        if answered or (past and not words.startswith("the weather")):
            return say(f"It is {(answered or past)[-1]} in Paris.", pieces=3)
        asked = ToolCall(id=CallId("call_weather"), name="get_weather", arguments=PARIS)
        own = ToolCall(id=CallId("call_own"), name="read", arguments='{"token": "the sky"}')
        return Say(text="Let me see. ", calls=(own, asked) if "and look" in words else (asked,))
    for tool in ("read", "failing", "danger", "clarify"):
        if tool in words:
            return _use(tool, results)
    if "think" in words:
        return Say(thought="It is a riddle.", text="Forty-two.", pieces=2)
    if "picture" in words:
        said = [entry.record for entry in request.entries if isinstance(entry.record, UserSaid)][-1]
        return say(f"I see {len(said.attachments)} picture.")
    if "hang" in words:
        return Say(text="one two three", pieces=3, hold=asyncio.Event())
    if "break" in words:
        return Say(error=Refused("the script says so"))
    if "what came of it" in words:
        records = [entry.record for entry in request.entries]
        return say("; ".join(record.text for record in records if isinstance(record, ToolFinished)))
    if "did what" in words:
        return say(json.dumps(DID))
    return say(f"You said: {words}", pieces=4)


def _use(tool: str, results: list[ToolFinished]) -> Say:
    """A call of an own tool after a few words, and then what came of it."""
    if not results:
        question = {"question": "Which one?", "options": ["red", "blue"]}
        given = question if tool == "clarify" else {"token": "x"}
        return Say(text="I try. ", calls=call(tool, json.dumps(given)).calls, pieces=2)
    last = results[-1]
    return say(f"It {'failed' if last.failed else 'worked'}: {last.text}", pieces=3)


async def act(tool: str, key: str, token: str) -> None:
    DID.append(f"{tool} {token}")


async def fail(context: ToolContext, arguments: Mapping[str, object]) -> ToolResult:
    return ToolResult(text="there is no such thing", failed=True)


TOOLS = (
    *world_tools(act),
    Tool(
        name="failing",
        description="A tool that always fails.",
        parameters={"type": "object", "properties": {}},
        run=fail,
        effect=Effect.READ,
    ),
)


async def main(home: Path) -> None:
    async with ApiWorld(home=home, provider=ScriptedModel(script), tools=TOOLS) as api:
        print(api.address, flush=True)
        await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1])))
