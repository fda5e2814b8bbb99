"""A gateway with its HTTP door and a model that does what the words say; it lives until its input is closed.

`gateway_child.py <home>` prints its address."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path

from hermes.domain.errors import Refused
from hermes.domain.event import ToolFinished, UserSaid
from hermes.domain.ids import CallId
from hermes.domain.ports.agent import ModelRequest
from hermes.domain.tool import ToolCall
from hermes.testing.api import ApiWorld
from hermes.testing.model import Say, ScriptedModel, last_words, say


def script(request: ModelRequest) -> Say:
    words = last_words(request)
    if "weather" in words:
        place = max(at for at, entry in enumerate(request.entries) if isinstance(entry.record, UserSaid))
        results = [
            entry.record for entry in request.entries[place:] if isinstance(entry.record, ToolFinished)
        ]
        if results:
            return say(f"It is {results[-1].text} in Paris.", pieces=3)
        asked = json.dumps({"city": "Paris"})
        return Say(calls=(ToolCall(id=CallId("call_weather"), name="get_weather", arguments=asked),))
    if "picture" in words:
        said = [entry.record for entry in request.entries if isinstance(entry.record, UserSaid)][-1]
        return say(f"I see {len(said.attachments)} picture.")
    if "hang" in words:
        return Say(text="one two three", pieces=3, hold=asyncio.Event())
    if "break" in words:
        return Say(error=Refused("the script says so"))
    return say(f"You said: {words}", pieces=4)


async def main(home: Path) -> None:
    async with ApiWorld(home=home, provider=ScriptedModel(script), tools=()) as api:
        print(api.address, flush=True)
        await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1])))
