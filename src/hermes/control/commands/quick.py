"""Quick commands: slash commands that the settings add. An alias stands for another command; `exec` becomes a
turn that runs a shell command where the agent runs its own, asked for and kept like any other call."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from hermes.control.commands.registry import SOURCES, CommandCall, CommandReply, SlashCommand
from hermes.control.commands.session import new_turn
from hermes.control.core import Runtime
from hermes.domain.errors import UserError
from hermes.domain.settings.settings import QuickCommand, Settings
from hermes.domain.text import one_line
from hermes.domain.turns.turn import BusyMode, Cause, TurnAction, TurnInput

_RUNS: dict[str, Callable[[QuickCommand, CommandCall], CommandReply]] = {}


def quick_commands(settings: Settings, runtime: Runtime | None) -> list[SlashCommand]:
    """Those of the settings, the same for each agent."""
    return [
        SlashCommand(
            name=name,
            run=partial(_RUNS[quick.type], quick),
            summary=f"the same as {one_line(quick.target, 60)}"
            if quick.type == "alias"
            else f"run {one_line(quick.command, 60)}",
            target=quick.target if quick.type == "alias" else "",
        )
        for name, quick in settings.quick_commands.items()
        if quick.type in _RUNS
    ]


def _alias(quick: QuickCommand, call: CommandCall) -> CommandReply:
    """What it leads to runs in its place, so this is reached only if it leads nowhere."""
    raise UserError(
        f"/{call.name} leads to “{one_line(quick.target, 40)}”, which is no command.",
        hint=f"Mend quick_commands.{call.name}.target.",
    )


def _exec(quick: QuickCommand, call: CommandCall) -> CommandReply:
    if call.args:
        raise UserError(f"/{call.name} takes no arguments.", hint=f"Write /{call.name} alone.")
    given = TurnInput(
        text=f"/{call.name}", author=call.source.author, action=TurnAction.RUN, command=quick.command
    )
    ahead = f"Queued behind {len(call.turns)}." if call.turns else ""
    return CommandReply(text=ahead, turn=new_turn(call, given, BusyMode.QUEUE, Cause.COMMAND))


_RUNS["alias"] = _alias
_RUNS["exec"] = _exec
SOURCES.append(quick_commands)
