"""What the splitter promises for every text, unit, flavour and limit, on generated documents.

HERMES_TEST_SCALE=full generates more than 20,000 documents instead of about 600.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache

import regex
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from hermes.domain.capabilities import Flavour, TextUnit
from hermes.stream.markdown import (
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
    visible,
    visible_inlines,
)
from hermes.stream.print import print_markdown
from hermes.stream.split import Part, split

FULL = os.environ.get("HERMES_TEST_SCALE", "sample") == "full"
FENCE = re.compile("^(```|~~~)", re.MULTILINE)
EDGE = "\ue000"


def scaled(sample: int, full: int) -> Callable[[Callable[..., None]], Callable[..., None]]:
    return settings(
        max_examples=full if FULL else sample,
        derandomize=True,
        deadline=None,
        database=None,
        # Shrinking these documents takes minutes; the case that failed says enough.
        phases=(Phase.explicit, Phase.generate),
        suppress_health_check=list(HealthCheck),
    )


WORDS = (
    "a", "of", "word", "sentence.", "longer-word", "snake_case", "2*3", "x<y", "R&D", "(so)", "end!", "Why?",
    "unbreakable" * 4, "https://e.example/a_b?c=d&e", "été", "日本語のテキスト。", "다람쥐", "नमस्ते",
    "\U0001f468\u200d\U0001f469\u200d\U0001f467\u200d\U0001f466", "\U0001f1e9\U0001f1ea\U0001f1eb\U0001f1f7",
    "👍🏽", "e\u0301\u0323", "#", "-", "1.", ">", "|", "~~", "`", "\\*", "&amp;", "&#32;", "***", "[x]", "!",
)  # fmt: skip

word = st.sampled_from(WORDS)
words = st.lists(word, min_size=1, max_size=8).map(" ".join)
inline = st.one_of(
    words,
    words.map(lambda text: f"**{text}**"),
    words.map(lambda text: f"*{text}*"),
    words.map(lambda text: f"~~{text}~~"),
    words.map(lambda text: f"***{text}***"),
    st.sampled_from(("x = 1", "a_b", "`", "a|b", "long " * 6 + "code", "  ")).map(
        lambda text: f"`` {text} ``"
    ),
    words.map(lambda text: f"[{text}](https://e.example/p(1)?q=*a*)"),
    words.map(lambda text: f"[{text}](javascript:x)"),
    st.just("![picture](https://e.example/i.png)"),
    st.just("<https://e.example/auto_link>"),
    st.just("[![badge](http://e.example/b)](http://e.example)"),
)
line = st.builds(
    lambda parts, glue: glue.join(parts), st.lists(inline, min_size=1, max_size=4), st.sampled_from((" ", ""))
)
paragraph = st.builds(
    lambda lines, end: end.join(lines),
    st.lists(line, min_size=1, max_size=4),
    st.sampled_from(("\n", "  \n", "\\\n")),
)
code = st.lists(
    st.sampled_from(("x = 1", "    y()", "", "~~~", "``", "*a* <b> & c", "été " * 5, "z" * 90)), max_size=8
).map("\n".join)
fence = st.builds(
    lambda mark, lang, text, close: f"{mark}{lang}\n{text}\n{mark if close else ''}",
    st.sampled_from(("```", "~~~~", "`````")),
    st.sampled_from(("", "py", "c++ title=x")),
    code,
    st.booleans(),
)
leaf = st.one_of(
    paragraph,
    line.map(lambda text: f"## {text}"),
    line.map(lambda text: f"{text}\n==="),
    fence,
    st.just("---"),
    st.just("    indented code\n    more"),
    st.lists(st.tuples(line, line), max_size=4).map(
        lambda rows: "| a | **b** |\n|:--|--:|\n" + "\n".join(f"| {left} | {right} |" for left, right in rows)
    ),
)


def indented(text: str, first: str) -> str:
    return first + text.replace("\n", "\n" + " " * len(first))


def nested(blocks: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    several = st.lists(blocks, min_size=1, max_size=3)
    return st.one_of(
        several.map(lambda parts: "> " + "\n\n".join(parts).replace("\n", "\n> ")),
        several.map(lambda parts: "\n".join(indented(part, "- ") for part in parts)),
        several.map(lambda parts: "\n\n".join(indented(part, "* ") for part in parts)),
        several.map(lambda parts: "\n".join(indented(part, f"{n}. ") for n, part in enumerate(parts, 8))),
        several.map(lambda parts: indented("\n\n".join(parts), "3) ")),
    )


tidy = st.lists(st.recursive(leaf, nested, max_leaves=6), min_size=1, max_size=5).map("\n\n".join)
noise = st.text(
    alphabet="ab c\n\t*_~`[]()<>&#-+=|\\!:.1>é\u0301👍🏽\u200d\xa0\u2028\r", min_size=1, max_size=300
)
noisy_lines = st.lists(st.one_of(noise, line, fence), min_size=1, max_size=6).map("\n".join)
documents = st.one_of(tidy, tidy, noisy_lines, st.lists(word, min_size=1, max_size=120).map(" ".join))
limits = st.one_of(st.integers(20, 60), st.integers(60, 400))


@dataclass(frozen=True, slots=True)
class Case:
    text: str
    limit: int
    unit: TextUnit
    flavour: Flavour

    def parts(self, text: str | None = None) -> tuple[Part, ...]:
        source = self.text if text is None else text
        return split(source, limit=self.limit, unit=self.unit, flavour=self.flavour)

    def size(self, doc: Document) -> int:
        return self.unit.measure(print_markdown(doc, self.flavour))

    def fits_alone(self, inline: Inline) -> bool:
        return self.size(Document(blocks=(Paragraph(children=(inline,)),))) <= self.limit


cases = st.builds(Case, documents, limits, st.sampled_from(TextUnit), st.sampled_from(Flavour))


@scaled(sample=400, full=18_000)
@given(cases)
def test_promises(case: Case) -> None:
    whole = parse(case.text)
    parts = case.parts()
    docs = [parse(part.text) for part in parts]
    check_limits(case, docs)
    check_nothing_is_lost(case, whole, docs)
    check_fences_are_closed(parts)
    check_solid_things_are_whole(case, whole, docs)
    check_code_stays_code(case, whole, docs)
    assert all(case.parts(part.text) == (part,) for part in parts), "a part is one part"


def check_limits(case: Case, docs: Sequence[Document]) -> None:
    assert all(0 < case.size(doc) <= case.limit for doc in docs)


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
            size = sum(not char.isspace() for char in character)
            torn = len(character) > 1 and alone(case.unit, case.flavour, character) > case.limit
            ends |= {*range(seen, seen + size)} if torn else set()
            ends.add(seen + size)
            seen += size
    return ends


def check_fences_are_closed(parts: Sequence[Part]) -> None:
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


@scaled(sample=120, full=1_500)
@given(
    st.lists(words.filter(lambda text: "`" not in text), min_size=2, max_size=20).map("\n\n".join),
    limits,
    st.sampled_from(Flavour),
    st.data(),
)
def test_growth_keeps_the_cuts(text: str, limit: int, flavour: Flavour, data: st.DataObject) -> None:
    """Paragraphs that only grow at the end keep every part but the last."""
    ends = [found.end() for found in re.finditer(r"\n\n", text)]
    end = data.draw(st.sampled_from(ends))
    earlier = split(text[:end], limit=limit, unit=TextUnit.CHARS, flavour=flavour)
    later = split(text, limit=limit, unit=TextUnit.CHARS, flavour=flavour)
    settled = earlier[:-1]
    assert later[: len(settled)] == settled


@scaled(sample=120, full=1_500)
@given(documents)
def test_commonmark_reads_back(text: str) -> None:
    doc = parse(text)
    again = parse(print_markdown(doc, Flavour.COMMONMARK))
    assert squeezed(visible(again.blocks)) == squeezed(visible(doc.blocks))
    assert print_markdown(again, Flavour.PLAIN) == print_markdown(doc, Flavour.PLAIN)
