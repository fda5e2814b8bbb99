"""What a reader sees of a Markdown tree, for tests that compare words."""

from __future__ import annotations

from collections.abc import Iterable
from typing import assert_never

from hermes.stream.text.markdown import (
    Block,
    CodeBlock,
    Heading,
    ItemList,
    Paragraph,
    Quote,
    Rule,
    Table,
    visible_inlines,
)


def visible(blocks: Iterable[Block]) -> str:
    """What a reader sees, without any markup, bullets or decoration; one line per block or line."""
    return "\n".join(visible_block(block) for block in blocks)


def visible_block(block: Block) -> str:
    match block:
        case Paragraph() | Heading():
            return visible_inlines(block.children)
        case CodeBlock():
            return block.text
        case Quote():
            return visible(block.blocks)
        case ItemList():
            return "\n".join(visible(item) for item in block.items)
        case Table():
            rows = (block.header, *block.rows)
            return "\n".join("\t".join(visible_inlines(cell) for cell in row) for row in rows)
        case Rule():
            return ""
        case _:
            assert_never(block)
