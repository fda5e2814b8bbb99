"""Quick commands: slash commands that the settings add. An alias stands for another command; `exec` becomes a
turn that runs a shell command where the agent runs its own, asked for and kept like any other call."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

from hermes.control.commands.registry import FURTHER, CommandCall, CommandReply, SlashCommand, perform
from hermes.control.commands.session import new_turn
from hermes.domain.command_line import read_command
from hermes.domain.errors import UserError
from hermes.domain.settings.settings import QuickCommand, Settings
from hermes.domain.text import one_line
from hermes.domain.turn import BusyMode, Cause, TurnAction, TurnInput

_RUNS: dict[str, Callable[[QuickCommand, CommandCall], CommandReply]] = {}


def quick_commands(settings: Settings) -> list[SlashCommand]:
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
    line = read_command(f"/{quick.target.lstrip('/')} {call.args}".rstrip())
    if line is None or _is_alias(call.settings, line[0]):
        raise UserError(
            f"/{call.name} leads to “{one_line(quick.target, 40)}”, which is no command.",
            hint=f"Mend quick_commands.{call.name}.target.",
        )
    return perform(replace(call, name=line[0], args=line[1]))


def _is_alias(settings: Settings, name: str) -> bool:
    """One alias may not lead to another: they could lead in a circle."""
    quick = settings.quick_commands.get(name)
    return quick is not None and quick.type == "alias"


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
FURTHER.append(quick_commands)
