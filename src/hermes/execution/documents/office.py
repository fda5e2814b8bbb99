"""The words of office files, which are XML in a ZIP: Word and PowerPoint since 2007, OpenDocument and EPUB by
their markup, Excel through openpyxl. None is opened that says it unpacks to too much, or unpacks to more than
it says.

Sources: ECMA-376 (WordprocessingML and DrawingML: `t p tab br tc tr`), OpenDocument 1.3 (`text:p`, `text:h`,
`table:table-cell`, `table:table-row`)."""

from __future__ import annotations

import io
import mimetypes
import re
from collections.abc import Iterator
from xml.etree.ElementTree import ParseError, XMLParser
from zipfile import BadZipFile, ZipFile

from hermes.execution.documents.pages import read_page

MOST_UNPACKED = 200_000_000
_MOST_PARTS = 5000
_PIECE = 64 * 1024
_BREAKS = {"br": "\n", "cr": "\n", "line-break": "\n", "tab": "\t", "s": " "}
_CELLS, _ROWS = ("tc", "table-cell"), ("tr", "table-row")
_HEADING = re.compile(r"heading ?([1-9])", re.IGNORECASE)
_NUMBER = re.compile(r"\d{1,9}")
_PARTS = {
    "": r"word/(?:document|footnotes|endnotes|comments)\d{0,4}\.xml|content\.xml",
    "[slide {}]\n": r"ppt/slides/slide\d{1,5}\.xml",
}
"""What is put before the words of a part, and how such parts are named."""


class _Full(Exception):
    """There are enough words."""


class _Words:
    """Takes the words of an XML file. Those of Word and PowerPoint stand in `t`, those of OpenDocument
    `everywhere` in a paragraph."""

    def __init__(self, room: int, *, everywhere: bool) -> None:
        self.words: list[str] = []
        self._room = room
        self._inside = ("p", "h") if everywhere else ("t",)
        self._depth = self._cells = 0

    def start(self, tag: str, attributes: dict[str, str]) -> None:
        name = tag.rpartition("}")[2]
        self._depth += name in self._inside
        self._cells += name in _CELLS
        if name == "pStyle" and (level := _HEADING.fullmatch("".join(attributes.values()))):
            self._say("#" * int(level[1]) + " ")
        elif name == "h":
            self._say("# ")
        elif name in _BREAKS:
            self._say(" " if self._cells else _BREAKS[name])

    def end(self, tag: str) -> None:
        name = tag.rpartition("}")[2]
        self._depth -= name in self._inside
        self._cells -= name in _CELLS
        if name in ("p", "h"):
            self._say(" " if self._cells else "\n")
        elif name in _CELLS:
            self._say("| ")
        elif name in _ROWS:
            self._say("\n")

    def data(self, words: str) -> None:
        if self._depth > 0:
            self._say(words)

    def _say(self, words: str) -> None:
        self.words.append(words)
        self._room -= len(words)
        if self._room < 0:
            raise _Full


def read_office(data: bytes, limit: int) -> str:
    """A `ValueError` says why there are no words."""
    try:
        with ZipFile(io.BytesIO(data)) as archive:
            parts = archive.infolist()
            if sum(part.file_size for part in parts) > MOST_UNPACKED or len(parts) > _MOST_PARTS:
                raise ValueError(f"it unpacks to more than {MOST_UNPACKED:,} bytes or {_MOST_PARTS} files")
            if "xl/workbook.xml" in archive.NameToInfo:
                return _read_sheets(data, limit)
            texts = list(_texts(archive, limit))
    except (BadZipFile, ParseError, KeyError, NotImplementedError, RuntimeError, EOFError) as error:
        raise ValueError("a damaged or locked ZIP file") from error
    if not texts:
        raise ValueError(f"a ZIP file with {len(parts)} files that are no office document")
    return "\n".join(texts)


def _texts(archive: ZipFile, limit: int) -> Iterator[str]:
    for title, pattern in _PARTS.items():
        for number, name in enumerate(_named(archive, pattern), 1):
            words = _Words(limit, everywhere=name == "content.xml")
            parser = XMLParser(target=words)
            try:
                with archive.open(name) as part:
                    while piece := part.read(_PIECE):
                        parser.feed(piece)
            except _Full:
                limit = 0
            text = "".join(words.words)
            limit = max(limit - len(text), 0)
            yield title.format(number) + text
    for name in _named(archive, r"(?:[^/]{1,200}/){0,6}[^/]{1,200}\.x?html?"):  # an EPUB
        if limit > 0:
            text = read_page(archive.read(name).decode("utf-8", "replace"), "", limit)[1]
            limit -= len(text)
            yield text


def _named(archive: ZipFile, pattern: str) -> list[str]:
    """The parts named so, in the order of the numbers in their names."""
    found = [name for name in archive.namelist() if re.fullmatch(pattern, name)]
    return sorted(found, key=lambda name: ([int(number) for number in _NUMBER.findall(name)], name))


def _read_sheets(data: bytes, limit: int) -> str:
    mimetypes.knownfiles.clear()  # openpyxl would have them read, which nobody may here
    try:
        from openpyxl import load_workbook
    except ImportError:
        raise ValueError("an Excel file; it needs a package: run hermes platforms install web") from None
    lines: list[str] = []
    for sheet in load_workbook(io.BytesIO(data), read_only=True, data_only=True).worksheets:
        sheet.reset_dimensions()  # what it says of its size may be a lie
        lines.append(f"[sheet {sheet.title}]")
        for row in sheet.iter_rows(values_only=True):
            lines.append(" | ".join("" if cell is None else str(cell) for cell in row))
            limit -= len(lines[-1]) + 1
            if limit < 0:
                return "\n".join(lines)
    return "\n".join(lines)
