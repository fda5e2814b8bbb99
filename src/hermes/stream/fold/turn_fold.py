"""A turn's feed folded into what people see: texts, tool lines, the open question, the end.

Owns how tool progress looks in chats and which text a turn delivers. Knows no platform and no clock."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from enum import StrEnum
from itertools import groupby
from typing import assert_never

from hermes.domain.event import (
    Answered,
    Asked,
    Ending,
    Entry,
    Failed,
    FeedItem,
    Finished,
    ModelSaid,
    QuestionKind,
    Reset,
    Retrying,
    Snapshot,
    Stopped,
    Summarised,
    TextDelta,
    ThoughtDelta,
    ToolFinished,
    ToolOutput,
    ToolStarted,
    Undone,
    UserSaid,
    Verdict,
)
from hermes.domain.ids import CallId, QuestionId
from hermes.domain.text import one_line
from hermes.domain.thoughts import ThoughtFilter, without_thoughts
from hermes.domain.tool import ToolCall
from hermes.domain.turn import Question, TurnState
from hermes.stream.fold.drafts import is_silence, may_be_silence, without_directives

SAID_AGAIN = "— interrupted, saying it again —"
"""What a door that cannot take words back says before words that replace earlier ones."""

# --- tools ---------------------------------------------------------------------------------------


class ProgressLevel(StrEnum):
    """How much of the tools' work a chat shows: nothing, each change of tool, each call, or each
    call with its arguments."""

    OFF = "off"
    NEW = "new"
    ALL = "all"
    VERBOSE = "verbose"


class ToolState(StrEnum):
    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"
    UNKNOWN = "outcome unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolLine:
    """One call of the turn; a later record of the same call changes its state, never its place."""

    seq: int
    call: CallId
    name: str
    arguments: str = ""
    state: ToolState = ToolState.RUNNING

    @property
    def plain(self) -> str:
        """`read_file notes.txt`, for doors without markup."""
        return f"{self.name} {preview(self.arguments)}".rstrip()

    @property
    def hidden(self) -> bool:
        return is_internal(self.name)


_EMOJI = {
    "browser": "🌐",
    "clarify": "❓",
    "cronjob": "⏰",
    "delegate": "🔀",
    "execute": "💻",
    "image": "🎨",
    "memory": "🧠",
    "patch": "🔧",
    "read": "📖",
    "search": "🔎",
    "send": "📨",
    "session": "🔎",
    "skill": "📚",
    "terminal": "💻",
    "text": "🔊",
    "todo": "📋",
    "web": "🌐",
    "write": "✏️",
}
_TELLING = ("command", "path", "file_path", "query", "url", "pattern", "code", "prompt", "text", "name")
_MOST_LINES = 6


def is_internal(tool: str) -> bool:
    """Tools named with a leading underscore are the agent's own business and are shown nowhere."""
    return tool.startswith("_")


def emoji(tool: str) -> str:
    return _EMOJI.get(tool.partition("_")[0], "⚙️")


def preview(arguments: str, limit: int = 48) -> str:
    """The most telling argument of a call on one short line; the arguments may be any text."""
    try:
        given = json.loads(arguments or "{}")
    except (ValueError, RecursionError):
        return one_line(arguments, limit)
    if not isinstance(given, dict):
        return one_line(arguments, limit)
    telling = (given[key] for key in _TELLING if isinstance(given.get(key), str) and given[key].strip())
    others = (value for value in given.values() if isinstance(value, str) and value.strip())
    return one_line(next(telling, None) or next(others, ""), limit)


def command_text(arguments: str) -> str:
    """What is to be approved, word for word."""
    try:
        given = json.loads(arguments)
    except (ValueError, RecursionError):
        return arguments
    command = given.get("command") if isinstance(given, dict) else None
    return command if isinstance(command, str) else arguments


def tool_state(finished: ToolFinished) -> ToolState:
    if finished.unknown:
        return ToolState.UNKNOWN
    return ToolState.FAILED if finished.failed else ToolState.DONE


def chat_line(tool: ToolLine, progress: ProgressLevel) -> str:
    """How one call looks in a chat, as markdown. This is the one place that decides it."""
    shown = one_line(tool.arguments, 200) if progress is ProgressLevel.VERBOSE else preview(tool.arguments)
    words = f"{tool.name} {shown}".rstrip().replace("`", "'")
    state = "" if tool.state is ToolState.RUNNING else f" {tool.state.value}"
    return f"{emoji(tool.name)} `{words}` …{state}"


def chat_lines(tools: Iterable[ToolLine], progress: ProgressLevel) -> str:
    """Neighbouring calls as one paragraph; of a long row only the latest are shown."""
    row = [tool for tool in tools if not tool.hidden]
    if progress is ProgressLevel.OFF:
        return ""
    if progress is ProgressLevel.NEW:
        row = [next(same) for _, same in groupby(row, key=lambda tool: tool.name)]
    lines = [chat_line(tool, progress) for tool in row[-_MOST_LINES:]]
    if len(row) > _MOST_LINES:
        lines.insert(0, f"… {len(row) - _MOST_LINES} earlier")
    return "\n".join(lines)


