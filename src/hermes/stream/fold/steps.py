"""A turn's feed as steps: one method for each thing that can happen to somebody who watches the turn.

A face is a subclass that prints the steps it shows. What all faces need to know is kept here once: which
records were seen, what was shown of the open model call, the calls, and the open questions."""

from __future__ import annotations

import io
import operator
from typing import Generic, NamedTuple, TypeVar

from msgspec import Struct

from hermes.domain.ids import CallId, QuestionId
from hermes.domain.tools.tool import ToolCall
from hermes.domain.turns.event import (
    Answered,
    Asked,
    Cleared,
    Ending,
    Entry,
    Failed,
    FeedItem,
    Finished,
    ModelSaid,
    Notice,
    QuestionKind,
    Record,
    Reset,
    Restored,
    Retrying,
    Snapshot,
    Stopped,
    Summarised,
    TextDelta,
    ThoughtDelta,
    ToolFinished,
    ToolOutput,
    ToolStarted,
    TurnEnd,
    Undone,
    UserSaid,
)
from hermes.domain.turns.thoughts import SplitReply, ThoughtFilter, split_thoughts
from hermes.stream.fold.questions import for_people
from hermes.stream.fold.tool_lines import is_internal

Out = TypeVar("Out")
SAID_AGAIN = "— interrupted, saying it again —"
"""What a face that cannot take words back says before words that replace earlier ones."""


class RemainingText(Struct, frozen=True, kw_only=True):
    """What is left to show; if `void`, instead of what was shown and not after it."""

    text: str
    void: bool = False


class ShownText:
    """What one watcher was shown of the open model call. Of thoughts, beside the text (`_beside`) and in it
    (`_within`), it is enough to know how many characters were, and how many beside it before any of it
    (`_first`)."""

    __slots__ = ("_beside", "_filter", "_first", "_shown", "_spoke", "_within")

    def __init__(self) -> None:
        self._filter = ThoughtFilter()
        # Grown in place: a list of words takes ten times what they say.
        self._shown = io.StringIO()
        self._beside = self._within = self._first = 0
        self._spoke = False

    @property
    def text(self) -> str:
        return self._shown.getvalue()

    def more(self, delta: str) -> str:
        """The part of a delta that is to be shown now."""
        words = self._filter.feed(delta)
        self._spoke = True
        if not self._shown.tell():
            words = words.lstrip("\n")
        self._shown.write(words)
        return words

    def thought_within(self) -> Thoughts:
        """What the deltas thought between tags, once."""
        thought = self._filter.take()
        first = max(0, self._filter.ahead - self._within)
        gap = "\n\n" if first and self._first and not self._within else ""
        self._within += len(thought)
        return Thoughts(gap + thought[:first], thought[first:])

    def thought_beside(self, thought: str) -> Thoughts:
        self._beside += len(thought)
        if self._spoke:
            return Thoughts("", thought)
        self._first = self._beside
        return Thoughts(thought, "")

    def catch_up(self, snapshot: Snapshot) -> tuple[Thoughts, RemainingText]:
        """The call's text and thought so far are these, whatever was heard of them."""
        before, heard = self.text, (self._beside, self._within)
        self.reset()
        self.more(snapshot.text)
        within, ahead = self._filter.take(), self._filter.ahead
        rest = _unheard(snapshot.thought, snapshot.thought_late, within, ahead, *heard)
        self._beside, self._within = len(snapshot.thought), len(within)
        self._first = self._beside - snapshot.thought_late
        return rest, _difference(before, self.text)

    def rest_of_thoughts(self, reply: ModelSaid, split: SplitReply) -> Thoughts:
        """The call is over, and this is what it thought."""
        return _unheard(
            reply.thought, reply.thought_late, split.thought, split.ahead, self._beside, self._within
        )

    def close(self, reply: str) -> RemainingText:
        """The call is over, and `reply` is what it said besides its thoughts."""
        before = self.text
        self.reset()
        return _difference(before, reply.lstrip("\n"))

    def reset(self) -> bool:
        """The call's words are void; true if any were shown."""
        heard = self._shown.tell() > 0
        self._filter = ThoughtFilter()
        self._shown = io.StringIO()
        self._beside = self._within = self._first = 0
        self._spoke = False
        return heard


class Thoughts(NamedTuple):
    """What was thought before the first word, and after it."""

    first: str
    late: str


def _unheard(beside: str, late: int, within: str, ahead: int, heard: int, heard_within: int) -> Thoughts:
    """What is left of thoughts of which these many characters were heard."""
    first = len(beside) - late
    between = "\n\n" if first and ahead and not heard_within else ""
    return Thoughts(
        beside[heard:first] + between + within[heard_within:ahead],
        join_thoughts(beside[max(first, heard) :], within[max(ahead, heard_within) :].lstrip("\n")),
    )


