"""Children: turns that a call of another turn waits for.

A child is a row in the commit that asks for it, or, where only so many run at once, in the commit that ends
another one of the same turn. It is a turn of its parent's agent or of another, in a session of its own, works
for the person its parent works for, and has at most the parent's tools. The commit that ends it answers the
question, so a crash loses neither. What it has to ask a person is put to them by its parent: the question
wakes the parent, whose claim asks in its own name, waits on, and hands the answer down. When the parent ends
first, or does not wait any more, the child is stopped."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from datetime import datetime

from hermes.control.outbound.question_messages import close_question
from hermes.control.turn.child_report import report_child
from hermes.control.turn.questions import FOR_PEOPLE, keep_grant, resume
from hermes.control.turn.stopping import stop_turn
from hermes.domain.ids import AgentId, QuestionId, SessionId, TurnId, new_question_id
from hermes.domain.ports.store import Tx
from hermes.domain.text import one_line
from hermes.domain.tools.tool import ChildTask
from hermes.domain.tools.toolsets import NO_TOOLSET
from hermes.domain.turns.event import Answered, Asked, Entry, Finished, QuestionKind, Verdict
from hermes.domain.turns.session import BACKGROUND, Session, make_turn
from hermes.domain.turns.transcript import TurnView, view_turn
from hermes.domain.turns.turn import Answer, Cause, ParentCall, Question, Turn, TurnInput, TurnState
from hermes.domain.word import replace

CHILD = "child_"
FOR_ANOTHER = (
    "You work on this for another agent, which reads your last answer and nothing else. Nobody answers "
    "questions. End with what you found or did, which files you changed, and what is left."
)
PARENT_GONE = "what asked for it has ended"
_LABEL = 80

ActorKey = tuple[AgentId, SessionId]


def child_turn(question: QuestionId) -> TurnId:
    """The turn that answers a question."""
    return TurnId(f"{CHILD}{question}")


def turns_for(tx: Tx, entries: Sequence[Entry], turns: Collection[TurnId]) -> list[TurnId]:
    """The turns to which these turns gave tasks, and those to which they gave some. `entries` hold the
    records of `turns`; another agent's turns are named, but not looked into."""
    found = _given(entries, turns)
    for child in found:
        found += _given(tx.journal.of_turn(child), [child])
    return found


def _given(entries: Sequence[Entry], turns: Collection[TurnId]) -> list[TurnId]:
    asked = (entry.record for entry in entries if entry.turn in turns)
    return [child_turn(record.question) for record in asked if isinstance(record, Asked) and record.child]


def child_session(question: QuestionId) -> SessionId:
    return SessionId(f"{BACKGROUND}{CHILD}{question}")


def follow_family(tx: Tx, turn: Turn, entries: Sequence[Entry], now: datetime) -> list[ActorKey]:
    """What the commit that parks or ends a turn does for its children and its parent; whom to ring after it.
    `entries` are the turn's records."""
    records = [entry.record for entry in entries]
    children = [record for record in records if isinstance(record, Asked) and record.child is not None]
    last = records[-1]
    if isinstance(last, Asked):
        rung = _begin_due(tx, turn, children, now)
        asks = any(isinstance(record, Asked) and record.kind in FOR_PEOPLE for record in records)
        return rung + (_wake_parent(tx, turn) if asks else [])
    rung = [key for record in children for key in _stop(tx, turn.agent, record)]
    return rung + (_answer_parent(tx, turn, entries, now) if turn.id.startswith(CHILD) else [])


def _agent_of(asked: Asked, parent: AgentId) -> AgentId:
    return parent if asked.child is None or not asked.child.agent else AgentId(asked.child.agent)


def _stop(tx: Tx, parent: AgentId, asked: Asked) -> list[ActorKey]:
    agent = _agent_of(asked, parent)
    stopped = stop_turn(tx.scoped(agent), child_turn(asked.question), PARENT_GONE)
    return [] if stopped is None else [(agent, child_session(asked.question))]


# --- how one begins ---


