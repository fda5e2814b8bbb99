"""`/platform`: the accounts of this gateway; let one rest, and wake it. What rests is a fact of the store, so
a restart changes nothing about it."""

from __future__ import annotations

from hermes.control.commands.registry import CommandCall, CommandReply, command
from hermes.control.outbound.accounts import pause_account, paused_by
from hermes.domain.address import LOCAL_DOOR, read_platform, spell_platform
from hermes.domain.errors import UserError
from hermes.domain.session import owner_of
from hermes.domain.text import one_line

_USAGE = "Write /platform list, /platform pause <platform> or /platform resume <platform>."


@command(
    "platform",
    "list the platform accounts, let one rest, wake it",
    usage="[list | pause <platform> | resume <platform>]",
    admin=True,
)
def platform(call: CommandCall) -> CommandReply:
    action, _, name = call.args.partition(" ")
    if action.lower() in ("", "list") and not name.strip():
        lines = [f"- {account}: {_state(call, account)}" for account in accounts_here(call)]
        return CommandReply(text="\n".join(lines) or "No platform is set up.")
    if action.lower() not in ("pause", "resume") or not name.strip():
        raise UserError(f"/platform does not know “{one_line(call.args, 40)}”.", hint=_USAGE)
    account = account_named(call, name.strip())
    if action.lower() == "resume":
        if not paused_by(call.tx, account):
            return CommandReply(text=f"{account} is not resting.")
        pause_account(call.tx, account, "")
        return CommandReply(text=f"{account} is woken; it connects in a moment.")
    if account == call.source.address.credential:
        raise UserError(
            f"{account} is what you write by: nobody could wake it from here.",
            hint="Use another platform, or /platform in the terminal.",
        )
    pause_account(call.tx, account, owner_of(call.source) or "an admin")
    return CommandReply(
        text=f"{account} rests until /platform resume {account}; what is to be sent there waits."
    )


def accounts_here(call: CommandCall) -> list[str]:
    return sorted(set(call.gateway.accounts) - {LOCAL_DOOR})


def account_named(call: CommandCall, text: str) -> str:
    """The account that somebody means."""
    known, account = accounts_here(call), spell_platform(*read_platform(text))
    if account not in known:
        there = ", ".join(known) or "none; set up a platform first"
        raise UserError(f"There is no platform “{one_line(text, 40)}” here.", hint=f"There is: {there}.")
    return account


def _state(call: CommandCall, account: str) -> str:
    by = paused_by(call.tx, account)
    if by:
        return f"resting, by {by}"
    return "connected" if call.gateway.is_up(account) else "not connected"
