"""The files in a `winmail.dat`, in which Outlook sometimes wraps what it attaches (MS-OXTNEF)."""

from __future__ import annotations

from hermes.entry.platforms.email.words import decode

_SIGNATURE = (0x223E9F78).to_bytes(4, "little")
_BEGIN, _TITLE, _DATA, _PROPERTIES = 0x00069002, 0x00018010, 0x0006800F, 0x00069005
_MOST = 50
_LONG_NAMES = ((b"\x1f\x00\x07\x37", "utf-16-le"), (b"\x1e\x00\x07\x37", "windows-1252"))
"""How the property for a long name begins, by the charset that follows."""


def unpack(data: bytes) -> list[tuple[str, bytes]]:
    """Names and contents; nothing if it is no such thing, or broken before the first file."""
    if not data.startswith(_SIGNATURE):
        return []
    names: list[str] = []
    contents: list[bytes | None] = []
    place = 6
    while place + 11 <= len(data) and len(names) <= _MOST:
        what, size = (int.from_bytes(data[place + at : place + at + 4], "little") for at in (1, 5))
        inside = data[place + 9 : place + 9 + size]
        if len(inside) < size:
            break
        place += 9 + size + 2
        if what == _BEGIN:
            names.append("")
            contents.append(None)
        elif names and what == _DATA:
            contents[-1] = inside
        elif names and what == _TITLE:
            names[-1] = names[-1] or decode(inside.partition(b"\0")[0], "windows-1252")
        elif names and what == _PROPERTIES:
            names[-1] = _long_name(inside) or names[-1]
    return [(name, content) for name, content in zip(names, contents, strict=True) if content is not None]


def _long_name(properties: bytes) -> str:
    for begin, charset in _LONG_NAMES:
        at = properties.find(begin)
        if at < 0:
            continue
        size = int.from_bytes(properties[at + 8 : at + 12], "little")
        return properties[at + 12 : at + 12 + min(size, 1024)].decode(charset, "replace").partition("\0")[0]
    return ""
