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

from hermes.control.hooks.dispatch import Hooks
from hermes.control.outbound.answers import PARTS_PER_SEGMENT, REPEAT_MARK
from hermes.control.outbound.draft import SEND_SECONDS, Draft
from hermes.control.outbound.gate import rule_message
from hermes.control.outbound.question_messages import closed_body
from hermes.control.workers import pause_after, wait_for_ring
from hermes.domain.address import Address
from hermes.domain.clock import Clock
from hermes.domain.errors import HermesError, NeedsLogin, Refused, Unreachable
from hermes.domain.hooks import GATE_SEND
from hermes.domain.message import Body, Receipt
from hermes.domain.ports.platform import Deletes, Edits, History, Platform
from hermes.domain.ports.store import Store, Tx
from hermes.domain.rows import OutboxRow, OutState
from hermes.domain.settings.settings import Settings
from hermes.domain.text import one_line
from hermes.stream.text.markdown import parse
from hermes.stream.text.print import print_markdown

log = logging.getLogger("hermes.lane")
_FIRST_DELAY = 1.0
_LONGEST_DELAY = 300.0
UNSENT = "unsent:"
"""How the keys of messages begin that tell of files which could not be sent."""
_LOST = "⚠️ The answer could not be sent: {why}"
_REMOVED = "⏹"
_NOT_SENT = "📎 What belongs to this could not be sent: {why}"


@dataclass(frozen=True, slots=True, kw_only=True)
class LaneContext:
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
    reported: Address | None = None
    """Where the operator reads that the row before was given up."""


