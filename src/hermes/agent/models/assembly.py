"""A reply being put together, whatever its wire format: words, thoughts and calls under one limit, characters
whose halves came apart, calls that were written instead of made, and how the reply ends.

Pure: knows no socket and no clock. A format reads its own events and tells them to a `ReplyAssembly`; what
came in one read becomes one piece.
"""

from __future__ import annotations

from collections.abc import Callable, Collection

from msgspec import Struct, field

from hermes.agent.call_repair import may_be_written_call, written_call
from hermes.agent.models.faults import fault_for, read_error_object
from hermes.domain.errors import FaultKind, ModelFault, Refused
from hermes.domain.ids import CallId
from hermes.domain.models.usage import Usage
from hermes.domain.ports.agent import ModelEnd
from hermes.domain.sse import SseParser
from hermes.domain.text import storable
from hermes.domain.tools.tool import ToolCall
from hermes.domain.turns.event import Ending, Kept, TextDelta, ThoughtDelta

# Where an answer ends that would not: characters of words, thoughts and arguments together, calls, and bytes.
MOST_TEXT = 4 * 1024 * 1024
MOST_CALLS = 128
MOST_BYTES = 256 * 1024 * 1024
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"


def broken(words: str) -> ModelFault:
    return ModelFault(words, kind=FaultKind.BROKEN)


def too_long() -> ModelFault:
    words = "the answer grew beyond every measure and was cut off."
    return ModelFault(words, kind=FaultKind.BAD_REQUEST)


class _OpenCall(Struct, kw_only=True):
    id: str = ""
    name: str = ""
    arguments: list[str] = field(default_factory=list)


