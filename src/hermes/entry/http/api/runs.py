"""`/v1/runs`: work that goes on without its client. A run is a turn: it survives a crash, anybody who may see
it can watch it from any record on, as often as they like, and what it is now is read off its records."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Annotated

import msgspec
from aiohttp import web

from hermes.control.doors.following import (
    ApiRunStatus,
    RunView,
    answering_turn,
    read_run,
    recent_runs,
    waiting_turns,
)
from hermes.control.sessions.repeats import turn_named
from hermes.domain.ids import TurnId
from hermes.domain.ports.store import Tx
from hermes.domain.turns.event import Entry, QuestionKind, usage_of
from hermes.domain.turns.turn import Turn
from hermes.entry.http.ask import turns
from hermes.entry.http.ask.addressee import agent_name, find_addressee
from hermes.entry.http.ask.failures import failure_words, may_know
from hermes.entry.http.ask.messages import ChatMessage, ConversationInput, read_messages
from hermes.entry.http.ask.questions import (
    DECISIONS,
    PendingQuestion,
    QuestionAnswer,
    TurnQuestion,
    answer_question,
    read_answer,
)
from hermes.entry.http.site.endpoint import HttpCall, route
from hermes.entry.http.site.errors import ApiError, bad_request, not_found
from hermes.entry.http.site.headers import LAST_EVENT
from hermes.stream.faces.run_events import RunEvents, last_event
from hermes.stream.fold.answer import answer_text

STOPPED = "stopped by the client"
RETRY = b"retry: 1000\n\n"
_RESPONSE_PREFIX = "resp_"


class RunRequest(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """What is to be done. With `session_id` or `previous_response_id` the run goes on from what was said
    there; else from `conversation_history` alone."""

    input: str | list[ChatMessage]
    instructions: str | None = None
    conversation_history: list[ChatMessage] = []
    previous_response_id: str | None = None
    session_id: str | None = None
    model: str | None = None


class RunStarted(msgspec.Struct, kw_only=True):
    """The run is stored and will be done, whatever happens to the client or the gateway."""

    object: str = "hermes.run"
    run_id: str
    status: str = "started"
    session_id: str
    created_at: float
    model: str


class TokenUsage(msgspec.Struct, kw_only=True):
    """What the model calls of a run took together."""

    input_tokens: int
    output_tokens: int
    total_tokens: int

    @classmethod
    def by(cls, entries: Iterable[Entry]) -> TokenUsage:
        used = usage_of(entry.record for entry in entries)
        return cls(input_tokens=used.prompt, output_tokens=used.completion, total_tokens=used.total)


class RunObject(msgspec.Struct, kw_only=True):
    """A run as it is now."""

    object: str = "hermes.run"
    run_id: str
    status: ApiRunStatus
    created_at: float
    updated_at: float
    session_id: str
    model: str
    last_event: str | None = None
    questions: list[PendingQuestion] = []
    output: str | msgspec.UnsetType = msgspec.UNSET
    usage: TokenUsage | msgspec.UnsetType = msgspec.UNSET
    error: str | msgspec.UnsetType = msgspec.UNSET


class RunList(msgspec.Struct, kw_only=True):
    """The runs that a key asked for lately and its turns that wait for an answer, newest first."""

    object: str = "list"
    data: list[RunObject]


class ApprovalRequest(msgspec.Struct, kw_only=True):
    """`choice` is once, session, always or deny (approve and allow mean once)."""

    choice: str
    all: bool = False
    question_id: str | None = None


class ApprovalResponse(msgspec.Struct, kw_only=True):
    """How many questions were closed by the answer."""

    object: str = "hermes.run.approval_response"
    run_id: str
    choice: str
    resolved: int


class ClarifyRequest(msgspec.Struct, kw_only=True):
    """Words of one's own, or one of the offered choices by its text or its number."""

    text: str | None = None
    choice: str | int | None = None
    question_id: str | None = None


class ClarifyResponse(msgspec.Struct, kw_only=True):
    """How many questions were closed by the answer."""

    object: str = "hermes.run.clarify_response"
    run_id: str
    resolved: int


class RunStopped(msgspec.Struct, kw_only=True):
    """What the run is after the wish to stop it."""

    object: str = "hermes.run"
    run_id: str
    status: ApiRunStatus


