"""`/api/sessions`: conversations as things: listed, searched, begun, renamed, branched, read and deleted.

A key without the scope `sessions` sees only what was begun through itself; to it the others are not there."""

from __future__ import annotations

import contextlib
from typing import Annotated, Any, Literal

import msgspec

from hermes.control.sessions.administration import (
    FoundSession,
    begin_titled,
    branch_session,
    change_session,
    read_transcript,
    search_sessions,
    seen_session,
)
from hermes.control.sessions.repeats import id_for
from hermes.control.sessions.submission import LONGEST_TITLE, NotFound
from hermes.domain.chats.rows import SearchHit
from hermes.domain.ids import SessionId, new_session_id
from hermes.domain.ports.store import Tx
from hermes.domain.turns.chat_format import as_message
from hermes.domain.turns.event import Entry
from hermes.domain.turns.session import Session, SessionFilter, begin_session, session_key
from hermes.domain.turns.transcript import visible
from hermes.domain.word import replace
from hermes.entry.http.ask.addressee import find_addressee
from hermes.entry.http.ask.messages import ChatToolCall
from hermes.entry.http.ask.turns import RUN_PREFIX, finish_shielded
from hermes.entry.http.site.endpoint import HttpCall, route, session_name
from hermes.entry.http.site.errors import bad_request, not_found

Title = Annotated[str, msgspec.Meta(max_length=LONGEST_TITLE)]


class SessionMatch(msgspec.Struct, kw_only=True):
    """The words by which a session was found."""

    record: int
    at: float
    who: str
    excerpt: str


class SessionFacts(msgspec.Struct, kw_only=True):
    """A conversation."""

    id: str
    object: str = "hermes.session"
    agent: str
    source: str | None
    title: str | None
    model: str | None
    parent_session_id: str | None
    end_reason: str | None
    created_at: float
    last_active: float
    expires_at: float | None
    match: SessionMatch | msgspec.UnsetType = msgspec.UNSET


class SessionList(msgspec.Struct, kw_only=True):
    """Some of the sessions, the latest first; searched for, the best first."""

    object: str = "list"
    data: list[SessionFacts]
    limit: int
    offset: int
    has_more: bool


class NewSession(msgspec.Struct, kw_only=True):
    """A session to begin. `model` picks the agent, as everywhere; `system_prompt` stands in place of the
    agent's own."""

    id: str | None = None
    model: str | None = None
    system_prompt: str | None = None
    title: Title | None = None


