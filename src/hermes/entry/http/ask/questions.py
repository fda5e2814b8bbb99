"""Questions that turns wait for, as clients see and answer them: the same for `/v1/questions`, for a run's
approval and for whoever shows a question beside an answer. A request watches its turn to its end, or to where
it waits for a person, and is then answered with the question.

Who may see a turn may see its questions; only the key that the turn was begun with may answer them, in the
name of the person who was asked."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncGenerator, Callable, Sequence

import msgspec
from msgspec import Struct

from hermes.control.doors.continuing import AnswerQuestion
from hermes.control.sessions.submission import NotFound, TurnUnfinished
from hermes.control.turn.questions import read_reply
from hermes.domain.ids import QuestionId, client_call_id
from hermes.domain.ports.store import Tx
from hermes.domain.turns.event import Asked, Entry, FeedItem, ModelSaid, QuestionKind, Verdict
from hermes.domain.turns.turn import Answer, Question, Turn
from hermes.entry.http.ask.turns import go_on, run_name
from hermes.entry.http.site.endpoint import HttpCall
from hermes.entry.http.site.errors import ApiError, bad_request
from hermes.stream.fold.questions import choices, command_text, read_word

DECISIONS = (QuestionKind.APPROVAL, QuestionKind.CONFIRM)
"""Questions that are answered by one of a few words."""
_ALSO = {"allow": Verdict.ONCE, "approved": Verdict.ONCE, "denied": Verdict.DENY}


class QuestionAnswer(msgspec.Struct, kw_only=True):
    """An answer. `choice` decides an approval (once, session, always, deny; also approve, allow, yes, no) or
    is one of the options; `text` is the answer in words."""

    choice: str | None = None
    text: str | None = None


class PendingQuestion(msgspec.Struct, kw_only=True):
    """What a turn waits for. `action` is what would be done, word for word; an approval is for just that."""

    id: str
    kind: str
    text: str
    action: str
    options: list[str]
    expires_at: float | None = None


class QuestionState(PendingQuestion, kw_only=True):
    """A question, and what became of it: open, answered, denied, expired or withdrawn."""

    object: str = "hermes.question"
    status: str
    choice: str | None = None
    answer: str | None = None
    call_id: str | None = None
    run_id: str
    session_id: str


class TurnQuestion(Struct, frozen=True, kw_only=True):
    """A question with the turn that waits for it; `entries` are the turn's."""

    question: Question
    turn: Turn
    entries: Sequence[Entry]

    @property
    def pending(self) -> PendingQuestion:
        asked = self.question
        return PendingQuestion(
            id=asked.id,
            kind=asked.kind.value,
            text=asked.text,
            action=_action(asked, self.entries),
            options=list(choices(asked)),
            expires_at=None if asked.expires_at is None else asked.expires_at.timestamp(),
        )

    @property
    def state(self) -> QuestionState:
        asked, pending = self.question, self.pending
        own = asked.kind is QuestionKind.CLIENT_TOOL
        return QuestionState(
            **{name: getattr(pending, name) for name in pending.__struct_fields__},
            status=_status(asked),
            choice=None if asked.verdict is None else asked.verdict.value,
            answer=asked.answer or None,
            call_id=client_call_id(asked.id) if own else None,
            run_id=run_name(self.turn),
            session_id=asked.session,
        )


async def find_question(call: HttpCall, name: str) -> TurnQuestion:
    """A question that this client may see."""

    def look(tx: Tx) -> TurnQuestion | None:
        question = tx.questions.get(QuestionId(name))
        turn = None if question is None else tx.turns.get(question.turn)
        if question is None or turn is None or not call.may_see(turn.source):
            return None
        return TurnQuestion(question=question, turn=turn, entries=tx.journal.of_turn(turn.id))

    return await call.find(look, NotFound("There is no such question (any more)."))


