"""What a message does to the turn that runs in its session: interrupt it, join it, or wait. The mode is
stored on the turn, so that recovery repeats the decision."""

from __future__ import annotations

from collections.abc import Sequence

from hermes.domain.chats.message import Attachment
from hermes.domain.turns.session import Session, speaks_for_another
from hermes.domain.turns.turn import BusyMode, Turn, TurnAction


def choose_busy_mode(session: Session, default: BusyMode, files: Sequence[Attachment] = ()) -> BusyMode:
    """The session's mode, or else that of the settings. A message with files waits: they take time to
    arrive."""
    return BusyMode.QUEUE if files else BusyMode(session.busy_mode or default)


def interrupts(behind: Sequence[Turn]) -> bool:
    """Whether one of the turns that wait stops the one that runs."""
    return any(turn.busy is BusyMode.INTERRUPT and turn.stop is None for turn in behind)


def is_interrupted(turn: Turn, behind: Sequence[Turn]) -> bool:
    """Whether a turn stops for those that wait behind it. What was half summarised would be lost, so
    compression is not interrupted: messages wait for it."""
    return turn.input.action is not TurnAction.COMPRESS and interrupts(behind)


def steers(turn: Turn) -> bool:
    return turn.busy is BusyMode.STEER and turn.stop is None


def joins(turn: Turn, running: Turn) -> bool:
    """Whether the words of a turn that waits join the one that runs. What a turn may do without asking is
    its person's to allow, so where people share a session nobody else's words join it: they wait."""
    if not steers(turn):
        return False
    return turn.source is None or not speaks_for_another(turn.source, running.source)


def steered(running: Turn, behind: Sequence[Turn]) -> bool:
    return any(joins(turn, running) for turn in behind)
