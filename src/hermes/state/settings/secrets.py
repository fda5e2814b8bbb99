"""The secrets that were loaded: found by name, shown as `***`, and taken out of every text and log line; and
what is no secret although it stands where one should."""

from __future__ import annotations

import logging
import re
from collections.abc import Collection, Iterable, Mapping

from hermes.domain.settings.declaring import Secret
from hermes.state.redaction.redactor import RedactedStream, Redactor
from hermes.state.redaction.values import LoadedValues

_STANDARD = frozenset(vars(logging.makeLogRecord({})))
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


class Secrets:
    """Name → secret. Names are variables (`OPENAI_API_KEY`) or dotted keys (`model.api_key`). With `patterns`
    texts are also rid of what only looks like a secret."""

    __slots__ = ("_redactor", "_secrets")

    def __init__(
        self,
        values: Mapping[str, str] | None = None,
        *,
        also: Iterable[str] = (),
        patterns: bool = False,
        ordinary: Collection[str] = (),
    ) -> None:
        """`also` are values without a name that must be taken out of texts all the same; those with the names
        in `ordinary` are not: they stand in texts by chance."""
        self._secrets = {name: Secret(value) for name, value in (values or {}).items() if value}
        self._redactor = Redactor(LoadedValues(), patterns=patterns)
        hidden = (secret.reveal() for name, secret in self._secrets.items() if name not in ordinary)
        self.learn(*hidden, *also)

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
        own, self._redactor.values = self._redactor.values, earlier._redactor.values
        self._redactor.values.learn(own)

    def learn(self, *values: str) -> None:
        """Take these out of texts from now on, too: secrets that were made after the settings were read."""
        self._redactor.values.learn(values)

    @property
    def count(self) -> int:
        """How many values are taken out; it grows with each that is learned."""
        return self._redactor.values.count

    @property
    def patterns(self) -> bool:
        return self._redactor.patterns

    def follow(self, later: Secrets) -> None:
        """Do with what looks like a secret as the settings say by now."""
        self._redactor.patterns = later.patterns

    def redact(self, text: str) -> str:
        """The text with a stand-in for every loaded value, also escaped or encoded, and for what looks so."""
        return self._redactor.redact(text)

    def conceal(self, text: str) -> str:
        """The text without loaded values; all else stays as somebody wrote it."""
        return self._redactor.conceal(text)

    def stream(self) -> RedactedStream:
        """Redacts a text that comes in pieces."""
        return self._redactor.stream()

    def __repr__(self) -> str:
        return f"Secrets({', '.join(self.names)})"


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
