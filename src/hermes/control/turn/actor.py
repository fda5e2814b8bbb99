"""The session actor: the one place where a session's records are numbered, written and shown.

Its life: it is started when its session has work and leaves when there is none. It takes the oldest turn that
is not finished, writes down what was said, and pulls the agent's run: a record is committed, then shown, and
only then is the next event asked for. New turns are noticed at once and never dropped: the turns
behind the running one say for themselves whether they interrupt, steer or wait. Interrupting cancels a pull,
never a commit. When the run asks for something the turn is `waiting` and the actor is gone; the answer rings
it again. What it keeps in memory is only a cache of the store.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import TypeVar

from hermes.control.core import Runtime
from hermes.control.feed import Feed
from hermes.control.outbound.answers import closing_words, collect_files, made_files
from hermes.control.turn.actors import ActorKey, Actors, WarmSession
from hermes.control.turn.budgets import BudgetGate, gate_of, spend
from hermes.control.turn.child_report import child_steps
from hermes.control.turn.children import CHILD, follow_family, tend_children
from hermes.control.turn.claim import WENT_WRONG, Claim, ClaimTurn, NextStep, ended_by, told_before
from hermes.control.turn.compressing import count_wasted
from hermes.control.turn.descriptions import put_into_words
from hermes.control.turn.gates import rule_turn
from hermes.control.turn.inbound_files import write_down
from hermes.control.turn.questions import standing_of
from hermes.control.turn.recalling import may_recall, recall, write_recalled
from hermes.control.turn.references import expand, left_out, write_expanded
from hermes.control.turn.steering import AbsorbSteering, rule_steering
from hermes.control.turn.stopping import cut_off
from hermes.control.workers import IdleTimer, RunScope, wait_for_ring
from hermes.domain.chats.address import Source
from hermes.domain.chats.message import Attachment, Body
from hermes.domain.errors import Lost, UserError
from hermes.domain.ids import TurnId
from hermes.domain.models.usage import AuxiliaryCall
from hermes.domain.ports.agent import CallUnderWay, Run
from hermes.domain.ports.store import Tx
from hermes.domain.system.hooks import GATE_TURN
from hermes.domain.turns.busy import is_interrupted, steered
from hermes.domain.turns.event import (
    Asked,
    Entry,
    Failed,
    Finished,
    Record,
    Reset,
    Stopped,
    Summarised,
    ToolFinished,
    ToolStarted,
)
from hermes.domain.turns.references import is_expandable
from hermes.domain.turns.session import BACKGROUND, RUN_SESSIONS, FrozenPrompt, Session
from hermes.domain.turns.transcript import number_records, turn_entries, view_turn
from hermes.domain.turns.turn import Turn, TurnState
from hermes.domain.word import replace
from hermes.stream.fold.display import display_for, dress_answer, footer_line

log = logging.getLogger("hermes.session")
T = TypeVar("T")
TOOL_GRACE = 15.0
"""How much longer a turn may be silent while a tool is ended that is."""


class _Interrupted(Exception):
    """Raised inside the actor alone: the pull was cancelled because of `reason`."""

    def __init__(self, reason: str) -> None:
        self.reason = reason


class SessionActor:
    """`claim`: what it begins with, if its turn was begun with its submission."""

    def __init__(self, key: ActorKey, actors: Actors, claim: Claim | None = None) -> None:
        self._agent, self._id = key
        self._given = claim
        self._held: Runtime | None = None
        self._actors = actors
        self._core = actors.core
        self._warm = WarmSession()
        self._rung = False
        self._bell = asyncio.Event()
        self._mail = False
        self._stopping = False
        self._running: Turn | None = None
        self._pulling: asyncio.Task[None] | None = None
        self._interrupt: str | None = None
        self._call = CallUnderWay()
        self._steered = False
        self._looking: asyncio.Task[None] | None = None
        self._suspect = False
        self._idle = False
        self._fetching = False
        self._warnings: Sequence[str] = ()
        """About the references of the turn that comes next, for whoever watches it."""
        self._prompt: FrozenPrompt | None = None
        self._spent: Failed | None = None
        self._speaks = False
        self._session: Session | None = None
        self._summed = False
        self._rulings: dict[tuple[TurnId, str], str] = {}

    # --- what others may do ---

    def ring(self) -> None:
        """There is mail. While a turn runs it is read at once; otherwise it is found at the next claim."""
        self._rung = self._mail = True
        self._bell.set()
        if self._running is not None and (self._looking is None or self._looking.done()):
            self._looking = self._core.loops.keep("mail", self._look, f"mail {self._id}")

    def wind_down(self) -> None:
        """Come to rest at the next record; the turn goes on after the restart."""
        self._stopping = True
        if self._fetching:
            self._cancel_pull("stopping")

    # --- its life ---

    @property
    def _runtime(self) -> Runtime:
        """That of its agent, as it was when the turn was claimed."""
        assert self._held is not None
        return self._held

    async def live(self) -> None:
        try:
            # Also with a claim in hand: a runtime is kept only for those at work, and its door was not.
            self._held = await self._core.agents.get(self._agent)
        except UserError as why:
            self._rung = True
            while self._rung:
                self._rung = False
                await self._actors.refuse((self._agent, self._id), why)
            return
        if self._given is None:
            self._warm = self._actors.warm.take(self._id) or await self._load()
        else:
            self._warm = await self._before(self._given)
        lost = False
        try:
            while not self._stopping:
                if self._given is None:
                    # A claim that was given is older than any ring.
                    self._rung = False
                    self._bell.clear()
                try:
                    if not await self._step():
                        return
                    lost = False
                except Lost as why:
                    # Somebody else changed the session under us: what we hold is stale, and who was rung for
                    # meanwhile must not be forgotten, so look once more.
                    log.info("session.lost session=%s why=%s", self._id, why)
                    self._warm = WarmSession()
                    if lost:
                        return
                    lost, self._warm = True, await self._load()
        finally:
            self._actors.quarantine.settle(self._id)
            if self._summed:
                self._warm.trim()
            if self._warm.records:
                self._actors.warm.keep(self._id, self._warm)

    async def _step(self) -> bool:
        """Take the next turn; False if there is none (any more) and nobody rang."""
        self._idle = False
        given, self._given = self._given, None
        if given is not None:
            self._actors.quarantine.note(self._id)
        claim = given or await self._claim()
        match claim.next:
            case NextStep.NOTHING:
                return self._rung
            case NextStep.WAIT:
                # Also a stop rings.
                await wait_for_ring(self._bell, self._core.clock, claim.seconds, "session")
            case NextStep.ASK:
                assert claim.turn is not None
                asked = (claim.turn.id, claim.turn.input.text)
                self._rulings = {asked: await rule_turn(self._core.hooks, claim.turn)}
            case NextStep.FETCH:
                assert claim.turn is not None
                if not self._actors.fetcher.is_possible(claim.turn):
                    return self._rung
                await self._fetch(claim.turn)
            case NextStep.LOAD:
                self._warm = await self._load(whole=True)
            case NextStep.RUN | NextStep.STOP | NextStep.ENDED | NextStep.PARKED | NextStep.SUSPECT:
                await self._take(claim)
        return self._rung or not self._idle

    async def _load(self, *, whole: bool = False) -> WarmSession:
        def load(tx: Tx) -> WarmSession:
            session = tx.sessions.get(self._id)
            after = 0 if whole else told_before(tx, self._id)
            warm = WarmSession(born=None if session is None else session.created_at, whole=after == 0)
            warm.add(tx.journal.read(self._id, after))
            return warm

        return await self._runtime.store.read(load)

    async def _before(self, claim: Claim) -> WarmSession:
        """The transcript as it was before the claim that the actor begins with."""
        first, warm = claim.new[0].seq, self._actors.warm.take(self._id)
        born = None if claim.session is None else claim.session.created_at
        if first == 1:
            return WarmSession(born=born)
        if warm is None or warm.born != born or not warm.records or warm.records[-1].seq != first - 1:
            warm = await self._load()
            warm.records[:] = [entry for entry in warm.records if entry.seq < first]
        return warm

    async def _claim(self) -> Claim:
        try:
            self._held = await self._core.agents.get(self._agent)
        except UserError as why:  # also if it went while a turn ran: those behind are not left waiting
            await self._actors.refuse((self._agent, self._id), why)
            return Claim(next=NextStep.NOTHING)
        if not self._warm.records and self._runtime.prompt is not None and self._prompt is None:
            self._prompt = await self._runtime.prompt(*await self._runtime.store.read(self._beginning))
        await self._actors.quarantine.begin(self._id)
        if self._stopping:
            return Claim(next=NextStep.NOTHING)
        rung: list[ActorKey] = []
        claiming = ClaimTurn(
            session=self._id,
            transcript=self._warm.records,
            whole=self._warm.whole,
            now=self._core.clock.now(),
            epoch=self._actors.epoch,
            conclude=partial(self._actors.conclude, rung),
            tend=partial(tend_children, rung),
            prompt=self._prompt,
            capabilities=self._actors.answers.capabilities,
            hints=self._core.live.now.platform_hints,
            suspects_too=self._suspect,
            expands=self._runtime.expand is not None,
            recalls=self._recalls,
            born=self._warm.born,
            gated=GATE_TURN in self._core.hooks.followed,
            budgets=self._budgets(),
            person=self._runtime.person,
            rulings=self._rulings,
        )
        claim = await self._runtime.store.write(claiming.unit)
        self._actors.ring_all(rung)
        if claim.next is not NextStep.RUN:
            self._settle()
        if claim.next is NextStep.SUSPECT:
            await self._actors.quarantine.isolate(self._id)
            self._suspect = True
        return claim

    def _beginning(self, tx: Tx) -> tuple[Session | None, Source | None]:
        """The session, and who speaks first in it."""
        turns = tx.turns.open_of(self._id, 1)
        return tx.sessions.get(self._id), turns[0].source if turns else None

    async def _take(self, claim: Claim) -> None:
        turn, session = claim.turn, claim.session
        if turn is None or session is None or claim.next is NextStep.SUSPECT:
            return
        self._warm.born = session.created_at
        self._session = session
        feed = self._actors.feeds.drive(turn.id)
        feed.preload(turn_entries(self._warm.records, turn.id))
        self._keep(turn, feed, claim.new)
        self._core.events.emit_all(claim.news)
        self._steered = claim.steered
        self._interrupt = None
        if claim.next is NextStep.ENDED:
            self._close(turn)
            return
        if claim.next is NextStep.PARKED:
            self._actors.delivery.ring_reply(turn)
            self._actors.feeds.release(turn.id)
            return
        self._running = turn
        if self._rung:
            self.ring()
        try:
            if claim.next is NextStep.STOP:
                await self._end(turn, feed, Stopped(reason=turn.stop or "interrupted"))
            else:
                await self._drive(turn, session, feed)
        finally:
            if self._running is not None:
                self._actors.feeds.release(turn.id)
            self._running = None

    # --- what came with a turn ---

    async def _fetch(self, turn: Turn) -> None:
        """Get the files of a turn, each written down before the next, and what its words refer to. A message
        that would interrupt waits for them, since they belong to what was said; only a stop does not."""
        self._running, self._interrupt, self._fetching = turn, None, True
        if self._rung:
            self.ring()
        try:
            for file in turn.input.attachments:
                if file.pending:
                    got, call = await self._pull(lambda file=file: self._got(turn, file))  # type: ignore[misc]
                    echo = self._core.live.now.stt.echo_transcripts
                    writing = write_down(turn, file, got, self._core.clock, call, self._budgets(), echo=echo)
                    if await self._runtime.store.write(writing):
                        self._actors.delivery.ring_reply(turn)
            if is_expandable(turn.input, turn.cause, turn.source):
                expansion = await self._pull(lambda: expand(turn, self._runtime))
                if await self._runtime.store.write(write_expanded(turn, expansion, self._core.clock)):
                    self._actors.delivery.ring_reply(turn)
                elif turn.reply is None:
                    self._warnings = expansion.notes
            if self._recalls and may_recall(turn.input, turn.cause):
                text = await self._pull(lambda: recall(turn, self._runtime))
                await self._runtime.store.write(write_recalled(turn, text))
        except _Interrupted as interrupted:
            log.info("turn.not_fetched turn=%s why=%s", turn.id, interrupted.reason)
        finally:
            self._running, self._fetching = None, False

    @property
    def _recalls(self) -> bool:
        provider = self._runtime.memory_provider
        return provider is not None and provider.recalls

    async def _got(self, turn: Turn, file: Attachment) -> tuple[Attachment, AuxiliaryCall | None]:
        try:
            got = await self._actors.fetcher.get(turn, file, self._runtime)
            return await put_into_words(turn, got, self._runtime, self._budgets(), self._core.clock.now())
        except Exception as error:  # a broken adapter must not keep the words from being answered
            log.exception("turn.fetch_broke turn=%s", turn.id)
            problem = f"something went wrong ({type(error).__name__})"
            return replace(file, pending=False, problem=problem), None

    # --- a turn ---

    async def _drive(self, turn: Turn, session: Session, feed: Feed) -> None:
        if turn.attempt > 1:
            feed.show(Reset())
        self._actors.delivery.begin(turn, feed, session.manner)
        for warning in self._heard_before(turn, session):
            feed.warn(warning)
        scope = RunScope()
        limit = self._runtime.profile.settings.agent.gateway_timeout
        silence = IdleTimer(limit, lambda: self._cancel_pull("silent"))
        try:
            with silence.watch():
                await self._pull_all(turn, session, feed, scope, silence)
        except _Interrupted as interrupted:
            await scope.close()
            if silence.expired:
                log.warning("turn.silent turn=%s seconds=%g", turn.id, limit)
                reason = f"No sign of life for {limit:g} s, so it was given up (agent.gateway_timeout)."
                await self._end(turn, feed, Failed(reason=reason))
            else:
                await self._end(turn, feed, Stopped(reason=interrupted.reason))
        except Lost:
            raise
        except Exception as error:  # the actor is one of the three places that may catch everything
            log.exception("turn.broke turn=%s", turn.id)
            await scope.close()
            reason = WENT_WRONG.format(error=type(error).__name__)
            await self._end(turn, feed, Failed(reason=reason))
        finally:
            await scope.close()

    def _heard_before(self, turn: Turn, session: Session) -> Sequence[str]:
        """What is to be said before the answer: of references, and in a new session of files it lacks."""
        warnings, self._warnings = self._warnings, ()
        begun_by = next((entry.turn for entry in self._warm.records), turn.id)
        first = turn.attempt == 1 and begun_by == turn.id
        return [*warnings, *left_out(session)] if first else warnings

    async def _pull_all(
        self, turn: Turn, session: Session, feed: Feed, scope: RunScope, silence: IdleTimer
    ) -> None:
        self._call = CallUnderWay()
        run = Run(
            session=session,
            turn=turn,
            call=self._call,
            transcript=self._warm.records,
            scope=scope,
            memory=self._warm.memory,
            person_notes=self._runtime.person_notes,
            standing=lambda: self._runtime.store.read(
                partial(standing_of, turn, self._core.live.of(turn.agent))
            ),
            late=feed.show,
            wasted=partial(count_wasted, self._core, self._runtime, turn),
        )
        view = view_turn(self._warm.records, turn.id)
        if self._steered and not view.open_calls and isinstance(self._warm.records[-1].record, ToolFinished):
            # A crash came between the last result and the words that wait to join.
            await self._absorb(turn, feed)
        events = aiter(self._runtime.agent.run(run))
        while True:
            # A silent tool is ended by its run, which goes on: it comes first.
            last = self._warm.records[-1].record if self._warm.records else None
            by_tool = isinstance(last, ToolStarted | ToolFinished)
            silence.waiting(TOOL_GRACE if by_tool else 0.0)
            event = await self._pull(lambda: anext(events, None))
            silence.heard()
            if event is None:
                return
            if not isinstance(event, tuple):
                feed.show(event)
                continue
            await self._record(turn, feed, event)
            if isinstance(event[-1], Asked) or ended_by(event):
                # An interruption that came during this commit is void; the run returns by itself.
                self._running = None
                await anext(events, None)
                return
            if self._steered and not view_turn(self._warm.records, turn.id).open_calls:
                await self._absorb(turn, feed)
            if self._spent is not None and not view_turn(self._warm.records, turn.id).open_calls:
                await self._end(turn, feed, self._spent)
                return
            if self._stopping:
                return

    async def _pull(self, work: Callable[[], Awaitable[T]]) -> T:
        """The only await that an interruption may cancel: of the next event, or of a file."""
        if self._interrupt is not None:
            raise _Interrupted(self._interrupt)
        self._pulling = asyncio.current_task()
        try:
            return await work()
        except asyncio.CancelledError:
            reason = self._why_cancelled()
            if reason is None:
                raise
            raise _Interrupted(reason) from None
        finally:
            self._pulling = None

    def _why_cancelled(self) -> str | None:
        """The reason of an interruption, None if the task itself is being cancelled."""
        task = asyncio.current_task()
        if self._interrupt is None or task is None or task.uncancel() > 0:
            return None
        return self._interrupt

    async def _record(self, turn: Turn, feed: Feed, records: Sequence[Record]) -> None:
        """Commit records, with all that follows from them, then show them."""
        records = [self._core.conceal.record(record) for record in records]
        new = number_records(self._warm.records, turn.id, records, self._core.clock.now())
        waits = isinstance(records[-1], Asked)
        state = TurnState.WAITING if waits else ended_by(records) or TurnState.RUNNING
        closing, entries, rung = None, list[Entry](), list[ActorKey]()
        if state is not TurnState.RUNNING:
            entries = [*turn_entries(self._warm.records, turn.id), *new]
            closing = self._actors.answers.of(turn, entries, len(new), await self._with_files(turn, entries))

        budgets, self._spent, self._speaks = self._budgets(), None, False
        long = self._is_nearly_too_long(new)

        def record(tx: Tx) -> bool:
            if long:
                tx.compressions.want(self._id, new[-1].at)
            if any(isinstance(entry.record, Summarised) for entry in new):
                tx.flushes.want(self._id, new[-1].at)
            tx.turns.advance(turn.id, attempt=turn.attempt, records=len(new), state=state)
            tx.journal.append(self._id, new)
            if budgets is not None:
                spend(tx, turn, new, ends=not state.open)
                self._spent = budgets.may_go_on(tx, turn, new) if state is TurnState.RUNNING else None
            if closing is not None:
                self._speaks = closing.write(tx, new[-1].at)
                if turn.id.startswith(CHILD) or any(isinstance(entry.record, Asked) for entry in entries):
                    rung.extend(follow_family(tx, turn, entries, new[-1].at))
            return state.open or tx.turns.any_open(self._id)

        # Who comes after this commit rings, so an end with nothing behind it needs no further claim.
        self._idle = not await self._runtime.store.write(record)
        self._actors.ring_all(rung)
        self._settle()
        if long:
            self._actors.ring_compression((self._agent, self._id))
        if self._speaks:
            self._actors.ring_speech(turn.id)
        if waits:
            # Before anybody is shown the question: who answers it needs the place of this turn again.
            self._actors.feeds.release(turn.id)
        self._keep(turn, feed, new)
        if not state.open:
            self._close(turn)
        elif state is TurnState.WAITING:
            self._actors.delivery.ring_reply(turn)

    def _budgets(self) -> BudgetGate | None:
        # A job may have a budget of its own, which counts for its children, too.
        limited = self._core.live.of(self._agent).budgets or self._id.startswith((RUN_SESSIONS, BACKGROUND))
        return gate_of(self._core, self._runtime) if limited else None

    def _is_nearly_too_long(self, new: Sequence[Entry]) -> bool:
        compression, session = self._runtime.compression, self._session
        if compression is None or session is None or not isinstance(new[-1].record, Finished | ToolFinished):
            return False
        return compression.is_due(session, self._warm.records, new, self._warm.memory)

    async def _with_files(self, turn: Turn, entries: Sequence[Entry]) -> Body | None:
        """The answer with the files it names, copied before the commit that sends them."""
        if turn.reply is None or not isinstance(entries[-1].record, Finished):
            return None
        take = self._runtime.take_file
        files = None if take is None else partial(take, self._id)
        body = await collect_files(closing_words(entries, turn.id), files, made_files(entries))
        settings = self._core.live.now
        manner = None if self._session is None else self._session.manner
        shown = display_for(settings, turn.reply.to, manner)
        if not (shown.footer or shown.thoughts):
            return body
        fields, world = settings.display.runtime_footer.fields, self._runtime
        footer = footer_line(fields, entries, world.facts, world.workspace) if shown.footer else ""
        return replace(body, text=dress_answer(body.text, entries, shown, footer))

    async def _absorb(self, turn: Turn, feed: Feed) -> None:
        self._steered = False
        store, actors = self._runtime.store, self._actors
        rung: list[ActorKey] = []
        absorbing = AbsorbSteering(
            into=turn,
            transcript=self._warm.records,
            now=self._core.clock.now(),
            conclude=partial(actors.conclude, rung),
            rulings=await rule_steering(self._core.hooks, store, turn),
        )
        absorbed = await store.write(absorbing.unit)
        actors.ring_all(rung)
        self._steered = self._steered or absorbed.later
        self._keep(turn, feed, absorbed.new)
        for other in absorbed.turns:
            actors.feeds.end(other, follow=turn.id)
        for refused in absorbed.refused:
            actors.delivery.ring_reply(refused)

    async def _end(self, turn: Turn, feed: Feed, end: Stopped | Failed) -> None:
        view, heard = view_turn(self._warm.records, turn.id), feed.open_reply
        if self._call.estimate is not None:
            chars = 0 if heard is None else len(heard.text) + len(heard.thought)
            end = replace(end, usage=self._call.estimate(chars))
        await self._record(turn, feed, [*cut_off(view, heard), end])

    # --- mail ---

    async def _look(self) -> None:
        # A ring is over with the next claim alone: what came at the end of a turn is not seen here.
        self._mail = True
        while self._mail and self._running is not None:
            self._mail = False
            turns = await self._runtime.store.read(lambda tx: tx.turns.open_of(self._id))
            running = self._running
            if running is None or not turns or turns[0].id != running.id:
                return
            if steered(running, turns[1:]):
                self._steered = True
            if turns[0].stop is not None:
                self._cancel_pull(turns[0].stop)
            elif is_interrupted(running, turns[1:]) and not self._fetching:
                self._cancel_pull("interrupted")

    def _cancel_pull(self, reason: str) -> None:
        if self._interrupt is not None:
            return
        self._interrupt = reason
        if self._pulling is not None:
            self._pulling.cancel()

    # --- bookkeeping ---

    def _keep(self, turn: Turn, feed: Feed, new: Sequence[Entry]) -> None:
        self._warm.add(list(new))
        if new:
            self._core.events.emit_records(turn.agent, self._id, new)
        for entry in new:
            self._summed = self._summed or isinstance(entry.record, Summarised)
            feed.publish(entry)
        if (parent := turn.input.guidance.parent) is not None:
            for event in child_steps(parent, new):
                self._actors.feeds.show(parent.turn, event)

    def _settle(self) -> None:
        self._suspect = False
        self._actors.quarantine.settle(self._id)

    def _close(self, turn: Turn) -> None:
        self._running = None
        self._actors.feeds.end(turn.id)
        self._actors.delivery.ring_reply(turn)
