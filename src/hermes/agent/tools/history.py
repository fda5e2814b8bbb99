"""`session_search`: what was said before, in other conversations with this agent and earlier in this one.

`Recall` decides whose conversations are searched. It leaves out what the asking turn said itself:
else a search would find its own question."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from hermes.agent.tools.registry import Recall, ToolInvocation, tool
from hermes.domain.chats.rows import SearchHit
from hermes.domain.errors import UserError
from hermes.domain.text import one_line
from hermes.domain.tools.tool import Approval, Effect, ToolResult

_MOST_SESSIONS = 10
_MOST_EXCERPTS = 3
_LOOKED_AT = 200
_LONGEST_EXCERPT = 300
_READ, _LAST = 20, 1 << 60
_LONGEST_MESSAGE = 2000


@tool("session_search", Effect.READ, parallel=True, needs=Recall, after_outside=Approval.NEVER)
async def session_search(
    invocation: ToolInvocation, query: str = "", limit: int = 3, session: str = "", around: int = 0
) -> str | ToolResult:
    """Search earlier conversations for words; all must occur. "a phrase", OR, NOT, wor* work. No words:
    the latest.

    session: read this instead
    around: its message #…
    """
    recall = invocation.services.get(Recall)
    if session:
        around = min(max(around, 0), _LAST)
        return _read(session, await recall("", _READ, invocation.context, session, around))
    if query and not any(char.isalnum() for char in query):
        raise UserError("The query has no word in it.", hint="Name words that were said.")
    hits = await recall(query, _LOOKED_AT, invocation.context, "", 0)
    if not hits:
        return f"No earlier message matches “{one_line(query, 60)}”." if query else "There is none."
    found = _by_session(hits)
    shown = list(found.values())[: min(max(limit, 1), _MOST_SESSIONS)]
    text = "\n".join(_told(one, here=one[0].session == invocation.session) for one in shown)
    left = len(found) - len(shown)
    more = f"\n[{left} more; narrow the search or raise limit]" if left else ""
    return ToolResult(text=text + more, outside=True)  # anybody's words may have been said there


def _read(session: str, hits: Sequence[SearchHit]) -> ToolResult:
    if not hits:
        raise UserError(
            f"There is no conversation “{one_line(session, 60)}”.", hint="Search for words of it."
        )
    lines = [_header(hits[0]), *(_line(hit, _LONGEST_MESSAGE) for hit in hits)]
    if len(hits) == _READ:
        lines.append(f"[before that: around {hits[0].seq}; after it: around {hits[-1].seq}]")
    return ToolResult(text="\n".join(lines), outside=True)


def _header(hit: SearchHit) -> str:
    return f"{hit.session} “{one_line(hit.title, 60)}”" if hit.title else str(hit.session)


def _line(hit: SearchHit, most: int) -> str:
    return f"  #{hit.seq} {hit.at:%Y-%m-%d %H:%M} {hit.who}: {one_line(hit.excerpt, most)}"


def _by_session(hits: Iterable[SearchHit]) -> dict[str, list[SearchHit]]:
    """The hits of each session; the session with the best one comes first."""
    found: dict[str, list[SearchHit]] = {}
    for hit in hits:
        found.setdefault(hit.session, []).append(hit)
    return found


def _told(hits: list[SearchHit], *, here: bool) -> str:
    head = f"{_header(hits[0])}{' (this conversation)' if here else ''}"
    return "\n".join([head, *(_line(hit, _LONGEST_EXCERPT) for hit in hits[:_MOST_EXCERPTS])])
