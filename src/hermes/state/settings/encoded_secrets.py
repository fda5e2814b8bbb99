"""Loaded values in base64 and hexadecimal: at any place of what was encoded, in lines, with separators, and
in the dumps of `xxd` and `hexdump -C`.

Texts are searched with all that may stand between digits taken out; what is found is then looked for."""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Iterable, Iterator
from functools import lru_cache

_CHUNK, _LEAST_CHUNK = 48, 12
"""Long values are looked for in parts, so that a line of one is recognised without the others."""
_BLANKS = b" \t\r\n"
_ONE_ALPHABET = bytes.maketrans(b"-_", b"+/")
_ONE_CASE = bytes.maketrans(b"ABCDEF", b"abcdef")
_BETWEEN = r"(?:[\s:,\\x]|0x)*"
_DUMPED = re.compile(
    r"^[ \t]*[0-9a-fA-F]{6,16}:?[ \t]+((?:[0-9a-fA-F]{2} {0,2}){1,16})(?=[ \t|]|$).*", re.MULTILINE
)
"""A line of a dump: where it is, at most sixteen bytes, and the same as text."""


class EncodedSecrets:
    """The values that are looked for, each at least six bytes."""

    __slots__ = ("_base64", "_hex", "_raw")

    def __init__(self) -> None:
        self._raw: dict[bytes, None] = {}
        self._base64: dict[bytes, None] = {}
        self._hex: dict[bytes, None] = {}

    def learn(self, values: Iterable[str]) -> None:
        for value in values:
            data = value.encode("utf-8", "surrogatepass")
            for part in _chunks(data):
                self._raw[part] = self._hex[part.hex().encode()] = None
                self._base64.update(dict.fromkeys(_inner_base64(part)))

    def redact(self, text: str) -> str:
        data = text.encode("ascii", "replace")
        squeezed = data.translate(_ONE_ALPHABET, _BLANKS)
        for part in self._base64:
            if part in squeezed:
                text = _base64_pattern(part.decode()).sub("***", text)
        if b"0x" in data:
            data = data.replace(b"0x", b"")
        squeezed = data.translate(_ONE_CASE, _BLANKS + b":,\\x")
        for part in self._hex:
            if part in squeezed:
                text = _hex_pattern(part.decode()).sub("***", text)
        return self._redact_dumps(text) if b"0000" in squeezed else text

    def _redact_dumps(self, text: str) -> str:
        lines = list(_DUMPED.finditer(text))
        dumped, owners = bytearray(), []
        for number, line in enumerate(lines):
            read = bytes.fromhex(line[1])
            dumped += read
            owners += [number] * len(read)
        hidden: set[int] = set()
        for part in self._raw:
            start = dumped.find(part)
            while start >= 0:
                hidden.update(owners[start : start + len(part)])
                start = dumped.find(part, start + 1)
        for number in sorted(hidden, reverse=True):
            text = f"{text[: lines[number].start(1)]}***{text[lines[number].end() :]}"
        return text


def _chunks(data: bytes) -> Iterator[bytes]:
    start = 0
    while len(data) - start >= _CHUNK + _LEAST_CHUNK:
        yield data[start : start + _CHUNK]
        start += _CHUNK
    yield data[start:]


def _inner_base64(data: bytes) -> Iterator[bytes]:
    """The digits that are the same whatever stands around it; three bytes are four digits, so there are three
    ways to begin."""
    for before in range(3):
        digits = b64encode(bytes(before) + data)
        yield digits[-(-before * 8 // 6) : (before + len(data)) * 8 // 6]


@lru_cache(maxsize=64)
def _base64_pattern(digits: str) -> re.Pattern[str]:
    spelled = ({"+": "[+-]", "/": "[/_]"}.get(digit, digit) for digit in digits)
    return re.compile(r"\s*".join(spelled))


@lru_cache(maxsize=64)
def _hex_pattern(digits: str) -> re.Pattern[str]:
    pairs = (digits[place : place + 2] for place in range(0, len(digits), 2))
    return re.compile(_BETWEEN.join(pairs), re.IGNORECASE)
