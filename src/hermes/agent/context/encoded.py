"""The prompt of a warm session, encoded once for any wire format.

Of a warm session only what is new is encoded: the bytes of sealed messages are kept in the request's `memory`
and never change, so a long conversation costs no more than its last turn. A message with images is kept as it
is, without the images, and encoded with each request: a picture is larger than a whole conversation.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Self

from msgspec import Struct, field

from hermes.agent.context import transcript_messages as transcript
from hermes.domain.ports.agent import ModelRequest
from hermes.domain.turns.event import Entry, UserSaid
from hermes.domain.turns.turn import Speaker

Images = Mapping[str, str] | None
EncodeMessage = Callable[[transcript.ModelMessage, Images], bytes]
"""One message in a wire format. Images are data URLs by their hash; one that is missing is told of in words,
and so are all if there is no such mapping."""
Between = Callable[[transcript.Role | None, transcript.Role], bytes]
"""What stands before a message of the second role that follows one of the first."""
_NO_IMAGES: Mapping[str, str] = {}


def _nothing(before: transcript.Role | None, role: transcript.Role) -> bytes:
    return b""


def comma(before: transcript.Role | None, role: transcript.Role) -> bytes:
    return b"" if before is None else b","


class EncodedPrompt(Struct, kw_only=True):
    """The messages of a request in their order, and who speaks each; the system prompt is not among them."""

    parts: list[bytes]
    roles: list[transcript.Role]


class _EncodedTranscript(Struct, kw_only=True):
    """A transcript that was encoded before, as far as it is sealed."""

    shared: bool
    model: str
    notes: Mapping[int, str]
    conversation: transcript.ContextFold
    between: Between
    first: Entry | None = None
    last: Entry | None = None
    count: int = 0
    sealed: list[bytes] = field(default_factory=list)
    roles: list[transcript.Role] = field(default_factory=list)
    pictured: list[int] = field(default_factory=list)

    @classmethod
    def of(cls, request: ModelRequest, fold: transcript.ContextFold, between: Between) -> Self:
        notes = dict(request.notes)
        return cls(
            shared=request.shared, model=request.model, notes=notes, conversation=fold, between=between
        )

    def leads_to(self, request: ModelRequest) -> bool:
        """Whether the request begins with what was encoded. The ends tell: an undo takes from the end, a
        summary puts itself in front, and a number is never given twice. Another model may get less of it:
        see `Kept`."""
        entries = request.entries
        if self.shared is not request.shared or self.count > len(entries) or self.model != request.model:
            return False
        if self.notes != request.notes:
            # Something was forgotten or noted: what tells of it is written anew.
            return False
        return not self.count or (entries[0] is self.first and entries[self.count - 1] is self.last)

    def take(self, entries: Sequence[Entry], encode: EncodeMessage) -> None:
        if len(entries) > self.count:
            self.conversation.add(entries[self.count :])
            self.first, self.last, self.count = entries[0], entries[-1], len(entries)
        for place in range(len(self.sealed), len(self.conversation.sealed)):
            message = self.conversation.sealed[place]
            self.roles.append(message.role)
            if message.images:
                self.pictured.append(place)
            self.sealed.append(b"" if message.images else self.encoded(place, _NO_IMAGES, encode))

    def encoded(self, place: int, images: Images, encode: EncodeMessage) -> bytes:
        before = self.roles[place - 1] if place else None
        return self.between(before, self.roles[place]) + encode(self.conversation.sealed[place], images)

    def with_images(self, images: Images, encode: EncodeMessage) -> list[bytes]:
        """The sealed messages, each whole."""
        if not self.pictured:
            return self.sealed
        whole = list(self.sealed)
        for place in self.pictured:
            whole[place] = self.encoded(place, images, encode)
        return whole


def _ends_with_results(request: ModelRequest) -> bool:
    """Whether a client brought results of tools and no words."""
    first = request.entries[0].record if request.entries else None
    said = not isinstance(first, UserSaid) or first.text or first.attachments
    return request.history[-1].by is Speaker.TOOL and not said


def encode_prompt(
    request: ModelRequest,
    encode: EncodeMessage,
    *,
    format: str,
    variant: str = "",
    between: Between = _nothing,
    results_show: bool = False,
    kept: bool = True,
) -> EncodedPrompt:
    """The messages of a request. `format` names the wire format: what it keeps is its own, and left out
    unless `kept`. A format that writes the same message in several ways names each `variant`. What stands
    `between` messages is at the beginning of their parts."""
    key = ".".join(filter(None, ("encoded", format, variant, "" if kept else "bare")))
    warm = request.memory.get(key)
    if not isinstance(warm, _EncodedTranscript) or not warm.leads_to(request):
        fold = transcript.ContextFold(
            shared=request.shared,
            format=format if kept else "",
            model=request.model,
            notes=dict(request.notes),
            results_show=results_show,
        )
        warm = request.memory[key] = _EncodedTranscript.of(request, fold, between)
    warm.take(request.entries, encode)
    images = request.images
    tail = warm.conversation.tail()
    sealed, roles = warm.with_images(images, encode), warm.roles
    before = transcript.recalled(request.history) if request.history else []
    if before and _ends_with_results(request):
        # Nothing was said after the results, so nothing is told after them.
        if sealed:
            sealed, roles = sealed[1:], roles[1:]
        else:
            tail = [before.pop()]
    tail = transcript.with_ending(tail, spoken=request.spoken, note=request.note)
    if before and before[-1].role is transcript.Role.USER:
        # Users and replies take turns, so the last of these words and the first of the transcript are one.
        if sealed:
            before[-1] = transcript.joined(before[-1], warm.conversation.sealed[0])
            sealed, roles = sealed[1:], roles[1:]
        else:
            before[-1], tail = transcript.joined(before[-1], tail[0]), tail[1:]
    if before and sealed:
        # The first of these was encoded as the first of all.
        place = len(warm.sealed) - len(sealed)
        first = between(before[-1].role, roles[0]) + encode(warm.conversation.sealed[place], images)
        sealed = [first, *sealed[1:]]
    every = [*(message.role for message in before), *roles, *(message.role for message in tail)]

    def encoded(messages: Sequence[transcript.ModelMessage], start: int) -> Iterator[bytes]:
        for place, message in enumerate(messages, start):
            yield between(every[place - 1] if place else None, message.role) + encode(message, images)

    parts = [*encoded(before, 0), *sealed, *encoded(tail, len(every) - len(tail))]
    return EncodedPrompt(parts=parts, roles=every)
