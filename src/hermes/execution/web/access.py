"""The web for one agent: searches go to the services that the operator set up, to the next one after any
fault; pages are fetched through the egress client and read in a process of their own."""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence

from hermes.domain.clock import Clock
from hermes.domain.errors import HermesError, Refused, UserError
from hermes.domain.ports.web import WebHit
from hermes.domain.ports.world import DocumentText, Egress, WebRequest
from hermes.domain.settings.settings import Settings
from hermes.domain.settings.web import LOCAL
from hermes.domain.text import one_line
from hermes.execution.documents.reader import MOST_CHARS, DocumentProcess
from hermes.execution.web.services import KEYLESS, SERVICES, Key, WebService, searches

log = logging.getLogger("hermes.web")
_KEPT_SECONDS = 600.0
_MOST_KEPT = 100
_REST_SECONDS = 60.0
"""How long a service that failed is asked after the others."""
_LARGEST_PAGE = 20_000_000
_PAGE_SECONDS = 30.0
_MOST_REDIRECTS = 5
_HEADERS = {
    "User-Agent": "Mozilla/5.0 (compatible; HermesGateway)",
    "Accept": "text/html,application/xhtml+xml,application/pdf,text/*;q=0.9,*/*;q=0.5",
}
NOT_SET_UP = "No search service is set up."
SET_UP = (
    "The owner can set SEARXNG_URL or a key (BRAVE_API_KEY, TAVILY_API_KEY, EXA_API_KEY, FIRECRAWL_API_KEY), "
    "or allow public search engines: hermes config set web.keyless true"
)


class WebAccess:
    """Is a `Web`. `settings` and `key` tell what counts now."""

    def __init__(
        self,
        *,
        settings: Callable[[], Settings],
        key: Key,
        egress: Egress,
        documents: DocumentProcess,
        clock: Clock,
        services: Mapping[str, WebService] = SERVICES,
    ) -> None:
        self._settings = settings
        self._key = key
        self._egress = egress
        self._documents = documents
        self._clock = clock
        self._services = services
        self._kept: OrderedDict[tuple[str, int, str], tuple[float, Sequence[WebHit]]] = OrderedDict()
        self._rests: dict[str, float] = {}

    def shown(self) -> int:
        return self._settings().web.extract_char_limit

    async def search(self, query: str, limit: int) -> Sequence[WebHit]:
        names = searches(self._settings().web, self._key)
        if not names:
            raise UserError(NOT_SET_UP, hint=SET_UP)
        kept = (query, limit, " ".join(names))
        now = self._clock.monotonic()
        at, hits = self._kept.get(kept, (now - _KEPT_SECONDS, ()))
        if now - at < _KEPT_SECONDS:
            return hits
        faults: list[str] = []
        for name in sorted(names, key=lambda name: self._rests.get(name, now) > now):
            try:
                hits = await self._ask(name, query, limit)
            except HermesError as error:
                faults.append(f"{name}: {one_line(str(error), 200)}")
                self._rests[name] = now + _REST_SECONDS
                log.warning("web.search_failed service=%s why=%s", name, one_line(str(error), 200))
                continue
            self._kept[kept] = (now, hits)
            if len(self._kept) > _MOST_KEPT:
                self._kept.popitem(last=False)
            return hits
        raise UserError(f"No search service answers. {' '.join(faults)}")

    async def _ask(self, name: str, query: str, limit: int) -> Sequence[WebHit]:
        settings = self._settings()
        if name == KEYLESS:
            return await self._ask_keyless(settings, query, limit)
        service = self._services[name]
        request = service.ask(service.search, service.fields(query, limit), settings.web, self._key)
        return service.read_hits(await self._egress.request(request), limit)

    async def _ask_keyless(self, settings: Settings, query: str, limit: int) -> Sequence[WebHit]:
        """The package connects by itself, so it holds to no list of hosts."""
        security = settings.security
        if security.allowed_hosts or security.website_blocklist.enabled:
            raise Refused("It cannot be held to the hosts that security allows.")
        order = {"search": query, "limit": limit, "proxy": security.egress_proxy}
        install = "Run: hermes platforms install ddgs"
        answer = await self._documents.ask(order | {"install": install}, most=5_000_000)
        listed = [item for item in answer["results"] if isinstance(item, dict)]
        urls = ({**item, "url": item.get("href"), "content": item.get("body")} for item in listed)
        hits = [SERVICES["searxng"].read_hit(item) for item in urls]
        return [hit for hit in hits if hit is not None][:limit]

    async def read(self, url: str) -> DocumentText:
        web = self._settings().web
        fault: HermesError = Refused("Nothing reads it.")
        for name in dict.fromkeys((*(web.extract_backend or web.backend), LOCAL)):
            service = self._services.get(name)
            if service is not None and not service.may_read(url, web, self._key):
                continue
            if service is None and name != LOCAL:
                continue
            try:
                return await (self._read_here(url) if service is None else self._read_there(service, url))
            except HermesError as error:
                fault = error
                log.info("web.extract_failed by=%s why=%s", name, one_line(str(error), 200))
        raise fault

    async def _read_there(self, service: WebService, url: str) -> DocumentText:
        await self._egress.check(url)
        fields = service.page_fields(url)
        request = service.ask(service.extract, fields, self._settings().web, self._key)
        return service.read_page(await self._egress.request(request))

    async def _read_here(self, url: str) -> DocumentText:
        request = WebRequest(
            url=url,
            headers=_HEADERS,
            limit=_LARGEST_PAGE,
            seconds=_PAGE_SECONDS,
            redirects=_MOST_REDIRECTS,
        )
        page = await self._egress.request(request)
        if not 200 <= page.status < 300:
            raise UserError(f"Its server answers with {page.status}.")
        mime = page.headers.get("content-type", page.mime)
        read = await self._documents(page.data, mime, limit=MOST_CHARS, url=page.url)
        if not read.text.strip():
            raise UserError("There is no text in it; perhaps a program in the page would make some.")
        return read
