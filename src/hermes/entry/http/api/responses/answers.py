"""What a request brings to a turn that waits: results of the client's functions, an approval, or words that
answer a question. The turn goes on with it, and the response is its next part. Words and pictures that come
with results join the turn."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
from msgspec import Struct

from hermes.control.doors.continuing import (
    AnswerExpected,
    TakeAnswer,
    TakeToolResults,
    calls_open,
    heard_digest,
    messages_digest,
)
from hermes.control.sessions.repeats import SubmittedTurn
from hermes.control.sessions.submission import TurnUnfinished
from hermes.control.turn.questions import FOR_PEOPLE, as_answer
from hermes.domain.ids import AgentId, QuestionId, client_call_id, question_of_call
from hermes.domain.ports.store import Tx
from hermes.domain.text import storable
from hermes.domain.turns.event import Verdict
from hermes.domain.turns.turn import Answer, Question, Turn, TurnInput
from hermes.domain.word import replace
from hermes.entry.http.api.responses.inputs import PICTURES, ReadInput, said_before
from hermes.entry.http.api.responses.stored import PREFIX, ResponseTerms, StoredResponse
from hermes.entry.http.ask import turns
from hermes.entry.http.ask.messages import keep_pictures
from hermes.entry.http.ask.questions import check_may_answer, find_question
from hermes.entry.http.site.endpoint import HttpCall
from hermes.entry.http.site.errors import bad_request
from hermes.stream.fold.questions import is_printed


class WaitingTurn(Struct, frozen=True, kw_only=True):
    """A turn, and what it waits for."""

    turn: Turn
    calls: tuple[Question, ...]
    people: tuple[Question, ...]


class Continuation(Struct, frozen=True, kw_only=True):
    """A request that may go on with a turn; `before` is the response it names, `chain` the conversation."""

    call: HttpCall
    agent: AgentId
    given: ReadInput
    terms: ResponseTerms
    before: StoredResponse | None
    chain: str | None

    async def bring(self) -> SubmittedTurn | None:
        """Go on with the turn that waits for what the request brings; None if nothing waits for it."""
        if self.given.approvals:
            return await self._approve()
        brought = await self._bring_results() if self.given.results else None
        return brought or await self._answer()

    async def _approve(self) -> SubmittedTurn:
        answers: list[Answer] = []
        for ident, item in self.given.approvals.items():
            asked = await find_question(self.call, ident)
            check_may_answer(self.call, asked)
            if self.before is not None and asked.turn.id != self.before.turn.id:
                raise bad_request(f"The approval “{ident[:80]}” was not asked for there.", param="input")
            verdict = Verdict.ONCE if item.approve else Verdict.DENY
            answers.append(Answer(question=ident, verdict=verdict, text=storable(item.reason or "")))
        return await self._take(answers, self.given.follows)

    async def _bring_results(self) -> SubmittedTurn | None:
        call, given = self.call, self.given

        def look(tx: Tx) -> dict[QuestionId, str]:
            mine: dict[QuestionId, str] = {}
            for ident, text in given.asked.items():
                question = tx.questions.get(ident)
                turn = None if question is None else tx.turns.get(question.turn)
                if turn is not None and call.owns(turn.source):
                    mine[ident] = text
            return mine

        results = await call.gateway.read(self.agent, look)
        for result in given.results if self.before is not None else ():
            if question_of_call(result.call or "") not in results:
                raise bad_request(f"No call {(result.call or '')[:80]} was made there.", param="input")
        if not results:
            return None
        bringing = TakeToolResults(
            results=results,
            now=call.site.clock.now(),
            request=await turns.idempotent_request(call, self._options()),
            options=self.given.conversation.options,
            words=await self._words(given.follows),
        )
        try:
            return await turns.go_on(call, self.agent, bringing.unit)
        except TurnUnfinished:
            if self.before is not None or self.terms.conversation is not None:
                raise
            # It came too late, but with all that was said before: that can be told to the model anew.
            return None

    async def _answer(self) -> SubmittedTurn | None:
        """The words may answer a question of what they go on from; whoever owes results gives them first."""
        if self.chain is None and self.before is None:
            return await self._reply()
        waiting = await self.call.gateway.read(self.agent, self._waiting)
        if waiting is None:
            return None
        if waiting.calls:
            owed = client_call_id(waiting.calls[0].id)
            raise bad_request(f"There is no result for the call {owed}. Send it first.", param="input")
        if not waiting.people:
            return None
        person = waiting.turn.source.person if waiting.turn.source and self._owns(waiting.turn) else None
        answer = as_answer(storable(self.given.conversation.reply), list(waiting.people), person)
        if answer is None:
            raise AnswerExpected(waiting.people[0], may_say=bool(person) and len(waiting.people) == 1)
        return await self._take([answer], follows=False)

    async def _reply(self) -> SubmittedTurn | None:
        """The words may answer the question that their conversation ends with, for a client that sends all of
        it each time. It is the same conversation if what came before the agent spoke is the same."""
        given = self.given.conversation
        asked = given.answers
        if asked is None or not turns.session_target(self.call, self._options()).own:
            return None
        kept = await keep_pictures(self.call, self.agent, given)
        before = messages_digest(said_before(kept.history))
        heard = messages_digest(said_before(kept.messages))

        def look(tx: Tx) -> Answer | None:
            question = tx.questions.get(asked)
            turn = None if question is None else tx.turns.get(question.turn)
            if question is None or turn is None or turn.source is None:
                return None
            if not (question.open and self._owns(turn) and heard_digest(turn) == before):
                return None
            if not is_printed(given.last_words, question, tx.journal.of_turn(turn.id)):
                return None
            return as_answer(storable(kept.reply), [question], turn.source.person, replies_to={question.id})

        answer = await self.call.gateway.read(self.agent, look)
        return None if answer is None else await self._take([answer], follows=False, heard=heard)

    def _owns(self, turn: Turn) -> bool:
        return self.call.owns(turn.source)

    def _waiting(self, tx: Tx) -> WaitingTurn | None:
        turn = None if self.before is None else tx.turns.get(self.before.turn.id)
        if self.chain is not None:
            latest = tx.requests.latest(self.call.principal.name, self.chain)
            turn = None if latest is None else tx.turns.get(latest.turn)
        if turn is None:
            return None
        open_ones = [question for question in tx.questions.of_turn(turn.id) if question.open]
        people = tuple(question for question in open_ones if question.kind in FOR_PEOPLE)
        return WaitingTurn(turn=turn, calls=tuple(calls_open(tx, turn)), people=people)

    async def _take(self, answers: Sequence[Answer], follows: bool, heard: str = "") -> SubmittedTurn:
        taking = TakeAnswer(
            given=answers,
            now=self.call.site.clock.now(),
            request=await turns.idempotent_request(self.call, self._options()),
            options=self.given.conversation.options,
            words=await self._words(follows),
            heard=heard,
        )
        return await turns.go_on(self.call, self.agent, taking.unit)

    async def _words(self, follows: bool) -> TurnInput | None:
        """What joins the turn: words that follow results, and pictures, which an answer cannot carry."""
        conversation, results = self.given.conversation, self.given.results
        pictures = tuple(image for result in results for image in result.attachments)
        text = conversation.text if follows else ""
        if pictures:
            text = f"{PICTURES}\n\n{text}".strip()
        images = (*pictures, *conversation.images)
        if not text and not images:
            return None
        kept = await keep_pictures(self.call, self.agent, replace(conversation, history=(), images=images))
        return TurnInput(text=text, attachments=kept.images)

    def _options(self) -> turns.TurnOptions:
        return turns.TurnOptions(
            prefix=PREFIX,
            named=self.terms.store,
            conversation=self.terms.conversation,
            facts=msgspec.json.encode(self.terms).decode(),
            retried=True,
        )
