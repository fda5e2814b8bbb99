"""Commands about places: where reports and messages without an address go."""

from __future__ import annotations

from hermes.control.commands.registry import CommandCall, CommandReply, command
from hermes.control.outbound.targets import home_channels
from hermes.domain.errors import UserError
from hermes.domain.text import one_line


@command(
    "sethome", "make this chat the platform's home channel", usage="[off]", aliases=("set-home",), admin=True
)
def sethome(call: CommandCall) -> CommandReply:
    here = call.source.address
    if not call.source.is_chat:
        raise UserError("This is no chat that messages could be sent to.", hint="Write /sethome in a chat.")
    if call.args and call.args.lower() != "off":
        raise UserError(
            f"/sethome takes no “{one_line(call.args, 40)}”.",
            hint="Write it in the chat that is meant; /sethome off takes it back.",
        )
    if call.args:
        if here.credential not in call.tx.directory.homes():
            return CommandReply(text=f"No home channel was chosen for {here.credential}.")
        call.tx.directory.set_home(here.credential, None, call.now)
        left = home_channels(call.tx, call.settings).get(here.credential)
        now = "it has none now" if left is None else f"it is {left} again, as in the settings"
        return CommandReply(text=f"This is no longer the home channel of {here.credential}; {now}.")
    call.tx.directory.set_home(here.credential, here, call.now)
    return CommandReply(
        text=f"This chat is now the home channel of {here.credential}: reports, and messages to"
        f" “{here.credential}” without a chat, come here."
    )