async def open_questions(call: HttpCall, turn: Turn) -> list[TurnQuestion]:
    """What a turn waits for now, the oldest first; nothing if it does not wait."""

    def look(tx: Tx) -> list[TurnQuestion]:
        entries = tx.journal.of_turn(turn.id)
        return [
            TurnQuestion(question=question, turn=turn, entries=entries)
            for question in tx.questions.of_turn(turn.id)
            if question.open
        ]

    return await call.gateway.read(turn.agent, look)


async def answer_question(call: HttpCall, asked: TurnQuestion, given: QuestionAnswer) -> QuestionState:
    """Close a question with this answer; a late answer is refused with what became of the question."""
    question, turn = asked.question, asked.turn
    person = check_may_answer(call, asked)
    verdict, text = read_answer(question, given)
    answer = Answer(question=question.id, verdict=verdict, text=text, by=person)
    taking = AnswerQuestion(given=answer, now=call.site.clock.now())
    try:
        await go_on(call, turn.agent, taking.unit)
    except TurnUnfinished as late:
        now = await find_question(call, question.id)
        raise ApiError(409, "question_closed", f"{late} ({_status(now.question)})") from late
    return (await find_question(call, question.id)).state


def check_may_answer(call: HttpCall, asked: TurnQuestion) -> str | None:
    """The person in whose name this client answers."""
    source = asked.turn.source
    if not call.owns(source) or source is None:
        raise ApiError(
            403, "not_asked", "Only who was asked may answer this: the key the run was begun with."
        )
    if asked.turn.agent not in call.site.agents:
        words = f"The agent “{asked.turn.agent}” is gone, so nothing can go on here; the run can be stopped."
        raise ApiError(409, "agent_gone", words)
    return source.person


def read_answer(question: Question, given: QuestionAnswer) -> tuple[Verdict, str]:
    """What an answer says to this question, or a complaint that tells what it takes."""
    if question.kind in DECISIONS:
        word = (given.choice or given.text or "").strip()
        verdict = read_word(word) or _ALSO.get(word.lower())
        if verdict is None:
            raise bad_request("The choice must be one of: once, session, always, deny.", param="choice")
        return verdict, (given.text or "") if given.choice else ""
    text = given.text if given.text is not None else given.choice
    if text is None or (question.kind is QuestionKind.CLARIFY and not text.strip()):
        raise bad_request("The answer needs a text (or a choice of the options).", param="text")
    return Verdict.REPLY, read_reply(question, text)


def _action(asked: Question, entries: Sequence[Entry]) -> str:
    calls = (call for entry in entries if isinstance(entry.record, ModelSaid) for call in entry.record.calls)
    # A model may use an id again: the last call with it that was made before this question is meant, and a
    # turn waits at its end.
    meant = [call for call in calls if call.id == asked.call]
    return command_text(meant[-1].arguments) if meant else asked.text


def _status(question: Question) -> str:
    match question.verdict:
        case None:
            return "open"
        case Verdict.DENY:
            return "denied"
        case Verdict.EXPIRED | Verdict.WITHDRAWN:
            return question.verdict.value
        case _:
            return "answered"


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


class TurnWatch(Struct, kw_only=True):
    """A turn as one request watches it; what it recorded up to `after` was told by an earlier one. `pending`
    is the question at which it ended, if it is one of the kinds of `stops_at`. Without `live` it sees records
    alone, for a request that is answered in one piece."""

    call: HttpCall
    turn: Turn
    after: int = 0
    stops_at: frozenset[QuestionKind]
    live: bool = True
    pending: TurnQuestion | None = None

    async def feed(self) -> AsyncGenerator[FeedItem]:
        async with contextlib.aclosing(self.call.watch(self.turn, live=self.live)) as feed:
            async for item in feed:
                yield item
                if isinstance(item, Entry) and await self._waits(item):
                    return

    async def _waits(self, entry: Entry) -> bool:
        """Whether the turn waits for the answer to this question now; a replay goes on past old ones."""
        asked = entry.record
        if not isinstance(asked, Asked) or asked.kind not in self.stops_at or entry.seq <= self.after:
            return False
        waiting = await open_questions(self.call, self.turn)
        self.pending = next((each for each in waiting if each.question.id == asked.question), None)
        return self.pending is not None
