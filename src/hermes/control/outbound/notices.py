"""Notices: messages of the gateway's own, each sent once. That one could not be delivered; and what people
are told of a stop and a restart: chats whose answer is unfinished, when everything has come to rest, and
after the start, whoever asked for it and, if it was planned, the home channels.

All of it is facts and outbox rows: nothing is promised that is not stored, and a crash repeats no notice. The
words are true whether they arrive before the end of the process or after the next start."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import datetime
from functools import partial

from hermes.control.core import GatewayCore
from hermes.control.outbound.answers import name_files
from hermes.control.outbound.targets import home_channel, home_channels, lane_of, real_place
from hermes.domain.chats.address import Address
from hermes.domain.chats.message import Body
from hermes.domain.chats.rows import Boot, OutboxRow
from hermes.domain.errors import UserError
from hermes.domain.ids import AgentId, SessionId
from hermes.domain.ports.store import Tx
from hermes.domain.settings.settings import Settings
from hermes.domain.text import one_line
from hermes.domain.turns.turn import TurnAction, TurnState

RESTARTED = "⏸ The gateway was restarted before your answer was finished; it goes on by itself."
STOPPED = "⏸ The gateway was stopped before your answer was finished; it goes on when the gateway is back."
BACK = "✅ The restart is done; I am back."
ONLINE = "✅ The gateway is back after a restart."
_ASKED = "restart.asked"
_PLANNED = "restart.planned"
_MOST_ASKING = 100
_UNSENT_FILES = "unsent:"
_REPORT = "report:"
_SHOWN = 120


def notify(tx: Tx, key: str, to: Address, text: str, now: datetime, reply_to: str | None = None) -> bool:
    """Queue a notice, once for this key; False if that was done before."""
    if tx.outbox.get(key) is not None:
        return False
    tx.outbox.add(OutboxRow(key=key, to=to, body=Body(text=text), created_at=now, reply_to=reply_to))
    return True


def report_undelivered(tx: Tx, row: OutboxRow, settings: Settings, now: datetime) -> Address | None:
    """Tell the operator once, in the home channel, that a row was given up; where that will be read. The chat
    itself is not shut out: the next message to it is tried as any other."""
    files = name_files(row.body.attachments)
    if files:
        # Whoever waits in the chat for them hears of it there, and reads the words that belonged to them.
        text = "\n\n".join(filter(None, (row.body.text, unsent_files(row.body, row.error))))
        notify(tx, _UNSENT_FILES + row.key, row.to, text, now, row.reply_to)
    home = home_channel(tx, settings, row.to)
    home = None if home is None else lane_of(tx, home)
    if home is None or home in (row.to, real_place(tx, row.to)) or row.key.startswith(_REPORT):
        return None
    quoted = "(not kept)" if row.body.fleeting else one_line(row.body.text or files, _SHOWN)
    text = f"⚠️ A message to {row.to} could not be delivered ({row.error}): {quoted}"
    return home if notify(tx, _REPORT + row.key, home, text, now) else None


def report_failed(tx: Tx, what: str, why: str, settings: Settings, now: datetime) -> list[Address]:
    """Tell the operator, in every home channel and once a day, of work of the gateway's own that fails."""
    text = f"⚠️ {what} failed: {one_line(why, _SHOWN)}"
    places = set(home_channels(tx, settings).values())
    return [to for to in places if notify(tx, f"failed:{what}:{now:%Y%m%d}:{to}", to, text, now)]


def unsent_files(body: Body, why: str) -> str:
    return f"📎 {name_files(body.attachments)} could not be sent: {one_line(why, _SHOWN)}"


def is_missed(row: OutboxRow) -> bool:
    """Whether somebody misses a row that is given up: not if it is a finishing touch, or tells of files whose
    loss is reported anyway."""
    says_something = bool(row.body.text or row.body.attachments)
    return says_something and row.body.replaces is None and not row.key.startswith(_UNSENT_FILES)


# --- stops and restarts ----------------------------------------------------------------------------


def ask_restart(tx: Tx, to: Address, reply_to: str | None) -> None:
    """Note who is to be told after the next start."""
    asked = _asked(tx)
    if len(asked) < _MOST_ASKING and all(note["to"] != str(to) for note in asked):
        tx.facts.put(_ASKED, json.dumps([*asked, {"to": str(to), "ref": reply_to}]))


async def tell_unfinished(
    core: GatewayCore, busy: Sequence[tuple[AgentId, SessionId]], epoch: int, *, restarts: bool
) -> list[Address]:
    """At a stop, tell the chats of busy sessions that their answer is left for later: each chat once in a
    life, and only where one really is. `restarts`: another life follows. Returns the chats to wake."""
    text, now = RESTARTED if restarts else STOPPED, core.clock.now()

    def queue(sessions: Sequence[SessionId], tx: Tx) -> list[Address]:
        notified: list[Address] = []
        for turn in (turn for session in sessions for turn in tx.turns.open_of(session)):
            to = None if turn.reply is None else turn.reply.to
            answers = turn.state is not TurnState.WAITING and turn.input.action is not TurnAction.RELAY
            if to is None or not answers or not _wants_notices(to, core.live.now):
                continue
            if notify(tx, f"unfinished:{epoch}:{to}", to, text, now):
                notified.append(to)
        return notified

    if restarts:
        await core.store.write(lambda tx: tx.facts.put(_PLANNED, "yes"))
    notified: list[Address] = []
    for agent in sorted({agent for agent, _ in busy}):
        sessions = [session for of, session in busy if of == agent]
        notified += await core.store.scoped(agent).write(partial(queue, sessions))
    return notified


def begin_life(tx: Tx, settings: Settings, now: datetime) -> Boot:
    """The gateway starts: who asked for it is told, and after a planned restart the home channels are."""
    boot, asked = tx.recovery.boot(now), _asked(tx)
    places: set[Address] = set()
    for note in asked:
        try:
            to = Address.parse(str(note["to"]))
        except UserError:
            continue
        places.add(to)
        notify(tx, f"back:{boot.epoch}:{to}", to, BACK, now, note.get("ref"))
    if asked:
        tx.facts.put(_ASKED, "")
    if tx.facts.get(_PLANNED):
        tx.facts.put(_PLANNED, "")
        for to in home_channels(tx, settings).values():
            if to not in places and _wants_notices(to, settings):
                notify(tx, f"online:{boot.epoch}:{to}", to, ONLINE, now)
    return boot


def _asked(tx: Tx) -> list[dict[str, str | None]]:
    try:
        notes = json.loads(tx.facts.get(_ASKED) or "[]")
    except ValueError:
        return []
    return (
        [note for note in notes if isinstance(note, dict) and "to" in note] if isinstance(notes, list) else []
    )


def _wants_notices(to: Address, settings: Settings) -> bool:
    return settings.block(to).gateway_restart_notification
