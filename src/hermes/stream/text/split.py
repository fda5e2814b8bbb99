"""Splits a markdown text into parts that each fit into one message once they are printed.

Parts are filled from the front, and each cut depends only on the text before the overflow, so a growing
text keeps its first cuts. A part is a tree like the whole: fences are closed and reopened, styles continue.
"""

from __future__ import annotations

import itertools
import re
from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from msgspec import Struct

from hermes.domain.chats.capabilities import Capabilities, Flavour, TextUnit
from hermes.domain.chats.message import Body, PrintedText
from hermes.domain.word import replace
from hermes.stream.text import markdown as md
from hermes.stream.text.cut import Blocks, VisibleText, cut, leading_part, loosened
from hermes.stream.text.flavours.plain import PlainPrinter
from hermes.stream.text.print import printer

MIN_LIMIT = 20

# How full a message must be, as a fraction, before it may end at a boundary of this sort.
_BLOCK_FILL = 1 / 3
_LINE_FILL = 1 / 2
_SENTENCE_FILL = 1 / 2

_SENTENCE_END = re.compile(r"[.!?…][\"')\]»”’]*(?=\s)|[。！？][」』）]*")
_MAX_GUESSES = 6
_MAX_AFTER_REACH = 3
_FEW_SEAMS = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class MessagePart:
    """One message's worth of a text, `printed` as the platform gets it."""

    printed: str
    blocks: Blocks = field(repr=False)
    source: str = ""
    """The text as its author wrote it, if it is all in this part."""

    @property
    def text(self) -> str:
        """The part as Markdown, with every fence closed."""
        return self.source or printer(Flavour.COMMONMARK).document(self.blocks)


def split(text: str, *, limit: int, unit: TextUnit, flavour: Flavour) -> tuple[MessagePart, ...]:
    """The parts of a text in order; none if there is nothing to show. The limit is at least 20."""
    if limit < MIN_LIMIT:
        raise ValueError(f"a message of {limit} {unit} cannot hold a text: {MIN_LIMIT} is the least")
    doc = md.parse(text)
    parts = _Splitting(doc.blocks, limit, unit, printer(flavour)).parts()
    if len(parts) == 1:
        parts[0] = replace(parts[0], source=doc.source.strip("\n").rstrip(" \t\n"))
    return tuple(parts)


def split_bodies(text: str, able: Capabilities, limit: int | None = None) -> list[Body]:
    """A Markdown text as bodies that each fit into one message; none if there is nothing to show. They keep
    their Markdown for hooks, reports and later changes, and their print for the adapter: no text is parsed
    twice between its author and the platform."""
    limit = able.max_text if limit is None else limit
    parts = split(text, limit=limit, unit=able.unit, flavour=able.flavour)
    return [
        Body(text=part.text, printed=PrintedText(text=part.printed, flavour=able.flavour, limit=limit))
        for part in parts
    ]


class _Piece(Struct, frozen=True, kw_only=True):
    """A block that waits for its message. One that is `begun` goes on in the next message, so nothing may
    follow it in its own."""

    block: md.Block
    begun: bool = False


