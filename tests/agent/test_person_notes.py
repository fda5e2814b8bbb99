"""A person's memory entries are named by row in the record and printed by the fold as they are now: what is
forgotten is told no more, and nothing else of the prompt changes."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping

from hermes.agent.context.encoded import encode_prompt
from hermes.agent.context.transcript_messages import ModelMessage
from hermes.domain.ports.agent import ModelRequest
from hermes.domain.turns.event import UserSaid
from hermes.state.store.codec import decode_record, encode_record
from hermes.testing.model import ScriptedModel, say
from tests.agent.driving import Driver, loop_of


def _printed(request: ModelRequest) -> list[str]:
    def encode(message: ModelMessage, images: Mapping[str, str] | None) -> bytes:
        return message.text.encode()

    return [part.decode() for part in encode_prompt(request, encode, format="test").parts]


async def test_what_a_record_names_is_told_until_it_is_forgotten() -> None:
    kept = {3: "likes tea", 7: "lives in Rome", 9: "of somebody else"}
    asked: list[set[int]] = []

    async def person_notes(ids: Collection[int]) -> Mapping[int, str]:
        asked.append(set(ids))
        return {note: kept[note] for note in ids if note in kept}

    model = ScriptedModel([say("one"), say("two"), say("three"), say("four")])
    chat = Driver(loop_of(model), person_notes=person_notes)
    await chat.say("nothing is named here")
    assert asked == []
    chat.turns += 1
    chat.add(UserSaid(text="hello", notes=(7, 3)))
    await chat.go()
    second = _printed(model.requests[1])
    await chat.say("and now?")
    third = _printed(model.requests[2])
    assert asked == [{3, 7}, {3, 7}]
    told = "[What you noted about who speaks:]\n- lives in Rome\n- likes tea\n\nhello"
    assert second[-1] == told
    assert third[: len(second)] == second, "the start of the prompt stays the same"
    del kept[7]
    await chat.say("still there?")
    fourth = _printed(model.requests[3])
    assert fourth[len(second) - 1] == "[What you noted about who speaks:]\n- likes tea\n\nhello"
    assert not [part for part in fourth if "Rome" in part or "somebody" in part]
    assert fourth[: len(second) - 1] == second[:-1]


def test_old_records_name_nothing_and_new_ones_keep_their_rows() -> None:
    assert decode_record("user_said", json.dumps({"text": "hi"})) == UserSaid(text="hi")
    named = UserSaid(text="hi", notes=(1, 2))
    assert decode_record(*encode_record(named)) == named
