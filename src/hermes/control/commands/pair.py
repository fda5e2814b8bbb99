"""Commands that let people in."""

from __future__ import annotations

from hermes.control.commands.registry import CommandCall, CommandReply, command
from hermes.control.people.access import account_of
from hermes.control.people.pairing import invite
from hermes.domain.address import LOCAL_DOOR, SourceKind, read_platform, spell_platform
from hermes.domain.errors import UserError
from hermes.domain.pairing import Account
from hermes.domain.text import one_line


@command("pair", "make a code that lets one new person in", usage="[platform]", admin=True)
def pair(call: CommandCall) -> CommandReply:
    local = call.source.address.platform == LOCAL_DOOR
    if call.source.kind is not SourceKind.PRIVATE and not local:
        raise UserError("Everybody here would read the code.", hint="Write /pair to me in a private chat.")
    account = _account(call)
    by = "the terminal" if local else f"{call.source.address.credential}:{call.source.person}"
    code = invite(call.tx, account, f"invited by {by}", call.now)
    told = (
        f"Pairing code for {account}: **{code}**\n\n"
        "Whoever sends it to me there first, in a private chat and within one hour, may write to me."
    )
    return CommandReply(text=told, fleeting=True)


def _account(call: CommandCall) -> Account:
    """The account that is meant: the one this was written to, or the one that is named."""
    local = call.source.address.platform == LOCAL_DOOR
    if not call.args and local:
        raise UserError("Say for which platform.", hint="Write /pair <platform>.")
    if not call.args:
        return account_of(call.source)
    platform, account = read_platform(call.args)
    known = {*call.about.platforms, *call.settings.platforms, *call.gateway.accounts} - {LOCAL_DOOR}
    if spell_platform(platform, account) not in known:
        listed = f"Known: {', '.join(sorted(known))}." if known else "No platform is set up."
        raise UserError(f"There is no platform “{one_line(call.args, 40)}” here.", hint=listed)
    return Account(platform=platform, name=account)
