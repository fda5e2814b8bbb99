"""Reads markdown into the tree with markdown-it; the only module that knows that parser.

Imported at the first text that has markup. Budgets keep hostile input linear: a paragraph or a text that
is over its budget is kept as plain text.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import cache, lru_cache

from markdown_it import MarkdownIt
from markdown_it.token import Token
from msgspec import Struct, field

from hermes.stream.text import markdown as md

MAX_LINES = 50_000
MAX_DEPTH = 20
# Markup characters that one paragraph, and one text, may hold before it counts as hostile.
MAX_MARKS_OF_PARAGRAPH = 10_000
MAX_MARKS = 150_000
# How long a paragraph may be that is remembered once it is read.
MAX_REMEMBERED = 4_096

_MARKS = re.compile(r"[\\`*_\[\]!&<~]")
_STYLES: dict[str, type[md.Style]] = {"strong": md.Strong, "em": md.Emphasis, "s": md.Strike}


def read(text: str) -> md.Document:
    """Read a text whose line ends are newlines."""
    if text.count("\n") > MAX_LINES:
        return md.Document(blocks=md.plain_blocks(text), source=text)
    return _Reading(text).document()


def block_starts(text: str) -> list[int]:
    """The lines in which the blocks of a text begin that are not inside others."""
    parser = _parser()
    tokens: list[Token] = []
    parser.block.parse(text, parser, {}, tokens)
    return [group[0].map[0] for group in _top_level(tokens) if group[0].map is not None]


@cache
def _parser() -> MarkdownIt:
    parser = MarkdownIt("commonmark", {"html": False, "maxNesting": MAX_DEPTH})
    parser.enable(["table", "strikethrough"])
    # The tree decides itself which links are safe, and keeps addresses readable.
    parser.validateLink = lambda url: True  # type: ignore[method-assign]
    parser.normalizeLink = lambda url: url  # type: ignore[method-assign]
    parser.normalizeLinkText = lambda url: url  # type: ignore[method-assign,assignment]
    return parser


class _Reading:
    """One text being read: the parser's tokens turned into blocks."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._marks_left = MAX_MARKS
        self._env: dict[str, object] = {}

    def document(self) -> md.Document:
        parser = _parser()
        tokens: list[Token] = []
        parser.block.parse(self._text, parser, self._env, tokens)
        lines = self._text.split("\n")
        blocks: list[md.Block] = []
        for group in _top_level(tokens):
            assert group[0].map is not None
            start, end = group[0].map
            blocks += self._top_block(group, lines[start:end])
        has_open_fence = bool(tokens) and tokens[-1].type == "fence" and not _is_closed(tokens[-1])
        return md.Document(blocks=tuple(blocks), source="" if has_open_fence else self._text)

    def _top_block(self, group: Sequence[Token], source: Sequence[str]) -> tuple[md.Block, ...]:
        # The parser drops what is nested deeper than it goes; here nothing may be lost.
        if any(token.level >= MAX_DEPTH - 1 for token in group):
            return md.plain_blocks("\n".join(source))
        return self._blocks(iter(group), "")

    def _blocks(self, tokens: Iterator[Token], close: str) -> tuple[md.Block, ...]:
        blocks: list[md.Block] = []
        for token in tokens:
            if token.type == close:
                break
            block = self._block(token, tokens)
            if block is not None:
                blocks.append(block)
        return tuple(blocks)

    def _block(self, token: Token, tokens: Iterator[Token]) -> md.Block | None:
        match token.type:
            case "paragraph_open":
                children = self._until_close(tokens)
                return md.Paragraph(children=children) if children else None
            case "heading_open":
                children = md.trimmed(md.joined(_on_one_line(self._until_close(tokens))))
                return md.Heading(level=int(token.tag[1:]), children=children) if children else None
            case "fence":
                return _code(token.content, md.safe_lang(token.info))
            case "code_block":
                return _code(token.content, "")
            case "blockquote_open":
                blocks = self._blocks(tokens, "blockquote_close")
                return md.Quote(blocks=blocks) if blocks else None
            case "bullet_list_open" | "ordered_list_open":
                return self._list(token, tokens)
            case "table_open":
                return self._table(tokens)
            case "hr":
                return md.Rule()
            case unknown:
                raise AssertionError(f"markdown-it gave an unknown block: {unknown}")

    def _until_close(self, tokens: Iterator[Token]) -> tuple[md.Inline, ...]:
        content = next(tokens).content
        next(tokens)
        return self.inlines(content)

    def _list(self, opening: Token, tokens: Iterator[Token]) -> md.ItemList:
        ordered = opening.type == "ordered_list_open"
        close = "ordered_list_close" if ordered else "bullet_list_close"
        items: list[tuple[md.Block, ...]] = []
        hidden: list[bool] = []
        for token in tokens:
            if token.type == close:
                break
            inside = list(_up_to(tokens, "list_item_close", token.level))
            own = (t for t in inside if t.type == "paragraph_open" and t.level == token.level + 1)
            hidden += (paragraph.hidden for paragraph in own)
            items.append(self._blocks(iter(inside), ""))
        # The parser tells only by its paragraphs whether a list was written without blank lines.
        tight = all(hidden) if hidden else all(len(item) <= 1 for item in items)
        start = opening.attrGet("start")
        return md.ItemList(
            ordered=ordered, start=1 if start is None else int(start), items=tuple(items), tight=tight
        )

    def _table(self, tokens: Iterator[Token]) -> md.Table:
        rows: list[list[tuple[md.Inline, ...]]] = []
        aligns: list[md.Align] = []
        for token in tokens:
            match token.type:
                case "table_close":
                    break
                case "tr_open":
                    rows.append([])
                case "th_open" | "td_open":
                    if token.type == "th_open":
                        style = str(token.attrGet("style") or "")
                        aligns.append(md.Align(style.removeprefix("text-align:") or "none"))
                    rows[-1].append(self._until_close(tokens))
        header, *body = (tuple(row) for row in rows)
        return md.Table(aligns=tuple(aligns), header=header, rows=tuple(body))

    def inlines(self, content: str) -> tuple[md.Inline, ...]:
        if not md.INLINE_MARKUP.search(content):
            return md.plain_inlines(content)
        marks = len(_MARKS.findall(content))
        self._marks_left -= marks
        if marks > MAX_MARKS_OF_PARAGRAPH or self._marks_left < 0:
            return md.plain_inlines(content)
        if self._env.get("references") or len(content) > MAX_REMEMBERED:
            return _inlines(content, self._env)
        return _remembered_inlines(content)


