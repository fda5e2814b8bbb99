"""What happens in a turn. Live events are shown and forgotten; records are stored exactly as they are.

The stored records are the transcript: it only grows. `Undone`, `Summarised` and `Cleared` hide what is
behind them from the fold, `Restored` brings it back, and nothing is ever rewritten.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from enum import StrEnum

from msgspec import Struct, field

from hermes.domain.chats.message import Attachment
from hermes.domain.errors import FaultKind
from hermes.domain.ids import CallId, QuestionId, TurnId
from hermes.domain.models.usage import CacheMiss, Usage, sum_usage
from hermes.domain.tools.tool import ChildTask, Effect, ToolCall

# --- live events -------------------------------------------------------------------------------


class TextDelta(Struct, frozen=True, kw_only=True):
    text: str


class ThoughtDelta(Struct, frozen=True, kw_only=True):
    text: str


class ToolOutput(Struct, frozen=True, kw_only=True):
    call: CallId
    text: str


class Retrying(Struct, frozen=True, kw_only=True):
    """A model call failed and is made again after a while."""

    reason: str
    after: float


class Notice(Struct, frozen=True, kw_only=True):
    """Something to know about the answer that is being said, like which model says it now."""

    text: str


class Reset(Struct, frozen=True, kw_only=True):
    """The text of the open model call is void and will be said again."""


Live = TextDelta | ThoughtDelta | ToolOutput | Retrying | Notice | Reset

# --- records -----------------------------------------------------------------------------------


class Ending(StrEnum):
    STOP = "stop"
    CALLS = "calls"
    LENGTH = "length"
    BROKEN = "broken"


class UserSaid(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a person said. `steering` marks words that joined a running turn. `notes` are entries of the
    person's memory that the model is told with it, by their row: what is forgotten is told no more."""

    text: str
    author: str | None = None
    attachments: tuple[Attachment, ...] = ()
    steering: bool = False
    context: str = ""
    notes: tuple[int, ...] = ()


class Kept(Struct, frozen=True, kw_only=True):
    """What a model's service wants back with its reply, unread by us: signatures, encrypted thoughts. It goes
    back in the same wire format and to the same model only, and is shown to nobody."""

    format: str
    model: str
    text: str

    def __repr__(self) -> str:
        return f"Kept(format={self.format!r}, model={self.model!r}, {len(self.text)} characters)"


