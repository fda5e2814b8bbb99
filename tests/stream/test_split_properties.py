"""What the splitter promises for every text, unit, flavour and limit, on generated documents.

HERMES_TEST_SCALE=full generates 21,000 documents instead of about 600; HERMES_TEST_SEED (any word) makes
them other documents than those of every run.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from random import Random

import pytest
import regex

from hermes.domain.chats.capabilities import Flavour, TextUnit
from hermes.domain.word import replace
from hermes.stream.text.markdown import (
    Block,
    Code,
    CodeBlock,
    Document,
    Heading,
    Image,
    Inline,
    ItemList,
    Link,
    Paragraph,
    Quote,
    Style,
    Table,
    Text,
    parse,
    visible_inlines,
)
from hermes.stream.text.print import print_markdown
from hermes.stream.text.split import MessagePart, split
from tests.stream.shown import visible

FULL = os.environ.get("HERMES_TEST_SCALE", "sample") == "full"
FENCE = re.compile("^(```|~~~)", re.MULTILINE)
EDGE = "\ue000"


SEED = os.environ.get("HERMES_TEST_SEED", "")
SHARDS = 4

WORDS = (
    "a", "of", "word", "sentence.", "longer-word", "snake_case", "2*3", "x<y", "R&D", "(so)", "end!", "Why?",
    "unbreakable" * 4, "https://e.example/a_b?c=d&e", "été", "日本語のテキスト。", "다람쥐", "नमस्ते",
    "\U0001f468\u200d\U0001f469\u200d\U0001f467\u200d\U0001f466", "\U0001f1e9\U0001f1ea\U0001f1eb\U0001f1f7",
    "👍🏽", "e\u0301\u0323", "#", "-", "1.", ">", "|", "~~", "`", "\\*", "&amp;", "&#32;", "***", "[x]", "!",
)  # fmt: skip

CODES = ("x = 1", "a_b", "`", "a|b", "long " * 6 + "code", "  ")
CODE_LINES = ("x = 1", "    y()", "", "~~~", "``", "*a* <b> & c", "été " * 5, "z" * 90)
NOISE = "ab c\n\t*_~`[]()<>&#-+=|\\!:.1>é\u0301👍🏽\u200d\xa0\u2028\r"
INLINES = (
    "{0}", "**{0}**", "*{0}*", "~~{0}~~", "***{0}***", "`` {1} ``", "[{0}](https://e.example/p(1)?q=*a*)",
    "[{0}](javascript:x)", "![picture](https://e.example/i.png)", "<https://e.example/auto_link>",
    "[![badge](http://e.example/b)](http://e.example)",
)  # fmt: skip
MAX_DEPTH = 3


class Writer:
    """Writes documents at random, each shape of markdown about as often as the next."""

    def __init__(self, seed: str) -> None:
        self.random = Random(seed)

    def several(self, write: Callable[[], str], most: int, least: int = 1) -> list[str]:
        """Some of these, often few: what goes wrong is found in a short text as well, and sooner."""
        count = self.random.randint(least, self.random.choice((max(least, most // 4), most)))
        return [write() for _ in range(count)]

    def word(self) -> str:
        return self.random.choice(WORDS)

    def words(self) -> str:
        return " ".join(self.several(self.word, 8))

    def inline(self) -> str:
        return self.random.choice(INLINES).format(self.words(), self.random.choice(CODES))

    def line(self) -> str:
        return self.random.choice((" ", "")).join(self.several(self.inline, 4))

    def paragraph(self) -> str:
        return self.random.choice(("\n", "  \n", "\\\n")).join(self.several(self.line, 4))

    def fence(self) -> str:
        mark = self.random.choice(("```", "~~~~", "`````"))
        code = "\n".join(self.several(lambda: self.random.choice(CODE_LINES), 8, least=0))
        lang = self.random.choice(("", "py", "c++ title=x"))
        return f"{mark}{lang}\n{code}\n{self.random.choice((mark, ''))}"

    def table(self) -> str:
        rows = self.several(lambda: f"| {self.line()} | {self.line()} |", 4, least=0)
        return "\n".join(("| a | **b** |", "|:--|--:|", *rows))

    def leaf(self) -> str:
        headings = (lambda: f"## {self.line()}", lambda: f"{self.line()}\n===")
        fixed = (lambda: "---", lambda: "    indented code\n    more")
        return self.random.choice((self.paragraph, self.fence, self.table, *headings, *fixed))()

    def block(self, depth: int = 0) -> str:
        if depth == MAX_DEPTH or self.random.random() < 0.5:
            return self.leaf()
        parts = self.several(lambda: self.block(depth + 1), 3)
        match self.random.randrange(5):
            case 0:
                return "> " + "\n\n".join(parts).replace("\n", "\n> ")
            case 1:
                return "\n".join(indented(part, "- ") for part in parts)
            case 2:
                return "\n\n".join(indented(part, "* ") for part in parts)
            case 3:
                return "\n".join(indented(part, f"{n}. ") for n, part in enumerate(parts, 8))
            case _:
                return indented("\n\n".join(parts), "3) ")

    def noise(self) -> str:
        return "".join(self.several(lambda: self.random.choice(NOISE), self.random.choice((20, 100, 300))))

    def document(self) -> str:
        match self.random.randrange(4):
            case 0:
                return " ".join(self.several(self.word, 120))
            case 1:
                writers = (self.noise, self.line, self.fence)
                return "\n".join(self.several(lambda: self.random.choice(writers)(), 6))
            case _:
                return "\n\n".join(self.several(self.block, 5))

    def limit(self) -> int:
        return self.random.choice((self.random.randint(20, 60), self.random.randint(60, 400)))

    def case(self) -> Case:
        unit, flavour = self.random.choice(list(TextUnit)), self.random.choice(list(Flavour))
        return Case(self.document(), self.limit(), unit, flavour)


def indented(text: str, first: str) -> str:
    return first + text.replace("\n", "\n" + " " * len(first))


def writers(name: str, *, sample: int, full: int) -> Iterator[Writer]:
    """Each writer has its own seed, which HERMES_TEST_SEED changes for all of them."""
    return (Writer(f"{SEED}-{name}-{number}") for number in range(full if FULL else sample))


@dataclass(frozen=True, slots=True)
class Case:
    text: str
    limit: int
    unit: TextUnit
    flavour: Flavour

    def parts(self, text: str | None = None) -> tuple[MessagePart, ...]:
        source = self.text if text is None else text
        return split(source, limit=self.limit, unit=self.unit, flavour=self.flavour)

    def size(self, doc: Document) -> int:
        return self.unit.measure(print_markdown(doc, self.flavour))

    def fits_alone(self, inline: Inline) -> bool:
        return self.size(Document(blocks=(Paragraph(children=(inline,)),))) <= self.limit


@pytest.mark.parametrize("shard", range(SHARDS))
def test_promises(shard: int) -> None:
    for writer in writers(f"promises-{shard}", sample=100, full=4_500):
        case = writer.case()
        try:
            check_promises(case)
        except AssertionError as error:
            error.add_note(repr(case))
            raise


def check_promises(case: Case) -> None:
    whole = parse(case.text)
    parts = case.parts()
    docs = [Document(blocks=part.blocks) for part in parts]
    check_limits(case, parts)
    check_nothing_is_lost(case, whole, docs)
    check_fences_are_closed(parts)
    check_solid_things_are_whole(case, whole, docs)
    check_code_stays_code(case, whole, docs)
    check_markdown(parts)


def check_limits(case: Case, parts: Sequence[MessagePart]) -> None:
    """What the platform gets is the part printed in its flavour, and fits."""
    for part in parts:
        assert part.printed == print_markdown(Document(blocks=part.blocks), case.flavour)
        assert 0 < case.unit.measure(part.printed) <= case.limit


def check_markdown(parts: Sequence[MessagePart]) -> None:
    """The Markdown that is kept of a part shows the same words when it is read again."""
    for part in parts:
        assert squeezed(visible(parse(part.text).blocks)) == squeezed(visible(part.blocks)), part.text


def check_nothing_is_lost(case: Case, whole: Document, docs: Sequence[Document]) -> None:
    """The parts' words are the text's words in order, and no character is torn between two parts."""
    shown = squeezed(visible(whole.blocks))
    ends = character_ends(case, whole)
    at = seen = 0
    for doc in docs:
        assert seen in ends
        at += at > 0 and shown[at : at + 1] == "\n"
        part = squeezed(visible(doc.blocks))
        assert shown[at : at + len(part)] == part
        at += len(part)
        seen += len(part) - part.count("\n")
    assert not shown[at:].strip()


def character_ends(case: Case, whole: Document) -> set[int]:
    """After how many characters that are no blanks a part may end: after each one that a reader sees, inside
    of one only if it fits into no message. One that reaches over an edge of code or of a link is shown as
    two, unless the code or link is too long and becomes plain text: so both count."""
    ends = {0}
    shown = visible(marked_solids(block) for block in whole.blocks)
    for runs in (shown.split(EDGE), [shown.replace(EDGE, "")]):
        seen = 0
        for character in (character for run in runs for character in regex.findall(r"\X", run)):
            size = len("".join(character.split()))
            torn = len(character) > 1 and alone(case.unit, case.flavour, character) > case.limit
            ends |= {*range(seen, seen + size)} if torn else set()
            ends.add(seen + size)
            seen += size
    return ends


def check_fences_are_closed(parts: Sequence[MessagePart]) -> None:
    """A paragraph that is written below a part is a paragraph, so no fence in the part is open."""
    for part in parts:
        if FENCE.search(part.text):
            assert parse(part.text + "\n\nbelow").blocks[-1] == Paragraph(children=(Text(text="below"),))


def check_solid_things_are_whole(case: Case, whole: Document, docs: Sequence[Document]) -> None:
    """Code and links that fit into a message are in one; a link may lose the styles inside its label."""
    wanted = Counter(bare(node) for node in solids(whole.blocks) if case.fits_alone(node))
    found = Counter(bare(node) for doc in docs for node in solids(doc.blocks))
    assert not wanted - found


def bare(node: Link | Code) -> tuple[str, str]:
    return ("`", node.text) if isinstance(node, Code) else (node.url, visible_inlines(node.children))


def check_code_stays_code(case: Case, whole: Document, docs: Sequence[Document]) -> None:
    if case.limit < 150:
        return
    wanted = Counter(char for block in codes(whole.blocks) for char in marked(block))
    found = Counter(char for doc in docs for block in codes(doc.blocks) for char in marked(block))
    assert wanted == found


def squeezed(text: str) -> str:
    return "\n".join(text.split())


@cache
def alone(unit: TextUnit, flavour: Flavour, character: str) -> int:
    doc = Document(blocks=(Paragraph(children=(Text(text=character),)),))
    return unit.measure(print_markdown(doc, flavour))


def marked_solids(block: Block) -> Block:
    """The block with a mark at both edges of each link, picture and inline code."""
    match block:
        case Paragraph() | Heading():
            return replace(block, children=marked_inlines(block.children))
        case Quote():
            return Quote(blocks=tuple(map(marked_solids, block.blocks)))
        case ItemList():
            return replace(block, items=tuple(tuple(map(marked_solids, item)) for item in block.items))
        case Table():
            rows = tuple(tuple(map(marked_inlines, row)) for row in block.rows)
            return replace(block, header=tuple(map(marked_inlines, block.header)), rows=rows)
        case _:
            return block


def marked_inlines(inlines: Sequence[Inline]) -> tuple[Inline, ...]:
    edge = Text(text=EDGE)
    marked: list[Inline] = []
    for node in inlines:
        if isinstance(node, Style):
            marked.append(replace(node, children=marked_inlines(node.children)))
        else:
            marked += (edge, node, edge) if isinstance(node, Link | Code | Image) else (node,)
    return tuple(marked)


def marked(block: CodeBlock) -> Iterator[tuple[str, str]]:
    return ((block.lang, char) for char in block.text if not char.isspace())


def codes(blocks: Sequence[Block]) -> Iterator[CodeBlock]:
    for block in blocks:
        match block:
            case CodeBlock():
                yield block
            case Quote():
                yield from codes(block.blocks)
            case ItemList():
                for item in block.items:
                    yield from codes(item)


def solids(blocks: Sequence[Block]) -> Iterator[Link | Code]:
    for block in blocks:
        match block:
            case Paragraph() | Heading():
                yield from solid_inlines(block.children)
            case Quote():
                yield from solids(block.blocks)
            case ItemList():
                for item in block.items:
                    yield from solids(item)
            case Table():
                for row in (block.header, *block.rows):
                    for cell in row:
                        yield from solid_inlines(cell)


def solid_inlines(inlines: Sequence[Inline]) -> Iterator[Link | Code]:
    for node in inlines:
        if isinstance(node, Style):
            yield from solid_inlines(node.children)
        elif isinstance(node, Link | Code):
            yield node


def test_growth_keeps_the_cuts() -> None:
    """Paragraphs that only grow at the end keep every part but the last."""
    for writer in writers("growth", sample=120, full=1_500):
        text = "\n\n".join(writer.several(writer.words, 20, least=2)).replace("`", "'")
        limit, flavour = writer.limit(), writer.random.choice(list(Flavour))
        end = writer.random.choice([found.end() for found in re.finditer(r"\n\n", text)])
        earlier = split(text[:end], limit=limit, unit=TextUnit.CHARS, flavour=flavour)
        later = split(text, limit=limit, unit=TextUnit.CHARS, flavour=flavour)
        settled = earlier[:-1]
        assert later[: len(settled)] == settled, (text, end, limit, flavour)


def test_commonmark_reads_back() -> None:
    for writer in writers("commonmark", sample=120, full=1_500):
        text = writer.document()
        doc = parse(text)
        again = parse(print_markdown(doc, Flavour.COMMONMARK))
        assert squeezed(visible(again.blocks)) == squeezed(visible(doc.blocks)), text
        assert print_markdown(again, Flavour.PLAIN) == print_markdown(doc, Flavour.PLAIN), text
