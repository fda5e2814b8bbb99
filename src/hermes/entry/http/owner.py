"""What the terminal and the operator's commands ask of a running gateway, on the owner's socket; a terminal
elsewhere has the conversation alone, on the port, with a key that may do everything.

The chat's side is `entry.terminal.remote`. Nothing is kept for a terminal between two requests: it says
itself which session it is in, so one whose gateway was started anew goes on as if nothing had been."""

from __future__ import annotations

import os
from functools import partial, wraps
from typing import Any, get_args

from aiohttp import web

from hermes.control.gateway import Gateway
from hermes.control.sessions.callers import Caller
from hermes.control.sessions.submission import NotFound
from hermes.domain.chats.command_line import CallerReply
from hermes.domain.chats.message import Attachment, MediaKind
from hermes.domain.chats.rows import OpenWork
from hermes.domain.errors import HermesError
from hermes.domain.ids import EVERY_AGENT, MAIN_AGENT, AgentId, QuestionId, SessionId, TurnId
from hermes.domain.ports.agent import MemoryCare
from hermes.domain.ports.store import Tx
from hermes.domain.settings.declaring import Secret
from hermes.domain.sse import encode_event
from hermes.domain.tools.checkpoint import CheckpointView
from hermes.domain.turns.event import Verdict
from hermes.domain.turns.gateway_event import GatewayEvent
from hermes.domain.turns.turn import AnswerResult, Turn
from hermes.domain.word import replace
from hermes.entry import batches as batches
from hermes.entry import hosted_agents as hosted_agents
from hermes.entry import memories as memories
from hermes.entry.desk import OPERATIONS, OperatorDesk, Perform, delete_session
from hermes.entry.http.ask.messages import keep_attachments
from hermes.entry.http.site.admission import OWNER
from hermes.entry.http.site.endpoint import HttpCall, local_route
from hermes.entry.terminal.door import PLATFORM, ChatMenu, ResumedSession, SessionChoice, TerminalState
from hermes.entry.terminal.served_door import (
    ServedDoor,
    chat_menu,
    find_session_to_resume,
    local_caller,
    look_back,
    note_seen,
    terminal_caller,
)
from hermes.stream.wire.socket import END, HELLO, PASSWORD, PROGRESS, SEEN, TURN, encode, encode_seen

# --- a conversation ----------------------------------------------------------------------------------


@local_route("POST", "/control/enter", "Come in to a conversation.", attaches=True)
async def enter(call: HttpCall, wish: SessionChoice) -> ResumedSession:
    return await find_session_to_resume(call.gateway, _caller(call, wish.terminal), wish)


@local_route("POST", "/control/recent", "Show a session with what was said in it last.", attaches=True)
async def recent(call: HttpCall, session: str) -> ResumedSession:
    return await look_back(call.gateway, SessionId(session))


@local_route("POST", "/control/menu", "What may be chosen in a conversation.", attaches=True)
async def menu(call: HttpCall, terminal: TerminalState) -> ChatMenu:
    local = call.principal is OWNER
    bounds = [bound for bound in call.site.facts()["boundaries"] if (bound["who"] == PLATFORM) is local]
    chosen = await chat_menu(call.gateway, _caller(call, terminal), terminal.session)
    names = [bound["backend"] if bound["boundary"] != "none" else "no sandbox" for bound in bounds]
    return replace(chosen, sandbox=names[0] if names else "")


@local_route("POST", "/control/delete", "Delete a session.", attaches=True)
async def delete(call: HttpCall, session: str) -> bool:
    await delete_session(_desk(call), session)
    return True


@local_route("POST", "/control/say", "Say something; with the same key it is said once.", attaches=True)
async def say(call: HttpCall, text: str, key: str, terminal: TerminalState) -> Turn:
    given = [Attachment(kind=MediaKind.IMAGE, ref=url) for url in terminal.images]
    images = await keep_attachments(call, _caller(call, terminal).agent, given)
    return await _door(call, terminal).say(text, key, images)


@local_route("POST", "/control/command", "Run a slash command.", attaches=True)
async def command(call: HttpCall, text: str, terminal: TerminalState, key: str = "") -> CallerReply:
    return await _door(call, terminal).command(text, key)


@local_route("GET", "/control/commands/{key}/progress", "Hear how it stands with a command.", attaches=True)
async def command_progress(call: HttpCall) -> web.StreamResponse:
    stream = await call.site.streams.send(
        call.request,
        call.gateway.progress.follow(call.part("key")),
        lambda text: encode_event(encode(text).decode(), name=PROGRESS),
        headers={},
        first=encode_event("{}", name=HELLO),
    )
    return stream.response


@local_route("POST", "/control/answer", "Answer a question of a turn.", attaches=True)
async def answer(call: HttpCall, question: str, verdict: Verdict, text: str = "") -> AnswerResult:
    def whose(tx: Tx) -> AgentId | None:
        asked = tx.questions.get(QuestionId(question))
        turn = None if asked is None else tx.turns.get(asked.turn)
        return None if turn is None else turn.agent

    agent = await call.gateway.read(EVERY_AGENT, whose)
    door = ServedDoor(call.gateway, local_caller(agent or MAIN_AGENT))
    return await door.answer(QuestionId(question), verdict, text)


@local_route("POST", "/control/stop", "Stop a turn; whether there was something to stop.", attaches=True)
async def stop(call: HttpCall, turn: str) -> bool:
    known = await call.gateway.read(EVERY_AGENT, lambda tx: tx.turns.get(TurnId(turn)))
    caller = local_caller(MAIN_AGENT if known is None else known.agent)
    return await ServedDoor(call.gateway, caller).stop(TurnId(turn))


