"""The page at `/docs` tells of every endpoint and type, with links that lead somewhere, and loads nothing."""

from __future__ import annotations

import re
from base64 import b64encode
from hashlib import sha256
from html.parser import HTMLParser
from pathlib import Path

from hermes.entry.http.api import load_resources
from hermes.entry.http.api.openapi import tag_of
from hermes.entry.http.site.endpoint import ROUTES, shown_path
from hermes.testing.api import ApiWorld

VOID = {"meta", "br", "wbr"}


class Page(HTMLParser):
    """What a page is made of; fails where elements are not closed as they were opened."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.ids: list[str] = []
        self.links: list[str] = []
        self.loads: list[str] = []
        self.feed(text)
        assert not self.open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        self.ids += [given["id"] or ""] if "id" in given else []
        self.links += [given["href"] or ""] if "href" in given else []
        self.loads += [tag] if "src" in given or tag in ("script", "link", "img") or "style" in given else []
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


async def test_the_page_tells_everything_and_loads_nothing(tmp_path: Path) -> None:
    async with ApiWorld(home=tmp_path / "home") as api:
        heard = await api.get("/docs", headers={"Authorization": ""})
        told = (await api.get("/openapi.json")).json
    assert heard.status == 200
    text = heard.data.decode()
    page = Page(text)
    assert not page.loads
    assert len(page.ids) == len(set(page.ids))
    inside = {link.removeprefix("#") for link in page.links if link.startswith("#")}
    assert inside <= set(page.ids)
    assert [link for link in page.links if not link.startswith("#")] == ["/openapi.json"]
    for one in ROUTES:
        assert f"{tag_of(one)}_{one.answer.__name__}" in page.ids
        assert f"{api.address}{shown_path(one)}" in text
    assert {f"type-{name}" for name in told["components"]["schemas"]} <= set(page.ids)


async def test_only_its_own_style_is_allowed(tmp_path: Path) -> None:
    async with ApiWorld(home=tmp_path / "home") as api:
        heard = await api.get("/docs")
    policy = heard.headers["Content-Security-Policy"]
    [style] = re.findall(r"<style>(.*?)</style>", heard.data.decode(), re.DOTALL)
    digest = b64encode(sha256(style.encode()).digest()).decode()
    assert f"style-src 'sha256-{digest}'" in policy
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy


async def test_the_examples_work(tmp_path: Path) -> None:
    async with ApiWorld(home=tmp_path / "home") as api:
        for one in ROUTES:
            if one.example is not None and "{" not in one.path:
                heard = await api.ask(one.method, one.path, json=one.example)
                assert heard.status == one.status, (one.path, heard.data)


def test_every_body_has_an_example() -> None:
    load_resources()
    bodies = [one for one in ROUTES if one.body is not None]
    assert bodies
    assert [one.path for one in bodies if one.example is None] == []
