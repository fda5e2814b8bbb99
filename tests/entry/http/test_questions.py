"""Questions over HTTP: on a stream, in place of an answer, and answered by who was asked."""

from __future__ import annotations

import asyncio
import json
from base64 import b64encode
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from hermes.control.sessions.submission import Submission
from hermes.domain.chats.address import Address, Source, SourceKind
from hermes.domain.ids import MAIN_AGENT, CallId
from hermes.domain.tools.tool import ToolCall
from hermes.domain.turns.event import Answered, Finished, UserSaid, Verdict
from hermes.domain.turns.turn import TurnInput
from hermes.domain.word import replace
from hermes.entry.http.ask.messages import SEE_PICTURE
from hermes.testing.api import ApiWorld
from hermes.testing.model import Say, ScriptedModel, call, say
from hermes.testing.tools import world_tools
from tests.entry.http.talking import (
    CHAT,
    PHONE,
    TWO_KEYS,
    beside,
    chunks,
    content,
    ended,
    journal,
    sessions,
    words,
)

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


async def test_a_stream_ends_with_an_approval_in_words_and_tells_of_it_beside_them(tmp_path: Path) -> None:
    key = {"Idempotency-Key": "k"}
    async with Asking(tmp_path / "home", [replace(DANGER, text="Wait."), say("It is done.")]) as world:
        body = words("go", stream=True)
        events = [event async for event in world.api.events(CHAT, body, headers=key)]
        (asked,) = beside(events, "hermes.approval.request")
        assert asked["action"] == "rm -r old"
        assert (asked["kind"], asked["text"]) == ("approval", "May I do m1?")
        assert asked["options"] == ["once", "session", "always", "deny"]
        how = f"Answer yes, session, always or no. (Question {asked['id']})"
        assert content(events) == f"Wait.\n\nMay I do m1?\n\n{how}"
        last = chunks(events)[-1]
        assert last["choices"][0]["finish_reason"] == "stop"
        assert last["hermes"]["pending"]["id"] == asked["id"]
        assert not world.done
        run = await world.api.get(f"/v1/questions/{asked['id']}")
        assert (run.json["run_id"], run.json["session_id"]) == (asked["run_id"], asked["session_id"])
        assert run.json["status"] == "open"
        heard = await world.api.post(f"/v1/questions/{asked['id']}", {"choice": "approve"})
        assert (heard.status, heard.json["status"], heard.json["choice"]) == (200, "answered", "once")
        events = [event async for event in world.api.events(CHAT, body, headers=key)]
        assert world.done == ["danger m1"]
        assert content(events) == "Wait.\n\nIt is done.", "a question that is answered is no part of it"
        (responded,) = beside(events, "hermes.approval.responded")
        assert (responded["id"], responded["choice"]) == (asked["id"], "once")


async def test_in_one_piece_the_question_is_answered_at_once_and_the_turn_waits(tmp_path: Path) -> None:
    async with Asking(tmp_path / "home", [DANGER, say("It is done.")]) as world:
        heard = await world.api.post(CHAT, words("go"))
        choice, rest = heard.json["choices"][0], heard.json["hermes"]
        how = f"Answer yes, session, always or no. (Question {rest['pending']['id']})"
        assert choice["message"]["content"] == f"May I do m1?\n\n{how}"
        assert (choice["finish_reason"], rest["completed"]) == ("stop", False)
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
        assert "yes" not in claimed.json["error"]["message"], "only who may say it is told the words"
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
        how = f"Your next message is the answer. (Question {rest['pending']['id']})"
        assert (text, reason) == (f"Which colour?\n\n1. red\n2. blue\n\n{how}", "stop")
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
        assert other.json["error"]["message"].endswith("Answer yes, session, always or no.")
        heard = await world.api.post(CHAT, words("yes"), headers=SESSION)
        assert heard.json["choices"][0]["message"]["content"] == "It is done."
        assert world.done == ["danger m1"]


# --- clients that name no session and send the whole conversation each time ---


