"""`/platform`: list the accounts of this gateway, pause one, resume it. A pause is stored, so it outlives a
restart."""

from __future__ import annotations

from collections.abc import Collection

from hermes.control.commands.registry import CommandCall, CommandReply, command
from hermes.control.outbound.accounts import pause_account, paused_by
from hermes.domain.address import LOCAL_DOOR, read_platform, spell_platform
from hermes.domain.errors import UserError
from hermes.domain.session import owner_of
from hermes.domain.text import one_line

_USAGE = "Write /platform list, /platform pause <platform> or /platform resume <platform>."


@command(
    "platform",
    "list the platform accounts, pause one, resume it",
    usage="[list | pause <platform> | resume <platform>]",
    admin=True,
)
def platform(call: CommandCall) -> CommandReply:
    action, _, name = call.args.partition(" ")
    if action.lower() in ("", "list") and not name.strip():
        lines = [f"- {account}: {_state(call, account)}" for account in chat_accounts(call.gateway.accounts)]
        return CommandReply(text="\n".join(lines) or "No platform is set up.")
    if action.lower() not in ("pause", "resume") or not name.strip():
        raise UserError(f"/platform does not know “{one_line(call.args, 40)}”.", hint=_USAGE)
    account = account_named(name.strip(), call.gateway.accounts)
    if action.lower() == "resume":
        if not paused_by(call.tx, account):
            return CommandReply(text=f"{account} is not paused.")
        pause_account(call.tx, account, "")
        return CommandReply(text=f"{account} is resumed; it connects in a moment.")
    if account == call.source.address.credential:
        raise UserError(
            f"{account} is what you are writing through: nobody could resume it from here.",
            hint="Use another platform, or /platform in the terminal.",
        )
    pause_account(call.tx, account, owner_of(call.source) or "an admin")
    return CommandReply(text=f"{account} is paused until /platform resume {account}; messages to it wait.")


def chat_accounts(accounts: Collection[str]) -> list[str]:
    return sorted(set(accounts) - {LOCAL_DOOR})


def account_named(text: str, accounts: Collection[str]) -> str:
    """The account that somebody means, as `platform[@account]`."""
    known, account = chat_accounts(accounts), spell_platform(*read_platform(text))
    if account not in known:
        there = ", ".join(known) or "none; set up a platform first"
        raise UserError(f"There is no platform “{one_line(text, 40)}” here.", hint=f"There is: {there}.")
    return account


def _state(call: CommandCall, account: str) -> str:
    by = paused_by(call.tx, account)
    if by:
        return f"paused by {by}"
    return "connected" if call.gateway.is_up(account) else "not connected"
