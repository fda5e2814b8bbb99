"""How much may run at once: for each key, in all, and in the gateway. Who cannot be let in is told so."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest

from hermes.control.sessions.submission import Submission
from hermes.domain.chats.address import LOCAL_DOOR, Address, Source, SourceKind
from hermes.domain.ids import MAIN_AGENT, CallId, TurnId
from hermes.domain.ports.agent import ModelEnd, ModelPiece, ModelRequest
from hermes.domain.tools.tool import ToolCall
from hermes.domain.turns.event import TextDelta, ToolFinished
from hermes.domain.turns.turn import TurnInput
from hermes.entry.http.site.admission import OWNER, Principal
from hermes.entry.http.site.run_limits import RunLimits
from hermes.testing.api import ApiWorld, Heard
from hermes.testing.model import Say, ScriptedModel, last_words, say
from hermes.testing.tools import world_tools
from tests.entry.http.talking import CHAT, PHONE, PHONE_KEY, words

WEATHER = {"type": "function", "function": {"name": "weather", "parameters": {"type": "object"}}}


class Waiter:
    """A model that answers when it is told to; `asked` counts the calls that wait for it."""

    def __init__(self) -> None:
        self.go = asyncio.Event()
        self.asked = 0

    async def call(self, request: ModelRequest) -> AsyncIterator[ModelPiece]:
        self.asked += 1
        await self.go.wait()
        yield TextDelta(text="done")
        yield ModelEnd()

    async def has(self, number: int) -> None:
        for _ in range(10_000):
            if self.asked >= number:
                return
            await asyncio.sleep(0.005)
        raise AssertionError(f"{self.asked} calls instead of {number}")


def asks_first(request: ModelRequest) -> Say:
    if request.tools and request.tools[-1].name == "weather":
        return Say(calls=(ToolCall(id=CallId("c_1"), name="weather", arguments="{}"),))
    return say("fine")


class AskingWaiter(Waiter):
    """A model that asks first, for an approval or for its client's tool, and waits once it was answered."""

    async def call(self, request: ModelRequest) -> AsyncIterator[ModelPiece]:
        if last_words(request) != "ok" or isinstance(request.entries[-1].record, ToolFinished):
            pieces = super().call(request)
        else:
            name = "weather" if request.tools[-1].name == "weather" else "danger"
            asks = Say(calls=(ToolCall(id=CallId("c_1"), name=name, arguments='{"token": "m"}'),))
            pieces = ScriptedModel([asks]).call(request)
        async for piece in pieces:
            yield piece


def settings(*, max_running: int = 512, **server: object) -> str:
    keys = {"phone": {"key": PHONE_KEY, "max_runs": 2}}
    return json.dumps(
        {"gateway": {"max_running": max_running}, "platforms": {"api_server": {"keys": keys, **server}}}
    )


def begin(api: ApiWorld, number: int, **options: object) -> list[asyncio.Task[Heard]]:
    return [asyncio.create_task(api.post(CHAT, words(f"{n}"), **options)) for n in range(number)]


def is_refused(heard: Heard) -> bool:
    assert heard.status in (200, 429), heard.data
    if heard.status == 429:
        assert heard.json["error"]["code"] == "rate_limit_exceeded"
        assert 1 <= int(heard.headers["Retry-After"]) <= 60
    return heard.status == 429


async def test_calls_that_nobody_answers_use_up_nothing(tmp_path: Path) -> None:
    model = ScriptedModel(asks_first)
    async with ApiWorld(home=tmp_path, provider=model, config=settings(max_concurrent_runs=3)) as api:
        for _ in range(6):
            heard = await api.post(CHAT, words("rain?", tools=[WEATHER]))
            assert heard.json["choices"][0]["finish_reason"] == "tool_calls"
        assert (await api.post(CHAT, words("hi"))).status == 200
        runs = (await api.get("/v1/runs")).json["data"]
        assert [run["status"] for run in runs] == ["waiting_for_approval"] * 6
        assert all(run["questions"][0]["kind"] == "client_tool" for run in runs)
        assert (await api.get("/v1/runs", headers=PHONE)).json["data"] == []
        health = (await api.get("/health/detailed")).json
        assert health["queues"]["turns"]["waiting"] == 6 and health["queues"]["questions"] == 6