@route(
    "POST",
    "/v1/runs",
    "Begin a run; it goes on without its client.",
    status=202,
    headers=turns.ASKING,
    refuses=turns.REFUSES,
    example={"input": "What can you do?"},
)
async def start(call: HttpCall, body: RunRequest) -> RunStarted:
    conversation = _read(body)
    after = None if body.previous_response_id is None else _previous(body.previous_response_id)
    choice = await find_addressee(
        call, body.model, conversation.text, session=lambda agent: body.session_id, after=after
    )
    options = turns.TurnOptions(
        prefix=turns.RUN_PREFIX,
        lasting=True,
        named=True,
        after=after,
        session=body.session_id,
        facts=msgspec.json.encode({"model": choice.name}).decode(),
        said_in="input",
    )
    turn = (await turns.ask(call, choice, conversation, options)).turn
    return RunStarted(
        run_id=turns.run_name(turn),
        session_id=turn.session,
        created_at=turn.created_at.timestamp(),
        model=choice.name,
    )


@route("GET", "/v1/runs", "The runs that this key asked for lately, and its turns that wait.")
async def list_runs(call: HttpCall, limit: Annotated[int, msgspec.Meta(ge=1, le=100)] = 20) -> RunList:
    name = call.principal.name
    recent = await call.collect(lambda tx: recent_runs(tx, name, turns.RUN_PREFIX, limit))
    waiting = await call.collect(lambda tx: waiting_turns(tx, call.owns, limit))
    runs = list({turn.id: turn for turn in (*(turn for _, turn in recent), *waiting)}.values())
    runs.sort(key=lambda run: run.created_at, reverse=True)
    return RunList(data=[await _shown(call, turn) for turn in runs[:limit]])


@route("GET", "/v1/runs/{run_id}", "A run as it is now.")
async def read(call: HttpCall) -> RunObject:
    return await _shown(call, await _find(call))


@route(
    "GET",
    "/v1/runs/{run_id}/events",
    "A run as it happens, from its beginning or from an event on.",
    headers=(LAST_EVENT,),
    returns=turns.TURN_HEADERS,
    also=(204,),
)
async def watch(
    call: HttpCall, after: Annotated[int, msgspec.Meta(ge=0)] | None = None
) -> web.StreamResponse:
    """`after` is the id of the last event that was seen, for clients that cannot send Last-Event-ID."""
    turn = await _find(call)
    seen = _last_seen(call, after)
    if seen >= 0:
        view = await _view(call, turn)
        if not view.turn.state.open and view.entries and view.entries[-1].seq <= seen:
            # A client that asks again and again has everything: this tells it to stop asking.
            return web.Response(status=204)
    clock = call.site.clock
    events = RunEvents(
        turns.run_name(turn), now=lambda: clock.now().timestamp(), after=seen, detailed=may_know(call)
    )
    return (await turns.stream_turn(call, turn, call.watch(turn), events.see, first=RETRY)).response


@route(
    "POST",
    "/v1/runs/{run_id}/approval",
    "Allow or deny what a run asks for.",
    refuses=(409,),
    example={"choice": "once"},
)
async def approve(call: HttpCall, body: ApprovalRequest) -> ApprovalResponse:
    given = QuestionAnswer(choice=body.choice)
    meant = await _meant(call, DECISIONS, body.question_id)
    verdict, _ = read_answer(meant[0].question, given)
    resolved = await _answer(call, meant if body.all else meant[:1], given)
    return ApprovalResponse(run_id=call.part("run_id"), choice=verdict.value, resolved=resolved)


@route(
    "POST",
    "/v1/runs/{run_id}/clarify",
    "Answer what a run wants to know.",
    refuses=(409,),
    example={"text": "The blue one."},
)
async def clarify(call: HttpCall, body: ClarifyRequest) -> ClarifyResponse:
    if (body.text is None) == (body.choice is None):
        raise bad_request("Send either text or choice.", param="text")
    given = QuestionAnswer(text=body.text, choice=None if body.choice is None else str(body.choice))
    meant = await _meant(call, (QuestionKind.CLARIFY,), body.question_id)
    return ClarifyResponse(run_id=call.part("run_id"), resolved=await _answer(call, meant[:1], given))


@route("POST", "/v1/runs/{run_id}/stop", "Stop a run.")
async def stop(call: HttpCall) -> RunStopped:
    asked = await _find(call)
    turn = await call.gateway.read(asked.agent, lambda tx: answering_turn(tx, asked))
    await turns.finish_shielded(call.gateway.stop_turn(asked.agent, turn.id, STOPPED))
    view = await _view(call, asked)
    return RunStopped(run_id=call.part("run_id"), status=view.status)


