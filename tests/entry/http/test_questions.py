"""Questions over HTTP: on a stream, in place of an answer, and answered by who was asked."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from hermes.control.sessions.submission import Submission
from hermes.domain.address import Address, Source, SourceKind
from hermes.domain.event import Answered, Finished, Stopped, Verdict
from hermes.domain.ids import MAIN_AGENT
from hermes.domain.sse import SseEvent
from hermes.domain.turn import TurnInput
from hermes.testing.api import ApiWorld
from hermes.testing.model import Say, ScriptedModel, call, say
from hermes.testing.tools import world_tools
from tests.entry.http.talking import CHAT, PHONE, TWO_KEYS, chunks, content, ended, journal, told, words

DANGER = call("danger", '{"token": "m1", "command": "rm -r old"}')
ASK = call("clarify", '{"question": "Which colour?", "options": ["red", "blue"]}')
SESSION = {"X-Hermes-Session-Id": "s"}


class Asking:
    """A world whose model asks, and what its tools did there."""

    def __init__(self, home: Path, script: Sequence[Say], config: str = "") -> None:
        self.done: list[str] = []
        self.model = ScriptedModel(list(script))
        self.api = ApiWorld(
            home=home, provider=self.model, tools=tuple(world_tools(self._act)), config=config
        )

    async def _act(self, name: str, key: str, token: str) -> None:
        self.done.append(f"{name} {token}")

    async def __aenter__(self) -> Asking:
        await self.api.__aenter__()
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.api.__aexit__(*exc)

    async def pending(self, headers: dict[str, str] | None = None) -> dict[str, Any]:
        """Ask in one piece; the question that comes instead of the answer."""
        heard = await self.api.post(CHAT, words("go"), headers=headers or {})
        assert heard.status == 200
        pending: dict[str, Any] = heard.json["hermes"]
        return pending


async def test_an_approval_is_an_event_and_the_stream_goes_on_after_it(tmp_path: Path) -> None:
    async with Asking(tmp_path / "home", [DANGER, say("It is done.")]) as world:
        events: list[SseEvent] = []
        async for event in world.api.events(CHAT, words("go", stream=True)):
            events.append(event)
            if event.name == "hermes.approval.request":
                (asked,) = told(events, "hermes.approval.request")
                assert asked["action"] == "rm -r old"
                assert (asked["kind"], asked["text"]) == ("approval", "May I do m1?")
                assert asked["options"] == ["once", "session", "always", "deny"]
                assert not world.done
                run = await world.api.get(f"/v1/questions/{asked['id']}")
                assert (run.json["run_id"], run.json["session_id"]) == (asked["run_id"], asked["session_id"])
                assert run.json["status"] == "open"
                heard = await world.api.post(f"/v1/questions/{asked['id']}", {"choice": "approve"})
                assert (heard.status, heard.json["status"], heard.json["choice"]) == (200, "answered", "once")
        assert world.done == ["danger m1"]
        assert content(events) == "It is done.", "the question is no part of the answer"
        (responded,) = told(events, "hermes.approval.responded")
        assert (responded["id"], responded["choice"]) == (asked["id"], "once")


async def test_in_one_piece_the_question_is_answered_at_once_and_the_turn_waits(tmp_path: Path) -> None:
    async with Asking(tmp_path / "home", [DANGER, say("It is done.")]) as world:
        heard = await world.api.post(CHAT, words("go"))
        choice, rest = heard.json["choices"][0], heard.json["hermes"]
        assert (choice["message"]["content"], choice["finish_reason"]) == ("May I do m1?", "stop")
        assert rest["completed"] is False
        assert heard.headers["X-Hermes-Completed"] == "false"
        pending = rest["pending"]
        assert (pending["action"], pending["kind"]) == ("rm -r old", "approval")
        assert pending["expires_at"] > 0
        assert rest["run_id"] == heard.headers["X-Hermes-Run-Id"]
        assert rest["session_id"] == heard.headers["X-Hermes-Session-Id"]
        listed = await world.api.get("/v1/questions")
        assert [one["id"] for one in listed.json["data"]] == [pending["id"]]
        await world.api.post(f"/v1/questions/{pending['id']}", {"choice": "deny"})
        assert await ended(world.api) == Finished()
        assert world.done == []
        assert (await world.api.get("/v1/questions")).json["data"] == []


async def test_a_parked_turn_outlives_a_restart(tmp_path: Path) -> None:
    home = tmp_path / "home"
    async with Asking(home, [DANGER]) as world:
        rest = await world.pending()
    async with Asking(home, [say("It is done.")]) as world:
        heard = await world.api.post(f"/v1/questions/{rest['pending']['id']}", {"choice": "yes"})
        assert heard.status == 200
        assert await ended(world.api) == Finished()
        assert world.done == ["danger m1"]


@pytest.mark.parametrize(
    ("word", "verdict"),
    [("once", "once"), ("allow", "once"), ("YES", "once"), ("session", "session"), ("always", "always")],
)
async def test_the_words_of_a_decision(word: str, verdict: str, tmp_path: Path) -> None:
    async with Asking(tmp_path / "home", [DANGER, say("ok")]) as world:
        rest = await world.pending(SESSION)
        path = f"/v1/questions/{rest['pending']['id']}"
        for wrong in ({}, {"choice": "perhaps"}, {"choice": ""}, {"text": "do it"}):
            refused = await world.api.post(path, wrong)
            assert (refused.status, refused.json["error"]["param"]) == (400, "choice")
        assert (await world.api.post(path, {"choice": word})).json["choice"] == verdict
        await ended(world.api)
        answers = [one.record for one in await journal(world.api, "s") if isinstance(one.record, Answered)]
        assert [(one.verdict.value, one.by) for one in answers] == [(verdict, "default")]


async def test_who_comes_late_is_told_what_became_of_it(tmp_path: Path) -> None:
    async with Asking(tmp_path / "home", [DANGER, say("ok")]) as world:
        rest = await world.pending()
        path = f"/v1/questions/{rest['pending']['id']}"
        answers = await asyncio.gather(*(world.api.post(path, {"choice": "deny"}) for _ in range(10)))
        assert sorted(one.status for one in answers) == [200] + [409] * 9
        late = await world.api.post(path, {"choice": "once"})
        assert (late.status, late.json["error"]["code"]) == (409, "question_closed")
        assert late.json["error"]["message"] == "This was already denied. (denied)"
        assert (await world.api.get(path)).json["status"] == "denied"
        assert world.done == []


async def test_foreign_questions_are_not_there(tmp_path: Path) -> None:
    async with Asking(tmp_path / "home", [DANGER], config=TWO_KEYS) as world:
        rest = await world.pending()
        path = f"/v1/questions/{rest['pending']['id']}"
        assert (await world.api.get("/v1/questions", headers=PHONE)).json["data"] == []
        assert (await world.api.get(path, headers=PHONE)).status == 404
        assert (await world.api.post(path, {"choice": "once"}, headers=PHONE)).status == 404
        assert (await world.api.get("/v1/questions/q_nothing")).status == 404
        assert len((await world.api.get("/v1/questions")).json["data"]) == 1


async def test_what_another_door_was_asked_can_be_seen_but_not_answered(tmp_path: Path) -> None:
    """A key for everything may look at a person's approval in a chat, and never give it."""
    source = Source(address=Address(platform="fake", chat="1"), kind=SourceKind.PRIVATE, user="ann")
    async with Asking(tmp_path / "home", [DANGER]) as world:
        given = TurnInput(text="go")
        turn = await world.api.app.gateway.submit(Submission(agent=MAIN_AGENT, source=source, input=given))
        for _ in range(4000):
            if found := (await world.api.get("/v1/questions")).json["data"]:
                break
            await asyncio.sleep(0.01)
        path = f"/v1/questions/{found[0]['id']}"
        heard = await world.api.post(path, {"choice": "once"})
        assert (heard.status, heard.json["error"]["code"]) == (403, "not_asked")
        headers = {"X-Hermes-Session-Id": turn.session, "X-Hermes-User-Id": "ann"}
        claimed = await world.api.post(CHAT, words("yes"), headers=headers)
        assert (claimed.status, claimed.json["error"]["code"]) == (409, "question_open")
        assert (await world.api.get(path)).json["status"] == "open"
        assert world.done == []


