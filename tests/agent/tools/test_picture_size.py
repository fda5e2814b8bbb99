"""How large a picture is, by the head of its file."""

from __future__ import annotations

import struct

import pytest

from hermes.agent.tools.media import picture_size

RIFF = b"RIFF\0\0\0\0WEBP"
JPEG = b"\xff\xd8\xff\xe0\0\x04ab\xff\xc2\0\x11\x08" + struct.pack(">HH", 9000, 300) + b"\x03"


@pytest.mark.parametrize(
    ("data", "size"),
    [
        (b"\x89PNG\r\n\x1a\n\0\0\0\x0dIHDR" + struct.pack(">II", 300, 9000), (300, 9000)),
        (b"GIF89a" + struct.pack("<HH", 300, 9000), (300, 9000)),
        (JPEG, (300, 9000)),
        # RFC 9649: 2.5 lossy (RFC 6386, 9.1), 2.6 lossless, 2.7 extended
        (RIFF + b"VP8 \0\0\0\0abc\x9d\x01\x2a" + struct.pack("<HH", 300 | 1 << 14, 9000), (300, 9000)),
        (RIFF + b"VP8L\0\0\0\0\x2f" + struct.pack("<I", 299 | 8999 << 14 | 1 << 28), (300, 9000)),
        (RIFF + b"VP8X\0\0\0\0\x10\0\0\0" + b"\x2b\x01\0" + b"\x27\x23\0", (300, 9000)),
        (b"", (0, 0)),
        (b"\xff\xd8\xff", (0, 0)),
        (RIFF, (0, 0)),
    ],
)
def test_a_picture_tells_its_size(data: bytes, size: tuple[int, int]) -> None:
    assert picture_size(data) == size
