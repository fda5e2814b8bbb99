"""The words of a web page: of its article, by trafilatura where that is installed, else of all of it."""

from __future__ import annotations

import re
from html import unescape
from html.parser import HTMLParser
from urllib.parse import urljoin

_SHORT = 250
"""An article of fewer characters may be the wrong part of the page."""
_SILENT = frozenset(("script", "style", "template", "noscript", "svg", "iframe", "nav", "select", "title"))
_TITLE = re.compile(r"<title[^>]{0,200}>([^<]{0,500})", re.IGNORECASE)
_BLOCK_TAGS = """p div section article header footer main aside ul ol li table tr h1 h2 h3 h4 h5 h6 pre
    blockquote br hr dl dt dd figure figcaption form"""
_BLOCKS = frozenset(_BLOCK_TAGS.split())
_BEFORE = {"li": "- ", **{f"h{level}": "#" * level + " " for level in range(1, 7)}}


def read_page(html: str, url: str, limit: int) -> tuple[str, str]:
    """Its title and its text, as Markdown."""
    title = _TITLE.search(html)
    text = _article(html, url)
    if len(text) < _SHORT:
        page = _PageText(url, limit)
        page.feed(html)
        page.close()
        text = max(text, page.text, key=len)
    return " ".join(unescape(title[1]).split()) if title else "", text


def _article(html: str, url: str) -> str:
    try:
        from trafilatura import extract
    except ImportError:
        return ""
    try:
        found = extract(html, url=url or None, output_format="markdown", include_links=True,
                        include_comments=False)  # fmt: skip
    except Exception:  # the border: its parsers raise anything on broken pages
        return ""
    return found or ""


class _PageText(HTMLParser):
    """All words of a page, without its scripts, styles and menus."""

    def __init__(self, url: str, limit: int) -> None:
        super().__init__()
        self._url, self._room = url, 2 * limit
        self._words: list[str] = []
        self._silent = 0
        self._links: list[str] = []

    @property
    def text(self) -> str:
        lines = (" ".join(line.split()) for line in "".join(self._words).splitlines())
        return re.sub(r"\n{3,}", "\n\n", "\n".join(lines)).strip()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._silent += tag in _SILENT
        if tag in _BLOCKS:
            self._say("\n" + _BEFORE.get(tag, ""))
        elif tag in ("td", "th"):
            self._say(" | ")
        elif tag == "a":
            self._links.append(_absolute(self._url, dict(attrs).get("href") or ""))
            self._say("[" if self._links[-1] else "")

    def handle_endtag(self, tag: str) -> None:
        self._silent -= tag in _SILENT and self._silent > 0
        if tag in _BLOCKS and tag != "li":
            self._say("\n")
        elif tag == "a" and self._links and (link := self._links.pop()):
            self._say(f"]({link})")

    def handle_data(self, data: str) -> None:
        self._say(data)

    def _say(self, words: str) -> None:
        if not self._silent and self._room > 0:
            self._room -= len(words)
            self._words.append(words)


def _absolute(url: str, link: str) -> str:
    try:
        found = urljoin(url, link.strip())
    except ValueError:
        return ""
    return found if found.startswith(("http://", "https://")) and len(found) < 2000 else ""