async def question(world: Asking, *said_before: dict[str, Any], stream: bool, **more: object) -> str:
    """Say this; the words that come back, which ask something."""
    body = {"model": "hermes-agent", "messages": list(said_before), "stream": stream, **more}
    if stream:
        return content([event async for event in world.api.events(CHAT, body)])
    heard = await world.api.post(CHAT, body)
    assert heard.status == 200, heard.data
    return str(heard.json["choices"][0]["message"]["content"])


def user(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text}


def agent(text: str) -> dict[str, Any]:
    return {"role": "assistant", "content": text}


PAST = ({"role": "system", "content": "Be brief."}, user("hi"), agent("hello"), user("go"))


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize(("word", "done"), [("yes", ["danger m1"]), ("no", [])])
async def test_an_answer_after_the_whole_conversation_continues_the_run(
    word: str, done: list[str], stream: bool, tmp_path: Path
) -> None:
    """Also after a restart, and for a second question."""
    home = tmp_path / "home"
    async with Asking(home, [DANGER]) as world:
        asked = await question(world, *PAST, stream=stream)
    async with Asking(home, [ASK, say("Blue it is.")]) as world:
        second = await question(world, *PAST, agent(asked), user(word), stream=stream)
        assert second.startswith("Which colour?") and world.done == done
        third = await question(
            world, *PAST, agent(asked), user(word), agent(second), user("sky blue"), stream=stream
        )
        assert third == "Blue it is."
        assert len(await sessions(world.api)) == 1
        (session,) = await sessions(world.api)
        answers = [each.record for each in await journal(world.api, session.id)]
        verdicts = [(each.verdict, each.text) for each in answers if isinstance(each, Answered)]
        assert verdicts[1] == (Verdict.REPLY, "sky blue")


OTHER_PASTS = {
    "other words": (*PAST[:-1], user("go!")),
    "less": PAST[-1:],
    "more": (user("before"), *PAST),
}


@pytest.mark.parametrize("past", OTHER_PASTS.values(), ids=OTHER_PASTS.keys())
async def test_another_conversation_answers_nothing(past: tuple[dict[str, Any], ...], tmp_path: Path) -> None:
    async with Asking(tmp_path / "home", [DANGER, say("new")]) as world:
        asked = await question(world, *PAST, stream=False)
        assert await question(world, *past, agent(asked), user("yes"), stream=False) == "new"
        assert not world.done and len((await world.api.get("/v1/questions")).json["data"]) == 1


@pytest.mark.parametrize("role", ["system", "developer"])
async def test_instructions_that_hold_the_time_do_not_hinder_an_answer(role: str, tmp_path: Path) -> None:
    """Open WebUI and others write the date and the time into the system prompt of every request."""

    def at(time: str) -> dict[str, Any]:
        return {"role": role, "content": f"It is {time}."}

    async with Asking(tmp_path / "home", [DANGER, ASK, say("Blue it is.")]) as world:
        talk = [*PAST[1:]]
        first = await question(world, at("10:00"), *talk, stream=True)
        talk += [agent(first), user("yes")]
        second = await question(world, at("10:01"), *talk, stream=True)
        assert second.startswith("Which colour?") and world.done == ["danger m1"]
        talk += [agent(second), user("2")]
        assert await question(world, at("10:02"), *talk, stream=True) == "Blue it is."
        assert len(await sessions(world.api)) == 1


async def test_the_printed_id_the_key_and_an_answer_word_are_all_needed(tmp_path: Path) -> None:
    script = [DANGER, say("a"), say("b"), say("c"), say("d"), say("It is done.")]
    async with Asking(tmp_path / "home", script, config=TWO_KEYS) as world:
        asked = await question(world, *PAST, stream=False)
        without = asked.partition("(Question")[0]
        assert await question(world, *PAST, agent(without), user("yes"), stream=False) == "a"
        foreign = agent(asked.replace("q_", "q_0")[: len(asked)])
        assert await question(world, *PAST, foreign, user("yes"), stream=False) == "b"
        assert await question(world, *PAST, agent(asked), user("what is it?"), stream=False) == "c"
        body = {"messages": [*PAST, agent(asked), user("yes")]}
        heard = await world.api.post(CHAT, body, headers=PHONE)
        assert heard.json["choices"][0]["message"]["content"] == "d" and not world.done
        assert await question(world, *PAST, agent(asked), user("Yes."), stream=False) == "It is done."
        assert world.done == ["danger m1"]


