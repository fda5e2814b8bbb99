"""Commands that answer what the agent asks."""

from __future__ import annotations

from hermes.control.commands.registry import CommandCall, CommandReply, command, read_number
from hermes.control.turn.questions import answer, questions_here
from hermes.domain.errors import UserError
from hermes.domain.text import one_line, storable
from hermes.domain.turns.event import QuestionKind, Verdict
from hermes.domain.turns.session import owner_of
from hermes.domain.turns.turn import Answer, Question

_REASON = 280
_SCOPES = {"session": Verdict.SESSION, "always": Verdict.ALWAYS}
_SHOWN = 20


@command("approve", "allow what the agent asks for", usage="[all] [session|always]")
def approve(call: CommandCall) -> CommandReply:
    words = call.args.lower().split()
    scopes = [word for word in words if word in _SCOPES]
    if set(words) - {"all", *_SCOPES} or len(scopes) > 1:
        raise UserError(
            f"“{one_line(call.args, 40)}” is not how to approve.",
            hint="Write /approve [all] [session|always].",
        )
    verdict = _SCOPES[scopes[0]] if scopes else Verdict.ONCE
    return _decide(call, verdict, everything="all" in words, text="")


@command("deny", "refuse what the agent asks for", usage="[all] [reason]")
def deny(call: CommandCall) -> CommandReply:
    first, _, rest = call.args.partition(" ")
    everything = first.lower() == "all"
    reason = storable((rest if everything else call.args).strip())[:_REASON]
    return _decide(call, Verdict.DENY, everything=everything, text=reason)


@command("grants", "what you allowed permanently, and how to take it back", usage="[revoke <number or id>]")
def grants(call: CommandCall) -> CommandReply:
    person = owner_of(call.source)
    mine = [] if person is None else call.tx.grants.list(person)
    first, _, word = call.args.partition(" ")
    if not call.args:
        lines = [f"{n}. {one_line(grant.text, 200)} ({grant.id})" for n, grant in enumerate(mine[:_SHOWN], 1)]
        more = [f"… and {len(mine) - _SHOWN} more."] if len(mine) > _SHOWN else []
        lines += [*more, "", "/grants revoke <number or id> takes one back."]
        return CommandReply(text="\n".join(lines) if mine else "You have allowed nothing permanently.")
    word = word.strip()
    if first.lower() != "revoke" or not word:
        raise UserError("That is not understood.", hint="Write /grants, or /grants revoke <number or id>.")
    number = read_number(word, len(mine))
    for place, grant in enumerate(mine, 1):
        if word == grant.id or number == place:
            call.tx.grants.revoke(grant.id)
            return CommandReply(text=f"Revoked. From now on it is asked first: {one_line(grant.text, 200)}")
    raise UserError(f"There is no grant “{one_line(word, 40)}” of yours.", hint="/grants lists them.")


def _decide(call: CommandCall, verdict: Verdict, *, everything: bool, text: str) -> CommandReply:
    person = call.source.person
    asked = [
        question
        for question in questions_here(call.tx, call.session.id)
        if question.kind in (QuestionKind.APPROVAL, QuestionKind.CONFIRM) and _is_visible(question, call)
    ]
    if not asked:
        return CommandReply(text="Nothing waits for a decision.")
    if len(asked) > 1 and not everything:
        listed = "\n".join(f"- {question.text}" for question in asked)
        return CommandReply(
            text=f"{len(asked)} decisions are open:\n{listed}\nSay “all” to decide them together."
        )
    outcomes = [
        answer(
            call.tx,
            Answer(question=question.id, verdict=verdict, text=text, by=person),
            call.now,
            call.source.user_name,
        )
        for question in asked
    ]
    woken = tuple(outcome.session for outcome in outcomes if outcome.session is not None)
    return CommandReply(text="\n".join(dict.fromkeys(outcome.text for outcome in outcomes)), wakes=woken)


def _is_visible(question: Question, call: CommandCall) -> bool:
    """What a person's background work asks is nobody else's to see; what is asked in a session all its
    speakers see."""
    return question.session == call.session.id or call.source.person in question.may_answer
