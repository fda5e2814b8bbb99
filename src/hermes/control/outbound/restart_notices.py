"""What people are told of a stop and a restart: chats whose answer is unfinished, once, when everything has
come to rest; and after the start, whoever asked for it and, if it was planned, the home channels.

All of it is facts and outbox rows: nothing is promised that is not stored, and a crash repeats no notice. The
words are true whether they arrive before the end of the process or after the next start."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from hermes.control.outbound.outbox_admin import notify
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


def plan_restart(tx: Tx) -> None:
    """This life ends in order to begin again."""
    tx.facts.put(_PLANNED, "yes")


async def tell_unfinished(
    stores: Mapping[AgentId, Store],
    settings: Settings,
    busy: Sequence[tuple[AgentId, SessionId]],
    epoch: int,
    now: datetime,
    *,
    restarts: bool,
) -> list[Address]:
    """Tell the chats of the sessions that were busy; where that was."""
    told: list[Address] = []
    for agent in sorted({agent for agent, _ in busy}):
        telling = _NotifyUnfinished(
            sessions=[session for of, session in busy if of == agent],
            settings=settings,
            text=RESTARTED if restarts else STOPPED,
            epoch=epoch,
            now=now,
        )
        told += await stores[agent].write(telling.unit)
    return told


@dataclass(frozen=True, slots=True, kw_only=True)
class _NotifyUnfinished:
    sessions: Sequence[SessionId]
    settings: Settings
    text: str
    epoch: int
    now: datetime

    def unit(self, tx: Tx) -> list[Address]:
        """Each chat once in a life, and only where an answer is really left for later."""
        told: list[Address] = []
        for turn in (turn for session in self.sessions for turn in tx.turns.open_of(session)):
            to = None if turn.reply is None else turn.reply.to
            answers = turn.state is not TurnState.WAITING and turn.input.action is not TurnAction.RELAY
            if to is None or not answers or not _is_told(to, self.settings):
                continue
            if notify(tx, f"unfinished:{self.epoch}:{to}", to, self.text, self.now):
                told.append(to)
        return told


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
            if to not in places and _is_told(to, settings):
                notify(tx, f"online:{epoch}:{to}", to, ONLINE, now)


def _asked(tx: Tx) -> list[dict[str, str | None]]:
    try:
        said = json.loads(tx.facts.get(_ASKED) or "[]")
    except ValueError:
        return []
    return [one for one in said if isinstance(one, dict) and "to" in one] if isinstance(said, list) else []


def _is_told(to: Address, settings: Settings) -> bool:
    return settings.block(to).gateway_restart_notification
