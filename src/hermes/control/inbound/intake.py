"""Intake: from an accepted row to its end. Routing, then access, then the session, then a command or a turn.

Rows are taken in the order they came; rows of one chat one after the other, chats beside each other, so a
slow hook delays only what it gates. While a command of a chat is being prepared, what stops or allows
something there goes ahead of it. Each row ends in one transaction, together with what it caused."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import partial
from hashlib import sha256
from pathlib import Path

from msgspec import Struct

from hermes.control.commands.registry import (
    CommandRequest,
    GatewayInfo,
    call_in,
    find_meant,
    is_command,
    spell_commands,
)
from hermes.control.commands.run import (
    ENDING,
    MOST_TURNS,
    PreparedCommand,
    holds,
    needs_preparing,
    prepare_command,
    run_command,
    settle,
)
from hermes.control.core import AgentUnavailable, GatewayCore, Runtime, UnavailableAgent
from hermes.control.hooks.endings import note_ends
from hermes.control.inbound.edits import (
    amended,
    edits_of,
    move_chat,
    reword,
    take_deletion,
    words_on_settings,
)
from hermes.control.inbound.message_context import MessageContext, overhear
from hermes.control.inbound.undelivered import take_undelivered
from hermes.control.outbound.accounts import PlatformAccounts
from hermes.control.outbound.notices import notify
from hermes.control.people import access
from hermes.control.people.operator_patterns import is_named
from hermes.control.people.pairing import answer_stranger
from hermes.control.people.routing import SelectAgent, chat_session_key, route
from hermes.control.sessions.resets import has_processes, policy_of, renew_session
from hermes.control.turn.actors import Actors
from hermes.control.turn.claim import bound_session, next_session
from hermes.control.turn.questions import (
    answer,
    as_answer,
    can_answer,
    pressed,
    questions_here,
    replied_to,
    was_asked_at,
)
from hermes.control.workers import MOST_FAILURES, end_tasks, pause_after
from hermes.domain.chats.address import Address, SourceKind
from hermes.domain.chats.capabilities import Capabilities
from hermes.domain.chats.channels import seen_channel
from hermes.domain.chats.command_line import read_command
from hermes.domain.chats.message import Inbound, InboundKind, deletes, deletion_of
from hermes.domain.chats.rows import (
    EDIT_TAKEN,
    TAKEN_AS_TURN,
    WITHDRAWN,
    InboundOutcome,
    InboxRow,
    OutcomeKind,
    UnreadableRow,
    UnreadableTurn,
    ignored,
    outbox_rows,
)
from hermes.domain.errors import Lost, Unreachable, UserError
from hermes.domain.ids import SessionId, TurnId
from hermes.domain.ports.store import Tx
from hermes.domain.settings.settings import Profile, ResetMode, Settings
from hermes.domain.system.hooks import SESSION_END
from hermes.domain.turns.busy import choose_busy_mode
from hermes.domain.turns.event import QuestionKind
from hermes.domain.turns.gateway_event import CommandRun, GatewayEvent, session_began, session_renewed
from hermes.domain.turns.session import Session, SessionKey, begin_session, make_turn
from hermes.domain.turns.turn import Cause, ReplyPlace, Turn, TurnInput, TurnState
from hermes.domain.word import replace

_PAGE = 256
_AHEAD = 1024
_NEAR_LIMIT = 0.95
LOOP = "intake"
Lane = tuple[Address, bool]
"""Rows that are taken one after the other: those of a chat, and those that go ahead of them."""
GIVEN_UP = InboundOutcome(kind=OutcomeKind.FAILED, detail="it broke each time it was taken")
NOT_TAKEN = "⚠️ Something went wrong inside Hermes, so this message was not taken. The log has the details."


class InboundResult(Struct, frozen=True, kw_only=True):
    """What became of a row (perhaps a turn), whom to wake for it, and what has happened."""

    outcome: InboundOutcome
    turn: TurnId | None = None
    session: SessionId | None = None
    fresh: bool = False
    replied: bool = False
    wakes: tuple[SessionId, ...] = ()
    news: tuple[GatewayEvent, ...] = ()
    restart: bool = False


@dataclass(slots=True, kw_only=True)
class Intake:
    core: GatewayCore
    actors: Actors
    accounts: PlatformAccounts
    restart: Callable[[], None]
    select: SelectAgent | None
    info: GatewayInfo
    _bell: asyncio.Event = field(init=False, default_factory=asyncio.Event)
    _lanes: dict[Lane, asyncio.Task[None]] = field(init=False, default_factory=dict)
    _queues: dict[Lane, list[InboxRow]] = field(init=False, default_factory=dict)
    _preparing: set[Address] = field(init=False, default_factory=set)
    _ahead: int = field(init=False, default=0)
    _room: asyncio.Event = field(init=False, default_factory=asyncio.Event)
    _last: int = field(init=False, default=0)
    _refusals: access.Refusals = field(init=False, default_factory=access.Refusals)

    def ring(self) -> None:
        self._bell.set()

    async def live(self) -> None:
        while True:
            self._bell.clear()
            try:
                rows = await self.core.store.read(lambda tx: tx.inbox.pending(self._last, _PAGE))
            except UnreadableRow as error:
                await end_unreadable(self.core, error)
                continue
            for row in rows:
                self._last = row.n
                self._queue(row)
            if self._ahead > _AHEAD:
                self._room.clear()
                await self._room.wait()
            elif len(rows) < _PAGE:
                await self._bell.wait()

    async def close(self) -> None:
        await end_tasks(self._lanes.values())

    def _queue(self, row: InboxRow) -> None:
        chat = row.inbound.source.address
        self._ahead += 1
        self._put((chat, chat in self._preparing and self._is_urgent(row.inbound)), row)

    def _put(self, lane: Lane, row: InboxRow) -> None:
        self._queues.setdefault(lane, []).append(row)
        if lane not in self._lanes:
            take = partial(self._take_lane, lane)
            self._lanes[lane] = self.core.loops.keep(LOOP, take, f"intake {lane[0]}")

    async def _take_lane(self, lane: Lane) -> None:
        queue, tries = self._queues[lane], RowRetries(intake=self)
        while queue:
            row, behind = queue[0], queue[1:]
            urgent = self._lanes.get((lane[0], True))
            if not lane[1] and urgent and any(other.n < row.n for other in self._queues[lane[0], True]):
                await asyncio.wait((urgent,))  # what was said after a /stop is not what it stops
                continue
            edits = edits_of(row, behind, self._is_command) if behind else ()
            if not await tries.take((row, *edits), partial(self._take, row, edits, lane)):
                continue
            taken = {row.n, *(edit.n for edit in edits)}
            queue[:] = [other for other in queue if other.n not in taken]
            self._ahead -= len(taken)
            if self._ahead <= _AHEAD:
                self._room.set()
        # Deciding to leave and leaving are one step: no row can be queued behind a task that is over.
        del self._lanes[lane], self._queues[lane]

    def _line(self, inbound: Inbound) -> tuple[str, str] | None:
        return read_command(inbound.text, self.accounts.capabilities(inbound.source.address).command_prefix)

    def _is_command(self, inbound: Inbound) -> bool:
        return self._line(inbound) is not None

    def _is_urgent(self, inbound: Inbound) -> bool:
        line = self._line(inbound) if inbound.what is InboundKind.MESSAGE else None
        meant = [] if line is None else find_meant(line[0], self.core.live.now, None)
        return inbound.what is InboundKind.BUTTON or any(slash.name in ENDING for slash in meant)

    async def _take(self, row: InboxRow, edits: tuple[InboxRow, ...], lane: Lane) -> None:
        core = self.core
        if row.inbound.what is InboundKind.DELETED:
            return await take_deletion(row, core, self.actors.ring)
        if row.inbound.what is InboundKind.UNDELIVERED:
            return await take_undelivered(row, core, self.actors.delivery.ring)
        row = amended(row, edits) if edits else row
        runtime = await self._addressee(row.inbound)
        agent = runtime.profile.agent
        taking = TakeInbound(row=row, edits=edits, runtime=runtime, intake=self)
        patterns = core.live.now.block(row.inbound.source.address).mention_patterns
        named = bool(patterns) and await is_named(row.inbound, patterns)
        taking = replace(taking, named=named, lively=await self._has_processes(taking, runtime))
        line = self._line(row.inbound) if row.inbound.what is InboundKind.MESSAGE else None
        if line is None:
            taken = await runtime.store.write(taking.unit)
            assert taken is not None, "only commands are prepared"
        else:
            taken = await settle(
                line[0],
                lambda: self._prepare(taking, line[0], lane),
                lambda prepared: runtime.store.write(replace(taking, prepared=prepared).unit),
            )
        self._refusals.note(row.inbound.source, taken.outcome)
        core.events.emit_all(taken.news)
        if taken.session is not None:
            self.actors.ring(agent, taken.session, taken.fresh)
        for session in taken.wakes:
            self.actors.ring(agent, session, False)
        if taken.outcome.kind is OutcomeKind.COMMAND:
            core.events.emit(CommandRun(agent=agent))
        if taken.replied:
            self.actors.delivery.ring(row.inbound.source.address)
        if taken.restart:
            self.restart()

    async def _prepare(self, taking: TakeInbound, name: str, lane: Lane) -> PreparedCommand | None:
        """What a command needs before its transaction, of somebody who may speak. A crash takes it along; the
        row is still there, and it is prepared again."""
        core, runtime, (chat, ahead) = self.core, taking.runtime, lane
        if not needs_preparing(name, core.live.now, runtime, core.hooks):
            return None
        request = await runtime.store.read(taking.look)
        if request is None or ahead:
            return None if request is None else await prepare_command(request, core.hooks)
        self._preparing.add(chat)
        try:
            queue = self._queues[lane]
            for row in [row for row in queue[1:] if self._is_urgent(row.inbound)]:
                queue.remove(row)
                self._put((chat, True), row)
            return await prepare_command(request, core.hooks)
        finally:
            self._preparing.discard(chat)

    async def _addressee(self, inbound: Inbound) -> Runtime:
        """The agent that a message is for. In place of one that cannot be built stands what knows its part of
        the store: who may speak is told why by the turn, and commands that end something work."""
        core = self.core
        while True:
            agent = await route(inbound, core.live.now, core.agents, self.select)
            try:
                return await core.agents.get(agent)
            except AgentUnavailable as why:
                profile = Profile(agent=agent, home=Path(os.devnull), settings=core.live.now)
                store = core.store.scoped(agent)
                return Runtime(profile=profile, agent=UnavailableAgent(why=why), store=store)
            except UserError:
                if agent in core.agents:  # else it went just now
                    raise

    async def _has_processes(self, taking: TakeInbound, runtime: Runtime) -> bool:
        """Whether something runs in the background for the row's session; asked only where it could end."""
        policy = policy_of(taking.inbound.source, self.core.live.now)
        if runtime.processes is None or policy.mode is ResetMode.NONE:
            return False
        session = await runtime.store.read(lambda tx: bound_session(tx, taking.key))
        return session is not None and await has_processes(runtime, session, policy)