@local_route("GET", "/control/turns/{turn}/events", "Watch a turn from a record on.", attaches=True)
async def watch(call: HttpCall, after: int = 0) -> web.StreamResponse:
    turn = await call.turn(TurnId(call.part("turn")), NotFound("There is no such run (any more)."))
    feed = call.watch(turn, after=after)
    stream = await call.site.streams.send(
        call.request, feed, lambda item: encode_event(encode_seen(item).decode(), name=SEEN), headers={}
    )
    await note_seen(call.gateway, turn.agent, turn.id)
    # A stream that was cut off has no end: its watcher comes back for the rest.
    await stream.write(encode_event("{}", name=END))
    return stream.response


@local_route("GET", "/control/turns/{turn}/passwords", "Hear that a command of a turn wants a password.")
async def wanted_passwords(call: HttpCall) -> web.StreamResponse:
    stream = await call.site.streams.send(
        call.request,
        call.gateway.passwords.follow(TurnId(call.part("turn"))),
        lambda wanted: encode_event(encode(wanted).decode(), name=PASSWORD),
        headers={},
        first=encode_event("{}", name=HELLO),
    )
    return stream.response


@local_route("POST", "/control/password", "Give a password to the command that waits for it.")
async def give_password(call: HttpCall, request: str, word: str) -> bool:
    return call.gateway.passwords.give(request, Secret(word))


@local_route(
    "GET", "/control/events", "Hear of turns that nobody said, and that the gateway is there.", attaches=True
)
async def listen(call: HttpCall) -> web.StreamResponse:
    facts = {"pid": os.getpid(), "version": call.site.version, **call.site.facts()}
    hello = encode_event(encode(facts).decode(), name=HELLO)
    with call.site.use.terminal():
        stream = await call.site.streams.send(
            call.request,
            call.gateway.woken_turns(),
            lambda turn: encode_event(encode(turn).decode(), name=TURN),
            headers={},
            first=hello,
        )
    return stream.response


@local_route("POST", "/control/make-way", "Leave at once if only who asks uses the gateway.")
async def make_way(call: HttpCall) -> bool:
    return await call.site.use.make_way(call.gateway.open_work, call.site.clock)


@local_route("POST", "/control/stay", "Stay when the last terminal has left; whether that is new.")
async def stay(call: HttpCall) -> bool:
    return call.site.use.stay()


@local_route(
    "GET", "/control/happenings", "Hear what happens in the gateway, from now on; nothing is repeated."
)
async def happenings(call: HttpCall) -> web.StreamResponse:
    events = call.gateway.events.follow(*get_args(GatewayEvent))
    stream = await call.site.streams.send(
        call.request,
        events,
        lambda event: encode_event(encode(event).decode(), name=type(event).__name__),
        headers={},
        first=encode_event("{}", name=HELLO),
    )
    return stream.response


def _caller(call: HttpCall, terminal: TerminalState) -> Caller:
    return terminal_caller(terminal, remote=call.principal is not OWNER)


def _door(call: HttpCall, terminal: TerminalState) -> ServedDoor:
    return ServedDoor(call.gateway, _caller(call, terminal), terminal)


# --- the operator's commands -------------------------------------------------------------------------


@local_route("GET", "/control/status", "How the gateway is now; `facts` is what it says of itself.")
async def status(call: HttpCall) -> dict[str, Any]:
    facts = dict(call.site.facts())
    try:
        work = await call.gateway.open_work()
    except HermesError as error:
        work = OpenWork(turns={}, outbox={}, inbox=0, questions=0)
        facts["store_trouble"] = facts["store_trouble"] or str(error)
    return {
        "pid": os.getpid(),
        "version": call.site.version,
        "facts": facts,
        "open_streams": len(call.site.streams),
        "inbox": work.inbox,
        "turns": work.turns,
        "outbox": work.outbox,
    }


@local_route("POST", "/control/webhooks", "Take webhooks, if there are routes by now; where they come in.")
async def take_webhooks(call: HttpCall) -> dict[str, str]:
    return {"address": await call.site.open_webhooks()}


def _desk(call: HttpCall) -> OperatorDesk:
    gateway = call.gateway
    return OperatorDesk(
        agents=list(call.site.agents),
        default=call.default,
        route=gateway.route,
        courier=gateway.courier,
        jobs=gateway.jobs,
        delete=gateway.delete_session,
        sends=gateway.delivery.sends,
        carry=gateway.handoffs.ring,
        apply=call.site.apply,
        restart=call.site.restart,
        copy_database=call.site.copy_database,
        memory_of=partial(_memory_of, gateway),
        tend_checkpoints=partial(_tend_checkpoints, gateway),
        busy=lambda: gateway.busy_agents,
    )


async def _memory_of(gateway: Gateway, agent: AgentId) -> MemoryCare | None:
    return (await gateway.agents.get(agent)).memory


async def _tend_checkpoints(gateway: Gateway, agent: AgentId, action: str) -> list[CheckpointView]:
    care = (await gateway.agents.get(agent)).checkpoints
    return [] if care is None else await care.tend(action)


def _serve(perform: Perform) -> Perform:
    @wraps(perform)
    async def serve(call: HttpCall, **given: Any) -> Any:
        return await perform(_desk(call), **given)

    return serve


for perform, operation in OPERATIONS.items():
    local_route(*operation)(_serve(perform))
