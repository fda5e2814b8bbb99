"""The services that search or read pages: what each is asked, and where its answer has what. Sources:

searxng    https://docs.searxng.org/dev/search_api.html (`format=json` must be among its `search.formats`)
brave      https://api-dashboard.search.brave.com/app/documentation/web-search (`count` is at most 20)
tavily     https://docs.tavily.com/documentation/api-reference/endpoint/search, …/extract
exa        https://docs.exa.ai/reference/search, …/get-contents
firecrawl  https://docs.firecrawl.dev/api-reference/endpoint/search, …/scrape
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable, Mapping
from html import unescape
from typing import Any
from urllib.parse import unquote, urlencode, urlsplit

from msgspec import Struct

from hermes.domain.errors import Refused
from hermes.domain.ports.web import WebHit
from hermes.domain.ports.world import DocumentText, FetchedPage, WebRequest
from hermes.domain.safety.url_secrets import credential_in
from hermes.domain.settings.web import WebSettings
from hermes.domain.text import one_line

Key = Callable[[str], str]
"""The value of a variable; empty if it is not set."""
KEYLESS = "ddgs"
_MOST_BYTES = 20_000_000
_SECONDS = 20.0
_TAG = re.compile(r"</?[a-zA-Z][^<>]{0,200}>")


class WebService(Struct, frozen=True, kw_only=True):
    """One service. With `keys` it has one in a header; without any it is the operator's own, at the address
    of the setting `<name>_url`. `hits` and `page` are ways into its answers; of a hit the first of the
    fields `excerpts` that says something counts, of a page the field `text`."""

    name: str
    base: str = ""
    keys: tuple[str, ...] = ()
    header: str = "Authorization"
    key_prefix: str = "Bearer "
    by_get: bool = False
    search: str = "/search"
    fields: Callable[[str, int], Mapping[str, object]]
    hits: tuple[str, ...] = ("results",)
    excerpts: tuple[str, ...] = ("content",)
    extract: str = ""
    page_fields: Callable[[str], Mapping[str, object]] = lambda url: {"urls": [url]}
    page: tuple[str | int, ...] = ("results", 0)
    text: str = "text"

    def place(self, settings: WebSettings) -> str:
        """The address that the operator named, if there is one."""
        return str(getattr(settings, f"{self.name}_url", ""))

    def is_set_up(self, settings: WebSettings, key: Key) -> bool:
        return bool(self.place(settings) or any(map(key, self.keys)))

    def may_read(self, url: str, settings: WebSettings, key: Key) -> bool:
        """Whether a page may be given to it: no address that carries a credential."""
        return bool(self.extract) and self.is_set_up(settings, key) and not credential_in(url)

    def ask(self, path: str, fields: Mapping[str, object], settings: WebSettings, key: Key) -> WebRequest:
        own = self.place(settings)
        base, headers = _without_login((own or self.base).rstrip("/"))
        if value := next(filter(None, map(key, self.keys)), ""):
            headers[self.header] = f"{self.key_prefix}{value}"
        headers |= {"Accept": "application/json", "Content-Type": "application/json"}
        return WebRequest(
            url=f"{base}{path}?{urlencode(fields)}" if self.by_get else f"{base}{path}",
            method="GET" if self.by_get else "POST",
            headers=headers,
            body=b"" if self.by_get else json.dumps(fields).encode(),
            limit=_MOST_BYTES,
            seconds=_SECONDS,
            redirects=2 if self.by_get else 0,
            private=bool(own),
        )

    def read_hits(self, answer: FetchedPage, limit: int) -> list[WebHit]:
        """`Refused` says what is wrong with an answer."""
        content = self._json(answer)
        listed = _at(content, self.hits)
        if not isinstance(listed, list):
            raise Refused("It answers in a way that is not known.")
        if not listed and content.get("unresponsive_engines"):
            raise Refused("None of its engines answers.")
        found = {hit.url: hit for item in reversed(listed[:200]) if (hit := self.read_hit(item)) is not None}
        if listed and not found:
            raise Refused("None of what it found has an address.")
        return list(reversed(found.values()))[:limit]

    def read_hit(self, item: object) -> WebHit | None:
        url = _at(item, ("url",))
        if not isinstance(url, str) or not url.startswith(("http://", "https://")) or len(url) > 2000:
            return None
        words = next(filter(None, (_words(_at(item, (name,))) for name in self.excerpts)), "")
        return WebHit(title=one_line(_words(_at(item, ("title",))), 200), url=url, text=one_line(words, 500))

    def read_page(self, answer: FetchedPage) -> DocumentText:
        page = _at(self._json(answer), self.page)
        text = _at(page, (self.text,))
        if not isinstance(text, str) or not text.strip():
            raise Refused("It has no text of that page.")
        title = _at(page, ("title",)) or _at(page, ("metadata", "title"))
        return DocumentText(text=text, title=one_line(_words(title), 300))

    def _json(self, answer: FetchedPage) -> dict[str, Any]:
        if answer.status in (401, 403):
            names = " or ".join(self.keys)
            raise Refused(
                f"It denies access ({answer.status}): check {names or 'its search.formats for json'}."
            )
        if not 200 <= answer.status < 300:
            raise Refused(f"It answers with {answer.status}.")
        try:
            value = json.loads(answer.data)
        except (ValueError, RecursionError):
            value = None
        if not isinstance(value, dict):
            raise Refused("Its answer is no JSON.")
        return value


def _at(value: object, way: tuple[str | int, ...]) -> Any:
    for step in way:
        if isinstance(value, dict):
            value = value.get(step)
        else:
            value = value[0] if isinstance(value, list) and value and step == 0 else None
    return value


def _words(value: object) -> str:
    """A text without markup; of several texts, one after another."""
    if isinstance(value, list):
        return " … ".join(_words(part) for part in value[:5])
    return unescape(_TAG.sub("", value[:5000])) if isinstance(value, str) else ""


def _without_login(base: str) -> tuple[str, dict[str, str]]:
    """An address with a name and a password in it goes without them, and has them in a header."""
    parts = urlsplit(base)
    if parts.username is None:
        return base, {}
    login = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
    value = base64.b64encode(login.encode()).decode()
    return parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl(), {
        "Authorization": f"Basic {value}"
    }


SERVICES = {
    service.name: service
    for service in (
        WebService(name="searxng", by_get=True, fields=lambda query, limit: {"q": query, "format": "json"}),
        WebService(
            name="brave",
            base="https://api.search.brave.com",
            keys=("BRAVE_API_KEY", "BRAVE_SEARCH_API_KEY"),
            header="X-Subscription-Token",
            key_prefix="",
            by_get=True,
            search="/res/v1/web/search",
            fields=lambda query, limit: {"q": query[:400], "count": min(limit, 20)},
            hits=("web", "results"),
            excerpts=("description",),
        ),
        WebService(
            name="tavily",
            base="https://api.tavily.com",
            keys=("TAVILY_API_KEY",),
            fields=lambda query, limit: {"query": query, "max_results": min(limit, 20)},
            extract="/extract",
            page_fields=lambda url: {"urls": [url], "format": "markdown"},
            text="raw_content",
        ),
        WebService(
            name="exa",
            base="https://api.exa.ai",
            keys=("EXA_API_KEY",),
            header="x-api-key",
            key_prefix="",
            fields=lambda query, limit: {
                "query": query,
                "numResults": limit,
                "contents": {"highlights": True},
            },
            excerpts=("highlights", "summary", "text"),
            extract="/contents",
            page_fields=lambda url: {"urls": [url], "text": True},
        ),
        WebService(
            name="firecrawl",
            base="https://api.firecrawl.dev",
            keys=("FIRECRAWL_API_KEY",),
            search="/v2/search",
            fields=lambda query, limit: {"query": query, "limit": limit},
            hits=("data", "web"),
            excerpts=("description",),
            extract="/v2/scrape",
            page_fields=lambda url: {"url": url, "formats": ["markdown"]},
            page=("data",),
            text="markdown",
        ),
    )
}


def searches(settings: WebSettings, key: Key) -> list[str]:
    """The names of the services that a search may go to, in their order."""
    named = settings.search_backend or settings.backend
    ready = [name for name, service in SERVICES.items() if service.is_set_up(settings, key)]
    ready += [KEYLESS] if settings.keyless else []
    return [name for name in named if name in ready] if named else ready
