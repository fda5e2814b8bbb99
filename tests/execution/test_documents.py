"""Documents that anybody wrote, read in a process with little time, memory and rights. What the packages of
the extra `web` add to it is shown in tests/foreign/test_documents.py."""

from __future__ import annotations

import asyncio
import io
import json
import time
import zipfile
from zipfile import ZIP_DEFLATED

import pytest

from hermes.domain.errors import UserError
from hermes.execution.documents import reader
from hermes.execution.documents.kinds import decode
from hermes.execution.documents.reader import DocumentProcess
from hermes.execution.sandboxes.landlock_rules import landlock_abi

HTML = "text/html; charset=utf-8"
PAGE = """<!DOCTYPE html><html><head><title>Bees &amp; wasps</title><style>p {color: red}</style></head><body>
<nav><a href="/home">Home</a></nav><h1>Bees</h1>
<p>They  fly &lt;fast&gt;, see <a href="/wasps?a=1">wasps</a>.</p>
<ul><li>one</li><li>two</li></ul><table><tr><td>a</td><td>b</td></tr></table><script>evil()</script></body></html>"""
W = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"


def archive(parts: dict[str, bytes | str]) -> bytes:
    held = io.BytesIO()
    with zipfile.ZipFile(held, "w", ZIP_DEFLATED) as made:
        for name, data in parts.items():
            made.writestr(name, data)
    return held.getvalue()


def word(body: str) -> bytes:
    return archive({"word/document.xml": f'<w:document xmlns:w="{W}"><w:body>{body}</w:body></w:document>'})


async def test_a_page_becomes_text_with_its_links_whole() -> None:
    page = await DocumentProcess()(PAGE.encode(), HTML, url="https://bees.example/a/b")
    assert page.title == "Bees & wasps" and not page.cut
    assert "# Bees" in page.text and "They fly <fast>" in page.text
    assert "[wasps](https://bees.example/wasps?a=1)" in page.text
    assert "- one" in page.text and "| a | b" in page.text
    assert "evil" not in page.text and "color" not in page.text and "Home" not in page.text


async def test_a_word_file_becomes_text() -> None:
    read = await DocumentProcess()(
        word(
            '<w:p><w:pPr><w:pStyle w:val="Heading2"/></w:pPr><w:r><w:t>Offer</w:t></w:r></w:p>'
            "<w:p><w:r><w:t>Two</w:t><w:tab/><w:t>words</w:t></w:r><w:r><w:instrText>hidden</w:instrText></w:r></w:p>"
            "<w:tbl><w:tr><w:tc><w:p><w:r><w:t>a</w:t></w:r></w:p></w:tc>"
            "<w:tc><w:p><w:r><w:t>b</w:t></w:r></w:p></w:tc></w:tr></w:tbl>"
        )
    )
    assert read.text.splitlines() == ["## Offer", "Two\twords", "a | b | "]


async def test_a_notebook_becomes_text() -> None:
    cells = [
        {"cell_type": "markdown", "source": ["# Sum\n", "of two"]},
        {
            "cell_type": "code",
            "source": "1 + 1",
            "outputs": [
                {"data": {"text/plain": ["2"], "image/png": "AAAA"}},
                {"ename": "KeyError", "evalue": "x"},
            ],
        },
    ]
    read = await DocumentProcess()(json.dumps({"cells": cells, "nbformat": 4}).encode(), "")
    assert read.text == (
        "[1 markdown]\n# Sum\nof two\n\n[2 code]\n1 + 1\n\n[2 output]\n2\n\n[2 output]\nKeyError: x"
    )


@pytest.mark.parametrize(
    ("data", "mime", "text"),
    [
        ("größer".encode(), "text/plain", "größer"),
        ("größer".encode("latin-1"), "text/plain; charset=ISO-8859-1", "größer"),
        ("größer".encode("cp1252"), "text/plain", "größer"),
        ("größer".encode(), "text/plain; charset=us-ascii", "größer"),
        ("größer".encode(), "text/plain; charset=none-such", "größer"),
        ("größer".encode(), "text/plain; charset=rot13", "größer"),
        ("größer".encode("utf-16"), "text/plain; charset=utf-8", "größer"),
        ('<meta charset="shift_jis">日本'.encode("shift_jis"), "text/html", '<meta charset="shift_jis">日本'),
        (b"\xff\xfe\x00", "text/plain", "\ufffd"),
    ],
)
def test_wrong_and_missing_charsets(data: bytes, mime: str, text: str) -> None:
    assert decode(data, mime) == text


