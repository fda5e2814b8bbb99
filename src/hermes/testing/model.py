"""A model that says what it is told to. A script is a list of replies, or a function of the request, so that
a process that was killed can be asked again and gives the same answer."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass

from hermes.agent.context.digest import SUMMARISE
from hermes.agent.context.tokens import fixed_tokens, tokens_of
from hermes.domain.errors import FaultKind, HermesError, ModelFault
from hermes.domain.ids import CallId
from hermes.domain.models.usage import Usage
from hermes.domain.ports.agent import ModelEnd, ModelPiece, ModelRequest
from hermes.domain.tools.tool import ToolCall
from hermes.domain.turns.event import Ending, TextDelta, ThoughtDelta, ToolFinished, UserSaid
from hermes.domain.word import replace


@dataclass(frozen=True, slots=True, kw_only=True)
class Say:
    """One reply: its thought, its words, its calls, and how it goes wrong. `halt` is waited for in the middle
    of its words, `hold` at the end of them, and `beat` after each piece."""

    thought: str = ""
    text: str = ""
    calls: tuple[ToolCall, ...] = ()
    pieces: int = 1
    error: HermesError | None = None
    breaks_after: int | None = None
    ending: Ending = Ending.STOP
    halt: asyncio.Event | None = None
    hold: asyncio.Event | None = None
    usage: Usage | None = None
    """What the service says that it took; without it, the number of records."""
    beat: Callable[[], Awaitable[None]] = lambda: asyncio.sleep(0)
    model: str = "scripted"
    """Who the service says has answered."""


def say(text: str, *, pieces: int = 1) -> Say:
    return Say(text=text, pieces=pieces)


def call(name: str, arguments: str = "{}", *, id: str = "") -> Say:
    return Say(calls=(ToolCall(id=CallId(id or f"call_{name}"), name=name, arguments=arguments),))


def echo(request: ModelRequest) -> Say:
    return say(f"You said: {last_words(request)}")


def last_words(request: ModelRequest) -> str:
    said = [entry.record.text for entry in request.entries if isinstance(entry.record, UserSaid)]
    return said[-1] if said else ""


def is_summary(request: ModelRequest) -> bool:
    """Whether the model is asked for a summary of a conversation."""
    return request.system.startswith(SUMMARISE.partition(".")[0])


def within(window: int, script: Callable[[ModelRequest], Say]) -> Callable[[ModelRequest], Say]:
    """A model that reads so many tokens and counts them; it refuses what is longer, as services do."""

    def reply(request: ModelRequest) -> Say:
        size = fixed_tokens(request.system, request.tools) + tokens_of(request.entries)
        if size > window:
            words = f"maximum context length is {window} tokens, and this has {size}"
            return Say(error=ModelFault("too long", kind=FaultKind.TOO_LONG, quote=words))
        return replace(script(request), usage=Usage(prompt=size, completion=1))

    return reply


class ScriptedModel:
    """The provider port. Requests are kept for tests to look at."""

    def __init__(self, script: Sequence[Say] | Callable[[ModelRequest], Say] = echo) -> None:
        self._script = script
        self._next = 0
        self.requests: list[ModelRequest] = []

    async def call(self, request: ModelRequest) -> AsyncIterator[ModelPiece]:
        self.requests.append(request)
        reply = self._reply(request)
        if reply.error is not None and reply.breaks_after is None:
            raise reply.error
        for thought in _pieces(reply.thought, 2):
            yield ThoughtDelta(text=thought)
            await reply.beat()
        text = reply.text[len(request.spoken) :] if request.spoken else reply.text
        if reply.breaks_after is not None:
            yield TextDelta(text=text[: reply.breaks_after])
            raise reply.error or HermesError("the script says so")
        pieces = _pieces(text, reply.pieces)
        for place, piece in enumerate(pieces):
            if reply.halt is not None and place == len(pieces) // 2:
                await reply.halt.wait()
            yield TextDelta(text=piece)
            await reply.beat()
        if reply.hold is not None:
            await reply.hold.wait()
        usage = reply.usage or Usage(prompt=len(request.entries), completion=len(text.split()))
        yield ModelEnd(calls=reply.calls, ending=reply.ending, usage=usage, model=reply.model)

    def _reply(self, request: ModelRequest) -> Say:
        if callable(self._script):
            return self._script(request)
        if self._next >= len(self._script):
            raise AssertionError(f"the script has {len(self._script)} replies and was asked for one more")
        self._next += 1
        return self._script[self._next - 1]


def _pieces(text: str, count: int) -> list[str]:
    if not text:
        return []
    size = max(1, -(-len(text) // max(1, count)))
    return [text[at : at + size] for at in range(0, len(text), size)]


_TOKEN = re.compile(r"m\d+")
_TOOL = re.compile(r"\b(read|keyed|once|danger)\b")


def obedient(request: ModelRequest) -> Say:
    """A model for crash runs: calls the tools that the last message names, one a round, then answers with the
    message's token. A function of the transcript alone."""
    place = max(index for index, entry in enumerate(request.entries) if isinstance(entry.record, UserSaid))
    said = request.entries[place].record
    assert isinstance(said, UserSaid)
    done = sum(1 for entry in request.entries[place:] if isinstance(entry.record, ToolFinished))
    token = _TOKEN.search(said.text)
    name = token.group() if token else "nobody"
    tools = _TOOL.findall(said.text)
    if done < len(tools):
        wanted = tools[done]
        identity = CallId(f"{name}-{done}")
        return Say(calls=(ToolCall(id=identity, name=wanted, arguments=f'{{"token": "{name}"}}'),))
    return say(f"answer to {name}: all {done} tools were used as you wished", pieces=6)