class ReplyAssembly(Struct, kw_only=True):
    """Takes what a format has read, hands out pieces, and knows at the end whether the reply is whole.

    `most_text` bounds words, thoughts and arguments together; calls beyond `most_calls` are left out. If
    `tools` are given, a reply that is nothing but a call of one of them, written as text, is taken as that
    call; words that may become one are held back until it is clear.

    The format sets `ending` or `fault` when the reply says how it ends, `done` when nothing more can come,
    `kept` to what its service wants back, and `refused` if the words are the model's refusal."""

    most_text: int = MOST_TEXT
    most_calls: int = MOST_CALLS
    model: str = ""
    place: str = ""
    secret: str = ""
    tools: Collection[str] = ()
    done: bool = False
    ending: Ending | None = None
    fault: ModelFault | None = None
    usage: Usage = field(default_factory=Usage)
    answered_by: str = ""
    kept: Kept | None = None
    refused: bool = False
    _text: str = ""
    _thought: str = ""
    _spoke: bool = False
    _half: str = ""
    _size: int = 0
    _calls: list[_OpenCall] = field(default_factory=list)
    _by_index: dict[int, _OpenCall | None] = field(default_factory=dict)

    # --- what a format tells

    @property
    def is_over(self) -> bool:
        """Whether the reply has said how it ends; usage may still come."""
        return self.ending is not None or self.fault is not None

    @property
    def has_calls(self) -> bool:
        return bool(self._calls)

    def spoke(self) -> None:
        """There is an answer, though it may be empty."""
        self._spoke = True

    def say(self, text: str) -> None:
        self.grow(len(text))
        if self._half or not text.isascii():
            text = self._mend(text)
        elif "\0" in text:
            text = storable(text)
        self._text += text

    def think(self, text: str) -> None:
        self.grow(len(text))
        self._thought += storable(text)

    def call(
        self, *, index: int | None = None, id: str | None = None, name: str | None = None, arguments: str = ""
    ) -> None:
        """A piece of a call. Some services send no index, some always the same one; then another id, or
        without ids another name, begins another call."""
        call = self._call_of(index, id, name)
        if call is None:
            return
        if name and not call.name:
            self.grow(len(name))
            call.name = name
        if arguments:
            self.grow(len(arguments))
            call.arguments.append(arguments)

    def fail(self, error: object) -> None:
        """The stream brought an error instead of an answer."""
        details = read_error_object(error, secret=self.secret)
        raise fault_for(details, model=self.model, place=self.place)

    def grow(self, more: int) -> None:
        self._size += more
        if self._size > self.most_text:
            raise too_long()

    # --- what a provider hands on

    def pieces(self, *, whole: bool = False) -> list[TextDelta | ThoughtDelta]:
        """What was said since the last time; all that is left if the reply is whole."""
        pieces: list[TextDelta | ThoughtDelta] = []
        if self._thought:
            pieces.append(ThoughtDelta(text=self._thought))
            self._thought = ""
        if self.tools and self._text and not self._holds_back(whole):
            self.tools = ()
        if self._text and not self.tools:
            pieces.append(TextDelta(text=self._text))
            self._text = ""
        return pieces

    def end(self) -> ModelEnd:
        """The end of a whole reply; a fault if it is none."""
        if self.fault is not None:
            raise self.fault
        if self.ending is None and not self.done:
            raise broken("the model's answer broke off")
        if not self._spoke:
            raise broken("the model's answer had nothing in it")
        calls = tuple(
            ToolCall(id=CallId(call.id), name=call.name, arguments="".join(call.arguments))
            for call in self._calls
            if call.name or call.arguments
        )
        cut = self.ending is Ending.LENGTH
        return ModelEnd(
            calls=calls,
            ending=Ending.LENGTH if cut else Ending.CALLS if calls else Ending.STOP,
            usage=self.usage,
            model=self.answered_by or self.model,
            kept=self.kept,
            refused=self.refused,
        )

    # --- inside

    def _holds_back(self, whole: bool) -> bool:
        """Whether the words so far are, or may become, a call that was written instead of made."""
        if self._calls or not whole:
            return not self._calls and may_be_written_call(self._text)
        call = written_call(self._text, self.tools)
        if call is not None:
            self._calls.append(_OpenCall(name=call.name, arguments=[call.arguments]))
        return call is not None

    def _mend(self, text: str) -> str:
        """Join characters whose halves came in different chunks; a half at the end waits for the other."""
        text, self._half = self._half + text, ""
        if text and "\ud800" <= text[-1] <= "\udbff":
            text, self._half = text[:-1], text[-1]
        try:
            text.encode()
        except UnicodeEncodeError:
            text = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
        return storable(text)

    def _call_of(self, index: int | None, id: str | None, name: str | None) -> _OpenCall | None:
        if index is not None:
            known = self._by_index.get(index)
            if known is not None and not (id and known.id and id != known.id):
                known.id = known.id or id or ""
                return known
            if known is None and index in self._by_index:
                return None
        elif self._calls and not name and id in (None, "", self._calls[-1].id):
            return self._calls[-1]
        self.grow(64)
        call = None
        if len(self._calls) < self.most_calls:
            call = _OpenCall(id=id or "")
            self._calls.append(call)
        if index is not None:
            self._by_index[index] = call
        return call


class ReplyBody:
    """The body of an answer, fed as it comes: a stream of events, or one JSON object if it opens like one.
    `take` is the format's reader of one event or object."""

    def __init__(
        self,
        reply: ReplyAssembly,
        take: Callable[[bytes], None],
        *,
        text: int = MOST_TEXT,
        wire: int = MOST_BYTES,
    ) -> None:
        self._reply = reply
        self._take = take
        self._events = SseParser(limit=2 * text)
        self._whole: list[bytes] | None = None
        self._left = wire
        self._most_whole = 2 * text
        self._begun = False

    def feed(self, data: bytes) -> list[TextDelta | ThoughtDelta]:
        if not self._begun:
            self._begun = True
            if data.removeprefix(_BYTE_ORDER_MARK).lstrip()[:1] in (b"{", b"<", b"["):
                self._whole, self._left = [], self._most_whole
        self._left -= len(data)
        if self._left < 0:
            raise too_long()
        if self._whole is not None:
            self._whole.append(data)
            return []
        try:
            events = self._events.feed_raw(data)
        except Refused:
            raise too_long() from None
        for event, _, _ in events:
            self._take(event)
        return self._reply.pieces()

    def close(self) -> list[TextDelta | ThoughtDelta]:
        """What the end of the body completes."""
        reply = self._reply
        if self._whole is not None:
            self._take(b"".join(self._whole).removeprefix(_BYTE_ORDER_MARK))
            reply.done = True
        elif not reply.is_over and not reply.done:
            for event, _, _ in self._events.close():
                self._take(event)
        return reply.pieces(whole=True)
