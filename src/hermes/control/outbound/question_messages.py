"""What stands in a chat of a question that is over: its buttons go, and below it stands how it ended.

The closing line is a row of the outbox, written in the transaction that closes the question, so it comes
about after a crash too; it takes the place of the message that asked (`Body.replaces`). Where that message
cannot be edited any more, nothing happens: the answer itself goes its own way. A question without buttons is
left as it is, but people are told that it was withdrawn: otherwise somebody whose
words were not taken as an answer would not know."""

from __future__ import annotations

from datetime import datetime

from hermes.domain.chats.capabilities import Capabilities, Grade
from hermes.domain.chats.message import Body, Button
from hermes.domain.chats.rows import OutboxRow, outbox_rows
from hermes.domain.ports.store import Tx
from hermes.domain.text import one_line
from hermes.domain.turns.event import Asked, QuestionKind, Verdict
from hermes.domain.turns.turn import Answer, ReplyPlace
from hermes.domain.word import replace
from hermes.stream.fold.questions import choices, question_text

_CLOSED = ":closed"
_MOST_NAME, _MOST_WORDS = 60, 200
_LINE = 400
"""More than a closing line ever takes once it is printed."""
_WITHDRAWN = "↩️ The question above is withdrawn, and nothing was done about it."
_ENDED = {
    Verdict.ONCE: "✅ Approved{by}.",
    Verdict.SESSION: "✅ Approved for this session{by}.",
    Verdict.ALWAYS: "✅ Approved from now on{by}.",
    Verdict.DENY: "🚫 Denied{by}.",
    Verdict.EXPIRED: "⌛ Nobody answered in time.",
    Verdict.WITHDRAWN: "↩️ Withdrawn.",
}
_MARKUP = str.maketrans(dict.fromkeys("*_`~[]<>|\\#@", ""))


def question_rows(
    asked: Asked, reply: ReplyPlace, able: Capabilities, now: datetime
) -> tuple[OutboxRow, ...]:
    """The message that asks, with buttons or with the words that answer it."""
    from hermes.stream.text.split import split_bodies

    text, buttons = _prompt(asked, able)
    bodies = split_bodies(text, able)
    bodies[-1:] = [replace(body, buttons=buttons) for body in bodies[-1:]]
    return outbox_rows(bodies, key=asked.question, to=reply.to, now=now, reply_to=reply.ref)


def _prompt(asked: Asked, able: Capabilities) -> tuple[str, tuple[Button, ...]]:
    from hermes.stream.text.markdown import literal

    approval = asked.kind is QuestionKind.APPROVAL
    if approval:  # a person decides by reading it, so nothing of it may turn into markup
        asked = replace(asked, text=literal(asked.text))
    if able.buttons is not Grade.NONE:
        values = [(option, f"{asked.question}:{option}") for option in choices(asked)]
        return asked.text, tuple(Button(label=option, value=value) for option, value in values)
    if approval:
        words = f"{able.command_prefix}approve, {able.command_prefix}deny"
        return f"{asked.text}\n\nReply yes, session, always or no (or {words}).", ()
    if asked.kind is QuestionKind.CONFIRM:
        return f"{asked.text}\n\nReply yes or no.", ()
    return question_text(asked), ()


def close_question(tx: Tx, given: Answer, now: datetime, name: str | None = None) -> bool:
    """Close a question and let its prompt say so; False if it was closed before. `name` is how people know
    who answered."""
    if not tx.questions.close(given):
        return False
    asked = tx.outbox.begun(f"{given.question}:")
    shown = [row for row in asked if row.body.buttons]
    if shown:
        body = Body(text=_told(given, name), replaces=shown[-1].key)
    elif asked and given.verdict is Verdict.WITHDRAWN:
        body = Body(text=_WITHDRAWN)
    else:
        return True
    key = f"{given.question}{_CLOSED}"
    tx.outbox.add(OutboxRow(key=key, to=asked[-1].to, body=body, created_at=now))
    return True


def closed_body(asked: OutboxRow, closing: Body, able: Capabilities) -> Body:
    """The message that asked as it stays, in one piece."""
    from hermes.stream.text.split import split_bodies

    whole = f"{asked.body.text}\n\n{closing.text}"
    if len(split_bodies(whole, able)) > 1:
        first = split_bodies(asked.body.text, able, max(able.max_text - _LINE, able.max_text // 2))[0]
        whole = f"{first.text}\n\n…\n\n{closing.text}"
    return closing.with_text(whole)


def _told(given: Answer, name: str | None) -> str:
    """How a question ended. Names and answers are other people's words: without markup, and short."""
    who = one_line((name or "").translate(_MARKUP), _MOST_NAME)
    if given.verdict is Verdict.REPLY:
        return f"💬 {who or 'Answer'}: {one_line(given.text.translate(_MARKUP), _MOST_WORDS)}"
    return _ENDED[given.verdict].format(by=f" by {who}" if who else "")
