"""What a turn asks: who is asked, what they may answer, and how the question reads."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable

from hermes.domain.ids import CallId, QuestionId
from hermes.domain.tools.tool import ToolCall
from hermes.domain.turns.event import Asked, Entry, ModelSaid, QuestionKind, ToolFinished, Verdict
from hermes.domain.turns.thoughts import without_thoughts
from hermes.domain.turns.turn import Question

_APPROVALS = tuple(verdict.value for verdict in (Verdict.ONCE, Verdict.SESSION, Verdict.ALWAYS, Verdict.DENY))
_YES = ("yes", "y", "ok", "okay", "approve", "confirm", "once", "👍")
_NO = ("no", "n", "deny", "reject", "cancel", "👎")
_WORDS: dict[str, Verdict] = {
    **dict.fromkeys(_YES, Verdict.ONCE),
    **dict.fromkeys(_NO, Verdict.DENY),
    "always": Verdict.ALWAYS,
    "session": Verdict.SESSION,
}


_SAID = {Verdict.ONCE.value: "yes", Verdict.DENY.value: "no"}
_PRINTED = re.compile(r"\(Question (q_[0-9a-f]{12})\)\s*\Z")


def choices(asked: Asked | Question) -> tuple[str, ...]:
    """What one may answer; an approval that names nothing takes the usual four words."""
    return asked.options or (_APPROVALS if asked.kind is QuestionKind.APPROVAL else ())


def read_word(text: str) -> Verdict | None:
    """An answer word, spelled as it is: letters of other scripts that look or fold alike are none."""
    word = text.strip().rstrip(".!")
    return _WORDS.get(word.lower()) if word.isascii() or word in _WORDS else None


def for_people(asked: Asked) -> bool:
    """Whether a person is asked; children and API clients are waited for silently."""
    return asked.kind in (QuestionKind.APPROVAL, QuestionKind.CLARIFY, QuestionKind.CONFIRM)


def question_text(asked: Asked | Question) -> str:
    options = "".join(f"\n{number}. {option}" for number, option in enumerate(choices(asked), 1))
    return f"{asked.text}\n{options}" if options else asked.text


def question_for_reply(asked: Asked | Question) -> str:
    """A question as the last words of an answer, with its id and what to reply. The id is how a client that
    sends its whole conversation each time is understood to answer it."""
    if asked.kind is QuestionKind.CLARIFY:
        how, text = "Your next message is the answer.", question_text(asked)
    else:
        how, text = f"Answer {answer_words(asked)}.", asked.text
    return f"{text}\n\n{how} (Question {_id_of(asked)})"


def answer_words(asked: Asked | Question) -> str:
    """The words that answer an approval, or a confirmation, which names its own."""
    words = [_SAID.get(choice, choice) for choice in choices(asked)] or ["yes", "no"]
    return " or ".join(filter(None, (", ".join(words[:-1]), words[-1])))


def _id_of(asked: Asked | Question) -> QuestionId:
    return asked.question if isinstance(asked, Asked) else asked.id


def printed_question(text: str) -> QuestionId | None:
    """The question that a text ends with, as `question_for_reply` prints it."""
    printed = _PRINTED.search(text)
    return QuestionId(printed[1]) if printed else None


def is_printed(text: str, asked: Question, entries: Iterable[Entry]) -> bool:
    """Whether a message of the agent is this question as it was given: alone, or right after words that the
    agent said in its turn. White space aside, nothing may differ."""
    whole, question = " ".join(text.split()), " ".join(question_for_reply(asked).split())
    replies = (entry.record.text for entry in entries if isinstance(entry.record, ModelSaid))
    said = " ".join(" ".join(map(without_thoughts, replies)).split())
    return whole.endswith(question) and said.endswith(whole.removesuffix(question).strip())


def action_text(asked: Asked, call: ToolCall | None) -> str:
    """What would be done, word for word: a command, or a call's arguments."""
    return command_text(call.arguments) if call else asked.text


def command_text(arguments: str) -> str:
    """What is to be approved, word for word."""
    try:
        given = json.loads(arguments)
    except (ValueError, RecursionError):
        return arguments
    command = given.get("command") if isinstance(given, dict) else None
    return command if isinstance(command, str) else arguments


def asked_of_client(entries: Iterable[Entry]) -> list[tuple[Asked, ToolCall]]:
    """The calls of its own tools that a client must answer, once all of a reply's have been asked for; they
    come last, when every other call of the reply is settled."""
    calls: dict[CallId, ToolCall] = {}
    left: set[CallId] = set()
    asked: list[tuple[Asked, ToolCall]] = []
    for entry in entries:
        record = entry.record
        if isinstance(record, ModelSaid):
            calls, asked = {call.id: call for call in record.calls}, []
            left = set(calls)
        elif isinstance(record, Asked | ToolFinished) and record.call in calls:
            left.discard(record.call)
            if isinstance(record, Asked) and record.kind is QuestionKind.CLIENT_TOOL:
                asked.append((record, calls[record.call]))
    return [] if left else asked
