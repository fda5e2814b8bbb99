"""What people who share a place may do to each other's turns and questions: nothing, unless as an admin."""

from __future__ import annotations

from hermes.control.commands.registry import CommandCall
from hermes.control.turn.questions import questions_here
from hermes.domain.errors import UserError
from hermes.domain.session import SHARED_KINDS, owner_of, speaks_for_another
from hermes.domain.turn import Turn


def stoppable(call: CommandCall) -> list[Turn]:
    """The unfinished turns that who calls may stop: their own, and an admin everybody's."""
    return [turn for turn in call.turns if call.is_admin or not _is_of_another(call, turn)]


def check_nobody_waits(call: CommandCall) -> None:
    """Refuse to take the session away from a place while somebody else's turn runs in it or a question to
    somebody else is open: they could not answer it any more."""
    if call.source.kind not in SHARED_KINDS or call.is_admin:
        return
    asked = [one for one in questions_here(call.tx, call.session.id) if one.may_answer]
    runs = bool(call.turns) and _is_of_another(call, call.turns[0])
    if runs or any(call.source.person not in question.may_answer for question in asked):
        raise UserError(
            f"/{call.name} has to wait: somebody else is being answered here, or was asked something.",
            hint="They, or an admin, can do it now.",
        )


def _is_of_another(call: CommandCall, turn: Turn) -> bool:
    source = turn.source
    return source is not None and owner_of(source) is not None and speaks_for_another(call.source, source)
