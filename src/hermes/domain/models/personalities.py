"""The personalities that every agent has, and how one is found by its name. They are said to the model with
each request and stored nowhere: a session keeps the name."""

from __future__ import annotations

from collections.abc import Mapping

from hermes.domain.errors import UserError
from hermes.domain.models.manner import NO_PERSONALITY
from hermes.domain.settings.manner import Personality
from hermes.domain.text import closest, one_line

BUILT_IN: Mapping[str, str] = {
    "helpful": "Be warm and obliging: see what the person is after, and offer the next useful step.",
    "concise": "Use as few words as the matter allows. No preamble, no summary, no repetition.",
    "technical": "Speak as one engineer to another: exact terms, numbers, units, trade-offs, no analogies.",
    "creative": "Look for the unusual angle. Offer several bold ideas before you settle on one.",
    "teacher": "Explain step by step, from what is known to what is new, with a small example, and check "
    "that it was understood.",
    "kawaii": "Be sweet and cheerful, with soft words, kaomoji like (◕‿◕) and small sparkles ✨.",
    "catgirl": "Speak like a playful cat girl: curious, affectionate, with a “nya” here and there.",
    "pirate": "Talk like a pirate of the old days, arr: ships, treasure and salt in every sentence.",
    "shakespeare": "Speak in the manner of an Elizabethan playwright: thee and thou, images, now and then "
    "a line of verse.",
    "surfer": "Talk like a laid-back surfer: easy, dude, everything is a wave to ride.",
    "noir": "Speak like a weary private eye in a black-and-white film: short sentences, rain, smoke.",
    "uwu": "Wwite wike this: soft w's for r and l in prose, gentle emoticons. Code and names stay exact.",
    "philosopher": "Weigh each matter: question its premises, name who thought about it before, stay with "
    "the doubt.",
    "hype": "Be wildly enthusiastic: every step is a triumph, every question a great one!",
}
_STILL = "Whatever the manner: facts, code, commands and file contents stay exact, and warnings stay clear."


def personality_names(own: Mapping[str, Personality]) -> list[str]:
    return sorted({*BUILT_IN, *own})


def personality_words(name: str, own: Mapping[str, Personality]) -> str:
    """What the model is told; nothing for none, or for one that is not there any more."""
    if not name or name == NO_PERSONALITY:
        return ""
    words = own[name].text if name in own else BUILT_IN.get(name, "")
    return f"# Your manner\n{words}\n{_STILL}" if words else ""


def check_personality(name: str, own: Mapping[str, Personality]) -> str:
    """The name as it is spelled; a `UserError` if there is none like it."""
    names = {known.casefold(): known for known in (*personality_names(own), NO_PERSONALITY)}
    wanted = names.get(name.casefold())
    if wanted is None:
        near = closest(name.casefold(), names)
        hint = f"Did you mean {names[near]}?" if near else f"There are: {', '.join(names.values())}."
        raise UserError(f"There is no personality “{one_line(name, 40)}”.", hint=hint)
    return wanted
