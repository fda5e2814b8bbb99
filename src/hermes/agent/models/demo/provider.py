"""The offline demo model as a provider: needs no key and no network, and is no AI. Its rules are in
`hermes.agent.models.demo.rules`; here they are said word by word, through the same path as a real model's."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Iterator

from hermes.agent.models.demo.rules import FOOTER, DemoReply, demo_reply
from hermes.domain.event import Ending, TextDelta, Usage
from hermes.domain.ports.agent import ModelEnd, ModelPiece, ModelRequest

NAME = "demo"
WORD_SECONDS = 0.02
_SLOWER = 4
_MOST_PIECES = 60
_WORD = re.compile(r"\s*\S+\s*|\s+")


class DemoProvider:
    """The provider port. `delay` is the time of a word; long answers come in larger pieces."""

    def __init__(self, delay: float = WORD_SECONDS) -> None:
        self._delay = delay

    async def call(self, request: ModelRequest) -> AsyncIterator[ModelPiece]:
        reply = demo_reply(request.entries, {tool.name for tool in request.tools})
        left = reply.text.removeprefix(request.said)
        pause = self._delay * (_SLOWER if reply.slow else 1)
        for piece in _pieces(reply, left):
            yield TextDelta(text=piece)
            await asyncio.sleep(pause)
        usage = Usage(prompt=_count_words(request), completion=len(left.split()))
        ending = Ending.CALLS if reply.calls else Ending.STOP
        yield ModelEnd(calls=reply.calls, ending=ending, usage=usage, model=NAME)


def _pieces(reply: DemoReply, text: str) -> Iterator[str]:
    """Words, or handfuls of them; the footer is said at once."""
    body = text.removesuffix(FOOTER)
    words = _WORD.findall(body)
    at_once = 1 if reply.slow else -(-len(words) // _MOST_PIECES) or 1
    for place in range(0, len(words), at_once):
        yield "".join(words[place : place + at_once])
    if text[len(body) :]:
        yield text[len(body) :]


def _count_words(request: ModelRequest) -> int:
    texts = [getattr(entry.record, "text", "") for entry in request.entries]
    texts += [request.system, *(earlier.text for earlier in request.history)]
    return sum(len(text.split()) for text in texts)
