"""Titles for sessions, after their first exchange and beside everything else. The end of a turn is the hint,
and what earlier lives left is looked for once at the start; a title is written only where there is none, so
one that somebody gave wins, and nothing gets two. What a model takes for it is counted."""

from __future__ import annotations

import asyncio
import logging
import re
from collections import OrderedDict
from datetime import datetime
from functools import partial

from hermes.control.core import GatewayCore, Runtime
from hermes.control.sessions.submission import free_title
from hermes.control.turn.budgets import BudgetGate, gate_of
from hermes.domain.chats.address import Address
from hermes.domain.errors import HermesError
from hermes.domain.ids import EVERY_AGENT, AgentId, SessionId
from hermes.domain.models.model_facts import ModelRole
from hermes.domain.models.spending import Spender, turn_spender
from hermes.domain.models.usage import AuxiliaryCall, Usage
from hermes.domain.ports.store import Tx
from hermes.domain.turns.event import Entry, ModelSaid, UserSaid
from hermes.domain.turns.gateway_event import TurnEnded
from hermes.domain.turns.session import Session, SessionFilter
from hermes.domain.turns.turn import TurnState
from hermes.domain.word import replace

log = logging.getLogger("hermes.titles")
_OWN_ID = re.compile(r"\d{8}_\d{6}_[0-9a-f]{8}")
"""How the ids of conversations look. Those that API clients name, jobs and children are called otherwise."""
_UNTITLED_PLATFORMS = frozenset({"api_server", "webhook", "cron"})
_FIRST_RECORDS = 60
_AT_START = 100
_AT_ONCE = 4
_MOST_WAITING = 1000
_MOST_KNOWN = 10_000
_TRIES = 3


class SessionTitles:
    def __init__(self, core: GatewayCore) -> None:
        self._core = core
        self._waiting: OrderedDict[tuple[AgentId, SessionId], None] = OrderedDict()
        self._settled: OrderedDict[SessionId, None] = OrderedDict()
        self._tries: dict[SessionId, int] = {}
        self._bell = asyncio.Event()
        core.events.listen(self.heard, TurnEnded)

    def heard(self, event: TurnEnded) -> None:
        wanted = event.state is TurnState.DONE and event.session not in self._settled
        if wanted and len(self._waiting) < _MOST_WAITING and _OWN_ID.fullmatch(event.session):
            self._waiting[event.agent, event.session] = None
            self._bell.set()

    async def live(self) -> None:
        among = SessionFilter(untitled=True)
        everybody = self._core.store.scoped(EVERY_AGENT)
        for session in await everybody.read(lambda tx: tx.sessions.find("", _AT_START, among)):
            if _OWN_ID.fullmatch(session.id):
                self._waiting[session.agent, session.id] = None
        while True:
            while self._waiting:
                some = list(self._waiting)[:_AT_ONCE]
                for key in some:
                    del self._waiting[key]
                await asyncio.gather(*(self._attempt(*key) for key in some))
            self._bell.clear()
            await self._bell.wait()

    async def _attempt(self, agent: AgentId, session: SessionId) -> None:
        # An agent that nobody needs now is not built for this: its session waits for its next turn.
        runtime = self._core.agents.built(agent)
        if runtime is not None and runtime.title is not None:
            await self._core.loops.attempt(
                "titles", partial(self._title, runtime, session), f"title {session}"
            )

    async def _title(self, runtime: Runtime, ident: SessionId) -> None:
        store, agent = runtime.store, runtime.profile.agent
        session, entries = await store.read(lambda tx: (tx.sessions.get(ident), _beginning(tx, ident)))
        if session is None or not _may_have_title(session):
            self._settle(ident)
            return
        opening = next((entry for entry in entries if isinstance(entry.record, UserSaid)), None)
        answers = (entry.record.text for entry in entries if isinstance(entry.record, ModelSaid))
        answer = next(filter(None, answers), "")
        if opening is None or not answer:
            return
        gate = gate_of(self._core, runtime) if self._core.live.of(agent).budgets else None
        turn = await store.read(lambda tx: tx.turns.get(opening.turn))
        spender = Spender(agent=agent) if turn is None else turn_spender(turn)
        model = (turn.input.guidance.model if turn is not None else "") or session.model or ""
        spent = gate is not None and await store.read(lambda tx: gate.is_spent(tx, spender))
        title, usage = await self._make(runtime, ident, opening, answer, model, local=spent)
        call = None if usage is None else _call(ident, opening, usage, self._core.clock.now())
        if title:
            await store.write(partial(_save, call, title, gate, spender, ident))
            self._settle(ident)

    async def _make(
        self, runtime: Runtime, session: SessionId, opening: Entry, answer: str, model: str, *, local: bool
    ) -> tuple[str, Usage | None]:
        assert isinstance(opening.record, UserSaid) and runtime.title is not None
        tries = self._tries[session] = self._tries.get(session, 0) + 1
        try:
            return await runtime.title(opening.record.text, answer, local or tries > _TRIES, model)
        except (HermesError, TimeoutError) as why:
            log.info("title.none session=%s why=%s", session, why)
            return "", None

    def _settle(self, session: SessionId) -> None:
        self._tries.pop(session, None)
        self._settled[session] = None
        if len(self._settled) > _MOST_KNOWN:
            self._settled.popitem(last=False)


def _call(session: SessionId, opening: Entry, usage: Usage, at: datetime) -> AuxiliaryCall:
    return AuxiliaryCall(
        session=session, role=ModelRole.TITLE, model=usage.model, usage=usage, at=at, turn=opening.turn
    )


def _may_have_title(session: Session) -> bool:
    if session.title is not None or session.expires_at is not None or session.place is None:
        return False
    return Address.parse(session.place).platform not in _UNTITLED_PLATFORMS


def _beginning(tx: Tx, session: SessionId) -> list[Entry]:
    return tx.journal.read(session, most=_FIRST_RECORDS)


def _save(
    call: AuxiliaryCall | None, title: str, gate: BudgetGate | None, by: Spender, ident: SessionId, tx: Tx
) -> None:
    session = tx.sessions.get(ident)
    if call is not None:
        tx.usage.note(call)
        if gate is not None:
            gate.spend_beside(tx, by, call.usage)
    if session is not None and session.title is None and title:
        tx.sessions.save(replace(session, title=free_title(tx, title)))
