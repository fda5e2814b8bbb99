"""`/compress`: tell a long conversation shorter, see what that would do, and take it back."""

from __future__ import annotations

from hermes.control.commands.registry import CommandCall, CommandReply, command, read_number
from hermes.control.commands.session import new_turn
from hermes.domain.errors import UserError
from hermes.domain.text import one_line
from hermes.domain.turns.turn import BusyMode, Cause, TurnAction, TurnInput

_MOST_TURNS = 1000
_LONGEST_FOCUS = 500
_USAGE = "Write /compress, /compress here 2, /compress <what matters>, /compress --preview or /compress undo."


@command(
    "compress",
    "summarise the older part of this conversation, so that there is room for more",
    usage="[here [turns] | --preview | undo | focus]",
    aliases=("compact",),
)
def compress(call: CommandCall) -> CommandReply:
    turn = new_turn(call, _wanted(call.args), BusyMode.QUEUE, Cause.COMMAND)
    waits = "It begins after what is running now." if call.turns else ""
    return CommandReply(text=waits, turn=turn)


def _wanted(args: str) -> TurnInput:
    words = args.split()
    first = words[0].lower() if words else ""
    if first == "undo" and len(words) == 1:
        return TurnInput(action=TurnAction.RESTORE)
    if first in ("--preview", "preview") and len(words) == 1:
        return TurnInput(action=TurnAction.COMPRESS, command="preview")
    if first == "here" and len(words) <= 2:
        turns = read_number(words[1], _MOST_TURNS) if len(words) == 2 else 1
        if turns is None:
            raise UserError(f"“{one_line(words[1], 20)}” is not a number of turns.", hint=_USAGE)
        return TurnInput(action=TurnAction.COMPRESS, command="here", count=turns)
    if first.startswith("--"):
        raise UserError(f"/compress does not know {one_line(first, 20)}.", hint=_USAGE)
    return TurnInput(action=TurnAction.COMPRESS, text=one_line(args, _LONGEST_FOCUS))