class _Splitting:
    """One text on its way into parts: pieces move from `_waiting` (next one last) to `_current`."""

    def __init__(self, blocks: Blocks, limit: int, unit: TextUnit, prints: PlainPrinter) -> None:
        self._limit = limit
        self._measure = unit.measure
        self._prints = prints
        self._gap = unit.measure(prints.gap)
        self._waiting = [_Piece(block=block) for block in reversed(blocks)]
        self._current: list[_Piece] = []
        self._used = 0
        self._parts: list[MessagePart] = []

    def parts(self) -> list[MessagePart]:
        while self._waiting or self._current:
            if not self._waiting:
                self._finish()
                continue
            piece = self._waiting.pop()
            size = self._size_of_piece(piece)
            if size <= self._room():
                self._add(piece, size)
                if piece.begun:
                    self._finish()
            elif self._current and self._used >= self._limit * _BLOCK_FILL:
                self._finish_before(piece)
            else:
                self._begin(piece)
        return self._parts

    def _room(self) -> int:
        return self._limit - self._used - self._gap if self._current else self._limit

    def _size(self, block: md.Block) -> int:
        return self._measure(self._prints.block(block))

    def _size_of_piece(self, piece: _Piece) -> int:
        """The size of a piece; of a long one only that it is too long, as it comes by once per message."""
        if VisibleText.length((piece.block,), 2 * self._limit) > 2 * self._limit:
            return 2 * self._limit
        return self._size(piece.block)

    def _add(self, piece: _Piece, size: int) -> None:
        self._used += size + (self._gap if self._current else 0)
        self._current.append(piece)

    def _begin(self, piece: _Piece) -> None:
        """Put the beginning of a block that is too long into the room, and let the rest wait."""
        search = _Search(piece.block, self._room(), self._size_of_all)
        halves = search.gentle()
        if halves is None and self._current:
            self._finish_before(piece)
            return
        if halves is None:
            halves = search.between_characters() or _forced(piece.block, search)
        head, tail = halves
        self._waiting += reversed(_pieces(tail, begun=piece.begun))
        if head:
            self._current += _pieces(head, begun=True)
            self._finish()

    def _size_of_all(self, blocks: Blocks) -> int:
        return sum(map(self._size, blocks)) + self._gap * (len(blocks) - 1) if blocks else 0

    def _finish_before(self, piece: _Piece) -> None:
        """End the message before a piece and before the headings that lead to it."""
        self._waiting.append(piece)
        while len(self._current) > 1 and isinstance(self._current[-1].block, md.Heading):
            self._waiting.append(self._current.pop())
        self._finish()

    def _finish(self) -> None:
        blocks = tuple(piece.block for piece in self._current)
        self._current, self._used = [], 0
        self._parts.append(MessagePart(blocks=blocks, printed=self._prints.document(blocks)))


def _pieces(blocks: Blocks, *, begun: bool) -> list[_Piece]:
    """The blocks of one that was cut; only the last of them goes on, if any does."""
    last = len(blocks) - 1
    return [_Piece(block=block, begun=begun and place == last) for place, block in enumerate(blocks)]


def _forced(block: md.Block, search: _Search) -> tuple[Blocks, Blocks]:
    """Break into a message of its own what does not fit into one: first what is around it, then itself."""
    is_bare = isinstance(block, md.Paragraph) and isinstance(block.children[0], md.Text | md.Code)
    if (is_bare or isinstance(block, md.CodeBlock)) and (
        halves := search.between_characters(breaks_fragile=True)
    ):
        return halves
    looser = loosened(block)
    return ((), looser) if looser is not None else search.anywhere()


