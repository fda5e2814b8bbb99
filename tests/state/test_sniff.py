"""What a file is, by its own bytes."""

from __future__ import annotations

import io
import zipfile

import pytest

from hermes.state.files.sniff import UNKNOWN, ending, sniff


def zipped(*names: str) -> bytes:
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w") as archive:
        for name in names:
            archive.writestr(name, "x")
    return data.getvalue()


@pytest.mark.parametrize(
    ("head", "mime"),
    [
        (b"\x89PNG\r\n\x1a\n....", "image/png"),
        (b"\xff\xd8\xff\xe0....", "image/jpeg"),
        (b"GIF89a", "image/gif"),
        (b"RIFF\0\0\0\0WEBPVP8 ", "image/webp"),
        (b"RIFF\0\0\0\0WAVEfmt ", "audio/wav"),
        (b"RIFF\0\0\0\0????", UNKNOWN),
        (b"\0\0\0\x18ftypheic", "image/heic"),
        (b"\0\0\0\x18ftypM4A ", "audio/mp4"),
        (b"\0\0\0\x18ftypisom", "video/mp4"),
        (b"%PDF-1.7", "application/pdf"),
        (b"OggS\0\2", "audio/ogg"),
        (b"ID3\4\0", "audio/mpeg"),
        (b"\xff\xfb\x90\x00", "audio/mpeg"),
        (b"\xff\xf1\x50\x80", "audio/aac"),
        (b"BMW is a maker of cars", "text/plain"),
        (b"BM\x36\0\0\0\0\0\0\0\x36", "image/bmp"),
        (b"<svg onload=alert(1)>", "text/plain"),
        ("Grüße, 世界\r\n\t\x1b[0m".encode(), "text/plain"),
        ("世".encode() * 30000, "text/plain"),
        ("é".encode("latin-1") * 9, UNKNOWN),
        (b"MZ\x90\0\3", UNKNOWN),
        (b"text and \0 a zero", UNKNOWN),
        (b"", "text/plain"),
        (zipped("[Content_Types].xml", "word/document.xml"), None),
        (zipped("xl/workbook.xml"), None),
        (zipped("a.txt"), "application/zip"),
    ],
)
def test_the_type_of_a_file(head: bytes, mime: str | None) -> None:
    if mime is None:
        assert ending(sniff(head)) in (".docx", ".xlsx")
    else:
        assert sniff(head) == mime


def test_a_name_ends_only_as_is_known() -> None:
    assert ending("image/png") == ".png"
    assert ending(UNKNOWN) == ending("../../x") == ""
