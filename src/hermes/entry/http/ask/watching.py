"""A turn as one request watches it: to its end, or to where it waits for a person and the request is answered
with the question."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncGenerator, Callable
from dataclasses import dataclass

from hermes.domain.event import Asked, Entry, FeedItem, QuestionKind
from hermes.domain.ids import AgentId
from hermes.entry.http.ask.continuing import AnsweringTurn
from hermes.entry.http.ask.questions import TurnQuestion, open_questions
from hermes.entry.http.site.call import HttpCall

PEOPLE = frozenset((QuestionKind.APPROVAL, QuestionKind.CLARIFY, QuestionKind.CONFIRM))


async def read_entries(
    feed: AsyncGenerator[FeedItem], enough: Callable[[list[Entry]], bool] = lambda entries: False
) -> list[Entry]:
    """The records of a turn, to the end of its feed or until there are enough of them."""
    entries: list[Entry] = []
    async with contextlib.aclosing(feed):
        async for item in feed:
            if isinstance(item, Entry):
                entries.append(item)
                if enough(entries):
                    break
    return entries


@dataclass(slots=True, kw_only=True)
class TurnWatch:
    """`pending` is the question at which it ended, if it is one of the kinds of `stops_at`. Without `live`
    it sees records alone, for a request that is answered in one piece."""

    call: HttpCall
    agent: AgentId
    answering: AnsweringTurn
    stops_at: frozenset[QuestionKind]
    live: bool = True
    pending: TurnQuestion | None = None

    async def feed(self) -> AsyncGenerator[FeedItem]:
        turn = self.answering.turn
        async with contextlib.aclosing(self.call.watch(self.agent, turn.id, live=self.live)) as feed:
            async for item in feed:
                yield item
                if isinstance(item, Entry) and await self._waits(item):
                    return

    async def _waits(self, entry: Entry) -> bool:
        """Whether the turn waits for the answer to this question now; a replay goes on past old ones."""
        asked, answering = entry.record, self.answering
        if not isinstance(asked, Asked) or asked.kind not in self.stops_at or entry.seq <= answering.after:
            return False
        waiting = await open_questions(self.call, self.agent, answering.turn)
        self.pending = next((each for each in waiting if each.question.id == asked.question), None)
        return self.pending is not None
