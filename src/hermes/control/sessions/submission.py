"""A submission is a message from a caller that names itself and the agent (terminal, HTTP, script). One
transaction finds its session, adds its turn, and stores the request by which a client may ask again; then the
session's actor is woken. Where nothing is unfinished in the session the turn is begun in the commit that
stores it: its actor starts with the claim in hand and has the model called one commit earlier. Where the
session waits for an answer, the words may be that instead.

A request that repeats an earlier one is given the turn of that, see `repeats`."""

from __future__ import annotations

import asyncio
import contextlib
import re
from collections.abc import Callable, Collection
from datetime import datetime

from msgspec import Struct, field

from hermes.control.core import PersonOf, Runtime
from hermes.control.sessions.callers import Caller, find_session
from hermes.control.sessions.repeats import NewRequest, SubmittedTurn, add_request, asked_before
from hermes.control.turn.actors import Actors
from hermes.control.turn.budgets import BudgetGate, BudgetSpent, gate_of
from hermes.control.turn.chat_prompt import door_hint
from hermes.control.turn.claim import begin_at_once, next_session
from hermes.control.turn.recalling import may_recall
from hermes.control.workers import TaskSet
from hermes.domain.chats.address import Source
from hermes.domain.chats.rows import SessionStanding
from hermes.domain.errors import HermesError, Refused, UserError
from hermes.domain.ids import AgentId, SessionId, TurnId, new_session_id
from hermes.domain.ports.store import Tx
from hermes.domain.safety.concealing import concealed
from hermes.domain.settings.settings import Settings
from hermes.domain.system.hooks import GATE_TURN
from hermes.domain.text import one_line, storable
from hermes.domain.turns.busy import choose_busy_mode
from hermes.domain.turns.gateway_event import session_began
from hermes.domain.turns.references import is_expandable
from hermes.domain.turns.session import (
    FrozenPrompt,
    Session,
    SessionKey,
    begin_session,
    make_turn,
    session_key,
)
from hermes.domain.turns.turn import (
    BusyMode,
    Cause,
    ReplyPlace,
    Turn,
    TurnAction,
    TurnInput,
)
from hermes.domain.word import replace

NOTHING_SAID = SessionStanding()


class NotFound(UserError):
    """What was named is not there, or not for who asks."""


class NameTaken(UserError):
    """Something else has this name already."""


class TurnUnfinished(UserError):
    """What this is to go on from has not come to its end."""


LONGEST_TITLE = 100
_NUMBERED = re.compile(r" #\d{1,4}$")


class SessionTarget(Struct, frozen=True, kw_only=True):
    """Which session words go to: the one with this id (begun under it if `begin`), the one as it was after a
    turn, one of their own that is forgotten at `until`, or else the one that their source is bound to. Going
    on after a turn puts off the forgetting to `until`; coming back to a session by its id keeps it.

    `bind`: the source is bound to it from now on, and without a session named a new one begins, for `model`.
    `owner`: only a session that was begun through this account."""

    session: SessionId | None = None
    begin: bool = False
    after: TurnId | None = None
    until: datetime | None = None
    bind: bool = False
    model: str | None = None
    owner: str | None = None

    @property
    def own(self) -> bool:
        """Whether the words begin a session that nothing else leads to."""
        return self.until is not None and self.after is None and self.session is None

    @property
    def begins(self) -> bool:
        """Whether the words begin a session, whatever there is already."""
        return self.own or (self.bind and self.after is None and self.session is None)

    @property
    def may_bind(self) -> bool:
        """Whether the source may be bound to another session by the words."""
        return self.bind or (self.after is None and self.session is None and not self.own)


BOUND = SessionTarget()


class Submission(Struct, frozen=True, kw_only=True):
    """`busy` None is what the session says, or else the settings; `ephemeral` words live only as long as the
    client that said them. `answer` is asked first where the session waits for one: it takes the words as the
    answer and gives the turn that goes on with them, or None. What must be worked on `at_once` is refused
    with `NoPlace` while as many turns run as may."""

    agent: AgentId
    source: Source
    input: TurnInput
    place: SessionTarget = BOUND
    busy: BusyMode | None = BusyMode.QUEUE
    cause: Cause = Cause.MESSAGE
    reply: ReplyPlace | None = None
    ephemeral: bool = False
    request: NewRequest | None = None
    answer: Callable[[Tx, SessionId, str], SubmittedTurn | None] | None = None
    at_once: bool = False