def changed_questions(asked: str) -> list[str]:
    ident = asked[asked.index("(Question") :]
    return [
        f"Lovely weather? {ident}",
        f"{asked} and more",
        f"Something else.\n\n{asked}",
        asked.replace("May I do m1?", "May I read m1?"),
    ]


@pytest.mark.parametrize("number", range(4))
async def test_a_question_that_was_changed_is_not_answered(number: int, tmp_path: Path) -> None:
    async with Asking(tmp_path / "home", [DANGER, say("new"), say("It is done.")]) as world:
        asked = await question(world, *PAST, stream=False)
        other = changed_questions(asked)[number]
        assert await question(world, *PAST, agent(other), user("yes"), stream=False) == "new"
        assert not world.done
        assert await question(world, *PAST, agent(f" {asked}\n"), user("yes"), stream=False) == "It is done."
        assert world.done == ["danger m1"]


async def test_words_of_the_agent_before_a_question_belong_to_it(tmp_path: Path) -> None:
    async with Asking(tmp_path / "home", [replace(DANGER, text="Wait."), say("It is done.")]) as world:
        asked = await question(world, *PAST, stream=True)
        assert asked.startswith("Wait.")
        assert await question(world, *PAST, agent(asked), user("yes"), stream=True) == "It is done."


async def test_a_task_answers_and_continues_nothing(tmp_path: Path) -> None:
    tools = [{"type": "function", "function": {"name": "weather"}}]
    task = {"model": "hermes-agent:task"}
    script = [DANGER, say("A title"), call("weather"), say("Another")]
    async with Asking(tmp_path / "home", script) as world:
        asked = await question(world, *PAST, stream=False)
        body = {**task, "messages": [*PAST, agent(asked), user("yes")]}
        heard = await world.api.post(CHAT, body)
        assert heard.json["choices"][0]["message"]["content"] == "A title" and not world.done
        body = {"messages": [*PAST], "tools": tools}
        wanted = (await world.api.post(CHAT, body)).json["choices"][0]["message"]
        result = {"role": "tool", "tool_call_id": wanted["tool_calls"][0]["id"], "content": "rain"}
        heard = await world.api.post(CHAT, {**task, "messages": [*PAST, wanted, result]})
        assert heard.json["choices"][0]["message"]["content"] == "Another"
        assert len((await world.api.get("/v1/questions")).json["data"]) == 2


@pytest.mark.parametrize("stream", [True, False])
async def test_questions_that_are_open_together_are_asked_one_after_the_other(
    stream: bool, tmp_path: Path
) -> None:
    calls = tuple(
        ToolCall(id=CallId(f"c{n}"), name="danger", arguments=json.dumps({"token": f"m{n}"})) for n in (1, 2)
    )
    async with Asking(tmp_path / "home", [Say(calls=calls), say("It is done.")]) as world:
        first = await question(world, *PAST, stream=stream)
        assert "May I do m1?" in first and "m2" not in first
        talk = [*PAST, agent(first), user("yes")]
        second = await question(world, *talk, stream=stream)
        assert "May I do m2?" in second and "m1" not in second
        assert await question(world, *talk, agent(second), user("no"), stream=stream) == "It is done."
        assert world.done == ["danger m1"]


async def test_a_question_after_results_is_answered_by_the_same_rule(tmp_path: Path) -> None:
    tools = [{"type": "function", "function": {"name": "weather"}}]
    async with Asking(tmp_path / "home", [call("weather"), DANGER, say("It is done.")]) as world:
        body = {"model": "hermes-agent", "messages": [*PAST], "tools": tools}
        heard = await world.api.post(CHAT, body)
        calls = heard.json["choices"][0]["message"]["tool_calls"]
        results = (
            {"role": "assistant", "content": None, "tool_calls": calls},
            {"role": "tool", "tool_call_id": calls[0]["id"], "content": "rain"},
        )
        asked = await question(world, *PAST, *results, stream=True, tools=tools)
        assert "May I do m1?" in asked
        assert await question(world, *PAST, *results, agent(asked), user("yes"), stream=True) == "It is done."
        assert world.done == ["danger m1"]


