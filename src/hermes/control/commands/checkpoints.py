"""`/rollback`: earlier states of the workspace; what a turn changed, and how to go back."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from hermes.control.commands.registry import (
    CommandCall,
    CommandReply,
    CommandRequest,
    command,
    read_number,
)
from hermes.control.commands.session import new_turn
from hermes.domain.errors import UserError
from hermes.domain.text import one_line
from hermes.domain.tools.checkpoint import Checkpoint
from hermes.domain.turns.turn import BusyMode, Cause, TurnAction, TurnInput

_USAGE = "Write /rollback, /rollback 2, /rollback diff 2 or /rollback 2 src/file.py."
_LONGEST_DIFF = 3_000


async def _look(request: CommandRequest) -> tuple[Sequence[Checkpoint], str]:
    """The checkpoints there are, and the text that is asked for."""
    care = request.runtime.checkpoints
    if care is None:
        raise UserError("No checkpoints are kept here.")
    states = await care.find(request.source, request.session)
    words = request.args.split()
    if not words:
        return states, _listing(states, request)
    if words[0].lower() == "diff" and len(words) == 2:
        text = await care.diff(_pick(states, words[1]))
        cut = "\n[… the rest is left out]" if len(text) > _LONGEST_DIFF else ""
        return states, f"```diff\n{text[:_LONGEST_DIFF]}{cut}\n```" if text else "That turn changed no file."
    _pick(states, words[0])
    return states, ""


@command(
    "rollback",
    "list earlier states of the files, or go back to one",
    usage="[number [file] | diff number]",
    mid_turn=False,
    prepare=_look,
)
def rollback(call: CommandCall) -> CommandReply:
    states, text = call.prepared
    if text:
        return CommandReply(text=text)
    number, _, file = call.args.strip().partition(" ")
    given = TurnInput(action=TurnAction.ROLLBACK, command=str(_pick(states, number).id), text=file.strip())
    return CommandReply(text="", turn=new_turn(call, given, BusyMode.QUEUE, Cause.COMMAND))


def _pick(states: Sequence[Checkpoint], word: str) -> Checkpoint:
    if not states:
        raise UserError("There are no checkpoints of this folder.")
    number = read_number(word, len(states))
    if number is None:
        raise UserError(f"“{one_line(word, 20)}” is no number from 1 to {len(states)}.", hint=_USAGE)
    return states[number - 1]


def _listing(states: Sequence[Checkpoint], request: CommandRequest) -> str:
    if not states:
        return "There are no checkpoints of this folder yet."
    lines = [
        f"{number}. {_ago(one.at, request.now)}, before {one.label or 'a change'}"
        for number, one in enumerate(states, 1)
    ]
    return "\n".join([f"States of {states[0].root}:", *lines, "", "/rollback <number> goes back to one."])


def _ago(at: datetime, now: datetime) -> str:
    minutes = int((now - at).total_seconds() // 60)
    if minutes < 120:
        return f"{minutes} min ago"
    return f"{minutes // 60} h ago" if minutes < 48 * 60 else f"{minutes // 1440} days ago"