def _begin_due(tx: Tx, parent: Turn, children: Sequence[Asked], now: datetime) -> list[ActorKey]:
    """Begin as many of a turn's children as may run beside those that do."""
    rung: list[ActorKey] = []
    running = 0
    for asked in children:
        agent, question = _agent_of(asked, parent.agent), tx.questions.get(asked.question)
        known = tx.scoped(agent).turns.get(child_turn(asked.question))
        most = asked.child.at_once if asked.child is not None else 0
        if known is not None:
            running += known.state.open
        elif question is not None and question.open and (not most or running < most):
            running += 1
            _begin(tx, parent, asked, children, now)
            rung.append((agent, child_session(asked.question)))
    return rung


def _begin(tx: Tx, parent: Turn, asked: Asked, children: Sequence[Asked], now: datetime) -> None:
    above, agent = tx.sessions.get(parent.session), _agent_of(asked, parent.agent)
    task, own, same = asked.child or ChildTask(text=asked.text), parent.input.guidance, agent == parent.agent
    model = task.model or ((own.model or (above.model if above else None)) if same else None)
    session = Session(
        id=child_session(asked.question),
        agent=agent,
        created_at=now,
        updated_at=now,
        owner=None if above is None else above.owner,
        place=None if above is None else above.place,
        parent=parent.session,
        model=model or None,
        workspace=None if above is None else above.workspace,
    )
    beside = [one.question for one in children if one.call == asked.call]
    place = f"{beside.index(asked.question) + 1}/{len(beside)}" if len(beside) > 1 else ""
    guidance = replace(
        own.bounds,
        instructions=FOR_ANOTHER,
        toolsets=task.toolsets or (NO_TOOLSET,),
        outside=own.outside or asked.outside,
        steps=task.steps,
        effort=task.effort,
        parent=ParentCall(
            agent=parent.agent,
            turn=parent.id,
            call=asked.call,
            place=place,
            depth=depth_of(parent) + 1,
            above=() if own.parent is None else own.parent.agents,
        ),
    )
    theirs = tx.scoped(agent)
    theirs.sessions.add(session)
    turn = make_turn(session, Cause.CHILD, TurnInput(text=task.text, guidance=guidance), now)
    theirs.turns.add(replace(turn, id=child_turn(asked.question), source=parent.source))


def depth_of(turn: Turn) -> int:
    """How many turns are above a turn."""
    return 0 if turn.input.guidance.parent is None else turn.input.guidance.parent.depth


# --- how one ends ---


def _parent_of(tx: Tx, turn: Turn) -> tuple[Tx, Question] | None:
    parent = turn.input.guidance.parent
    theirs = tx.scoped(turn.agent if parent is None else parent.agent)
    question = theirs.questions.get(QuestionId(turn.id.removeprefix(CHILD)))
    return None if question is None else (theirs, question)


def _answer_parent(tx: Tx, turn: Turn, entries: Sequence[Entry], now: datetime) -> list[ActorKey]:
    above = _parent_of(tx, turn)
    parent = None if above is None else above[0].turns.get(above[1].turn)
    if above is None or parent is None:
        return []
    theirs, question = above
    done = isinstance(entries[-1].record, Finished)
    verdict = Verdict.REPLY if done else Verdict.WITHDRAWN
    words = report_child(turn, entries, _below(tx, turn.agent, entries))
    given = Answer(question=question.id, verdict=verdict, text=words)
    if not close_question(theirs, given, now):
        return []
    asked = {one.id for one in tx.questions.of_turn(turn.id)}
    for relay in theirs.questions.of_turn(parent.id):
        if relay.relays in asked:
            close_question(theirs, Answer(question=relay.id, verdict=Verdict.WITHDRAWN), now)
    resume(theirs, question)
    return [(parent.agent, parent.session), *_begin_due(theirs, parent, _children(theirs, parent), now)]


def _below(tx: Tx, agent: AgentId, entries: Sequence[Entry]) -> list[Entry]:
    """The records of children, of whichever agent, and of their children."""
    found: list[Entry] = []
    for asked in (entry.record for entry in entries):
        if isinstance(asked, Asked) and asked.child is not None:
            theirs = _agent_of(asked, agent)
            own = tx.scoped(theirs).journal.of_turn(child_turn(asked.question))
            found += [*own, *_below(tx, theirs, own)]
    return found


