"""`web_search` and `web_extract`: what is on the web, told as data. Which services are asked, and what reads
pages, is decided by the agent's `Web`."""

from __future__ import annotations

import asyncio
import os

from hermes.agent.tools.registry import ToolInvocation, tool
from hermes.domain.errors import HermesError, UserError
from hermes.domain.ports.web import Web
from hermes.domain.ports.world import Backend, DocumentText, Media
from hermes.domain.text import one_line
from hermes.domain.tools.tool import Effect, ToolResult

_MOST_HITS = 100
_MOST_PAGES = 5
_FEWEST_CHARS = 2000
_MOST_CHARS = 90_000
"""Of all pages of a call: a result has 100,000."""
_LONGEST_QUERY = 2000


@tool("web", Effect.READ, needs=Web, parallel=True, seconds=120)
async def web_search(invocation: ToolInvocation, query: str, limit: int = 5) -> ToolResult:
    """Search the web."""
    words = " ".join(query.split())[:_LONGEST_QUERY]
    if not words:
        raise UserError("The query is empty.")
    hits = await invocation.services.get(Web).search(words, min(max(limit, 1), _MOST_HITS))
    lines = [
        f"{number}. {hit.title or hit.url}\n   {hit.url}" + (f"\n   {hit.text}" if hit.text else "")
        for number, hit in enumerate(hits, 1)
    ]
    found = [
        {"title": hit.title, "url": hit.url, "description": hit.text, "position": number}
        for number, hit in enumerate(hits, 1)
    ]
    text = "\n".join(lines) or f"Nothing was found for “{one_line(words, 100)}”."
    return ToolResult(text=text, data={"success": True, "data": {"web": found}}, outside=bool(hits))


@tool("web", Effect.READ, needs=(Web, Backend, Media), parallel=True, seconds=180)
async def web_extract(invocation: ToolInvocation, urls: list[str], char_limit: int = 0) -> ToolResult:
    """Read pages or documents (PDF, office) from the web as text.

    urls: at most 5
    """
    wanted = list(
        dict.fromkeys(url if "://" in url else f"https://{url}" for url in map(str.strip, urls) if url)
    )
    if not 0 < len(wanted) <= _MOST_PAGES:
        raise UserError(f"{len(wanted)} addresses; one to {_MOST_PAGES} are read at once.")
    limit = max(char_limit or invocation.services.get(Web).shown(), _FEWEST_CHARS)
    limit = min(limit, _MOST_CHARS // len(wanted))
    pages = await asyncio.gather(*(_read(invocation, url, limit) for url in wanted))
    texts = [
        f"{page['url']}: not read. {page['error']}" if page["error"] else
        f"{page['url']}\n# {page['title']}\n\n{page['content']}"
        for page in pages
    ]  # fmt: skip
    failed = all(page["error"] for page in pages)
    return ToolResult(text="\n\n".join(texts), data={"results": pages}, failed=failed, outside=not failed)


async def _read(invocation: ToolInvocation, url: str, limit: int) -> dict[str, str]:
    result = {"url": one_line(url, 2000), "title": "", "content": "", "error": ""}
    try:
        page = await invocation.services.get(Web).read(url)
        content = await _fitted(invocation, page, limit)
    except HermesError as error:
        return result | {"error": one_line(str(error), 300)}
    return result | {"title": page.title, "content": content}


async def _fitted(invocation: ToolInvocation, page: DocumentText, limit: int) -> str:
    """The beginning and the end of a long text, and where the whole is."""
    text = page.text
    if len(text) <= limit:
        return text
    head = limit * 3 // 4
    place = await _keep(invocation, text)
    left = f"{len(text) - limit}{' or more' if page.cut else ''} characters left out"
    return f"{text[:head]}\n[… {left}; the whole text: read_file {place} …]\n{text[head - limit :]}"


async def _keep(invocation: ToolInvocation, text: str) -> str:
    """Where files that came from elsewhere lie, so that `read_file` tells it as words from outside."""
    data, media, backend = text.encode(), invocation.services.get(Media), invocation.backend
    path = media.locate(await media.put(data, "text/plain"))
    world = await backend.place(invocation.session)
    if world.host_files:
        return path
    path = f"{world.workspace.rstrip('/')}/incoming/{os.path.basename(path)}"
    await backend.files.write(invocation.session, path, data)
    return path
