"""Searches go to what the operator set up, to the next service after any fault, and nowhere unasked; pages
come through the egress client."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping
from pathlib import Path

import pytest
from aiohttp import web

from hermes.domain.errors import HermesError, Refused, UserError
from hermes.domain.settings.egress import WebsiteBlocklist
from hermes.domain.settings.settings import SecuritySettings, Settings
from hermes.domain.settings.web import WebSettings
from hermes.execution.documents import reader
from hermes.execution.documents.reader import DocumentProcess
from hermes.execution.egress.client import EgressClient
from hermes.execution.egress.parts import EgressParts
from hermes.execution.egress.reach import Reach
from hermes.execution.web.access import WebAccess
from hermes.execution.web.services import SERVICES
from hermes.testing.clock import FakeClock
from tests.execution.search_services import KEYS, PAGE, SearchServices, serve_searches


@pytest.fixture
async def fake() -> AsyncIterator[SearchServices]:
    async with serve_searches() as served:
        yield served


async def know_nobody(name: str, port: int) -> list[str]:
    return []


def access(
    fake: SearchServices,
    keys: Mapping[str, str] = KEYS,
    *,
    reach: Reach = Reach(private_all=True, look_up=know_nobody),  # noqa: B008
    clock: FakeClock | None = None,
    security: SecuritySettings = SecuritySettings(),  # noqa: B008
    **chosen: object,
) -> WebAccess:
    settings = Settings(web=WebSettings(**chosen), security=security)  # type: ignore[arg-type]
    return WebAccess(
        settings=lambda: settings,
        key=lambda name: keys.get(name, ""),
        egress=EgressClient(EgressParts(reach=lambda: reach)),
        documents=DocumentProcess(),
        clock=clock or FakeClock(),
        services=fake.services(),
    )


@pytest.mark.parametrize(
    ("name", "url", "text"),
    [
        ("searxng", "https://s.example/1", "bees"),
        ("brave", "https://b.example/1", "of bees & wasps"),
        ("tavily", "https://t.example/1", "of bees"),
        ("exa", PAGE, "of bees … and wasps"),
        ("firecrawl", "https://f.example/1", "of bees"),
    ],
)
async def test_each_service_is_understood(fake: SearchServices, name: str, url: str, text: str) -> None:
    found = access(fake, search_backend=(name,), searxng_url=f"{fake.url}/searxng")
    (hit,) = await found.search("bees", 100)
    assert (hit.url, hit.text, hit.title) == (url, text, name[0].upper())
    assert [path.partition("/")[0] for path in fake.asked] == [name]


async def test_searxng_comes_first_and_a_fault_of_any_kind_leads_to_the_next(fake: SearchServices) -> None:
    clock = FakeClock()
    web_access = access(fake, clock=clock, searxng_url=f"{fake.url}/searxng")
    assert (await web_access.search("first", 5))[0].url == "https://s.example/1"
    fake.broken = {
        "searxng": web.json_response({"results": [], "unresponsive_engines": [["google", "timeout"]]}),
        "brave": web.json_response({"error": {"code": "RATE_LIMITED"}}, status=429),
        "tavily": web.Response(text="<html>we are sorry</html>"),
        "exa": web.json_response({"results": {"not": "a list"}}),
    }
    fake.asked.clear()
    assert (await web_access.search("second", 5))[0].url == "https://f.example/1"
    assert [path.partition("/")[0] for path in fake.asked] == [*SERVICES]
    fake.asked.clear()
    await web_access.search("third", 5)
    assert [path.partition("/")[0] for path in fake.asked] == ["firecrawl"], "the others rest"
    fake.broken["firecrawl"] = web.Response(status=500)
    with pytest.raises(UserError, match=r"brave: It answers with 429.*tavily: Its answer is no JSON"):
        await web_access.search("fourth", 5)
    fake.broken = {}
    await clock.advance(61)
    assert (await web_access.search("fifth", 5))[0].url == "https://s.example/1"


async def test_a_search_is_not_made_twice_within_ten_minutes(fake: SearchServices) -> None:
    clock = FakeClock()
    web_access = access(fake, clock=clock, search_backend=("brave",))
    first = await web_access.search("bees", 5)
    assert await web_access.search("bees", 5) == first and len(fake.asked) == 1
    await web_access.search("wasps", 5)
    await clock.advance(601)
    await web_access.search("bees", 5)
    assert len(fake.asked) == 3
    for number in range(150):
        await web_access.search(f"bees {number}", 5)
    assert len(web_access._kept) == 100


async def test_nothing_goes_to_a_service_that_was_not_chosen(fake: SearchServices) -> None:
    fake.broken = {"brave": web.Response(status=500)}
    with pytest.raises(UserError, match="brave"):
        await access(fake, search_backend=("brave",)).search("bees", 5)
    assert {path.partition("/")[0] for path in fake.asked} == {"brave"}
    for chosen in (
        {},
        {"search_backend": ("searxng",)},
        {"search_backend": ("(none)",)},
        {"backend": ("ddgs",)},
    ):
        with pytest.raises(UserError, match="hermes config set web"):
            await access(fake, {}, **chosen).search("bees", 5)


async def test_the_operators_searxng_may_be_inside_and_no_page_there(fake: SearchServices) -> None:
    web_access = access(
        fake, {}, reach=Reach(), searxng_url=fake.url.replace("//", "//me:pass%20word@") + "/searxng"
    )
    seen: list[str] = []
    usual = fake._searxng

    def note(request: web.Request, path: str, body: dict[str, object]) -> web.Response:
        seen.append(request.headers["Authorization"])
        return usual(request, path, body)

    fake._searxng = note  # type: ignore[method-assign]
    assert await web_access.search("bees", 5)
    assert seen == ["Basic bWU6cGFzcyB3b3Jk"]
    with pytest.raises(Refused, match="not the open one"):
        await web_access.read(f"{fake.url}/searxng/search?q=x&format=json")


@pytest.mark.parametrize(
    "results",
    [
        [{"url": "javascript:alert(1)", "title": "x"}, {"title": "no address"}, None, 7, [], {"url": 5}],
        [{"url": "https://a.example/" + "x" * 3000}],
    ],
)
async def test_a_service_that_lies(fake: SearchServices, results: list[object]) -> None:
    fake.broken = {"tavily": web.json_response({"results": results})}
    with pytest.raises(UserError, match="has an address"):
        await access(fake, search_backend=("tavily",)).search("bees", 5)


async def test_what_others_wrote_stays_short_and_plain(fake: SearchServices) -> None:
    hit = {"url": "https://a.example/", "title": "t\n" * 10_000, "content": ["x" * 9000] * 90}
    fake.broken = {"tavily": web.json_response({"results": [hit, hit, {**hit, "url": "https://b.example/"}]})}
    hits = await access(fake, search_backend=("tavily",)).search("bees", 5)
    assert [each.url for each in hits] == ["https://a.example/", "https://b.example/"]
    assert all(len(each.title) <= 200 and len(each.text) <= 500 and "\n" not in each.title for each in hits)


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("searxng", r"denies access \(403\): check its search\.formats for json"),
        ("tavily", "check TAVILY_API_KEY"),
    ],
)
async def test_a_denial_names_what_to_check(fake: SearchServices, name: str, why: str) -> None:
    fake.broken = {name: web.Response(status=403)}
    with pytest.raises(UserError, match=why):
        await access(fake, search_backend=(name,), searxng_url=f"{fake.url}/searxng").search("bees", 5)


# --- without a key ---


def plant_ddgs(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, body: str) -> None:
    """A package `ddgs` of ours in the reader's process."""
    (tmp_path / "ddgs.py").write_text(
        "class DDGS:\n    def __init__(self, **given): self.given = given\n"
        "    def __enter__(self): return self\n    def __exit__(self, *end): pass\n"
        f"    def text(self, query, max_results): {body}\n"
    )
    monkeypatch.setattr(
        reader,
        "_START",
        f"import sys; sys.path[:0] = [sys.argv.pop(1), {str(tmp_path)!r}]; "
        "from hermes.execution.documents import child; child.main()",
    )


