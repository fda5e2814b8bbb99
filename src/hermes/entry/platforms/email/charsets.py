"""Bytes as text, whatever charset they claim."""

from __future__ import annotations

import codecs
import re

_MEANT = {
    # What programs say, and what they mean by it (as browsers have it).
    "iso8859-1": "windows-1252",
    "gb2312": "gb18030",
    "gbk": "gb18030",
    "euc_kr": "cp949",
    "shift_jis": "cp932",
    "iso8859-9": "windows-1254",
    "tis-620": "windows-874",
}
_NO_CHARSETS = frozenset(
    ("punycode", "idna", "unicode-escape", "raw-unicode-escape", "undefined", "ascii", "utf-7")
)
"""What Python knows and no mail should use, or takes far too long; ASCII is tried as UTF-8."""
_META = re.compile(rb"""<meta\s[^>]{0,200}?charset\s*=\s*["']?\s*([A-Za-z0-9_:.-]{1,40})""", re.IGNORECASE)


def decode(data: bytes, charset: str | None) -> str:
    """Bytes in the charset they claim; in a likely one, if that is unknown or not true."""
    for name in (_known(charset), "utf-8"):
        if not name:
            continue
        try:
            return data.decode(name)
        except (LookupError, ValueError):
            continue
    return data.decode("windows-1252", "replace")


def charset_in_page(data: bytes) -> str | None:
    """What a page says of itself, for mails that do not say it."""
    found = _META.search(data[:4096])
    return found[1].decode("ascii") if found else None


def _known(charset: str | None) -> str:
    try:
        name = codecs.lookup((charset or "").strip("\"' ")).name if charset else ""
    except (LookupError, ValueError):
        return ""
    return "" if name in _NO_CHARSETS else _MEANT.get(name, name)
