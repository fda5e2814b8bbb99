"""`session_search`: what was said before, in other conversations with this agent and earlier in this one.

`Recall` decides whose conversations are searched. It leaves out what the asking turn said itself:
else a search would find its own question."""

from __future__ import annotations

from collections.abc import Iterable

from hermes.agent.tools.registry import Recall, ToolInvocation, tool
from hermes.domain.chats.rows import SearchHit
from hermes.domain.errors import UserError
from hermes.domain.text import one_line
from hermes.domain.tools.tool import Approval, Effect, ToolResult

_MOST_SESSIONS = 10
_MOST_EXCERPTS = 3
_LOOKED_AT = 200
_LONGEST_EXCERPT = 300


@tool("session_search", Effect.READ, parallel=True, needs=Recall, after_outside=Approval.NEVER)
async def session_search(invocation: ToolInvocation, query: str, limit: int = 3) -> str | ToolResult:
    """Search your earlier conversations for words; all must occur. "a phrase", OR, NOT and wor* work.

    limit: conversations, at most 10
    """
    if not any(char.isalnum() for char in query):
        raise UserError("The query has no word in it.", hint="Name words that were said.")
    hits = await invocation.services.get(Recall)(query, _LOOKED_AT, invocation.context)
    if not hits:
        return f"No earlier message matches “{one_line(query, 60)}”."
    found = _by_session(hits)
    shown = list(found.values())[: min(max(limit, 1), _MOST_SESSIONS)]
    text = "\n".join(_told(one, here=one[0].session == invocation.session) for one in shown)
    left = len(found) - len(shown)
    more = f"\n[{left} more; narrow the search or raise limit]" if left else ""
    return ToolResult(text=text + more, outside=True)  # anybody's words may have been said there


def _by_session(hits: Iterable[SearchHit]) -> dict[str, list[SearchHit]]:
    """The hits of each session; the session with the best one comes first."""
    found: dict[str, list[SearchHit]] = {}
    for hit in hits:
        found.setdefault(hit.session, []).append(hit)
    return found


def _told(hits: list[SearchHit], *, here: bool) -> str:
    first = hits[0]
    title = f" “{one_line(first.title, 60)}”" if first.title else ""
    lines = [f"{first.session}{title}{' (this conversation)' if here else ''}"]
    for hit in hits[:_MOST_EXCERPTS]:
        lines.append(f"  {hit.at:%Y-%m-%d %H:%M} {hit.who}: {one_line(hit.excerpt, _LONGEST_EXCERPT)}")
    return "\n".join(lines)
