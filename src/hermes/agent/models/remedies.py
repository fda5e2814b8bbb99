"""What is done about each kind of fault: one row per kind, its remedies in the order they are tried.

The pool, the fallback chain, the images wrapper and the loop each apply the remedies that are theirs; all of
them decide by this table, never by a vendor's sentences."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

from hermes.domain.errors import FaultKind, ModelFault

SHORT_WAIT = 5.0
"""Seconds that one rather waits than leaves a credential or a model."""


class Remedy(StrEnum):
    RETRY = "retry"
    """Make the call again after a pause that grows (`agent.api_max_retries`)."""
    WAIT = "wait"
    """Make the call again at the time that the service named, if that is bearable; say so."""
    NEXT_CREDENTIAL = "next credential"
    NEXT_MODEL = "next model"
    COMPRESS = "compress"
    """Shorten the conversation, then make the call again."""
    DROP_IMAGES = "drop images"
    """Tell the model of the pictures in words, and say so."""
    TELL = "tell"
    """End the turn with a sentence that says what the person can do."""


REMEDIES: Mapping[FaultKind, tuple[Remedy, ...]] = {
    FaultKind.BUSY: (Remedy.RETRY, Remedy.NEXT_MODEL, Remedy.TELL),
    FaultKind.BROKEN: (Remedy.RETRY, Remedy.NEXT_MODEL, Remedy.TELL),
    FaultKind.LIMITED_UNTIL: (Remedy.NEXT_CREDENTIAL, Remedy.NEXT_MODEL, Remedy.WAIT, Remedy.TELL),
    FaultKind.NO_CREDIT: (Remedy.NEXT_CREDENTIAL, Remedy.NEXT_MODEL, Remedy.TELL),
    FaultKind.BAD_KEY: (Remedy.NEXT_CREDENTIAL, Remedy.NEXT_MODEL, Remedy.TELL),
    FaultKind.NO_MODEL: (Remedy.NEXT_MODEL, Remedy.TELL),
    FaultKind.TOO_LONG: (Remedy.COMPRESS, Remedy.TELL),
    FaultKind.NO_IMAGES: (Remedy.DROP_IMAGES, Remedy.TELL),
    FaultKind.FILTERED: (Remedy.TELL,),
    FaultKind.BAD_REQUEST: (Remedy.TELL,),
}


def calls_for(fault: ModelFault, remedy: Remedy, retries_left: int) -> bool:
    """Whether it is this remedy's turn. What passes by itself soon is retried where it is, as long as
    somebody tries again."""
    remedies = REMEDIES[fault.kind]
    if remedy not in remedies:
        return False
    soon = remedies[0] is Remedy.RETRY if fault.after is None else fault.after <= SHORT_WAIT
    return not (retries_left > 0 and soon)
