"""Checks of what a turn stands on: turns and their fences, the journal, questions, jobs, leases, media."""

from __future__ import annotations

import asyncio
from functools import partial

from hermes.domain.chats.message import Attachment, MediaKind
from hermes.domain.chats.rows import MediaItem, SessionStanding
from hermes.domain.errors import HermesError, Lost
from hermes.domain.ids import MAIN_AGENT, AgentId, CallId, JobId, QuestionId, SessionId, TurnId
from hermes.domain.models.usage import Usage
from hermes.domain.ports.store import Store, Tx
from hermes.domain.tools.tool import ToolCall
from hermes.domain.turns.event import Finished, ModelSaid, Summarised, Undone, Verdict
from hermes.domain.turns.job import Job, JobRun, JobState, RunState, RunStatus
from hermes.domain.turns.turn import (
    NO_GUIDANCE,
    Answer,
    BusyMode,
    ClientTool,
    EarlierMessage,
    Guidance,
    ReplyPlace,
    Speaker,
    TurnInput,
    TurnState,
)
from hermes.domain.word import replace
from hermes.testing.store_suite.expect import raises
from hermes.testing.store_suite.samples import (
    NOW,
    OTHER_AGENT,
    OpenStore,
    add_talk,
    address,
    after,
    entry,
    job,
    job_run,
    question,
    session,
    turn,
)

S1, T1 = SessionId("s1"), TurnId("t1")


async def check_a_turn_is_kept_whole(open_store: OpenStore) -> None:
    async with open_store() as store:
        picture = Attachment(kind=MediaKind.IMAGE, ref="file:1", name="a.png", size=3)
        whole = replace(
            turn("t1"),
            input=TurnInput(text="look\0", attachments=(picture,), group="g", cut=True),
            reply=ReplyPlace(to=address(thread="7"), ref="m1"),
            busy=BusyMode.STEER,
            ready_at=after(2.5),
        )

        def add(tx: Tx) -> None:
            tx.sessions.add(session())
            tx.turns.add(whole)

        await store.write(add)
        assert await store.read(lambda tx: tx.turns.get(T1)) == whole
        patient = replace(whole, busy=BusyMode.QUEUE, ready_at=None, stop="enough")
        await store.write(lambda tx: tx.turns.save(patient, attempt=0))
        assert await store.read(lambda tx: tx.turns.get(T1)) == patient
        assert await store.read(lambda tx: tx.turns.get(TurnId("t9"))) is None
        await raises(HermesError, store.write(lambda tx: tx.turns.add(turn("t1"))))


async def check_what_a_client_brought_along_stays_with_its_turn(open_store: OpenStore) -> None:
    """Whole, through every start, with the words changing beside it, and not after its session is deleted."""
    call = ToolCall(id=CallId("c1"), name="look", arguments='{"at": "\\u0000"}')
    brought = Guidance(
        instructions="Be brief.",
        history=(
            EarlierMessage(by=Speaker.AGENT, calls=(call,)),
            EarlierMessage(by=Speaker.TOOL, call=call.id, text="seen"),
            EarlierMessage(
                by=Speaker.USER, attachments=(Attachment(kind=MediaKind.IMAGE, ref="r", sha256="ab"),)
            ),
        ),
        tools=(ClientTool(name="look", parameters='{"type": "object"}'),),
        model="m",
    )
    given = replace(turn("t1"), input=TurnInput(text="words", guidance=brought))

    def add(tx: Tx) -> None:
        tx.sessions.add(session())
        tx.turns.add(given)

    async with open_store() as store:
        await store.write(add)
        assert await store.read(lambda tx: tx.turns.get(T1)) == given
        longer = replace(given, input=replace(given.input, text="more words"), attempt=1)
        await store.write(lambda tx: tx.turns.save(longer, attempt=0, epoch=1))
        assert await store.read(lambda tx: tx.turns.open_of(S1)) == [longer]
        assert await store.scoped(OTHER_AGENT).read(lambda tx: tx.turns.get(T1)) is None
        await store.write(lambda tx: tx.sessions.delete(S1))
        await store.write(add_talk)
        again = await store.read(lambda tx: tx.turns.get(T1))
        assert again is not None and again.input.guidance == NO_GUIDANCE


