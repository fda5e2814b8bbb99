"""Commands about the conversation: begin anew, name it, look at it, go back in it, switch to another, and set
what messages do meanwhile, and approvals."""

from __future__ import annotations

from msgspec import Struct

from hermes.control.commands.registry import (
    CommandCall,
    CommandReply,
    CommandRequest,
    command,
    read_number,
)
from hermes.control.sessions.administration import branch_session, search_sessions
from hermes.control.sessions.submission import LONGEST_TITLE
from hermes.control.turn.claim import new_session_words, next_session
from hermes.control.turn.questions import questions_here
from hermes.control.turn.stopping import ask_to_stop, stop_session
from hermes.domain.errors import UserError
from hermes.domain.ids import SessionId
from hermes.domain.text import one_line, without_invisible
from hermes.domain.turns.busy import choose_busy_mode
from hermes.domain.turns.event import UserSaid
from hermes.domain.turns.session import (
    BACKGROUND,
    SHARED_KINDS,
    Session,
    SessionFilter,
    make_turn,
    owner_of,
    speaks_for_another,
)
from hermes.domain.turns.transcript import visible
from hermes.domain.turns.turn import DROPPED, BusyMode, Cause, Turn, TurnAction, TurnInput, TurnState
from hermes.domain.word import replace

_COUNTED = 1000
_LISTED = 10
_LOOKED_AT = 200
_SHOWN = SessionFilter(children=False)
_WORDS = 50
_TOLD = 5


def stop_own(call: CommandCall, reason: str) -> list[Turn]:
    """Mark every unfinished turn of the session that the person may stop (their own, and an admin
    everybody's); its actor settles them. What waited is dropped: the agent never hears it."""
    turns = [turn for turn in call.turns if call.is_admin or not _is_of_another(call, turn)]
    dropped = [turn for turn in turns if turn in call.turns[1:] and turn.state is TurnState.ACCEPTED]
    ask_to_stop(call.tx, dropped, DROPPED)
    ask_to_stop(call.tx, [turn for turn in turns if turn not in dropped], reason)
    return turns


def new_turn(call: CommandCall, given: TurnInput, busy: BusyMode, cause: Cause = Cause.MESSAGE) -> Turn:
    turn = make_turn(
        call.session, cause, given, call.now, source=call.source, reply=call.reply_place, busy=busy
    )
    call.tx.turns.add(turn)
    return turn


@command("new", "begin a new session in this chat", usage="[title]", aliases=("reset",))
def new(call: CommandCall) -> CommandReply:
    check_nobody_waits(call)
    title = _title(call.args) if call.args else None
    if title is not None and any(known.title == title for known in call.tx.sessions.find(title)):
        raise UserError(f"Another session is called “{title}”.", hint="Choose another title.")
    if _has_to_confirm(call):
        given = TurnInput(action=TurnAction.NEW, text=title or "", confirm=True)
        return CommandReply(text="", turn=new_turn(call, given, BusyMode.QUEUE, Cause.COMMAND))
    stop_own(call, "a new session was begun")
    session = next_session(call.tx, call.key, call.source, call.now)
    if title is not None:
        call.tx.sessions.save(replace(session, title=title))
    return CommandReply(text=new_session_words(title, call.session.id), begun=session)


def _has_to_confirm(call: CommandCall) -> bool:
    """What runs is stopped at once, whoever wants to begin anew; else there is time to ask."""
    wanted = call.settings.approvals.destructive_slash_confirm and not call.turns
    return wanted and bool(call.tx.journal.read(call.session.id, most=1))


@command("stop", "stop what is running here, or a background task", usage="[task]")
def stop(call: CommandCall) -> CommandReply:
    if call.args:
        return _stop_task(call)
    stopped = stop_own(call, "stopped by the user")
    if call.turns and not stopped:
        raise UserError("What runs here is somebody else's.", hint="They, or an admin, can stop it.")
    if not stopped:
        return CommandReply(text="Nothing is running.")
    waiting, dropped = "", [turn for turn in stopped if turn is not call.turns[0]]
    if dropped:
        words = [one_line(turn.input.text or turn.input.action.value, 60) for turn in dropped[:_TOLD]]
        told = ", ".join(f"“{each}”" for each in words)
        more = f" and {len(dropped) - _TOLD} more" if len(dropped) > _TOLD else ""
        waiting = f" and {len(dropped)} waiting. Dropped, the agent does not hear of it: {told}{more}"
    goes_on = any(turn.stop is None and turn not in stopped for turn in call.turns)
    rest = " What others asked for goes on." if goes_on else ""
    return CommandReply(text=f"Stopped{waiting}.{rest}")


