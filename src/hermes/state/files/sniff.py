"""What a file is, told by its own first bytes; what its name or its sender say of it does not count."""

from __future__ import annotations

import codecs
import re

UNKNOWN = "application/octet-stream"
TEXT = "text/plain"
LOOKED_AT = 64 * 1024
_ZIP = "application/zip"
_OPENINGS: tuple[tuple[bytes, str], ...] = (
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF87a", "image/gif"),
    (b"GIF89a", "image/gif"),
    (b"BM", "image/bmp"),
    (b"II*\0", "image/tiff"),
    (b"MM\0*", "image/tiff"),
    (b"%PDF-", "application/pdf"),
    (b"PK\x03\x04", _ZIP),
    (b"PK\x05\x06", _ZIP),
    (b"\x1f\x8b", "application/gzip"),
    (b"7z\xbc\xaf\x27\x1c", "application/x-7z-compressed"),
    (b"Rar!\x1a\x07", "application/vnd.rar"),
    (b"OggS", "audio/ogg"),
    (b"fLaC", "audio/flac"),
    (b"ID3", "audio/mpeg"),
    (b"#!AMR", "audio/amr"),
    (b"\x1aE\xdf\xa3", "video/webm"),
    (b"SQLite format 3\0", "application/vnd.sqlite3"),
)
_RIFF = {b"WEBP": "image/webp", b"WAVE": "audio/wav", b"AVI ": "video/x-msvideo"}
_BRANDS = {
    b"heic": "image/heic",
    b"heix": "image/heic",
    b"mif1": "image/heic",
    b"avif": "image/avif",
    b"M4A ": "audio/mp4",
    b"M4B ": "audio/mp4",
    b"qt  ": "video/quicktime",
}
_OFFICE = "application/vnd.openxmlformats-officedocument"
_INSIDE_ZIP = (
    (b"word/", f"{_OFFICE}.wordprocessingml.document"),
    (b"xl/", f"{_OFFICE}.spreadsheetml.sheet"),
    (b"ppt/", f"{_OFFICE}.presentationml.presentation"),
    (b"mimetypeapplication/vnd.oasis.opendocument.text", "application/vnd.oasis.opendocument.text"),
    (b"mimetypeapplication/epub+zip", "application/epub+zip"),
)
_ENDINGS = {
    "image/png": ".png",
    "image/jpeg": ".jpg",
    "image/gif": ".gif",
    "image/webp": ".webp",
    "image/bmp": ".bmp",
    "image/tiff": ".tiff",
    "image/heic": ".heic",
    "image/avif": ".avif",
    "application/pdf": ".pdf",
    _ZIP: ".zip",
    "application/gzip": ".gz",
    "audio/ogg": ".ogg",
    "audio/flac": ".flac",
    "audio/mpeg": ".mp3",
    "audio/amr": ".amr",
    "audio/wav": ".wav",
    "audio/mp4": ".m4a",
    "audio/aac": ".aac",
    "video/mp4": ".mp4",
    "video/webm": ".webm",
    "video/quicktime": ".mov",
    "video/x-msvideo": ".avi",
    f"{_OFFICE}.wordprocessingml.document": ".docx",
    f"{_OFFICE}.spreadsheetml.sheet": ".xlsx",
    f"{_OFFICE}.presentationml.presentation": ".pptx",
    "application/vnd.oasis.opendocument.text": ".odt",
    "application/epub+zip": ".epub",
    TEXT: ".txt",
}
_NOT_TEXT = re.compile("[\x00-\x08\x0e-\x1a\x1c-\x1f\x7f]")
_MPEG = re.compile(rb"\xff[\xe2\xe3\xf2\xf3\xfa\xfb]")


def sniff(head: bytes) -> str:
    """The type of a file that begins so."""
    if head[:4] == b"RIFF":
        return _RIFF.get(head[8:12], UNKNOWN)
    if head[4:8] == b"ftyp":
        return _BRANDS.get(head[8:12], "video/mp4")
    for opening, mime in _OPENINGS:
        if head.startswith(opening) and (mime != "image/bmp" or head[6:10] == b"\0\0\0\0"):
            return _zipped(head) if mime == _ZIP else mime
    if head[:2] in (b"\xff\xf1", b"\xff\xf9"):
        return "audio/aac"
    if _MPEG.match(head):
        return "audio/mpeg"
    return TEXT if _is_text(head[:LOOKED_AT]) else UNKNOWN


def ending(mime: str) -> str:
    """How the name of such a file ends; nothing for what is not known."""
    return _ENDINGS.get(mime, "")


def _zipped(head: bytes) -> str:
    for mark, mime in _INSIDE_ZIP:
        if mark in head:
            return mime
    return _ZIP


def _is_text(head: bytes) -> bool:
    # A character may be cut in two where the look ends, so the decoder is not told that this is all.
    try:
        text = codecs.getincrementaldecoder("utf-8")().decode(head)
    except UnicodeDecodeError:
        return False
    return not _NOT_TEXT.search(text)