# --- rows that break --------------------------------------------------------------------------------


class RowRetries(Struct, kw_only=True):
    """The tries of the row that is first in its chat. A row that breaks keeps its place and is tried again
    after a pause. What the store could not do is tried until it can; a row that breaks three times otherwise
    is ended with a reason, and whoever wrote it is told."""

    intake: Intake
    failures: int = 0
    faults: int = 0

    async def take(self, rows: Sequence[InboxRow], take: Callable[[], Awaitable[None]]) -> bool:
        """Try to take a row, with those that are taken together with it; whether they are done with."""
        given_up, loops = self.faults >= MOST_FAILURES, self.intake.core.loops
        error = await loops.attempt(
            LOOP, (lambda: self._give_up(rows)) if given_up else take, f"inbox row {rows[0].n}"
        )
        if error is None:
            self.failures = self.faults = 0
            return True
        if isinstance(error, UnreadableTurn):
            # The row is in order; a turn of its session is not.
            ending = partial(self.intake.actors.end_unreadable, error)
            await loops.attempt(LOOP, ending, f"turn of {error.session}")
        self.failures += 1
        self.faults += not isinstance(error, Unreachable)
        await loops.clock.sleep(pause_after(self.failures))
        return False

    async def _give_up(self, rows: Sequence[InboxRow]) -> None:
        inbound, now = rows[0].inbound, self.intake.core.loops.clock.now()
        place = inbound.source.address
        # In a shared chat only if it was said to us.
        for_us = inbound.source.kind is SourceKind.PRIVATE or inbound.mentions_me
        tells = inbound.what is InboundKind.BUTTON or (inbound.what is InboundKind.MESSAGE and for_us)

        def give_up(tx: Tx) -> None:
            for row in rows:
                tx.inbox.finish(row.n, str(GIVEN_UP))
            if tells:
                notify(tx, f"reply:{rows[0].n}:0", place, NOT_TAKEN, now, inbound.ref)

        with contextlib.suppress(Lost):  # it was ended after all
            await self.intake.core.store.write(give_up)
        self.intake.actors.delivery.ring(place)


