"""Text as it may be stored, printed in one line, or shown to an operator."""

from __future__ import annotations

import codecs
import os
import re
import unicodedata
from collections.abc import Iterable, Sequence
from typing import Any

from hermes.domain.word import field_names, is_word, replace

_LONE_SURROGATES = re.compile("[\ud800-\udfff]")
# Control characters except tab and newline, and the bidi marks that can disguise what is shown.
_DISGUISES = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069\ufeff]")
_HUMPS = re.compile(r"(?<=[a-z])(?=[A-Z])")
_BLANKS = re.compile(r"\s+")
_BRACE = re.compile(r"\\[pPN]\{[^{}]*\}|\\.|(\{)(?![0-9]+(?:,[0-9]*)?\}|,[0-9]*\})", re.DOTALL)
"""A brace that counts nothing, outside of \\p{L} and its like."""
_ACROSS = re.compile(r"\n|(?<!\\)(?:\\\\)*\\(?:n|R|x0[aA])|\(\?[a-zA-Z]*s|\[\\([sSdDwW])\\(?!\1)(?i:\1)\]")
_ALL_BUT = re.compile(r"\[\^[^\]]*\]")


def closest(word: str, choices: Iterable[str], cutoff: float = 0.6) -> str:
    """The choice that is most like a mistyped word, or nothing."""
    from difflib import get_close_matches  # only mistakes pay for loading it

    return next(iter(get_close_matches(word, list(choices), n=1, cutoff=cutoff)), "")


def storable(text: str) -> str:
    """The text without what no store and no wire can carry: NUL and lone surrogates."""
    if text.isascii():
        return text.replace("\0", "\ufffd") if "\0" in text else text
    return _LONE_SURROGATES.sub("\ufffd", text).replace("\0", "\ufffd")


def storable_all(value: Any) -> Any:
    """A value with every text in it as `storable` makes it."""
    if isinstance(value, str):
        return storable(value)
    if isinstance(value, tuple | list):
        return type(value)(storable_all(part) for part in value)
    if isinstance(value, dict):
        return {storable_all(key): storable_all(part) for key, part in value.items()}
    if is_word(value) and not isinstance(value, type):
        return replace(value, **{name: storable_all(getattr(value, name)) for name in field_names(value)})
    return value


def showable(text: str) -> str:
    """The text without control and direction characters, safe to print on an operator's terminal."""
    return _DISGUISES.sub("", _LONE_SURROGATES.sub("\ufffd", text))


PLAINLY = "hermes.plainly"
"""How to encode for a terminal whose character set lacks our signs: by what stands for them, else a `?`."""
_PLAIN_SIGNS = str.maketrans(
    {"“": '"', "”": '"', "‘": "'", "’": "'", "…": "...", "❯": ">", "→": "->", "–": "-", "—": "-", "·": "*",
     "│": "|", "✓": "ok", "✗": "x", "⚠": "!", "\ufe0f": ""}
)  # fmt: skip


def _plainly(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeEncodeError):
        raise error
    signs = error.object[error.start : error.end].translate(_PLAIN_SIGNS)
    return signs.encode("ascii", "replace").decode(), error.end


codecs.register_error(PLAINLY, _plainly)


def one_line(text: str, limit: int = 80) -> str:
    """The text on one line, at most `limit` characters, with an ellipsis where it was cut."""
    flat = _BLANKS.sub(" ", showable(text)).strip()
    return flat if len(flat) <= limit else flat[: limit - 1].rstrip() + "…"


def without_invisible(text: str) -> str:
    """The text without characters that nobody sees, such as those of no width."""
    return "".join(char for char in text if unicodedata.category(char) != "Cf")


def width(text: str) -> int:
    """How many columns a terminal-like font gives to the text."""
    if text.isascii():
        return len(text)
    return sum(
        0 if unicodedata.combining(char) else 2 if unicodedata.east_asian_width(char) in "WF" else 1
        for char in text
    )


def size_told(size: int) -> str:
    """A size as people say it."""
    for unit, of in (("MiB", 1024 * 1024), ("KiB", 1024)):
        if size >= of:
            return f"{size / of:.1f}".removesuffix(".0") + f" {unit}"
    return "1 byte" if size == 1 else f"{size} bytes"


def trouble_told(error: BaseException) -> str:
    """Why a connection failed, as people say it. Never its own words: an address with a token in it may be
    among them."""
    inner = getattr(error, "certificate_error", None) or getattr(error, "os_error", None) or error
    if why := getattr(inner, "verify_message", ""):
        return f"its certificate is not trusted: {one_line(str(why))}"
    if isinstance(inner, TimeoutError):
        return "it took too long"
    if type(inner).__name__.startswith("SSL"):  # its numbers are not those of the system
        return f"it does not speak TLS as it should: {one_line(str(getattr(inner, 'reason', '')), 60)}"
    if isinstance(inner, OSError) and (inner.errno or inner.strerror):
        number = inner.errno or 0
        return os.strerror(number) if number > 0 else one_line(str(inner.strerror))
    if isinstance(status := getattr(inner, "status", None), int) and status:
        return f"HTTP {status}"
    told = _HUMPS.sub(" ", type(inner).__name__.removesuffix("Error")).lower()
    return "the address that is set, or the proxy, is none" if "url" in told else told


def plain_braces(pattern: str) -> str:
    """A regular expression in which braces mean to `regex` what they mean to `re`: there they may also count
    errors, and `\\${e}` would be found everywhere."""
    return _BRACE.sub(lambda brace: r"\{" if brace[1] else brace[0], pattern)


def crosses_lines(pattern: str) -> bool:
    """Whether a regular expression names the end of a line, or means “any character” to be one, too."""
    return _ACROSS.search(_ALL_BUT.sub("", pattern)) is not None


def list_some(names: Sequence[str], most: int = 20) -> str:
    """Names for a line; of many the first, and how many more there are."""
    more = f" and {len(names) - most:,} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more
