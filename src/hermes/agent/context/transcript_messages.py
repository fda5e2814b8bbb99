"""The transcript as messages for a model: a pure fold that any wire format can print.

Whatever the transcript went through, the messages are valid: the first is the user's, users and replies take
turns, every call has exactly one result right behind it, in the order of the calls, and nothing is empty.
A message is `sealed` once nothing that may still come can change it, so an encoding of it can be kept.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum
from typing import assert_never

from msgspec import Struct, field

from hermes.agent.context.summary_message import summary_message
from hermes.domain.chats.message import Attachment, MediaKind
from hermes.domain.ids import CallId
from hermes.domain.safety.outside import defused, fence, with_fences
from hermes.domain.tools.deferral import as_made
from hermes.domain.tools.tool import ToolCall
from hermes.domain.turns.event import (
    Answered,
    Asked,
    Cleared,
    Ending,
    Entry,
    Failed,
    Finished,
    ModelSaid,
    QuestionKind,
    Record,
    Restored,
    Stopped,
    Summarised,
    ToolFinished,
    ToolStarted,
    Undone,
    UserSaid,
)
from hermes.domain.turns.thoughts import without_thoughts
from hermes.domain.turns.turn import EarlierMessage, Speaker
from hermes.domain.word import replace

CONTINUE = (
    "[Your reply was cut off here. Go on exactly where it stopped, in the middle of the word if need be. "
    "Do not repeat anything and do not comment on this.]"
)
_BEGINNING = "(The conversation goes on.)"
_NOTED = "[What you noted about who speaks:]"
NO_NOTES: Mapping[int, str] = {}
_NO_WORDS = "(no words)"
_NO_OUTPUT = "(no output)"
_PICTURES = "[The pictures of the results above:]"
_NO_RESULT = "Interrupted: no result was recorded for this call."
_CUT = (Ending.LENGTH, Ending.BROKEN)
CLEARED_OVER = 200
"""Results with more characters are cleared."""
CLEARED_ARGUMENTS = 500
_CLEARED = (
    "[This result ({size} characters{how}) was cleared to make room. Call the tool again if you need it.]"
)


class Role(StrEnum):
    USER = "user"
    ASSISTANT = "assistant"
    TOOL = "tool"
    SYSTEM = "system"


class ModelMessage(Struct, frozen=True, kw_only=True):
    """`calls` are a reply's; `call` is what a tool's message is the result of; `images` came with words of
    the user's, which may be none then, or with a result, where the format can show them there. `kept` is what
    the service wants back with a reply, unread."""

    role: Role
    text: str = ""
    calls: tuple[ToolCall, ...] = ()
    call: CallId | None = None
    images: tuple[Attachment, ...] = ()
    kept: str = ""
    tool: str = ""
    """Whose result a tool's message is."""


class _Reply(Struct, kw_only=True):
    """The reply at the end of the messages; it grows while replies follow each other."""

    text: str
    cut: bool
    calls: tuple[ToolCall, ...]
    results: dict[CallId, str] = field(default_factory=dict)
    images: list[Attachment] = field(default_factory=list)
    """What the results show, where a result is text alone: pictures follow behind all."""
    shown: dict[CallId, tuple[Attachment, ...]] = field(default_factory=dict)
    """What each result shows, where a result can have pictures."""
    kept: str = ""
    renamed: dict[CallId, CallId] = field(default_factory=dict)
    """Ids of calls that an earlier reply had, and what the calls are named instead."""

    def join(self, text: str, reply: ModelSaid, kept: str) -> None:
        glue = "" if self.cut or not text else "\n\n"
        self.text += glue + text
        self.cut = _is_cut(reply)
        self.calls = _distinct(reply.calls)
        self.kept = kept

    def messages(self) -> list[ModelMessage]:
        calls, names = self.calls, self.renamed
        if names:
            calls = tuple(replace(call, id=names.get(call.id, call.id)) for call in calls)
        reply = ModelMessage(role=Role.ASSISTANT, text=self.text, calls=calls, kept=self.kept)
        results = (
            ModelMessage(
                role=Role.TOOL,
                call=names.get(call.id, call.id),
                text=self.results.get(call.id, _NO_RESULT),
                images=self.shown.get(call.id, ()),
                tool=call.name,
            )
            for call in self.calls
        )
        return [reply, *results]


