"""Every link of a page to another page, or to a heading, leads there."""

from __future__ import annotations

import re
from pathlib import Path

from tests.shape.tree import ROOT

_LINK = re.compile(r"\]\(([^)\s:]*)\)")
_HEADING = re.compile(r"^#+ (.*)$", re.MULTILINE)


def _pages() -> list[Path]:
    return [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]


def _anchors(page: Path) -> set[str]:
    """The names that a reader of Markdown gives to headings."""
    headings = _HEADING.findall(page.read_text(encoding="utf-8"))
    return {re.sub(r"[^\w\- ]", "", heading.strip().lower()).replace(" ", "-") for heading in headings}


def _leads(page: Path, link: str) -> bool:
    name, _, anchor = link.partition("#")
    there = page.parent / name if name else page
    return there.exists() and (not anchor or there.suffix != ".md" or anchor in _anchors(there))


def test_every_link_leads_somewhere() -> None:
    assert any(_LINK.search(page.read_text(encoding="utf-8")) for page in _pages())
    lost = [
        f"{page.relative_to(ROOT)}: {link}"
        for page in _pages()
        for link in _LINK.findall(page.read_text(encoding="utf-8"))
        if not _leads(page, link)
    ]
    assert lost == []


def test_a_lost_link_is_noticed(tmp_path: Path) -> None:
    page = tmp_path / "a.md"
    page.write_text("# One `two`, three\n[x](#one-two-three) [y](#one) [z](b.md)\n")
    links = _LINK.findall(page.read_text())
    assert [link for link in links if not _leads(page, link)] == ["#one", "b.md"]
