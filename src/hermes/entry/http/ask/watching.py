"""A turn as one request watches it: to its end, or to where it waits for a person and the request is answered
with the question."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncGenerator
from dataclasses import dataclass

from hermes.domain.event import Asked, Entry, FeedItem, QuestionKind
from hermes.domain.ids import AgentId
from hermes.entry.http.ask.questions import TurnQuestion, open_questions
from hermes.entry.http.ask.submitting import AnsweringTurn
from hermes.entry.http.site.call import HttpCall

PEOPLE = frozenset((QuestionKind.APPROVAL, QuestionKind.CLARIFY, QuestionKind.CONFIRM))


@dataclass(slots=True, kw_only=True)
class TurnWatch:
    """`pending` is the question at which it ended, if it is one of the kinds of `stops_at`. Without `live`
    it sees records alone, for a request that is answered in one piece."""

    call: HttpCall
    agent: AgentId
    going: AnsweringTurn
    stops_at: frozenset[QuestionKind]
    live: bool = True
    pending: TurnQuestion | None = None

    async def seen(self) -> AsyncGenerator[FeedItem]:
        turn = self.going.turn
        async with contextlib.aclosing(self.call.watch(self.agent, turn.id, live=self.live)) as feed:
            async for seen in feed:
                yield seen
                if isinstance(seen, Entry) and await self._waits(seen):
                    return

    async def _waits(self, entry: Entry) -> bool:
        """Whether the turn waits for the answer of this question now; a replay goes on past old ones."""
        asked = entry.record
        if not isinstance(asked, Asked) or asked.kind not in self.stops_at or entry.seq <= self.going.after:
            return False
        waiting = await open_questions(self.call, self.agent, self.going.turn)
        self.pending = next((found for found in waiting if found.question.id == asked.question), None)
        return self.pending is not None
