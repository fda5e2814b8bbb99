"""What `run_conversation` returns: a finished turn as a dictionary."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from hermes.app.app import App
from hermes.domain.event import Entry, Failed, ModelSaid, Record, Stopped, Usage, usage_of
from hermes.domain.ids import SessionId, TurnId
from hermes.domain.transcript import as_messages, visible
from hermes.stream.fold.answer import answer_text


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnResult:
    """A finished turn as the dictionary that callers get. Tokens are those of the whole session."""

    app: App
    session: SessionId
    turn: TurnId
    entries: Sequence[Entry]

    def result(self, stop_words: str | None) -> dict[str, Any]:
        own = [entry for entry in self.entries if entry.turn == self.turn]
        replies = [entry.record for entry in own if isinstance(entry.record, ModelSaid)]
        end = own[-1].record
        failed, stopped = isinstance(end, Failed), isinstance(end, Stopped)
        text = replies[-1].text if stopped and replies else answer_text(own)
        result: dict[str, Any] = {
            "final_response": None if failed else text,
            "last_reasoning": next((said.thought for said in reversed(replies) if said.thought), None),
            "messages": as_messages(visible(self.entries)),
            "api_calls": len(replies),
            "completed": not failed and not stopped,
            "turn_exit_reason": self._reason(end, len(replies)),
            "failed": failed,
            "partial": any(said.partial for said in replies),
            "interrupted": stopped,
            "error": end.reason if isinstance(end, Failed) else None,
            "session_id": self.session,
            "model": next((said.model for said in reversed(replies) if said.model), self.app.choice.model),
            "provider": self.app.choice.provider,
            "base_url": self.app.choice.base_url,
        }
        if stop_words is not None:
            result["interrupt_message"] = stop_words
        return result | self._tokens(replies)

    def _reason(self, end: Record, replies: int) -> str:
        most = self.app.loaded.settings.agent.max_turns
        if isinstance(end, Stopped):
            return "interrupted_by_user"
        if isinstance(end, Failed):
            return "empty_response_exhausted" if "empty answer" in end.reason else "error"
        return f"max_iterations_reached({replies}/{most})" if replies > most else "text_response(stop)"

    def _tokens(self, replies: Sequence[ModelSaid]) -> dict[str, Any]:
        used = usage_of(entry.record for entry in self.entries)
        last = replies[-1].usage if replies else Usage()
        return {
            "input_tokens": used.prompt,
            "output_tokens": used.completion,
            "prompt_tokens": used.prompt,
            "completion_tokens": used.completion,
            "total_tokens": used.total,
            "cache_read_tokens": used.cached,
            "cache_write_tokens": 0,
            "reasoning_tokens": used.reasoning,
            "last_prompt_tokens": last.prompt,
            "estimated_cost_usd": None,
            "cost_status": "unknown",
        }