@pytest.mark.parametrize(
    ("data", "mime", "why"),
    [
        (b"%PDF-1.7 nothing", "application/pdf", "hermes platforms install web"),
        (b"PK\x03\x04 torn", "", "damaged"),
        (archive({"a.bin": b"x"}), "", "no office document"),
        (word("<w:p><w:r>"), "", "damaged"),
        (b"\xd0\xcf\x11\xe0\xa1\xb1", "application/msword", "before 2007"),
        (b'{"nbformat": 4}', "", "without cells"),
        (b"\x7fELF\0\0\0\0", "", "no text"),
        (b"x" * (reader.LARGEST + 1), "", "more than"),
    ],
)
async def test_what_cannot_be_read_says_why(data: bytes, mime: str, why: str) -> None:
    with pytest.raises(UserError, match=why):
        await DocumentProcess()(data, mime)


async def test_a_bomb_is_refused() -> None:
    """210 MB of words in 200 KB."""
    with pytest.raises(UserError, match="unpacks to more"):
        await DocumentProcess()(word("<w:p><w:r><w:t>" + "a" * 210_000_000 + "</w:t></w:r></w:p>"))


async def test_entities_within_entities_end_with_the_limit() -> None:
    entities = "".join(f'<!ENTITY a{n} "{f"&a{n - 1};" * 10 if n else "ha" * 50}">' for n in range(10))
    laughs = f'<!DOCTYPE d [{entities}]><w:t xmlns:w="{W}">&a9;</w:t>'
    read = await DocumentProcess()(archive({"word/document.xml": laughs}), limit=1000)
    assert len(read.text) == 1000 and read.cut


@pytest.mark.parametrize(
    "page",
    [
        "<div>" * 200_000 + "the words",
        "<a href='x" * 50_000 + "the words",
        "<table><tr><td>" * 50_000 + "the words",
        "&#x110000;&#0;&notanentity;" * 10_000 + "<p>the words",
        "<p>the words <!-- " + "x" * 1_000_000,
        "<![CDATA[" * 50_000 + "<p>the words",
    ],
    ids=["nested", "unclosed", "tables", "entities", "comment", "cdata"],
)
async def test_hostile_pages_end(page: str) -> None:
    try:
        read = await DocumentProcess(seconds=2)(page.encode(), HTML, limit=5000)
        assert len(read.text) <= 5000
    except UserError as error:
        assert str(error).startswith("It ")


async def test_a_reader_that_hangs_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reader, "_START", "import time; time.sleep(600)")
    begun = time.monotonic()
    with pytest.raises(UserError, match=r"within 0\.5 s"):
        await DocumentProcess(seconds=0.5)(b"<html>", HTML)
    assert time.monotonic() - begun < 300


@pytest.mark.skipif(not landlock_abi(), reason="this kernel closes no files")
@pytest.mark.parametrize(
    ("deed", "why"),
    [
        ("bytearray(3 << 30)", "memory"),
        ("open('/etc/passwd').read()", "PermissionError"),
        ("open('/tmp/written-by-a-document', 'w')", "PermissionError"),
        ("__import__('socket').create_connection(('127.0.0.1', 9), 1)", "PermissionError"),
        ("__import__('os').kill(__import__('os').getpid(), 9)", "more memory or time"),
    ],
    ids=["memory", "files", "writes", "network", "killed"],
)
async def test_a_parser_that_was_taken_over_reaches_nothing(
    monkeypatch: pytest.MonkeyPatch, deed: str, why: str
) -> None:
    taken_over = (
        f"from hermes.execution.documents import child; child._read = lambda *_: {deed}; child.main()"
    )
    start = f"import sys; sys.path.insert(0, sys.argv.pop(1)); {taken_over}"
    monkeypatch.setattr(reader, "_START", start)
    with pytest.raises(UserError, match=why):
        await DocumentProcess()(b"x")


async def test_the_environment_of_the_reader_has_no_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BRAVE_API_KEY", "a-key-that-nobody-reads")
    told = "import os, json; print(json.dumps({'error': ' '.join(os.environ)}))"
    monkeypatch.setattr(reader, "_START", told)
    with pytest.raises(UserError) as raised:
        await DocumentProcess()(b"x")
    assert "BRAVE" not in str(raised.value)


async def test_a_cut_text_says_so() -> None:
    read = await DocumentProcess()(b"word " * 1000, "text/plain", limit=100)
    assert len(read.text) == 100 and read.cut


async def test_several_at_once() -> None:
    read = DocumentProcess()
    texts = await asyncio.gather(*(read(f"text {number}".encode(), "text/plain") for number in range(4)))
    assert [each.text for each in texts] == [f"text {number}" for number in range(4)]
