"""The context that hooks receive: plain values made from what is already stored, with long texts cut."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from hermes.control.hooks.dispatch import HookContext, Hooks
from hermes.domain.address import Source, SourceKind
from hermes.domain.event import Entry, Failed, Finished, ModelSaid, Stopped, UserSaid
from hermes.domain.hooks import AGENT_END, AGENT_START, AGENT_STEP, SESSION_END, SESSION_RESET, SESSION_START
from hermes.domain.ids import AgentId
from hermes.domain.message import Inbound
from hermes.domain.session import Session, SessionKey
from hermes.domain.transcript import turn_entries
from hermes.domain.turn import Turn
from hermes.stream.fold.answer import answer_text

LONGEST_TEXT = 500
TURN_EVENTS = (AGENT_START, AGENT_STEP, AGENT_END)
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


# --- sessions ---


def session_began(source: Source | None, session: Session, key: SessionKey) -> HookNotice:
    facts = about_source(source, session.agent)
    return SESSION_START, facts | {"session_id": session.id, "session_key": str(key)}


def session_replaced(
    source: Source, before: Session, after: Session, key: SessionKey
) -> tuple[HookNotice, ...]:
    """Somebody asked for a new session: the old one ends, the chat is reset, the new one begins."""
    facts = about_source(source, before.agent) | {"session_key": str(key)}
    ended = facts | {"session_id": before.id}
    return (SESSION_END, ended), (SESSION_RESET, ended), session_began(source, after, key)


def session_lapsed(source: Source, session: Session, key: SessionKey) -> tuple[HookNotice, ...]:
    """A session is over by itself. Nothing if hooks heard of that before: the chore that looks for such
    sessions may have ended it already."""
    if session.ended is not None:
        return ()
    facts = about_source(source, session.agent) | {"session_id": session.id, "session_key": str(key)}
    return ((SESSION_END, facts),)


def session_renewed(
    source: Source, before: Session, after: Session, key: SessionKey
) -> tuple[HookNotice, ...]:
    """A session was over by itself, and a message begins the next one."""
    return (*session_lapsed(source, before, key), session_began(source, after, key))


# --- turns ---


def tell_turn(hooks: Hooks, turn: Turn, transcript: Sequence[Entry], new: Sequence[Entry]) -> None:
    """Records of a turn were stored (`new` is the end of `transcript`): tell what they mean."""
    for event, context in _turn_events(turn, turn_entries(transcript, turn.id), len(new)):
        if hooks.follows(event):
            hooks.tell(event, context)


def _turn_events(turn: Turn, entries: Sequence[Entry], new: int) -> Iterator[HookNotice]:
    before = len(entries) - new
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
        if place < before:
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