class SessionChange(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """What is to be another; null takes it away."""

    title: Title | msgspec.UnsetType | None = msgspec.UNSET
    end_reason: Annotated[str, msgspec.Meta(max_length=100)] | msgspec.UnsetType | None = msgspec.UNSET


class SessionDeleted(msgspec.Struct, kw_only=True):
    """The session is gone, with its transcript and its log."""

    id: str
    object: str = "hermes.session.deleted"
    deleted: bool = True


class SessionMessage(msgspec.Struct, kw_only=True, omit_defaults=True):
    """A message of a session in OpenAI's format; `id` is the number of its record."""

    id: int
    role: str
    content: str | None
    timestamp: float
    run_id: str
    tool_calls: list[ChatToolCall] = []
    tool_call_id: str | None = None


class MessageList(msgspec.Struct, kw_only=True):
    """What was said in a session and not taken back."""

    object: str = "list"
    session_id: str
    data: list[SessionMessage]


@route("GET", "/api/sessions", "The conversations, the latest first; with q those that fit it.")
async def list_sessions(
    call: HttpCall,
    limit: Annotated[int, msgspec.Meta(ge=1, le=200)] = 50,
    offset: Annotated[int, msgspec.Meta(ge=0, le=100_000)] = 0,
    source: str | None = None,
    include_children: bool = False,
    q: str = "",
) -> SessionList:
    """`source` is the platform a session was begun on, or its tag; `q` looks for names and what was said."""
    among = SessionFilter(owner=call.owner, platform=source, children=include_children)
    most = offset + limit + 1
    if q.strip():
        hits = await call.collect(lambda tx: search_sessions(tx, q, most, among))
    else:
        listed = await call.collect(lambda tx: tx.sessions.find("", most, among))
        hits = [FoundSession(session=session) for session in listed]
        hits.sort(key=lambda hit: hit.session.updated_at, reverse=True)
    page = hits[offset:][:limit]
    return SessionList(
        data=[session_facts(listed.session, listed.hit) for listed in page],
        limit=limit,
        offset=offset,
        has_more=len(hits) > offset + limit,
    )


@route(
    "POST",
    "/api/sessions",
    "Begin a conversation.",
    status=201,
    refuses=(409,),
    example={"title": "Groceries"},
)
async def create(call: HttpCall, body: NewSession) -> SessionFacts:
    now = call.site.clock.now()
    ident = SessionId(f"api_{new_session_id(now)}") if body.id is None else session_name(body.id)
    picked = await find_addressee(call, body.model, "", session=lambda agent: ident)
    source = call.source(ident)
    session = replace(
        begin_session(session_key(source, picked.agent), source, now),
        id=ident,
        title=body.title,
        model=picked.model or None,
        system_prompt=body.system_prompt or None,
    )
    begun = await call.gateway.write(picked.agent, lambda tx: begin_titled(tx, session))
    return session_facts(begun)


@route("GET", "/api/sessions/{session_id}", "One conversation.")
async def read(call: HttpCall) -> SessionFacts:
    return session_facts(await find_session(call))


@route(
    "PATCH",
    "/api/sessions/{session_id}",
    "Change a conversation's title, or say that it has ended.",
    refuses=(409,),
    example={"title": "Groceries, this week"},
)
async def change(call: HttpCall, body: SessionChange) -> SessionFacts:
    changes: dict[Literal["title", "ended"], str | None] = {}
    if body.title is not msgspec.UNSET:
        changes["title"] = body.title
    if body.end_reason is not msgspec.UNSET:
        changes["ended"] = body.end_reason
    if not changes:
        raise bad_request("There is nothing to change: send title or end_reason.")
    session = await find_session(call)
    owner = call.owner
    changed = await call.gateway.write(
        session.agent, lambda tx: change_session(tx, session.id, owner, changes)
    )
    return session_facts(changed)


@route("DELETE", "/api/sessions/{session_id}", "Delete a conversation for good, stopping what goes on in it.")
async def delete(call: HttpCall) -> SessionDeleted:
    session = await find_session(call)
    await finish_shielded(call.gateway.delete_session(session.agent, session.id))
    return SessionDeleted(id=session.id)


@route(
    "POST",
    "/api/sessions/{session_id}/fork",
    "Go on in a branch of a conversation; it ends here.",
    status=201,
)
async def fork(call: HttpCall) -> SessionFacts:
    session = await find_session(call)
    now, owner = call.site.clock.now(), call.owner
    branch = await call.gateway.write(session.agent, lambda tx: branch_session(tx, session.id, owner, now))
    return session_facts(branch)


@route("GET", "/api/sessions/{session_id}/messages", "What was said in a conversation.")
async def messages(call: HttpCall) -> MessageList:
    session = await find_session(call)
    owner = call.owner
    _, entries = await call.gateway.read(session.agent, lambda tx: read_transcript(tx, session.id, owner))
    shown = [message for entry in visible(entries) if (message := _message(entry)) is not None]
    return MessageList(session_id=session.id, data=shown)


async def find_session(call: HttpCall) -> Session:
    """The session of the path, if this client may see it."""
    wanted, owner = SessionId(call.part("session_id")), call.owner

    def look(tx: Tx) -> Session | None:
        with contextlib.suppress(NotFound):
            return seen_session(tx, wanted, owner)
        return None

    return await call.find(look, not_found("session", wanted, "session_not_found"))


def session_facts(session: Session, hit: SearchHit | None = None) -> SessionFacts:
    match: SessionMatch | msgspec.UnsetType = msgspec.UNSET
    if hit is not None:
        match = SessionMatch(record=hit.seq, at=hit.at.timestamp(), who=hit.who, excerpt=hit.excerpt)
    return SessionFacts(
        id=session.id,
        agent=session.agent,
        source=None if session.place is None else session.place.partition(":")[0].partition("@")[0],
        title=session.title,
        model=session.model,
        parent_session_id=session.parent,
        end_reason=session.ended,
        created_at=session.created_at.timestamp(),
        last_active=session.updated_at.timestamp(),
        expires_at=None if session.expires_at is None else session.expires_at.timestamp(),
        match=match,
    )


def _message(entry: Entry) -> SessionMessage | None:
    message: dict[str, Any] | None = as_message(entry.record)
    if message is None:
        return None
    place = {"id": entry.seq, "timestamp": entry.at.timestamp(), "run_id": id_for(RUN_PREFIX, entry.turn)}
    return msgspec.convert({**message, **place}, SessionMessage)
