"""The readers of the extra `web` on documents that other makers' programs wrote, and on hostile ones."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from hermes.domain.errors import UserError
from hermes.execution.documents.reader import DocumentProcess
from tests.foreign.environments import python_of

pytestmark = [pytest.mark.server, pytest.mark.xdist_group("foreign")]
MAKERS = Path(__file__).parent / "clients" / "make_documents.py"
PARAGRAPH = "<p>" + "Bees carry pollen from flower to flower and find home by the sun. " * 6 + "</p>"
ARTICLE = f"""<html><head><title>Of bees</title></head><body><div class="menu"><a href="/a">Menu</a></div>
<article><h1>Of bees</h1>{PARAGRAPH}<p>See <a href="/wasps">the wasps</a>.</p>{PARAGRAPH}</article>
<footer>Imprint and cookies</footer></body></html>"""


@pytest.fixture(scope="module")
def read() -> DocumentProcess:
    return DocumentProcess(python=str(python_of("web")))


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("documents")
    subprocess.run([python_of("web"), MAKERS, folder], check=True, capture_output=True)
    return folder


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("offer.docx", ["# Offer", "Two bees", "Queen | 7"]),
        ("talk.pptx", ["[slide 1]", "Bees", "[slide 2]", "Wasps"]),
        ("book.xlsx", ["[sheet Hives]", "Queen | 2026-11-18", "7.5", "[sheet Second]"]),
        ("letter.odt", ["# Dear", "Two bees"]),
        ("sheet.ods", ["Queen", "7"]),
        ("print.pdf", ["[page 1]", "Bees on paper", "[page 2]", "Wasps on paper"]),
    ],
)
async def test_documents_of_other_makers(
    read: DocumentProcess, made: Path, name: str, words: list[str]
) -> None:
    document = await read((made / name).read_bytes())
    place = 0
    for each in words:
        assert each in document.text[place:], document.text
        place = document.text.index(each, place)


async def test_an_article_without_what_stands_around_it(read: DocumentProcess) -> None:
    page = await read(ARTICLE.encode(), "text/html", url="https://bees.example/of/bees")
    assert page.title == "Of bees" and "find home by the sun" in page.text
    assert "https://bees.example/wasps" in page.text
    assert "Imprint" not in page.text and "Menu" not in page.text


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("locked.pdf", "password"),
        ("pictures.pdf", "no text"),
        ("loop.pdf", "It "),
        ("bomb.pdf", "It "),
        ("bomb.xlsx", "It "),
    ],
)
async def test_hostile_documents(read: DocumentProcess, made: Path, name: str, why: str) -> None:
    with pytest.raises(UserError, match=why):
        await read((made / name).read_bytes(), limit=20_000)


async def test_a_thousand_pages_end_with_the_limit(read: DocumentProcess, made: Path) -> None:
    document = await read((made / "long.pdf").read_bytes(), limit=5000)
    assert document.cut and len(document.text) == 5000


@pytest.mark.parametrize("page", ["<div>" * 200_000 + PARAGRAPH, "<b><i>" * 30_000 + PARAGRAPH])
async def test_hostile_pages(read: DocumentProcess, page: str) -> None:
    try:
        assert len((await read(page.encode(), "text/html", limit=5000)).text) <= 5000
    except UserError as error:
        assert str(error).startswith("It ")
