"""Markdown as rows of a terminal, by Rich: wrapped at words, tables drawn, code highlighted. Nothing is
framed or padded, so that what is marked with the mouse is the text. Loaded with the first answer."""

from __future__ import annotations

import io
import re
from collections.abc import Iterator, Sequence

from rich import box
from rich.console import Console, RenderableType
from rich.style import Style
from rich.syntax import Syntax
from rich.table import Table
from rich.text import Text

from hermes.domain.text import showable
from hermes.entry.terminal.chat.theme import Theme, as_rich
from hermes.stream.text import markdown as md

_BLANKS_AT_END = re.compile(r"[ \t]+((?:\x1b\[[0-9;]*m)*)$")
_CODE_HEAD = "╌╌"
_NARROWEST = 10
_BULLETS = "•◦▪"
_CELL_NARROWEST = 8


class MarkdownRows:
    """`links`: addresses can be clicked (OSC 8). Light backgrounds have other colours for code."""

    def __init__(
        self, theme: Theme, width: int, *, colour: bool, light: bool | None = None, links: bool = True
    ) -> None:
        self._theme = theme
        self._width = max(width, _NARROWEST)
        self._colour = colour
        self._links = links
        self._code_theme = "ansi_light" if light else "ansi_dark"

    def document(self, text: str) -> list[str]:
        return self._blocks(md.parse(showable(text)).blocks, self._width)

    # --- blocks ---

    def _blocks(
        self, blocks: Sequence[md.Block], width: int, *, tight: bool = False, depth: int = 0
    ) -> list[str]:
        rows: list[str] = []
        for block in blocks:
            if rows and not tight:
                rows.append("")
            rows += self._block(block, width, depth)
        return rows

    def _block(self, block: md.Block, width: int, depth: int) -> list[str]:
        match block:
            case md.Paragraph(children=children):
                return self._rows(self._text(children), width)
            case md.Heading(level=level, children=children):
                style = as_rich(self._theme.accent) + (" underline" if level == 1 else "")
                return self._rows(self._text(children, style), width)
            case md.CodeBlock(lang=lang, text=code):
                return self.code(code, lang, width)
            case md.Quote(blocks=inner):
                bar = self._rows(Text("│ ", style=as_rich(self._theme.dim)), width)[0] + " "
                return [f"{bar}{row}" for row in self._blocks(inner, width - 2, depth=depth)]
            case md.ItemList():
                return list(self._items(block, width, depth))
            case md.Table():
                return self._table(block, width)
            case md.Rule():
                return self._rows(Text("─" * min(width, 40), style=as_rich(self._theme.dim)), width)

    def _items(self, items: md.ItemList, width: int, depth: int) -> Iterator[str]:
        last = items.start + len(items.items) - 1
        for number, blocks in enumerate(items.items, items.start):
            mark = f"{number}.".ljust(len(str(last)) + 2) if items.ordered else f"{_BULLETS[depth % 3]} "
            if number > items.start and not items.tight:
                yield ""
            rows = self._blocks(blocks, width - len(mark), tight=items.tight, depth=depth + 1) or [""]
            yield mark + rows[0]
            yield from (" " * len(mark) + row if row else "" for row in rows[1:])

    def code(self, code: str, lang: str, width: int) -> list[str]:
        head = self._rows(Text(f"{_CODE_HEAD} {lang}".rstrip(), style=as_rich(self._theme.dim)), width)
        if not self._colour:
            return head + self._rows(Text(code), width)
        syntax = Syntax(
            code,
            lang or "text",
            theme=self._code_theme,
            background_color="default",
            word_wrap=True,
            tab_size=4,
        )
        return head + self._rows(syntax, width)

    def _table(self, table: md.Table, width: int) -> list[str]:
        columns = len(table.header)
        if width < columns * _CELL_NARROWEST:
            return list(self._cards(table, width))
        drawn = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False, header_style="bold")
        for align, cell in zip(table.aligns, table.header, strict=False):
            side = align.value if align.value in ("left", "center", "right") else "left"
            drawn.add_column(self._text(cell), justify=side, overflow="fold")  # type: ignore[arg-type]
        for row in table.rows:
            drawn.add_row(*(self._text(cell) for cell in row[:columns]))
        return self._rows(drawn, width)

    def _cards(self, table: md.Table, width: int) -> Iterator[str]:
        """A table that is too wide: each row as a list of what its cells are."""
        for number, row in enumerate(table.rows):
            if number:
                yield ""
            for name, cell in zip(table.header, row, strict=False):
                yield from self._rows(self._text((*name, md.Text(text=": "), *cell)), width)

    # --- inlines ---

    def _text(self, inlines: Sequence[md.Inline], style: str = "") -> Text:
        text = Text(style=style, overflow="fold")
        self._append(text, inlines, Style.null())
        return text

    def _append(self, text: Text, inlines: Sequence[md.Inline], style: Style) -> None:
        for inline in inlines:
            match inline:
                case md.Text(text=words):
                    text.append(words, style)
                case md.Strong(children=children):
                    self._append(text, children, style + Style(bold=True))
                case md.Emphasis(children=children):
                    self._append(text, children, style + Style(italic=True))
                case md.Strike(children=children):
                    self._append(text, children, style + Style(strike=True))
                case md.Code(text=words):
                    text.append(
                        words if self._colour else f"`{words}`",
                        style + Style.parse(as_rich(self._theme.code)),
                    )
                case md.Link(url=url, children=children):
                    self._link(text, url, children, style)
                case md.Image(url=url, alt=alt):
                    self._link(text, url, (md.Text(text=alt or url),), style)
                case md.LineBreak():
                    text.append("\n")

    def _link(self, text: Text, url: str, label: Sequence[md.Inline], style: Style) -> None:
        """The address stands behind the label: whoever cannot click reads it, and nobody is misled."""
        link = style + Style(underline=True, link=url if self._links else None)
        self._append(text, label, link)
        shown = md.visible_inlines(label)
        if shown != url:
            text.append(
                md.label_and_url(shown, url).removeprefix(shown),
                style + Style.parse(as_rich(self._theme.dim)),
            )

    # --- rows ---

    def _rows(self, drawn: RenderableType, width: int) -> list[str]:
        file = io.StringIO()
        console = Console(
            file=file,
            width=max(width, _NARROWEST),
            force_terminal=True,
            color_system="truecolor",
            no_color=not self._colour,
            legacy_windows=False,
            highlight=False,
            emoji=False,
            markup=False,
        )
        console.print(drawn, end="", soft_wrap=False)
        lines = file.getvalue().split("\n")
        rows = [_BLANKS_AT_END.sub(r"\1", line) for line in lines]
        while rows and not rows[-1].strip():
            rows.pop()
        return rows or [""]