class NoPlace(UserError):
    """As many turns run as may."""

    def __init__(self, most: int) -> None:
        super().__init__(f"The gateway runs {most} turns, and no more may run at once.")


class PromptMissing(HermesError):
    """The session of a turn that is begun at once has no prompt yet."""


class SubmitTurn(Struct, frozen=True, kw_only=True):
    """The unit of one submission. With an `epoch` (this life of the gateway) an actor is ready for the
    session, with this `prompt` if it is new: where nothing is unfinished there, nobody else
    can have a claim on the turn, so it is begun in the same commit. One that is `prompted` raises
    `PromptMissing` where it would need a prompt and has none."""

    words: Submission
    settings: Settings
    now: datetime
    epoch: int | None = None
    prompted: bool = False
    prompt: FrozenPrompt | None = None
    budgets: BudgetGate | None = None
    person: PersonOf | None = None

    def unit(self, tx: Tx) -> SubmittedTurn:
        words, place = self.words, self.words.place
        repeated = asked_before(tx, words.request)
        if repeated is not None:
            return repeated
        key = session_key(words.source, words.agent)
        bound = tx.bindings.get(key) if place.may_bind else None
        known = self._known_session(tx)
        standing = NOTHING_SAID if known is None else self._standing(tx, known)
        if known is not None and standing.asks and words.answer is not None:
            answered = words.answer(tx, known.id, words.input.text)
            if answered is not None:
                return answered
        session, begun = known or self._begin(tx, key), known is None
        if place.bind:
            tx.bindings.bind(key, session.id, words.source, self.now)
        turn, claim = self._turn(session), None
        self._hold(tx, turn, session)
        if self.epoch is None or standing.busy or self._is_claimed(turn):
            tx.turns.add(turn)
        else:
            used = self._used(tx, session, begun)
            claim = begin_at_once(tx, used, turn, standing.last, self.epoch, self.person)
        named = words.request
        request = None if named is None or named.late else add_request(tx, named, turn, self.now)
        # A chat that was bound to a session by these words has begun it.
        new = begun or (place.may_bind and tx.bindings.get(key) != bound)
        news = (session_began(words.source, session, key),) if new else ()
        submitted = turn if claim is None or claim.turn is None else claim.turn
        return SubmittedTurn(turn=submitted, request=request, begun=begun, news=news, claim=claim)

    def _is_claimed(self, turn: Turn) -> bool:
        """What is answered in a chat is held to a budget when its actor claims it, and refused there."""
        return self.budgets is not None and turn.reply is not None and turn.input.action.calls_model

    def _hold(self, tx: Tx, turn: Turn, session: Session) -> None:
        """Who waits for the answer is told at once that a budget is spent, and nothing is stored."""
        if self.budgets is None or turn.reply is not None or not turn.input.action.calls_model:
            return
        refused = self.budgets.take(tx, turn, session)
        if refused is not None:
            raise BudgetSpent(*refused)

    def _standing(self, tx: Tx, session: Session) -> SessionStanding:
        wanted = self.epoch is not None or self.words.answer is not None
        return tx.turns.standing(session.id) if wanted else NOTHING_SAID

    def _used(self, tx: Tx, session: Session, begun: bool) -> Session:
        """The session as its turn finds it; the claim of an actor writes the same."""
        if begun:
            return session
        used = replace(self._prompted(session), updated_at=self.now, archived=False)
        tx.sessions.save(used)
        return used

    def _turn(self, session: Session) -> Turn:
        words = self.words
        given = replace(words.input, text=storable(words.input.text))
        busy = words.busy or choose_busy_mode(session, self.settings.display.busy_input_mode)
        turn = make_turn(
            session, words.cause, given, self.now, source=words.source, reply=words.reply, busy=busy
        )
        return replace(turn, ephemeral=words.ephemeral)

    def _known_session(self, tx: Tx) -> Session | None:
        """The session these words go to; None if they begin one of their own."""
        words, place = self.words, self.words.place
        if place.after is not None:
            return self._branch(tx, place.after)
        if place.session is not None:
            known = tx.sessions.get(place.session)
            if known is None and not place.begin:
                raise no_session(place.session)
            return None if known is None else self._come_back(tx, known)
        if place.begins:
            return None
        caller = Caller(agent=words.agent, source=words.source)
        return find_session(tx, caller, self.now) or next_session(tx, caller.key, caller.source, self.now)

    def _come_back(self, tx: Tx, session: Session) -> Session:
        check_owner(session, self.words.place.owner)
        until = self.words.place.until
        if session.expires_at is None:
            return session
        kept = replace(session, expires_at=until and max(until, session.expires_at))
        tx.sessions.save(kept)
        return kept

    def _begin(self, tx: Tx, key: SessionKey) -> Session:
        words = self.words
        place, made = words.place, new_session_id(self.now)
        ident = place.session or (made if place.bind else SessionId(f"api_{made}"))
        begun = begin_session(key, words.source, self.now)
        session = replace(begun, id=ident, expires_at=place.until, model=place.model)
        add_session(tx, session := self._prompted(session))
        return session

    def _prompted(self, session: Session) -> Session:
        if self.prompt is not None:
            return self.prompt.given_to(session, door_hint(self.words.source, self.settings.platform_hints))
        if self.prompted and session.system_prompt is None:
            raise PromptMissing(f"session {session.id} has no prompt")
        return session

    def _branch(self, tx: Tx, after: TurnId) -> Session:
        """The session as it was right after a turn: itself if nothing was said since, else a branch of it."""
        turn = tx.turns.get(after)
        session = None if turn is None else tx.sessions.get(turn.session)
        if turn is None or session is None:
            raise NotFound("What this goes on from no longer exists.")
        check_owner(session, self.words.place.owner)
        if turn.state.open:
            raise TurnUnfinished("What this goes on from is still running. Wait for its end, or stop it.")
        last = tx.journal.span(after)[1]
        if not tx.turns.any_open(session.id) and not tx.journal.read(session.id, after=last, most=1):
            return self._come_back(tx, session)
        branch = fork_session(tx, session, self.now, upto=last)
        if session.expires_at is None:
            return branch
        fleeting = replace(branch, expires_at=self.words.place.until)
        tx.sessions.save(fleeting)
        return fleeting