def _stop_task(call: CommandCall) -> CommandReply:
    found = [session for session in call.tx.sessions.find(call.args) if owns(call, session)]
    if len(found) != 1 or not found[0].id.startswith(BACKGROUND):
        raise UserError(
            f"There is no background task “{one_line(call.args, 40)}” of yours.", hint="/agents lists them."
        )
    if not stop_session(call.tx, found[0].id, "stopped by the user"):
        return CommandReply(text=f"{found[0].id} is not running any more.")
    return CommandReply(text=f"Stopped {found[0].id}.", wakes=(found[0].id,))


@command("queue", "say this after what is running now", usage="<text>", aliases=("q",))
def queue(call: CommandCall) -> CommandReply:
    turn = new_turn(call, spoken(call), BusyMode.QUEUE)
    ahead = len(call.turns)
    return CommandReply(text=f"Queued behind {ahead}." if ahead else "", turn=turn)


@command("steer", "say this to the running turn", usage="<text>")
def steer(call: CommandCall) -> CommandReply:
    if call.turns and speaks_for_another(call.source, call.turns[0].source):
        return queue(call)
    turn = new_turn(call, spoken(call), BusyMode.STEER)
    return CommandReply(text="It will hear this after its next step." if call.turns else "", turn=turn)


@command("retry", "answer the last message again", mid_turn=False)
def retry(call: CommandCall) -> CommandReply:
    return CommandReply(
        text="", turn=new_turn(call, TurnInput(action=TurnAction.RETRY), BusyMode.QUEUE, Cause.COMMAND)
    )


@command("undo", "forget the last turns", usage="[number]", mid_turn=False)
def undo(call: CommandCall) -> CommandReply:
    count = call.number(1000, default="1")
    if count is None:
        raise UserError(
            f"“{one_line(call.args, 20)}” is not a number of turns.", hint="Write /undo or /undo 3."
        )
    given = TurnInput(action=TurnAction.UNDO, count=count, confirm=_has_to_confirm(call))
    return CommandReply(text="", turn=new_turn(call, given, BusyMode.QUEUE, Cause.COMMAND))


@command("title", "show or set the session's title", usage="[title]")
def title(call: CommandCall) -> CommandReply:
    if not call.args:
        return CommandReply(text=f"Title: {call.session.title or '(none)'}")
    wanted = _title(call.args)
    call.tx.sessions.save(replace(call.session, title=wanted))
    return CommandReply(text=f"This session is now called “{wanted}”.")


@command("branch", "go on in a copy of this session", usage="[title]", aliases=("fork",), mid_turn=False)
def branch(call: CommandCall) -> CommandReply:
    check_nobody_waits(call)
    if not call.tx.journal.read(call.session.id, most=1):
        raise UserError("There is nothing to branch from yet.", hint="Say something first.")
    wanted = _title(call.args) if call.args else None
    made = branch_session(call.tx, call.session.id, None, call.now)
    made = replace(made, title=wanted or made.title, yolo=made.yolo and not call.key.shared)
    call.tx.sessions.save(made)
    call.tx.bindings.bind(call.key, made.id, call.source, call.now)
    return CommandReply(text=f"You are in {name_of(made)} now, a copy. /resume {call.session.id} goes back.")


class SessionsView(Struct, frozen=True, kw_only=True):
    """What a command about other sessions found beside the writer: those of a list, or the one that is meant
    and how long it is."""

    listing: str = ""
    session: SessionId | None = None
    length: str = ""


async def _look_for_sessions(request: CommandRequest) -> SessionsView:
    return await request.read(_find_sessions)


