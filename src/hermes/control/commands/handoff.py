"""`/handoff`: continue a conversation of the terminal in a chat."""

from __future__ import annotations

from hermes.control.commands.platforms import account_named, chat_accounts
from hermes.control.commands.registry import CommandCall, CommandReply, command
from hermes.control.commands.session import name_of
from hermes.control.handoff.requests import handoff_words, request_handoff


@command(
    "handoff",
    "let this conversation go on in a platform's home channel",
    usage="[platform]",
    mid_turn=False,
    terminal=True,
)
def handoff(call: CommandCall) -> CommandReply:
    if not call.args:
        latest = call.tx.handoffs.latest(call.session.id, 1)
        there = ", ".join(chat_accounts(call.gateway.accounts)) or "none; set up a platform first"
        return CommandReply(text=handoff_words(latest[0]) if latest else f"Say where to. There is: {there}.")
    account = account_named(call.args.strip(), call.gateway.accounts)
    made = request_handoff(call.tx, call.session, account, call.source, call.now, call.settings)
    return CommandReply(text=f"{name_of(call.session)} is on its way to {account}.", handoff=made.id)
