"""`AIAgent`: the agent for Python programs, with a gateway and a store of its own.

The gateway lives in a thread with its own event loop, so that plain functions and coroutines can use it
alike; it starts with the first question and ends with `close()`. Nothing is kept unless a folder is given."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import sys
import weakref
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any, TypeVar, Unpack

from msgspec import Struct, field

from hermes.app.app import App
from hermes.app.overrides import AppOverrides
from hermes.control.sessions.submission import SessionTarget, Submission
from hermes.domain.chats.address import Address, Source, SourceKind
from hermes.domain.errors import UserError
from hermes.domain.ids import MAIN_AGENT, CallId, SessionId, TurnId, new_session_id, new_turn_id
from hermes.domain.models.usage import CostStatus, Usage
from hermes.domain.ports.agent import ModelRequest
from hermes.domain.ports.store import Tx
from hermes.domain.settings.settings import SCRIPT_DOOR
from hermes.domain.text import one_line
from hermes.domain.tools.tool import ToolCall
from hermes.domain.turns.chat_format import as_messages
from hermes.domain.turns.event import (
    Asked,
    Entry,
    Failed,
    ModelSaid,
    QuestionKind,
    Record,
    Stopped,
    TextDelta,
    ToolFinished,
    ToolStarted,
    Verdict,
    usage_of,
)
from hermes.domain.turns.session import Session, owner_of
from hermes.domain.turns.transcript import visible
from hermes.domain.turns.turn import CLIENT_GONE, Answer, TurnAction, TurnInput
from hermes.domain.word import replace
from hermes.script.engine import GatewayThread
from hermes.script.messages import as_records, content_text
from hermes.script.options import (
    AgentOptions,
    changed_settings,
    identity_of,
    machine_settings,
    source_for,
    toolsets_of,
)
from hermes.state.settings.loader import LoadedSettings
from hermes.state.settings.secrets import Secrets
from hermes.stream.faces.trajectory import FAILED_SAMPLES, SAMPLES, make_trajectory
from hermes.stream.fold.answer import answer_text
from hermes.stream.fold.questions import for_people
from hermes.stream.fold.steps import thoughts_of

log = logging.getLogger("hermes.script")
T = TypeVar("T")
Message = dict[str, Any]

PERSON = "script"
SOURCE = Source(address=Address(platform=SCRIPT_DOOR, chat="script"), kind=SourceKind.API, user=PERSON)
NOBODY_APPROVES = "nobody is there to approve it (this agent was given no approval_callback)"
NOBODY_ANSWERS = "Nobody is there to answer. Decide yourself, and say what you decided."
_PREVIEW = 80


class _ConversationRun(Struct, kw_only=True):
    """One run of `run_conversation`, while it goes on."""

    text: str
    system: str = ""
    command: str = ""
    history: Sequence[Message] | None = None
    delta: Callable[[str | None], object] | None = None
    turn: TurnId | None = None
    stop_words: str | None = None
    started: dict[CallId, tuple[str, Mapping[str, Any], datetime]] = field(default_factory=dict)


class AIAgent:
    """One agent, one session. Use it as a context manager, or call `close()`."""

    def __init__(self, model: str | None = None, /, **options: Unpack[AgentOptions]) -> None:
        if model is not None and "model" in options:
            raise TypeError("AIAgent was given two models")
        if model is not None:
            options["model"] = model
        unknown = options.keys() - AgentOptions.__annotations__.keys()
        if unknown:
            raise TypeError(f"AIAgent has no option {', '.join(sorted(unknown))}")
        self._options = options
        self._prefill = _entries(as_records(options.get("prefill_messages") or ()), datetime.now(UTC))
        self._session: SessionId | None = None
        self._chosen = options.get("session_id")
        self._messages: list[Message] = []
        self._current: _ConversationRun | None = None
        machine = machine_settings()
        self._engine = GatewayThread(
            self._given(machine),
            options.get("folder"),
            bool(options.get("verbose_logging")),
            identity_of(machine, options),
        )
        self._end = weakref.finalize(self, self._engine.close)

    # --- asking ---

    def chat(self, message: str) -> str:
        """Say something and return the answer. A turn that fails raises a `UserError`."""
        return _text_of(self.run_conversation(message))

    async def achat(self, message: str) -> str:
        """`chat` for coroutines."""
        return _text_of(await self.arun_conversation(message))

    def run_conversation(
        self,
        user_message: str | Sequence[Message],
        system_message: str | None = None,
        conversation_history: Sequence[Message] | None = None,
        task_id: str | None = None,
        stream_callback: Callable[[str | None], object] | None = None,
    ) -> dict[str, Any]:
        """Say something and return everything there is to know about the answer.

        Without `conversation_history` the agent's own session goes on; with it, a new one begins with these
        messages. `system_message` counts for this call alone and is stored nowhere. `task_id` is accepted
        for compatibility."""
        future = self._begin(user_message, system_message, conversation_history, stream_callback)
        try:
            return future.result()
        except KeyboardInterrupt:
            self.interrupt()
            raise

    async def arun_conversation(
        self,
        user_message: str | Sequence[Message],
        system_message: str | None = None,
        conversation_history: Sequence[Message] | None = None,
        task_id: str | None = None,
        stream_callback: Callable[[str | None], object] | None = None,
    ) -> dict[str, Any]:
        """`run_conversation` for coroutines. Cancelling it stops the turn."""
        future = self._begin(user_message, system_message, conversation_history, stream_callback)
        return await asyncio.wrap_future(future)

    def _begin(
        self,
        words: str | Sequence[Message],
        system: str | None,
        history: Sequence[Message] | None,
        delta: Callable[[str | None], object] | None,
    ) -> Future[dict[str, Any]]:
        talk = _ConversationRun(text=content_text(words), system=system or "", history=history, delta=delta)
        return self._engine.submit(self._converse(talk))

    def interrupt(self, message: str | None = None) -> None:
        """Stop what is being said; whoever waits for it gets what was said so far. From any thread."""
        talk = self._current
        if talk is not None and talk.turn is not None:
            talk.stop_words = message
            self._engine.submit(self._stop(talk.turn), inside=True)

    def run_command(self, command: str) -> str:
        """Run a shell command where the agent runs its own, without the model; what it printed."""
        return _text_of(self._engine.submit(self._converse(_command(command))).result())

    async def arun_command(self, command: str) -> str:
        """`run_command` for coroutines."""
        return _text_of(await asyncio.wrap_future(self._engine.submit(self._converse(_command(command)))))

    def trajectory(self) -> list[dict[str, str]]:
        """The conversation so far as the turns of a training sample."""
        return self._engine.submit(self._trajectory()).result()

    async def atrajectory(self) -> list[dict[str, str]]:
        """`trajectory` for coroutines."""
        return await asyncio.wrap_future(self._engine.submit(self._trajectory()))

    @property
    def session_id(self) -> str | None:
        """The session, once something was said in it."""
        return self._session

    @property
    def model_line(self) -> str:
        """One line: which model answers, and why."""
        return self._engine.app().choice.line

    # --- its life ---

    def close(self) -> None:
        """End the gateway and everything it started."""
        self.interrupt()
        self._end()

    def __enter__(self) -> AIAgent:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        self.close()

    async def __aenter__(self) -> AIAgent:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        await asyncio.to_thread(self.close)

    # --- what the gateway is given ---

    def _given(self, machine: LoadedSettings) -> AppOverrides:
        options = self._options
        provider = options.get("provider")
        workspace = options.get("workspace")
        return AppOverrides(
            provider=None if provider is None or isinstance(provider, str) else provider,
            platforms={},
            boots=False,
            workspace=Path(workspace or os.getcwd()).absolute(),
            toolsets=toolsets_of(machine, options),
            change=partial(changed_settings, machine, options),
            inject=_weakly(self),
            in_memory=options.get("folder") is None,
        )

    def _inject(self, request: ModelRequest) -> ModelRequest:
        talk = self._current
        words = [request.system, self._options.get("ephemeral_system_prompt") or ""]
        words.append(talk.system if talk is not None else "")
        system = "\n\n".join(part for part in words if part)
        return replace(request, system=system, entries=[*self._prefill, *request.entries])

    # --- one conversation, inside the thread ---

    async def _converse(self, talk: _ConversationRun) -> dict[str, Any]:
        app = await self._engine.ready()
        async with self._engine.lock:
            session = await self._open_session(app, talk)
            self._current = talk
            words = Submission(
                agent=MAIN_AGENT,
                source=source_for(SOURCE, self._options),
                input=_input(talk),
                place=SessionTarget(session=session),
            )
            turn = await app.gateway.submit(words)
            talk.turn = turn.id
            ended = False
            try:
                async for seen in app.gateway.watch(MAIN_AGENT, turn.id):
                    if isinstance(seen, TextDelta):
                        self._tell_delta(talk, seen.text)
                    elif isinstance(seen, Entry):
                        await self._follow(app, talk, seen.record)
                ended = True
            finally:
                self._current = None
                if not ended:
                    await app.gateway.stop_turn(MAIN_AGENT, turn.id, CLIENT_GONE)
            entries = await app.store.scoped(MAIN_AGENT).read(lambda tx: tx.journal.read(session))
            result = _result(app, session, turn.id, entries)
            if talk.stop_words is not None:
                result["interrupt_message"] = talk.stop_words
            if self._options.get("save_trajectories"):
                sample = await _sample(app, entries)
                await asyncio.to_thread(_save_sample, sample, result, entries[-1].at, _redact(app))
            self._messages = result["messages"]
            return result

    async def _open_session(self, app: App, talk: _ConversationRun) -> SessionId:
        now = datetime.now(UTC)
        seed: Sequence[Record] = ()
        if talk.history is not None and list(talk.history) != self._messages:
            instructions = [
                content_text(message.get("content"))
                for message in talk.history
                if message.get("role") == "system"
            ]
            talk.system = "\n\n".join([talk.system, *instructions]).strip()
            seed = as_records(talk.history)
            self._session = None
        if self._session is None:
            self._session = SessionId(self._chosen) if self._chosen else new_session_id(now)
            self._chosen = None
        await app.store.scoped(MAIN_AGENT).write(partial(_prepare, self._session, _entries(seed, now), now))
        return self._session

    async def _trajectory(self) -> list[dict[str, str]]:
        app, session = await self._engine.ready(), self._session
        if session is None:
            return []
        return await _sample(
            app, await app.store.scoped(MAIN_AGENT).read(lambda tx: tx.journal.read(session))
        )

    async def _stop(self, turn: TurnId) -> None:
        app = await self._engine.ready()
        await app.gateway.stop_turn(MAIN_AGENT, turn, "interrupted by the program")

    def _tell_delta(self, talk: _ConversationRun, text: str | None) -> None:
        for callback in (self._options.get("stream_delta_callback"), talk.delta):
            if callback is not None:
                callback(text)

    async def _follow(self, app: App, talk: _ConversationRun, record: Record) -> None:
        started = talk.started
        match record:
            case ModelSaid():
                self._tell_delta(talk, None)
                for call in record.calls:
                    started[call.id] = (call.name, _arguments(call), datetime.now(UTC))
            case ToolStarted() if not record.inside:
                name, arguments, _ = started.get(record.call, (record.name, {}, None))
                self._tell_tool("tool.started", name, arguments)
            case ToolFinished() if record.call in started:
                name, arguments, at = started[record.call]
                seconds = (datetime.now(UTC) - at).total_seconds()
                more = {"duration": seconds, "is_error": record.failed, "result": record.text}
                self._tell_tool("tool.completed", name, arguments, **more)
            case Asked() if for_people(record):
                await app.gateway.answer(MAIN_AGENT, await self._answer(record))

    def _tell_tool(self, event: str, name: str, arguments: Mapping[str, Any], **more: Any) -> None:
        preview = one_line(" ".join(str(value) for value in arguments.values()), _PREVIEW)
        callback = self._options.get("tool_progress_callback")
        if callback is not None:
            callback(event, name, preview, arguments, **more)
        elif not self._options.get("quiet_mode") and event == "tool.started":
            print(f"→ {name} {preview}".rstrip(), file=sys.stderr, flush=True)

    async def _answer(self, asked: Asked) -> Answer:
        """An answer by the program's callbacks; without one, nothing dangerous happens."""
        if asked.kind is QuestionKind.CLARIFY:
            ask = self._options.get("clarify_callback")
            text = NOBODY_ANSWERS if ask is None else await asyncio.to_thread(ask, asked.text, asked.options)
            return Answer(question=asked.question, verdict=Verdict.REPLY, text=text, by=PERSON)
        approve = self._options.get("approval_callback")
        if approve is None:
            return Answer(question=asked.question, verdict=Verdict.DENY, text=NOBODY_APPROVES, by=PERSON)
        verdict = _verdict(await asyncio.to_thread(approve, asked.text))
        return Answer(question=asked.question, verdict=verdict, by=PERSON)


