"""What a model is told and asked for beside the transcript, at each call and stored nowhere: the ephemeral
prompt, the personality of the session, messages before the conversation, and how hard it thinks."""

from __future__ import annotations

import json
from pathlib import Path

from hermes.agent.context.prompt import join_blocks
from hermes.agent.run.loop import CallManner
from hermes.domain.errors import UserError
from hermes.domain.models.manner import NO_MANNER
from hermes.domain.models.personalities import personality_words
from hermes.domain.settings.live import LiveSettings
from hermes.domain.text import one_line
from hermes.domain.turns.session import Session
from hermes.domain.turns.turn import EarlierMessage, Speaker

_SPEAKERS = {"user": Speaker.USER, "assistant": Speaker.AGENT, "system": Speaker.SYSTEM}
_LARGEST_PREFILL = 1 << 20
_WRITE = "Write a JSON list of {role, content}, with the roles user, assistant and system."


class AgentManner:
    """That of one agent. Settings count as they are now; the file is read when the agent is built."""

    def __init__(self, live: LiveSettings, home: Path, prefill: str) -> None:
        self._live = live
        self._prefill = read_prefill(home / Path(prefill).expanduser()) if prefill else ()

    def __call__(self, session: Session, model: str) -> CallManner:
        settings, own = self._live.now, session.manner or NO_MANNER
        chosen = settings.agent.reasoning_overrides.get(model)
        effort = own.effort or (chosen.effort if chosen else "") or settings.agent.reasoning_effort
        words = personality_words(own.personality or settings.display.personality, settings.personalities)
        return CallManner(
            system=join_blocks(settings.agent.ephemeral_system_prompt.strip(), words),
            history=self._prefill,
            effort=effort,
        )


def read_prefill(path: Path) -> tuple[EarlierMessage, ...]:
    """Blocks. A `UserError` says what is wrong with the file."""
    try:
        if path.stat().st_size > _LARGEST_PREFILL:
            raise UserError(f"{path} is larger than 1 MB.", hint="Shorten it (prefill_messages_file).")
        listed = json.loads(path.read_bytes())
    except OSError as error:
        hint = "Correct prefill_messages_file, or remove it."
        raise UserError(f"{path} cannot be read: {error.strerror}.", hint=hint) from None
    except ValueError as error:
        raise UserError(f"{path} is no JSON: {one_line(str(error), 100)}.", hint=_WRITE) from None
    messages = [_read_message(item) for item in listed] if isinstance(listed, list) else [None]
    read = tuple(message for message in messages if message is not None)
    if len(read) < len(messages):
        raise UserError(f"{path} is no list of messages.", hint=_WRITE)
    return read


def _read_message(item: object) -> EarlierMessage | None:
    if not isinstance(item, dict) or not isinstance(item.get("content"), str):
        return None
    by = _SPEAKERS.get(str(item.get("role")))
    return None if by is None else EarlierMessage(by=by, text=item["content"])
