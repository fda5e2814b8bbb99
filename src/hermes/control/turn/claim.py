"""Claiming a turn: the unit in which an actor takes its session's next turn, or resumes the open one.

Everything here runs inside one transaction and decides on what it reads there, so a crash before the commit
leaves nothing, and a crash after it leaves enough to take the same decision again.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import datetime
from enum import StrEnum

from msgspec import Struct, field

from hermes.control.core import PersonOf
from hermes.control.outbound.question_messages import close_question
from hermes.control.turn.budgets import BudgetGate, spend
from hermes.control.turn.chat_prompt import place_prompt
from hermes.control.turn.children import has_read_outside, turns_for
from hermes.control.turn.prepared import take_prepared
from hermes.control.turn.questions import FOR_PEOPLE
from hermes.control.turn.recalling import may_recall
from hermes.control.turn.stopping import cut_off
from hermes.domain.chats.address import Address, Source
from hermes.domain.chats.capabilities import NO_ABILITIES, Capabilities
from hermes.domain.chats.message import Attachment
from hermes.domain.errors import Lost
from hermes.domain.ids import CallId, SessionId, TurnId, new_question_id
from hermes.domain.ports.store import Tx
from hermes.domain.settings.manner import PlatformHint
from hermes.domain.tools.tool import ToolCall
from hermes.domain.turns.busy import interrupts, is_interrupted, steered, steers
from hermes.domain.turns.event import (
    Answered,
    Asked,
    Ending,
    Entry,
    Failed,
    Finished,
    ModelSaid,
    QuestionKind,
    Record,
    Restored,
    Stopped,
    Undone,
    UserSaid,
    Verdict,
)
from hermes.domain.turns.gateway_event import GatewayEvent, session_replaced
from hermes.domain.turns.references import is_expandable
from hermes.domain.turns.session import SHARED_KINDS, FrozenPrompt, Session, SessionKey, begin_session
from hermes.domain.turns.transcript import (
    TurnView,
    last_compression,
    may_have_changed_files,
    number_records,
    summed_upto,
    turn_entries,
    user_turns,
    view_turn,
)
from hermes.domain.turns.turn import (
    CLIENT_GONE,
    UNHEARD,
    Answer,
    BusyMode,
    Question,
    Turn,
    TurnAction,
    TurnState,
)
from hermes.domain.word import replace

QUICK_SECONDS = 30
GIVEN_UP = (
    "The gateway was cut off three times while it had just this message in hand, so it gave it up."
    " Send it again if it should be tried once more."
)
WENT_WRONG = "Something went wrong inside Hermes ({error}). The log has the details."
UNCHANGED = "Nothing was changed."
NOT_COMPRESSED = "Nothing in this conversation is compressed."
RESTORED = "The last compression is undone: what it told in short is there again, word for word."


class NextStep(StrEnum):
    """What the actor is to do with what it claimed."""

    NOTHING = "nothing"
    WAIT = "wait"
    ASK = "ask"
    FETCH = "fetch"
    LOAD = "load"
    SUSPECT = "suspect"
    RUN = "run"
    ENDED = "ended"
    PARKED = "parked"
    STOP = "stop"


class Claim(Struct, frozen=True, kw_only=True):
    next: NextStep
    turn: Turn | None = None
    session: Session | None = None
    new: tuple[Entry, ...] = ()
    seconds: float = 0.0
    steered: bool = False
    news: tuple[GatewayEvent, ...] = ()
    """What hooks are told of it."""


class ClaimTurn(Struct, frozen=True, kw_only=True):
    """The question an actor asks: which turn is next for this transcript, at this moment."""

    session: SessionId
    transcript: Sequence[Entry]
    now: datetime
    epoch: int
    conclude: Callable[[Tx, Turn, Sequence[Entry], int], None]
    tend: Callable[[Tx, Turn, TurnView, Sequence[Answered], datetime], list[Asked]]
    prompt: FrozenPrompt | None = None
    capabilities: Callable[[Address], Capabilities] = lambda to: NO_ABILITIES
    hints: Mapping[str, PlatformHint] = field(default_factory=dict)
    whole: bool = True
    """Whether nothing is missing at the start of the transcript; else it begins behind a summary."""
    suspects_too: bool = False
    born: datetime | None = None
    expands: bool = False
    """Whether references in words are looked up."""
    recalls: bool = False
    """Whether a memory provider is asked first."""
    gated: bool = False
    """Whether hooks are asked before a turn that calls the model."""
    budgets: BudgetGate | None = None
    person: PersonOf | None = None
    rulings: Mapping[tuple[TurnId, str], str] = field(default_factory=dict)
    """Why a turn with this text may not run; an empty reason is consent. Other words are asked about anew."""

    def unit(self, tx: Tx) -> Claim:
        turns = tx.turns.open_of(self.session)
        if not turns:
            return Claim(next=NextStep.NOTHING)
        turn, behind = turns[0], turns[1:]
        if turn.suspect and not self.suspects_too and turn.stop is None:
            return Claim(next=NextStep.SUSPECT, turn=turn)
        session = tx.sessions.get(self.session)
        if session is None:
            raise Lost(f"session {self.session} is gone")
        if self.born is not None and session.created_at != self.born:
            raise Lost(f"session {self.session} was deleted, and another has its name")
        if not self.whole and self._reaches_back(turn):
            return Claim(next=NextStep.LOAD)
        if turn.state is TurnState.ACCEPTED:
            return self._begin(tx, session, turn, behind)
        self._check_current(tx)
        if turn.state is TurnState.WAITING and not self._called_back(tx, turn, behind):
            return Claim(next=NextStep.NOTHING)
        return self._resume(tx, session, turn, behind)

    def _check_current(self, tx: Tx) -> None:
        """A turn that was begun with its submission has a record that who looked before does not hold."""
        if tx.turns.standing(self.session).last != (self.transcript[-1].seq if self.transcript else 0):
            raise Lost(f"session {self.session} has records that are not known here")

    def _begin(self, tx: Tx, session: Session, turn: Turn, behind: list[Turn]) -> Claim:
        if turn.ready_at is not None and turn.ready_at > self.now and turn.stop is None:
            return Claim(next=NextStep.WAIT, seconds=(turn.ready_at - self.now).total_seconds())
        denied = self.rulings.get((turn.id, turn.input.text))
        if denied is None and turn.stop is None and self.gated and turn.input.action.calls_model:
            return Claim(next=NextStep.ASK, turn=turn)
        if not denied and turn.stop is None and self._has_to_fetch(turn):
            return Claim(next=NextStep.FETCH, turn=turn)
        if turn.busy is not BusyMode.INTERRUPT and not turn.input.attachments:
            # It was told to wait: what came before it began has interrupted the turn before it.
            behind = [_waiting(tx, one) if interrupts([one]) else one for one in behind]
        records: list[Record]
        if turn.input.action is TurnAction.SUMMARISE:
            # Also if it was stopped: nobody else would take it, and nobody waits for it.
            records = [*take_prepared(tx, self.session, self.transcript, self.now), Finished()]
            tx.flushes.want(self.session, self.now)
            return self._start(tx, session, turn, records, behind)
        if denied:
            records = [Failed(reason=denied)]
        elif turn.stop in UNHEARD:
            records = []
        else:
            records = [_confirmation(turn)] if turn.input.confirm else self._opening(tx, turn)
        reason = turn.stop or ("interrupted" if is_interrupted(turn, behind) else None)
        if reason is not None and not ended_by(records):
            records = [*records, Stopped(reason=reason)]
        if self.prompt is not None:
            place = place_prompt(self.capabilities, session, turn, self.hints)
            session = self.prompt.given_to(session, place)
        session = replace(session, updated_at=self.now, archived=False)
        tx.sessions.save(session)
        return self._start(tx, session, turn, records, behind)

    def _has_to_fetch(self, turn: Turn) -> bool:
        """Whether files that came with the turn are not here yet, or what its words refer to or
        recall."""
        pending = any(file.pending for file in turn.input.attachments)
        refers = self.expands and is_expandable(turn.input, turn.cause, turn.source)
        return pending or refers or (self.recalls and may_recall(turn.input, turn.cause))

    def _start(
        self,
        tx: Tx,
        session: Session,
        turn: Turn,
        records: Sequence[Record],
        behind: list[Turn],
        *,
        stopping: bool = False,
        waits: bool = False,
    ) -> Claim:
        """Write a new attempt of the turn with its first records; they may end it, or it `waits` on."""
        asks = bool(records) and isinstance(records[-1], Asked)
        parked = asks or waits
        if not (stopping or parked or ended_by(records)):
            records = self._within_budget(tx, session, turn, records)
        ended = ended_by(records)
        state = ended or (TurnState.WAITING if parked else TurnState.RUNNING)
        started = replace(turn, state=state, attempt=turn.attempt + 1, progress=0)
        new = number_records(self.transcript, turn.id, records, self.now)
        # What was begun by an older program, or restored, has records and no number of the first.
        before = turn_entries(self.transcript, turn.id) if turn.attempt else ()
        since = next((entry.seq for entry in (*before, *new)), None)
        tx.turns.save(started, attempt=turn.attempt, epoch=self.epoch, since=since)
        tx.journal.append(self.session, new)
        if self.budgets is not None:
            spend(tx, started, new, ends=ended is not None)
        keep_session_grants(tx, self.session, turn.id, new)
        if ended is not None or asks:
            self.conclude(tx, started, [*turn_entries(self.transcript, turn.id), *new], len(new))
        return Claim(
            next=NextStep.PARKED if parked else NextStep.RUN if ended is None else NextStep.ENDED,
            turn=started,
            session=session,
            new=new,
            steered=steered(turn, behind),
        )

    def _within_budget(
        self, tx: Tx, session: Session, turn: Turn, records: Sequence[Record]
    ) -> Sequence[Record]:
        """The records, if the turn may spend; else those that end it. A new one is not heard at all then."""
        asks = self.budgets is not None and turn.input.action.calls_model
        refused = self.budgets.take(tx, turn, session) if asks and self.budgets is not None else None
        if refused is None:
            return records
        if not turn.attempt:
            return [refused[0]]
        return [*records, *cut_off(view_turn(self.transcript, turn.id), None), refused[0]]

    def _resume(self, tx: Tx, session: Session, turn: Turn, behind: list[Turn]) -> Claim:
        """A turn that was under way: after a crash, an answer, or a restart."""
        view = view_turn(self.transcript, turn.id)
        answers = [
            Answered(
                question=question.id,
                verdict=question.verdict,
                text=question.answer,
                by=question.answered_by,
                outside=has_read_outside(tx, question, view.questions[question.id], turn.agent),
            )
            for question in tx.questions.of_turn(turn.id)
            if question.verdict is not None and question.id not in view.answered
        ]
        records: list[Record] = list(answers)
        news: tuple[GatewayEvent, ...] = ()
        if answers:
            behind = self._let_wait(tx, tx.questions.of_turn(turn.id), behind)
        stop = turn.stop is not None or is_interrupted(turn, behind)
        if turn.poison and not stop:
            records += [*cut_off(view, None), Failed(reason=GIVEN_UP)]
        elif not stop and any(_client_left(view, answered) for answered in answers):
            records += [*cut_off(view, None), Stopped(reason=CLIENT_GONE)]
        elif not stop and (asked := self.tend(tx, turn, view, answers, self.now)):
            return self._start(tx, session, turn, [*records, *asked], behind)
        elif not stop and any(question.open for question in tx.questions.of_turn(turn.id)):
            return self._start(tx, session, turn, records, behind, waits=True)
        elif not stop and turn.input.confirm:
            allowed = bool(answers) and answers[-1].verdict.allows
            done, news = self._confirmed(tx, session, turn) if allowed else ([Finished(note=UNCHANGED)], ())
            records += done
        claim = self._start(tx, session, turn, records, behind, stopping=stop)
        return replace(claim, news=news, next=NextStep.STOP if stop else claim.next)

    def _confirmed(
        self, tx: Tx, session: Session, turn: Turn
    ) -> tuple[Sequence[Record], tuple[GatewayEvent, ...]]:
        """What was asked for is done."""
        if turn.input.action is not TurnAction.NEW:
            return self._opening(tx, turn), ()
        title = turn.input.text or None
        if title is not None and any(known.title == title for known in tx.sessions.find(title)):
            return [Finished(note=f"Another session is called “{title}”. Choose another title.")], ()
        news: tuple[GatewayEvent, ...] = ()
        for key, source in tx.bindings.of(self.session):
            if turn.source is None or source.address == turn.source.address:
                begun = next_session(tx, key, source, self.now)
                news += session_replaced(source, session, begun, key)
                if title is not None:
                    tx.sessions.save(replace(begun, title=title))
                title = None
        return [Finished(note=new_session_words(turn.input.text or None, self.session))], news

    def _reaches_back(self, turn: Turn) -> bool:
        """Whether a turn undoes more than the transcript here holds: then what a summary tells of is needed
        itself, for what is not undone of it is there again."""
        back = turn.input.action in (TurnAction.UNDO, TurnAction.RETRY)
        # One that was begun and cut off has undone them already.
        if turn.input.action is TurnAction.RESTORE or (back and turn.attempt):
            return True
        return back and len(user_turns(self.transcript)) < turn.input.count

    def _called_back(self, tx: Tx, turn: Turn, behind: list[Turn]) -> bool:
        """Whether a waiting turn has to go on: it is to stop, or other words of who was asked withdraw its
        question. Words of anybody else wait."""
        if turn.stop is not None:
            return True
        questions = [question for question in tx.questions.of_turn(turn.id) if question.open]
        behind = self._let_wait(tx, questions, behind)
        of_people = [question for question in questions if question.kind in FOR_PEOPLE]
        spoken = [one for one in behind if one.input.action is not TurnAction.SUMMARISE]
        steered = bool(of_people) and any(steers(one) and _was_asked(one, of_people) for one in spoken)
        if not (interrupts(behind) or steered):
            return False
        for question in questions:
            close_question(tx, Answer(question=question.id, verdict=Verdict.WITHDRAWN), self.now)
        return True

    def _let_wait(self, tx: Tx, questions: Sequence[Question], behind: list[Turn]) -> list[Turn]:
        """What interrupts, but comes from somebody who was not asked, waits its turn from now on: else it
        would stop the turn as soon as its question is answered."""
        left: list[Turn] = []
        for turn in behind:
            if interrupts([turn]) and not _was_asked(turn, questions):
                turn = _waiting(tx, turn)
            left.append(turn)
        return left

    def _opening(self, tx: Tx, turn: Turn) -> list[Record]:
        given = turn.input
        if given.action is TurnAction.SAY:
            return [said_in(turn, notes=name_notes(tx, turn, self.person))]
        if given.action is TurnAction.RELAY:
            return [Finished(note=given.text)]
        if given.action is TurnAction.RUN:
            return [UserSaid(text=given.text, author=given.author), _run_by_hand(turn)]
        if given.action is TurnAction.MIRROR:
            return [ModelSaid(text=given.text), Finished()]
        if given.action in (TurnAction.COMPRESS, TurnAction.ROLLBACK):
            return []
        if given.action is TurnAction.RESTORE:
            first = last_compression(self.transcript)
            if first is None:
                return [Finished(note=NOT_COMPRESSED)]
            return [Restored(since=first), Finished(note=RESTORED)]
        asked = user_turns(self.transcript)
        if not asked:
            return [Finished(note=f"There is nothing to {given.action.value}.")]
        count = min(given.count, len(asked))
        since = asked[-count]
        if given.action is TurnAction.UNDO:
            undone = {entry.turn for entry in asked[-count:]}
            # Where they changed files, those are taken back by the run; it says what came of it.
            files = tx.checkpoints.of_turns({*undone, *turns_for(tx, self.transcript, undone)})
            note = undone_words(count, self.transcript, undone)
            return [Undone(since=since.seq), *([] if files else [Finished(note=note)])]
        again = since.record
        assert isinstance(again, UserSaid)
        return [Undone(since=since.seq), again]


def told_before(tx: Tx, session: SessionId) -> int:
    """The record behind which an actor reads its session: a summary tells all that was before, and the turn
    that is under way is there whole."""
    upto = summed_upto(tx.journal.marks(session))
    under_way = tx.turns.open_of(session, 1) if upto else []
    first = tx.journal.span(under_way[0].id)[0] if under_way else 0
    return min(upto, first - 1) if first else upto


def keep_session_grants(tx: Tx, session: SessionId, turn: TurnId, new: Sequence[Entry]) -> None:
    """What answers among new records allow for the rest of the session is kept beside them, where it is found
    without reading them again."""
    allowing = {
        entry.record.question: entry
        for entry in new
        if isinstance(entry.record, Answered) and entry.record.verdict is Verdict.SESSION
    }
    for question in tx.questions.of_turn(turn) if allowing else ():
        entry = allowing.get(question.id)
        if entry is not None and question.digest and question.answered_by:
            tx.grants.add_for_session(session, question.answered_by, question.digest, entry.seq)


def begin_at_once(
    tx: Tx, session: Session, turn: Turn, last: int, epoch: int, person: PersonOf | None = None
) -> Claim:
    """Add a turn that does nothing but say something to a session in which nothing is unfinished, as one that
    is running: nothing is before it and nothing behind it, and its words come after the record `last`. The
    session itself is written by whoever calls this."""
    running = replace(turn, state=TurnState.RUNNING, attempt=1)
    words = said_in(turn, notes=name_notes(tx, turn, person))
    said = Entry(seq=last + 1, turn=turn.id, at=turn.created_at, record=words)
    tx.turns.add(running, epoch=epoch, since=said.seq)
    tx.journal.append(session.id, [said])
    return Claim(next=NextStep.RUN, turn=running, session=session, new=(said,))


def name_notes(tx: Tx, turn: Turn, person: PersonOf | None) -> tuple[int, ...]:
    """What is noted of who speaks, as far as the session was not told of it."""
    speaker = None if person is None else person(turn)
    return () if speaker is None else tx.notes.name(turn.session, speaker)


def said_in(turn: Turn, *, steering: bool = False, notes: tuple[int, ...] = ()) -> UserSaid:
    given = turn.input
    return UserSaid(
        text=given.text,
        author=given.author,
        attachments=tuple(map(_settled, given.attachments)),
        context=given.context,
        steering=steering,
        notes=given.notes + notes,
    )


def _settled(file: Attachment) -> Attachment:
    """A file as the transcript may speak of it: one that was not got by now is not got any more."""
    return replace(file, pending=False, problem="the turn was stopped first") if file.pending else file


def bound_session(tx: Tx, key: SessionKey) -> SessionId | None:
    """The session of a chat. Where people have sessions of their own, who has none yet joins the one that the
    whole place is bound to, if a conversation was handed over to it."""
    own = tx.bindings.get(key)
    if own is not None or key.user is None or key.kind not in SHARED_KINDS:
        return own
    shared = tx.bindings.get(replace(key, user=None))
    session = None if shared is None else tx.sessions.get(shared)
    # One that belongs to the place itself is from before people had their own.
    return None if session is None or session.owner is None else session.id


def next_session(
    tx: Tx, key: SessionKey, source: Source, now: datetime, made: Session | None = None
) -> Session:
    """A new session that the chat is bound to from now on; `made` if it was thought of before."""
    session = made or begin_session(key, source, now)
    before = tx.bindings.get(key)
    if before is not None:
        tx.flushes.want(before, now)
    tx.sessions.add(session)
    tx.bindings.bind(key, session.id, source, now)
    return session


def new_session_words(title: str | None, before: SessionId) -> str:
    return f"New session{f' “{title}”' if title else ''}. /resume {before} goes back."


def _confirmation(turn: Turn) -> Asked:
    count = turn.input.count
    what = (
        "begin a new session" if turn.input.action is TurnAction.NEW else f"forget the last {_turns(count)}"
    )
    text = f"Shall I {what}?"
    return Asked(
        question=new_question_id(), kind=QuestionKind.CONFIRM, text=text, options=("yes", "no"), digest=text
    )


def _run_by_hand(turn: Turn) -> ModelSaid:
    """The call that a quick command stands for; what is asked first, and what is kept, is as with any."""
    arguments = json.dumps({"command": turn.input.command, "timeout": QUICK_SECONDS}, ensure_ascii=False)
    call = ToolCall(id=CallId(f"quick_{turn.id}"), name="terminal", arguments=arguments)
    return ModelSaid(calls=(call,), ending=Ending.CALLS)


def undone_words(count: int, entries: Sequence[Entry], unkept: Collection[TurnId]) -> str:
    """What is said of so many turns, some of which have no checkpoint."""
    words = f"Undone: the last {_turns(count)}."
    if may_have_changed_files(entry for entry in entries if entry.turn in unkept):
        words += " Files that were changed without a checkpoint stay as they are."
    return words


def _turns(count: int) -> str:
    return "turn" if count == 1 else f"{count} turns"


_STATES: dict[type, TurnState] = {
    Finished: TurnState.DONE,
    Failed: TurnState.FAILED,
    Stopped: TurnState.STOPPED,
}


def ended_by(records: Sequence[Record]) -> TurnState | None:
    """The state that records leave a turn in, if they end it."""
    return _STATES.get(type(records[-1])) if records else None


def _client_left(view: TurnView, answered: Answered) -> bool:
    """A client that was asked for a result and brought none in time will not read an answer either."""
    asked = view.questions[answered.question]
    return asked.kind is QuestionKind.CLIENT_TOOL and answered.verdict is Verdict.EXPIRED


def _waiting(tx: Tx, turn: Turn) -> Turn:
    turn = replace(turn, busy=BusyMode.QUEUE)
    tx.turns.save(turn, attempt=turn.attempt)
    return turn


def _was_asked(turn: Turn, questions: Sequence[Question]) -> bool:
    """Whether a turn comes from who may answer; a question that nobody may answer stands in nobody's way."""
    person = None if turn.source is None else turn.source.person
    return all(not question.may_answer or person in question.may_answer for question in questions)
