"""A lane: the one writer of one chat. It posts drafts, edits them and delivers finals, in order.

Its life: it is started when its chat has something to send or a turn begins to speak there, and leaves when
both are done. A row is marked `attempting` before it is sent; what happened to an attempt nobody saw the end
of is found out by the platform's key or history, or said on the repeat. A row that cannot be sent now holds
up the rows behind it, never another chat.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta

from hermes.control.bell import rest
from hermes.control.draft import Draft
from hermes.control.gates import rule_message
from hermes.control.hooks import Hooks
from hermes.control.outcome import PARTS_PER_SEGMENT, REPEAT_MARK
from hermes.control.prompts import closed_body
from hermes.domain.address import Address
from hermes.domain.clock import Clock
from hermes.domain.errors import HermesError, NeedsLogin, Refused, Unreachable
from hermes.domain.message import Body, Receipt
from hermes.domain.ports import Deletes, Edits, History, Platform, Store, Tx
from hermes.domain.rows import OutboxRow, OutState
from hermes.domain.settings import Settings
from hermes.domain.text import one_line
from hermes.stream.markdown import parse
from hermes.stream.print import print_markdown

log = logging.getLogger("hermes.lane")
SEND_SECONDS = 60.0
_FIRST_DELAY = 1.0
_LONGEST_DELAY = 300.0
UNSENT = "unsent:"
"""How the keys of messages begin that tell of files which could not be sent."""
_NOT_SENT = "📎 What belongs to this could not be sent: {why}"


@dataclass(frozen=True, slots=True, kw_only=True)
class LaneWorld:
    """What all lanes share."""

    store: Store
    clock: Clock
    settings: Settings
    platform: Callable[[str], Platform | None]
    report: Callable[[Tx, OutboxRow], Address | None]
    """Tells the operator, in the transaction that gives a row up; where it will be read."""
    given_up: Callable[[Address | None], None]
    """Told after that commit."""
    hooks: Hooks = field(default_factory=Hooks)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Head:
    """The next row of the chat: to be sent now, or after `seconds`."""

    row: OutboxRow | None = None
    doubtful: bool = False
    seconds: float = 0.0
    siblings: tuple[OutboxRow, ...] = ()
    replaced: OutboxRow | None = None
    """The earlier message of which it takes the place."""
    dead: bool = False
    reported: Address | None = None


class Lane:
    def __init__(self, to: Address, world: LaneWorld) -> None:
        self._to = to
        self._world = world
        self._drafts: list[Draft] = []
        self._bell = asyncio.Event()
        self._due = True
        self._leaving = False

    def wind_down(self) -> None:
        """Send what can be sent now; what has to wait is sent by the next life."""
        self._leaving = True
        self.ring()

    def ring(self) -> None:
        """There may be something in the outbox."""
        self._due = True
        self._bell.set()

    def follow(self, draft: Draft) -> None:
        """Show a turn that begins to speak here."""
        self._drafts.append(draft)
        draft.start(self._bell.set)
        self._bell.set()

    async def live(self) -> None:
        settled: OutboxRow | None = None
        try:
            while True:
                self._bell.clear()
                platform = self._world.platform(self._to.credential)
                if platform is None:
                    return
                head = _Head()
                if self._due or settled is not None:
                    self._due = False
                    head = await self._world.store.write(self._next(settled))
                    if head.dead:
                        self._world.given_up(head.reported)
                settled = None
                if head.row is not None:
                    settled = await self._deliver(platform, head)
                    for draft in self._drafts:
                        draft.settle(settled)
                    continue
                if self._due:
                    # Something was finished meanwhile: it comes before what others begin to say.
                    continue
                if self._leaving:
                    return
                self._due = head.seconds > 0
                wait = head.seconds or await self._show_drafts(platform)
                if wait is None and not self._drafts:
                    if not self._bell.is_set():
                        return
                    continue
                await self._rest(wait)
        finally:
            if settled is not None:
                await self._world.store.write(self._next(settled))
            for draft in self._drafts:
                draft.stop()

    # --- finals ---

    def _next(self, settled: OutboxRow | None) -> Callable[[Tx], _Head]:
        """One unit: write down how the last row ended, tell of it if it was given up, and mark the next one
        as being attempted."""
        now = self._world.clock.now()
        platform = self._world.platform(self._to.credential)
        drafts = platform is not None and platform.capabilities.edits

        def attempt(tx: Tx) -> _Head:
            if settled is None:
                return following(tx)
            tx.outbox.save(settled)
            dead = settled.state is OutState.DEAD
            reported = self._world.report(tx, settled) if dead else None
            return replace(following(tx), dead=dead, reported=reported)

        def following(tx: Tx) -> _Head:
            row = tx.outbox.head(self._to)
            if row is None:
                return _Head()
            if row.next_at is not None and row.next_at > now:
                return _Head(seconds=(row.next_at - now).total_seconds())
            doubtful = row.state is not OutState.DUE
            siblings = tuple(tx.outbox.of_turn(row.turn)) if drafts and row.turn is not None else ()
            replaced = None if row.body.replaces is None else tx.post.get(row.body.replaces)
            row = replace(row, state=OutState.ATTEMPTING, attempts=row.attempts + 1, next_at=None)
            tx.outbox.save(row)
            return _Head(row=row, doubtful=doubtful, siblings=siblings, replaced=replaced)

        return attempt

    async def _deliver(self, platform: Platform, head: _Head) -> OutboxRow:
        """Send one row; the row as it is to be stored afterwards."""
        row = head.row
        assert row is not None
        if head.replaced is not None:
            row = replace(row, body=closed_body(head.replaced, row.body, platform.capabilities))
        try:
            body = await rule_message(self._world.hooks, row, platform.capabilities)
        except Refused as error:
            # The operator hears of it, and nobody of what it said: that is what the hook is for.
            return replace(self._dead(row, str(error)), body=Body(text="…"))
        try:
            async with asyncio.timeout(SEND_SECONDS):
                receipt = await self._put(platform, replace(row, body=body), head)
                await self._tidy(platform, row, head.siblings)
        except TimeoutError:
            return self._later(head, Unreachable("no answer", maybe_done=True))
        except Unreachable as error:
            return self._later(head, error)
        except NeedsLogin as error:
            return self._later(head, Unreachable(str(error), after=60.0))
        except Refused as error:
            return self._dead(row, str(error))
        except Exception as error:  # the lane is one of the three places that may catch everything
            log.exception("lane.broke to=%s key=%s", self._to, row.key)
            return self._later(head, Unreachable(type(error).__name__, maybe_done=True))
        log.debug("lane.sent to=%s key=%s attempts=%d", self._to, row.key, row.attempts)
        return replace(row, state=OutState.SENT, receipt=receipt, error="")

    async def _put(self, platform: Platform, row: OutboxRow, head: _Head) -> Receipt | None:
        body = row.body
        if body.replaces is not None:
            # The receipt stays with the message that was sent: what was asked is found by it.
            over = None if head.replaced is None else head.replaced.receipt
            if over is not None and isinstance(platform, Edits):
                await platform.edit(over, printed(body, platform))
            return None
        shown = _draft_of(row, head.siblings)
        said_there = False
        if shown is not None and isinstance(platform, Edits):
            try:
                await platform.edit(shown, printed(body, platform))
                return shown
            except Refused:
                # The draft is gone (deleted, too old): the final goes out as a message of its own.
                log.info("lane.draft_gone to=%s key=%s", self._to, row.key)
                # An earlier attempt may have said it there before that: no history tells of edits.
                said_there = head.doubtful
        if head.doubtful:
            found = await self._find(platform, row)
            if found is not None:
                return found
            if said_there or not self._keyed(platform, row):
                body = body.with_text(f"{REPEAT_MARK}\n\n{body.text}")
        try:
            return await platform.send(self._to, printed(body, platform), key=row.key, reply_to=row.reply_to)
        except Refused as error:
            if not (body.attachments and row.body.text):
                raise
            # The files cannot go, the words under them can.
            log.warning("lane.words_alone to=%s key=%s why=%s", self._to, row.key, error)
            words = Body(text=f"{body.text}\n\n{_NOT_SENT.format(why=one_line(str(error), 120))}")
            return await platform.send(self._to, printed(words, platform), key=row.key, reply_to=row.reply_to)

    async def _find(self, platform: Platform, row: OutboxRow) -> Receipt | None:
        if isinstance(platform, History) and platform.capabilities.history:
            return await platform.find_sent(self._to, row.key)
        return None

    def _keyed(self, platform: Platform, row: OutboxRow) -> bool:
        """Whether the platform itself drops a second copy, or its history has just shown there is none."""
        if isinstance(platform, History) and platform.capabilities.history:
            return True
        age = (self._world.clock.now() - row.created_at).total_seconds()
        return age < platform.capabilities.dedupe_seconds

    async def _tidy(self, platform: Platform, row: OutboxRow, siblings: Sequence[OutboxRow]) -> None:
        """With the last part out, remove what drafts left behind: orphans of a crash, parts too many."""
        finals = [sibling for sibling in siblings if not sibling.draft]
        if not finals or finals[-1].key != row.key:
            return
        if not isinstance(platform, Deletes):
            return
        segment = row.part // PARTS_PER_SEGMENT
        # Files stand behind the text and never take a draft's place.
        words = [
            one.part
            for one in finals
            if not one.body.attachments and one.part // PARTS_PER_SEGMENT == segment
        ]
        last = max(words, default=segment * PARTS_PER_SEGMENT - 1)
        for draft in siblings:
            if not draft.draft or draft.part // PARTS_PER_SEGMENT != segment:
                continue
            receipt = draft.receipt if draft.state is OutState.SHOWN and draft.part > last else None
            if draft.state is OutState.ATTEMPTING:
                receipt = await self._find(platform, draft)
            if receipt is not None:
                try:
                    await platform.delete(receipt)
                except HermesError as error:
                    log.info("lane.orphan_stays to=%s why=%s", self._to, error)

    def _later(self, head: _Head, error: Unreachable) -> OutboxRow:
        row = head.row
        assert row is not None
        now = self._world.clock.now()
        oldest = timedelta(hours=self._world.settings.gateway.outbox_hours)
        if now - row.created_at > oldest:
            return self._dead(row, str(error))
        delay = error.after if error.after is not None else _backoff(row.attempts)
        log.info("lane.later to=%s key=%s after=%.1f why=%s", self._to, row.key, delay, error)
        return replace(
            row,
            # That this attempt did nothing does not tell what became of an earlier one.
            state=OutState.UNKNOWN if error.maybe_done or head.doubtful else OutState.DUE,
            next_at=now + timedelta(seconds=delay),
            error=str(error),
        )

    def _dead(self, row: OutboxRow, why: str) -> OutboxRow:
        if row.body.replaces is not None or row.key.startswith(UNSENT):
            # A finishing touch, or word of what was told already: nobody misses anything.
            log.info("lane.left_out to=%s key=%s why=%s", self._to, row.key, why)
            return replace(row, state=OutState.GONE, error=why)
        log.warning("lane.dead to=%s key=%s why=%s", self._to, row.key, why)
        return replace(row, state=OutState.DEAD, error=why)

    # --- drafts ---

    async def _show_drafts(self, platform: Platform) -> float | None:
        """Bring every draft up to date; seconds until one of them needs it again."""
        waits: list[float] = []
        for draft in list(self._drafts):
            if draft.over:
                self._drafts.remove(draft)
                await draft.leave(platform)
                continue
            wait = await draft.step(platform)
            if wait is not None:
                waits.append(wait)
        return min(waits) if waits else None

    async def _rest(self, seconds: float | None) -> None:
        if seconds is None:
            await self._bell.wait()
            return
        if seconds <= 0:
            await asyncio.sleep(0)
            return
        await rest(self._bell, self._world.clock, seconds, "lane")


def printed(body: Body, platform: Platform) -> Body:
    return body.with_text(print_markdown(parse(body.text), platform.capabilities.flavour))


def _draft_of(row: OutboxRow, siblings: Sequence[OutboxRow]) -> Receipt | None:
    """The message that shows this part's draft, if its receipt is stored. A file is not edited into one."""
    if row.body.attachments:
        return None
    shown = [
        sibling.receipt
        for sibling in siblings
        if sibling.draft and sibling.part == row.part and sibling.state is OutState.SHOWN
    ]
    return shown[-1] if shown else None


def _backoff(attempts: int) -> float:
    full: float = min(_FIRST_DELAY * 2 ** min(attempts - 1, 16), _LONGEST_DELAY)
    return full * (0.75 + random.random() / 2)
