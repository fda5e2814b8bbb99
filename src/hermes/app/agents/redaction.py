"""Tools and models without secrets: in what they say, and in what a model is told.

Loaded values go nowhere: a call with one in its arguments is not run. What only looks like a secret stays in
the words of people and in arguments: somebody may want something done with it."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterator, Mapping
from typing import TypeVar, cast

from msgspec import Struct, field

from hermes.agent.run.toolbox import WITHHELD
from hermes.agent.tools.registry import LONGEST_RESULT, cap
from hermes.domain.chats.message import Attachment
from hermes.domain.errors import HermesError, as_model_fault
from hermes.domain.ports.agent import ModelEnd, ModelPiece, ModelRequest, Provider
from hermes.domain.safety.concealing import Conceal, concealed, concealed_data, withheld
from hermes.domain.settings.declaring import STAND_IN
from hermes.domain.system.border import ForeignError, contain, describe
from hermes.domain.tools.tool import Clarification, Tool, ToolContext, ToolResult
from hermes.domain.turns.event import Entry, Notice, TextDelta, ThoughtDelta
from hermes.domain.word import replace
from hermes.state.settings.secrets import Secrets

T = TypeVar("T")
_MEMORY = "concealed"
HIDDEN = f"[{STAND_IN} stands for a secret, or what looks like one. It is hidden: do not write it back.]"

# --- tools -------------------------------------------------------------------------------------------


def redacting(tool: Tool, secrets: Secrets) -> Tool:
    """The tool, with no secret in what it tells: neither the model, nor the transcript, nor anybody who reads
    along gets to see one, and no more than a model can read. What it breaks of is told likewise."""

    def quieten(text: str) -> str:
        # Cut roughly before, with room for a secret that lies across the cut: texts may be huge.
        missing = max(len(text) - 4 * LONGEST_RESULT, 0)
        if missing:
            text = text[: 2 * LONGEST_RESULT] + text[-2 * LONGEST_RESULT :]
        return cap(secrets.redact(text), missing=missing)

    async def run(context: ToolContext, arguments: Mapping[str, object]) -> ToolResult:
        if concealed_data(arguments, secrets.conceal) != concealed_data(arguments, str):  # a script's call
            return ToolResult(text=WITHHELD, failed=True)
        stream = secrets.stream()

        def show(text: str) -> None:
            if text:
                context.output(text)

        quiet = replace(context, output=lambda text: show(stream.take(text)))
        try:
            result = await contain(tool.run(quiet, arguments))
        except HermesError as error:
            return ToolResult(text=quieten(str(error)), failed=True)
        except TimeoutError:
            raise
        except Exception as error:
            raise ForeignError(quieten(describe(error))) from error
        finally:
            show(stream.close())
        return _quiet_result(result, quieten) if isinstance(result, ToolResult) else result

    return replace(tool, run=run)


def _quiet_result(result: ToolResult, quieten: Conceal) -> ToolResult:
    """What is no text or no file is left to whoever checks results."""

    def quiet(text: T) -> T:
        return cast(T, quieten(text)) if isinstance(text, str) else text

    files: object = result.attachments
    if isinstance(files, tuple) and all(isinstance(file, Attachment) for file in files):
        quiet_files = (
            replace(
                file, name=quiet(file.name), text=quiet(file.text), note=quiet(file.note),
                problem=quiet(file.problem),
            )
            for file in result.attachments
        )  # fmt: skip
        result = replace(result, attachments=tuple(quiet_files))
    if isinstance(result.wants, Clarification):
        result = replace(result, wants=replace(result.wants, text=quiet(result.wants.text)))
    data = None if result.data is None else concealed_data(result.data, quieten)
    return replace(result, text=_noted(result.text, quiet(result.text)), data=data)


def _noted(before: str, after: str) -> str:
    """A result as it is told, with a word at its end if something was taken out of it."""
    if not isinstance(before, str) or after.count(STAND_IN) <= before.count(STAND_IN) or HIDDEN in after:
        return after
    return f"{after}\n{HIDDEN}"


# --- models ------------------------------------------------------------------------------------------


class _ConcealedPrompt(Struct, kw_only=True):
    """What of a warm session was looked at before: the same texts are not read for each call."""

    values: int
    seen: set[int] = field(default_factory=set)
    changed: dict[int, Entry] = field(default_factory=dict)


class RedactingProvider:
    """A provider that is told no loaded value and says no secret. What has begun like one is held back until
    more of it has come."""

    def __init__(self, provider: Provider, secrets: Secrets) -> None:
        self._provider = provider
        self._secrets = secrets

    async def call(self, request: ModelRequest) -> AsyncIterator[ModelPiece]:
        text, thought = self._secrets.stream(), self._secrets.stream()

        def rest(*, cut: bool) -> Iterator[ModelPiece]:
            if words := thought.close(cut=cut):
                yield ThoughtDelta(text=words)
            if words := text.close(cut=cut):
                yield TextDelta(text=words)

        pieces = self._provider.call(self._conceal(request))
        try:
            async for piece in pieces:
                if isinstance(piece, TextDelta):
                    if words := thought.close():
                        yield ThoughtDelta(text=words)
                    if words := text.take(piece.text):
                        yield piece if words == piece.text else TextDelta(text=words)
                elif isinstance(piece, ThoughtDelta):
                    if words := thought.take(piece.text):
                        yield piece if words == piece.text else ThoughtDelta(text=words)
                else:
                    for held in rest(cut=False) if isinstance(piece, ModelEnd) else ():
                        yield held
                    yield self._quiet(piece)
        except asyncio.CancelledError:
            # Whoever reads along to the end gets what was held back, and the cancellation then.
            for held in rest(cut=True):
                yield held
            raise
        except HermesError as error:
            for held in rest(cut=True):
                yield held
            raise self._quiet_error(error) from error
        finally:
            if close := getattr(pieces, "aclose", None):
                with contextlib.suppress(RuntimeError):  # it is running: whoever cancelled it ends it
                    await close()

    def _quiet(self, piece: ModelPiece) -> ModelPiece:
        if isinstance(piece, Notice):
            return concealed(piece, self._secrets.redact)
        if not isinstance(piece, ModelEnd):
            return piece
        calls = tuple(withheld(call, self._secrets.conceal) for call in piece.calls)
        return replace(concealed(piece, self._secrets.conceal), calls=calls)

    def _quiet_error(self, error: HermesError) -> HermesError:
        redact = self._secrets.redact
        if redact(str(error)) == str(error) and not getattr(error, "quote", ""):
            return error
        fault = as_model_fault(error)
        fault.message, fault.hint, fault.quote = map(redact, (fault.message, fault.hint, fault.quote))
        return fault

    def _conceal(self, request: ModelRequest) -> ModelRequest:
        conceal, count = self._secrets.conceal, self._secrets.count
        if not count:
            return request
        kept = request.memory.get(_MEMORY)
        if not isinstance(kept, _ConcealedPrompt) or kept.values != count:
            # What others keep of the same texts may hold a value that was learnt since.
            request.memory.clear()
            kept = request.memory[_MEMORY] = _ConcealedPrompt(values=count)
        for entry in request.entries:
            if entry.seq not in kept.seen:
                kept.seen.add(entry.seq)
                record = concealed(entry.record, conceal)
                if record is not entry.record:
                    kept.changed[entry.seq] = replace(entry, record=record)
        entries = request.entries
        if kept.changed:
            entries = [kept.changed.get(entry.seq, entry) for entry in entries]
        return replace(
            request,
            system=conceal(request.system),
            entries=entries,
            note=conceal(request.note),
            notes={row: conceal(text) for row, text in request.notes.items()},
            history=tuple(concealed(earlier, conceal) for earlier in request.history),
        )