def _children(tx: Tx, turn: Turn) -> list[Asked]:
    asked = [entry.record for entry in tx.journal.of_turn(turn.id) if isinstance(entry.record, Asked)]
    return [record for record in asked if record.child is not None]


def last_step(tx: Tx, turn: Turn) -> datetime | None:
    """When a turn, or a child that it waits for, last wrote something down."""
    last = [entry.at for entry in tx.journal.of_turn(turn.id)[-1:]]
    if turn.state is TurnState.WAITING:
        for asked in _children(tx, turn):
            theirs = tx.scoped(_agent_of(asked, turn.agent))
            below = theirs.turns.get(child_turn(asked.question))
            last += [] if below is None else [last_step(theirs, below) or below.created_at]
    return max(last, default=None)


def has_read_outside(tx: Tx, question: Question, asked: Asked, agent: AgentId) -> bool:
    """Whether a child answered that had read what was written elsewhere."""
    if question.kind is not QuestionKind.CHILD:
        return False
    child = child_turn(question.id)
    return view_turn(tx.scoped(_agent_of(asked, agent)).journal.of_turn(child), child).tainted


# --- what one asks ---


def _wake_parent(tx: Tx, turn: Turn) -> list[ActorKey]:
    """A child asks a person: its parent's claim puts it to them."""
    above = _parent_of(tx, turn) if turn.id.startswith(CHILD) else None
    parent = None if above is None else above[0].turns.get(above[1].turn)
    if above is None or parent is None or not parent.state.open:
        return []
    if parent.state is TurnState.WAITING:
        above[0].turns.save(replace(parent, state=TurnState.RUNNING), attempt=parent.attempt, epoch=0)
    return [(parent.agent, parent.session)]


def tend_children(
    rung: list[ActorKey], tx: Tx, turn: Turn, view: TurnView, answers: Iterable[Answered], now: datetime
) -> list[Asked]:
    """What the claim of a turn that waits does for its children: hands answers down, stops those that nobody
    waits for any more, and tells what they ask. `rung` takes whom to ring after it."""
    waiting = {asked.question: asked for state in view.calls.values() for asked in state.children}
    relayed = {asked.relays for asked in view.questions.values()}
    for given in answers:
        asked = view.questions[given.question]
        if asked.kind is QuestionKind.CHILD and given.verdict is not Verdict.REPLY:
            rung += _stop(tx, turn.agent, asked)
        elif asked.relays is not None:
            rung += _hand_down(tx, turn, waiting.values(), asked, given, now)
    new: list[Asked] = []
    for asked in waiting.values():
        agent, known = _agent_of(asked, turn.agent), tx.questions.get(asked.question)
        if known is None or not known.open:
            continue
        for question in tx.scoped(agent).questions.of_turn(child_turn(asked.question)):
            if question.open and question.kind in FOR_PEOPLE and question.id not in relayed:
                new.append(_relay(question, asked))
    return new


def _relay(question: Question, asked: Asked) -> Asked:
    task = asked.child or ChildTask(text=asked.text)
    who = f"{task.agent}, working on" if task.agent else "Working on"
    return Asked(
        question=new_question_id(),
        kind=question.kind,
        text=f"[{who} “{one_line(task.text, _LABEL)}”]\n{question.text}",
        options=question.options,
        relays=question.id,
    )


def _hand_down(
    tx: Tx, turn: Turn, children: Iterable[Asked], relay: Asked, given: Answered, now: datetime
) -> list[ActorKey]:
    for asked in children:
        agent = _agent_of(asked, turn.agent)
        theirs = tx.scoped(agent)
        question = None if relay.relays is None else theirs.questions.get(relay.relays)
        if question is None or question.turn != child_turn(asked.question):
            continue
        answer = Answer(question=question.id, verdict=given.verdict, text=given.text, by=given.by)
        if close_question(theirs, answer, now):
            keep_grant(theirs, question, answer, now)
            resume(theirs, question)
            return [(agent, question.session)]
    return []