# --- questions of responses, for clients that send the whole conversation each time ---


def _user(text: str) -> dict[str, object]:
    return {"role": "user", "content": text}


def _texts(response: dict[str, Any]) -> str:
    """As libraries put the texts of a response together."""
    parts = [part["text"] for item in response["output"] for part in item.get("content") or ()]
    return "".join(parts)


@pytest.mark.parametrize("store", [True, False])
async def test_words_after_a_question_answer_it_in_a_conversation_that_is_sent_whole(
    store: bool, tmp_path: Path
) -> None:
    look = Say(text="Let me look.", calls=call("read", '{"token": "m"}').calls)
    asking = Say(text="Well.", calls=ASK.calls)
    again = Say(text="", calls=(replace(ASK.calls[0], id=CallId("c2")),))
    async with Asking(tmp_path / "home", [look, asking, again, say("Blue it is.")]) as world:
        conversation: list[dict[str, object]] = [_user("please"), _user("paint it")]

        async def ask() -> dict[str, Any]:
            body = {"input": conversation, "store": store, "instructions": "be kind"}
            heard = (await world.api.post("/v1/responses", body)).json
            items = [{"type": "item_reference", "id": item["id"]} for item in heard["output"]]
            conversation.extend(items if store else heard["output"])
            return dict(heard)

        first = await ask()
        assert "(Question q_" in _texts(first)
        assert _texts(first).startswith("Let me look.\n\nWell.\n\nWhich colour?")
        conversation.append(_user("1"))
        second = await ask()
        assert second["id"] == f"{first['id']}_2" and second["hermes"]["pending"]
        conversation.append(_user("2"))
        third = await ask()
        assert (third["id"], _texts(third)) == (f"{first['id']}_3", "Blue it is.")
        answers = [
            one.record.text
            for one in await journal(world.api, first["hermes"]["session_id"])
            if isinstance(one.record, Answered)
        ]
        assert answers == ["red", "blue"] and len(await sessions(world.api)) == 1


async def test_instructions_of_a_response_that_hold_the_time_do_not_hinder_an_answer(tmp_path: Path) -> None:
    async with Asking(tmp_path / "home", [ASK, say("Blue it is.")]) as world:

        async def ask(time: str, *said: dict[str, object]) -> dict[str, Any]:
            body = {"input": said, "instructions": f"It is {time}.", "store": False}
            return dict((await world.api.post("/v1/responses", body)).json)

        (question,) = (await ask("10:00", _user("paint it")))["output"]
        assert _texts(await ask("10:01", _user("paint it"), question, _user("2"))) == "Blue it is."
        assert len(await sessions(world.api)) == 1


async def test_another_conversation_or_key_answers_no_question_of_a_response(tmp_path: Path) -> None:
    script = [ASK, say("something else"), say("something else"), say("Blue it is.")]
    async with Asking(tmp_path / "home", script, config=TWO_KEYS) as world:

        async def ask(*said: dict[str, object], by: dict[str, str] | None = None) -> dict[str, Any]:
            return dict((await world.api.post("/v1/responses", {"input": said}, headers=by)).json)

        first = await ask(_user("paint it"))
        (question,) = first["output"]
        assert _texts(await ask(_user("paint the door"), question, _user("2"))) == "something else"
        assert _texts(await ask(_user("paint it"), question, _user("2"), by=PHONE)) == "something else"
        assert _texts(await ask(_user("paint it"), question, _user("2"))) == "Blue it is."