def _inlines(content: str, env: dict[str, object]) -> tuple[md.Inline, ...]:
    tokens: list[Token] = []
    parser = _parser()
    parser.inline.parse(content, parser, env, tokens)
    return md.trimmed(_Inlines().read(tokens))


@lru_cache(maxsize=1024)
def _remembered_inlines(content: str) -> tuple[md.Inline, ...]:
    """Read a paragraph, or remember it: a growing answer is read again and again."""
    return _inlines(content, {})


class _Frame(Struct, kw_only=True):
    """What was opened and not yet closed; without a kind, its inlines belong to what is around it."""

    kind: str = ""
    url: str = ""
    inlines: list[md.Inline] = field(default_factory=list)


class _Inlines:
    """Nests a flat run of inline tokens. A style inside itself adds nothing, so its inner marks vanish."""

    def __init__(self) -> None:
        self._frames: list[_Frame] = [_Frame()]
        self._open: set[str] = set()

    def read(self, tokens: Sequence[Token]) -> tuple[md.Inline, ...]:
        for token in tokens:
            kind, _, edge = token.type.rpartition("_")
            if edge == "open":
                fresh = kind not in self._open
                self._open.add(kind)
                self._frames.append(_Frame(kind=kind if fresh else "", url=str(token.attrGet("href") or "")))
            elif edge == "close":
                frame = self._frames.pop()
                self._open.discard(frame.kind)
                self._frames[-1].inlines.extend(_closed(frame))
            else:
                self._frames[-1].inlines.extend(self._leaf(token))
        return md.joined(self._frames[0].inlines)

    def _leaf(self, token: Token) -> list[md.Inline]:
        match token.type:
            case "text" | "text_special":
                return [md.Text(text=_on_line(token.content))]
            case "code_inline":
                return [md.Code(text=token.content)] if token.content else []
            case "softbreak":
                return [md.LineBreak()]
            case "hardbreak":
                return [md.LineBreak(hard=True)]
            case "image":
                return [self._image(token)]
            case unknown:
                raise AssertionError(f"markdown-it gave an unknown inline: {unknown}")

    def _image(self, token: Token) -> md.Inline:
        inside = md.joined(_on_one_line(_Inlines().read(token.children or ())))
        alt = " ".join(md.visible_inlines(inside).split())
        url = md.safe_url(str(token.attrGet("src") or ""))
        # A link cannot hold another link, which is what an image becomes in a chat.
        if url is None or "link" in self._open:
            return md.Text(text=alt)
        return md.Image(url=url, alt=alt)


def _closed(frame: _Frame) -> Sequence[md.Inline]:
    if frame.kind == "link":
        return _link(frame.url, frame.inlines)
    if not frame.kind:
        return frame.inlines
    children = md.joined(frame.inlines)
    return [_STYLES[frame.kind](children=children)] if children else []


def _link(target: str, inlines: list[md.Inline]) -> tuple[md.Inline, ...]:
    label = md.trimmed(md.joined(_on_one_line(inlines)))
    url = md.safe_url(target)
    if url is not None:
        return (md.Link(url=url, children=label or (md.Text(text=url),)),)
    shown = md.visible_inlines(label)
    return (*label, md.Text(text=md.label_and_url(shown, _on_line(target)).removeprefix(shown)))


def _on_one_line(inlines: Sequence[md.Inline]) -> list[md.Inline]:
    flat: list[md.Inline] = []
    for inline in inlines:
        if isinstance(inline, md.LineBreak):
            flat.append(md.Text(text=" "))
        elif isinstance(inline, md.Strong | md.Emphasis | md.Strike):
            flat.append(type(inline)(children=md.joined(_on_one_line(inline.children))))
        else:
            flat.append(inline)
    return flat


def _on_line(text: str) -> str:
    """The text with every blank that an entity can smuggle in made a space."""
    return text if text.isprintable() else re.sub(r"[^\S\xa0\t]", " ", text)


def _code(content: str, lang: str) -> md.CodeBlock | None:
    return md.CodeBlock(lang=lang, text=content.rstrip("\n")) if content.strip() else None


def _is_closed(fence: Token) -> bool:
    assert fence.map is not None
    lines = fence.map[1] - fence.map[0]
    return lines == fence.content.count("\n") + 2 and fence.content[-1:] in ("", "\n")


def _top_level(tokens: Sequence[Token]) -> Iterator[Sequence[Token]]:
    start = 0
    for number, token in enumerate(tokens):
        if token.level == 0 and token.nesting <= 0:
            yield tokens[start : number + 1]
            start = number + 1


def _up_to(tokens: Iterator[Token], close: str, level: int) -> Iterator[Token]:
    for token in tokens:
        if token.type == close and token.level == level:
            return
        yield token