async def check_a_turn_needs_its_session(open_store: OpenStore) -> None:
    async with open_store() as store:
        await raises(Lost, store.write(lambda tx: tx.turns.add(turn("t1", "nobody's"))))
        await raises(Lost, store.write(lambda tx: tx.turns.add(turn("t1", agent=OTHER_AGENT))))


async def check_stale_writes_of_a_turn_are_refused(open_store: OpenStore) -> None:
    async with open_store() as store:
        await store.write(add_talk)
        first = replace(turn("t1"), state=TurnState.RUNNING, attempt=1)
        await store.write(lambda tx: tx.turns.save(first, attempt=0, epoch=1))
        await raises(Lost, store.write(lambda tx: tx.turns.save(first, attempt=0, epoch=1)))
        second = replace(first, attempt=2)
        await store.write(lambda tx: tx.turns.save(second, attempt=1, epoch=1))

        def advance(tx: Tx, attempt: int, state: TurnState) -> None:
            tx.turns.advance(T1, attempt=attempt, records=2, state=state)

        await raises(Lost, store.write(lambda tx: advance(tx, 1, TurnState.RUNNING)))
        await store.write(lambda tx: advance(tx, 2, TurnState.RUNNING))
        await store.write(lambda tx: advance(tx, 2, TurnState.WAITING))
        await raises(Lost, store.write(lambda tx: advance(tx, 2, TurnState.RUNNING)))
        got = await store.read(lambda tx: tx.turns.get(T1))
        assert got is not None
        assert (got.state, got.attempt, got.progress) == (TurnState.WAITING, 2, 4)
        third = replace(got, state=TurnState.RUNNING, attempt=3, progress=0)
        await store.write(lambda tx: tx.turns.save(third, attempt=2))
        await store.write(lambda tx: advance(tx, 3, TurnState.DONE))
        await raises(Lost, store.write(lambda tx: advance(tx, 3, TurnState.FAILED)))
        await raises(Lost, store.write(lambda tx: tx.turns.save(third, attempt=3)))
        done = await store.read(lambda tx: tx.turns.get(T1))
        assert done is not None
        assert done.state is TurnState.DONE


async def check_another_agent_cannot_move_a_turn(open_store: OpenStore) -> None:
    async with open_store() as store:
        await store.write(add_talk)
        running = replace(turn("t1"), state=TurnState.RUNNING, attempt=1)
        await store.write(lambda tx: tx.turns.save(running, attempt=0))
        other = store.scoped(OTHER_AGENT)
        await raises(Lost, other.write(lambda tx: tx.turns.save(running, attempt=1)))
        ended = TurnState.DONE
        await raises(Lost, other.write(lambda tx: tx.turns.advance(T1, attempt=1, records=1, state=ended)))
        assert await other.read(lambda tx: tx.turns.get(T1)) is None
        assert await store.read(lambda tx: tx.turns.get(T1)) == running


async def check_open_turns_come_in_order_of_arrival(open_store: OpenStore) -> None:
    async with open_store() as store:

        def fill(tx: Tx) -> None:
            tx.sessions.add(session("s1"))
            tx.sessions.add(session("s2"))
            for number in (3, 1, 2):
                tx.turns.add(turn(f"t{number}"))
            tx.turns.add(turn("elsewhere", "s2"))
            tx.turns.save(replace(turn("t1"), state=TurnState.STOPPED), attempt=0)
            tx.turns.save(replace(turn("t2"), state=TurnState.WAITING), attempt=0)

        await store.write(fill)
        assert [one.id for one in await store.read(lambda tx: tx.turns.open_of(S1))] == ["t3", "t2"]
        assert [one.id for one in await store.read(lambda tx: tx.turns.open_of(S1, 1))] == ["t3"]