class ContextFold:
    """The fold. `sealed` only grows; `tail()` is what the rest looks like if nothing more comes. What was
    kept for another `format` or `model` than these is left out. If `results_show`, results keep their
    pictures; otherwise these follow as a message of the user's. Formats that can show them also want every id
    of a call once in a conversation, while models of other formats count anew in each reply."""

    def __init__(
        self,
        *,
        shared: bool = False,
        format: str = "",
        model: str = "",
        notes: Mapping[int, str] = NO_NOTES,
        results_show: bool = False,
    ) -> None:
        self._notes = notes
        self._results_show = results_show
        self._ids: set[CallId] = set()
        self.sealed: list[ModelMessage] = []
        self._shared = shared
        self._format = format
        self._model = model
        self._words: list[str] = []
        self._images: list[Attachment] = []
        self._reply: _Reply | None = None
        self._cleared = -1
        self._answered: set[CallId] = set()
        """Calls that child agents or people answered: nobody can bring their results again."""

    def add(self, entries: Iterable[Entry]) -> None:
        """Take further entries, of which nothing is hidden (see `visible`)."""
        for entry in entries:
            self._take(entry.record, cleared=entry.seq <= self._cleared)

    def recall(self, history: Iterable[EarlierMessage]) -> None:
        """Take what a client says came before, by the same rules."""
        for earlier in history:
            if earlier.by is Speaker.SYSTEM:
                self._instruct(earlier.text)
            else:
                self._take(_as_record(earlier))

    def _instruct(self, text: str) -> None:
        """Instructions in the middle of a conversation, in their place."""
        self._seal()
        if not text.strip():
            return
        last = self.sealed[-1] if self.sealed else None
        if last is not None and last.role is Role.SYSTEM:
            self.sealed[-1] = replace(last, text=f"{last.text}\n\n{text}")
        else:
            self.sealed.append(ModelMessage(role=Role.SYSTEM, text=text))

    def tail(self) -> list[ModelMessage]:
        if self._reply is not None:
            shown = tuple(self._reply.images)
            pictures = ModelMessage(role=Role.USER, text=_PICTURES, images=shown)
            return [*self._reply.messages(), *([pictures] if shown else [])]
        if self._words or self._images:
            return [ModelMessage(role=Role.USER, text="\n\n".join(self._words), images=tuple(self._images))]
        return []

    def _take(self, record: Record, *, cleared: bool = False) -> None:
        match record:
            case UserSaid():
                images = () if cleared else tuple(filter(is_image, record.attachments))
                self._hear(_user_text(record, self._notes, shared=self._shared, blind=cleared), images)
            case ModelSaid():
                self._speak(_shortened(record) if cleared else record)
            case ToolFinished():
                self._take_result(record, cleared and record.call not in self._answered)
            case Summarised():
                self._hear(summary_message(record))
            case Cleared(upto=upto):
                self._cleared = max(self._cleared, upto)
            case Asked(kind=QuestionKind.CHILD | QuestionKind.CLARIFY, call=call) if call is not None:
                self._answered.add(call)
            case ToolStarted() | Asked() | Answered() | Restored() | Undone():
                pass
            case Finished() | Failed() | Stopped():
                pass
            case _:
                assert_never(record)

    def _take_result(self, result: ToolFinished, cleared: bool) -> None:
        reply, call = self._reply, result.call
        if reply is None or call in reply.results or all(call != one.id for one in reply.calls):
            return
        reply.results[call] = _cleared_text(result) if cleared else result_text(result)
        images = () if cleared else tuple(filter(is_image, result.attachments))
        if self._results_show:
            reply.shown[call] = images
        else:
            reply.images += images

    def _hear(self, words: str, images: tuple[Attachment, ...] = ()) -> None:
        if self._reply is not None:
            self.sealed += self._reply.messages()
            # What is said next joins the pictures: users and replies take turns.
            self._words, self._images = [_PICTURES] if self._reply.images else [], self._reply.images
            self._reply = None
        if words:
            self._words.append(words)
        self._images += images

    def _speak(self, reply: ModelSaid) -> None:
        text = without_thoughts(reply.text)
        if not text.strip():
            text = ""
        if not text and not reply.calls:
            return
        if self._reply is not None and not self._reply.calls:
            self._reply.join(text, reply, self._kept(reply))
            self._name_calls(self._reply)
            return
        self._seal()
        if all(message.role is Role.SYSTEM for message in self.sealed):
            self.sealed.append(ModelMessage(role=Role.USER, text=_BEGINNING))
        self._reply = _Reply(
            text=text, cut=_is_cut(reply), calls=_distinct(reply.calls), kept=self._kept(reply)
        )
        self._name_calls(self._reply)

    def _name_calls(self, reply: _Reply) -> None:
        for call in reply.calls if self._results_show else ():
            if call.id in self._ids:
                reply.renamed[call.id] = CallId(f"{call.id[:48]}_{len(self._ids)}")
            self._ids.add(reply.renamed.get(call.id, call.id))

    def _kept(self, reply: ModelSaid) -> str:
        kept = reply.kept
        if kept is None or (kept.format, kept.model) != (self._format, self._model):
            return ""
        return kept.text

    def _seal(self) -> None:
        self.sealed += self.tail()
        self._words = []
        self._images = []
        self._reply = None