def _find_sessions(call: CommandCall) -> SessionsView:
    listing = call.name == "sessions"
    everybody, rest = _everybody(call, call.args, "all" if listing else "--all")
    first, _, words = rest.partition(" ")
    if listing and first.lower() == "search" and words.strip():
        found = search_sessions(call.tx, words.strip(), _LOOKED_AT, _SHOWN)
        known = [hit.session for hit in found if everybody or owns(call, hit.session)]
    elif rest:
        wanted = _pick(call, rest, everybody)
        return SessionsView(session=wanted.id, length=_length(call, wanted))
    else:
        known = _sessions(call, everybody)
    if not known:
        return SessionsView(listing="There are no such sessions." if rest else "There are no sessions yet.")
    lines = [
        f"{number}. {_shown(call, session)}{' ← here' if session.id == call.session.id else ''}"
        for number, session in enumerate(known[:_LISTED], 1)
    ]
    hint = "/resume <id or title> switches." if rest else "/resume <number, id or title> switches."
    return SessionsView(listing="\n".join([*lines, "", hint]))


@command(
    "sessions",
    "list your sessions, or find one",
    usage="[all] [search <words>]",
    prepare=_look_for_sessions,
)
def sessions(call: CommandCall) -> CommandReply:
    everybody, rest = _everybody(call, call.args, "all")
    if call.prepared.listing:
        return CommandReply(text=call.prepared.listing)
    return resume(replace(call, args=f"{rest} --all" if everybody else rest))


@command(
    "resume",
    "go back to another session",
    usage="[number, id or title] [--all]",
    mid_turn=False,
    prepare=_look_for_sessions,
)
def resume(call: CommandCall) -> CommandReply:
    if call.prepared.listing:
        return CommandReply(text=call.prepared.listing)
    everybody, word = _everybody(call, call.args, "--all")
    wanted = _pick(call, word, everybody)
    if wanted.id == call.session.id:
        return CommandReply(text="You are in that session already.")
    check_nobody_waits(call)
    # What one person may do without being asked is not for everybody in a shared place.
    yolo = wanted.yolo and not call.key.shared
    call.tx.sessions.save(replace(wanted, ended=None, updated_at=call.now, yolo=yolo))
    call.tx.bindings.bind(call.key, wanted.id, call.source, call.now)
    call.tx.flushes.want(call.session.id, call.now)
    long = f", {call.prepared.length} long" if wanted.id == call.prepared.session else ""
    return CommandReply(text=f"Back in {name_of(wanted)}{long}.")


def _length(call: CommandCall, session: Session) -> str:
    """How many messages a session has, counted in its newest records."""
    newest = call.tx.journal.read(session.id, most=_COUNTED, newest=True)
    said = sum(isinstance(entry.record, UserSaid) for entry in visible(newest))
    more = "more than " if len(newest) == _COUNTED else ""
    return f"{more}{said} {'message' if said == 1 else 'messages'}"


def _everybody(call: CommandCall, text: str, word: str) -> tuple[bool, str]:
    """Whether everybody's sessions are meant, which only an admin may, and the rest of the line."""
    words = text.split()
    if word not in (one.lower() for one in words):
        return False, text
    if not call.is_admin:
        raise UserError("Only an admin sees everybody's sessions.", hint=f"Leave out “{word}”.")
    return True, " ".join(one for one in words if one.lower() != word)


def _pick(call: CommandCall, word: str, everybody: bool) -> Session:
    listed = _sessions(call, everybody)
    number = read_number(word, len(listed))
    if number is not None:
        return listed[number - 1]
    found = [session for session in call.tx.sessions.find(word) if everybody or owns(call, session)]
    if len(found) == 1:
        return found[0]
    if found:
        raise UserError(f"“{one_line(word, 40)}” fits {len(found)} sessions.", hint="Give the whole id.")
    whose = "" if everybody else " of yours"
    raise UserError(f"There is no session “{one_line(word, 40)}”{whose}.", hint="/sessions lists them.")