async def test_each_key_has_its_own_limit(tmp_path: Path) -> None:
    model = Waiter()
    async with ApiWorld(home=tmp_path, provider=model, config=settings()) as api:
        phone = begin(api, 2, headers=PHONE)
        await model.has(2)
        assert is_refused(await api.post(CHAT, words("more"), headers=PHONE))
        assert is_refused(await api.post("/v1/runs", {"input": "more"}, headers=PHONE))
        assert is_refused(await api.post("/v1/responses", {"input": "more"}, headers=PHONE))
        own = begin(api, 3)
        await model.has(5)
        model.go.set()
        assert not any([is_refused(await each) for each in (*phone, *own)])
        assert not is_refused(await api.post(CHAT, words("again"), headers=PHONE))


async def test_the_limit_holds_for_requests_that_come_together(tmp_path: Path) -> None:
    model = Waiter()
    async with ApiWorld(home=tmp_path, provider=model, config=settings(max_runs_per_client=3)) as api:
        asked = begin(api, 10)
        _, waiting = await asyncio.wait(asked, timeout=60, return_when=asyncio.FIRST_COMPLETED)
        while sum(task.done() for task in asked) < 7:
            _, waiting = await asyncio.wait(waiting, timeout=60, return_when=asyncio.FIRST_COMPLETED)
        model.go.set()
        assert sorted([is_refused(await each) for each in asked]) == [False] * 3 + [True] * 7
        assert model.asked == 3


async def test_where_no_turn_has_a_place_clients_are_told_and_runs_wait(tmp_path: Path) -> None:
    model = Waiter()
    config = settings(max_running=2, max_concurrent_runs=10)
    async with ApiWorld(home=tmp_path, provider=model, config=config) as api:
        asked = begin(api, 2)
        await model.has(2)
        heard = await api.post(CHAT, words("more"))
        assert is_refused(heard) and "runs 2 turns" in heard.json["error"]["message"]
        run = await api.post("/v1/runs", {"input": "later"})
        assert run.status == 202
        shown = await api.get(f"/v1/runs/{run.json['run_id']}")
        assert shown.json["status"] == "queued"
        model.go.set()
        assert not any([is_refused(await each) for each in asked])
        path = f"/v1/runs/{run.json['run_id']}/events"
        names = [json.loads(event.data)["event"] async for event in api.events(path, method="GET")]
        assert names[-1] == "run.completed"


async def test_a_repeat_joins_its_run_although_the_key_is_at_its_limit(tmp_path: Path) -> None:
    model = Waiter()
    async with ApiWorld(home=tmp_path, provider=model, config=settings(max_runs_per_client=1)) as api:
        named = {"Idempotency-Key": "one"}
        first = asyncio.create_task(api.post(CHAT, words("hi"), headers=named))
        await model.has(1)
        again = asyncio.create_task(api.post(CHAT, words("hi"), headers=named))
        assert is_refused(await api.post(CHAT, words("hi"), headers={"Idempotency-Key": "two"}))
        model.go.set()
        assert [(await each).status for each in (first, again)] == [200, 200] and model.asked == 1


async def test_many_streams_leave_room_for_others_and_end_with_their_clients(
    tmp_path: Path, full: bool
) -> None:
    """With the limits that nobody set: a model that hangs in every stream of one key stops nobody else."""
    many = 300 if full else 40
    model = Waiter()
    config = f"platforms: {{api_server: {{keys: {{phone: {{key: {PHONE_KEY}}}}}}}}}\n"
    async with ApiWorld(home=tmp_path, provider=model, config=config) as api:
        api.http.connector._limit = 0  # type: ignore[union-attr]
        streams = [api.http.post(api.address + CHAT, json=words(f"{n}", stream=True)) for n in range(many)]
        opened = await asyncio.gather(*streams)
        await model.has(many)
        other = asyncio.create_task(api.post(CHAT, words("hi"), headers=PHONE))
        await model.has(many + 1)
        for response in opened:
            response.close()
        for _ in range(10_000):
            states = (await api.get("/health/detailed")).json["queues"]["turns"]
            if states == {"running": 1}:
                break
            await asyncio.sleep(0.01)
        assert states == {"running": 1}, "who left is not worked for any more"
        model.go.set()
        assert (await other).status == 200


async def test_turns_of_other_doors_do_not_count(tmp_path: Path) -> None:
    model = Waiter()
    async with ApiWorld(home=tmp_path, provider=model, config=settings(max_concurrent_runs=1)) as api:
        source = Source(address=Address(platform=LOCAL_DOOR, chat="desk"), kind=SourceKind.PRIVATE)
        here = Submission(agent=MAIN_AGENT, source=source, input=TurnInput(text="hi"))
        await api.app.gateway.submit(here)
        await model.has(1)
        asked = begin(api, 1)
        await model.has(2)
        model.go.set()
        assert not is_refused(await asked[0])


