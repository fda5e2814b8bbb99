"""A long session: what one turn costs us at its beginning and after hundreds of turns. The model answers at
once; its requests are encoded as for the wire, so what grows with the history shows. Once all of it is sent,
and once the model's window makes compression necessary."""

from __future__ import annotations

import gc
import statistics
import time
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path

from bench.figure import Better, Figure
from bench.stopwatch import run
from hermes.agent.models.endpoint import ModelEndpoint
from hermes.agent.models.formats.chat_completions.request import encode_request
from hermes.control.sessions.submission import SessionTarget, Submission
from hermes.domain.chats.address import Address, Source, SourceKind
from hermes.domain.ids import MAIN_AGENT, SessionId
from hermes.domain.models.usage import Usage
from hermes.domain.ports.agent import ModelEnd, ModelPiece, ModelRequest
from hermes.domain.turns.event import Entry, Finished, TextDelta
from hermes.domain.turns.turn import TurnInput
from hermes.testing.harness import Journey
from hermes.testing.model import is_summary

_figure = partial(Figure, bench="history", better=Better.RATIO)
WORDS = "please look up when the next train to the sea leaves and tell me what it costs " * 3
ANSWER = "The next train leaves at nine and costs twelve. " * 4
ENDPOINT = ModelEndpoint(base_url="http://model.invalid/v1")
EARLY, LATE, AROUND = 10, 500, 20


class EncodingModel:
    """Encodes each request and answers."""

    def __init__(self) -> None:
        self.bytes = 0
        self.summaries = 0

    async def call(self, request: ModelRequest) -> AsyncIterator[ModelPiece]:
        self.bytes = len(encode_request(request, ENDPOINT))
        self.summaries += is_summary(request)
        yield TextDelta(text=ANSWER)
        yield ModelEnd(model="quick", usage=Usage(prompt=self.bytes // 4, completion=50))


def measure(folder: Path, quick: bool) -> list[Figure]:
    figures = []
    for name, window in (("whole", None), ("compressed", 20_000)):
        place = folder / name
        place.mkdir()
        figures.append(run(partial(_ratio, place, name, window)))
    return figures


async def _ratio(folder: Path, name: str, window: int | None) -> Figure:
    costs: list[float] = []
    async with Journey(folder=folder, window=window) as chat:
        chat.model = model = EncodingModel()  # type: ignore[assignment]
        address = Address(platform="api_server", chat="long")
        for number in range(LATE + AROUND):
            if number in (EARLY - 10, LATE - AROUND):
                gc.collect()
            words = Submission(
                agent=MAIN_AGENT,
                source=Source(address=address, kind=SourceKind.API),
                input=TurnInput(text=f"{number} {WORDS}"),
                place=SessionTarget(session=SessionId("long"), begin=True),
            )
            began = time.process_time()
            turn = await chat.gateway.submit(words)
            seen = [item async for item in chat.gateway.watch(MAIN_AGENT, turn.id)]
            costs.append(time.process_time() - began)
            if not isinstance(seen[-1], Entry) or not isinstance(seen[-1].record, Finished):
                raise RuntimeError(f"turn {number} did not finish, so its cost says nothing: {seen[-1]}")
        print(f"  {name}: last request {model.bytes} bytes, {model.summaries} summaries")
    early = statistics.median(costs[EARLY - 5 : EARLY + 15])
    late = statistics.median(costs[LATE - AROUND : LATE + AROUND])
    print(f"  {name}: turn {EARLY} {early * 1e3:.2f} ms, turn {LATE} {late * 1e3:.2f} ms CPU")
    return _figure(name=f"turn {LATE} beside turn {EARLY}, {name}", value=late / early, unit="×", target=1.2)
