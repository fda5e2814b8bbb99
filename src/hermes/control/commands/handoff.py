"""`/handoff`: let a conversation of the terminal go on in a chat."""

from __future__ import annotations

from hermes.control.commands.platforms import account_named, accounts_here
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
        known = call.tx.handoffs.latest(call.session.id, 1)
        there = ", ".join(accounts_here(call)) or "none; set up a platform first"
        return CommandReply(text=handoff_words(known[0]) if known else f"Say where to. There is: {there}.")
    account = account_named(call, call.args.strip())
    made = request_handoff(call.tx, call.session, account, call.source, call.now, call.settings)
    return CommandReply(text=f"{name_of(call.session)} is on its way to {account}.", handoff=made.id)