def test_when_to_come_back_follows_from_how_long_runs_take() -> None:
    now, ended = [0.0], set[TurnId]()
    phone = Principal(name="phone", max_runs=2)
    limits = RunLimits(4, 3, lambda turn: turn not in ended, lambda: now[0])

    def after(principal: Principal) -> str:
        refused = limits.refusal(principal)
        return "" if refused is None else refused.headers["Retry-After"]

    with limits.hold(phone), limits.hold(phone):
        assert after(phone) == "6", "nothing is known yet"
    for number in (1, 2):
        limits.note(phone, TurnId(f"turn_{number}"))
    assert after(phone) == "1" and after(OWNER) == ""
    now[0] = 40.0
    assert after(phone) == "21", "two that take 40 s end every 20 s"
    for number in (3, 4):
        limits.note(OWNER, TurnId(f"turn_{number}"))
    assert after(OWNER) == "6", "80 s of four"
    now[0] = 4000.0
    assert after(phone) == "60"
    ended.add(TurnId("turn_1"))
    assert after(phone) == after(OWNER) == ""


@pytest.mark.parametrize("value", ["0", "many", "[1]"])
async def test_a_limit_that_cannot_be_read_leaves_the_key_without_rights(tmp_path: Path, value: str) -> None:
    config = f"platforms: {{api_server: {{keys: {{phone: {{key: {PHONE_KEY}, max_runs: {value}}}}}}}}}\n"
    async with ApiWorld(home=tmp_path / "home", config=config) as api:
        assert (await api.post(CHAT, words("hi"), headers=PHONE)).status == 403
        assert (await api.post(CHAT, words("hi"))).status == 200


async def _nothing(name: str, key: str, token: str) -> None:
    pass


def asking_world(home: Path, model: AskingWaiter, **server: object) -> ApiWorld:
    return ApiWorld(home=home, provider=model, tools=tuple(world_tools(_nothing)), config=settings(**server))


class Answerer:
    """A run that waits for its client, and the one request that answers it."""

    def __init__(self, path: str, body: dict[str, object], run: str) -> None:
        self.path, self.body, self.run = path, body, run


async def _by_words(api: ApiWorld) -> Answerer:
    heard = await api.post(CHAT, words("ok"), headers=PHONE)
    asked = {"role": "assistant", "content": heard.json["choices"][0]["message"]["content"]}
    talk = [{"role": "user", "content": "ok"}, asked, {"role": "user", "content": "yes"}]
    return Answerer(CHAT, {"messages": talk}, heard.json["hermes"]["run_id"])


async def _by_results(api: ApiWorld) -> Answerer:
    heard = await api.post(CHAT, words("ok", tools=[WEATHER]), headers=PHONE)
    asked = heard.json["choices"][0]["message"]
    result = {"role": "tool", "tool_call_id": asked["tool_calls"][0]["id"], "content": "rain"}
    body = {"messages": [{"role": "user", "content": "ok"}, asked, result], "tools": [WEATHER]}
    return Answerer(CHAT, body, heard.headers["X-Hermes-Run-Id"])


async def _by_question(api: ApiWorld) -> Answerer:
    asked = (await api.post(CHAT, words("ok"), headers=PHONE)).json["hermes"]
    return Answerer(f"/v1/questions/{asked['pending']['id']}", {"choice": "once"}, asked["run_id"])


async def _by_run(api: ApiWorld) -> Answerer:
    asked = (await api.post(CHAT, words("ok"), headers=PHONE)).json["hermes"]
    return Answerer(f"/v1/runs/{asked['run_id']}/approval", {"choice": "once"}, asked["run_id"])


async def _by_response(api: ApiWorld) -> Answerer:
    tool = {"type": "function", "name": "weather", "parameters": {"type": "object"}}
    heard = (await api.post("/v1/responses", {"input": "ok", "tools": [tool]}, headers=PHONE)).json
    call = next(item for item in heard["output"] if item["type"] == "function_call")
    result = {"type": "function_call_output", "call_id": call["call_id"], "output": "rain"}
    body = {"input": [result], "tools": [tool], "previous_response_id": heard["id"]}
    return Answerer("/v1/responses", body, "run_" + heard["id"].removeprefix("resp_"))


async def _by_response_words(api: ApiWorld) -> Answerer:
    heard = (await api.post("/v1/responses", {"input": "ok"}, headers=PHONE)).json
    body: dict[str, object] = {"input": "yes", "previous_response_id": heard["id"]}
    return Answerer("/v1/responses", body, "run_" + heard["id"].removeprefix("resp_"))


