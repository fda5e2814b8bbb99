"""Settings of the web: which services are searched with, what reads pages, and how much of one is shown."""

from __future__ import annotations

from hermes.domain.settings.declaring import NONE_LISTED, Names, Section, setting

SEARCHES = ("searxng", "brave", "tavily", "exa", "firecrawl", "ddgs")
"""Services that are searched with; those that are set up are tried in this order."""
LOCAL = "local"
READS = (LOCAL, "tavily", "exa", "firecrawl")
"""What reads pages: the gateway itself, or a service."""


class WebSettings(Section, frozen=True, kw_only=True):
    """Search, and pages that agents read. The services' keys are variables: `BRAVE_API_KEY` (or
    `BRAVE_SEARCH_API_KEY`), `TAVILY_API_KEY`, `EXA_API_KEY`, `FIRECRAWL_API_KEY`."""

    backend: Names = setting(
        (), "The only services for search and pages, in this order.", choices=SEARCHES, instead=NONE_LISTED
    )
    search_backend: Names = setting(
        (),
        "The only services for search, in this order; empty = `web.backend`, else every one that is set up, "
        "SearXNG first.",
        choices=SEARCHES,
        instead=NONE_LISTED,
    )
    extract_backend: Names = setting(
        (),
        "What reads pages, in this order; empty = those of `web.backend` that can, else the gateway itself "
        "(`local`), which also reads what a service could not.",
        choices=READS,
        instead=("local",),
    )
    searxng_url: str = setting("", "Your SearXNG, wherever it is.", env="SEARXNG_URL", form="url")
    firecrawl_url: str = setting(
        "", "Your own Firecrawl; empty = the maker's.", env="FIRECRAWL_API_URL", form="url"
    )
    keyless: bool = setting(
        False,
        "Your consent that searches may go to public search engines without a key, through the package ddgs "
        "(DuckDuckGo, Google, Brave and others).",
        instead=False,
    )
    extract_char_limit: int = setting(
        15_000, "Characters shown of a page; the whole is kept in a file.", least=2000, most=90_000
    )
