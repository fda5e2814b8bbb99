"""The check of walls between agents: random operations of several agents, each with a marker of its own in
everything it stores; no marker may ever be seen through, or changed by, another agent's handle."""

from __future__ import annotations

import random
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial

from hermes.domain.chats.rows import MediaItem
from hermes.domain.errors import HermesError
from hermes.domain.ids import AgentId, JobId, QuestionId, SessionId, TurnId
from hermes.domain.ports.store import Tx
from hermes.domain.turns.event import UserSaid, Verdict
from hermes.domain.turns.turn import Answer, TurnInput, TurnState
from hermes.domain.word import replace
from hermes.testing.store_suite.samples import (
    NOW,
    OpenStore,
    after,
    entry,
    job,
    job_run,
    question,
    session,
    turn,
)

AGENTS = tuple(AgentId(name) for name in ("ada", "bob", "cyd"))
OPERATIONS = 250
IDENTS = 12


def marker(agent: AgentId) -> str:
    return f"marker{agent}marker"


@dataclass(frozen=True, slots=True)
class _Move:
    """One agent's try at something under an id that any of them may own."""

    agent: AgentId
    ident: str
    seq: int

    def grow(self, tx: Tx) -> None:
        tx.sessions.add(session(self.ident, self.agent, title=f"{marker(self.agent)} {self.ident}"))

    def work(self, tx: Tx) -> None:
        given = TurnInput(text=marker(self.agent))
        tx.turns.add(replace(turn(f"t-{self.ident}", self.ident, self.agent), input=given))

    def say(self, tx: Tx) -> None:
        said = entry(self.seq, f"t-{self.ident}", UserSaid(text=marker(self.agent)))
        tx.journal.append(SessionId(self.ident), [said])

    def ask(self, tx: Tx) -> None:
        asked = question(f"q-{self.ident}", f"t-{self.ident}", self.ident)
        tx.questions.add(replace(asked, text=marker(self.agent)))

    def answer(self, tx: Tx) -> None:
        tx.questions.close(
            Answer(question=QuestionId(f"q-{self.ident}"), verdict=Verdict.REPLY, text=marker(self.agent))
        )

    def plan(self, tx: Tx) -> None:
        tx.jobs.save(replace(job(f"j-{self.ident}", self.agent), prompt=marker(self.agent)))

    def claim(self, tx: Tx) -> None:
        tx.job_runs.claim(job_run(f"j-{self.ident}", after(self.seq), marker(self.agent)))

    def keep(self, tx: Tx) -> None:
        tx.media.add(MediaItem(sha256=self.ident, path=marker(self.agent), size=1, mime="x/y", stored_at=NOW))

    def rename(self, tx: Tx) -> None:
        tx.sessions.save(session(self.ident, self.agent, title=f"{marker(self.agent)} {self.ident}"))

    def stop(self, tx: Tx) -> None:
        known = turn(f"t-{self.ident}", self.ident, self.agent)
        running = replace(known, stop=marker(self.agent), state=TurnState.RUNNING)
        tx.turns.save(replace(running, input=TurnInput(text=marker(self.agent))), attempt=0)

    def advance(self, tx: Tx) -> None:
        ended = TurnState.DONE
        tx.turns.advance(TurnId(f"t-{self.ident}"), attempt=0, records=1, state=ended)

    def drop(self, tx: Tx) -> None:
        tx.sessions.delete(SessionId(self.ident))
        tx.jobs.remove(JobId(f"j-{self.ident}"))


_MOVES: tuple[Callable[[_Move, Tx], None], ...] = (
    *(_Move.grow, _Move.work, _Move.say, _Move.stop) * 3, _Move.ask, _Move.ask, _Move.answer, _Move.plan,
    _Move.claim, _Move.keep, _Move.rename, _Move.advance, _Move.drop,
)  # fmt: skip


def seen(tx: Tx) -> list[object]:
    """Everything that can be read through one agent's handle."""
    things: list[object] = [
        *tx.sessions.find("", 1000),
        *tx.jobs.list(),
        *tx.job_runs.of(None, 1000),
        *tx.search.find("marker*", 1000),
    ]
    things += tx.search.find("rkera OR rkerb", 1000)
    for ident in map(str, range(IDENTS)):
        session_id, turn_id = SessionId(ident), TurnId(f"t-{ident}")
        things += [
            tx.sessions.get(session_id), tx.turns.get(turn_id), tx.questions.get(QuestionId(f"q-{ident}")),
            tx.jobs.get(JobId(f"j-{ident}")), tx.media.get(ident),
        ]  # fmt: skip
        things += [*tx.turns.open_of(session_id), *tx.journal.read(session_id), *tx.journal.of_turn(turn_id)]
        things += [*tx.questions.of_turn(turn_id), *tx.questions.open_of(session_id)]
        things += tx.sessions.find(ident)
    return things


async def check_no_agent_sees_or_changes_what_is_another_s(open_store: OpenStore) -> None:
    dice = random.Random(7)
    async with open_store() as store:
        handles = {agent: store.scoped(agent) for agent in AGENTS}
        before = {agent: await handles[agent].read(seen) for agent in AGENTS}
        for seq in range(1, OPERATIONS + 1):
            agent = dice.choice(AGENTS)
            move = _Move(agent, str(dice.randrange(IDENTS)), seq)
            act = dice.choice(_MOVES)
            # Refused if the id is another agent's or the move comes at the wrong time, as it should be.
            with suppress(HermesError):
                await handles[agent].write(partial(act, move))
            for other in AGENTS:
                now = await handles[other].read(seen)
                foreign = [marker(one) for one in AGENTS if one != other]
                assert not any(mark in repr(now) for mark in foreign), f"{other} sees another's after {act}"
                assert other == agent or now == before[other], f"{agent} changed what is {other}'s by {act}"
                before[other] = now


CHECKS = (check_no_agent_sees_or_changes_what_is_another_s,)