ANSWERERS = (_by_words, _by_results, _by_question, _by_run, _by_response, _by_response_words)


@pytest.mark.parametrize("wait_for", ANSWERERS)
async def test_runs_that_are_continued_count_as_new_ones_do(
    wait_for: Callable[[ApiWorld], Awaitable[Answerer]], tmp_path: Path
) -> None:
    """The key may have two runs at once, however many of its own it answers; what is refused is not lost."""
    model = AskingWaiter()
    async with asking_world(tmp_path / "home", model) as api:
        waiting = [await wait_for(api) for _ in range(5)]

        async def answer(each: Answerer) -> Heard:
            return await api.post(each.path, each.body, headers=PHONE)

        answers = [asyncio.create_task(answer(each)) for each in waiting]
        await model.has(2)
        left: set[asyncio.Task[Heard]] = set(answers)
        while sum(task.done() and is_refused(task.result()) for task in answers) < 3:
            _, left = await asyncio.wait(left, timeout=60, return_when=asyncio.FIRST_COMPLETED)
        assert model.asked == 2
        assert is_refused(await api.post(CHAT, words("more"), headers=PHONE)), "they count for new ones, too"
        own = asyncio.create_task(api.post(CHAT, words("hi")))
        await model.has(3)
        model.go.set()
        assert (await own).status == 200
        refused = [each for each, task in zip(waiting, answers, strict=True) if is_refused(await task)]
        assert len(refused) == 3
        for each in refused:
            for _ in range(10_000):
                if not is_refused(await answer(each)):
                    break
                await asyncio.sleep(0.005)
        for each in waiting:
            path = f"/v1/runs/{each.run}/events"
            told = api.events(path, method="GET", headers=PHONE)
            assert [json.loads(event.data)["event"] async for event in told][-1] == "run.completed"
        assert model.asked == 6


async def test_who_is_shown_a_question_has_its_place_back(tmp_path: Path) -> None:
    """As many clients as there are places, and each asks again as soon as it has its question."""
    model = AskingWaiter()
    async with asking_world(tmp_path / "home", model, max_runs_per_client=2) as api:

        async def ask() -> list[int]:
            return [(await api.post(CHAT, words("ok"))).status for _ in range(15)]

        assert await asyncio.gather(ask(), ask()) == [[200] * 15, [200] * 15]


async def test_a_repeated_request_is_answered_also_without_a_place(tmp_path: Path) -> None:
    model, key = Waiter(), {"Idempotency-Key": "k"}
    async with ApiWorld(home=tmp_path, provider=model, config=settings(max_running=1)) as api:
        model.go.set()
        first = await api.post(CHAT, words("hi"), headers=key)
        model.go.clear()
        source = Source(address=Address(platform=LOCAL_DOOR, chat="local"), kind=SourceKind.PRIVATE, user="x")
        await api.app.gateway.ask(Submission(agent=MAIN_AGENT, source=source, input=TurnInput(text="long")))
        await model.has(2)
        again = await api.post(CHAT, words("hi"), headers=key)
        assert (again.status, again.json) == (200, first.json)
        assert (await api.post(CHAT, words("hi"), headers={"Idempotency-Key": "other"})).status == 429
        model.go.set()


async def test_a_turn_that_a_later_try_joined_outlives_the_first_connection(tmp_path: Path) -> None:
    model = Waiter()
    async with ApiWorld(home=tmp_path, provider=model) as api:

        def ask(tries: int) -> asyncio.Task[Heard]:
            counted = {"X-Stainless-Retry-Count": str(tries)}
            return asyncio.create_task(api.post(CHAT, words("slow"), headers=counted))

        async def watched_by(number: int) -> None:
            for _ in range(3000):
                watchers = [feed.watchers for feed in api.app.gateway.feeds._feeds.values()]
                if sum(watchers) == number:
                    return
                await asyncio.sleep(0.01)
            raise AssertionError(f"{watchers} watch instead of {number}")

        first = ask(0)
        await model.has(1)
        await watched_by(1)
        second = ask(1)
        await watched_by(2)
        first.cancel()
        await watched_by(1)
        await asyncio.sleep(0.2)  # what would stop it has its time
        model.go.set()
        heard = await second
        assert heard.status == 200 and heard.json["choices"][0]["message"]["content"] == "done"
        assert model.asked == 1
        model.go.clear()
        third = ask(0)
        await model.has(2)
        third.cancel()
        for _ in range(3000):
            if not api.app.gateway.feeds._feeds:
                return
            await asyncio.sleep(0.01)
        raise AssertionError("nobody watches it, and it goes on")