async def check_how_a_session_stands(open_store: OpenStore) -> None:
    async with open_store() as store:

        async def standing(of: Store = store) -> SessionStanding:
            now = await of.read(lambda tx: tx.turns.standing(S1))
            assert await of.read(lambda tx: tx.turns.any_open(S1)) == now.busy
            return now

        assert await standing() == SessionStanding()
        await store.write(add_talk)
        await store.write(lambda tx: tx.journal.append(S1, [entry(1), entry(2)]))
        assert await standing() == SessionStanding(last=2, busy=True)
        await store.write(lambda tx: tx.questions.add(question("q1")))
        assert await standing() == SessionStanding(last=2, busy=True, asks=True)
        assert await standing(store.scoped(OTHER_AGENT)) == SessionStanding()
        reply = Answer(question=QuestionId("q1"), verdict=Verdict.ONCE)
        await store.write(lambda tx: tx.questions.close(reply))
        await store.write(lambda tx: tx.turns.save(replace(turn("t1"), state=TurnState.DONE), attempt=0))
        assert await standing() == SessionStanding(last=2)


async def check_the_journal_only_grows(open_store: OpenStore) -> None:
    async with open_store() as store:
        await store.write(add_talk)
        said = [entry(1), entry(2, record=ModelSaid(text="ü\ud83d\ude00 \0")), entry(3, of="t2")]
        await store.write(lambda tx: tx.journal.append(S1, said[:2]))
        await store.write(lambda tx: tx.journal.append(S1, said[2:]))
        read = await store.read(lambda tx: tx.journal.read(S1))
        assert [one.seq for one in read] == [1, 2, 3]
        assert (read[0], read[2]) == (said[0], said[2])
        assert [one.seq for one in await store.read(lambda tx: tx.journal.read(S1, after=2))] == [3]
        assert [one.seq for one in await store.read(lambda tx: tx.journal.read(S1, 1, most=1))] == [2]
        assert [one.seq for one in await store.read(lambda tx: tx.journal.of_turn(T1))] == [1, 2]
        newest = await store.read(lambda tx: tx.journal.read(S1, most=2, newest=True))
        assert [one.seq for one in newest] == [2, 3]
        # A number that is taken means that somebody else goes on with the session.
        twice = [entry(4), entry(3, record=Finished())]
        await raises(Lost, store.write(lambda tx: tx.journal.append(S1, twice)))
        assert await store.read(lambda tx: tx.journal.read(S1)) == read
        await raises(Lost, store.write(lambda tx: tx.journal.append(SessionId("gone"), [entry(1)])))


async def check_a_session_is_copied(open_store: OpenStore) -> None:
    async with open_store() as store:
        used = Usage(prompt=5, completion=3, cached=2, reasoning=1)

        def fill(tx: Tx) -> None:
            add_talk(tx)
            tx.sessions.add(session("copy"))
            records = [None, ModelSaid(text="a", usage=used), None, ModelSaid(text="b", usage=used), None]
            turns = ["t1", "t1", "t2", "t3", "t3"]
            said = [entry(n, of, one) for n, (of, one) in enumerate(zip(turns, records, strict=True), 1)]
            tx.journal.append(S1, said)

        await store.write(fill)
        await store.write(lambda tx: tx.journal.copy(S1, SessionId("copy"), 4, {TurnId("t2")}))
        told = await store.read(lambda tx: tx.journal.read(S1))
        copied = await store.read(lambda tx: tx.journal.read(SessionId("copy")))
        assert [(one.seq, one.at, one.record) for one in copied] == [
            (one.seq, one.at, one.record) for one in told if one.seq in (1, 2, 4)
        ]
        first, same, other = (one.turn for one in copied)
        assert first == same != other and not {first, other} & {one.turn for one in told}
        elsewhere = store.scoped(AgentId("other"))
        await elsewhere.write(lambda tx: tx.journal.copy(S1, SessionId("copy"), 9, ()))
        assert await store.read(lambda tx: tx.journal.read(SessionId("copy"))) == copied


