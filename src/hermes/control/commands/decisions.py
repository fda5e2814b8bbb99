"""Commands that answer what the agent asks."""

from __future__ import annotations

from hermes.control.commands.registry import Call, Reply, command
from hermes.control.questions import answer
from hermes.domain.event import QuestionKind, Verdict
from hermes.domain.turn import Answer

_REASON = 280


@command("approve", "allow what the agent asks for", usage="[all] [session|always]")
def approve(call: Call) -> Reply:
    words = call.args.lower().split()
    verdict = Verdict.ALWAYS if "always" in words else Verdict.SESSION if "session" in words else Verdict.ONCE
    return _decide(call, verdict, everything="all" in words, text="")


@command("deny", "refuse what the agent asks for", usage="[all] [reason]")
def deny(call: Call) -> Reply:
    first, _, rest = call.args.partition(" ")
    everything = first.lower() == "all"
    return _decide(
        call, Verdict.DENY, everything=everything, text=(rest if everything else call.args)[:_REASON]
    )


def _decide(call: Call, verdict: Verdict, *, everything: bool, text: str) -> Reply:
    asked = [
        question
        for question in call.tx.questions.open_of(call.session.id)
        if question.kind in (QuestionKind.APPROVAL, QuestionKind.CONFIRM)
    ]
    if not asked:
        return Reply(text="Nothing waits for a decision.")
    if len(asked) > 1 and not everything:
        listed = "\n".join(f"- {question.text}" for question in asked)
        return Reply(text=f"{len(asked)} decisions are open:\n{listed}\nSay “all” to decide them together.")
    person = call.source.person
    outcomes = [
        answer(call.tx, Answer(question=question.id, verdict=verdict, text=text, by=person))
        for question in asked
    ]
    return Reply(text="\n".join(dict.fromkeys(outcome.text for outcome in outcomes)))