# --- clarifications ---


@pytest.mark.parametrize("stream", [True, False])
async def test_a_question_in_words_is_the_answer_and_the_next_words_are_its(
    stream: bool, tmp_path: Path
) -> None:
    async with Asking(tmp_path / "home", [ASK, say("Blue it is.")]) as world:
        if stream:
            body = words("paint it", stream=True)
            events = [event async for event in world.api.events(CHAT, body, headers=SESSION)]
            last = chunks(events)[-1]
            text, reason, rest = content(events), last["choices"][0]["finish_reason"], last["hermes"]
        else:
            heard = await world.api.post(CHAT, words("paint it"), headers=SESSION)
            choice = heard.json["choices"][0]
            text, reason, rest = choice["message"]["content"], choice["finish_reason"], heard.json["hermes"]
        assert (text, reason) == ("Which colour?\n\n1. red\n2. blue", "stop")
        assert (rest["pending"]["kind"], rest["pending"]["options"]) == ("clarify", ["red", "blue"])
        heard = await world.api.post(CHAT, words("2"), headers=SESSION)
        assert heard.json["choices"][0]["message"]["content"] == "Blue it is."
        assert heard.headers["X-Hermes-Run-Id"] == rest["run_id"], "the same turn goes on"
        answers = [one.record for one in await journal(world.api, "s") if isinstance(one.record, Answered)]
        assert [(one.verdict, one.text) for one in answers] == [(Verdict.REPLY, "blue")]


async def test_a_clarification_is_answered_in_words_or_by_an_option(tmp_path: Path) -> None:
    async with Asking(tmp_path / "home", [ASK, say("ok")]) as world:
        rest = await world.pending(SESSION)
        path = f"/v1/questions/{rest['pending']['id']}"
        assert (await world.api.post(path, {})).status == 400
        assert (await world.api.post(path, {"text": " "})).status == 400
        heard = await world.api.post(path, {"text": "sky blue"})
        assert (heard.json["status"], heard.json["answer"]) == ("answered", "sky blue")
        assert await ended(world.api) == Finished()


async def test_yes_in_the_session_is_the_approval_and_other_words_are_not(tmp_path: Path) -> None:
    async with Asking(tmp_path / "home", [DANGER, say("It is done.")]) as world:
        await world.pending(SESSION)
        other = await world.api.post(CHAT, words("what is the time?"), headers=SESSION)
        assert (other.status, other.json["error"]["code"]) == (409, "question_open")
        heard = await world.api.post(CHAT, words("yes"), headers=SESSION)
        assert heard.json["choices"][0]["message"]["content"] == "It is done."
        assert world.done == ["danger m1"]


async def test_a_stream_whose_client_goes_away_while_it_waits_is_stopped(tmp_path: Path) -> None:
    async with Asking(tmp_path / "home", [DANGER]) as world:
        stream = world.api.events(CHAT, words("go", stream=True))
        async for event in stream:
            if event.name == "hermes.approval.request":
                break
        await stream.aclose()
        assert await ended(world.api) == Stopped(reason="client gone")
        assert world.done == []
        assert (await world.api.get("/v1/questions")).json["data"] == []
