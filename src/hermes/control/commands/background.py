"""Commands about work beside the conversation: begin some, see what runs.

A background task is a session of its own with one turn, both rows: it goes on after a crash like any other,
and its answer, and what it asks, goes to the chat it was begun in."""

from __future__ import annotations

from hermes.control.commands.information import DOING
from hermes.control.commands.registry import CommandCall, CommandReply, command
from hermes.control.commands.session import name_of, new_turn, owns, spoken
from hermes.control.turn.questions import yolo_counts
from hermes.domain.ids import SessionId, new_session_id
from hermes.domain.text import one_line
from hermes.domain.turns.session import BACKGROUND, Session, owner_of
from hermes.domain.turns.turn import BusyMode, Cause
from hermes.domain.word import replace

_LOOKED_AT = 200
_LISTED = 20


@command("background", "work on this beside the conversation", usage="<text>", aliases=("bg", "btw"))
def background(call: CommandCall) -> CommandReply:
    words = spoken(call)
    session = Session(
        id=SessionId(f"{BACKGROUND}{new_session_id(call.now)}"),
        agent=call.session.agent,
        created_at=call.now,
        updated_at=call.now,
        # Begun by one person, it is theirs, also where they share a session with others.
        owner=owner_of(call.source) or call.session.owner,
        place=call.session.place,
        parent=call.session.id,
        model=call.session.model,
        workspace=call.session.workspace,
        yolo=call.session.yolo and yolo_counts(call.tx, call.session, call.source),
    )
    call.tx.sessions.add(session)
    turn = new_turn(replace(call, session=session), words, BusyMode.QUEUE, Cause.COMMAND)
    return CommandReply(
        text=f"Working on it as {session.id}. It answers here.",
        wakes=(session.id,),
        beside=None if call.reply_place is not None else turn,
    )


@command("agents", "what runs for you, here and in the background", aliases=("tasks",))
def agents(call: CommandCall) -> CommandReply:
    found = {session.id: session for session in (call.session, *call.tx.sessions.find("", _LOOKED_AT))}
    lines: list[str] = []
    for session in found.values():
        here = " ← here" if session.id == call.session.id else ""
        for turn in call.tx.turns.open_of(session.id) if owns(call, session) else ():
            seconds = int((call.now - turn.created_at).total_seconds())
            doing = f"{DOING[turn.state]}, {seconds} s old: {one_line(turn.input.text, 60)}"
            lines.append(f"- {name_of(session)}{here}: {doing}")
    if not lines:
        return CommandReply(text="Nothing is running.")
    more = f"\n… and {len(lines) - _LISTED} more." if len(lines) > _LISTED else ""
    return CommandReply(text="\n".join(lines[:_LISTED]) + more)