class _Search:
    """The search for the place where a block that is too long is cut to fill a room."""

    def __init__(self, block: md.Block, room: int, size_of: Callable[[Blocks], int]) -> None:
        self._block = block
        self._front = leading_part(block, room)
        self._room = room
        self._size_of = size_of
        self._visible = VisibleText.of(block, room)

    @cached_property
    def _starts(self) -> Sequence[int]:
        return _character_starts(self._visible)

    @cached_property
    def _reach(self) -> int:
        """The last place in the visible text up to which the block fits."""
        return self._furthest(range(min(len(self._visible.text), self._room) + 1))

    def gentle(self) -> tuple[Blocks, Blocks] | None:
        """Cut between blocks, lines, sentences or words, in this order of liking."""
        # With many seams the last one that fits is found sooner than the reach, and mostly it is the place.
        seam = self._furthest((0, *self._visible.seams)) if len(self._visible.seams) > _FEW_SEAMS else 0
        if seam >= self._room * _BLOCK_FILL and (halves := self._cut(seam)):
            return halves
        for place in (self._last_seam(), self._last_line(), self._last_sentence(), self._last_blank()):
            if place and (halves := self._cut(place)):
                return halves
        return None

    def anywhere(self) -> tuple[Blocks, Blocks]:
        """Cut even through a character that has more marks than the message has room."""
        halves = self._cut(self._reach)
        assert halves is not None, "a message of the least size holds at least one code point"
        return halves

    def between_characters(self, *, breaks_fragile: bool = False) -> tuple[Blocks, Blocks] | None:
        """Cut between two characters as a reader sees them. A shorter text is not always printed shorter (a
        mark at its end may need an escape), so a place before the reach may not fit, and one after it may."""
        before = range(self._reach, 0, -1)
        after = range(self._reach + 1, len(self._visible.text) + 1)
        free = (place for place in before if self._is_free(place, breaks_fragile))
        next_free = (place for place in after if self._is_free(place, breaks_fragile))
        for place in itertools.chain(free, itertools.islice(next_free, _MAX_AFTER_REACH)):
            if halves := self._cut(place):
                return halves
        return None

    def _furthest(self, places: Sequence[int]) -> int:
        """The last of these places up to which the block fits; the first of them is its beginning."""
        low, high = 0, len(places)
        size_low, size_high = 0, self._room + 1
        guessed = high - 1
        for guess in itertools.count():
            if high - low <= 1:
                return places[low]
            size = self._size_of(cut(self._front, places[guessed])[0])
            if size <= self._room:
                low, size_low = guessed, size
            else:
                high, size_high = guessed, size
            # Sizes grow almost evenly, so interpolation is near at once; halving ends what it does not.
            share = (self._room - size_low) / (size_high - size_low) if guess < _MAX_GUESSES else 0.5
            guessed = min(max(low + int((high - low) * share), low + 1), high - 1)
        raise AssertionError("the search ends when its bounds meet")

    def _cut(self, place: int) -> tuple[Blocks, Blocks] | None:
        head, tail = cut(self._block, place)
        if not head or self._size_of(head) > self._room:
            return None
        return head, tail

    def _last_seam(self) -> int:
        seams = self._visible.seams
        number = bisect_right(seams, self._reach)
        return seams[number - 1] if number and seams[number - 1] >= self._reach * _BLOCK_FILL else 0

    def _last_line(self) -> int:
        return self._last("\n", int(self._reach * _LINE_FILL))

    def _last_sentence(self) -> int:
        start = int(self._reach * _SENTENCE_FILL)
        ends = [match.end() for match in _SENTENCE_END.finditer(self._visible.text, start, self._reach + 1)]
        return next((end for end in reversed(ends) if end <= self._reach and self._is_free(end)), 0)

    def _last_blank(self) -> int:
        return max(self._last(blank, 1) for blank in " \n\t\u3000")

    def _last(self, blank: str, start: int) -> int:
        place = self._reach + 1
        while (place := self._visible.text.rfind(blank, start, place)) > 0:
            if self._is_free(place):
                return place
        return 0

    def _is_free(self, place: int, breaks_fragile: bool = False) -> bool:
        """Whether a cut here breaks neither a character nor what is to stay whole."""
        whole = [*self._visible.solid, *([] if breaks_fragile else self._visible.fragile)]
        if any(start < place < end for start, end in whole):
            return False
        return self._starts[bisect_right(self._starts, place) - 1] == place


def _character_starts(visible: VisibleText) -> Sequence[int]:
    """Where the characters that a reader sees (grapheme clusters) begin, and where the last one ends. A mark
    on the other side of an edge of code or of a link is a character of its own: it is shown apart, and else
    code and links that fit could not be kept whole."""
    text = visible.text
    if text.isascii():
        return range(len(text) + 1)
    import regex

    starts = {match.start() for match in regex.finditer(r"\X", text)}
    edges = (
        place for stretch in (*visible.solid, *visible.fragile) for place in stretch if place < len(text)
    )
    return sorted({*starts, *edges, len(text)})
