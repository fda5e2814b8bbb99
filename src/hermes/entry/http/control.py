"""What the terminal and the operator's commands ask of a running gateway: on the owner's socket alone.

The chat's side is `entry.terminal.remote`. Nothing is kept for a terminal between two requests: it says
itself which session it is in, so one whose gateway was started anew goes on as if nothing had been."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncGenerator
from functools import wraps
from typing import Any

import msgspec
from aiohttp import web

from hermes.control.doors import Replied
from hermes.control.questions import Outcome
from hermes.domain.event import Seen, Verdict
from hermes.domain.ids import QuestionId, SessionId, TurnId
from hermes.domain.turn import Turn
from hermes.entry.desk import OPERATIONS, Desk, Perform
from hermes.entry.http.door import Call, Door, local_route
from hermes.entry.terminal.door import EmbeddedDoor, Entered, Wish, come_in, local_caller
from hermes.stream.sse import event
from hermes.stream.wire import END, HELLO, SEEN, TURN, encode, encode_seen

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
    seen = call.watch(agent, turn.id, after=query.after)
    stream = await call.door.streams.send(call.request, seen, _seen, headers={})
    # A stream that was cut off has no end: who watches comes back for the rest.
    await stream.write(event("{}", name=END))
    return stream.response


def _seen(seen: Seen) -> bytes:
    return event(encode_seen(seen).decode(), name=SEEN)


@local_route("GET", "/control/events", "Hear of turns that nobody said, and that the gateway is there.")
async def listen(call: Call) -> web.StreamResponse:
    facts = {"pid": os.getpid(), "version": call.door.version, **call.door.facts()}
    hello = event(encode(facts).decode(), name=HELLO)
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


class Status(msgspec.Struct, kw_only=True):
    """How the gateway is at this moment. `facts` is what it says of itself."""

    pid: int
    version: str
    facts: dict[str, Any]
    open_streams: int
    inbox: int
    turns: dict[str, int]
    outbox: dict[str, int]


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


def _desk(door: Door) -> Desk:
    gateway = door.gateway
    return Desk(
        agents=list(door.agents),
        default=door.default,
        courier=gateway.courier,
        jobs=gateway.jobs,
        delete=gateway.delete_session,
        sends=gateway.sends,
        carry=gateway.handoffs.ring,
    )


def _serve(perform: Perform) -> Perform:
    @wraps(perform)
    async def serve(call: Call, **given: Any) -> Any:
        return await perform(_desk(call.door), **given)

    return serve


for one in OPERATIONS.values():
    local_route(one.method, one.path, one.told)(_serve(one.perform))
