"""The history checker: reads the world's log and tells what must never happen. This is the Jepsen method at
desk size: nothing acknowledged is lost, nothing is answered twice unmarked, no `once` effect happens twice,
answers keep the order of the messages."""

from __future__ import annotations

import re
from collections import Counter, defaultdict

from hermes.control.outbound.answers import REPEAT_MARK
from hermes.control.turn.claim import GIVEN_UP
from hermes.testing.world import Deed, World

_TOKEN = re.compile(r"\bm(\d+)\b")
_ANSWER = re.compile(r"answer to m(\d+):")
_CURSOR = "▉"


def check_history(world: World, *, silent_ok: bool = False) -> list[str]:
    """Everything that is wrong with what happened; empty is good."""
    problems = _effects(world) + _order(world)
    answers = _answers(world)
    chats = {
        int(token.group(1)): update.chat for update in world.updates if (token := _TOKEN.search(update.text))
    }
    told = Counter(message.chat for message in world.messages.values() if GIVEN_UP in message.text)
    for number in sorted(_acked(world)):
        texts = answers.get(number, [])
        if not texts and told[chats[number]]:
            # Three crashes hit it at its start; the person was told why there is no answer.
            told[chats[number]] -= 1
        elif not texts and not silent_ok:
            problems.append(f"m{number} was acknowledged and never answered")
        unmarked = [text for text in texts if REPEAT_MARK not in text]
        if len(unmarked) > 1:
            problems.append(f"m{number} was answered {len(unmarked)} times without a mark")
    problems += [f"a draft was left as it was: {text!r}" for text in world.seen() if _CURSOR in text]
    return problems


def marked_repeats(world: World) -> int:
    return sum(REPEAT_MARK in text for text in world.seen())


def _acked(world: World) -> set[int]:
    found = (_TOKEN.search(entry.text) for entry in world.did(Deed.ACKED))
    return {int(token.group(1)) for token in found if token}


def _answers(world: World) -> dict[int, list[str]]:
    answers: dict[int, list[str]] = defaultdict(list)
    for text in world.seen():
        found = _ANSWER.search(text)
        if found:
            answers[int(found.group(1))].append(text)
    return answers


def _effects(world: World) -> list[str]:
    """`once` at most once for a token; `keyed` always under the same key."""
    problems: list[str] = []
    keys: dict[tuple[str, str], list[str]] = defaultdict(list)
    for entry in world.did(Deed.EFFECT):
        keys[entry.chat, entry.text].append(entry.key)
    for (tool, token), seen in keys.items():
        if tool == "once" and len(seen) > 1:
            problems.append(f"the once effect of {token} happened {len(seen)} times")
        if tool == "keyed" and len(set(seen)) > 1:
            problems.append(f"the keyed effect of {token} happened under {len(set(seen))} keys")
    return problems


def _order(world: World) -> list[str]:
    """In one chat, the first answer to each message comes in the order of the messages."""
    problems: list[str] = []
    written: dict[str, list[int]] = defaultdict(list)
    for update in world.updates:
        token = _TOKEN.search(update.text)
        if token and int(token.group(1)) not in written[update.chat]:
            written[update.chat].append(int(token.group(1)))
    for chat, numbers in written.items():
        answered: list[int] = []
        for text in world.seen(chat):
            found = _ANSWER.search(text)
            if found and int(found.group(1)) not in answered:
                answered.append(int(found.group(1)))
        expected = [number for number in numbers if number in answered]
        if answered != expected:
            problems.append(f"chat {chat} was answered in the order {answered}, not {expected}")
    return problems
