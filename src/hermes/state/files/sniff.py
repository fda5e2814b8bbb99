"""What a file is, told by its own first bytes; what its name or its sender say of it does not count."""

from __future__ import annotations

import codecs
import re

UNKNOWN = "application/octet-stream"
TEXT = "text/plain"
LOOKED_AT = 64 * 1024
_OFFICE = "application/vnd.openxmlformats-officedocument"
_OPEN_TEXT = "application/vnd.oasis.opendocument.text"
_ZIP = rb"PK(\x03\x04|\x05\x06)"
# The type, how names of such files end, and how their bytes begin; the first that fits counts.
_KINDS: tuple[tuple[str, str, bytes], ...] = (
    ("image/webp", ".webp", rb"RIFF.{4}WEBP"),
    ("audio/wav", ".wav", rb"RIFF.{4}WAVE"),
    ("video/x-msvideo", ".avi", rb"RIFF.{4}AVI "),
    (UNKNOWN, "", rb"RIFF"),
    ("image/heic", ".heic", rb".{4}ftyp(heic|heix|mif1)"),
    ("image/avif", ".avif", rb".{4}ftypavif"),
    ("audio/mp4", ".m4a", rb".{4}ftypM4[AB] "),
    ("video/quicktime", ".mov", rb".{4}ftypqt  "),
    ("video/mp4", ".mp4", rb".{4}ftyp"),
    ("image/png", ".png", rb"\x89PNG\r\n\x1a\n"),
    ("image/jpeg", ".jpg", rb"\xff\xd8\xff"),
    ("image/gif", ".gif", rb"GIF8[79]a"),
    ("image/bmp", ".bmp", rb"BM.{4}\0{4}"),
    ("image/tiff", ".tiff", rb"II\*\0|MM\0\*"),
    ("application/pdf", ".pdf", rb"%PDF-"),
    (f"{_OFFICE}.wordprocessingml.document", ".docx", _ZIP + rb".*word/"),
    (f"{_OFFICE}.spreadsheetml.sheet", ".xlsx", _ZIP + rb".*xl/"),
    (f"{_OFFICE}.presentationml.presentation", ".pptx", _ZIP + rb".*ppt/"),
    (_OPEN_TEXT, ".odt", _ZIP + rb".*mimetype" + _OPEN_TEXT.encode()),
    ("application/epub+zip", ".epub", _ZIP + rb".*mimetypeapplication/epub\+zip"),
    ("application/zip", ".zip", _ZIP),
    ("application/gzip", ".gz", rb"\x1f\x8b"),
    ("application/x-7z-compressed", "", rb"7z\xbc\xaf\x27\x1c"),
    ("application/vnd.rar", "", rb"Rar!\x1a\x07"),
    ("audio/ogg", ".ogg", rb"OggS"),
    ("audio/flac", ".flac", rb"fLaC"),
    ("audio/mpeg", ".mp3", rb"ID3|\xff[\xe2\xe3\xf2\xf3\xfa\xfb]"),
    ("audio/aac", ".aac", rb"\xff[\xf1\xf9]"),
    ("audio/amr", ".amr", rb"#!AMR"),
    ("video/webm", ".webm", rb"\x1aE\xdf\xa3"),
    ("application/vnd.sqlite3", "", rb"SQLite format 3\0"),
)
_ENDINGS = {mime: ending for mime, ending, _ in _KINDS} | {TEXT: ".txt"}
_NOT_TEXT = "[\x00-\x08\x0e-\x1a\x1c-\x1f\x7f]"


def sniff(head: bytes) -> str:
    """The type of a file that begins so."""
    for mime, _, opening in _KINDS:
        if re.match(opening, head, re.DOTALL):
            return mime
    return TEXT if _is_text(head[:LOOKED_AT]) else UNKNOWN


def ending(mime: str) -> str:
    """How the name of such a file ends; nothing for what is not known."""
    return _ENDINGS.get(mime, "")


def _is_text(head: bytes) -> bool:
    # A character may be cut in two where the look ends, so the decoder is not told that this is all.
    try:
        text = codecs.getincrementaldecoder("utf-8")().decode(head)
    except UnicodeDecodeError:
        return False
    return not re.search(_NOT_TEXT, text)