# --- in and out --------------------------------------------------------------------------------------


def _weakly(agent: AIAgent) -> Callable[[ModelRequest], ModelRequest]:
    """The agent's injection, without keeping an agent alive that nobody uses any more."""
    known = weakref.ref(agent)

    def inject(request: ModelRequest) -> ModelRequest:
        found = known()
        return request if found is None else found._inject(request)

    return inject


def _entries(records: Sequence[Record], now: datetime) -> list[Entry]:
    """Records from outside, as one turn of their own."""
    turn = new_turn_id()
    return [Entry(seq=seq, turn=turn, at=now, record=record) for seq, record in enumerate(records, 1)]


def _prepare(session: SessionId, seed: Sequence[Entry], now: datetime, tx: Tx) -> None:
    """The session, made with its first records if it is not there yet."""
    if tx.sessions.get(session) is not None:
        return
    tx.sessions.add(
        Session(id=session, agent=MAIN_AGENT, created_at=now, updated_at=now, owner=owner_of(SOURCE))
    )
    tx.journal.append(session, seed)


def _arguments(call: ToolCall) -> Mapping[str, Any]:
    try:
        found = json.loads(call.arguments or "{}")
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def _verdict(answer: str | bool) -> Verdict:
    if isinstance(answer, bool):
        return Verdict.ONCE if answer else Verdict.DENY
    try:
        verdict = Verdict(answer)
    except ValueError:
        return Verdict.DENY
    return verdict if verdict.allows else Verdict.DENY


