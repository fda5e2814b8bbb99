"""What makes a request a repeat, and what a repeat is given: the turn that the first one made.

A request with a key that its owner has used before is that earlier request; a different question under the
same key is refused. Without a key, a request that its client's library makes again by itself is known by its
body: a counted later try is the request before it, and what failed after it did something is given again for
a while to clients that count no tries."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import datetime

from msgspec import Struct

from hermes.control.turn.claim import Claim
from hermes.domain.errors import Unreachable, UserError
from hermes.domain.ids import TurnId
from hermes.domain.ports.store import Tx
from hermes.domain.text import one_line
from hermes.domain.turns.event import Entry, Failed, ModelSaid, Stopped, ToolStarted
from hermes.domain.turns.gateway_event import GatewayEvent
from hermes.domain.turns.turn import CLIENT_GONE, Request, Turn, TurnState
from hermes.domain.word import replace

TURN_PREFIX = "turn_"


class KeyConflict(UserError):
    """The same key was used for another question."""


class EarlierTryStopping(Unreachable):
    """An earlier try of the same request did something and is being stopped: how it ends is not known yet."""

    def __init__(self) -> None:
        super().__init__("an earlier try of this request is being stopped", after=1)


class NewRequest(Struct, frozen=True, kw_only=True):
    """A request to come: its id is the turn's with this prefix; the rest is as in `Request`. One with further
    keys (`also`) was asked before if any of them is known. One that repeats is the latest request of its
    conversation, if that was made since then. With `failed_since` it may repeat without saying so: it is the
    latest one if that has done something and then failed since then."""

    prefix: str
    owner: str
    key: str | None = None
    also: tuple[str, ...] = ()
    fingerprint: str = ""
    conversation: str | None = None
    facts: str = "{}"
    repeats_since: datetime | None = None
    failed_since: datetime | None = None
    late: bool = False
    """Kept only once it has failed: what is answered costs no row."""

    @property
    def keys(self) -> tuple[str, ...]:
        return self.also if self.key is None else (self.key, *self.also)


class SubmittedTurn(Struct, frozen=True, kw_only=True):
    """The turn that answers; `fresh` says that it was made just now, `begun` that its session was too. `part`
    counts how often its client was asked for results before; up to the record `after` it has seen the turn
    already. With a `claim` it is running. `failed_at` is when it failed, if that is why it is not run
    again. `resumed`: it waited, and goes on with what was given just now."""

    turn: Turn
    request: Request | None = None
    fresh: bool = True
    resumed: bool = False
    begun: bool = False
    part: int = 1
    after: int = 0
    news: tuple[GatewayEvent, ...] = ()
    claim: Claim | None = None
    failed_at: datetime | None = None


def id_for(prefix: str, turn: TurnId) -> str:
    """A turn's name at a door: `run_…`, `resp_…`."""
    return prefix + turn.removeprefix(TURN_PREFIX)


def turn_named(prefix: str, name: str) -> TurnId | None:
    """The turn with this name at a door; None if no turn can have it."""
    return TurnId(TURN_PREFIX + name.removeprefix(prefix)) if name.startswith(prefix) else None


def asked_before(tx: Tx, named: NewRequest | None) -> SubmittedTurn | None:
    """What the owner of a key was given for it before; another question under the same key is refused."""
    if named is not None and (named.repeats_since or named.failed_since) is not None:
        return _retried(tx, named)
    known = None if named is None else find_request(tx, named.owner, named.keys)
    if named is None or known is None:
        return None
    turn = tx.turns.get(known.turn)
    if known.fingerprint != named.fingerprint:
        raise KeyConflict(
            f"The key “{one_line(named.key or '', 60)}” was used for another request.",
            hint="Use a new key for a new request, or repeat the old one unchanged.",
        )
    if turn is None:
        raise KeyConflict("The request with this key is there, but its answer was deleted.")
    return _as_before(turn, known)


def _as_before(turn: Turn, earlier: Request) -> SubmittedTurn:
    after = json.loads(earlier.facts).get("after")
    return SubmittedTurn(
        turn=turn, request=earlier, fresh=False, after=after if isinstance(after, int) else 0
    )


def _retried(tx: Tx, named: NewRequest) -> SubmittedTurn | None:
    """What a request was given at an earlier try. A turn that was cut off before it did anything is none: it
    can safely be made again."""
    known = tx.requests.latest(named.owner, named.conversation or "")
    turn = None if known is None else tx.turns.get(known.turn)
    if known is None or turn is None or known.fingerprint != named.fingerprint:
        return None
    if named.repeats_since is not None and turn.state.open and turn.stop is not None:
        raise EarlierTryStopping
    entries = tx.journal.of_turn(turn.id)
    cut_off = turn.state in (TurnState.FAILED, TurnState.STOPPED)
    if cut_off and not any(isinstance(entry.record, ToolStarted) for entry in entries):
        return None
    if named.repeats_since is not None and known.created_at >= named.repeats_since:
        return _as_before(turn, known)
    since = named.failed_since
    if cut_off and since is not None and entries[-1].at >= since and _looks_failed(entries):
        return replace(_as_before(turn, known), failed_at=entries[-1].at)
    return None


def _looks_failed(entries: Sequence[Entry]) -> bool:
    """Whether the client was answered with an error, after which many ask again by themselves. One that went
    away was not, and comes back only if somebody wants it."""
    end = entries[-1].record
    if isinstance(end, Stopped) and end.reason != CLIENT_GONE:
        return not any(isinstance(entry.record, ModelSaid) and entry.record.text for entry in entries)
    return isinstance(end, Failed)


def find_request(tx: Tx, owner: str, keys: Sequence[str]) -> Request | None:
    return next(iter(find_requests(tx, owner, keys)), None)


def find_requests(tx: Tx, owner: str, keys: Sequence[str]) -> list[Request]:
    """The requests with these keys; several agents may have one with the same."""
    return [request for key in keys for request in tx.requests.find(owner, key=key)]


def add_request(tx: Tx, named: NewRequest, turn: Turn, now: datetime, *, part: str = "") -> Request:
    """Keep a request of this turn, under the turn's name and the part of it that is meant."""
    request = Request(
        id=id_for(named.prefix, turn.id) + part,
        owner=named.owner,
        turn=turn.id,
        session=turn.session,
        created_at=now,
        key=named.key,
        fingerprint=named.fingerprint,
        conversation=named.conversation,
        facts=named.facts,
    )
    tx.requests.add(request)
    for number, key in enumerate(named.also, 1):
        tx.requests.add(replace(request, id=f"{request.id}.{number}", key=key, conversation=None))
    return request
