"""Idempotency-Key: the same request twice is one run, now, at once and after a restart."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from hermes.domain.ports.agent import ModelRequest
from hermes.domain.turns.event import Finished
from hermes.testing.api import ApiWorld, Heard
from hermes.testing.model import Say, ScriptedModel, call, say
from hermes.testing.tools import world_tools
from tests.entry.http.talking import (
    CHAT,
    PHONE,
    TWO_KEYS,
    chunks,
    content,
    ended,
    journal,
    said,
    sessions,
    words,
)

KEY = {"Idempotency-Key": "order 66"}


class Counting:
    """A model that counts its answers, so that a second one differs."""

    def __init__(self, hold: asyncio.Event | None = None) -> None:
        self.hold = hold
        self.count = 0

    def __call__(self, request: ModelRequest) -> Say:
        self.count += 1
        return Say(text=f"answer {self.count}", hold=self.hold, pieces=3)


async def nothing(name: str, key: str, token: str) -> None:
    return None


async def test_a_repeat_is_the_same_answer_also_after_a_restart(tmp_path: Path) -> None:
    home = tmp_path / "home"
    async with ApiWorld(home=home, provider=ScriptedModel(Counting())) as api:
        first = await api.post(CHAT, words("hi"), headers=KEY)
        again = await api.post(CHAT, words("hi"), headers=KEY)
        assert first.data == again.data
        assert first.headers["X-Hermes-Run-Id"] == again.headers["X-Hermes-Run-Id"]
        other = await api.post(CHAT, words("hi"), headers={"Idempotency-Key": "another"})
        assert other.json["choices"][0]["message"]["content"] == "answer 2"
    async with ApiWorld(home=home, provider=ScriptedModel([])) as api:
        assert (await api.post(CHAT, words("hi"), headers=KEY)).data == first.data


async def test_a_stream_is_repeated_too(tmp_path: Path) -> None:
    home, body = tmp_path / "home", words("hi", stream=True)
    async with ApiWorld(home=home, provider=ScriptedModel(Counting())) as api:
        first = [event async for event in api.events(CHAT, body, headers=KEY)]
    async with ApiWorld(home=home, provider=ScriptedModel([])) as api:
        again = [event async for event in api.events(CHAT, body, headers=KEY)]
    assert content(first) == content(again) == "answer 1"
    assert chunks(first)[-1] == chunks(again)[-1]


@pytest.mark.parametrize("stream", [True, False])
async def test_many_at_once_share_one_run(stream: bool, tmp_path: Path) -> None:
    model = ScriptedModel(Counting())
    async with ApiWorld(home=tmp_path / "home", provider=model) as api:

        async def one() -> str:
            body = words("hi", stream=stream)
            if stream:
                return content([event async for event in api.events(CHAT, body, headers=KEY)])
            heard = await api.post(CHAT, body, headers=KEY)
            assert heard.status == 200
            return str(heard.json["choices"][0]["message"]["content"])

        assert await asyncio.gather(*(one() for _ in range(20))) == ["answer 1"] * 20
        assert len(model.requests) == 1
        (session,) = await sessions(api)
        assert said(await journal(api, session.id)) == ["hi"]


async def test_a_repeat_while_the_first_runs_joins_it(tmp_path: Path) -> None:
    hold = asyncio.Event()
    model = ScriptedModel(Counting(hold))
    async with ApiWorld(home=tmp_path / "home", provider=model) as api:
        stream = words("hi", stream=True)
        parser = api.events(CHAT, stream, headers=KEY)
        seen = ""
        async for event in parser:
            seen += event.data
            if "ans" in seen:
                break
        await parser.aclose()
        again = asyncio.create_task(_all(api, stream))
        await asyncio.sleep(0.05)
        hold.set()
        assert await again == "answer 1"
        assert len(model.requests) == 1
        assert await ended(api) == Finished()


async def _all(api: ApiWorld, body: object) -> str:
    return content([event async for event in api.events(CHAT, body, headers=KEY)])


async def test_streamed_or_not_it_is_the_same_request(tmp_path: Path) -> None:
    model = ScriptedModel(Counting())
    async with ApiWorld(home=tmp_path / "home", provider=model) as api:
        first = await api.post(CHAT, words("hi"), headers=KEY)
        usage = {"stream_options": {"include_usage": True}}
        assert first.json["choices"][0]["message"]["content"] == "answer 1"
        assert await _all(api, words("hi", stream=True, **usage)) == "answer 1"
        assert (await api.post(CHAT, words("hi", stream=False), headers=KEY)).json == first.json
        assert len(model.requests) == 1


def refused(heard: Heard) -> bool:
    return (heard.status, heard.json["error"]["code"]) == (422, "idempotency_key_reused")


async def test_the_same_key_for_something_else_is_an_error(tmp_path: Path) -> None:
    model = ScriptedModel(Counting())
    async with ApiWorld(home=tmp_path / "home", provider=model, config=TWO_KEYS) as api:
        await api.post(CHAT, words("hi"), headers=KEY)
        assert refused(await api.post(CHAT, words("something else"), headers=KEY))
        assert refused(await api.post(CHAT, words("hi"), headers={**KEY, "X-Hermes-Session-Id": "s"}))
        assert refused(await api.post(CHAT, words("hi"), headers={**KEY, "X-Hermes-Chat-Id": "c"}))
        assert refused(await api.post(CHAT, words("hi", model="helper"), headers=KEY))
        assert len(model.requests) == 1
        foreign = await api.post(CHAT, words("hi"), headers={**KEY, **PHONE})
        assert foreign.status == 200, "another client's key is another key"
        assert foreign.json["choices"][0]["message"]["content"] == "answer 2"


async def test_after_an_approval_the_repeat_gets_the_answer(tmp_path: Path) -> None:
    script = [call("danger", '{"token": "m1"}'), say("It is done.")]
    world = ApiWorld(
        home=tmp_path / "home", provider=ScriptedModel(script), tools=tuple(world_tools(nothing))
    )
    async with world as api:
        pending = await api.post(CHAT, words("go"), headers=KEY)
        same = await api.post(CHAT, words("go"), headers=KEY)
        assert same.json["hermes"]["pending"] == pending.json["hermes"]["pending"]
        question = pending.json["hermes"]["pending"]["id"]
        assert (await api.post(f"/v1/questions/{question}", {"choice": "once"})).status == 200
        heard = await api.post(CHAT, words("go"), headers=KEY)
        assert heard.json["choices"][0]["message"]["content"] == "It is done."


async def test_words_that_answered_a_question_are_not_said_twice(tmp_path: Path) -> None:
    script = [call("clarify", '{"question": "Which?"}'), say("Blue it is.")]
    world = ApiWorld(
        home=tmp_path / "home", provider=ScriptedModel(script), tools=tuple(world_tools(nothing))
    )
    session = {"X-Hermes-Session-Id": "s"}
    async with world as api:
        await api.post(CHAT, words("paint"), headers=session)
        first = await api.post(CHAT, words("blue"), headers={**session, **KEY})
        again = await api.post(CHAT, words("blue"), headers={**session, **KEY})
        assert first.json["choices"][0]["message"]["content"] == "Blue it is."
        assert first.data == again.data
        assert said(await journal(api, "s")) == ["paint"]