def messages(entries: Iterable[Entry], *, shared: bool = False) -> list[ModelMessage]:
    conversation = ContextFold(shared=shared)
    conversation.add(entries)
    return [*conversation.sealed, *conversation.tail()]


def recalled(history: Iterable[EarlierMessage]) -> list[ModelMessage]:
    """All messages of what a client says came before."""
    conversation = ContextFold()
    conversation.recall(history)
    return [*conversation.sealed, *conversation.tail()]


def joined(before: ModelMessage, after: ModelMessage) -> ModelMessage:
    """Two messages of the user's as one; words of ours that only opened the second are left out."""
    texts = (before.text, "" if after.text == _BEGINNING else after.text)
    text = "\n\n".join(text for text in texts if text)
    return replace(before, text=text, images=before.images + after.images)


def with_ending(tail: Sequence[ModelMessage], *, spoken: str = "", note: str = "") -> list[ModelMessage]:
    """The open messages as one request needs them: with words that were heard before the stream broke,
    and with a note of ours behind everything."""
    ending = list(tail) or [ModelMessage(role=Role.USER, text=_BEGINNING)]
    if spoken.strip():
        last = ending[-1]
        if last.role is Role.ASSISTANT:
            ending[-1] = replace(last, text=last.text + spoken)
        else:
            ending.append(ModelMessage(role=Role.ASSISTANT, text=spoken))
        note = CONTINUE if not note or note == CONTINUE else f"{CONTINUE}\n\n{note}"
    if note:
        last = ending[-1]
        if last.role is Role.USER:
            ending[-1] = joined(last, ModelMessage(role=Role.USER, text=note))
        else:
            ending.append(ModelMessage(role=Role.USER, text=note))
    return ending


def _is_cut(reply: ModelSaid) -> bool:
    return reply.partial or reply.ending in _CUT


def _distinct(calls: tuple[ToolCall, ...]) -> tuple[ToolCall, ...]:
    return tuple({call.id: as_made(call) for call in reversed(calls)}.values())[::-1]


def notes_of(record: Record) -> tuple[int, ...]:
    """The entries of a person's memory that a record names."""
    return record.notes if isinstance(record, UserSaid) else ()


def _person_notes(message: UserSaid, notes: Mapping[int, str]) -> str:
    lines = [f"- {notes[note]}" for note in message.notes if note in notes]
    return "\n".join([_NOTED, *lines]) if lines else ""


def _user_text(message: UserSaid, noted: Mapping[int, str], *, shared: bool, blind: bool = False) -> str:
    words = with_fences(message.text)
    if shared and message.author:
        words = f"[{message.author}] {words}"
    shown = [] if blind else [one for one in message.attachments if is_image(one)]
    notes = [attachment_note(one) for one in message.attachments if one not in shown or one.path]
    text = "\n\n".join(
        part
        for part in (_person_notes(message, noted), with_fences(message.context), words, *notes)
        if part.strip()
    )
    return text or ("" if shown else _NO_WORDS)