def _text_of(result: Mapping[str, Any]) -> str:
    if result["failed"]:
        raise UserError(result["error"])
    return str(result["final_response"])


# --- what `run_conversation` returns -----------------------------------------------------------------


def _result(app: App, session: SessionId, turn: TurnId, entries: Sequence[Entry]) -> dict[str, Any]:
    """A finished turn as the dictionary that callers get. Tokens are those of the whole session."""
    own = [entry for entry in entries if entry.turn == turn]
    replies = [entry.record for entry in own if isinstance(entry.record, ModelSaid)]
    end = own[-1].record
    failed, stopped = isinstance(end, Failed), isinstance(end, Stopped)
    text = replies[-1].text if stopped and replies else answer_text(own)
    used = usage_of(entry.record for entry in entries)
    last = replies[-1].usage if replies else Usage()
    return {
        "final_response": None if failed else text,
        "last_reasoning": next(filter(None, map(thoughts_of, reversed(replies))), None),
        "messages": as_messages(visible(entries)),
        "api_calls": len(replies),
        "completed": not failed and not stopped,
        "turn_exit_reason": _exit_reason(end, len(replies), app.loaded.settings.agent.max_turns),
        "failed": failed,
        "partial": any(said.partial for said in replies),
        "interrupted": stopped,
        "error": end.reason if isinstance(end, Failed) else None,
        "tool_errors": [
            entry.record.text
            for entry in own
            if isinstance(entry.record, ToolFinished) and entry.record.failed
        ],
        "session_id": session,
        "model": next((said.model for said in reversed(replies) if said.model), app.choice.model),
        "provider": app.choice.provider,
        "base_url": app.choice.base_url,
        "input_tokens": used.prompt,
        "output_tokens": used.completion,
        "prompt_tokens": used.prompt,
        "completion_tokens": used.completion,
        "total_tokens": used.total,
        "cache_read_tokens": used.cached,
        "cache_write_tokens": used.cache_written,
        "reasoning_tokens": used.reasoning,
        "last_prompt_tokens": last.prompt,
        "estimated_cost_usd": used.cost,
        "cost_status": CostStatus.UNKNOWN if used.cost is None else CostStatus.ESTIMATED,
    }


