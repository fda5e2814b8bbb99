"""What the terminal and the operator's commands ask of a running gateway: on the owner's socket alone.

The chat's side is `entry.terminal.remote`. Nothing is kept for a terminal between two requests: it says
itself which session it is in, so one whose gateway was started anew goes on as if nothing had been."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncGenerator
from typing import Any, cast

import msgspec
from aiohttp import web

from hermes.control.doors import Replied, look_up
from hermes.control.questions import Outcome
from hermes.control.trace import trace_message
from hermes.domain.event import Seen, Verdict
from hermes.domain.ids import AgentId, QuestionId, SessionId, TurnId
from hermes.domain.ports import Tx
from hermes.domain.rows import Hit
from hermes.domain.session import Session
from hermes.domain.turn import Turn
from hermes.entry.http.door import Call, local_route
from hermes.entry.http.errors import not_found
from hermes.entry.terminal.door import EmbeddedDoor, Entered, Wish, come_in, local_caller
from hermes.stream.sse import event
from hermes.stream.wire import END, HELLO, SEEN, TURN, EntryWords, encode, encode_seen, entry_words

# --- a conversation ----------------------------------------------------------------------------------


class Inside(msgspec.Struct, kw_only=True):
    """Where a terminal is: in a session, or about to begin one for a model."""

    session: str | None = None
    model: str | None = None


class SayRequest(Inside, kw_only=True):
    text: str
    key: str


class CommandRequest(Inside, kw_only=True):
    text: str


class AnswerRequest(msgspec.Struct, kw_only=True):
    question: str
    verdict: Verdict
    text: str = ""


class StopRequest(msgspec.Struct, kw_only=True):
    turn: str


class StopAnswer(msgspec.Struct, kw_only=True):
    stopped: bool


class After(msgspec.Struct, kw_only=True):
    after: int = 0


@local_route("POST", "/control/enter", "Come in to a conversation.")
async def enter(call: Call, body: Wish) -> Entered:
    return await come_in(call.door.gateway, local_caller(), body)


@local_route("POST", "/control/say", "Say something; with the same key it is said once.")
async def say(call: Call, body: SayRequest) -> Turn:
    return await _door(call, body).say(body.text, body.key)


@local_route("POST", "/control/command", "Run a slash command.")
async def command(call: Call, body: CommandRequest) -> Replied:
    return await _door(call, body).command(body.text)


@local_route("POST", "/control/answer", "Answer a question of a turn.")
async def answer(call: Call, body: AnswerRequest) -> Outcome:
    return await _door(call).answer(QuestionId(body.question), body.verdict, body.text)


@local_route("POST", "/control/stop", "Stop a turn.")
async def stop(call: Call, body: StopRequest) -> StopAnswer:
    return StopAnswer(stopped=await _door(call).stop(TurnId(body.turn)))


@local_route("GET", "/control/turns/{turn}/events", "Watch a turn from a record on.")
async def watch(call: Call, query: After) -> web.StreamResponse:
    agent, turn = await call.turn(TurnId(call.part("turn")))
    seen = cast(AsyncGenerator[Seen], call.door.gateway.watch(agent, turn.id, query.after))
    stream = await call.door.streams.send(call.request, seen, _seen, headers={})
    # A stream that was cut off has no end: who watches comes back for the rest.
    await stream.write(event("{}", name=END))
    return stream.response


def _seen(seen: Seen) -> bytes:
    return event(encode_seen(seen).decode(), name=SEEN)


@local_route("GET", "/control/events", "Hear of turns that nobody said, and that the gateway is there.")
async def listen(call: Call) -> web.StreamResponse:
    hello = event(encode(_facts(call)).decode(), name=HELLO)
    stream = await call.door.streams.send(call.request, _woken(call), _turn, headers={}, first=hello)
    return stream.response


async def _woken(call: Call) -> AsyncGenerator[Turn]:
    turns: asyncio.Queue[Turn] = asyncio.Queue()
    leave = call.door.gateway.listen(turns.put_nowait)
    try:
        while True:
            yield await turns.get()
    finally:
        leave()


def _turn(turn: Turn) -> bytes:
    return event(encode(turn).decode(), name=TURN)


def _door(call: Call, where: Inside | None = None) -> EmbeddedDoor:
    inside = where or Inside()
    session = None if inside.session is None else SessionId(inside.session)
    return EmbeddedDoor(call.door.gateway, local_caller(), session, inside.model)


# --- the operator's commands -------------------------------------------------------------------------


class OfAgents(msgspec.Struct, kw_only=True):
    """Whose sessions: one agent's, or everybody's."""

    agent: str | None = None
    limit: int = 20


class Named(OfAgents, kw_only=True):
    """By id, its beginning, or title."""

    name: str


class Words(OfAgents, kw_only=True):
    words: str


class Message(msgspec.Struct, kw_only=True):
    message: str


class FoundSession(msgspec.Struct, kw_only=True):
    """A session that fits; its visible records if no other does."""

    session: Session
    entries: list[EntryWords]


class Deleted(msgspec.Struct, kw_only=True):
    id: str
    deleted: bool = True


class Status(msgspec.Struct, kw_only=True):
    """How the gateway is at this moment. `facts` is what it says of itself."""

    pid: int
    version: str
    facts: dict[str, Any]
    open_streams: int
    inbox: int
    turns: dict[str, int]
    outbox: dict[str, int]


@local_route("GET", "/control/sessions", "The sessions, the latest first.")
async def list_sessions(call: Call, query: OfAgents) -> list[Session]:
    found: list[Session] = []
    for agent in _agents(call, query):
        found += await call.door.gateway.read(agent, lambda tx: tx.sessions.find("", query.limit))
    return sorted(found, key=lambda session: session.updated_at, reverse=True)[: query.limit]


@local_route("GET", "/control/search", "What was said, in all sessions.")
async def search(call: Call, query: Words) -> list[Hit]:
    hits: list[Hit] = []
    for agent in _agents(call, query):
        # It brings the index up to date first, so it writes.
        hits += await call.door.gateway.write(agent, lambda tx: tx.search.find(query.words, query.limit))
    return hits[: query.limit]


@local_route("GET", "/control/session", "The sessions that a name fits, and what was said in it.")
async def find_session(call: Call, query: Named) -> list[FoundSession]:
    found: list[FoundSession] = []
    for agent in _agents(call, query):
        found += await call.door.gateway.read(agent, lambda tx: _find(tx, query.name))
    return found


def _find(tx: Tx, name: str) -> list[FoundSession]:
    return [
        FoundSession(session=session, entries=[entry_words(entry) for entry in entries])
        for session, entries in look_up(tx, name)
    ]


@local_route("DELETE", "/control/session", "Delete a session for good.")
async def delete(call: Call, query: Named) -> Deleted:
    [agent] = _agents(call, query)
    await call.door.gateway.delete_session(agent, SessionId(query.name))
    return Deleted(id=query.name)


@local_route("GET", "/control/trace", "Where a message is.")
async def trace(call: Call, query: Message) -> list[str]:
    lines: dict[str, None] = {}
    for agent in call.door.agents:
        found = await call.door.gateway.read(agent, lambda tx: trace_message(tx, query.message))
        lines.update(dict.fromkeys(found))
    return list(lines)


@local_route("GET", "/control/status", "How the gateway is at this moment.")
async def status(call: Call) -> Status:
    work = await call.door.gateway.open_work()
    return Status(
        pid=os.getpid(),
        version=call.door.version,
        facts=dict(call.door.facts()),
        open_streams=len(call.door.streams),
        inbox=work.inbox,
        turns=dict(work.turns),
        outbox=dict(work.outbox),
    )


def _facts(call: Call) -> dict[str, Any]:
    return {"pid": os.getpid(), "version": call.door.version, **call.door.facts()}


def _agents(call: Call, query: OfAgents) -> list[AgentId]:
    if query.agent is None:
        return list(call.door.agents)
    if query.agent not in call.door.agents:
        raise not_found("agent", query.agent, "agent_not_found")
    return [AgentId(query.agent)]
