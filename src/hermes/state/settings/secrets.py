"""The secrets that were loaded: found by name, shown as `***`, and taken out of every text and log line; and
what is no secret although it stands where one should."""

from __future__ import annotations

import json
import logging
import re
from base64 import b64encode
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from urllib.parse import quote

from hermes.domain.settings.declaring import Secret

LEAST_LENGTH = 6
_STANDARD = frozenset(vars(logging.makeLogRecord({})))
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

_PASSWORD_IN_ADDRESS = re.compile(r"://[^/\s@:]*:([^/\s@]+)@")
_PLACEHOLDER = re.compile(
    r"<.*>|\[.*\]|x{3,}|\*+|\.{3,}|(?:sk-)?(?:your|my)[-_ ].*|change[-_ ]?me|placeholder|todo|.*[-_ ]here",
    re.IGNORECASE,
)


def password_in(value: str) -> str:
    """The password inside an address like `http://name:password@host`, if there is one."""
    match = _PASSWORD_IN_ADDRESS.search(value)
    return match[1] if match else ""


def looks_like_placeholder(value: str) -> bool:
    """Whether somebody copied an example and did not fill it in."""
    return _PLACEHOLDER.fullmatch(value.strip()) is not None


class _Hidden:
    """What is taken out of texts, as it is looked for."""

    __slots__ = ("base64", "hex", "raw", "spellings")

    def __init__(self) -> None:
        self.spellings: list[str] = []
        self.raw: dict[bytes, None] = {}
        self.base64: dict[bytes, None] = {}
        self.hex: dict[bytes, None] = {}

    def spell(self, new: Iterable[str]) -> None:
        """The longest are looked for first: one may be a part of another."""
        both = {*self.spellings, *new}
        self.spellings = sorted(both, key=lambda spelling: (-len(spelling), spelling))


class Secrets:
    """Name → secret. Names are variables (`OPENAI_API_KEY`) or dotted keys (`model.api_key`).

    Values are also looked for in base64 and hexadecimal: at any place of what was encoded, in lines, with
    separators, and in the dumps of `xxd` and `hexdump -C`."""

    __slots__ = ("_hidden", "_secrets")

    def __init__(self, values: Mapping[str, str] | None = None, *, also: Iterable[str] = ()) -> None:
        """`also` are values without a name that must be taken out of texts all the same."""
        self._secrets = {name: Secret(value) for name, value in (values or {}).items() if value}
        self._hidden = _Hidden()
        self.learn(*(secret.reveal() for secret in self._secrets.values()), *also)

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(sorted(self._secrets))

    def get(self, name: str) -> Secret | None:
        return self._secrets.get(name)

    def reveal(self, name: str) -> str:
        """The value itself; empty where there is none."""
        secret = self._secrets.get(name)
        return secret.reveal() if secret else ""

    def __contains__(self, name: object) -> bool:
        return name in self._secrets

    def values(self) -> dict[str, str]:
        """Those that were loaded, by name."""
        return {name: secret.reveal() for name, secret in self._secrets.items()}

    def join(self, earlier: Secrets) -> None:
        """Hide from now on what another generation hides, and it what this one does, with all that joined it
        before or will: a turn that runs holds the one it began with."""
        own, self._hidden = self._hidden, earlier._hidden
        self._hidden.raw |= own.raw
        self._hidden.base64 |= own.base64
        self._hidden.hex |= own.hex
        self._hidden.spell(own.spellings)

    def learn(self, *values: str) -> None:
        """Take these out of texts from now on, too: secrets that were made after the settings were read."""
        lines = [line for value in values for line in _lines(value)]
        for line in lines:
            for part in _chunks(line.encode("utf-8", "surrogatepass")):
                self._hidden.raw[part] = self._hidden.hex[part.hex().encode()] = None
                self._hidden.base64.update(dict.fromkeys(_inner_base64(part)))
        self._hidden.spell(spelling for line in lines for spelling in _spellings(line))

    def redact(self, text: str) -> str:
        """The text with `***` in place of every loaded value, also where it is escaped or encoded."""
        # Plain searches: one pattern of all spellings would try each of them at each character.
        for spelling in self._hidden.spellings:
            if spelling in text:
                text = text.replace(spelling, "***")
        return self._redact_encoded(text) if self._hidden.spellings else text

    def _redact_encoded(self, text: str) -> str:
        """What may stand between digits is taken out for the search; what is found is then looked for."""
        data = text.encode("ascii", "replace")
        squeezed = data.translate(_ONE_ALPHABET, _BLANKS)
        for part in tuple(self._hidden.base64):
            if part in squeezed:
                text = _base64_pattern(part.decode()).sub("***", text)
        if b"0x" in data:
            data = data.replace(b"0x", b"")
        squeezed = data.translate(_ONE_CASE, _BLANKS + b":,\\x")
        for part in tuple(self._hidden.hex):
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
        for part in tuple(self._hidden.raw):
            start = dumped.find(part)
            while start >= 0:
                hidden.update(owners[start : start + len(part)])
                start = dumped.find(part, start + 1)
        for number in sorted(hidden, reverse=True):
            text = f"{text[: lines[number].start(1)]}***{text[lines[number].end() :]}"
        return text

    def __repr__(self) -> str:
        return f"Secrets({', '.join(self.names)})"


def _spellings(value: str) -> set[str]:
    """A value as it is, as it stands in an address, in JSON or a `repr`."""
    return {value, quote(value, safe=""), json.dumps(value)[1:-1], repr(value)[1:-1]}


def _lines(value: str) -> Iterator[str]:
    """A value, and each line of one that has several: they are told one by one, too. Rulers are no secret."""
    if len(value) >= LEAST_LENGTH:
        yield value
    if "\n" in value:
        for line in map(str.strip, value.splitlines()):
            if len(line) >= LEAST_LENGTH and not line.startswith("-----"):
                yield line


class RedactingFilter(logging.Filter):
    """Takes secrets out of log records. Put it on handlers: a logger's filter misses its children."""

    def __init__(self, secrets: Secrets) -> None:
        super().__init__()
        self._secrets = secrets

    def filter(self, record: logging.LogRecord) -> bool:
        redact = self._secrets.redact
        try:
            message = record.getMessage()
        except (TypeError, ValueError, KeyError):
            # `logging` would print message and arguments to stderr, past every filter.
            message = f"{record.msg} {record.args!r}"
        record.msg, record.args = redact(message), ()
        if record.exc_info:
            record.exc_text = record.exc_text or logging.Formatter().formatException(record.exc_info)
            record.exc_info = None
        if record.exc_text:
            record.exc_text = redact(record.exc_text)
        if record.stack_info:
            record.stack_info = redact(record.stack_info)
        for name, value in vars(record).items():
            if name not in _STANDARD and isinstance(value, str):
                setattr(record, name, redact(value))
        return True


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


@lru_cache(maxsize=64)
def _base64_pattern(digits: str) -> re.Pattern[str]:
    spelled = ({"+": "[+-]", "/": "[/_]"}.get(digit, digit) for digit in digits)
    return re.compile(r"\s*".join(spelled))


@lru_cache(maxsize=64)
def _hex_pattern(digits: str) -> re.Pattern[str]:
    pairs = (digits[place : place + 2] for place in range(0, len(digits), 2))
    return re.compile(_BETWEEN.join(pairs), re.IGNORECASE)