def result_text(result: ToolFinished) -> str:
    """A result as the model is told it, with a line for each file; what came from outside is fenced."""
    text = result.text if result.text.strip() else _NO_OUTPUT
    if result.outside:
        text = fence(text, result.call)
    notes = (attachment_note(file) for file in result.attachments if file.path or not is_image(file))
    return "\n\n".join([text, *notes])


def _cleared_text(result: ToolFinished) -> str:
    if len(result.text) <= CLEARED_OVER:
        return result_text(result)
    how = ", a failure" if result.failed else ""
    notes = (attachment_note(file) for file in result.attachments)
    return "\n\n".join([_CLEARED.format(size=len(result.text), how=how), *notes])


def _shortened(reply: ModelSaid) -> ModelSaid:
    """A reply with the long arguments of its calls cut; what its service wanted back fits no more then."""
    if all(len(call.arguments) <= CLEARED_ARGUMENTS for call in reply.calls):
        return reply
    calls = (replace(call, arguments=_short_arguments(call.arguments)) for call in reply.calls)
    return replace(reply, calls=tuple(calls), kept=None)


def _short_arguments(arguments: str) -> str:
    if len(arguments) <= CLEARED_ARGUMENTS:
        return arguments
    given = read_object(arguments)
    most = CLEARED_ARGUMENTS // max(2 * len(given), 2)
    return json.dumps({name: _cut_value(value, most) for name, value in given.items()}, ensure_ascii=False)


def read_object(text: str) -> dict[str, object]:
    """The arguments of a call; empty if nobody can read them."""
    try:
        given = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    return given if isinstance(given, dict) else {}


def _cut_value(value: object, most: int) -> object:
    told = str(value)
    return value if len(told) <= most else f"{told[:most]}… [cut: {len(told)} characters]"


def _as_record(earlier: EarlierMessage) -> Record:
    match earlier.by:
        case Speaker.USER:
            return UserSaid(text=earlier.text, attachments=earlier.attachments)
        case Speaker.AGENT:
            return ModelSaid(text=earlier.text, calls=earlier.calls)
        case Speaker.TOOL:
            call = earlier.call or CallId("")
            return ToolFinished(call=call, text=earlier.text, attachments=earlier.attachments)
        case Speaker.SYSTEM:
            raise AssertionError("instructions are no record")


def is_image(attachment: Attachment) -> bool:
    """Whether the model can be shown it: an image that was fetched, or that has an address on the web. One
    that it had made is shown to the person."""
    if (
        attachment.kind is not MediaKind.IMAGE
        or attachment.problem
        or attachment.pending
        or attachment.outgoing
    ):
        return False
    return attachment.sha256 is not None or is_on_the_web(attachment)


def is_on_the_web(attachment: Attachment) -> bool:
    return attachment.ref.startswith(("https://", "http://"))


def attachment_note(attachment: Attachment) -> str:
    facts = [attachment.kind.value, *(_claimed(word) for word in (attachment.name, attachment.mime) if word)]
    if attachment.size is not None:
        facts.append(f"{attachment.size} bytes")
    if attachment.path:
        facts.append(f"at {attachment.path}")
    more = f"; {attachment.note}" if attachment.note else ""
    if attachment.problem:
        more += f"; it could not be fetched: {attachment.problem}"
    told = ", ".join(fact for fact in facts if fact)
    if not attachment.text:
        return f"[attached: {told}{more}]"
    if attachment.kind is MediaKind.VOICE:
        words = "\n".join(f"> {line}" for line in attachment.text.splitlines())
    else:
        words = fence(attachment.text, attachment.sha256 or attachment.ref)
    return f"[attached: {told}{more}; what it says:]\n{words}"


def _claimed(word: str) -> str:
    """What a sender calls a file: on one line, and no words of ours."""
    return defused(word).replace("\n", "\\u000a").replace("[", "(").replace("]", ")")