class Lane:
    def __init__(self, to: Address, world: LaneContext) -> None:
        self._to = to
        self._world = world
        self._drafts: list[Draft] = []
        self._bell = asyncio.Event()
        self._due = True
        self._leaving = False
        self._marked: str | None = None
        """The row that `_next` marked and nobody has begun to send, as far as this lane knows."""

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
        asking = False
        try:
            while True:
                self._bell.clear()
                platform = self._world.platform(self._to.credential)
                if platform is None:
                    return
                head = _Head()
                if self._due or settled is not None:
                    self._due = False
                    asking = True
                    head = await self._advance(settled)
                    asking = False
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
            for draft in self._drafts:
                draft.stop()
            if asking or settled is not None:
                reported = await self._world.store.write(self._leave(settled))
                self._count_dead(settled, reported)

    # --- finals ---

    async def _advance(self, settled: OutboxRow | None) -> _Head:
        """The next row. That the last one is sent is known here alone, so it is kept until it is stored."""
        failures = 0
        while True:
            try:
                head = await self._world.store.write(self._next(settled))
            except Unreachable as error:
                if settled is None or self._leaving:
                    raise
                failures += 1
                log.warning("lane.not_stored to=%s key=%s why=%s", self._to, settled.key, error)
                await self._world.clock.sleep(pause_after(failures))
                continue
            self._count_dead(settled, head.reported)
            return head

    def _count_dead(self, settled: OutboxRow | None, reported: Address | None) -> None:
        if settled is not None and settled.state is OutState.DEAD:
            self._world.given_up(reported)

    def _leave(self, settled: OutboxRow | None) -> Callable[[Tx], Address | None]:
        """One unit for whoever leaves in the middle: how the last row ended. The next one may be marked
        already and is not sent: if this lane did that, and it never was before, it is as it was."""

        def leave(tx: Tx) -> Address | None:
            reported = None if settled is None else self._settle(tx, settled)
            row = tx.outbox.head(self._to)
            untouched = row is not None and row.state is OutState.ATTEMPTING and row.attempts == 1
            if row is not None and untouched and row.key == self._marked:
                tx.outbox.save(replace(row, state=OutState.DUE, attempts=0))
            return reported

        return leave

    def _settle(self, tx: Tx, settled: OutboxRow) -> Address | None:
        """Write down how a row ended, and tell of it if it was given up; where that will be read."""
        tx.outbox.save(settled)
        return self._world.report(tx, settled) if settled.state is OutState.DEAD else None

    def _next(self, settled: OutboxRow | None) -> Callable[[Tx], _Head]:
        """One unit: write down how the last row ended, and mark the next one as being attempted."""
        now = self._world.clock.now()
        platform = self._world.platform(self._to.credential)
        drafts = platform is not None and platform.capabilities.edits

        def attempt(tx: Tx) -> _Head:
            reported = None if settled is None else self._settle(tx, settled)
            return replace(following(tx), reported=reported)

        def following(tx: Tx) -> _Head:
            row = tx.outbox.head(self._to)
            if row is None:
                return _Head()
            if row.next_at is not None and row.next_at > now:
                return _Head(seconds=(row.next_at - now).total_seconds())
            doubtful = row.state is not OutState.DUE
            # Set before the commit: whoever leaves cannot tell whether that came about.
            self._marked = None if doubtful else row.key
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
            gated = not _is_empty(row.body) and self._world.hooks.follows(GATE_SEND)
            body = await rule_message(self._world.hooks, row, platform.capabilities) if gated else row.body
        except Refused as error:
            # The operator hears of it, and nobody of what it said: that is what the hook is for.
            return replace(self._dead(row, str(error)), body=Body(text="…"))
        begun = False
        try:
            async with asyncio.timeout(SEND_SECONDS):
                repeats = await self._clear_orphans(platform, row, head.siblings)
                begun = True
                receipt = await self._put(platform, replace(row, body=body), head, repeats)
        except TimeoutError:
            return self._later(head, Unreachable("no answer", maybe_done=begun))
        except Unreachable as error:
            return self._later(head, error)
        except NeedsLogin as error:
            return self._later(head, Unreachable(str(error), after=60.0))
        except Refused as error:
            await self._tidy(platform, row, head.siblings, _LOST.format(why=one_line(str(error), 120)))
            return self._dead(row, str(error))
        except Exception as error:  # the lane is one of the places that may catch everything
            log.exception("lane.broke to=%s key=%s", self._to, row.key)
            return self._later(head, Unreachable(type(error).__name__, maybe_done=begun))
        log.debug("lane.sent to=%s key=%s attempts=%d", self._to, row.key, row.attempts)
        sent = replace(row, state=OutState.SENT, receipt=receipt, error="")
        await self._tidy(platform, sent, head.siblings)
        return sent

    async def _put(self, platform: Platform, row: OutboxRow, head: _Head, repeats: bool) -> Receipt | None:
        """Bring the row's words to the chat; `repeats` says that a draft nobody can find may show them."""
        body = row.body
        if _is_empty(body):
            return None
        if body.replaces is not None:
            # The receipt stays with the message that was sent: what was asked is found by it.
            over = None if head.replaced is None else head.replaced.receipt
            if over is not None and isinstance(platform, Edits):
                await platform.edit(over, printed(body, platform))
            return None
        if repeats:
            body = _marked(body)
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
            searched, found = await self._find(platform, row.key)
            if found is not None:
                return found
            if not repeats and (said_there or not (searched or self._keyed(platform, row))):
                body = _marked(body)
        try:
            return await platform.send(self._to, printed(body, platform), key=row.key, reply_to=row.reply_to)
        except Refused as error:
            if not (body.attachments and row.body.text):
                raise
            # The files cannot go, the words under them can.
            log.warning("lane.words_alone to=%s key=%s why=%s", self._to, row.key, error)
            words = Body(text=f"{body.text}\n\n{_NOT_SENT.format(why=one_line(str(error), 120))}")
            return await platform.send(self._to, printed(words, platform), key=row.key, reply_to=row.reply_to)

    async def _find(self, platform: Platform, key: str) -> tuple[bool, Receipt | None]:
        """Whether the chat's history could be searched, and the message with this key."""
        if not (isinstance(platform, History) and platform.capabilities.history):
            return False, None
        try:
            return True, await platform.find_sent(self._to, key)
        except Refused as error:
            log.warning("lane.no_history to=%s why=%s", self._to, error)
            return False, None

    def _keyed(self, platform: Platform, row: OutboxRow) -> bool:
        """Whether the platform itself drops a second copy."""
        age = (self._world.clock.now() - row.created_at).total_seconds()
        # A clock that was set back does not tell how old the first copy is.
        return 0.0 <= age < platform.capabilities.dedupe_seconds

    async def _clear_orphans(self, platform: Platform, row: OutboxRow, siblings: Sequence[OutboxRow]) -> bool:
        """Remove drafts nobody saw the end of, before the row takes their place; whether one that could not
        be found or removed may show all that the row says. Nothing is sent yet, so this may fail."""
        repeats = False
        last = _is_last(row, siblings)
        for draft in siblings:
            if not draft.draft or draft.state is not OutState.ATTEMPTING or _segment(draft) != _segment(row):
                continue
            if draft.part != row.part and not (last and draft.part > row.part):
                continue
            searched, found = await self._find(platform, draft.key)
            gone = searched if found is None else await self._remove(platform, found)
            repeats = repeats or (not gone and _shows(draft, row.body.text))
        return repeats

    async def _tidy(
        self, platform: Platform, row: OutboxRow, siblings: Sequence[OutboxRow], instead: str = ""
    ) -> None:
        """With the last part out, remove what drafts left behind: parts too many, those that could not be
        edited; of a row that is given up its draft says so `instead`. The row is settled, so nothing that
        goes wrong here may be told of as its end."""
        if not _is_last(row, siblings):
            return
        taken = {row.receipt, *(one.receipt for one in siblings if not one.draft)}
        for draft in siblings:
            shown = draft.draft and draft.state is OutState.SHOWN and _segment(draft) == _segment(row)
            if shown and draft.receipt is not None and draft.receipt not in taken:
                await self._remove(platform, draft.receipt, instead)

    async def _remove(self, platform: Platform, receipt: Receipt, instead: str = "") -> bool:
        """Take a message away, or what it says where that cannot be done; whether it worked."""
        try:
            async with asyncio.timeout(SEND_SECONDS):
                if isinstance(platform, Deletes) and not instead:
                    await platform.delete(receipt)
                elif isinstance(platform, Edits):
                    await platform.edit(receipt, Body(text=instead or _REMOVED))
        except (HermesError, TimeoutError) as error:
            log.info("lane.draft_stays to=%s why=%s", self._to, error)
            return False
        except Exception:  # what it removes is a courtesy
            log.exception("lane.broke to=%s", self._to)
            return False
        return True

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
        if row.body.replaces is not None or row.key.startswith(UNSENT) or _is_empty(row.body):
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
        await wait_for_ring(self._bell, self._world.clock, seconds, "lane")


def printed(body: Body, platform: Platform) -> Body:
    return body.with_text(print_markdown(parse(body.text), platform.capabilities.flavour))


def _marked(body: Body) -> Body:
    return body.with_text(f"{REPEAT_MARK}\n\n{body.text}")


def _is_empty(body: Body) -> bool:
    """Nothing is to be said: the row is there to have its turn's draft removed."""
    return not body.text and not body.attachments


def _shows(draft: OutboxRow, text: str) -> bool:
    """Whether a reader of this draft has read most of a text."""
    half = text.strip()[: len(text) // 2 + 1]
    return bool(half) and half in draft.body.text


def _is_last(row: OutboxRow, siblings: Sequence[OutboxRow]) -> bool:
    """Whether no part of what its turn says here comes after this row."""
    finals = [one for one in siblings if not one.draft and _segment(one) == _segment(row)]
    return bool(finals) and finals[-1].key == row.key


def _segment(row: OutboxRow) -> int:
    return row.part // PARTS_PER_SEGMENT


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