def no_session(wanted: str) -> NotFound:
    return NotFound(
        f"There is no session “{one_line(wanted, 60)}”.", hint="`hermes sessions list` shows them."
    )


def check_owner(session: Session, owner: str | None) -> None:
    """To who may not see a session it is as if there were none. Owners are told as in `owner_of`."""
    if owner is not None and not (session.owner or "").startswith(f"{owner}:"):
        raise no_session(session.id)


def add_session(tx: Tx, session: Session) -> None:
    """Ids are one space for all agents; one that is in use, wherever, is refused."""
    try:
        tx.sessions.add(session)
    except Refused as error:
        raise NameTaken(f"There is a session “{one_line(session.id, 60)}” already.") from error


def fork_session(
    tx: Tx, session: Session, now: datetime, *, upto: int, without: Collection[TurnId] = ()
) -> Session:
    """A new session that begins with the records of another one up to a number, but those of some turns; both
    go their own way from here."""
    title = None if session.title is None else free_title(tx, session.title)
    branch = replace(
        session,
        id=new_session_id(now),
        parent=session.id,
        title=title,
        created_at=now,
        updated_at=now,
        ended=None,
        expires_at=None,
        archived=False,
    )
    tx.sessions.add(branch)
    tx.journal.copy(session.id, branch.id, upto, without)
    return branch


def free_title(tx: Tx, title: str) -> str:
    """The title, or `title #2` and so on where another session has it."""
    if not _is_taken(tx, title):
        return title
    stem, number = _NUMBERED.sub("", title)[: LONGEST_TITLE - 5], 2
    while _is_taken(tx, f"{stem} #{number}"):
        number += 1
    return f"{stem} #{number}"


def _is_taken(tx: Tx, title: str) -> bool:
    return any(session.title == title for session in tx.sessions.find(title))


def check_size(text: str, most: int) -> None:
    """What is longer than a message may be is refused before anything is stored."""
    if len(text) > most:
        size = f"{len(text):,} characters; {most:,} are the most"
        raise UserError(f"Your message has {size}.", hint="Put it into a file and name the file.")


# --- storing a submission and waking its actor -------------------------------------------------------


