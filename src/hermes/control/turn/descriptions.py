"""What is said in a voice message, and what a picture shows to a model that sees none: both are put into
words before the turn begins. The words are stored with the file, so they are made once; what they took is
counted in the same commit."""

from __future__ import annotations

import asyncio
from datetime import datetime

from hermes.control.core import Runtime
from hermes.control.turn.budgets import BudgetGate
from hermes.control.turn.inbound_files import UNHEARD, UNSEEN, reason_of
from hermes.domain.chats.message import Attachment, MediaKind
from hermes.domain.errors import HermesError
from hermes.domain.models.model_facts import MediaRole, ModelRole
from hermes.domain.models.spending import turn_spender
from hermes.domain.models.usage import AuxiliaryCall, Usage
from hermes.domain.text import one_line, storable
from hermes.domain.turns.turn import Turn
from hermes.domain.word import replace

DESCRIBED = "you cannot see it; another model describes it"
NO_TRANSCRIPT = "voice messages are not transcribed here (stt.enabled)"
_NOTHING = "nothing was heard in it"
_TOO_SLOW = "that took too long"
_HEARING_SECONDS = 900.0
Worded = tuple[Attachment, AuxiliaryCall | None]


async def put_into_words(
    turn: Turn, file: Attachment, runtime: Runtime, budgets: BudgetGate | None, now: datetime
) -> Worded:
    """The file with its words, if it is a voice message, or a picture that the turn's model does not see."""
    if file.sha256 and file.kind is MediaKind.VOICE:
        return await _transcribe(turn, file, runtime, budgets, now)
    return await _describe(turn, file, runtime, budgets, now)


async def _transcribe(
    turn: Turn, file: Attachment, runtime: Runtime, budgets: BudgetGate | None, now: datetime
) -> Worded:
    if runtime.transcribe is None:
        return replace(file, note=NO_TRANSCRIPT), None
    if await _is_spent(turn, runtime, budgets):
        return replace(file, note=f"{UNHEARD}: the budget is spent"), None
    try:
        async with asyncio.timeout(_HEARING_SECONDS):
            text, usage = await runtime.transcribe(file)
    except (HermesError, TimeoutError) as error:
        return replace(file, note=f"{UNHEARD}: {reason_of(str(error) or _TOO_SLOW)}"), None
    call = None if usage is None else _call(turn, MediaRole.STT, usage, now)
    words = storable(text).strip()
    return (replace(file, text=words) if words else replace(file, note=f"{UNHEARD}: {_NOTHING}")), call


async def _describe(
    turn: Turn, file: Attachment, runtime: Runtime, budgets: BudgetGate | None, now: datetime
) -> Worded:
    if runtime.describe is None or not (file.sha256 and (file.mime or "").startswith("image/")):
        return file, None
    session = await runtime.store.read(lambda tx: tx.sessions.get(turn.session))
    model = turn.input.guidance.model or (session.model if session is not None else None) or ""
    shown = file.kind is MediaKind.IMAGE and runtime.facts(model).images is not False
    if shown or (file.kind is not MediaKind.IMAGE and file.note != UNSEEN):
        return file, None
    if await _is_spent(turn, runtime, budgets):
        return file, None
    try:
        text, usage = await runtime.describe(replace(file, kind=MediaKind.IMAGE))
    except (HermesError, TimeoutError) as error:
        why = one_line(str(error) or _TOO_SLOW, 200)
        return replace(file, note=f"it could not be described: {why}"), None
    return replace(file, text=storable(text), note=DESCRIBED), _call(turn, ModelRole.VISION, usage, now)


async def _is_spent(turn: Turn, runtime: Runtime, budgets: BudgetGate | None) -> bool:
    if budgets is None:
        return False
    spender = turn_spender(turn)
    return await runtime.store.read(lambda tx: budgets.is_spent(tx, spender))


def _call(turn: Turn, role: ModelRole | MediaRole, usage: Usage, now: datetime) -> AuxiliaryCall:
    return AuxiliaryCall(
        session=turn.session, role=role, model=usage.model, usage=usage, at=now, turn=turn.id
    )
