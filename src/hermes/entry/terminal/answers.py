"""A line that was written at a question, as its answer."""

from __future__ import annotations

from dataclasses import dataclass

from hermes.control.turn.questions import read_word
from hermes.domain.event import Asked, QuestionKind, Verdict
from hermes.stream.fold.questions import choices

NOBODY = "Nobody can be asked here: this run is not interactive."


@dataclass(frozen=True, slots=True, kw_only=True)
class ParsedAnswer:
    verdict: Verdict
    text: str = ""


def read_answer(asked: Asked, line: str) -> ParsedAnswer | None:
    """By number or by word; a clarification takes any words. None if the line is no answer."""
    word = line.strip()
    offered = choices(asked)
    if word.isascii() and word.isdigit() and 1 <= int(word[:4]) <= len(offered):
        word = offered[int(word[:4]) - 1]
    if asked.kind is QuestionKind.CLARIFY:
        return ParsedAnswer(verdict=Verdict.REPLY, text=word)
    verdict = read_word(word)
    if verdict is not None:
        return ParsedAnswer(verdict=verdict)
    first, _, reason = word.partition(" ")
    if reason and read_word(first.rstrip(",.:")) is Verdict.DENY:
        return ParsedAnswer(verdict=Verdict.DENY, text=reason.strip())
    return ParsedAnswer(verdict=Verdict.REPLY, text=word) if word in offered else None


def refusal(asked: Asked) -> ParsedAnswer:
    """The answer where nobody can be asked: no to a request, and no help with a question."""
    if asked.kind is QuestionKind.CLARIFY:
        return ParsedAnswer(verdict=Verdict.REPLY, text=f"{NOBODY} Choose yourself, and say what you chose.")
    return ParsedAnswer(verdict=Verdict.DENY, text=NOBODY)


def how_to_answer(asked: Asked) -> str:
    offered = choices(asked)
    words = ", ".join(f"{number} {option}" for number, option in enumerate(offered, 1))
    return f"Answer with a number or a word: {words}." if offered else "Answer in a few words."
