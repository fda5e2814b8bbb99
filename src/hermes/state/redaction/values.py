"""Loaded values, found in texts as they are, escaped or encoded; however many there are, a text is read a few
times only.

Long needles are found by eight bytes of theirs: a text is read as numbers of eight bytes, without looking at
the places between, and whatever stands in it somewhere has eight of its bytes in one of those numbers. Only
needles that share a number with the text are then looked for. What may stand between digits (line ends, the
separators of hexadecimal) is taken out of the text before it is read, and allowed where it is found."""

from __future__ import annotations

import json
import re
import sys
import threading
from base64 import b64encode
from collections.abc import Iterable, Iterator, Mapping
from urllib.parse import quote, quote_plus

from msgspec import Struct, field

from hermes.state.redaction.runs import Span, runs

LEAST_LENGTH = 6
START = 4
"""So many first characters of a value tell that it may have begun; fewer tell so at the end of a piece."""
_CHUNK, _LEAST_CHUNK = 48, 12
"""Long values are looked for in parts, so that a line of one is recognised without the others."""
_WORD = 8
_LEAST_LONG = 2 * _WORD - 1
_CASELESS = 12
_BLANKS = b" \t\r\n\v\f"
_ONE_ALPHABET = bytes.maketrans(b"-_", b"+/")
_ONE_CASE = bytes.maketrans(b"ABCDEF", b"abcdef")
_AS_HEX = bytes(97 if sign in b"0123456789abcdef" else 32 for sign in range(256))
_MARKUP = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;"})
_QUOTED_MARKUP = _MARKUP | str.maketrans({'"': "&quot;", "'": "&#x27;"})
_DROPPED = re.compile(r"[^\x00-\x08\x0e-\x1f!-\x7f]")
"""Blanks, and what is not ASCII; the other way round, for a class of a million signs is slow to make."""
_DROPPED_OF_HEX = re.compile(r"0x|[^\x00-\x08\x0e-\x1f!-+.-9;-\[\]-wy-\x7f]")
_DUMPED = re.compile(
    r"^[ \t]{0,16}[0-9a-fA-F]{6,16}:?[ \t]{1,4}((?:[0-9a-fA-F]{2} {0,2}){1,16})(?=[ \t|]|$)[^\n]{0,200}",
    re.MULTILINE,
)
"""A line of a dump: where it is, at most sixteen bytes, and the same as text."""