async def _meant(call: HttpCall, kinds: tuple[QuestionKind, ...], wanted: str | None) -> list[TurnQuestion]:
    """The questions that an answer is for: the named one, else those that are open, the oldest first."""
    view = await _view(call, await _find(call))
    meant = [
        each
        for each in _questions(view)
        if each.question.id == wanted
        or (wanted is None and each.question.open and each.question.kind in kinds)
    ]
    if wanted is not None and meant and meant[0].question.kind not in kinds:
        how = "clarify" if meant[0].question.kind is QuestionKind.CLARIFY else "approval"
        raise bad_request(f"This question is answered with POST …/{how}.", param="question_id")
    if not meant and not view.turn.state.open:
        raise ApiError(409, "approval_not_active", "The run is over; nothing waits for an answer.")
    if not meant:
        raise ApiError(409, "approval_not_pending", "The run waits for no such answer now.")
    return meant


async def _answer(call: HttpCall, meant: Sequence[TurnQuestion], given: QuestionAnswer) -> int:
    """How many questions were closed; an error that tells the true state if none was."""
    closed, late = 0, None
    for question in meant:
        try:
            await answer_question(call, question, given)
            closed += 1
        except ApiError as error:
            if error.status != 409:
                raise
            late = error
    if late is not None and not closed:
        raise ApiError(409, "approval_not_pending", late.message) from late
    return closed


def _read(body: RunRequest) -> ConversationInput:
    now = [ChatMessage(role="user", content=body.input)] if isinstance(body.input, str) else body.input
    if not now:
        raise bad_request("There is no input.", param="input")
    conversation = read_messages([*body.conversation_history, *now])
    if conversation.results or not (conversation.text.strip() or conversation.images):
        raise bad_request("The input says nothing.", param="input")
    return conversation.instructed(body.instructions)


def _previous(name: str) -> TurnId:
    for prefix in (_RESPONSE_PREFIX, turns.RUN_PREFIX):
        # A later part of a turn has the turn's name and a number: all of them end where the turn does.
        turn = turn_named(prefix, "_".join(name.split("_")[:2]))
        if turn is not None:
            return turn
    raise ApiError(
        404,
        "previous_response_not_found",
        f"There is no response “{name[:80]}”.",
        param="previous_response_id",
    )


async def _find(call: HttpCall) -> Turn:
    name = call.part("run_id")
    return await call.turn(turn_named(turns.RUN_PREFIX, name), not_found("run", name, "run_not_found"))


async def _view(call: HttpCall, asked: Turn) -> RunView:
    def view(tx: Tx) -> RunView:
        now = tx.turns.get(asked.id) or asked
        return read_run(tx, now, turns.run_name(asked))

    return await call.gateway.read(asked.agent, view)


async def _shown(call: HttpCall, turn: Turn) -> RunObject:
    view = await _view(call, turn)
    facts = {} if view.request is None else msgspec.json.decode(view.request.facts, type=dict[str, object])
    over = not view.turn.state.open
    return RunObject(
        run_id=turns.run_name(turn),
        status=view.status,
        created_at=view.asked.created_at.timestamp(),
        updated_at=view.updated_at.timestamp(),
        session_id=view.turn.session,
        model=str(facts.get("model") or agent_name(call, turn.agent)),
        last_event=last_event(view.entries),
        questions=[each.pending for each in _questions(view) if each.question.open],
        output=answer_text(view.entries, footer=False) if over else msgspec.UNSET,
        usage=TokenUsage.by(view.entries),
        error=msgspec.UNSET if view.failure is None else failure_words(call, view.failure),
    )


def _questions(view: RunView) -> list[TurnQuestion]:
    return [
        TurnQuestion(question=question, turn=view.turn, entries=view.entries) for question in view.questions
    ]


def _last_seen(call: HttpCall, after: int | None) -> int:
    """The number of the last record that a client has seen; -1 for one that has seen nothing."""
    sent = call.request.headers.get(LAST_EVENT, "").strip()
    if sent:
        if not (sent.isascii() and sent.isdigit() and len(sent) < 16):
            raise bad_request(f"{LAST_EVENT} is the id of an event of this run.", param=LAST_EVENT)
        return int(sent)
    return -1 if after is None else after
