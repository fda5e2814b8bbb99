"""Sends one row of the outbox: over its draft or as a new message, without a second copy where that can be
avoided, and with a mark where it cannot.

What became of an attempt that nobody saw the end of is found out by the platform's key or history, or is said
on the repeat.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Sequence
from contextlib import suppress
from datetime import timedelta

from msgspec import Struct

from hermes.control.core import GatewayCore
from hermes.control.hooks.dispatch import Decision
from hermes.control.outbound.answers import PARTS_PER_SEGMENT, REPEAT_MARK
from hermes.control.outbound.draft import checked_receipt, remove_message
from hermes.control.outbound.notices import is_missed, unsent_files
from hermes.control.outbound.question_messages import closed_body
from hermes.domain.chats.capabilities import Capabilities
from hermes.domain.chats.message import Body, Receipt, transfer_seconds
from hermes.domain.chats.rows import OutboxRow, OutState
from hermes.domain.errors import HermesError, NeedsLogin, Refused, Unreachable
from hermes.domain.ids import EVERY_AGENT
from hermes.domain.ports.platform import Edits, History, OutsideWindow, Platform
from hermes.domain.system.hooks import GATE_SEND
from hermes.domain.text import one_line, storable
from hermes.domain.word import replace

log = logging.getLogger("hermes.lane")
_FIRST_DELAY = 1.0
_LONGEST_DELAY = 300.0
WAITS = "they last wrote too long ago for that platform; it waits until they write again"
_WAITS_SECONDS = 600.0
_LOST = "⚠️ The answer could not be sent: {why}"
_MOST_TRANSFERS = 8
_DOUBT = "; it may have arrived all the same"


class RowSender(Struct, frozen=True, kw_only=True):
    """One attempt to send a row. `doubtful`: an earlier one may have sent it. `siblings` are all rows of its
    turn, drafts too; `replaced` is the earlier message whose place it takes. `shut`: its person has
    not written within the platform's window."""

    core: GatewayCore
    platform: Platform
    row: OutboxRow
    doubtful: bool = False
    siblings: tuple[OutboxRow, ...] = ()
    replaced: OutboxRow | None = None
    shut: bool = False

    async def send(self) -> OutboxRow:
        """The row as it is to be stored after the attempt."""
        row, able = self.row, self.platform.capabilities
        if row.transfers > _MOST_TRANSFERS:
            return await self._give_up("no attempt came to its end")
        if self.replaced is not None:
            row = replace(row, body=closed_body(self.replaced, row.body, able))
        try:
            gated = not _is_empty(row.body) and GATE_SEND in self.core.hooks.followed
            body = await rule_message(self.core, row, able) if gated else row.body
        except Refused as error:
            # The operator is told that it was stopped, and nobody what it said: that is the hook's purpose.
            return replace(self._dead(row, str(error)), body=Body(text="…"))
        if (text := self.core.conceal.loaded(body.text)) != body.text:
            body = body.with_text(text)
        begun = False
        try:
            async with asyncio.timeout(able.send_seconds + transfer_seconds(body.attachments)):
                repeats = await self._clear_orphans(row)
                begun = True
                receipt = await self._put(replace(row, body=body), repeats)
        except TimeoutError:
            return await self._failed(Unreachable("no answer", maybe_done=begun))
        except Unreachable as error:
            return await self._failed(error)
        except NeedsLogin as error:
            return await self._failed(Unreachable(str(error), after=60.0))
        except Refused as error:
            await self._tidy(row, _LOST.format(why=one_line(str(error), 120)))
            return self._dead(row, str(error))
        except Exception as error:  # the lane is one of the places that may catch everything
            log.exception("lane.broke to=%s key=%s", self.row.to, row.key)
            return await self._failed(Unreachable(type(error).__name__, maybe_done=begun))
        log.debug("lane.sent to=%s key=%s attempts=%d", self.row.to, row.key, row.attempts)
        sent = replace(row, state=OutState.SENT, receipt=receipt, error="")
        await self._tidy(sent)
        return sent

    async def _put(self, row: OutboxRow, repeats: bool) -> Receipt | None:
        """Bring the row to the chat. `repeats`: a draft that cannot be found may show the same text."""
        body, platform = row.body, self.platform
        if _is_empty(body):
            return None
        if body.replaces is not None:
            # The receipt stays with the message that asked: its question is found by it.
            replaced = self.replaced
            over = None if replaced is None else replaced.receipt
            if over is not None and isinstance(platform, Edits):
                await platform.edit(over, self._printed(body))
            return None
        if repeats:
            body = _marked(body)
        shown = _draft_of(row, self.siblings)
        said_there = False
        if shown is not None and isinstance(platform, Edits):
            try:
                await platform.edit(shown, self._printed(body))
                return shown
            except Refused:
                # The draft is gone (deleted, too old): the final goes out as a message of its own.
                log.info("lane.draft_gone to=%s key=%s", self.row.to, row.key)
                # An earlier attempt may have said it there before that: no history tells of edits.
                said_there = self.doubtful
        if self.doubtful:
            searched, found = await self._find(row.key)
            if found is not None:
                return found
            if not repeats and (said_there or not (searched or self._keyed(row))):
                body = _marked(body)
        try:
            return await self._post(body)
        except Refused as error:
            if not (body.attachments and row.body.text):
                raise
            # The files cannot go, the words under them can.
            log.warning("lane.words_alone to=%s key=%s why=%s", self.row.to, row.key, error)
            return await self._post(Body(text=f"{body.text}\n\n{unsent_files(body, str(error))}"))

    async def _post(self, body: Body) -> Receipt | None:
        row, printed = self.row, self._printed(body)
        if self.shut and isinstance(self.platform, OutsideWindow):
            outside = await self.platform.send_outside(row.to, printed, key=row.key)
            if outside is None:
                raise Unreachable(WAITS, after=_WAITS_SECONDS)
            return checked_receipt(outside, row)
        receipt = await self.platform.send(self.row.to, printed, key=row.key, reply_to=row.reply_to)
        return checked_receipt(receipt, row)

    def _printed(self, body: Body) -> Body:
        from hermes.stream.text.print import for_adapter

        return for_adapter(body, self.platform.capabilities)

    async def _find(self, key: str) -> tuple[bool, Receipt | None]:
        """Whether the chat's history could be searched, and the message with this key."""
        platform = self.platform
        if not (isinstance(platform, History) and platform.capabilities.history):
            return False, None
        try:
            return True, await platform.find_sent(self.row.to, key)
        except Refused as error:
            log.warning("lane.no_history to=%s why=%s", self.row.to, error)
            return False, None

    def _keyed(self, row: OutboxRow) -> bool:
        """Whether the platform itself drops a second copy."""
        age = (self.core.clock.now() - row.created_at).total_seconds()
        # A clock that was set back does not tell how old the first copy is.
        return 0.0 <= age < self.platform.capabilities.dedupe_seconds

    async def _clear_orphans(self, row: OutboxRow) -> bool:
        """Remove drafts whose post nobody saw the end of, before the row takes their place. Whether one that
        could not be found or removed may show all of the row's text. Nothing is sent yet: this may fail."""
        repeats = False
        last = _is_last(row, self.siblings)
        for draft in self.siblings:
            if not draft.draft or draft.state is not OutState.ATTEMPTING or _segment(draft) != _segment(row):
                continue
            if draft.part != row.part and not (last and draft.part > row.part):
                continue
            searched, found = await self._find(draft.key)
            gone = searched if found is None else await self._remove(found)
            repeats = repeats or (not gone and _shows(draft, row.body.text))
        return repeats

    async def _tidy(self, row: OutboxRow, instead: str = "") -> None:
        """After the last part, remove the drafts that are left over, or have them say something `instead`.
        The row is settled already, so a failure here does not change how it ended."""
        siblings = self.siblings
        if not _is_last(row, siblings):
            return
        taken = {row.receipt, *(sibling.receipt for sibling in siblings if not sibling.draft)}
        for draft in siblings:
            shown = draft.draft and draft.state is OutState.SHOWN and _segment(draft) == _segment(row)
            if shown and draft.receipt is not None and draft.receipt not in taken:
                await self._remove(draft.receipt, instead)

    async def _remove(self, receipt: Receipt, instead: str = "") -> bool:
        """Remove a message, or its text where messages cannot be removed; whether it worked."""
        try:
            await remove_message(self.platform, receipt, instead)
        except HermesError as error:
            log.info("lane.draft_stays to=%s why=%s", self.row.to, error)
            return False
        except Exception:  # what it removes is a courtesy
            log.exception("lane.broke to=%s", self.row.to)
            return False
        return True

    async def _failed(self, error: Unreachable) -> OutboxRow:
        """Files that broke on their way again and again are given up: what follows them waits, too. That the
        platform could not be reached, was busy or wants a login says nothing about them."""
        row = self.row
        if error.after is not None or not (error.maybe_done or error.in_transfer):
            return replace(self._later(error), transfers=max(row.transfers - 1, 0))
        return self._later(error) if row.transfers < _MOST_TRANSFERS else await self._give_up(str(error))

    async def _give_up(self, why: str) -> OutboxRow:
        """The operator and whoever waits in the chat hear of it, with the words under the files
        (`report_undelivered`), unless an attempt brought all of it."""
        row, searched = self.row, False
        with suppress(HermesError, TimeoutError):
            async with asyncio.timeout(self.platform.capabilities.send_seconds):
                searched, receipt = await self._find(row.key)
                if receipt is not None:
                    return replace(row, state=OutState.SENT, receipt=receipt, error="")
        if not (searched or self._keyed(row)):
            why += _DOUBT
            row = replace(row, body=_marked(row.body)) if row.body.text else row
        await self._tidy(self.row)
        return self._dead(row, why)

    def _later(self, error: Unreachable) -> OutboxRow:
        row = self.row
        now = self.core.clock.now()
        oldest = timedelta(hours=self.core.live.now.gateway.outbox_hours)
        if now - row.created_at > oldest:
            return self._dead(row, str(error))
        delay = error.after if error.after is not None else _backoff(row.attempts)
        log.info("lane.later to=%s key=%s after=%.1f why=%s", self.row.to, row.key, delay, error)
        return replace(
            row,
            # That this attempt did nothing does not tell what became of an earlier one.
            state=OutState.UNKNOWN if error.maybe_done or self.doubtful else OutState.DUE,
            next_at=now + timedelta(seconds=delay),
            error=str(error),
        )

    def _dead(self, row: OutboxRow, why: str) -> OutboxRow:
        if not is_missed(row):
            log.info("lane.left_out to=%s key=%s why=%s", self.row.to, row.key, why)
            return replace(row, state=OutState.GONE, error=why)
        log.warning("lane.dead to=%s key=%s why=%s", self.row.to, row.key, why)
        return replace(row, state=OutState.DEAD, error=why)