async def check_the_marks_of_a_session_are_found_alone(open_store: OpenStore) -> None:
    async with open_store() as store:
        summary, undoing = Summarised(upto=2, text="S"), Undone(since=5)
        said = [
            entry(1), entry(2), entry(3, "t9", summary), entry(4, "t9"), entry(5, "t2"),
            entry(6, "t2", undoing), entry(7, "t2"),
        ]  # fmt: skip

        def fill(tx: Tx) -> None:
            add_talk(tx)
            tx.sessions.add(session("copy"))
            tx.turns.add(turn("t2"))
            tx.journal.append(S1, said)

        await store.write(fill)
        assert await store.read(lambda tx: tx.journal.marks(S1)) == [said[2], said[5]]
        assert await store.read(lambda tx: tx.journal.marks(SessionId("copy"))) == []
        assert await store.read(lambda tx: tx.journal.span(TurnId("t2"))) == (5, 7)
        assert await store.read(lambda tx: tx.journal.span(TurnId("gone"))) == (0, 0)
        elsewhere = store.scoped(OTHER_AGENT)
        assert await elsewhere.read(lambda tx: tx.journal.marks(S1)) == []
        assert await elsewhere.read(lambda tx: tx.journal.span(TurnId("t2"))) == (0, 0)
        await store.write(lambda tx: tx.journal.copy(S1, SessionId("copy"), 5, ()))
        copied = await store.read(lambda tx: tx.journal.marks(SessionId("copy")))
        assert [(one.seq, one.record) for one in copied] == [(3, summary)]


async def check_what_is_allowed_for_a_session_goes_with_it(open_store: OpenStore) -> None:
    copy = SessionId("copy")
    async with open_store() as store:

        def fill(tx: Tx) -> None:
            add_talk(tx)
            tx.sessions.add(session("copy"))
            tx.journal.append(S1, [entry(1), entry(2), entry(3, "t2"), entry(4, "t3")])
            for seq, (person, digest) in enumerate(
                [("ann", "a"), ("ann", "b"), ("bob", "c"), ("ann", "d")], 1
            ):
                tx.grants.add_for_session(S1, person, digest, seq)
            tx.grants.add_for_session(S1, "ann", "a", 4)
            tx.grants.add_for_session(SessionId("gone"), "ann", "a", 1)

        def held(of: SessionId, person: str, tx: Tx) -> frozenset[str]:
            return tx.grants.of_session(of, person)

        await store.write(fill)
        assert await store.read(partial(held, S1, "ann")) == {"a", "b", "d"}
        assert await store.read(partial(held, S1, "bob")) == {"c"}
        assert await store.read(partial(held, SessionId("gone"), "ann")) == frozenset()
        elsewhere = store.scoped(OTHER_AGENT)
        assert await elsewhere.read(partial(held, S1, "ann")) == frozenset()
        await elsewhere.write(lambda tx: tx.grants.add_for_session(S1, "ann", "e", 1))
        # A copy has what was allowed in the records that it has.
        await store.write(lambda tx: tx.journal.copy(S1, copy, 3, {TurnId("t2")}))
        assert await store.read(partial(held, copy, "ann")) == {"a", "b"}
        assert await store.read(partial(held, copy, "bob")) == frozenset()
        await store.write(lambda tx: tx.sessions.delete(S1))
        await store.write(lambda tx: tx.sessions.add(session("s1")))
        assert await store.read(partial(held, S1, "ann")) == frozenset()
        assert await store.read(partial(held, copy, "ann")) == {"a", "b"}


