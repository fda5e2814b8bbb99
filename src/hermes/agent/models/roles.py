"""A model in a role: what answers there, what is known of it, and one question put to it.

Nobody watches such an answer, so a call that breaks is made again from its beginning."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from datetime import UTC, datetime

from msgspec import Struct

from hermes.domain.chats.message import Attachment
from hermes.domain.errors import FaultKind, HermesError, ModelFault, as_model_fault
from hermes.domain.ids import TurnId
from hermes.domain.models.call_options import NO_OPTIONS, CallOptions
from hermes.domain.models.model_facts import ModelFacts
from hermes.domain.models.usage import Usage, priced
from hermes.domain.ports.agent import ModelEnd, ModelRequest, Provider
from hermes.domain.turns.event import Ending, Entry, TextDelta, UserSaid
from hermes.domain.turns.thoughts import without_thoughts
from hermes.domain.word import replace

_MOST_TRIES = 3
_LONGEST_PAUSE = 30.0
_TURN = TurnId("")


class ChosenModel(Struct, frozen=True, kw_only=True):
    """What answers in a role."""

    provider: Provider
    model: str
    facts: ModelFacts
    effort: str = ""
    """How hard it thinks."""
    timeout: float | None = None
    """Seconds that one answer may take."""

    async def ask(
        self,
        text: str,
        attachments: Sequence[Attachment] = (),
        *,
        system: str = "",
        whole: bool = False,
        sleep: Callable[[float], Awaitable[None]],
    ) -> tuple[str, Usage]:
        """Its answer, and what that took. `ModelFault` if there is none; if it must be `whole`, also for one
        that reached a limit of its length, and for a refusal."""
        said = UserSaid(text=text, attachments=tuple(attachments))
        entry = Entry(seq=1, turn=_TURN, at=datetime.now(UTC), record=said)
        options = CallOptions(effort=self.effort) if self.effort else NO_OPTIONS
        request = ModelRequest(model=self.model, system=system, entries=[entry], tools=(), options=options)
        for tries in range(1, _MOST_TRIES + 1):
            try:
                async with asyncio.timeout(self.timeout):
                    answer, end = await self._answer(replace(request, retries_left=_MOST_TRIES - tries))
                usage = end.usage
                if whole and (end.refused or end.ending is Ending.LENGTH):
                    how = "refused to answer" if end.refused else "did not come to the end of its answer"
                    raise ModelFault(f"{self.model} {how}.", kind=FaultKind.BAD_REQUEST)
                if end.via[:1] not in ("", "#"):  # a fallback answered, whose prices are others
                    return answer, replace(usage, model=end.model or self.model)
                return answer, replace(priced(usage, self.facts), model=end.model or self.model)
            except (HermesError, TimeoutError) as error:
                fault = as_model_fault(error) if isinstance(error, HermesError) else self._late()
                if fault.elsewhere and tries < _MOST_TRIES:
                    continue
                if not fault.is_passing or tries == _MOST_TRIES:
                    raise fault from error
                pause = 2.0**tries if fault.after is None else fault.after
                if pause > _LONGEST_PAUSE:
                    raise fault from error
                await sleep(pause)
        raise AssertionError("the last try returns or raises")

    def _late(self) -> ModelFault:
        words = f"{self.model} gave no answer in {self.timeout:g} seconds"
        return ModelFault(words, kind=FaultKind.BROKEN)

    async def _answer(self, request: ModelRequest) -> tuple[str, ModelEnd]:
        words: list[str] = []
        async for piece in self.provider.call(request):
            if isinstance(piece, TextDelta):
                words.append(piece.text)
            elif isinstance(piece, ModelEnd):
                return without_thoughts("".join(words)).strip(), piece
        raise ModelFault("the model's answer broke off", kind=FaultKind.BROKEN)
