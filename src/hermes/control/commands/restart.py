"""`/restart`: restart the gateway's process."""

from __future__ import annotations

from hermes.control.commands.registry import CommandCall, CommandReply, command
from hermes.control.outbound.restart_notices import ask_restart
from hermes.domain.errors import UserError


@command("restart", "restart the gateway", admin=True)
def restart(call: CommandCall) -> CommandReply:
    if call.is_local:
        raise UserError("A terminal restarts the gateway from outside.", hint="Run: hermes gateway restart")
    if not call.gateway.can_restart:
        raise UserError(
            "This gateway belongs to a chat in a terminal.", hint="It starts and ends with that chat."
        )
    if call.reply_place is not None:
        ask_restart(call.tx, call.reply_place.to, call.reply_place.ref)
    return CommandReply(
        text="Restarting. Unfinished work continues afterwards, and I will tell you here when I am back.",
        restart=True,
    )