async def test_public_engines_only_after_consent(
    fake: SearchServices, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    plant_ddgs(
        monkeypatch,
        tmp_path,
        "return [{'title': query, 'href': 'https://d.example/', 'body': str(self.given['proxy'])}]",
    )
    with pytest.raises(UserError, match="No search service"):
        await access(fake, {}).search("bees", 5)
    proxied = SecuritySettings(egress_proxy="http://127.0.0.1:3128")
    (hit,) = await access(fake, {}, keyless=True, security=proxied).search("bees", 5)
    assert (hit.title, hit.url, hit.text) == ("bees", "https://d.example/", "http://127.0.0.1:3128")
    for held in (
        SecuritySettings(allowed_hosts=("example.org",)),
        SecuritySettings(website_blocklist=WebsiteBlocklist(enabled=True)),
    ):
        with pytest.raises(UserError, match="cannot be held to the hosts"):
            await access(fake, {}, keyless=True, security=held).search("bees", 5)


async def test_a_missing_package_says_how_to_install_it(fake: SearchServices) -> None:
    with pytest.raises(UserError, match="Run: hermes platforms install ddgs"):
        await access(fake, {}, keyless=True).search("bees", 5)


# --- pages ---


@pytest.mark.parametrize("name", ["tavily", "exa", "firecrawl"])
async def test_a_service_reads_pages_only_where_that_was_chosen(
    fake: SearchServices, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def checked(self: EgressClient, url: str) -> None:
        checks.append(url)

    checks: list[str] = []
    monkeypatch.setattr(EgressClient, "check", checked)
    for chosen in ({"extract_backend": (name,)}, {"backend": (name,)}):
        page = await access(fake, **chosen).read(PAGE)
        assert page.text == f"read by {name}"
    assert checks == [PAGE, PAGE]
    fake.asked.clear()
    for url, chosen in ((PAGE, {}), (f"{PAGE}?token=abc", {"backend": (name,)})):
        with pytest.raises(HermesError):  # there is no such page
            await access(fake, **chosen).read(url)
    assert not fake.asked


async def test_a_page_that_no_service_could_read_is_read_here(fake: SearchServices) -> None:
    fake.broken = {"tavily": web.Response(status=500), "brave": web.Response(text="of bees")}
    page = await access(fake, extract_backend=("tavily",)).read(f"{fake.url}/brave/page")
    assert page.text == "of bees" and fake.asked == ["tavily/extract", "brave/page"]


async def test_pages_are_read_in_the_order_that_was_chosen(fake: SearchServices) -> None:
    fake.broken = {"site": web.Response(text="of bees")}
    url = f"{fake.url}/site/page"
    assert (await access(fake, extract_backend=("local", "exa")).read(url)).text == "of bees"
    assert fake.asked == ["site/page"]
    fake.broken = {"site": web.Response(status=500)}
    assert (await access(fake, extract_backend=("local", "exa")).read(url)).text == "read by exa"
    fake.asked.clear()
    with pytest.raises(HermesError, match="answers with 500"):
        await access(fake, {}, extract_backend=("exa",)).read(url)
    assert fake.asked == ["site/page"], "nobody is asked without a key"


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (web.Response(status=404), "answers with 404"),
        (web.Response(body=b"\x89PNG\r\n\0", content_type="image/png"), "no text, but image/png"),
        (web.Response(text="<html><script>x()</script></html>", content_type="text/html"), "no text in it"),
        (web.Response(body=b"x" * 20_000_001), "more than 20,000,000 bytes"),
    ],
)
async def test_pages_that_are_not_read_say_why(fake: SearchServices, answer: web.Response, why: str) -> None:
    fake.broken = {"site": answer}
    with pytest.raises(HermesError, match=why):
        await access(fake).read(f"{fake.url}/site/page")


def test_every_service_is_a_choice() -> None:
    assert (*SERVICES, "ddgs") == WebSettings.declared["search_backend"].about.choices
    reading = {name for name, service in SERVICES.items() if service.extract}
    assert {"local", *reading} == set(WebSettings.declared["extract_backend"].about.choices)
    assert json.dumps({name: service.fields("q", 5) for name, service in SERVICES.items()})
