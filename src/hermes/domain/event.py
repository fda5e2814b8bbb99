"""What happens in a turn. Live events are shown and forgotten; records are stored exactly as they are.

The stored records are the transcript: it only grows. `Undone` and `Summarised` hide what is behind
them from the fold, and nothing is ever rewritten.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

from hermes.domain.ids import CallId, QuestionId, TurnId
from hermes.domain.message import Attachment
from hermes.domain.tool import Effect, ToolCall

# --- live events -------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class TextDelta:
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ThoughtDelta:
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolOutput:
    call: CallId
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Retrying:
    """A model call failed and is made again after a while."""

    reason: str
    after: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Reset:
    """The text of the open model call is void and will be said again."""


Live = TextDelta | ThoughtDelta | ToolOutput | Retrying | Reset

# --- records -----------------------------------------------------------------------------------


class Ending(StrEnum):
    STOP = "stop"
    CALLS = "calls"
    LENGTH = "length"
    BROKEN = "broken"


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    prompt: int = 0
    completion: int = 0
    cached: int = 0
    reasoning: int = 0

    @property
    def total(self) -> int:
        return self.prompt + self.completion


@dataclass(frozen=True, slots=True, kw_only=True)
class UserSaid:
    """What a person said. `steering` marks words that joined a running turn."""

    text: str
    author: str | None = None
    attachments: tuple[Attachment, ...] = ()
    steering: bool = False
    context: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelSaid:
    """One whole reply of the model, or, if `partial`, what was said before it was interrupted."""

    text: str = ""
    calls: tuple[ToolCall, ...] = ()
    thought: str = ""
    model: str = ""
    ending: Ending = Ending.STOP
    partial: bool = False
    usage: Usage = field(default_factory=Usage)


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolStarted:
    """The intent: on disk before the tool runs. `key` makes a repeat of a `keyed` call harmless."""

    call: CallId
    name: str
    effect: Effect
    key: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolFinished:
    """The result. `unknown` says that the call was cut off and may have taken effect."""

    call: CallId
    text: str
    failed: bool = False
    unknown: bool = False


class QuestionKind(StrEnum):
    APPROVAL = "approval"
    CLARIFY = "clarify"
    CONFIRM = "confirm"
    CHILD = "child"
    CLIENT_TOOL = "client_tool"


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """The run needs something from outside, and ends here until it comes."""

    question: QuestionId
    kind: QuestionKind
    text: str
    call: CallId | None = None
    options: tuple[str, ...] = ()
    digest: str = ""


class Verdict(StrEnum):
    ONCE = "once"
    SESSION = "session"
    ALWAYS = "always"
    DENY = "deny"
    REPLY = "reply"
    EXPIRED = "expired"
    WITHDRAWN = "withdrawn"

    @property
    def allows(self) -> bool:
        return self in (Verdict.ONCE, Verdict.SESSION, Verdict.ALWAYS)


@dataclass(frozen=True, slots=True, kw_only=True)
class Answered:
    question: QuestionId
    verdict: Verdict
    text: str = ""
    by: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Summarised:
    """Everything up to and including `upto` is told by `text` from here on."""

    upto: int
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Undone:
    """Everything from `since` up to this record is as if it had never been said."""

    since: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Finished:
    """The turn is done. `note` is shown to the person under the answer, never to the model."""

    note: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Failed:
    """The turn ended without an answer; `reason` is a sentence for the person."""

    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Stopped:
    """Somebody ended the turn."""

    reason: str = ""


Record = (
    UserSaid
    | ModelSaid
    | ToolStarted
    | ToolFinished
    | Asked
    | Answered
    | Summarised
    | Undone
    | Finished
    | Failed
    | Stopped
)
TurnEnd = Finished | Failed | Stopped
AgentEvent = Live | tuple[Record, ...]
"""What a run yields: a live event, or the records that are one commit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """A record in its place: numbered within its session, and only the actor numbers."""

    seq: int
    turn: TurnId
    at: datetime
    record: Record


def usage_of(records: Iterable[Record]) -> Usage:
    """What all model calls among these records took together."""
    used = [record.usage for record in records if isinstance(record, ModelSaid)]
    return Usage(
        prompt=sum(one.prompt for one in used),
        completion=sum(one.completion for one in used),
        cached=sum(one.cached for one in used),
        reasoning=sum(one.reasoning for one in used),
    )


# --- what a watcher of a feed sees ---------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """The text of the open model call so far, given once to whoever joins while it is being said."""

    text: str


FeedItem = Entry | Snapshot | Live
"""A feed is records by number, one snapshot for a late joiner, and live events."""
