"""The draft of one turn in one chat: a message that grows by edits until the final takes its place.

Each part of a draft is a row before it is posted (`attempting`) and after (`shown`, with its receipt), so
that after a crash the final edits what is there and never what is uncertain. The words between two edits are
only in memory: they are in the records, or will be said again.

Where the platform has previews and the settings want them there is no message and no row: nothing has to be
remembered, nothing can be left behind, and the final is a new message."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, TypeVar
from zlib import crc32

from msgspec import Struct

from hermes.control.core import GatewayCore
from hermes.control.feed import Feed
from hermes.control.outbound.answers import PARTS_PER_SEGMENT
from hermes.control.workers import report_death
from hermes.domain.chats.message import Body, Receipt
from hermes.domain.chats.rows import OutboxRow, OutState
from hermes.domain.errors import HermesError, Refused, Unreachable
from hermes.domain.ports.platform import Deletes, Edits, Platform, Previews
from hermes.domain.ports.store import Tx
from hermes.domain.text import one_line
from hermes.domain.turns.event import Asked, Entry, FeedItem, TextDelta
from hermes.domain.turns.turn import Turn
from hermes.domain.word import check_word, replace
from hermes.stream.fold.display import ChatDisplay
from hermes.stream.fold.draft_pace import DraftPace, draft_text
from hermes.stream.fold.questions import for_people
from hermes.stream.fold.turn_fold import Fold

if TYPE_CHECKING:
    from hermes.stream.text.split import MessagePart

log = logging.getLogger("hermes.draft")
T = TypeVar("T")
_REMOVED = "⏹"
SEND_SECONDS = 60.0
"""How long a platform may take over a message."""


class _Part(Struct, kw_only=True):
    row: OutboxRow
    text: str = ""


class Draft:
    def __init__(
        self, *, turn: Turn, feed: Feed, pace: DraftPace, display: ChatDisplay, core: GatewayCore
    ) -> None:
        assert turn.reply is not None, "a turn without a chat has no draft"
        self._turn = turn
        self._reply = turn.reply
        self._display = display
        self._feed = feed
        self._pace = pace
        self._store = core.store
        self._clock = core.clock
        self._fold = Fold()
        self._segment = 0
        self._settled = -1
        self._parts: dict[int, _Part] = {}
        self._loaded = False
        self._broken = False
        self.over = False
        """The turn ended (its final is in the outbox) or will not be shown any more."""
        self._alarm = False
        """The lane wakes by itself when the draft is due, so further words need not wake it."""
        self._watching: asyncio.Task[None] | None = None

    def settle(self, row: OutboxRow) -> None:
        """The lane has sent this. If it is the final of what the draft shows, that is shown no more, also if
        the turn's end has not been heard of yet."""
        if row.turn == self._turn.id:
            self._settled = row.part // PARTS_PER_SEGMENT

    def start(self, ring: Callable[[], None]) -> None:
        self._watching = asyncio.create_task(self._watch(ring), name=f"draft {self._turn.id}")
        self._watching.add_done_callback(report_death)

    def stop(self) -> None:
        if self._watching is not None:
            self._watching.cancel()

    async def _watch(self, ring: Callable[[], None]) -> None:
        try:
            async for seen in self._feed.watch():
                self._see(seen)
                if not (self._alarm and isinstance(seen, TextDelta)):
                    ring()
        finally:
            # Also if it broke: the lane waits for the end.
            self.over = True
            ring()

    def _see(self, seen: FeedItem) -> None:
        self._fold.see(seen)
        if isinstance(seen, Entry) and isinstance(seen.record, Asked) and for_people(seen.record):
            # What comes after a question is said below it, in messages of its own.
            self._segment += 1
            self._parts = {}
            self._fold = Fold()
            pace = self._pace
            self._pace = DraftPace(pace.interval, pace.threshold, pace.cursor, pace.keep)

    async def step(self, platform: Platform) -> float | None:
        """Post or edit if it is time; seconds until it may be, None if there is nothing to show."""
        wait = await self._step(platform)
        self._alarm = wait is not None and wait > 0
        # More words may make it due sooner, but never sooner than an interval from now.
        return min(wait, self._pace.interval) if wait and self._pace.interval else wait

    async def _step(self, platform: Platform) -> float | None:
        if self._broken or self._pace.given_up:
            return None
        if self._segment <= self._settled:
            return None
        text = self._text()
        # What one chat has learned about the platform's patience counts for all.
        self._pace.interval = max(self._pace.interval, platform.capabilities.edit_interval or 0.0)
        wait = self._pace.wait(self._clock.monotonic(), text)
        if wait is None or wait > 0:
            return wait
        await self._load()
        try:
            await self._show(platform, text)
        except Unreachable as error:
            self._pace.flooded(self._clock.monotonic(), error.after)
            self._broken = self._broken or (error.maybe_done and not self._pace.keep)
        except HermesError as error:
            # Also a login that does not count any more: the final waits for it, the draft does not.
            log.info("draft.refused turn=%s why=%s", self._turn.id, error)
            self._broken = True
        else:
            self._pace.shown(self._clock.monotonic(), text)
        return self._pace.wait(self._clock.monotonic(), self._text())

    def _text(self) -> str:
        shown = self._display
        return self._fold.draft(shown.progress, shown.preview, interim=shown.interim)

    async def _load(self) -> None:
        """After a restart: what an earlier life has shown of this turn is edited, not posted again."""
        if self._loaded:
            return
        self._loaded = True
        if self._turn.attempt > 1:
            rows = await self._store.read(lambda tx: tx.outbox.of_turn(self._turn.id))
            for row in rows:
                if row.draft and row.state is OutState.SHOWN:
                    self._parts[row.part] = _Part(row=row)

    async def _show(self, platform: Platform, text: str) -> None:
        from hermes.stream.text.split import split

        able = platform.capabilities
        pieces = split(
            draft_text(text, self._pace.cursor), limit=able.max_text, unit=able.unit, flavour=able.flavour
        )
        if self._pace.keep and await self._preview(platform, pieces):
            return
        for place, piece in enumerate(pieces):
            number = self._segment * PARTS_PER_SEGMENT + place
            part = self._parts.get(number)
            body = Body(text=piece.printed, growing=True)
            if part is None:
                self._parts[number] = await self._post(platform, number, piece.text, body)
            elif part.text != body.text and part.row.receipt is not None and isinstance(platform, Edits):
                await _in_time(platform.edit(part.row.receipt, body))
                part.text = body.text

    async def _preview(self, platform: Platform, pieces: Sequence[MessagePart]) -> bool:
        """Show where the words have come to; False if it has to be done by a message after all."""
        if not pieces or not isinstance(platform, Previews):
            return False
        place = f"{self._turn.id}:{self._segment}:{len(pieces)}"
        body = Body(text=pieces[-1].printed)
        try:
            await _in_time(platform.preview(self._reply.to, crc32(place.encode()), body))
        except Refused as error:
            log.info("draft.no_preview turn=%s why=%s", self._turn.id, error)
            self._pace.keep = 0.0
            return False
        return True

    async def _post(self, platform: Platform, number: int, text: str, body: Body) -> _Part:
        row = OutboxRow(
            key=f"{self._turn.id}:draft:{number}:{self._turn.attempt}",
            to=self._reply.to,
            body=Body(text=text),  # tells after a crash whether it may have said all there was
            created_at=self._clock.now(),
            turn=self._turn.id,
            part=number,
            draft=True,
            state=OutState.ATTEMPTING,
        )

        def begin_draft(tx: Tx) -> bool:
            turn = tx.turns.get(self._turn.id)
            if turn is None or not turn.state.open:
                return False  # what it ended with takes the draft's place, and would not know of this one
            tx.outbox.add(row)
            return True

        if not await self._store.scoped(self._turn.agent).write(begin_draft):
            self._broken = True
            return _Part(row=row)
        reply_to = self._reply.ref if number % PARTS_PER_SEGMENT == 0 else None
        receipt = await self._send(platform, row, body, reply_to)
        shown = replace(row, state=OutState.SHOWN, receipt=receipt)

        def keep_receipt(tx: Tx) -> None:
            tx.outbox.save(shown)

        await self._store.write(keep_receipt)
        return _Part(row=shown, text=body.text)

    async def _send(self, platform: Platform, row: OutboxRow, body: Body, reply_to: str | None) -> Receipt:
        try:
            sending = platform.send(self._reply.to, body, key=row.key, reply_to=reply_to)
            receipt = checked_receipt(await _in_time(sending), row)
            if receipt is None:
                raise Unreachable("it gave no receipt", maybe_done=True)
            return receipt
        except HermesError as error:
            # Not shown, or not known to be: this row is never edited.
            self._broken = True
            if not (isinstance(error, Unreachable) and error.maybe_done):
                await self._store.write(lambda tx: tx.outbox.save(replace(row, state=OutState.GONE)))
            raise

    async def leave(self, platform: Platform) -> None:
        """The turn is over. If no final takes the draft's place, it is removed or left without its cursor."""
        rows = await self._store.read(lambda tx: tx.outbox.of_turn(self._turn.id))
        if any(not row.draft and row.part // PARTS_PER_SEGMENT == self._segment for row in rows):
            return
        for part in self._parts.values():
            if part.row.receipt is None:
                continue
            try:
                await remove_message(platform, part.row.receipt)
            except HermesError as error:
                log.info("draft.stays turn=%s why=%s", self._turn.id, error)


def checked_receipt(receipt: object, row: OutboxRow) -> Receipt | None:
    """What an adapter gave back for a message that went out. Without a receipt it can never be edited; what
    is none could not be stored, and the message would go out again and again."""
    try:
        return check_word(receipt, Receipt)
    except ValueError as error:
        why = one_line(str(error), 120)
        log.warning("send.no_receipt to=%s: `send` of an adapter must give a Receipt (%s)", row.to, why)
        return None


async def remove_message(platform: Platform, receipt: Receipt, instead: str = "") -> None:
    """Delete a message, or edit it to say something `instead`, or next to nothing where it stays."""
    if isinstance(platform, Deletes) and not instead:
        await _in_time(platform.delete(receipt))
    elif isinstance(platform, Edits):
        await _in_time(platform.edit(receipt, Body(text=instead or _REMOVED)))


async def _in_time(work: Awaitable[T]) -> T:
    """Whoever hangs over a draft may not hold up the messages that are to be sent."""
    try:
        async with asyncio.timeout(SEND_SECONDS):
            return await work
    except TimeoutError:
        raise Unreachable("no answer", maybe_done=True) from None