async def end_unreadable(core: GatewayCore, error: UnreadableRow) -> None:
    """Nobody knows whose it is; those behind it are not to wait."""
    core.loops.note(LOOP, error, f"inbox row {error.n}")
    outcome = InboundOutcome(kind=OutcomeKind.FAILED, detail=str(error))
    await core.store.write(lambda tx: tx.inbox.finish(error.n, str(outcome)))


# --- one row ----------------------------------------------------------------------------------------


class TakeInbound(Struct, frozen=True, kw_only=True):
    """The transaction that ends a row, and with it the rows of the edits that are already in its text.
    `lively` says that its session has background processes, `named` that it fits `mention_patterns`."""

    row: InboxRow
    runtime: Runtime
    intake: Intake
    edits: tuple[InboxRow, ...] = ()
    prepared: PreparedCommand | None = None
    lively: bool = False
    named: bool = False

    @property
    def inbound(self) -> Inbound:
        return self.row.inbound

    @property
    def settings(self) -> Settings:
        return self.intake.core.live.of(self.runtime.profile.agent)

    @property
    def able(self) -> Capabilities:
        """What the platform can do in the row's chat."""
        return self.intake.accounts.capabilities(self.inbound.source.address)

    def _now(self) -> datetime:
        return self.intake.core.clock.now()

    def unit(self, tx: Tx) -> InboundResult | None:
        """None if the row is a command that has to be prepared (again) first; then nothing is written."""
        taken = self._taken(tx)
        if taken is None:
            return None
        tx.inbox.finish(self.row.n, str(taken.outcome), taken.turn)
        for edit in self.edits:
            tx.inbox.finish(edit.n, str(EDIT_TAKEN))
        return taken

    def look(self, tx: Tx) -> CommandRequest | None:
        """The command in the row as it stands now; None if its author may not give it."""
        verdict = access.decide(self._access_request(tx), self.settings)
        small = len(self.inbound.text) <= self.settings.gateway.max_message_chars
        return self._request(tx) if verdict.allowed and small and not self._is_deleted(tx) else None

    def _request(self, tx: Tx) -> CommandRequest | None:
        line = read_command(self.inbound.text, self.able.command_prefix)
        if line is None:
            return None
        key, source, now = self.key, self.inbound.source, self._now()
        known = self._bound(tx, key)
        return CommandRequest(
            name=line[0],
            args=line[1],
            source=source,
            key=key,
            session=known or begin_session(key, source, now),
            begins=known is None,
            turns=[] if known is None else tx.turns.open_of(known.id, MOST_TURNS),
            settings=self.settings,
            now=now,
            runtime=self.runtime,
            gateway=self.intake.info,
            reply_place=self._reply_place,
            progress=self._progress,
        )

    async def _progress(self, text: str) -> None:
        """A sentence for the chat while a command is being prepared; said once, however often it is."""
        key = f"progress:{self.row.n}:{sha256(text.encode()).hexdigest()[:16]}"
        to, now, ref = self.inbound.source.address, self._now(), self.inbound.ref
        await self.runtime.store.write(lambda tx: notify(tx, key, to, text, now, ref))
        self.intake.actors.delivery.ring(to)

    def _taken(self, tx: Tx) -> InboundResult | None:
        inbound = self.inbound
        if inbound.what is InboundKind.MOVED:
            move_chat(tx, inbound.source, inbound.text, self._now())
            words = words_on_settings(inbound.source, inbound.text, self.settings)
            return self._say(tx, InboundResult(outcome=InboundOutcome(kind=OutcomeKind.MOVED)), words)
        if inbound.what is InboundKind.MESSAGE and self._is_deleted(tx):
            return InboundResult(outcome=WITHDRAWN)
        verdict = access.decide(self._access_request(tx), self.settings)
        if not verdict.allowed:
            return self._turn_away(tx, verdict)
        if inbound.what is InboundKind.BUTTON:
            return self._press(tx)
        if inbound.what not in (InboundKind.MESSAGE, InboundKind.EDIT):
            return InboundResult(outcome=ignored(inbound.what.value))
        if not inbound.text.strip() and not inbound.attachments:
            return InboundResult(outcome=ignored("empty"))
        most = self.settings.gateway.max_message_chars
        if len(inbound.text) > most:
            size = f"{len(inbound.text):,} characters; {most:,} are the most"
            text = f"Your message has {size}. Send it as a file."
            outcome = InboundOutcome(kind=OutcomeKind.REFUSED, detail="too long")
            return self._say(tx, InboundResult(outcome=outcome), text)
        return self._message(tx) if inbound.what is InboundKind.MESSAGE else self._edit(tx)

    @property
    def key(self) -> SessionKey:
        return chat_session_key(self.inbound.source, self.runtime.profile.agent, self.settings)

    def _access_request(self, tx: Tx) -> access.AccessRequest:
        inbound, source = self.inbound, self.inbound.source
        able = self.able
        line = read_command(inbound.text, able.command_prefix)
        return access.AccessRequest(
            source=source,
            text=inbound.text,
            paired=access.is_paired(tx, source),
            mentioned=inbound.mentions_me,
            named=self.named,
            for_others=inbound.mentions_others and not inbound.mentions_me,
            replied=inbound.reply_to is not None and inbound.reply_to.mine,
            joined=source.kind is SourceKind.THREAD and bound_session(tx, self.key) is not None,
            called=inbound.what is InboundKind.BUTTON or (line is not None and is_command(line[0])),
            continued=source.kind is not SourceKind.PRIVATE and self._goes_on(tx),
            able=able,
        )

    def _goes_on(self, tx: Tx) -> bool:
        session = self._bound(tx, self.key)
        return session is not None and unfinished_piece(tx, session, self.inbound) is not None

    def _is_deleted(self, tx: Tx) -> bool:
        """Its deletion may have come before it."""
        deletion = deletion_of(self.inbound.source.address.chat, self.inbound.ref or "")
        return any(deletes(row.inbound, self.inbound) for row in tx.inbox.find(deletion))

    def _turn_away(self, tx: Tx, verdict: access.AccessDecision) -> InboundResult:
        """Nobody hears of it, but a stranger in a private chat, who may be given a code or bring one."""
        met = None
        if verdict.unaddressed and self.inbound.what is InboundKind.MESSAGE:
            overhear(tx, self.inbound, self.settings, self._now())
        if verdict.stranger and self.inbound.what is InboundKind.MESSAGE:
            offer = verdict.outcome is access.AccessOutcome.NEEDS_PAIRING
            met = answer_stranger(tx, self.inbound.source, self.inbound.text, self._now(), offer=offer)
        if met is None:
            return InboundResult(outcome=verdict.ending())
        return self._say(tx, InboundResult(outcome=met.outcome), met.text, fleeting=met.fleeting)

    def _edit(self, tx: Tx) -> InboundResult:
        command = read_command(self.inbound.text, self.able.command_prefix) is not None
        outcome, turn = reword(tx, self.row, command=command)
        return InboundResult(outcome=outcome, turn=turn)

    def _message(self, tx: Tx) -> InboundResult | None:
        key = self.key
        request = self._request(tx)
        if request is not None and not holds(self.prepared, request, self.intake.core.hooks):
            return None
        self._note_chat(tx)
        known = self._bound(tx, key) if request is None or request.begins else request.session
        made = None if self.prepared is None else self.prepared.session
        session, fresh = known or next_session(tx, key, self.inbound.source, self._now(), made), known is None
        began = (session_began(self.inbound.source, session, key),) if fresh else ()
        if request is not None:
            taken = self._command(tx, request, self._message_context(session, fresh))
            return replace(taken, fresh=fresh, news=began + taken.news)
        answered = None if fresh else self._answer(tx, session)
        if answered is not None:
            return replace(answered, news=began)
        said = self._said(tx, key, session, fresh)
        return replace(said, news=began + said.news)

    def _said(self, tx: Tx, key: SessionKey, session: Session, fresh: bool) -> InboundResult:
        """Words for the agent, in this session or, if that is over, in the next."""
        renewed = None
        if not fresh and not self.lively:
            renewed = renew_session(tx, session, key, self.inbound.source, self.settings, self._now())
        if renewed is None:
            return self._turn(tx, session, fresh)
        taken = self._turn(tx, renewed.session, True, note=renewed.note)
        news = session_renewed(self.inbound.source, session, renewed.session, key)
        if SESSION_END in self.intake.core.hooks.followed:
            note_ends(tx, news)
        return self._say(tx, replace(taken, news=news), renewed.notice)

    def _bound(self, tx: Tx, key: SessionKey) -> Session | None:
        bound = bound_session(tx, key)
        return None if bound is None else tx.sessions.get(bound)

    # --- the ends a row can have ---

    def _command(self, tx: Tx, request: CommandRequest, message: MessageContext) -> InboundResult:
        session = message.session
        call = call_in(tx, replace(request, session=session, begins=False))
        reply = run_command(replace(call, context=lambda: message.context(tx)), self.prepared)
        taken = InboundResult(
            outcome=InboundOutcome(kind=OutcomeKind.COMMAND, detail=reply.label),
            turn=None if reply.turn is None else reply.turn.id,
            session=session.id,
            news=reply.news,
            wakes=reply.wakes,
            restart=reply.restart,
        )
        return self._say(tx, taken, reply.text, fleeting=reply.fleeting)

    def _press(self, tx: Tx) -> InboundResult:
        if self.able.reply_window:
            self._note_chat(tx)
        given = pressed(self.inbound.button or "", self.inbound.source.person)
        if given is None:
            return InboundResult(outcome=ignored("unknown button"))
        if not was_asked_at(tx, given.question, self.inbound.source.address):
            return self._say(
                tx, InboundResult(outcome=_button("refused")), "Nothing was asked in this chat by that."
            )
        outcome = answer(tx, given, self._now(), self.inbound.source.user_name)
        taken = InboundResult(
            outcome=_button("accepted" if outcome.closed else "refused"), session=outcome.session
        )
        if outcome.closed and self.able.edits:
            # The message with the button says it from now on.
            return replace(taken, replied=True)
        return self._say(tx, taken, outcome.text)

    def _answer(self, tx: Tx, session: Session) -> InboundResult | None:
        here = questions_here(tx, session.id) if tx.questions.open_of(None) else []
        questions = [question for question in here if can_answer(tx, question, self.inbound)]
        if not questions:
            return None
        replies_to = replied_to(tx, questions, self.inbound)
        given = as_answer(self.inbound.text, questions, self.inbound.source.person, replies_to=replies_to)
        if given is None:
            return None
        outcome = answer(tx, given, self._now(), self.inbound.source.user_name)
        if not outcome.closed:
            return None
        clarified = any(q.id == given.question and q.kind is QuestionKind.CLARIFY for q in questions)
        taken = InboundResult(outcome=InboundOutcome(kind=OutcomeKind.ANSWER), session=outcome.session)
        return taken if clarified else self._say(tx, taken, outcome.text)

    def _turn(self, tx: Tx, session: Session, fresh: bool, note: str = "") -> InboundResult:
        """A turn of its own, or, for the next piece of a message, more of the turn before."""
        before = None if fresh else unfinished_piece(tx, session, self.inbound)
        piece = self._input()
        now = self._now()
        more = piece.cut or piece.group is not None
        ready = now + timedelta(seconds=self.settings.gateway.gather_seconds) if more else None
        if before is not None:
            joined = replace(before, input=join_pieces(before.input, piece), ready_at=ready)
            tx.turns.save(joined, attempt=before.attempt)
            turn_id = before.id
        else:
            message = self._message_context(session, fresh, note)
            piece = replace(piece, context=message.context(tx), guidance=message.guidance)
            busy = choose_busy_mode(session, self.settings.display.busy_input_mode, piece.attachments)
            source, reply = self.inbound.source, self._reply_place
            turn = make_turn(session, Cause.MESSAGE, piece, now, source=source, reply=reply, busy=busy)
            tx.turns.add(replace(turn, ready_at=ready))
            turn_id = turn.id
        return InboundResult(outcome=TAKEN_AS_TURN, turn=turn_id, session=session.id, fresh=fresh)

    def _message_context(self, session: Session, fresh: bool, note: str = "") -> MessageContext:
        return MessageContext(
            inbound=self.inbound, session=session, settings=self.settings, fresh=fresh, note=note
        )

    def _note_chat(self, tx: Tx) -> None:
        # Where answers are taken for some time only, it has to be known since when.
        exact = self.able.reply_window > 0
        tx.directory.note(seen_channel(self.inbound.source, self._now()), exact=exact)

    @property
    def _reply_place(self) -> ReplyPlace:
        return ReplyPlace(to=self.inbound.source.address, ref=self.inbound.ref)

    def _input(self) -> TurnInput:
        able, claimed = self.able, self.inbound.attachments
        return TurnInput(
            text=self.inbound.text,
            author=self.inbound.source.speaker,
            # Still to be fetched; whatever a platform says of a file is only a claim.
            attachments=tuple(
                replace(file, pending=True, sha256=None, path=None, problem=None) for file in claimed
            ),
            group=self.inbound.group,
            cut=able.unit.measure(self.inbound.text) >= able.max_text * _NEAR_LIMIT,
        )

    def _say(self, tx: Tx, taken: InboundResult, text: str, *, fleeting: bool = False) -> InboundResult:
        """A reply of the gateway itself, cut to the platform's size like any other."""
        from hermes.stream.text.split import split_bodies

        if not text:
            return taken
        able = self.able
        text = spell_commands(text, able.command_prefix)
        bodies = (replace(body, fleeting=fleeting) for body in split_bodies(text, able))
        to, now = self.inbound.source.address, self._now()
        key = f"reply:{self.row.n}"
        for row in outbox_rows(bodies, key=key, to=to, now=now, reply_to=self.inbound.ref):
            tx.outbox.add(row)
        return replace(taken, replied=True)


def _button(detail: str) -> InboundOutcome:
    return InboundOutcome(kind=OutcomeKind.BUTTON, detail=detail)


# --- pieces of one message: a text cut at the platform's limit, the pictures of an album ------------


def unfinished_piece(tx: Tx, session: Session, inbound: Inbound) -> Turn | None:
    """The turn a message goes on with: not begun, same person, cut at the limit or of the same album."""
    turns = tx.turns.open_of(session.id)
    last = turns[-1] if turns else None
    if last is None or last.state is not TurnState.ACCEPTED or last.ready_at is None:
        return None
    if last.source is None or last.source.person != inbound.source.person:
        return None
    same_album = inbound.group is not None and inbound.group == last.input.group
    return last if same_album or last.input.cut else None


def join_pieces(before: TurnInput, piece: TurnInput) -> TurnInput:
    """A cut text goes on where it stopped; captions of an album stand on lines of their own."""
    if before.cut:
        text = before.text + piece.text
    else:
        text = "\n".join(text for text in (before.text, piece.text) if text)
    files = before.attachments + piece.attachments
    return replace(before, text=text, attachments=files, cut=piece.cut)
