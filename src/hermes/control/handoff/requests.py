"""People request, retry and cancel hand-offs, each in one transaction; the worker takes them up."""

from __future__ import annotations

from datetime import datetime, timedelta

from hermes.control.outbound.targets import home_channels
from hermes.domain.chats.address import Address, Source
from hermes.domain.chats.handoff import Handoff, HandoffState, new_handoff_id
from hermes.domain.errors import UserError
from hermes.domain.ids import SessionId
from hermes.domain.ports.store import Tx
from hermes.domain.settings.settings import Settings
from hermes.domain.text import one_line
from hermes.domain.turns.event import UserSaid
from hermes.domain.turns.session import Session
from hermes.domain.turns.transcript import visible
from hermes.domain.word import replace

MOST_ATTEMPTS = 3
HANDOFF_SECONDS = 60.0
"""How long a hand-off may take: nobody shall find their conversation gone an hour later."""
_RETRY = timedelta(hours=1)
_NAME = 60


def opening_words(tx: Tx, session: SessionId) -> str | None:
    """What a session begins with, as far as it is visible; None if nothing is. It may read all of it, so ask
    it beside the writer."""
    shown = visible(tx.journal.read(session))
    said = (entry.record.text for entry in shown if isinstance(entry.record, UserSaid))
    return next(said, "") if shown else None


def request_handoff(
    tx: Tx,
    session: Session,
    account: str,
    source: Source,
    now: datetime,
    settings: Settings,
    opening: str | None,
) -> Handoff:
    """Ask for a session, which has these `opening_words`, to go to the home channel of an account."""
    if opening is None:
        raise UserError("There is nothing to hand over yet.", hint="Say something first.")
    home_of(tx, account, settings)
    if session.title is None:
        _entitle(tx, session, opening)
    handoff = Handoff(
        id=new_handoff_id(),
        agent=session.agent,
        session=session.id,
        account=account,
        source=source,
        created_at=now,
        due_at=now,
        until=now + timedelta(seconds=HANDOFF_SECONDS),
    )
    if not tx.handoffs.add(handoff):
        raise UserError(
            "This conversation is being handed over already.",
            hint="/handoff tells how it stands; `hermes handoff cancel` stops it.",
        )
    return handoff


def home_of(tx: Tx, account: str, settings: Settings) -> Address:
    home = home_channels(tx, settings).get(account)
    if home is None:
        raise UserError(
            f"{account} has no home channel to hand this conversation to.",
            hint="Write /sethome in the chat that is meant, then try again.",
        )
    return home


def _entitle(tx: Tx, session: Session, words: str) -> None:
    """A name by which it is found again, if nobody gave it one and the name is free."""
    title = one_line(words, _NAME)
    if title and not any(known.title == title for known in tx.sessions.find(title)):
        tx.sessions.save(replace(session, title=title))


def retry_handoff(tx: Tx, wanted: str, now: datetime) -> Handoff:
    known = _find(tx, wanted)
    if known.state is not HandoffState.FAILED:
        raise UserError(f"{known.id} has not failed: it is {known.state.value}.", hint="Nothing changed.")
    again = replace(known, state=HandoffState.PENDING, created_at=now, due_at=now, error="")
    again = replace(again, until=now + _RETRY)
    # The attempts go on counting: a task of the first round must not take itself for one of the second.
    attempts = (known.attempts // MOST_ATTEMPTS + 1) * MOST_ATTEMPTS
    if not tx.handoffs.change(known, replace(again, attempts=attempts)):
        raise UserError("Its conversation is being handed over already.", hint="Nothing changed.")
    return again


def cancel_handoff(tx: Tx, wanted: str) -> Handoff:
    known = _find(tx, wanted)
    failed = replace(known, state=HandoffState.FAILED, error="cancelled")
    if not known.state.open or not tx.handoffs.change(known, failed):
        raise UserError(f"{known.id} is over: it is {known.state.value}.", hint="Nothing changed.")
    return failed


def _find(tx: Tx, wanted: str) -> Handoff:
    known = tx.handoffs.get(wanted)
    if known is None:
        raise UserError(
            f"There is no hand-off “{one_line(wanted, 40)}”.", hint="`hermes handoff list` shows them."
        )
    return known


def handoff_words(handoff: Handoff) -> str:
    """How a hand-off stands, for whoever asked for it."""
    match handoff.state:
        case HandoffState.COMPLETED:
            return (
                f"This conversation goes on in {handoff.to}. To bring it back: hermes --resume"
                f" {handoff.session}, or /resume {handoff.session} in a chat of the terminal."
            )
        case HandoffState.FAILED:
            return f"It was not handed over to {handoff.account}: {handoff.error}. It stays here."
        case HandoffState.PENDING | HandoffState.RUNNING:
            why = f" ({handoff.error})" if handoff.error else ""
            return f"It is on its way to {handoff.account}{why}; /handoff tells how it stands."
