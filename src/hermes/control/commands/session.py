"""Commands about the conversation: begin anew, name it, look at it, go back in it, switch to another."""

from __future__ import annotations

from dataclasses import replace

from hermes.control.commands.registry import Call, Reply, command
from hermes.domain.errors import UserError
from hermes.domain.ids import new_turn_id
from hermes.domain.session import Session, begin_session, owner_of
from hermes.domain.text import one_line
from hermes.domain.turn import Action, BusyMode, Cause, Turn, TurnInput, TurnState

_LISTED = 10
_TITLE = 100


def ask_to_stop(call: Call, reason: str) -> int:
    """Mark every unfinished turn of the session to be stopped; its actor settles them."""
    for turn in call.turns:
        state = TurnState.RUNNING if turn.state is TurnState.WAITING else turn.state
        call.tx.turns.save(replace(turn, stop=reason, state=state), attempt=turn.attempt)
    return len(call.turns)


def new_turn(call: Call, given: TurnInput, busy: BusyMode, cause: Cause = Cause.MESSAGE) -> Turn:
    turn = Turn(
        id=new_turn_id(),
        session=call.session.id,
        agent=call.session.agent,
        cause=cause,
        input=given,
        created_at=call.now,
        source=call.source,
        reply=call.reply_place,
        busy=busy,
    )
    call.tx.turns.add(turn)
    return turn


@command("new", "begin a new session in this chat", usage="[title]", aliases=("reset",))
def new(call: Call) -> Reply:
    title = _title(call.args) if call.args else None
    if title is not None and any(known.title == title for known in call.tx.sessions.find(title)):
        raise UserError(f"Another session is called “{title}”.", hint="Choose another title.")
    ask_to_stop(call, "a new session was begun")
    session = begin_session(call.key, call.source, call.now)
    call.tx.sessions.add(session)
    if title is not None:
        call.tx.sessions.save(replace(session, title=title))
    call.tx.bindings.bind(call.key, session.id, call.source, call.now)
    text = f"New session{f' “{title}”' if title else ''}. /resume {call.session.id} goes back."
    return Reply(text=text, begun=session)


@command("stop", "stop what is running here")
def stop(call: Call) -> Reply:
    count = ask_to_stop(call, "stopped by the user")
    if not count:
        return Reply(text="Nothing is running.")
    waiting = f" and {count - 1} waiting" if count > 1 else ""
    return Reply(text=f"Stopped{waiting}.")


@command("queue", "say this after what is running now", usage="<text>", aliases=("q",))
def queue(call: Call) -> Reply:
    turn = new_turn(call, TurnInput(text=_text(call), author=call.source.user_name), BusyMode.QUEUE)
    ahead = len(call.turns)
    return Reply(text=f"Queued behind {ahead}." if ahead else "", turn=turn)


@command("steer", "say this to the running turn", usage="<text>")
def steer(call: Call) -> Reply:
    turn = new_turn(call, TurnInput(text=_text(call), author=call.source.user_name), BusyMode.STEER)
    return Reply(text="It will hear this after its next step." if call.turns else "", turn=turn)


@command("retry", "answer the last message again")
def retry(call: Call) -> Reply:
    _idle(call)
    return Reply(text="", turn=new_turn(call, TurnInput(action=Action.RETRY), BusyMode.QUEUE, Cause.COMMAND))


@command("undo", "forget the last turns", usage="[number]")
def undo(call: Call) -> Reply:
    _idle(call)
    count = call.args or "1"
    if not (count.isascii() and count.isdigit() and 1 <= int(count) <= 1000):
        raise UserError(f"“{one_line(count, 20)}” is not a number of turns.", hint="Write /undo or /undo 3.")
    given = TurnInput(action=Action.UNDO, count=int(count))
    return Reply(text="", turn=new_turn(call, given, BusyMode.QUEUE, Cause.COMMAND))


@command("title", "show or set the session's title", usage="[title]")
def title(call: Call) -> Reply:
    if not call.args:
        return Reply(text=f"Title: {call.session.title or '(none)'}")
    wanted = _title(call.args)
    call.tx.sessions.save(replace(call.session, title=wanted))
    return Reply(text=f"This session is now called “{wanted}”.")


@command("sessions", "list your sessions")
def sessions(call: Call) -> Reply:
    mine = _own_sessions(call)
    if not mine:
        return Reply(text="There are no sessions yet.")
    lines = [
        f"{number}. {_name(session)}{' ← here' if session.id == call.session.id else ''}"
        for number, session in enumerate(mine, 1)
    ]
    return Reply(text="\n".join([*lines, "", "/resume <number, id or title> switches."]))


@command("resume", "go back to another session", usage="[number, id or title]")
def resume(call: Call) -> Reply:
    if not call.args:
        return sessions(call)
    mine = _own_sessions(call)
    wanted = _pick(call, mine)
    if wanted.id == call.session.id:
        return Reply(text="You are in that session already.")
    ask_to_stop(call, "the chat switched to another session")
    call.tx.bindings.bind(call.key, wanted.id, call.source, call.now)
    return Reply(text=f"Back in {_name(wanted)}.")


def _pick(call: Call, mine: list[Session]) -> Session:
    word = call.args
    if word.isascii() and word.isdigit() and 1 <= int(word) <= len(mine):
        return mine[int(word) - 1]
    found = [session for session in call.tx.sessions.find(word) if _owns(call, session)]
    if len(found) == 1:
        return found[0]
    if found:
        raise UserError(f"“{one_line(word, 40)}” fits {len(found)} sessions.", hint="Give the whole id.")
    raise UserError(f"There is no session “{one_line(word, 40)}” of yours.", hint="/sessions lists them.")


def _own_sessions(call: Call) -> list[Session]:
    return [session for session in call.tx.sessions.find("", 50) if _owns(call, session)][:_LISTED]


def _owns(call: Call, session: Session) -> bool:
    """A session is theirs who began it, and in a chat that shares its sessions, the chat's."""
    if session.id == call.session.id:
        return True
    owner = owner_of(call.source)
    if session.owner is not None:
        return session.owner == owner
    return session.place is not None and session.place == str(call.source.address)


def _name(session: Session) -> str:
    return f"“{session.title}” ({session.id})" if session.title else session.id


def _text(call: Call) -> str:
    if not call.args:
        raise UserError(f"/{call.name} needs a text.", hint=f"Write /{call.name} <what you want to say>.")
    return call.args


def _idle(call: Call) -> None:
    if call.turns:
        raise UserError(f"/{call.name} does not work while a turn runs.", hint="Wait, or /stop first.")


def _title(text: str) -> str:
    cleaned = one_line(text, _TITLE)
    if not cleaned:
        raise UserError("A title needs at least one visible character.")
    return cleaned
