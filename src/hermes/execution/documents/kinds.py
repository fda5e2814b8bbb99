"""Which reader a document is for, told by its own bytes first; and those of texts, PDFs and notebooks."""

from __future__ import annotations

import codecs
import io
import json
import re
from itertools import islice

from hermes.execution.documents.office import read_office
from hermes.execution.documents.pages import read_page

_LEGACY_OFFICE = b"\xd0\xcf\x11\xe0"
_CHARSET = re.compile(r"charset\s{0,5}=\s{0,5}[\"']?([\w.:-]{1,40})", re.IGNORECASE)
_MOST_PAGES = 2000
_INSTALL = "it needs a package: run hermes platforms install web"


def read_kind(data: bytes, mime: str, limit: int, url: str = "") -> tuple[str, str]:
    """Its title and its text, up to about so many characters. A `ValueError` says why there is none."""
    head = data[:1024].lstrip()
    if b"%PDF-" in data[:1024]:
        return _read_pdf(data, limit)
    if data.startswith(b"PK\x03\x04"):
        return "", read_office(data, limit)
    if data.startswith(_LEGACY_OFFICE):
        raise ValueError("an office format of before 2007; save it as docx, xlsx or pptx")
    if mime.startswith(("image/", "audio/", "video/", "font/")):
        raise ValueError(f"it is no text, but {mime[:60]}")
    text = decode(data, mime)
    if "ipynb" in mime or (head[:1] == b"{" and b'"nbformat"' in data):
        return _read_notebook(text, limit)
    if "html" in mime or re.match(rb"(?:\xef\xbb\xbf)?<(?:!doctype html|html)", head, re.IGNORECASE):
        return read_page(text, url, limit)
    if "\0" in text[:8192]:
        raise ValueError("it is no text, and of no kind that is read")
    return "", text[:limit]


def decode(data: bytes, mime: str) -> str:
    """By its mark, by what its server or it says of itself, else as UTF-8 or, where it is none, as Windows
    writes the West."""
    for mark, name in ((codecs.BOM_UTF8, "utf-8"), (b"\xff\xfe", "utf-16"), (b"\xfe\xff", "utf-16")):
        if data.startswith(mark):
            return data.decode(name, "replace").lstrip("\ufeff")
    told = _CHARSET.search(mime) or _CHARSET.search(data[:2048].decode("latin-1"))
    for name in (told[1] if told else "utf-8", "utf-8"):
        try:
            return data.decode(name)
        except (LookupError, UnicodeError):  # also for codecs that are none of texts
            continue
    return data.decode("cp1252" if told is None else "utf-8", "replace")


def _read_pdf(data: bytes, limit: int) -> tuple[str, str]:
    try:
        from pypdf import PdfReader
    except ImportError:
        raise ValueError(f"a PDF; {_INSTALL}") from None
    reader = PdfReader(io.BytesIO(data), strict=False)
    if reader.is_encrypted and not reader.decrypt(""):
        raise ValueError("the PDF wants a password")
    parts: list[str] = []
    size = 0
    for number, page in enumerate(islice(reader.pages, _MOST_PAGES), 1):
        words = page.extract_text().strip()
        parts.append(f"[page {number}]\n{words}" if words else "")
        size += len(words)
        if size > limit:
            break
    if not size:
        raise ValueError("the PDF has no text in it, perhaps only pictures of pages")
    title = reader.metadata.title if reader.metadata else ""
    return str(title or ""), "\n\n".join(filter(None, parts))


def _read_notebook(text: str, limit: int) -> tuple[str, str]:
    """Its cells with what they printed; pictures are left out."""
    notebook = json.loads(text)
    cells = notebook.get("cells") if isinstance(notebook, dict) else None
    if not isinstance(cells, list):
        raise ValueError("a notebook without cells")
    parts: list[str] = []
    for number, cell in enumerate(filter(lambda cell: isinstance(cell, dict), cells), 1):
        parts.append(f"[{number} {cell.get('cell_type', '')}]\n{_joined(cell.get('source'))}")
        for output in cell.get("outputs") or ():
            shown = output.get("text") or (output.get("data") or {}).get("text/plain")
            fault = f"{output.get('ename')}: {output.get('evalue')}" if "ename" in output else ""
            if words := _joined(shown) or fault:
                parts.append(f"[{number} output]\n{words}")
    return "", "\n\n".join(parts)[:limit]


def _joined(lines: object) -> str:
    return "".join(map(str, lines)) if isinstance(lines, list) else str(lines or "")
