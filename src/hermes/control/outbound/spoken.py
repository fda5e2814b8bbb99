"""Answers that are spoken: rows that ask for speech become rows with a voice message.

Its life: the commit that ends a turn leaves a row `unspoken`, which no lane sends. A worker has it spoken,
in a program or at a service, and then settles it and queues the voice message in one commit, so a crash
has it spoken again and never sent twice. If it cannot be spoken the person hears why; the text has gone
out long before."""

from __future__ import annotations

import logging
from collections.abc import Callable

from hermes.control.core import GatewayCore, Runtime
from hermes.control.outbound.answers import SPEECH, fitted, why_not
from hermes.control.outbound.notices import notify
from hermes.control.outbound.row_sender import rule_message
from hermes.control.workers import RungWorker, Workers
from hermes.domain.chats.address import Address
from hermes.domain.chats.capabilities import Capabilities
from hermes.domain.chats.message import Attachment, Body, MediaKind
from hermes.domain.chats.rows import OutboxRow, OutState
from hermes.domain.errors import HermesError, UserError
from hermes.domain.ids import AgentId, TurnId
from hermes.domain.models.model_facts import MediaRole
from hermes.domain.models.usage import AuxiliaryCall, Usage
from hermes.domain.ports.store import Tx
from hermes.domain.system.hooks import GATE_SEND
from hermes.domain.text import one_line
from hermes.domain.word import replace

log = logging.getLogger("hermes.speech")
LONGEST = 4000
_AT_ONCE = 2


class SpokenAnswers:
    """`ring_lane` tells a chat's lane that there is something to send."""

    def __init__(
        self,
        core: GatewayCore,
        capabilities: Callable[[Address], Capabilities],
        ring_lane: Callable[[Address], None],
    ) -> None:
        self._core = core
        self._capabilities = capabilities
        self._ring_lane = ring_lane
        self.workers: Workers[str] = Workers(
            start=lambda key: RungWorker(lambda: self._speak(key)),
            page=self._unspoken,
            places=_AT_ONCE,
            name="speech",
            loops=core.loops,
        )

    async def _unspoken(self, after: int, limit: int) -> list[tuple[int, str]]:
        rows = await self._core.store.read(lambda tx: tx.outbox.begun(SPEECH))
        wanted = [row for row in rows if row.n > after and row.state is OutState.UNSPOKEN]
        return [(row.n, row.key) for row in wanted[:limit]]

    async def _speak(self, key: str) -> None:
        row = await self._core.store.read(lambda tx: tx.outbox.get(key))
        if row is None or row.state is not OutState.UNSPOKEN:
            return
        (asked,) = row.body.attachments
        try:
            runtime = await self._core.agents.get(AgentId(asked.ref))
        except HermesError as error:
            log.warning("speech.no_agent key=%s why=%s", key, error)
            return
        try:
            file, usage = await self._spoken(row, asked.text, runtime)
        except HermesError as error:
            why = one_line(str(error), 200).rstrip(".")
            log.warning("speech.failed key=%s why=%s", key, why)
            await runtime.store.write(lambda tx: self._give_up(tx, row, why))
        else:
            await runtime.store.write(lambda tx: self._queue(tx, row, file, usage))
        self._ring_lane(row.to)

    async def _spoken(
        self, row: OutboxRow, text: str, runtime: Runtime
    ) -> tuple[Attachment | None, Usage | None]:
        """The voice message; none if a hook lets nothing through."""
        body = Body(text=text)
        if GATE_SEND in self._core.hooks.followed:
            body = await rule_message(self._core, replace(row, body=body), self._capabilities(row.to))
        words = speakable(self._core.conceal.loaded(body.text))
        if not words or runtime.speak is None:
            return None, None
        able = self._capabilities(row.to)
        limit = able.media.get(MediaKind.VOICE)
        made, usage = await runtime.speak(words, () if limit is None else limit.mimes)
        file = fitted(made, able)
        if file is None:
            raise UserError(f"{why_not(made, able)} ({made.mime})")
        return file, usage

    def _queue(self, tx: Tx, row: OutboxRow, file: Attachment | None, usage: Usage | None) -> None:
        if not self._settle(tx, row, "") or file is None:
            return
        spoken = f"{row.key}:spoken"
        tx.outbox.add(replace(row, key=spoken, body=Body(attachments=(file,)), state=OutState.DUE))
        turn = tx.turns.get(TurnId(row.key.removeprefix(SPEECH)))
        if usage is not None and turn is not None:
            now = self._core.clock.now()
            tx.usage.note(
                AuxiliaryCall(
                    session=turn.session,
                    role=MediaRole.TTS,
                    model=usage.model,
                    usage=usage,
                    at=now,
                    turn=turn.id,
                )
            )

    def _give_up(self, tx: Tx, row: OutboxRow, why: str) -> None:
        if self._settle(tx, row, why):
            notify(tx, f"{row.key}:failed", row.to, f"🔇 I could not speak: {why}.", self._core.clock.now())

    def _settle(self, tx: Tx, row: OutboxRow, why: str) -> bool:
        current = tx.outbox.get(row.key)
        if current is None or current.state is not OutState.UNSPOKEN:
            return False
        tx.outbox.save(replace(current, state=OutState.GONE, error=why))
        return True


def speakable(text: str) -> str:
    """The words of an answer as one says them: without marks, code and addresses, and not without end."""
    from hermes.stream.text.flavours.speech import SpeechPrinter
    from hermes.stream.text.markdown import parse

    words = SpeechPrinter().document(parse(text).blocks).strip()
    if len(words) <= LONGEST:
        return words
    cut = words[:LONGEST]
    end = max(cut.rfind(end) for end in ".!?\n。！？।؟") + 1
    if end < LONGEST // 2:  # what was said until there would be too little
        end = cut.rfind(" ", LONGEST // 2) + 1
    return cut[:end].rstrip() or cut