def _command(command: str) -> _ConversationRun:
    return _ConversationRun(text=command, command=command)


def _input(talk: _ConversationRun) -> TurnInput:
    action = TurnAction.RUN if talk.command else TurnAction.SAY
    return TurnInput(text=talk.text, action=action, command=talk.command)


async def _sample(app: App, entries: Sequence[Entry]) -> list[dict[str, str]]:
    runtime = await app.gateway.agents.get(MAIN_AGENT)
    return make_trajectory(visible(entries), list(runtime.toolbox.all.values())).conversations


def _redact(app: App) -> Callable[[str], str]:
    """Takes out what is loaded, and the key that the program gave."""
    given = Secrets({"api_key": app.loaded.settings.model.api_key.reveal()})
    return lambda text: given.redact(app.loaded.secrets.redact(text))


def _save_sample(
    conversations: Sequence[Mapping[str, str]],
    result: Mapping[str, Any],
    at: datetime,
    redact: Callable[[str], str],
) -> None:
    """Add a conversation to a file of samples in the folder that the program works in."""
    completed = result["completed"]
    sample = {
        "conversations": conversations,
        "timestamp": at.isoformat(),
        "model": result["model"],
        "completed": completed,
    }
    with Path(SAMPLES if completed else FAILED_SAMPLES).open("a", encoding="utf-8") as file:
        file.write(redact(json.dumps(sample, ensure_ascii=False)) + "\n")


def _exit_reason(end: Record, replies: int, most: int) -> str:
    if isinstance(end, Stopped):
        return "interrupted_by_user"
    if isinstance(end, Failed):
        return "empty_response_exhausted" if "empty answer" in end.reason else "error"
    return f"max_iterations_reached({replies}/{most})" if replies > most else "text_response(stop)"