# --- questions -----------------------------------------------------------------------------------

_APPROVALS = tuple(verdict.value for verdict in (Verdict.ONCE, Verdict.SESSION, Verdict.ALWAYS, Verdict.DENY))


def choices(asked: Asked | Question) -> tuple[str, ...]:
    """What one may answer; an approval that names nothing takes the usual four words."""
    return asked.options or (_APPROVALS if asked.kind is QuestionKind.APPROVAL else ())


def for_people(asked: Asked) -> bool:
    """Whether a person is asked; children and API clients are waited for silently."""
    return asked.kind in (QuestionKind.APPROVAL, QuestionKind.CLARIFY, QuestionKind.CONFIRM)


def question_text(asked: Asked | Question) -> str:
    options = "".join(f"\n{number}. {option}" for number, option in enumerate(choices(asked), 1))
    return f"{asked.text}\n{options}" if options else asked.text


def asked_of_client(entries: Iterable[Entry]) -> list[tuple[Asked, ToolCall]]:
    """The calls of its own tools that a client must answer, once all of a reply's have been asked for; they
    come last, when every other call of the reply is settled."""
    calls: dict[CallId, ToolCall] = {}
    left: set[CallId] = set()
    asked: list[tuple[Asked, ToolCall]] = []
    for entry in entries:
        record = entry.record
        if isinstance(record, ModelSaid):
            calls, asked = {call.id: call for call in record.calls}, []
            left = set(calls)
        elif isinstance(record, Asked | ToolFinished) and record.call in calls:
            left.discard(record.call)
            if isinstance(record, Asked) and record.kind is QuestionKind.CLIENT_TOOL:
                asked.append((record, calls[record.call]))
    return [] if left else asked


# --- the open model call -----------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class RemainingText:
    """What is left to show; if `void`, instead of what was shown and not after it."""

    text: str
    void: bool = False


class ShownText:
    """What one watcher was shown of the open model call."""

    __slots__ = ("_filter", "_shown")

    def __init__(self) -> None:
        self._filter = ThoughtFilter()
        self._shown: list[str] = []

    @property
    def text(self) -> str:
        return "".join(self._shown)

    def more(self, delta: str) -> str:
        """The part of a delta that is to be shown now."""
        words = self._filter.feed(delta)
        if not self._shown:
            words = words.lstrip("\n")
        if words:
            self._shown.append(words)
        return words

    def catch_up(self, whole: str) -> RemainingText:
        """The call's text so far is `whole`, whatever was heard of it."""
        before = self.text
        self.reset()
        self.more(whole)
        return _difference(before, self.text)

    def close(self, whole: str) -> RemainingText:
        """The call is over and `whole` is what it said."""
        before = self.text
        self.reset()
        return _difference(before, without_thoughts(whole).lstrip("\n"))

    def reset(self) -> bool:
        """The call's words are void; true if any were shown."""
        heard = bool(self._shown)
        self._filter = ThoughtFilter()
        self._shown = []
        return heard


def _difference(before: str, now: str) -> RemainingText:
    if now.startswith(before):
        return RemainingText(text=now[len(before) :])
    if now.strip() == before.strip():
        return RemainingText(text="")
    return RemainingText(text=now, void=True)


def was_cut(said: ModelSaid) -> bool:
    """The reply ended in the middle, so what the model says next goes on in the same paragraph."""
    return not said.calls and said.ending in (Ending.LENGTH, Ending.BROKEN)


def has_words(said: ModelSaid) -> bool:
    """The reply has text that people see, so what follows it is another paragraph."""
    return bool(without_thoughts(said.text).strip())


# --- the fold ------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class TextEntry:
    seq: int
    text: str


