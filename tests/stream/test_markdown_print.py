"""What each flavour prints, as one table per flavour: markdown on the left, what is sent on the right."""

from __future__ import annotations

import subprocess
import sys
from html.parser import HTMLParser

import pytest

from hermes.domain.chats.capabilities import Flavour
from hermes.stream.text.markdown import parse
from hermes.stream.text.print import print_markdown

Z = "\u200b"
STYLES = "**b** *i* ~~s~~ `c`"
LINK = "[a & b](https://x.y/?a=1&b=2)"
LIST = "- a\n  - b\n- c"
NUMBERS = "3. a\n4. b"
TABLE = "| n | size |\n|---|--:|\n| x&y | 10 |"
CODE = "```py\na < b\n```"

EXAMPLES: dict[Flavour, dict[str, str]] = {
    Flavour.PLAIN: {
        STYLES: "b i s c",
        LINK: "a & b (https://x.y/?a=1&b=2)",
        "<https://x.y>": "https://x.y",
        "# T": "T",
        LIST: "• a\n  • b\n• c",
        NUMBERS: "3. a\n4. b",
        "> q\n>\n> r": "> q\n>\n> r",
        CODE: "a < b",
        TABLE: "n   | size\n----+-----\nx&y |   10",
        "a\n\n---\n\nb": "a\n\n———\n\nb",
        "\\*x\\*": "*x*",
    },
    Flavour.COMMONMARK: {
        STYLES: "**b** *i* ~~s~~ `c`",
        "__b__ _i_": "**b** *i*",
        LINK: "[a & b](https://x.y/?a=1&b=2)",
        "\\*x\\* a_b_c \\_d\\_ &lt;b> 1\\. \\# #": "\\*x\\* a_b_c \\_d\\_ \\<b> 1. # #",
        "1\\. x\n\\# y\n\\- z": "1\\. x\n\\# y\n\\- z",
        "***x***": "***x***",
        "**_x_**": "**_x_**",
        "`` a`b ``": "``a`b``",
        "`a`[`b`|]()": "`a`b| ()",
        "*a***b**": "_a_**b**",
        "- -\n  - a": "- +\n  + a",
        "- a\n  - b\n- c\n  > d\n  -\n  - e": "- a\n  - b\n- c\n\n  > d\n\n  -\n  - e",
        "* a\n\n+ b": "- a\n\n+ b",
        TABLE: "| n | size |\n|---|--:|\n| x&y | 10 |",
        "~~~py\n```\n~~~": "````py\n```\n````",
        "[x](http://a.b/(c)) !\\[y]": "[x](<http://a.b/(c)>) !\\[y\\]",
        "\\![x](http://a.b)": "\\![x](http://a.b)",
    },
    Flavour.DISCORD: {
        STYLES: "**b** *i* ~~s~~ `c`",
        LINK: "[a & b](https://x.y/?a=1&b=2)",
        "[m](mailto:a@b.c)": "m (mailto:a@b.c)",
        "## T": "## T",
        "#### T **b**": "**T b**",
        "\\*x\\* a_b \\_c\\_ https://x.y/a_ \\||s||": "\\*x\\* a_b \\_c\\_ https://x.y/a_ \\|\\|s\\|\\|",
        "\\> a\n\\# b": "\\> a\n\\# b",
        "<@123> x": "\\<@123> x",
        "> a\n> > b": "> a\n>\n> b",
        CODE: "```py\na < b\n```",
        TABLE: "```\nn   | size\n----+-----\nx&y |   10\n```",
        LIST: "- a\n  - b\n- c",
    },
    Flavour.TELEGRAM_HTML: {
        STYLES: "<b>b</b> <i>i</i> <s>s</s> <code>c</code>",
        LINK: '<a href="https://x.y/?a=1&amp;b=2">a &amp; b</a>',
        "# T **b**": "<b>T b</b>",
        "a < b & c > d": "a &lt; b &amp; c &gt; d",
        LIST: "• a\n  • b\n• c",
        NUMBERS: "3. a\n4. b",
        CODE: '<pre><code class="language-py">a &lt; b</code></pre>',
        TABLE: "<pre>n   | size\n----+-----\nx&amp;y |   10</pre>",
        "> a\n> > b": "<blockquote>a\n\nb</blockquote>",
        "- a\n  ```\n  x\n  ```": "• a\n<pre>x</pre>",
        "![cat](https://x.y/c.png)": '<a href="https://x.y/c.png">cat</a>',
        "[x](javascript:y)": "x (javascript:y)",
    },
    Flavour.SLACK_MRKDWN: {
        STYLES: "*b* _i_ ~s~ `c`",
        LINK: "<https://x.y/?a=1&amp;b=2|a &amp; b>",
        "<https://x.y>": "<https://x.y>",
        "# T **b**": "*T b*",
        "a < b & c": "a &lt; b &amp; c",
        "a**b**c": f"a{Z}*b*{Z}c",
        "**a\nb**": "*a*\n*b*",
        "2 * 3 a_b_c \\*x\\*": f"2 * 3 a_b_c *{Z}x{Z}*{Z}",
        "\\> a": f"{Z}&gt; a",
        CODE: "```\na &lt; b\n```",
        LIST: "• a\n  • b\n• c",
    },
    Flavour.WHATSAPP: {
        STYLES: "*b* _i_ ~s~ ```c```",
        LINK: "a & b (https://x.y/?a=1&b=2)",
        "# T": "*T*",
        CODE: "```\na < b\n```",
        LIST: "- a\n  - b\n- c",
        "https://x.y/a_ \\_b\\_ c": f"https://x.y/a_ _{Z}b{Z}_ c",
    },
    Flavour.HTML: {
        STYLES: "<p><strong>b</strong> <em>i</em> <del>s</del> <code>c</code></p>",
        LINK: '<p><a href="https://x.y/?a=1&amp;b=2">a &amp; b</a></p>',
        "## T\n\na\nb": "<h2>T</h2>\n<p>a<br>b</p>",
        LIST: "<ul><li>a\n<ul><li>b</li></ul></li><li>c</li></ul>",
        NUMBERS: '<ol start="3"><li>a</li><li>b</li></ol>',
        "- a\n\n- b": "<ul><li><p>a</p></li><li><p>b</p></li></ul>",
        CODE: '<pre><code class="language-py">a &lt; b</code></pre>',
        "> a": "<blockquote><p>a</p></blockquote>",
        TABLE: "<table><tr><th>n</th><th>size</th></tr><tr><td>x&amp;y</td><td>10</td></tr></table>",
        "<script>x</script>": "<p>&lt;script&gt;x&lt;/script&gt;</p>",
    },
}