def join_thoughts(*thoughts: str) -> str:
    return "\n\n".join(filter(None, thoughts))


def thoughts_of(reply: ModelSaid) -> str:
    """All that a reply thinks, beside its text and in it."""
    return join_thoughts(reply.thought, split_thoughts(reply.text).thought)


def thoughts_in_order(reply: ModelSaid) -> Thoughts:
    split = split_thoughts(reply.text)
    return _unheard(reply.thought, reply.thought_late, split.thought, split.ahead, 0, 0)


def _difference(before: str, now: str) -> RemainingText:
    if now.startswith(before):
        return RemainingText(text=now[len(before) :])
    if now.strip() == before.strip():
        return RemainingText(text="")
    return RemainingText(text=now, void=True)


def was_cut(reply: ModelSaid) -> bool:
    """The reply ended in the middle, so what the model says next goes on in the same paragraph."""
    return not reply.calls and reply.ending in (Ending.LENGTH, Ending.BROKEN)


class Steps(Generic[Out]):
    """`see` gives what the step of an item prints, and `nothing` if the item was seen before.

    Records up to `after` were told by another stream: they are no steps, but their calls are known. Calls of
    internal tools are steps only for a face that shows them."""

    def __init__(self, nothing: Out, *, after: int = -1, show_internal: bool = False) -> None:
        self.seq = -1
        self._nothing = nothing
        self._told_before = after
        self._show_internal = show_internal
        self._shown = ShownText()
        self._gap = False
        self._entries: list[Entry] = []
        self._replies: list[ModelSaid] = []
        self._questions: dict[QuestionId, Asked] = {}
        self._calls: dict[CallId, ToolCall] = {}
        self._unsettled: set[CallId] = set()
        self._began: dict[CallId, float] = {}
        self._delegated: set[CallId] = set()

    def see(self, item: FeedItem) -> Out:
        match item:
            case TextDelta(text=text):
                words = self._shown.more(text)
                thought = self._think(self._shown.thought_within())
                return self._behind(thought, self._words(words)) if words else thought
            case Entry():
                if item.seq <= self.seq:
                    return self._nothing
                self.seq = item.seq
                return self._take(item) if item.seq > self._told_before else self._recall(item.record)
            case Snapshot():
                unheard, rest = self._shown.catch_up(item)
                return self._behind(self._think(unheard), self._caught_up(rest))
            case Reset():
                return self._voided(self._shown.reset())
            case ToolOutput(call=id, text=text):
                call = self._calls[id] if id in self._began else None
                if call is None or not self._shows(call):
                    return self._nothing
                by_child = id in self._delegated
                return self._child_worked(call, text) if by_child else self._tool_printed(call, text)
            case ThoughtDelta(text=text):
                return self._think(self._shown.thought_beside(text))
            case Retrying():
                return self._retrying(item)
            case Notice(text=text):
                return self._noticed(text)

    def _take(self, entry: Entry) -> Out:
        self._entries.append(entry)
        record, at = entry.record, entry.at.timestamp()
        match record:
            case ModelSaid():
                return self._close_call(record)
            case ToolStarted(inside=words) if words:
                return self._nothing
            case ToolStarted(call=id, name=name):
                call = self._calls.setdefault(id, ToolCall(id=id, name=name, arguments=""))
                self._began[id] = at
                return self._tool_began(call) if self._shows(call) else self._nothing
            case ToolFinished():
                return self._settle(record, at)
            case Asked():
                return self._ask(record, at)
            case Answered(question=question):
                return self._answered(record, self._questions.pop(question, None))
            case Finished() | Failed() | Stopped():
                self._questions.clear()
                return self._ended(record)
            case UserSaid():
                return self._user_said()
            case Undone(since=since):
                return self._undone(since)
            case Summarised() | Cleared() | Restored():
                return self._nothing

    def _recall(self, record: Record) -> Out:
        if isinstance(record, ModelSaid):
            self._expect(record)
        elif isinstance(record, ToolFinished | Asked) and record.call is not None:
            self._unsettled.discard(record.call)
        return self._nothing

    def _expect(self, reply: ModelSaid) -> None:
        self._calls.update((call.id, call) for call in reply.calls)
        self._unsettled = {call.id for call in reply.calls}

    def _shows(self, call: ToolCall) -> bool:
        return self._show_internal or not is_internal(call.name)

    def _close_call(self, reply: ModelSaid) -> Out:
        self._replies.append(reply)
        self._expect(reply)
        split = split_thoughts(reply.text)
        thought = self._think(self._shown.rest_of_thoughts(reply, split))
        return self._behind(thought, self._replied(reply, split.words, self._shown.close(split.words)))

    def _think(self, thoughts: Thoughts) -> Out:
        first = self._thought(thoughts.first) if thoughts.first else self._nothing
        return self._behind(first, self._thought_late(thoughts.late)) if thoughts.late else first

    def _behind(self, first: Out, then: Out) -> Out:
        both: Out = operator.add(first, then) if first else then
        return both

    def _settle(self, result: ToolFinished, at: float) -> Out:
        self._unsettled.discard(result.call)
        call = self._calls.get(result.call)
        began = self._began.pop(result.call, None)
        if call is None or not self._shows(call):
            return self._nothing
        return self._tool_ended(call, result, None if began is None else at - began)

    def _ask(self, asked: Asked, at: float) -> Out:
        self._questions[asked.question] = asked
        call = self._calls.get(asked.call) if asked.call else None
        if call is not None and asked.kind is not QuestionKind.APPROVAL:
            self._unsettled.discard(call.id)
        if for_people(asked):
            return self._people_asked(asked, call)
        if asked.kind is QuestionKind.CHILD and call is not None and call.id not in self._began:
            # From here on it is a call that runs, whoever works for it.
            self._began[call.id] = at
            self._delegated.add(call.id)
            return self._tool_began(call) if self._shows(call) else self._nothing
        if asked.kind is not QuestionKind.CLIENT_TOOL or call is None:
            return self._nothing
        return self._client_asked(asked, call, not self._unsettled)

    def _close_paragraph(self, reply: ModelSaid, text: str) -> None:
        """What follows a reply with words is another paragraph, unless the reply was cut off."""
        self._gap = not was_cut(reply) and (self._gap or bool(text.strip()))

    def _spaced(self, words: str) -> str:
        """The words, behind a blank line if they begin another paragraph."""
        if not self._gap:
            return words
        self._gap = False
        return f"\n\n{words}"

    # --- the steps, for a face to print ---

    def _words(self, words: str) -> Out:
        """More of the open model call."""
        return self._nothing

    def _again(self) -> Out:
        """Words that were shown are void, and others replace them."""
        return self._nothing

    def _caught_up(self, rest: RemainingText) -> Out:
        """Somebody joins: this is left to show of the open model call."""
        again = self._again() if rest.void else self._nothing
        written: Out = operator.add(again, self._words(rest.text)) if rest.text else again
        return written

    def _voided(self, shown: bool) -> Out:
        """The open model call begins anew; `shown` says whether any of its words were."""
        return self._again() if shown else self._nothing

    def _replied(self, reply: ModelSaid, text: str, rest: RemainingText) -> Out:
        """A model call is over. `text` is the reply without thoughts, `rest` is left to show of it."""
        written = self._caught_up(rest)
        self._close_paragraph(reply, text)
        return written

    def _thought(self, text: str) -> Out:
        """More of what the model thinks, each word of it once."""
        return self._nothing

    def _thought_late(self, text: str) -> Out:
        """More of what it thinks after the first word of the call."""
        return self._thought(text)

    def _retrying(self, retry: Retrying) -> Out:
        return self._nothing

    def _noticed(self, text: str) -> Out:
        return self._nothing

    def _tool_began(self, call: ToolCall) -> Out:
        return self._nothing

    def _tool_printed(self, call: ToolCall, text: str) -> Out:
        return self._nothing

    def _child_worked(self, call: ToolCall, text: str) -> Out:
        """A child that the call waits for has taken a step."""
        return self._tool_printed(call, text)

    def _tool_ended(self, call: ToolCall, result: ToolFinished, seconds: float | None) -> Out:
        """A call has its result; without `seconds` it never began."""
        return self._nothing

    def _people_asked(self, asked: Asked, call: ToolCall | None) -> Out:
        return self._nothing

    def _client_asked(self, asked: Asked, call: ToolCall, last: bool) -> Out:
        """An API client has to run a tool of its own. Such calls come when every other call of the reply is
        settled; `last` marks the last of them."""
        return self._nothing

    def _answered(self, answer: Answered, asked: Asked | None) -> Out:
        """`asked` is the question, if it was a step."""
        return self._nothing

    def _user_said(self) -> Out:
        return self._nothing

    def _undone(self, since: int) -> Out:
        return self._nothing

    def _ended(self, end: TurnEnd) -> Out:
        return self._nothing
