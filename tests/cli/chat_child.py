"""`hermes chat` as a process. The model of its gateway follows simple words, its tools write a file.

`chat_child.py <home> <arguments of chat …>`. The model: `count` counts to 30 slowly; `read`, `once`, `danger`
use that tool with the next word; `choose` asks a question; `ponder` thinks first; `refuse` and `vanish` fail;
`call` uses a tool with its arguments as JSON; `show` says what stands in `<home>/answer.md`, `flood` so many
words, two thousand a second;
anything else is repeated. What tools did stands in `<home>/effects`; `slowly` takes a minute. A terminal on
stdin becomes the controlling one."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import json
import os
import subprocess
import sys
import termios
from collections.abc import AsyncIterator
from pathlib import Path

from hermes import cli
from hermes.admin.commands import chat
from hermes.admin.process.spawning import WHILE_USED
from hermes.app.overrides import AppOverrides
from hermes.domain.errors import Refused, UserError
from hermes.domain.ids import CallId
from hermes.domain.ports.agent import ModelEnd, ModelPiece, ModelRequest
from hermes.domain.tools.tool import ToolCall
from hermes.domain.turns.event import TextDelta, ThoughtDelta, ToolFinished, UserSaid
from hermes.testing.tools import world_tools

COUNTED = 30
REAL_TOOLS = "WORDS_WITH_REAL_TOOLS"
"""A variable: the tools are those of Hermes, and `run` is a command for `terminal`."""


class WordModel:
    """The provider port; a function of the transcript, so that a killed process goes on as it would have."""

    def __init__(self, pause: float, hold: Path) -> None:
        self._pause = pause
        self._hold = hold
        """While there is such a file, counting stands still at ten."""

    async def call(self, request: ModelRequest) -> AsyncIterator[ModelPiece]:
        place = max(at for at, entry in enumerate(request.entries) if isinstance(entry.record, UserSaid))
        said = request.entries[place].record
        assert isinstance(said, UserSaid)
        done = [e.record for e in request.entries[place:] if isinstance(e.record, ToolFinished)]
        word, _, rest = said.text.partition(" ")
        if word in ("refuse", "vanish"):
            raise Refused("it will not") if word == "refuse" else UserError("There is no model.")
        calls = () if done else self._calls(word, rest)
        text = f"The tool said: {done[-1].text}" if done else "" if calls else f"You said: {said.text}"
        if word == "count":
            last = int(rest) if rest.isdigit() else COUNTED
            text = " ".join(map(str, range(1, last + 1))) + " done counting"
        if word == "show":
            text = (self._hold.parent / "answer.md").read_text()
        if word == "flood":
            paragraphs = range(1, int(rest), 40)
            text = " \n\n".join(" ".join(f"w{n}" for n in range(p, p + 40)) for p in paragraphs) + " over"
        if word == "ponder":
            yield ThoughtDelta(text="let me think")
        left = text[len(request.spoken) :]
        for piece in left.split(" ") if left else ():
            yield TextDelta(text=piece + " ")
            if word == "count":
                await asyncio.sleep(self._pause)
            elif word == "flood" and piece.endswith("00"):
                await asyncio.sleep(0.05)  # two thousand a second
            while piece == "10" and self._hold.exists():  # noqa: ASYNC110
                await asyncio.sleep(0.02)
        yield ModelEnd(calls=calls, model="words")

    def _calls(self, word: str, rest: str) -> tuple[ToolCall, ...]:
        if word == "choose":
            arguments = '{"question": "Which colour?", "options": ["red", "green"]}'
            return (ToolCall(id=CallId("c1"), name="clarify", arguments=arguments),)
        if word == "run":
            return (ToolCall(id=CallId("c1"), name="terminal", arguments=json.dumps({"command": rest})),)
        if word == "call":
            name, _, arguments = rest.partition(" ")
            return (ToolCall(id=CallId("c1"), name=name, arguments=arguments),)
        if word in ("read", "once", "danger"):
            return (ToolCall(id=CallId("c1"), name=word, arguments=f'{{"token": "{rest}"}}'),)
        return ()


def main(home: Path, words: list[str]) -> int:
    if sys.stdin is not None and sys.stdin.isatty():
        with contextlib.suppress(PermissionError):  # a shell has it already
            fcntl.ioctl(0, termios.TIOCSCTTY, 0)
    start = [sys.executable, str(Path(__file__).with_name("words_gateway.py")), str(home), WHILE_USED]

    def spawn() -> subprocess.Popen[bytes]:
        with (home / "logs" / "gateway.out").open("wb") as output:
            null = subprocess.DEVNULL
            return subprocess.Popen(start, stdin=null, stdout=output, stderr=output, start_new_session=True)

    chat._chat = lambda command: chat.ChatProcess(command=command, spawn=spawn).run()
    return cli.main(["chat", *words])


def world(home: Path) -> AppOverrides:
    """The model and the tools."""

    async def act(tool: str, key: str, token: str) -> None:
        with (home / "effects").open("a") as file:
            file.write(f"{tool} {token}\n")
        if token == "slowly":
            await asyncio.sleep(60.0)

    return AppOverrides(
        provider=WordModel(float(os.environ.get("PAUSE", "0.03")), home / "hold"),
        tools=None if os.environ.get(REAL_TOOLS) else world_tools(act),
        platforms={},
    )


if __name__ == "__main__":
    home = Path(sys.argv[1])
    home.mkdir(mode=0o700, exist_ok=True)
    sys.exit(main(home, sys.argv[2:]))
