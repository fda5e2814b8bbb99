"""Pictures for models that see none: the model of the role `vision` describes each before the turn begins.
The description is stored with the picture and told as its text, so it is made once; what it took is counted
in the same commit."""

from __future__ import annotations

from datetime import datetime

from hermes.control.core import Runtime
from hermes.control.turn.budgets import BudgetGate
from hermes.control.turn.inbound_files import UNSEEN
from hermes.domain.errors import HermesError
from hermes.domain.message import Attachment, MediaKind
from hermes.domain.model_facts import ModelRole
from hermes.domain.spending import turn_spender
from hermes.domain.text import one_line, storable
from hermes.domain.turn import Turn
from hermes.domain.usage import AuxiliaryCall
from hermes.domain.word import replace

DESCRIBED = "you cannot see it; another model describes it"
_TOO_SLOW = "that took too long"


async def describe_picture(
    turn: Turn, file: Attachment, runtime: Runtime, budgets: BudgetGate | None, now: datetime
) -> tuple[Attachment, AuxiliaryCall | None]:
    """The file with a description, if it is a picture that the turn's model does not see."""
    if runtime.describe is None or not (file.sha256 and (file.mime or "").startswith("image/")):
        return file, None
    session = await runtime.store.read(lambda tx: tx.sessions.get(turn.session))
    model = turn.input.guidance.model or (session.model if session is not None else None) or ""
    shown = file.kind is MediaKind.IMAGE and runtime.facts(model).images is not False
    if shown or (file.kind is not MediaKind.IMAGE and file.note != UNSEEN):
        return file, None
    if budgets is not None:
        spender = turn_spender(turn)
        if await runtime.store.read(lambda tx: budgets.is_spent(tx, spender)):
            return file, None
    try:
        text, usage = await runtime.describe(replace(file, kind=MediaKind.IMAGE))
    except (HermesError, TimeoutError) as error:
        why = one_line(str(error) or _TOO_SLOW, 200)
        return replace(file, note=f"it could not be described: {why}"), None
    call = AuxiliaryCall(
        session=turn.session, role=ModelRole.VISION, model=usage.model, usage=usage, at=now, turn=turn.id
    )
    return replace(file, text=storable(text), note=DESCRIBED), call
