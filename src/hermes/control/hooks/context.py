"""The context that hooks receive: plain values made from what is already stored, with long texts cut."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from hermes.control.hooks.dispatch import HookContext
from hermes.domain.chats.address import Source, SourceKind, read_platform
from hermes.domain.chats.message import Inbound
from hermes.domain.ids import AgentId
from hermes.domain.system.hooks import (
    AGENT_END,
    AGENT_START,
    AGENT_STEP,
    SESSION_COMPRESS,
    SESSION_END,
    SESSION_RESET,
    SESSION_START,
)
from hermes.domain.turns.event import (
    Cleared,
    Entry,
    Failed,
    Finished,
    ModelSaid,
    Stopped,
    Summarised,
    UserSaid,
)
from hermes.domain.turns.gateway_event import SessionBegan, SessionEnded
from hermes.domain.turns.session import Session, SessionKey
from hermes.domain.turns.turn import Turn
from hermes.stream.fold.answer import answer_text

LONGEST_TEXT = 500
# The name that hooks of the older product know.
_CHAT_TYPES = {SourceKind.PRIVATE: "dm"}
HookNotice = tuple[str, HookContext]


def about_source(source: Source | None, agent: AgentId) -> dict[str, object]:
    platform, account = ("", "") if source is None else (source.address.platform, source.address.account)
    user = None if source is None else source.user
    return {"platform": platform, "account": account, "user_id": user, "agent_id": agent}


def about_chat(source: Source | None, agent: AgentId) -> dict[str, object]:
    facts = about_source(source, agent)
    if source is None:
        return facts | {"chat_id": None, "thread_id": None, "chat_type": None}
    address = source.address
    kind = _CHAT_TYPES.get(source.kind, source.kind.value)
    return facts | {"chat_id": address.chat, "thread_id": address.thread, "chat_type": kind}


def about_inbound(inbound: Inbound) -> dict[str, object]:
    """For the choice of an agent, so there is none yet."""
    source = inbound.source
    facts = about_chat(source, AgentId(""))
    del facts["agent_id"]
    return facts | {
        "user_id_alt": source.user_alt,
        "user_name": source.user_name,
        "chat_name": source.chat_name,
        "guild_id": source.guild,
        "parent_chat_id": source.parent_chat,
        "roles": list(source.roles),
        "is_bot": source.is_bot,
        "text": inbound.text,
    }


def about_command(
    source: Source, session: Session, key: SessionKey, names: tuple[str, str, str]
) -> HookContext:
    """`names` are the command's own name, the one that was written, and what stands behind it."""
    known, written, args = names
    return about_chat(source, session.agent) | {
        "session_id": session.id,
        "session_key": str(key),
        "command": known,
        "raw_command": written,
        "args": args.strip(),
        "raw_args": args,
    }


# --- what is told ---


def about_session(event: SessionBegan | SessionEnded) -> Iterator[HookNotice]:
    platform, account = read_platform(event.account) if event.account else ("", "")
    facts: HookContext = {
        "platform": platform,
        "account": account,
        "user_id": event.user,
        "agent_id": event.agent,
        "session_id": event.session,
        "session_key": event.key,
    }
    if isinstance(event, SessionBegan):
        yield SESSION_START, facts
        return
    yield SESSION_END, facts
    if event.replaced:
        yield SESSION_RESET, facts


def about_turn(turn: Turn, entries: Sequence[Entry], first: int) -> Iterator[HookNotice]:
    """What the records of a turn mean, from number `first` of its session on."""
    for entry in entries:
        if entry.seq >= first and isinstance(entry.record, Summarised | Cleared):
            yield (
                SESSION_COMPRESS,
                about_source(turn.source, turn.agent)
                | {
                    "session_id": turn.session,
                    "turn_id": turn.id,
                    "upto": entry.record.upto,
                    "summarised": isinstance(entry.record, Summarised),
                },
            )
    said = next((entry.record for entry in entries if isinstance(entry.record, UserSaid)), None)
    if said is None:  # a turn that only changes the transcript, or passes words on: no agent is in it
        return
    start = about_chat(turn.source, turn.agent) | {
        "session_id": turn.session,
        "turn_id": turn.id,
        "message": said.text[:LONGEST_TEXT],
    }
    for place, entry in enumerate(entries):
        record = entry.record
        if entry.seq < first:
            continue
        match record:
            case UserSaid() if record is said:
                yield AGENT_START, start
            case ModelSaid(partial=False):
                replies = [other for other in entries[: place + 1] if isinstance(other.record, ModelSaid)]
                yield AGENT_STEP, _step(turn, record, len(replies))
            case Finished() | Failed() | Stopped():
                response = answer_text(entries)[:LONGEST_TEXT]
                yield AGENT_END, start | {"response": response, "state": _END_WORDS[type(record)]}
            case _:
                pass


def _step(turn: Turn, reply: ModelSaid, iteration: int) -> HookContext:
    return about_source(turn.source, turn.agent) | {
        "session_id": turn.session,
        "turn_id": turn.id,
        "iteration": iteration,
        "tool_names": [call.name for call in reply.calls],
        "tools": [{"name": call.name, "arguments": call.arguments[:LONGEST_TEXT]} for call in reply.calls],
    }


_END_WORDS: dict[type, str] = {Finished: "done", Failed: "failed", Stopped: "stopped"}
