"""Messages that are not the answer of a turn. The agent, a person at the command line or another part of the
gateway hands one in with a key and the name of a place; one transaction resolves the place and writes the
outbox rows. The same key is the same message: a repeat after a crash writes nothing.

A message to another chat is mirrored to the session of that chat, as words of the agent, so that it knows
what people there answer to. Where several people have sessions of their own in a chat, it goes to none."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection
from datetime import datetime

from msgspec import Struct

from hermes.control.outbound.answers import cut_body
from hermes.control.outbound.targets import (
    Aliases,
    KnownTargets,
    known_targets,
    lane_of,
    real_place,
    resolve_targets,
    spellings,
)
from hermes.domain.chats.address import Address, Source, SourceKind
from hermes.domain.chats.capabilities import Capabilities
from hermes.domain.chats.message import Body
from hermes.domain.chats.rows import outbox_rows
from hermes.domain.clock import Clock
from hermes.domain.errors import UserError
from hermes.domain.ids import AgentId, SessionId, TurnId
from hermes.domain.ports.store import Store, Tx
from hermes.domain.settings.live import LiveSettings
from hermes.domain.text import storable
from hermes.domain.turns.session import make_turn
from hermes.domain.turns.turn import Cause, TurnAction, TurnInput
from hermes.domain.word import replace

_PREFIX = "send:"


class OutboundMessage(Struct, frozen=True, kw_only=True):
    """A message for a place by its name; `turn` is the one that sends it, and its chat is the `origin`."""

    key: str
    target: str
    body: Body
    turn: TurnId | None = None

    @property
    def prefix(self) -> str:
        return f"{_PREFIX}{self.key}:"


class PostResult(Struct, frozen=True, kw_only=True):
    """Where a message goes, and the sessions that it is mirrored to. Not `fresh`: it was handed in before."""

    to: tuple[Address, ...]
    mirrored: tuple[SessionId, ...] = ()
    fresh: bool = True


LookUp = Callable[[Tx, Address | None], KnownTargets]
"""The places there are for who speaks from a chat."""


def mirror(tx: Tx, to: Address, text: str, now: datetime) -> SessionId | None:
    """Queue a turn that writes what is sent to a chat into its session, if the chat has just one; it waits
    behind what runs there. The session to wake."""
    sessions = tx.directory.bound(real_place(tx, to))
    session = tx.sessions.get(sessions[0]) if len(sessions) == 1 else None
    if session is None:
        return None
    given = TurnInput(text=storable(text), action=TurnAction.MIRROR)
    tx.turns.add(make_turn(session, Cause.POST, given, now))
    return session.id


def origin_of(tx: Tx, turn: TurnId | None) -> Address | None:
    """The chat that a turn answers in."""
    sender = None if turn is None else tx.turns.get(turn)
    return None if sender is None or sender.reply is None else sender.reply.to


Trusts = Callable[[Source | None], bool]
"""Whether somebody is the owner or an admin."""


Reaches = Callable[[Address], bool]


def reach_of(tx: Tx, turn: TurnId | None, trusts: Trusts) -> Reaches:
    """Which chats a turn may write to. A stranger's: the one that the stranger is in and the one it answers
    in, whatever else its words name. Behind events of webhooks is nobody: they are judged as words from
    outside."""
    sender = None if turn is None else tx.turns.get(turn)
    who = None if sender is None else sender.input.guidance.origin or sender.source
    return reach_from(tx, who, trusts, origin_of(tx, turn))


def reach_from(tx: Tx, who: Source | None, trusts: Trusts, answers_in: Address | None = None) -> Reaches:
    if who is None or who.kind is SourceKind.WEBHOOK or trusts(who):
        return lambda to: True
    own = {_chat(place) for place in (who.address, answers_in) if place is not None}
    return lambda to: _chat(real_place(tx, to)) in own


def _chat(address: Address) -> tuple[str, str]:
    return address.credential, address.chat


def _only(targets: KnownTargets, reaches: Reaches) -> KnownTargets:
    """Other chats are not even named to a stranger."""
    homes = {name: to for name, to in targets.homes.items() if reaches(to)}
    return replace(targets, homes=homes, channels=[one for one in targets.channels if reaches(one.address)])


class MessageSender(Struct, frozen=True, kw_only=True):
    """What the gateway offers to those who send."""

    store: Store
    clock: Clock
    live: LiveSettings
    accounts: Callable[[], Collection[str]]
    aliases: Callable[[], Aliases]
    """Looks at a file: called off the loop."""
    capabilities: Callable[[Address], Capabilities]
    ring: Callable[[Address], None]
    wake: Callable[[AgentId, SessionId], None]
    trusts: Trusts = lambda who: False

    async def post(self, agent: AgentId, message: OutboundMessage) -> PostResult:
        """Take a message; it is on its way when this returns."""
        look_up, now = await self._look_up(), self.clock.now()
        posted = await self.store.scoped(agent).write(
            lambda tx: self._post(tx, message, look_up, now), first=True
        )
        for to in posted.to:
            self.ring(to)
        for session in posted.mirrored:
            self.wake(agent, session)
        return posted

    def _post(self, tx: Tx, message: OutboundMessage, look_up: LookUp, now: datetime) -> PostResult:
        rows = tx.outbox.begun(message.prefix)
        if rows:
            return PostResult(to=tuple(dict.fromkeys(row.to for row in rows)), fresh=False)
        if not message.body.text.strip() and not message.body.attachments:
            raise UserError("There is nothing to send.", hint="Give the message's text.")
        origin = origin_of(tx, message.turn)
        known, reaches = look_up(tx, origin), reach_of(tx, message.turn, self.trusts)
        named = resolve_targets(message.target, replace(_only(known, reaches), homes=known.homes))
        addresses = tuple(dict.fromkeys(lane_of(tx, to) for to in named))
        if not addresses:
            raise UserError("“local” is no chat: nothing was sent.", hint="Name a platform or a chat.")
        if not all(map(reaches, addresses)):
            raise UserError(
                "Nothing was sent: only the owner and admins have words sent to other chats.",
                hint="Tell it in this chat, or let an admin ask for it.",
            )
        for place, to in enumerate(addresses):
            bodies = cut_body(message.body, self.capabilities(to), captioned=True)
            for row in outbox_rows(bodies, key=f"{message.prefix}{place}", to=to, now=now):
                tx.outbox.add(row)
        elsewhere = (to for to in addresses if real_place(tx, to) != origin)
        sessions = [mirror(tx, to, message.body.text, now) for to in elsewhere]
        return PostResult(to=addresses, mirrored=tuple(filter(None, sessions)))

    async def known(self, agent: AgentId, turn: TurnId | None = None) -> KnownTargets:
        """The places that may be named in a turn; without one, all."""
        look_up = await self._look_up()
        return await self.store.scoped(agent).read(
            lambda tx: _only(look_up(tx, origin_of(tx, turn)), reach_of(tx, turn, self.trusts))
        )

    async def spelled(self, agent: AgentId, turn: TurnId, target: str) -> tuple[tuple[str, ...], ...]:
        """How a person may write the chats that a target means, for each of them."""
        known = await self.known(agent, turn)
        return tuple(spellings(to, known) for to in resolve_targets(target, known))

    async def resolve(self, target: str, origin: Address | None = None) -> tuple[Address, ...]:
        look_up = await self._look_up()
        return await self.store.read(lambda tx: resolve_targets(target, look_up(tx, origin)))

    async def _look_up(self) -> LookUp:
        accounts, names = self.accounts(), await asyncio.to_thread(self.aliases)
        return lambda tx, origin: known_targets(tx, self.live.now, accounts, names, origin)
