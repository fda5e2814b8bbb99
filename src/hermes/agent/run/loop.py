"""The run: a function of the transcript. It looks at the tail, takes the next step, yields it, looks again.

Open calls are settled; a complete reply without calls finishes the turn and never calls the model again;
otherwise the model is called. What needs a person yields `Asked` and ends the run: the answer starts
it anew. Nothing is remembered here between two looks at the transcript, so a crash changes nothing.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Collection, Mapping, Sequence
from functools import partial
from hashlib import sha256

from msgspec import Struct, field

from hermes.agent.call_repair import repair_calls
from hermes.agent.context.compress import Compressor
from hermes.agent.context.prompt import RUNS_ON
from hermes.agent.context.shown import shown
from hermes.agent.context.tokens import CHARS, fixed_tokens, prompt_tokens
from hermes.agent.context.transcript_messages import CONTINUE
from hermes.agent.run.calls import CallRunner, call_steps, close_lost_calls
from hermes.agent.run.dispatch import Dispatcher, RoleModel
from hermes.agent.run.guards import stop_words, warning
from hermes.agent.run.links import LinkFilter
from hermes.agent.run.opinion import SecondModel
from hermes.agent.run.progress import TurnProgress, read_progress
from hermes.agent.run.room import COMPRESSING, NO_COMPRESSION, ContextRoom
from hermes.agent.run.speech import BACKGROUND_SECONDS, ReplyStream, RetryBackoff, fault_sentence
from hermes.agent.run.taint import has_read_foreign, has_read_outside, named_hosts
from hermes.agent.run.toolbox import TurnTools, attended_tools, with_bridge
from hermes.domain.clock import Clock
from hermes.domain.errors import FaultKind
from hermes.domain.ids import CallId
from hermes.domain.models.call_options import NO_OPTIONS, CallOptions
from hermes.domain.models.model_facts import ModelFacts
from hermes.domain.models.usage import Usage, priced
from hermes.domain.ports.agent import ModelRequest, Provider, Run
from hermes.domain.settings.tool_limits import LoopGuard
from hermes.domain.tools.deferral import TOOL_CALL
from hermes.domain.tools.tool import Tool
from hermes.domain.tools.toolbox import Toolbox
from hermes.domain.turns.event import (
    AgentEvent,
    Ending,
    Failed,
    FaultCause,
    Finished,
    ModelSaid,
    Notice,
    Record,
    ToolFinished,
)
from hermes.domain.turns.session import Session
from hermes.domain.turns.transcript import TurnView, turn_entries, view_turn
from hermes.domain.turns.turn import Cause, EarlierMessage, TurnAction
from hermes.domain.word import replace

CLOSING = (
    "[You have used all the steps of this turn. Do not call tools. Say what was done, what was found, "
    "and what is left.]"
)
SAY_SOMETHING = "[Your last reply was empty. Answer the user now, in words.]"
SAY_THOUGHTS = "[You thought, but said nothing. Answer the user now, in words.]"

_NO_TOOLS = "model.no_tools"
NO_ANSWER = (
    "The model gave an empty answer {times} times in a row. Say it in other words, or choose another model."
)
UNUSABLE = (
    "The model called tools that do not exist, or with arguments nobody can read, {times} times in a row. "
    "Try again, or choose another model."
)

INTERRUPTED = "⚠️ Interrupted before its result was known, so it may or may not have happened"
LINKS_CUT = (
    "⚠️ A link was cut, because its address could carry data away and you did not name its site. "
    "Name the site to get it whole."
)
CUT = "⚠️ The answer reached the model's length limit and may be incomplete."


class LoopLimits(Struct, frozen=True, kw_only=True):
    iterations: int = 60
    retries: int = 3
    continuations: int = 4
    empty: int = 3
    unusable: int = 3
    guard: LoopGuard = LoopGuard()
    calls: int = 64
    call_seconds: float = 900.0
    silence: float = 0.0
    """How long a tool may show no sign of life; 0: as long as it may take."""
    patience: RetryBackoff = field(default_factory=RetryBackoff)


class CallManner(Struct, frozen=True, kw_only=True):
    """What a model is told and asked for at each call beside the transcript, and what is stored nowhere."""

    system: str = ""
    history: tuple[EarlierMessage, ...] = ()
    effort: str = ""


NO_CALL_MANNER = CallManner()


class AgentLoop:
    """The agent port, driven by a provider and a toolbox. `system` may depend on the session; a prompt that
    is stored with the session is used instead. If it is `smart`, a second model is asked before people.
    `manner` says how a session's model is to behave."""

    def __init__(
        self,
        *,
        provider: Provider,
        toolbox: Toolbox,
        model: str,
        system: str | Callable[[Session], str],
        clock: Clock,
        limits: LoopLimits | None = None,
        ask_model: Callable[[str], RoleModel] | None = None,
        link_hosts: Callable[[], Collection[str]] = tuple,
        smart: Callable[[], bool] = lambda: False,
        facts: Callable[[str], ModelFacts] = lambda model: ModelFacts(),
        compressor: Compressor | None = None,
        manner: Callable[[Session, str], CallManner] = lambda session, model: NO_CALL_MANNER,
        cache_ttl: str = "",
    ) -> None:
        self._manner = manner
        self._provider = provider
        self._link_hosts = link_hosts
        self._limits = limits or LoopLimits()
        self._toolbox = toolbox
        self._model = model
        self._system = system
        self._clock = clock
        self._ask_model = ask_model
        self._smart = smart
        self._facts = facts
        self._compressor = compressor
        self._cache_ttl = cache_ttl

    def system_prompt(self, session: Session) -> str:
        """What this session's model is told first. Once stored with the session, it never changes."""
        if session.system_prompt is not None:
            parts = (session.system_prompt, session.context_prompt, session.place_prompt)
            return "\n\n".join(filter(None, parts))
        return self._system if isinstance(self._system, str) else self._system(session)

    async def run(self, run: Run) -> AsyncIterator[AgentEvent]:
        bench = self._bench(run)
        before = view_turn(run.transcript, run.turn.id)
        begun = [state.call.id for state in before.leftovers]
        leftovers = close_lost_calls(before)
        if leftovers:
            yield leftovers
        while True:
            view = view_turn(run.transcript, run.turn.id)
            if view.ended is not None:
                return
            bench = bench.with_hidden()
            if view.open_calls:
                able = await bench.for_calls(run, (state.call for state in view.open_calls))
                settle = CallRunner(run=run, bench=able, dispatcher=self._dispatcher(run, able, begun))
                async for event in settle.steps(view):
                    yield event
                if settle.asked:
                    return
                continue
            if run.turn.input.action is TurnAction.COMPRESS:
                if self._compressor is None:
                    yield (Finished(note=NO_COMPRESSION),)
                    return
                async for event in self._compress(run, self._compressor, bench):
                    yield event
                return
            if run.turn.input.action is TurnAction.RUN and not view.heard_since:
                yield (Finished(note=_results(view)),)
                return
            progress = read_progress(turn_entries(run.transcript, run.turn.id))
            end = self._end(run, progress, view)
            if end is not None and not view.heard_since:
                yield (end,)
                return
            async for event in self._speak(run, bench, view, progress):
                yield event

    def _compress(self, run: Run, compressor: Compressor, bench: TurnTools) -> AsyncIterator[AgentEvent]:
        tools = tuple(tool for name, tool in bench.tools.items() if name not in bench.hidden)
        request = self._request(run, tools, _options(run))
        return ContextRoom(compressor, run, request).on_request()

    def _bench(self, run: Run) -> TurnTools:
        offered = self._toolbox.for_turn(run.session, run.turn)
        bridged = TOOL_CALL in offered

        def now() -> Mapping[str, Tool]:
            usable = self._toolbox.usable(run.session, run.turn)
            return attended_tools(with_bridge(usable, offered) if bridged else usable, run)

        tools = attended_tools(offered, run)
        ask = self._role_models(run)
        opinion = SecondModel(ask=ask) if ask is not None and self._smart() else None
        bench = TurnTools(tools=tools, now=now, most_calls=self._limits.calls, opinion=opinion)
        return bench.beside(run.turn.input.guidance.tools)

    def _role_models(self, run: Run) -> RoleModel | None:
        """Asks the model of a role, beside the model of this run."""
        named = run.turn.input.guidance.model or run.session.model or ""
        return None if self._ask_model is None else self._ask_model(named)

    def _dispatcher(self, run: Run, bench: TurnTools, begun: Collection[CallId]) -> Dispatcher:
        seconds = self._limits.call_seconds
        links = self._link_filter(run)
        return Dispatcher(
            run=run,
            bench=bench,
            clock=self._clock,
            seconds=seconds,
            silence=self._limits.silence,
            ask_model=self._role_models(run),
            safe_links=str if links is None else lambda text: links().take(text, last=True),
            begun=begun,
        )

    def _link_filter(self, run: Run) -> Callable[[], LinkFilter] | None:
        """What words for people pass, once words from outside were read."""
        if not has_read_outside(run):
            return None

        is_named, strict = named_hosts(run), has_read_foreign(run)

        def is_known(host: str) -> bool:
            trusted = any(host == name or host.endswith(f".{name}") for name in self._link_hosts())
            return trusted or is_named(host)

        return lambda: LinkFilter(is_known, strict=strict)

    def _end(self, run: Run, progress: TurnProgress, view: TurnView) -> Finished | Failed | None:
        """How the turn ends if nothing more is said to it, or None if the model has to speak again."""
        last = progress.last
        if last is None:
            return None
        if last.ending is Ending.LENGTH and _options(run).max_tokens is not None:
            return Finished(note=_note(run, view, last, cut=False))
        if progress.empty:
            too_often = progress.empty > self._limits.empty
            return Failed(reason=NO_ANSWER.format(times=progress.empty)) if too_often else None
        if last.calls:
            too_often = progress.unusable >= self._limits.unusable
            return Failed(reason=UNUSABLE.format(times=progress.unusable)) if too_often else None
        if 0 < progress.cuts <= self._limits.continuations:
            return None
        return Finished(note=_note(run, view, last, cut=progress.cuts > 0))

    async def _speak(
        self, run: Run, bench: TurnTools, view: TurnView, progress: TurnProgress
    ) -> AsyncIterator[AgentEvent]:
        """One reply of the model, with retries, and what follows from it in the same commit."""
        closing = self._closing_words(progress, run.turn.input.guidance.steps)
        options = _options(run)
        if options.must_call and (closing or progress.since_client):
            options = replace(options, must_call=())
        wanted = options.must_call or (bench.tools.keys() - bench.hidden if bench.hidden else bench.tools)
        tools = () if closing else tuple(tool for name, tool in bench.tools.items() if name in wanted)
        deferred = () if closing else self._toolbox.deferred(run.session)
        request = replace(self._request(run, tools, options), deferred=deferred)
        if tools and self._facts(request.model).tools is False:
            request = replace(request, tools=(), deferred=(), options=replace(options, must_call=()))
            for notice in _tell_no_tools(run, request.model):
                yield notice
        notes = await run.person_notes(named) if (named := shown(run.transcript, run.memory).notes) else {}
        request = replace(request, note=closing or self._nudge(progress), notes=notes)
        room = None if self._compressor is None else ContextRoom(self._compressor, run, request)
        if room is not None and room.is_tight:
            yield Notice(text=COMPRESSING)
            made = await room.make()
            if made is not None:
                yield (made,)
                return
        limits, estimate = self._limits, partial(self._estimate, run, request)
        speech = ReplyStream(
            provider=self._provider,
            clock=self._clock,
            retries=limits.retries,
            patience=_patience(run, limits.patience),
            links=self._link_filter(run),
            late=run.late,
            estimate=estimate,
        )
        run.call.estimate = estimate
        async for live in speech.hear(request, run.scope):
            yield live
        run.call.estimate = None
        if speech.reply is None:
            made = None
            if room is not None and speech.fault.kind is FaultKind.TOO_LONG and not speech.heard:
                yield Notice(text=COMPRESSING)
                made = await room.make_after(speech.fault)
            yield _broken_off(speech, estimate) if made is None else (made,)
            return
        bounded = speech.cut and options.max_tokens is not None
        calls = () if closing or bounded else repair_calls(speech.reply.calls, bench.tools, progress.ids)
        own = not speech.reply.other_provider  # else another model answered, and its prices count
        names = (request.model, speech.reply.model) if own else (speech.reply.model,)
        usage = self._priced(speech.reply.usage, *names)
        said = replace(speech.reply, calls=calls if options.parallel else calls[:1], usage=usage)
        if speech.reply.calls and not calls:
            said = replace(said, ending=Ending.LENGTH if bounded else Ending.STOP)
        if calls:
            yield (said, *await call_steps(run, said, await bench.for_calls(run, said.calls)))
            return
        progress.hear(said)
        end = self._end(run, progress, view)
        yield (said,) if end is None else (said, end)

    def _estimate(self, run: Run, request: ModelRequest, heard: int) -> Usage:
        """What a call took, about, whose end nobody heard."""
        fixed = partial(fixed_tokens, request.system, request.tools)
        used = Usage(prompt=prompt_tokens(run.transcript, run.memory, fixed), completion=-(-heard // CHARS))
        return self._priced(replace(used, model=request.model), request.model)

    def _priced(self, usage: Usage, *names: str) -> Usage:
        """With its cost by the first of a model's names that has prices."""
        facts = (self._facts(name) for name in names if name)
        known = next((each for each in facts if each.price_in is not None), None)
        return usage if known is None else priced(usage, known)

    def _request(self, run: Run, tools: Sequence[Tool], options: CallOptions) -> ModelRequest:
        """What the model is asked with. What the turn's client brought along is said in this turn only: its
        words behind the session's own prompt, its messages before the transcript."""
        guidance = run.turn.input.guidance
        model = guidance.model or run.session.model or self._model
        manner = self._manner(run.session, model)
        prompt = self.system_prompt(run.session)
        if model != self._model:  # it was written for the agent's own
            prompt = prompt.replace(RUNS_ON.format(model=self._model), RUNS_ON.format(model=model))
        system = (prompt, manner.system, guidance.instructions)
        seen = shown(run.transcript, run.memory)
        effort = guidance.effort or manner.effort
        if effort and not options.effort:
            options = replace(options, effort=effort)
        return ModelRequest(
            model=model,
            system="\n\n".join(words for words in system if words.strip()),
            entries=list(seen.entries),
            tools=tools,
            shared=run.session.owner is None or len(seen.authors) > 1,
            memory=run.memory,
            has_files=seen.has_files,
            history=(*manner.history, *guidance.history),
            options=options,
            cache_key=sha256(run.session.id.encode()).hexdigest()[:32],
            cache_ttl=self._cache_ttl,
        )

    def _closing_words(self, progress: TurnProgress, steps: int) -> str:
        """What the model is told when it gets no tools any more; empty while it does."""
        if progress.replies >= min(steps or self._limits.iterations, self._limits.iterations):
            return CLOSING
        return stop_words(progress, self._limits.guard)

    def _nudge(self, progress: TurnProgress) -> str:
        last = progress.last
        if last is None:
            return ""
        if progress.empty:
            return SAY_THOUGHTS if last.thought or last.text else SAY_SOMETHING
        if progress.cuts:
            return CONTINUE
        return warning(progress, self._limits.guard) if last.calls else ""


def _patience(run: Run, usual: RetryBackoff) -> RetryBackoff:
    """Where nobody waits for the answer, a service may ask for more time."""
    if run.turn.cause is not Cause.JOB and not run.turn.input.guidance.unattended:
        return usual
    return replace(usual, bearable=max(usual.bearable, BACKGROUND_SECONDS))


def _options(run: Run) -> CallOptions:
    return run.turn.input.options or NO_OPTIONS


def _broken_off(speech: ReplyStream, estimate: Callable[[int], Usage]) -> tuple[Record, ...]:
    """The end of a turn whose model could not be heard to its end: words that were heard stay."""
    fault = speech.fault
    cause = FaultCause(kind=fault.kind, detail=fault.message, quote=fault.quote, retry_at=fault.until)
    failed = Failed(reason=fault_sentence(fault), cause=cause)
    if fault.kind is FaultKind.FILTERED and not speech.heard:
        return (replace(failed, usage=estimate(0)),)
    if not speech.heard:
        return (failed,)
    return (speech.broken, replace(failed, usage=estimate(len(speech.heard))))


def _results(view: TurnView) -> str:
    """What a command that was run without the model has to show."""
    return "\n\n".join(state.finished.text for state in view.calls.values() if state.finished is not None)


def _note(run: Run, view: TurnView, last: ModelSaid, *, cut: bool) -> str:
    records = [entry.record for entry in turn_entries(run.transcript, run.turn.id)]
    notes = [record.note for record in records if isinstance(record, ToolFinished) and record.note]
    replies = [last, *(record for record in records if isinstance(record, ModelSaid))]
    if cut:
        notes.append(CUT)
    if any(reply.links_cut for reply in replies):
        notes.append(LINKS_CUT)
    if view.unknown:
        names = ", ".join(dict.fromkeys(view.unknown))
        notes.append(f"{INTERRUPTED}: {names}.")
    return "\n".join(notes)


def _tell_no_tools(run: Run, model: str) -> list[Notice]:
    """Once, while the session is kept in memory."""
    known = run.memory.get(_NO_TOOLS)
    run.memory[_NO_TOOLS] = model
    return [] if known == model else [Notice(text=f"{model} calls no tools, so it can only talk.")]
