"""`/memory`: what is noted about the person who asks, and how they have it forgotten."""

from __future__ import annotations

from hermes.control.commands.registry import CommandCall, CommandReply, CommandRequest, command
from hermes.control.people.memory import STILL_HELD, entries_about, person_of
from hermes.domain.errors import UserError
from hermes.domain.text import one_line

_SHOWN = 50


def _who(request: CommandRequest) -> str:
    person = person_of(request.source, request.settings)
    if person is None:
        raise UserError("Nobody is known here of whom something could be noted.")
    return person


async def _forget(request: CommandRequest) -> int | None:
    """Done before the transaction, for files are written too; done again it does no harm."""
    if request.args.strip().lower() not in ("forget", "forget me"):
        return None
    return 0 if request.runtime.memory is None else await request.runtime.memory.forget(_who(request))


@command("memory", "what is noted about you; forget: remove all of it", usage="[forget]", prepare=_forget)
def memory(call: CommandCall) -> CommandReply:
    if call.prepared is not None:
        return CommandReply(text=f"Forgotten: {call.prepared} notes about you. {STILL_HELD}")
    if call.args.strip():
        raise UserError(f"/memory does not know “{one_line(call.args, 40)}”.", hint="/memory, /memory forget")
    entries = entries_about(call.tx, _who(call))
    if not entries:
        return CommandReply(text="Nothing is noted about you.")
    lines = [f"- {one_line(entry.text, 300)}{'' if entry.in_prompt else ' (archive)'}" for entry in entries]
    more = f"\n… and {len(lines) - _SHOWN} more" if len(lines) > _SHOWN else ""
    shown = "\n".join(lines[-_SHOWN:])
    return CommandReply(text=f"Noted about you:\n{shown}{more}\n\n/memory forget removes all of it.")