async def check_the_first_answer_wins(open_store: OpenStore) -> None:
    async with open_store() as store:

        def ask(tx: Tx) -> None:
            add_talk(tx)
            tx.questions.add(question("q1", expires_at=after(60)))
            tx.questions.add(question("q2"))

        await store.write(ask)
        verdicts = [Verdict.ONCE, Verdict.DENY]
        answers = [
            Answer(question=QuestionId("q1"), verdict=verdicts[n % 2], text=f"try {n}", by=f"p{n}")
            for n in range(50)
        ]

        async def close(answer: Answer) -> bool:
            return await store.write(lambda tx: tx.questions.close(answer))

        closed = await asyncio.gather(*(close(answer) for answer in answers))
        assert closed.count(True) == 1
        winner = answers[closed.index(True)]
        got = await store.read(lambda tx: tx.questions.get(QuestionId("q1")))
        assert got is not None
        assert (got.verdict, got.answer, got.answered_by) == (winner.verdict, winner.text, winner.by)
        assert [one.id for one in await store.read(lambda tx: tx.questions.open_of(S1))] == ["q2"]
        assert [one.id for one in await store.read(lambda tx: tx.questions.open_of(None))] == ["q2"]
        assert await store.scoped(OTHER_AGENT).read(lambda tx: tx.questions.open_of(None)) == []
        assert [one.id for one in await store.read(lambda tx: tx.questions.of_turn(T1))] == ["q1", "q2"]
        assert not await close(Answer(question=QuestionId("q9"), verdict=Verdict.DENY))


async def check_expired_questions_are_listed(open_store: OpenStore) -> None:
    async with open_store() as store:

        def ask(tx: Tx) -> None:
            add_talk(tx)
            for ident, expiry in (("late", 30.0), ("soon", 10.0), ("answered", 5.0), ("later", 90.0)):
                tx.questions.add(question(ident, expires_at=after(expiry)))
            tx.questions.add(question("never"))
            tx.questions.close(Answer(question=QuestionId("answered"), verdict=Verdict.DENY))

        await store.write(ask)
        expired = await store.read(lambda tx: tx.recovery.expired(after(30), 10))
        assert [(agent, one.id) for agent, one in expired] == [("main", "soon"), ("main", "late")]
        assert len(await store.read(lambda tx: tx.recovery.expired(after(100), 2))) == 2


async def check_a_slot_runs_once(open_store: OpenStore) -> None:
    async with open_store() as store:
        run = job_run("j1", after(60))
        assert not await store.write(lambda tx: tx.job_runs.claim(run))
        await store.write(lambda tx: tx.jobs.save(job("j1")))
        claims = await asyncio.gather(*(store.write(lambda tx: tx.job_runs.claim(run)) for _ in range(20)))
        assert claims.count(True) == 1
        later = replace(run, due=after(120))
        assert await store.write(lambda tx: tx.job_runs.claim(later))


async def check_what_became_of_a_slot_is_kept(open_store: OpenStore) -> None:
    async with open_store() as store:
        first, second = job_run("j1", after(60)), job_run("j1", after(120))
        await raises(Lost, store.write(lambda tx: tx.job_runs.save(first)))
        await store.write(lambda tx: tx.jobs.save(job("j1")))
        for run in (first, second):
            await store.write(partial(_claim, run))
        over = replace(first, state=RunState.OVER, status=RunStatus.OK, turn=T1, ended_at=after(61))
        await store.write(lambda tx: tx.job_runs.save(over))
        assert await store.read(lambda tx: tx.job_runs.get(first.slot)) == over
        assert await store.read(lambda tx: tx.job_runs.open()) == [(MAIN_AGENT, second)]
        assert await store.read(lambda tx: tx.job_runs.of(JobId("j1"), 9)) == [second, over]
        assert await store.read(lambda tx: tx.job_runs.of(None, 1)) == [second]
        assert await store.read(lambda tx: tx.job_runs.of(JobId("j2"), 9)) == []


def _claim(run: JobRun, tx: Tx) -> None:
    assert tx.job_runs.claim(run)


async def check_jobs_are_due_at_their_time(open_store: OpenStore) -> None:
    async with open_store() as store:
        for one in (job("j1", next_due=after(9)), job("j2", next_due=after(3)), job("j3")):
            await store.write(partial(_save, one))
        early = await store.read(lambda tx: tx.jobs.due(after(2)))
        assert (early.jobs, early.next) == ((), after(3))
        some = await store.read(lambda tx: tx.jobs.due(after(3)))
        assert ([one.id for one in some.jobs], some.next) == (["j2"], after(9))
        all_ = await store.read(lambda tx: tx.jobs.due(after(10)))
        assert ([one.id for one in all_.jobs], all_.next) == (["j2", "j1"], None)