CASES = [(flavour, text, shown) for flavour, table in EXAMPLES.items() for text, shown in table.items()]


def test_every_flavour_has_examples() -> None:
    assert set(EXAMPLES) == set(Flavour)


@pytest.mark.parametrize(("flavour", "text", "shown"), CASES)
def test_example(flavour: Flavour, text: str, shown: str) -> None:
    assert print_markdown(parse(text), flavour) == shown


class Tags(HTMLParser):
    """Refuses tags that are not closed in order, and remembers all that it saw."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.add(tag)
        if tag not in ("br", "hr"):
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


EVERYTHING = "\n\n".join(text for table in EXAMPLES.values() for text in table)


@pytest.mark.parametrize("flavour", [Flavour.TELEGRAM_HTML, Flavour.HTML])
def test_tags_are_closed_in_order(flavour: Flavour) -> None:
    tags = Tags()
    tags.feed(print_markdown(parse(EVERYTHING), flavour))
    assert not tags.open
    if flavour is Flavour.TELEGRAM_HTML:
        assert tags.seen <= {"b", "i", "u", "s", "a", "code", "pre", "blockquote"}


def test_a_gap_without_end_holds_nobody_up() -> None:
    """In a process of its own: what never ends would not let go of this one."""
    printing = (
        "from hermes.domain.chats.capabilities import Flavour; from hermes.stream.text.print import *; "
        "print(*(print_markdown(parse('a' + ' ' * 200_000 + 'b'), each).count('b') for each in Flavour))"
    )
    done = subprocess.run([sys.executable, "-c", printing], capture_output=True, timeout=60, check=True)
    assert done.stdout.split() == [b"1"] * len(Flavour)
