"""Text that is shown as it is, whatever a markdown reader would make of it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hermes.domain.chats.capabilities import Flavour
from hermes.stream.text.markdown import literal, parse
from hermes.stream.text.print import print_markdown
from tests.stream.shown import visible


@pytest.mark.parametrize(
    "text",
    [
        "Run: rm *a* b",
        "Run: ls [harmless](https://x.example/rm)",
        "Run: a ~~b~~ __c__ `d` ||e|| <!-- f --> &amp; \\*",
        "Write ~/.bashrc\n-alias *a*\n- b\n+ c\n+# title\n===\n1. d\n2) e",
        "Run: a\n│ It only lists files.",
        "> quoted\n# head",
        "a\n---\nb",
    ],
)
def test_every_sign_is_shown(text: str) -> None:
    shown = parse(literal(text))
    assert visible(shown.blocks) == text
    assert print_markdown(shown, Flavour.PLAIN) == text


@given(
    st.lists(
        st.text("ab*_[]()<>&~`#|\\-+=1.! ", min_size=1, max_size=12).map(str.strip), min_size=1, max_size=4
    )
)
def test_any_line_is_shown_as_it_is(lines: list[str]) -> None:
    text = "\n".join("x" + line for line in lines)
    assert visible(parse(literal(text)).blocks) == text
