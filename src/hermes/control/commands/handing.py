"""`/handoff`: let a conversation of the terminal go on in a chat."""

from __future__ import annotations

from hermes.control.commands.registry import Call, Reply, command
from hermes.control.commands.session import name_of
from hermes.control.handoff import handoff_words, request_handoff
from hermes.domain.address import LOCAL_DOOR, read_platform, spell_platform
from hermes.domain.errors import UserError
from hermes.domain.text import one_line


@command(
    "handoff",
    "let this conversation go on in a platform's home channel",
    usage="[platform]",
    mid_turn=False,
    terminal=True,
)
def handoff(call: Call) -> Reply:
    if not call.args:
        known = call.tx.handoffs.latest(call.session.id, 1)
        return Reply(text=handoff_words(known[0]) if known else f"Say where to. There is: {_there(call)}.")
    account = spell_platform(*read_platform(call.args.strip()))
    if account not in call.around.accounts or account == LOCAL_DOOR:
        raise UserError(
            f"There is no platform “{one_line(call.args, 40)}” here.", hint=f"There is: {_there(call)}."
        )
    made = request_handoff(call.tx, call.session, account, call.source, call.now, call.settings)
    return Reply(text=f"{name_of(call.session)} is on its way to {account}.", handoff=made.id)


def _there(call: Call) -> str:
    return ", ".join(sorted(set(call.around.accounts) - {LOCAL_DOOR})) or "none; set up a platform first"
