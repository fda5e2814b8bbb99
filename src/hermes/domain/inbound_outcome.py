"""How a row of the inbox ends: a kind, and what there is to add to it. Stored and shown as `kind: detail`."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class OutcomeKind(StrEnum):
    TURN = "turn"
    COMMAND = "command"
    ANSWER = "answer"
    BUTTON = "button"
    EDIT = "edit"
    DELETION = "deletion"
    WITHDRAWN = "withdrawn"
    MOVED = "moved"
    PAIRING = "pairing"
    PAIRED = "paired"
    NEEDS_PAIRING = "needs pairing"
    NOT_FOR_US = "not for us"
    DENIED = "denied"
    IGNORED = "ignored"
    REFUSED = "refused"
    FAILED = "failed"


@dataclass(frozen=True, slots=True, kw_only=True)
class InboundOutcome:
    kind: OutcomeKind
    detail: str = ""

    def __str__(self) -> str:
        return f"{self.kind.value}: {self.detail}" if self.detail else self.kind.value


TAKEN_AS_TURN = InboundOutcome(kind=OutcomeKind.TURN)
EDITED = InboundOutcome(kind=OutcomeKind.EDIT)
EDIT_TAKEN = InboundOutcome(kind=OutcomeKind.EDIT, detail="taken with its message")
DELETED = InboundOutcome(kind=OutcomeKind.DELETION)
WITHDRAWN = InboundOutcome(kind=OutcomeKind.WITHDRAWN, detail="it was deleted")


def ignored(why: str) -> InboundOutcome:
    return InboundOutcome(kind=OutcomeKind.IGNORED, detail=why)