async def check_facts_are_remembered(open_store: OpenStore) -> None:
    async with open_store() as store:
        assert await store.read(lambda tx: tx.facts.get("moved")) is None
        await store.write(lambda tx: tx.facts.put("moved", "yes"))
        await store.write(lambda tx: tx.facts.put("moved", "twice"))
        assert await store.read(lambda tx: tx.facts.get("moved")) == "twice"


async def check_jobs_are_kept_and_listed_by_their_time(open_store: OpenStore) -> None:
    async with open_store() as store:
        jobs = [job("j1", next_due=after(9)), job("j2", next_due=after(3)), job("j3")]
        await asyncio.gather(*(store.write(partial(_save, one)) for one in jobs))
        assert [one.id for one in await store.read(lambda tx: tx.jobs.list())] == ["j2", "j1", "j3"]
        changed = replace(jobs[0], next_due=after(1), state=JobState.PAUSED, skills=("x",))
        await store.write(lambda tx: tx.jobs.save(changed))
        assert await store.read(lambda tx: tx.jobs.get(JobId("j1"))) == changed
        await store.write(lambda tx: tx.jobs.remove(JobId("j1")))
        assert await store.read(lambda tx: tx.jobs.get(JobId("j1"))) is None


def _save(one: Job, tx: Tx) -> None:
    tx.jobs.save(one)


async def check_a_lease_has_one_holder_and_fences(open_store: OpenStore) -> None:
    async with open_store() as store:

        async def take(owner: str, seconds: float) -> int | None:
            return await store.write(lambda tx: tx.leases.take("account", owner, after(seconds), 10))

        first = await take("a", 0)
        assert first is not None
        assert await take("b", 5) is None
        assert await take("a", 8) == first
        assert await take("b", 17) is None
        stolen = await take("b", 30)
        assert stolen is not None
        assert stolen > first
        assert await take("a", 31) is None
        await store.write(lambda tx: tx.leases.release("account", "a"))
        assert await take("a", 32) is None
        await store.write(lambda tx: tx.leases.release("account", "b"))
        again = await take("a", 33)
        assert again is not None
        assert again > stolen
        assert await store.write(lambda tx: tx.leases.take("another", "b", NOW, 10)) is not None


async def check_files_are_known_by_their_content(open_store: OpenStore) -> None:
    async with open_store() as store:
        item = MediaItem(sha256="ab" * 32, path="ab/abab", size=3, mime="image/png", stored_at=NOW)
        await store.write(lambda tx: tx.media.add(item))
        await store.write(lambda tx: tx.media.add(replace(item, path="cd/cdcd", stored_at=after(9))))
        young = replace(item, stored_at=after(9))
        assert await store.read(lambda tx: tx.media.get(item.sha256)) == young, (
            "it is the same, and used again"
        )
        assert await store.read(lambda tx: tx.media.get("cd" * 32)) is None


CHECKS = (
    check_a_turn_is_kept_whole,
    check_what_a_client_brought_along_stays_with_its_turn,
    check_a_turn_needs_its_session,
    check_stale_writes_of_a_turn_are_refused,
    check_another_agent_cannot_move_a_turn,
    check_open_turns_come_in_order_of_arrival,
    check_the_journal_only_grows,
    check_a_session_is_copied,
    check_the_marks_of_a_session_are_found_alone,
    check_what_is_allowed_for_a_session_goes_with_it,
    check_the_first_answer_wins,
    check_expired_questions_are_listed,
    check_a_slot_runs_once,
    check_what_became_of_a_slot_is_kept,
    check_jobs_are_due_at_their_time,
    check_facts_are_remembered,
    check_jobs_are_kept_and_listed_by_their_time,
    check_a_lease_has_one_holder_and_fences,
    check_files_are_known_by_their_content,
)