class _Needles(Struct, frozen=True, kw_only=True):
    """What is looked for in one reading of a text: the short ones one by one, the long by their numbers."""

    short: tuple[bytes, ...] = ()
    long: Mapping[int, tuple[bytes, ...]] = field(default_factory=dict)
    numbers: frozenset[int] = frozenset()

    def plus(self, new: Iterable[bytes]) -> _Needles:
        short, long = dict.fromkeys(self.short), dict(self.long)
        for needle in new:
            if len(needle) < _LEAST_LONG:
                short[needle] = None
                continue
            for place in range(_WORD):
                number = int.from_bytes(needle[place : place + _WORD], sys.byteorder)
                if needle not in long.get(number, ()):
                    long[number] = (*long.get(number, ()), needle)
        return _Needles(short=tuple(short), long=long, numbers=frozenset(long))

    def within(self, data: bytes) -> list[bytes]:
        hits = [needle for needle in self.short if needle in data]
        words = memoryview(data)[: len(data) // _WORD * _WORD].cast("Q")
        near = {needle for number in self.numbers.intersection(words) for needle in self.long[number]}
        return hits + [needle for needle in near if needle in data]


class _Search(Struct, frozen=True, kw_only=True):
    """All that is looked for. `spellings` stand in a text as they are; `raw` are found in dumps; `starts`
    are the spellings by their first characters, `leads` the fewer ones with which they begin; `joined` and
    `digits` are those of `squeezed` and `hex` by their first."""

    spellings: tuple[str, ...] = ()
    squeezed: _Needles = field(default_factory=_Needles)
    hex: _Needles = field(default_factory=_Needles)
    raw: tuple[bytes, ...] = ()
    starts: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    joined: Mapping[bytes, tuple[bytes, ...]] = field(default_factory=dict)
    digits: Mapping[bytes, tuple[bytes, ...]] = field(default_factory=dict)
    leads: frozenset[str] = frozenset()


class LoadedValues:
    """The values that are never shown. Learning and searching may happen in different threads."""

    __slots__ = ("_learning", "_search", "_values")

    def __init__(self) -> None:
        self._learning = threading.Lock()
        self._values: dict[str, None] = {}
        self._search = _Search()

    def __iter__(self) -> Iterator[str]:
        return iter(tuple(self._values))

    @property
    def count(self) -> int:
        return len(self._values)

    @property
    def version(self) -> object:
        """Another one whenever there is more to look for."""
        return self._search

    def learn(self, values: Iterable[str]) -> None:
        values = tuple(values)  # they may be those of another, which has a lock of its own
        with self._learning:
            self._learn(values)

    def _learn(self, values: Iterable[str]) -> None:
        known = self._values
        new = [value for value in dict.fromkeys(values) if len(value) >= LEAST_LENGTH and value not in known]
        if not new:
            return
        self._values = {**known, **dict.fromkeys(new)}
        before, lines = self._search, dict.fromkeys(line for value in new for line in _lines(value))
        spellings, starts = dict.fromkeys(before.spellings), dict(before.starts)
        squeezed: list[bytes] = []
        hexed: list[bytes] = []
        raw, leads = dict.fromkeys(before.raw), set[str]()
        for line in lines:
            spelled = _spellings(line)
            for spelling in spelled:
                plain = _squeeze(spelling)
                if len(plain) < _LEAST_LONG or not spelling.isascii() or "\n" in line:
                    spellings[spelling] = None
                if len(plain) >= _LEAST_LONG and "\n" not in line:
                    squeezed += _chunks(plain)
            for part in _chunks(line.encode("utf-8", "surrogatepass")):
                raw[part] = None
                squeezed += (inner := list(_inner_base64(part)))
                hexed.append(part.hex().encode())
                spelled |= {digits.decode() for digits in inner} | {part.hex(), part.hex().upper()}
                spelled |= {digits.decode().translate({43: "-", 47: "_"}) for digits in inner}
            for spelling in spelled:
                leads |= {spelling[:size] for size in range(1, START)}
                if len(spelling) > START and spelling not in starts.get(spelling[:START], ()):
                    starts[spelling[:START]] = (*starts.get(spelling[:START], ()), spelling)
        self._search = _Search(
            spellings=tuple(spellings),
            squeezed=before.squeezed.plus(squeezed),
            hex=before.hex.plus(hexed),
            raw=tuple(raw),
            starts=starts,
            joined=_by_start(before.joined, squeezed),
            digits=_by_start(before.digits, hexed),
            leads=before.leads | leads,
        )

    def spans(self, text: str) -> list[Span]:
        """Where values stand in a text, in any order."""
        search = self._search
        spans: list[Span] = []
        for spelling in search.spellings:
            start, step = text.find(spelling), 0
            while start >= 0:
                step = step or _period(spelling)
                spans.append((start, start + len(spelling)))
                start = text.find(spelling, start + step)
        if not search.raw:
            return spans
        data = text.encode("ascii", "ignore")
        squeezed = _squeezed(data)
        spans += _found(text, squeezed, search.squeezed.within(squeezed), _DROPPED)
        data = _digits(data)
        digits = b" ".join(data[start:end] for start, end in runs(data.translate(_AS_HEX), 2 * LEAST_LENGTH))
        spans += _found(text, data, search.hex.within(digits), _DROPPED_OF_HEX)
        if _has_dump(text):
            spans += _dumped(text, search.raw)
        return spans

    def begins_in(self, text: str, start: int) -> bool:
        """Whether something begins as a value does in what is new from `start` on, with what stood before."""
        search = self._search
        since = max(0, start - START + 1)
        if any(text[place : place + START] in search.starts for place in range(since, len(text) - START + 1)):
            return True
        if not search.raw:
            return False
        whole, before = text.encode("ascii", "ignore"), text[:start].encode("ascii", "ignore")
        for read, starts in ((_squeezed, search.joined), (_digits, search.digits)):
            data, since = read(whole), max(0, len(read(before)) - START)
            if any(data[place : place + START] in starts for place in range(since, len(data) - START + 1)):
                return True
        return _has_dump(text)

    def led_to(self, text: str) -> int:
        """How many characters at the end of a text may be the first few of a value; one alone counts where a
        word begins only: any text has it."""
        leads = self._search.leads
        for size in range(min(START - 1, len(text)), 0, -1) if leads else ():
            if text[-size:] in leads and (size > 1 or not text[-2:-1].isalnum()):
                return size
        return 0

    def open_from(self, text: str, since: int = 0) -> int:
        """Where a value may have begun in a text whose end is not there yet; else the length of the text."""
        starts, end = self._search.starts, len(text)
        for place in range(since, len(text) - START + 1):
            spellings = starts.get(text[place : place + START], ())
            if any(len(each) > end - place and each.startswith(text[place:]) for each in spellings):
                end = place
                break
        return min(end, self._open_apart(text))

    def _open_apart(self, text: str) -> int:
        """The same for one with blanks, separators or lines of a dump between its parts."""
        search = self._search
        if not search.raw:
            return len(text)
        begin, end = max(0, len(text) - _LONGEST_OPEN), len(text)
        tail = text[begin:]
        data = tail.encode("ascii", "ignore")
        readings = (
            (_squeezed(data), search.joined, _DROPPED),
            (_digits(data), search.digits, _DROPPED_OF_HEX),
        )
        for read, starts, dropped in readings:
            for place in range(len(read) - START + 1):
                rest = read[place:] if read[place : place + START] in starts else b""
                needles = starts[rest[:START]] if rest else ()
                # The last zero may be that of the next `0x`.
                ends = (rest, rest.removesuffix(b"0"))
                if any(len(needle) > len(ends[1]) and needle.startswith(ends) for needle in needles):
                    end = min(end, begin + _kept(tail, dropped)[place])
                    break
        return min(end, begin + _open_dump(tail, search.raw)) if _has_dump(tail) else end


_LONGEST_OPEN = 2048


def _by_start(
    earlier: Mapping[bytes, tuple[bytes, ...]], needles: Iterable[bytes]
) -> dict[bytes, tuple[bytes, ...]]:
    starts = dict(earlier)
    for needle in dict.fromkeys(needles):
        starts[needle[:START]] = (*starts.get(needle[:START], ()), needle)
    return starts


def _period(needle: str | bytes) -> int:
    """How far apart the nearest two of the same can begin: parts that repeat themselves overlap."""
    return next(step for step in range(1, len(needle) + 1) if needle[step:] == needle[: len(needle) - step])


def _found(text: str, data: bytes, needles: Iterable[bytes], dropped: re.Pattern[str]) -> Iterator[Span]:
    """Where needles stand in a text that is read without some of its signs."""
    places: list[int] = []
    for needle in needles:
        places = places or _kept(text, dropped)
        start, step = data.find(needle), _period(needle)
        while start >= 0:
            yield places[start], places[start + len(needle) - 1] + 1
            start = data.find(needle, start + step)


def _kept(text: str, dropped: re.Pattern[str]) -> list[int]:
    """The places of the signs that are read."""
    places: list[int] = []
    last = 0
    for sign in dropped.finditer(text):
        places += range(last, sign.start())
        last = sign.end()
    return [*places, *range(last, len(text))]


def _has_dump(text: str) -> bool:
    return text.startswith("000") or "\n000" in text or " 000" in text


def _open_dump(text: str, raw: Iterable[bytes]) -> int:
    """Where the line of a dump begins in whose bytes a value may have begun that goes on; else the length."""
    lines = list(_DUMPED.finditer(text))
    if not lines or "\n" in text[lines[-1].end() :].rstrip("\n0123456789abcdefABCDEF: \t"):
        return len(text)
    dumped, owners = bytearray(), list[int]()
    for line in lines:
        read = bytes.fromhex(line[1])
        dumped += read
        owners += [line.start()] * len(read)
    for place in range(max(0, len(dumped) - _CHUNK - _LEAST_CHUNK), len(dumped)):
        rest = dumped[place:]
        if any(len(part) > len(rest) and part.startswith(rest) for part in raw):
            return owners[place]
    return len(text)


def _dumped(text: str, raw: Iterable[bytes]) -> list[Span]:
    """The lines of a dump that hold a part of a value."""
    lines = list(_DUMPED.finditer(text))
    dumped, owners = bytearray(), []
    for number, line in enumerate(lines):
        read = bytes.fromhex(line[1])
        dumped += read
        owners += [number] * len(read)
    hidden: set[Span] = set()
    for part in raw:
        start = dumped.find(part)
        while start >= 0:
            # One span for all its lines: while the last of them goes on, none is let through.
            hidden.add((lines[owners[start]].start(1), lines[owners[start + len(part) - 1]].end()))
            start = dumped.find(part, start + 1)
    return list(hidden)


def _lines(value: str) -> Iterator[str]:
    """A value, and each line of one that has several: they are told one by one, too. Rulers are no secret."""
    if len(value) >= LEAST_LENGTH:
        yield value
    if "\n" in value:
        for line in map(str.strip, value.splitlines()):
            if len(line) >= LEAST_LENGTH and not line.startswith("-----"):
                yield line


def _spellings(value: str) -> set[str]:
    """A value as it is, in an address, in JSON, HTML or a `repr`; a long one also in one case."""
    encoded = value.encode("utf-8", "surrogatepass")
    addressed = quote(encoded, safe="")
    written = json.dumps(value)[1:-1]
    spelled = {
        value, addressed, quote(encoded), quote_plus(encoded), _lower_hex(addressed),
        written, written.replace("/", "\\/"), json.dumps(value, ensure_ascii=False)[1:-1],
        "".join(f"\\u{ord(sign):04x}" if sign in "<>&'" else sign for sign in written),
        value.translate(_QUOTED_MARKUP), value.translate(_MARKUP), repr(value)[1:-1],
    }  # fmt: skip
    if value.isascii() and len(value) >= _CASELESS and any(sign.isdigit() for sign in value):
        spelled |= {value.upper(), value.lower()}
    return spelled


def _lower_hex(addressed: str) -> str:
    return re.sub("%..", lambda byte: byte[0].lower(), addressed)


def _squeeze(text: str) -> bytes:
    return _squeezed(text.encode("ascii", "ignore"))


def _squeezed(data: bytes) -> bytes:
    return data.translate(_ONE_ALPHABET, _BLANKS)


def _digits(data: bytes) -> bytes:
    """Without what may stand between hexadecimal digits."""
    return data.replace(b"0x", b"").translate(_ONE_CASE, _BLANKS + b":,\\x-")


def _chunks(data: bytes) -> Iterator[bytes]:
    start = 0
    while len(data) - start >= _CHUNK + _LEAST_CHUNK:
        yield data[start : start + _CHUNK]
        start += _CHUNK
    yield data[start:]


def _inner_base64(data: bytes) -> Iterator[bytes]:
    """The digits that do not depend on its neighbours, for each of three places in a group of three bytes."""
    for before in range(3):
        digits = b64encode(bytes(before) + data)
        yield digits[-(-before * 8 // 6) : (before + len(data)) * 8 // 6]
