"""Answers to questions: what is offered, and the sentence that whoever answers is told."""

from __future__ import annotations

from pathlib import Path

import pytest

from hermes.control.turn.questions import answer
from hermes.domain.turns.event import QuestionKind, Verdict
from hermes.domain.turns.turn import Answer, AnswerResult, Question
from hermes.domain.word import replace
from hermes.state.store.writer import SqliteStore
from hermes.testing.store_suite.samples import NOW, add_talk, question

ONCE, SESSION, ALWAYS, DENY = Verdict.ONCE, Verdict.SESSION, Verdict.ALWAYS, Verdict.DENY
NOT_OFFERED = "That is not offered here. Choose: once, deny."
APPROVAL = replace(question("q1"), may_answer=("fake:ann",))
CAREFUL = replace(APPROVAL, options=("once", "deny"))


async def ask(folder: Path, asked: Question, *given: Answer) -> list[AnswerResult]:
    """What comes of answers to a question, one after the other."""
    store = await SqliteStore(folder / "state.db").open()
    try:
        await store.write(lambda tx: (add_talk(tx), tx.questions.add(asked)))
        return [await store.write(lambda tx, one=one: answer(tx, one, NOW)) for one in given]  # type: ignore[misc]
    finally:
        await store.close()


def by_ann(verdict: Verdict, text: str = "") -> Answer:
    return Answer(question=APPROVAL.id, verdict=verdict, text=text, by="fake:ann")


@pytest.mark.parametrize(
    ("asked", "verdict", "closed", "words"),
    [
        (APPROVAL, ONCE, True, "Approved."),
        (APPROVAL, SESSION, True, "Approved for this session."),
        (APPROVAL, ALWAYS, True, "Approved, from now on."),
        (APPROVAL, DENY, True, "Denied."),
        (CAREFUL, ONCE, True, "Approved."),
        (CAREFUL, DENY, True, "Denied."),
        (CAREFUL, SESSION, False, NOT_OFFERED),
        (CAREFUL, ALWAYS, False, NOT_OFFERED),
        (CAREFUL, Verdict.REPLY, False, NOT_OFFERED),
        (replace(CAREFUL, kind=QuestionKind.CONFIRM), ALWAYS, False, NOT_OFFERED),
        (replace(CAREFUL, kind=QuestionKind.CONFIRM), ONCE, True, "Approved."),
        (replace(APPROVAL, may_answer=()), ONCE, False, "Only the person who was asked can answer this."),
        (
            replace(APPROVAL, expires_at=NOW),
            ONCE,
            False,
            "Too late: nobody answered in time, so it was denied.",
        ),
    ],
)
async def test_what_an_answer_comes_to(
    tmp_path: Path, asked: Question, verdict: Verdict, closed: bool, words: str
) -> None:
    (outcome,) = await ask(tmp_path, asked, by_ann(verdict))
    assert (outcome.closed, outcome.text) == (closed, words)


@pytest.mark.parametrize(
    ("first", "words"), [(ONCE, "This was already answered."), (DENY, "This was already denied.")]
)
async def test_the_second_answer_is_told_what_the_first_was(
    tmp_path: Path, first: Verdict, words: str
) -> None:
    _, second = await ask(tmp_path, APPROVAL, by_ann(first), by_ann(ONCE))
    assert (second.closed, second.text) == (False, words)


async def test_a_question_that_is_not_there(tmp_path: Path) -> None:
    (outcome,) = await ask(tmp_path, APPROVAL, replace(by_ann(ONCE), question=question("other").id))
    assert (outcome.closed, outcome.text) == (False, "There is no such question (any more).")
