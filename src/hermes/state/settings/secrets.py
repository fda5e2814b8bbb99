"""The secrets that were loaded: found by name, shown as `***`, and taken out of every text and log line."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable, Iterator, Mapping
from urllib.parse import quote

from hermes.domain.settings.declaring import Secret
from hermes.state.settings.encoded_secrets import EncodedSecrets

LEAST_LENGTH = 6
_STANDARD = frozenset(vars(logging.makeLogRecord({})))


class Secrets:
    """Name → secret. Names are variables (`OPENAI_API_KEY`) or dotted keys (`model.api_key`)."""

    __slots__ = ("_encoded", "_secrets", "_spellings")

    def __init__(self, values: Mapping[str, str] | None = None, *, also: Iterable[str] = ()) -> None:
        """`also` are values without a name that must be taken out of texts all the same."""
        self._secrets = {name: Secret(value) for name, value in (values or {}).items() if value}
        self._spellings: list[str] = []
        self._encoded = EncodedSecrets()
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

    def learn(self, *values: str) -> None:
        """Take these out of texts from now on, too: secrets that were made after the settings were read."""
        lines = [line for value in values for line in _lines(value)]
        self._encoded.learn(lines)
        new = {spelling for line in lines for spelling in _spellings(line)}
        self._spellings = sorted({*self._spellings, *new}, key=lambda spelling: (-len(spelling), spelling))

    def redact(self, text: str) -> str:
        """The text with `***` in place of every loaded value, also where it is escaped or encoded."""
        # Plain searches: one pattern of all spellings would try each of them at each character.
        for spelling in self._spellings:
            if spelling in text:
                text = text.replace(spelling, "***")
        return self._encoded.redact(text) if self._spellings else text

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