class Submitter(Struct, frozen=True, kw_only=True):
    actors: Actors
    _catching_up: TaskSet = field(default_factory=TaskSet)

    async def ask(self, runtime: Runtime, words: Submission) -> SubmittedTurn:
        """Store the words; the feed of a new turn is open before this returns."""
        with self.actors.workers.hold_place() as free:
            core = self.actors.core
            settings = core.live.of(runtime.profile.agent)
            words = replace(words, input=concealed(words.input, core.conceal.loaded))
            if runtime.describe is not None and runtime.facts(words.input.guidance.model).images is False:
                # They are looked at before the turn begins, like those of chats.
                files = tuple(replace(file, pending=bool(file.sha256)) for file in words.input.attachments)
                words = replace(words, input=replace(words.input, attachments=files))
            at_once = free and self._may_begin(words, runtime)
            if words.at_once and not free:
                repeated = await runtime.store.read(lambda tx: asked_before(tx, words.request))
                if repeated is None:
                    raise NoPlace(core.live.now.gateway.max_running)
                return repeated
            unit = SubmitTurn(
                words=words,
                settings=settings,
                now=core.clock.now(),
                epoch=self.actors.epoch if at_once else None,
                prompted=at_once and runtime.prompt is not None,
                budgets=gate_of(core, runtime) if settings.budgets else None,
                person=runtime.person,
            )
            try:
                submitted = await self._store(runtime, unit)
            except asyncio.CancelledError:
                self._catch_up()
                raise
            if submitted.after:
                if submitted.resumed:
                    self.actors.feeds.drive(submitted.turn.id)
                self.actors.ring(submitted.turn.agent, submitted.turn.session)
            elif submitted.fresh:
                self.actors.feeds.drive(submitted.turn.id)
                if submitted.claim is None:
                    self.actors.ring(submitted.turn.agent, submitted.turn.session, submitted.begun)
                else:
                    self.actors.enter(submitted.claim)
        core.events.emit_all(submitted.news)
        return submitted

    async def _store(self, runtime: Runtime, unit: SubmitTurn) -> SubmittedTurn:
        """With a prompt only for a session that has none: memories may take long to say theirs."""
        if unit.prompted and not self._is_new(unit.words.place):
            with contextlib.suppress(PromptMissing):
                return await runtime.store.write(unit.unit, first=True)
        if unit.prompted:
            prompt = await self._prompt(runtime, unit.words.source)
            unit = replace(unit, prompt=prompt, now=self.actors.core.clock.now())
        return await runtime.store.write(unit.unit, first=True)

    def _is_new(self, place: SessionTarget) -> bool:
        """Whether words most likely begin a session."""
        return place.begins or (place.begin and place.session not in self.actors.warm)

    async def _prompt(self, runtime: Runtime, source: Source) -> FrozenPrompt | None:
        """What a session of the agent begins with: never the tools of a runtime that was retired meanwhile,
        for a session keeps them."""
        asked: Runtime | None = None
        prompt = None
        while asked is not runtime:
            asked = runtime
            prompt = None if asked.prompt is None else await asked.prompt(None, source)
            runtime = await self.actors.core.agents.get(asked.profile.agent)
        return prompt

    def _may_begin(self, words: Submission, runtime: Runtime) -> bool:
        """Not where the turn is to be taken by its actor: one is at work there, files, hooks or a suspect
        come first, or the prompt is to tell of a chat."""
        given, session = words.input, words.place.session
        speaks = given.action is TurnAction.SAY and not given.confirm
        gated = GATE_TURN in self.actors.core.hooks.followed
        waits = gated or any(file.pending for file in given.attachments)
        waits = waits or is_expandable(given, words.cause, words.source)
        provider = runtime.memory_provider
        waits = waits or (provider is not None and provider.recalls and may_recall(given, words.cause))
        held = not self.actors.quarantine.open
        at_work = session is not None and (words.agent, session) in self.actors.workers.active
        return speaks and not (waits or held or at_work or words.source.is_chat)

    def _catch_up(self) -> None:
        """Whoever asked has gone, but what they asked may be stored all the same: look for it after that."""

        async def look() -> None:
            with contextlib.suppress(HermesError):
                # A unit that only comes after those that were handed in before it.
                await self.actors.core.store.write(lambda tx: None)
            self.actors.workers.search()

        self._catching_up.begin(look(), "catch up")
