"""What people are told of a stop and a restart: chats whose answer is unfinished, once, when everything has
come to rest; and after the start, whoever asked for it and, if it was planned, the home channels.

All of it is facts and outbox rows: nothing is promised that is not stored, and a crash repeats no notice. The
words are true whether they arrive before the end of the process or after the next start."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial

from hermes.control.outbound.notices import notify
from hermes.control.outbound.targets import home_channels
from hermes.domain.address import Address
from hermes.domain.errors import UserError
from hermes.domain.ids import AgentId, SessionId
from hermes.domain.ports.store import Store, Tx
from hermes.domain.rows import Boot
from hermes.domain.settings.settings import Settings
from hermes.domain.turn import TurnAction, TurnState

RESTARTED = "⏸ The gateway was restarted before your answer was finished; it goes on by itself."
STOPPED = "⏸ The gateway was stopped before your answer was finished; it goes on when the gateway is back."
BACK = "✅ The restart is done; I am back."
ONLINE = "✅ The gateway is back after a restart."
_ASKED = "restart.asked"
_PLANNED = "restart.planned"
_MOST_ASKING = 100


def ask_restart(tx: Tx, to: Address, reply_to: str | None) -> None:
    """Note who is to be told after the next start."""
    asked = _asked(tx)
    if len(asked) < _MOST_ASKING and all(said["to"] != str(to) for said in asked):
        tx.facts.put(_ASKED, json.dumps([*asked, {"to": str(to), "ref": reply_to}]))


def _plan(tx: Tx) -> None:
    """This life ends in order to begin again."""
    tx.facts.put(_PLANNED, "yes")


@dataclass(frozen=True, slots=True, kw_only=True)
class UnfinishedNotices:
    """Tells chats, at a stop, that their answer is left for later; `restarts` if another life follows."""

    store: Store
    settings: Settings
    epoch: int
    now: datetime
    restarts: bool

    async def send(self, busy: Sequence[tuple[AgentId, SessionId]]) -> list[Address]:
        """Queue notices for the chats of the sessions that were busy; the chats."""
        if self.restarts:
            await self.store.write(_plan)
        notified: list[Address] = []
        for agent in sorted({agent for agent, _ in busy}):
            sessions = [session for of, session in busy if of == agent]
            notified += await self.store.scoped(agent).write(partial(self._notify, sessions))
        return notified

    def _notify(self, sessions: Sequence[SessionId], tx: Tx) -> list[Address]:
        """Each chat once in a life, and only where an answer is really left for later."""
        text = RESTARTED if self.restarts else STOPPED
        notified: list[Address] = []
        for turn in (turn for session in sessions for turn in tx.turns.open_of(session)):
            to = None if turn.reply is None else turn.reply.to
            answers = turn.state is not TurnState.WAITING and turn.input.action is not TurnAction.RELAY
            if to is None or not answers or not _wants_notices(to, self.settings):
                continue
            if notify(tx, f"unfinished:{self.epoch}:{to}", to, text, self.now):
                notified.append(to)
        return notified


def begin_life(tx: Tx, settings: Settings, now: datetime) -> Boot:
    """The gateway starts: who asked for it is told, and after a planned restart the home channels are."""
    boot = tx.recovery.boot(now)
    _tell_back(tx, settings, boot.epoch, now)
    return boot


def _tell_back(tx: Tx, settings: Settings, epoch: int, now: datetime) -> None:
    asked = _asked(tx)
    places: set[Address] = set()
    for said in asked:
        try:
            to = Address.parse(str(said["to"]))
        except UserError:
            continue
        places.add(to)
        notify(tx, f"back:{epoch}:{to}", to, BACK, now, said.get("ref"))
    if asked:
        tx.facts.put(_ASKED, "")
    if tx.facts.get(_PLANNED):
        tx.facts.put(_PLANNED, "")
        for to in home_channels(tx, settings).values():
            if to not in places and _wants_notices(to, settings):
                notify(tx, f"online:{epoch}:{to}", to, ONLINE, now)


def _asked(tx: Tx) -> list[dict[str, str | None]]:
    try:
        said = json.loads(tx.facts.get(_ASKED) or "[]")
    except ValueError:
        return []
    return [one for one in said if isinstance(one, dict) and "to" in one] if isinstance(said, list) else []


def _wants_notices(to: Address, settings: Settings) -> bool:
    return settings.block(to).gateway_restart_notification