class ModelSaid(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One whole reply of the model, or, if `partial`, what was said before it was interrupted. Of `thought`,
    the last `thought_late` characters came after its first word. `links_cut` says that it was kept with an
    address cut short, which could have carried data away. `via` is the provider that answered in the place of
    the agent's own, and behind a `#` the credential, where there are several. `cache_miss` is why little of
    the prompt was found in a cache, where one could expect it."""

    text: str = ""
    calls: tuple[ToolCall, ...] = ()
    thought: str = ""
    thought_late: int = 0
    model: str = ""
    ending: Ending = Ending.STOP
    partial: bool = False
    usage: Usage = field(default_factory=Usage)
    kept: Kept | None = None
    links_cut: bool = False
    via: str = ""
    cache_miss: CacheMiss | None = None

    @property
    def other_provider(self) -> str:
        """The provider that answered in the place of the agent's own; empty if none did."""
        return self.via.partition("#")[0]


class ToolStarted(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The intent: on disk before the tool runs. `key` makes a repeat of a `keyed` call harmless. `approved`
    is why a model allowed the action with this `digest` in a person's place, and `usage` what that took. One
    that the running call makes itself has that call's id; `inside` shows its arguments."""

    call: CallId
    name: str
    effect: Effect
    key: str
    approved: str = ""
    digest: str = ""
    usage: Usage | None = None
    inside: str = ""


class ToolFinished(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The result. `unknown` says that the call was cut off and may have taken effect, `outside` that the text
    came from elsewhere, and `usage` what models took that the tool asked. `note` is for the person alone.
    `ended_badly` says that the tool did its part, but not the program that it ran."""

    call: CallId
    text: str
    failed: bool = False
    unknown: bool = False
    attachments: tuple[Attachment, ...] = ()
    outside: bool = False
    usage: Usage | None = None
    note: str = ""
    ended_badly: bool = False


class QuestionKind(StrEnum):
    APPROVAL = "approval"
    CLARIFY = "clarify"
    CONFIRM = "confirm"
    CHILD = "child"
    CLIENT_TOOL = "client_tool"


class Asked(Struct, frozen=True, kw_only=True):
    """The run needs something from outside, and ends here until it comes. `usage` is what a model took that
    was asked before."""

    question: QuestionId
    kind: QuestionKind
    text: str
    call: CallId | None = None
    options: tuple[str, ...] = ()
    digest: str = ""
    outside: bool = False
    """Whether the task of a child was given after words from outside were read."""
    usage: Usage | None = None
    kept: str = ""
    """What a call that was begun needs to go on with the answer; empty if it has not begun."""
    child: ChildTask | None = None
    """The task, with the names of all the tools that the child may have."""
    relays: QuestionId | None = None
    """The question of a child that this one puts to the person."""


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


class Answered(Struct, frozen=True, kw_only=True):
    """What came. `outside` says that a child had read what was written elsewhere before it said so."""

    question: QuestionId
    verdict: Verdict
    text: str = ""
    by: str | None = None
    outside: bool = False


class Summarised(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Everything up to and including `upto` is told by `text` from here on, which a model wrote. The rest was
    copied from the records: `opening` are the first words of the conversation, `request` is what was asked
    for and not answered yet, `plan` its open plan, `files` those that were changed, and `results` what child
    agents brought. `usage` is what the model took."""

    upto: int
    text: str
    opening: str = ""
    request: str = ""
    plan: str = ""
    files: tuple[str, ...] = ()
    results: tuple[str, ...] = ()
    usage: Usage | None = None


class Cleared(Struct, frozen=True, kw_only=True):
    """The model is told no more what is large in records up to `upto`: results, arguments, pictures."""

    upto: int


class Restored(Struct, frozen=True, kw_only=True):
    """Summaries and clearings from record `since` on are void, and what they hid is there again."""

    since: int


class Undone(Struct, frozen=True, kw_only=True):
    """Everything from `since` up to this record is as if it had never been said."""

    since: int


class Finished(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The turn is done. `note` is shown to the person under the answer, never to the model."""

    note: str = ""


class FaultCause(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The fault of a model that ended a turn. `detail` may name addresses and is for operators; `quote` is
    what the model's service said."""

    kind: FaultKind
    detail: str = ""
    quote: str = ""
    retry_at: datetime | None = None


class Failed(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The turn ended without an answer; `reason` is a sentence for the person. `budget` is the name of one
    that is spent, `usage` as in `Stopped`."""

    reason: str
    cause: FaultCause | None = None
    budget: str = ""
    usage: Usage | None = None


class Stopped(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Somebody ended the turn. `usage` is about what a model's call will have taken that was cut off."""

    reason: str = ""
    usage: Usage | None = None


Record = (
    UserSaid
    | ModelSaid
    | ToolStarted
    | ToolFinished
    | Asked
    | Answered
    | Summarised
    | Cleared
    | Restored
    | Undone
    | Finished
    | Failed
    | Stopped
)
TurnEnd = Finished | Failed | Stopped
AgentEvent = Live | tuple[Record, ...]
"""What a run yields: a live event, or the records that are one commit."""


class Entry(Struct, frozen=True, kw_only=True):
    """A record in its place: numbered within its session, and only the actor numbers."""

    seq: int
    turn: TurnId
    at: datetime
    record: Record


def calls_in(records: Iterable[Record]) -> list[Usage]:
    """What each model call among these records took, those that tools made included. A reply without a model
    that took nothing is no call: it was written down for somebody else."""
    used = [
        record.usage
        for record in records
        if isinstance(record, ToolStarted | ToolFinished | Asked | Summarised | Failed | Stopped)
        or (isinstance(record, ModelSaid) and (record.model or record.usage.total))
    ]
    return [usage for usage in used if usage is not None]


def usage_of(records: Iterable[Record]) -> Usage:
    """What they took together."""
    return sum_usage(calls_in(records))


# --- what a watcher of a feed sees ---------------------------------------------------------------


class Snapshot(Struct, frozen=True, kw_only=True):
    """The text of the open model call so far and what was thought, as in `ModelSaid`, given once to whoever
    joins while it is being said."""

    text: str
    thought: str = ""
    thought_late: int = 0


FeedItem = Entry | Snapshot | Live
"""A feed is records by number, one snapshot for a late joiner, and live events."""