class Fold:
    """The view of one turn, kept up to date by `see`. Entries that were seen before are ignored."""

    def __init__(self) -> None:
        self.seq = -1
        self.state = TurnState.RUNNING
        self.reason = ""
        self.note = ""
        self._blocks: list[TextEntry | ToolLine] = []
        self._arguments: dict[CallId, tuple[str, str]] = {}
        self._questions: dict[QuestionId, Asked] = {}
        self._open = ShownText()
        self._continues = False

    @property
    def question(self) -> Asked | None:
        """The oldest question that is still open."""
        return next(iter(self._questions.values()), None)

    @property
    def tools(self) -> tuple[ToolLine, ...]:
        return tuple(block for block in self._blocks if isinstance(block, ToolLine))

    @property
    def text(self) -> str:
        """The visible text of the turn: finished calls and the open one, paragraph by paragraph."""
        return self.draft(ProgressLevel.OFF)

    def draft(self, progress: ProgressLevel = ProgressLevel.ALL) -> str:
        """The turn as a chat shows it while it runs, as markdown."""
        shown = []
        for is_tool, blocks in groupby(self._paragraphs(), key=lambda block: isinstance(block, ToolLine)):
            if is_tool:
                shown.append(chat_lines((tool for tool in blocks if isinstance(tool, ToolLine)), progress))
            else:
                shown.extend(block.text for block in blocks if isinstance(block, TextEntry))
        return "\n\n".join(part for part in shown if part)

    def _paragraphs(self) -> Iterator[TextEntry | ToolLine]:
        blocks = list(self._blocks)
        open_text = self._open.text
        if open_text and self._continues and blocks and isinstance(blocks[-1], TextEntry):
            blocks[-1] = replace(blocks[-1], text=blocks[-1].text + open_text)
        elif open_text:
            blocks.append(TextEntry(seq=self.seq, text=open_text))
        for block in blocks:
            if isinstance(block, ToolLine):
                yield block
                continue
            growing = bool(open_text) and block is blocks[-1]
            text = without_directives(block.text, growing=growing).strip()
            if text and not (may_be_silence(text) if growing else is_silence(text)):
                yield replace(block, text=text)

    def see(self, item: FeedItem) -> None:
        match item:
            case TextDelta(text=text):
                self._open.more(text)
            case Entry():
                if item.seq > self.seq:
                    self.seq = item.seq
                    self._take(item)
            case Snapshot(text=text):
                self._open.catch_up(text)
            case Reset():
                self._open.reset()
            case ThoughtDelta() | ToolOutput() | Retrying():
                pass
            case _:
                assert_never(item)

    def _take(self, entry: Entry) -> None:
        record = entry.record
        match record:
            case ModelSaid():
                self._close_call(entry.seq, record)
            case ToolStarted(call=call, name=name):
                self._mark(entry.seq, call, ToolState.RUNNING, name)
            case ToolFinished(call=call):
                self._mark(entry.seq, call, tool_state(record))
            case Asked(question=question):
                self._questions[question] = record
                self.state = TurnState.WAITING
            case Answered(question=question):
                self._questions.pop(question, None)
                self.state = TurnState.WAITING if self._questions else TurnState.RUNNING
            case UserSaid():
                self._continues = False
            case Undone(since=since):
                self._blocks = [block for block in self._blocks if block.seq < since]
            case Summarised():
                pass
            case Finished(note=note):
                self.note = note
                self._end(TurnState.DONE)
            case Failed(reason=reason):
                self._end(TurnState.FAILED, reason)
            case Stopped(reason=reason):
                self._end(TurnState.STOPPED, reason)
            case _:
                assert_never(record)

    def _close_call(self, seq: int, said: ModelSaid) -> None:
        self._open.reset()
        text = without_thoughts(said.text)
        last = self._blocks[-1] if self._blocks else None
        if self._continues and isinstance(last, TextEntry):
            self._blocks[-1] = replace(last, text=last.text + text)
        elif text.strip():
            self._blocks.append(TextEntry(seq=seq, text=text))
        self._continues = was_cut(said)
        self._arguments.update((call.id, (call.name, call.arguments)) for call in said.calls)

    def _mark(self, seq: int, call: CallId, state: ToolState, name: str = "") -> None:
        for place, block in enumerate(self._blocks):
            if isinstance(block, ToolLine) and block.call == call:
                self._blocks[place] = replace(block, state=state)
                return
        written, arguments = self._arguments.get(call, ("", ""))
        if name or written:
            line = ToolLine(seq=seq, call=call, name=name or written, arguments=arguments, state=state)
            self._blocks.append(line)

    def _end(self, state: TurnState, reason: str = "") -> None:
        self.state, self.reason = state, reason
        self._questions.clear()
        for tool in self.tools:
            if tool.state is ToolState.RUNNING:
                self._mark(tool.seq, tool.call, ToolState.UNKNOWN)


# --- a turn's records as text ----------------------------------------------------------------------


def _texts(entries: Iterable[Entry]) -> list[tuple[str, bool]]:
    """What the model said, reply by reply (cut replies joined), and whether calls followed it."""
    texts: list[tuple[str, bool]] = []
    continues = False
    for entry in entries:
        record = entry.record
        if isinstance(record, ModelSaid):
            text = without_thoughts(record.text)
            if continues:
                text = texts.pop()[0] + text
            texts.append((text, bool(record.calls)))
            continues = was_cut(record)
        elif isinstance(record, UserSaid):
            continues = False
    return texts


def _footer(entries: Iterable[Entry]) -> str:
    """The last line under the answer: the end's note or reason."""
    footer = ""
    for entry in entries:
        match entry.record:
            case Finished(note=words) | Failed(reason=words) | Stopped(reason=words):
                footer = words
            case _:
                pass
    return footer


def answer_text(entries: Iterable[Entry], *, footer: bool = True) -> str:
    """The text of a turn for delivery: the model's last reply without calls, and under it the note or
    the reason of the end. Directives stay: whoever delivers acts on them."""
    entries = tuple(entries)
    answer = next((text.strip() for text, calls in reversed(_texts(entries)) if not calls), "")
    return "\n\n".join(part for part in (answer, _footer(entries) if footer else "") if part)
