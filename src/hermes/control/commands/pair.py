"""Commands that let people in."""

from __future__ import annotations

from hermes.control.commands.platforms import account_named
from hermes.control.commands.registry import CommandCall, CommandReply, command
from hermes.control.people.access import account_of
from hermes.control.people.pairing import invite
from hermes.domain.address import SourceKind, read_platform
from hermes.domain.errors import UserError
from hermes.domain.pairing import Account


@command("pair", "make a code that lets one new person in", usage="[platform]", admin=True)
def pair(call: CommandCall) -> CommandReply:
    if call.source.kind is not SourceKind.PRIVATE and not call.is_local:
        raise UserError("Everybody here would read the code.", hint="Write /pair to me in a private chat.")
    account = _account(call)
    by = "the terminal" if call.is_local else f"{call.source.address.credential}:{call.source.person}"
    code = invite(call.tx, account, f"invited by {by}", call.now)
    text = (
        f"Pairing code for {account}: **{code}**\n\n"
        "Whoever sends it to me there first, in a private chat and within one hour, may write to me."
    )
    return CommandReply(text=text, fleeting=True)


def _account(call: CommandCall) -> Account:
    """The account that is named, or else the one this was written to."""
    if not call.args and call.is_local:
        raise UserError("Say for which platform.", hint="Write /pair <platform>.")
    if not call.args:
        return account_of(call.source)
    known = {*call.about.platforms, *call.settings.platforms, *call.gateway.accounts}
    platform, name = read_platform(account_named(call.args, known))
    return Account(platform=platform, name=name)