def _sessions(call: CommandCall, everybody: bool) -> list[Session]:
    found = call.tx.sessions.find("", _LOOKED_AT, replace(_SHOWN, archived=False))
    return [session for session in found if everybody or owns(call, session)][:_LISTED]


def owns(call: CommandCall, session: Session) -> bool:
    """The one check of who may come back to a session, whatever the platform: it is theirs who began it, and
    in a chat that shares its sessions, the chat's."""
    if session.id == call.session.id:
        return True
    if session.owner is not None:
        return session.owner == owner_of(call.source)
    return session.place is not None and session.place == str(call.source.address)


def _shown(call: CommandCall, session: Session) -> str:
    """Its name, and without a title what it began with."""
    first = [] if session.title else call.tx.journal.read(session.id, most=1)
    said = [one_line(entry.record.text, _WORDS) for entry in first if isinstance(entry.record, UserSaid)]
    return f"{name_of(session)}: {said[0]}" if said and said[0] else name_of(session)


def name_of(session: Session) -> str:
    return f"“{session.title}” ({session.id})" if session.title else session.id


def spoken(call: CommandCall) -> TurnInput:
    """The text after a command, as if it had been sent as a message."""
    if not call.args:
        raise UserError(f"/{call.name} needs a text.", hint=f"Write /{call.name} <what you want to say>.")
    return TurnInput(text=call.args, author=call.source.author, context=call.context())


def _title(text: str) -> str:
    cleaned = one_line(without_invisible(text), LONGEST_TITLE)
    if not cleaned:
        raise UserError("A title needs at least one visible character.")
    return cleaned


def check_nobody_waits(call: CommandCall) -> None:
    """Refuse to take the session away from a place while somebody else's turn runs in it or a question to
    somebody else is open: they could not answer it any more."""
    if call.source.kind not in SHARED_KINDS or call.is_admin:
        return
    asked = [one for one in questions_here(call.tx, call.session.id) if one.may_answer]
    runs = bool(call.turns) and _is_of_another(call, call.turns[0])
    if runs or any(call.source.person not in question.may_answer for question in asked):
        raise UserError(
            f"/{call.name} has to wait: somebody else is being answered here, or was asked something.",
            hint="They, or an admin, can do it now.",
        )


def _is_of_another(call: CommandCall, turn: Turn) -> bool:
    source = turn.source
    return source is not None and owner_of(source) is not None and speaks_for_another(call.source, source)


# --- options of this session alone -----------------------------------------------------------------


@command("busy", "what a message does while a turn runs", usage="[interrupt|queue|steer]")
def busy(call: CommandCall) -> CommandReply:
    now = choose_busy_mode(call.session, call.settings.display.busy_input_mode).value
    if not call.args:
        return CommandReply(text=f"A message that comes while a turn runs: {now}.")
    try:
        chosen = BusyMode(call.args.lower())
    except ValueError:
        modes = ", ".join(mode.value for mode in BusyMode)
        raise UserError(
            f"“{one_line(call.args, 20)}” is no way to be busy.", hint=f"Known: {modes}."
        ) from None
    call.tx.sessions.save(replace(call.session, busy_mode=chosen.value))
    return CommandReply(text=f"A message that comes while a turn runs: {chosen.value}, from now on.")


@command("yolo", "switch approvals off or on again for this session", gate="approvals.yolo_command")
def yolo(call: CommandCall) -> CommandReply:
    changed = replace(call.session, yolo=not call.session.yolo)
    if changed.yolo:
        _check_place(call)
    call.tx.sessions.save(changed)
    if changed.yolo:
        return CommandReply(text="⚠️ Nothing is asked in this session from now on. /yolo again asks first.")
    return CommandReply(text="Dangerous actions are asked first again.")


def _check_place(call: CommandCall) -> None:
    """What is not asked any more is not asked of anybody who speaks here."""
    if (call.key.shared or call.session.owner is None) and not call.is_admin:
        raise UserError("Several people speak in this session, so only an admin may switch approvals off.")
    if call.key.shared and call.session.owner is not None:
        raise UserError(
            "This conversation was begun elsewhere, by one person, so approvals stay on here.",
            hint="/new begins one of this place, where an admin may switch them off.",
        )