# --- the hook before a message is sent ---------------------------------------------------------------


async def rule_message(core: GatewayCore, row: OutboxRow, able: Capabilities) -> Body:
    """A message as it may be sent; one that may not be is refused. What no turn said is the gateway's own."""
    ident, every = row.turn, core.store.scoped(EVERY_AGENT)
    turn = None if ident is None else await every.read(lambda tx: tx.turns.get(ident))
    context = {
        "agent_id": "" if turn is None else turn.agent,
        "platform": row.to.platform,
        "account": row.to.account,
        "chat_id": row.to.chat,
        "thread_id": row.to.thread,
        "turn_id": row.turn,
        "text": row.body.text,
    }
    ruling = await core.hooks.ask(GATE_SEND, context)
    text = ruling.answer.get("text")
    if ruling.decision is Decision.ALLOW:
        return row.body
    if ruling.decision is not Decision.REWRITE:
        raise Refused(f"not allowed by the hook “{ruling.by}”")
    if not isinstance(text, str) or not text.strip() or able.unit.measure(text) > able.max_text:
        raise Refused(f"the hook “{ruling.by}” rewrote it as nothing that can be sent")
    return row.body.with_text(storable(text))


# --- rows ------------------------------------------------------------------------------------------


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
    finals = [other for other in siblings if not other.draft and _segment(other) == _segment(row)]
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