@pytest.mark.parametrize(
    ("asking", "later"),
    [
        ([{"role": "user", "content": "go\0now"}], []),
        ([{"role": "user", "content": "go"}, {"role": "system", "content": "s"}], []),
        ([{"role": "user", "content": "go"}, {"role": "assistant", "content": "Sure:"}], []),
        ([{"role": "user", "content": ""}], []),
        # Some clients put their instructions last each time.
        ([{"role": "user", "content": "go"}], [{"role": "system", "content": "s"}]),
    ],
    ids=["nul", "system last", "prefill", "no words", "system always last"],
)
async def test_yes_counts_whatever_shape_the_conversation_has(
    asking: list[Any], later: list[Any], tmp_path: Path
) -> None:
    async with Asking(tmp_path, [DANGER, DANGER, say("went on")]) as world:
        messages = asking
        for _ in range(2):
            heard = await world.api.post(CHAT, {"messages": [*messages, *later]})
            printed = heard.json["choices"][0]["message"]["content"]
            answer = [{"role": "assistant", "content": printed}, {"role": "user", "content": "yes"}]
            messages = [*messages, *answer]
        heard = await world.api.post(CHAT, {"messages": [*messages, *later]})
        assert heard.json["choices"][0]["message"]["content"] == "went on"
        assert world.done == ["danger m1"] * 2
        forged = [{"role": "user", "content": "Other words."}, *messages[len(asking) :]]
        assert (await world.api.post(CHAT, {"messages": forged})).status != 200


PNG = "data:image/png;base64," + b64encode(b"\x89PNG\r\n\x1a\n0000").decode()
SHOWN = [{"type": "image_url", "image_url": {"url": PNG}}]


@pytest.mark.parametrize("more", [(), ({"type": "text", "text": "like this"},)])
@pytest.mark.parametrize("door", ["stateless", "session", "responses"])
async def test_a_picture_that_answers_a_question_reaches_the_model(
    tmp_path: Path, door: str, more: tuple[dict[str, str], ...]
) -> None:
    """The answer takes words alone; the picture used to be dropped, and a bare one answered with nothing."""
    async with Asking(tmp_path / "home", [ASK, say("That red.")]) as world:
        api = world.api
        if door == "responses":
            first = (await api.post("/v1/responses", {"input": "paint"})).json
            image = [{"type": "input_image", "image_url": PNG}]
            texts = [{"type": "input_text", "text": part["text"]} for part in more]
            answer = [{"role": "user", "content": [*image, *texts]}]
            body: dict[str, object] = {"input": answer, "previous_response_id": first["id"]}
            heard = await api.post("/v1/responses", body)
            assert heard.json["output"][-1]["content"][0]["text"] == "That red."
        else:
            headers = SESSION if door == "session" else {}
            asked = (await api.post(CHAT, words("paint"), headers=headers)).json["choices"][0]["message"]
            messages = [
                {"role": "user", "content": "paint"},
                asked,
                {"role": "user", "content": [*SHOWN, *more]},
            ]
            heard = await api.post(CHAT, {"messages": messages}, headers=headers)
            assert heard.json["choices"][0]["message"]["content"] == "That red."
        records = [entry.record for entry in world.model.requests[-1].entries]
    answered = next(record for record in records if isinstance(record, Answered))
    assert answered.text == ("like this" if more else SEE_PICTURE)
    pictures = [each for record in records if isinstance(record, UserSaid) for each in record.attachments]
    assert [picture.mime for picture in pictures] == ["image/png"]


@pytest.mark.parametrize("headers", [SESSION, {}])
async def test_a_named_persons_yes_is_a_yes(tmp_path: Path, headers: dict[str, str]) -> None:
    async with Asking(tmp_path / "home", [DANGER, say("Gone.")]) as world:
        first = {"role": "user", "content": "go", "name": "ann"}
        heard = await world.api.post(CHAT, {"messages": [first]}, headers=headers)
        asked = heard.json["choices"][0]["message"]
        said = {"role": "user", "content": "yes", "name": "bob"}
        heard = await world.api.post(CHAT, {"messages": [first, asked, said]}, headers=headers)
        assert heard.json["choices"][0]["message"]["content"] == "Gone."
    assert world.done == ["danger m1"]
