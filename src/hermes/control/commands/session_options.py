"""Commands that set something for this session alone: its model, what messages do meanwhile, approvals."""

from __future__ import annotations

from dataclasses import replace
from difflib import get_close_matches

from hermes.control.commands.registry import CommandCall, CommandReply, command
from hermes.domain.busy import choose_busy_mode
from hermes.domain.errors import UserError
from hermes.domain.text import one_line
from hermes.domain.turn import BusyMode

_DEFAULT = "default"
_MOST_LISTED = 30


@command("model", "show or choose this session's model", usage="[name|default]", mid_turn=False)
def model(call: CommandCall) -> CommandReply:
    default = call.model or call.settings.model.default or "not set"
    known = sorted({*call.gateway.models, *filter(None, (call.settings.model.default,))})
    offered = sorted({*call.gateway.offered(call.session.agent)} - {*known})
    if not call.args:
        names = ", ".join([*known, *offered[:_MOST_LISTED], _DEFAULT])
        more = len(offered) - _MOST_LISTED
        also = f" and {more} more that the provider offers" if more > 0 else ""
        return CommandReply(text=f"Model: {call.session.model or default}\nTo choose from: {names}{also}")
    wanted = call.args.casefold()
    if wanted == _DEFAULT:
        call.tx.sessions.save(replace(call.session, model=None))
        return CommandReply(text=f"This session answers with the default again: {default}.")
    for name in (*known, *offered):
        if wanted == name.casefold():
            call.tx.sessions.save(replace(call.session, model=name))
            return CommandReply(text=f"This session answers with {name} from now on.")
    near = get_close_matches(call.args, [*known, *offered], n=1)
    hint = f"Did you mean {near[0]}?" if near else f"Known: {', '.join([*known, _DEFAULT])}."
    raise UserError(f"There is no model “{one_line(call.args, 60)}” here.", hint=hint)


@command("busy", "what a message does while a turn runs", usage="[interrupt|queue|steer]")
def busy(call: CommandCall) -> CommandReply:
    now = choose_busy_mode(call.session, call.settings.display.busy_input_mode).value
    if not call.args:
        return CommandReply(text=f"A message that comes while a turn runs: {now}.")
    try:
        chosen = BusyMode(call.args.lower())
    except ValueError:
        modes = ", ".join(mode.value for mode in BusyMode)
        raise UserError(
            f"“{one_line(call.args, 20)}” is no way to be busy.", hint=f"Known: {modes}."
        ) from None
    call.tx.sessions.save(replace(call.session, busy_mode=chosen.value))
    return CommandReply(text=f"A message that comes while a turn runs: {chosen.value}, from now on.")


@command("yolo", "switch approvals off or on again for this session")
def yolo(call: CommandCall) -> CommandReply:
    changed = replace(call.session, yolo=not call.session.yolo)
    if changed.yolo:
        _check_place(call)
    call.tx.sessions.save(changed)
    if changed.yolo:
        return CommandReply(text="⚠️ Nothing is asked in this session from now on. /yolo again asks first.")
    return CommandReply(text="Dangerous actions are asked first again.")


def _check_place(call: CommandCall) -> None:
    """What is not asked any more is not asked of anybody who speaks here."""
    if (call.key.shared or call.session.owner is None) and not call.is_admin:
        raise UserError("Several people speak in this session, so only an admin may switch approvals off.")
    if call.key.shared and call.session.owner is not None:
        raise UserError(
            "This conversation was begun elsewhere, by one person, so approvals stay on here.",
            hint="/new begins one of this place, where an admin may switch them off.",
        )
