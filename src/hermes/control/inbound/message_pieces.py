"""Pieces of one message: a text that was cut at the platform's limit, the pictures of an album. Those that
come within the gather window become one turn."""

from __future__ import annotations

from dataclasses import replace

from hermes.domain.message import Inbound
from hermes.domain.ports.store import Tx
from hermes.domain.session import Session
from hermes.domain.turn import Turn, TurnInput, TurnState


def unfinished_piece(tx: Tx, session: Session, inbound: Inbound) -> Turn | None:
    """The turn a message goes on with: not begun, same person, cut at the limit or of the same album."""
    turns = tx.turns.open_of(session.id)
    last = turns[-1] if turns else None
    if last is None or last.state is not TurnState.ACCEPTED or last.ready_at is None:
        return None
    if last.source is None or last.source.person != inbound.source.person:
        return None
    same_album = inbound.group is not None and inbound.group == last.input.group
    return last if same_album or last.input.cut else None


def join_pieces(before: TurnInput, piece: TurnInput) -> TurnInput:
    """A cut text goes on where it stopped; captions of an album stand on lines of their own."""
    if before.cut:
        text = before.text + piece.text
    else:
        text = "\n".join(text for text in (before.text, piece.text) if text)
    files = before.attachments + piece.attachments
    return replace(before, text=text, attachments=files, cut=piece.cut)
