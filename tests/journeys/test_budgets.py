"""Budgets: what is spent is refused politely, and counted once, wherever the gateway is cut off."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from hermes.control.jobs.editing import JobSpec
from hermes.control.sessions.submission import SessionTarget, Submission
from hermes.control.turn.budgets import BudgetSpent
from hermes.domain.chats.address import Address, Source, SourceKind
from hermes.domain.ids import MAIN_AGENT, SessionId
from hermes.domain.models.call_options import CallOptions
from hermes.domain.models.model_facts import ModelFacts
from hermes.domain.ports.agent import ModelRequest
from hermes.domain.ports.store import Tx
from hermes.domain.settings.budgets import Budget
from hermes.domain.settings.settings import CronSettings, GatewaySettings, Settings
from hermes.domain.turns.event import Entry, Failed, calls_in
from hermes.domain.turns.job import RunState
from hermes.domain.turns.turn import Cause, ReplyPlace, TurnInput
from hermes.domain.word import replace
from hermes.testing.api import ApiWorld
from hermes.testing.clock import FakeClock, settle
from hermes.testing.harness import PATIENCE, Journey, open_settings
from hermes.testing.jobs import FakeJobWorld
from hermes.testing.model import Say, call, last_words, say
from hermes.testing.model_script import Pace, Reply
from hermes.testing.model_server import FakeModelServer
from tests.journeys.cut import cut_everywhere

ANN = Source(address=Address(platform="fake", chat="1"), kind=SourceKind.PRIVATE, user="u1")
DAY = 86400.0


def settings(**budgets: Budget) -> Settings:
    return open_settings(timezone="UTC", budgets=budgets)


def submission(number: int, key: str = "ci") -> Submission:
    address = Address(platform="api_server", account=key, chat=f"c{number}")
    source = Source(address=address, kind=SourceKind.API, user=f"somebody {number}")
    place = SessionTarget(session=SessionId(f"s{number}"), begin=True)
    return Submission(agent=MAIN_AGENT, source=source, input=TurnInput(text="hi"), place=place)


async def ask(chat: Journey, text: str, seen: str = "") -> None:
    chat.world.write(text)
    await chat.until_seen(seen or f"You said: {text}")
    await chat.until_idle()


def rows(tx: Tx) -> tuple[list[tuple[object, ...]], list[tuple[object, ...]]]:
    db = tx.budgets._db  # type: ignore[attr-defined]
    return db.all("SELECT * FROM budget_spend"), db.all("SELECT * FROM budget_holds")


async def test_without_budgets_there_are_no_rows(tmp_path: Path) -> None:
    async with Journey(folder=tmp_path) as chat:
        await ask(chat, "one")
        assert await chat.database.read(rows) == ([], [])


async def test_the_words_name_the_setting_of_an_agents_own_budget(tmp_path: Path) -> None:
    chosen = settings(**{"agents.main": Budget(agent="main", calls=1)})
    async with Journey(folder=tmp_path, clock=FakeClock(), settings=chosen) as chat:
        await ask(chat, "one")
        await ask(chat, "two", "The budget “agents.main” is spent")
        assert "can raise it (agents.main.budget in config.yaml)" in chat.world.seen()[-1]


async def test_a_spent_budget_is_said_and_renews(tmp_path: Path) -> None:
    clock = FakeClock()
    chosen = settings(family=Budget(person="*", calls=2))
    async with Journey(folder=tmp_path, clock=clock, settings=chosen) as chat:
        await ask(chat, "one")
        await ask(chat, "two")
        await ask(chat, "three", "The budget “family” is spent: 2 of 2 model calls today.")
        refused = chat.world.seen()[-1]
        assert "It begins anew at 2026-01-06 00:00 UTC." in refused
        assert "can raise it (budgets.family in config.yaml)" in refused
        chat.world.write("hello", chat="2", user="u2")
        await chat.until_seen("You said: hello", chat="2")
        await ask(chat, "/usage", "Budget “family”: 2 of 2 model calls spent, anew at 2026-01-06 00:00 UTC.")
        clock.jump(DAY)
        await ask(chat, "four")
        said = [entry.record for entry in chat.model.requests[-1].entries]
        assert "three" not in [getattr(record, "text", "") for record in said], "it was not heard"
        spent, held = await chat.database.read(rows)
        assert len(spent) == 3 and not held


async def test_a_turn_ends_when_its_budget_does(tmp_path: Path) -> None:
    script = [call("weather"), call("weather"), say("never said")]
    chosen = settings(all=Budget(calls=2, per="total"))
    async with Journey(folder=tmp_path, script=script, settings=chosen) as chat:
        await ask(chat, "go", "The budget “all” is spent: 2 of 2 model calls.")
        assert len(chat.model.requests) == 2
        spent, held = await chat.database.read(rows)
        assert [row[3] for row in spent] == [2] and not held


async def test_dollars_need_a_price(tmp_path: Path) -> None:
    chosen = settings(all=Budget(dollars=1.0))
    async with Journey(folder=tmp_path, settings=chosen) as chat:
        await ask(chat, "one", "the price of the model of this agent is not known")
        assert not chat.model.requests
    facts = ModelFacts(price_in=400_000.0, price_out=0.0)  # 0.4 dollars for a token, one for each record
    (tmp_path / "priced").mkdir()
    async with Journey(folder=tmp_path / "priced", settings=chosen, facts=facts) as chat:
        await ask(chat, "two")
        await ask(chat, "three")
        await ask(chat, "four", "is spent: $2.00 of $1.00 today")


async def test_who_waits_for_an_answer_is_refused_at_once_and_a_key_is_one_person(tmp_path: Path) -> None:
    chosen = settings(keys=Budget(person="api_server@*", calls=1))
    async with Journey(folder=tmp_path, settings=chosen) as chat:
        turn = await chat.gateway.submit(submission(1))
        async with asyncio.timeout(PATIENCE):
            [_ async for _ in chat.gateway.watch(MAIN_AGENT, turn.id)]
        with pytest.raises(BudgetSpent, match="“keys” is spent") as refused:
            await chat.gateway.submit(submission(2))
        assert refused.value.renews is not None
        assert await chat.database.read(lambda tx: tx.sessions.get(SessionId("s2"))) is None
        await chat.gateway.submit(submission(3, key="other"))


async def test_a_sum_that_cannot_be_read_denies(tmp_path: Path) -> None:
    chosen = settings(all=Budget(calls=100))
    async with Journey(folder=tmp_path, settings=chosen) as chat:
        await ask(chat, "one")
        spoil = "UPDATE budget_spend SET calls = 'many'"
        await chat.database.write(lambda tx: tx.budgets._db.run(spoil))  # type: ignore[attr-defined]
        await ask(chat, "two", "What was spent of the budget “all” cannot be read")


async def test_a_thousand_turns_at_once_stay_within_a_budget(tmp_path: Path, full: bool) -> None:
    turns, workers = (1000 if full else 300), 8
    chosen = open_settings(budgets={"all": Budget(calls=100)}, gateway=GatewaySettings(max_running=workers))
    asked = 0

    async def one(chat: Journey, number: int) -> str:
        try:
            turn = await chat.gateway.submit(submission(number))
        except BudgetSpent:
            return "refused"
        last = [item async for item in chat.gateway.watch(MAIN_AGENT, turn.id)][-1]
        assert isinstance(last, Entry)
        return "failed" if isinstance(last.record, Failed) else "answered"

    def script(request: ModelRequest) -> Say:
        nonlocal asked
        asked += 1
        return say("yes")

    async with Journey(folder=tmp_path, settings=chosen, script=script) as chat:
        async with asyncio.timeout(PATIENCE):
            ends = await asyncio.gather(*(one(chat, number) for number in range(turns)))
        assert ends.count("answered") == 100 and ends.count("refused") == turns - 100
        assert 100 <= asked <= 100 + workers


async def test_a_job_says_once_that_its_budget_is_spent(tmp_path: Path) -> None:
    clock = FakeClock()
    chosen = open_settings(
        timezone="UTC", cron=CronSettings(wrap_response=False), budgets={"jobs": Budget(job="*", calls=1)}
    )
    chat = Journey(
        folder=tmp_path,
        clock=clock,
        settings=chosen,
        kind="plain",
        jobs=FakeJobWorld(),
        script=lambda _: say("ok"),
    )
    async with chat:
        await chat.gateway.jobs(MAIN_AGENT).create(JobSpec(schedule="every 1h", prompt="look"), ANN)
        for _ in range(5):
            await clock.leap(3600.0)
            while True:
                await settle(3)
                runs = await chat.gateway.jobs(MAIN_AGENT).runs("", 100)
                if all(run.state is RunState.OVER for run in runs) and await chat.idle():
                    break
        assert len(runs) >= 4
        told = chat.world.seen("1")
        assert told[0] == "ok" and "“jobs” is spent" in told[1] and len(told) == 2


# --- however it is cut off ---


async def counted(chat: Journey) -> tuple[int, int, int]:
    """Calls on record, calls spent, shares that are still held."""

    def entries(tx: Tx) -> list[Entry]:
        return [entry for session in tx.sessions.find("") for entry in tx.journal.read(session.id)]

    calls = calls_in(entry.record for entry in await chat.database.read(entries))
    spent, held = await chat.database.read(rows)
    return len(calls), sum(int(str(row[3])) for row in spent), len(held)


def twice(request: ModelRequest) -> Say:
    """Calls a tool first, then answers."""
    last = request.entries[-1].record
    words = last_words(request)
    return call("weather") if not hasattr(last, "call") and words == "two" else say(f"You said: {words}")


async def story(chat: Journey) -> None:
    for text, seen in (
        ("one", "You said: one"),
        ("two", "You said: two"),
        ("three", "is spent: 3 of 3 model calls"),
    ):
        if all(update.text != text for update in chat.world.updates):
            chat.world.write(text)
        await chat.until_seen(seen)
        await chat.until_idle()
    assert await counted(chat) == (3, 3, 0)


@pytest.mark.parametrize("after", [True, False], ids=["after", "before"])
async def test_a_budget_is_right_however_it_is_stopped(tmp_path: Path, full: bool, after: bool) -> None:
    def make(folder: Path) -> Journey:
        chosen = open_settings(budgets={"all": Budget(calls=3, per="total")})
        return Journey(folder=folder, settings=chosen, script=twice)

    await cut_everywhere(tmp_path, make, story, after=after, full=full)


async def test_who_leaves_before_the_last_word_has_spent_all_the_same(tmp_path: Path) -> None:
    """Services bill a call whether or not somebody hears its end."""
    slow = Reply(text="word " * 400, pace=Pace(between=0.01, sizes=(50,)))
    config = "budgets: {each: {person: '*', per: day, calls: 3}}\n"
    async with FakeModelServer(lambda request: slow) as server:
        model = f"model: {{default: fake-model, base_url: '{server.base_url}'}}\n"
        async with ApiWorld(home=tmp_path / "home", provider=None, config=config + model) as api:
            statuses = []
            for number in range(6):
                body = {"messages": [{"role": "user", "content": f"hi {number}"}], "stream": True}
                async with api.http.post(
                    f"{api.address}/v1/chat/completions",
                    json={"model": "hermes-agent", **body},
                    headers={"Authorization": f"Bearer {api.key}"},
                ) as answer:
                    statuses.append(answer.status)
                    if answer.status == 200:
                        async for _ in answer.content:
                            break
                async with asyncio.timeout(PATIENCE):
                    while True:
                        work = await api.app.gateway.open_work()
                        if not work.turns:
                            break
                        await asyncio.sleep(0.02)
            assert statuses == [200, 200, 200, 429, 429, 429]
            told = await api.get("/v1/usage?by=person")
            assert [line["calls"] for line in told.json["groups"]] == [3]
            assert all(line["prompt_tokens"] > 1000 for line in told.json["groups"])


async def test_a_webhook_that_is_answered_in_a_chat_is_held_to_the_budget(tmp_path: Path) -> None:
    async with Journey(folder=tmp_path, settings=settings(all=Budget(calls=2))) as chat:
        for number in range(5):
            address = Address(platform="webhook", account="ci", chat=f"d{number}")
            words = Submission(
                agent=MAIN_AGENT,
                source=Source(address=address, kind=SourceKind.WEBHOOK, user="ci"),
                input=TurnInput(text=f"hook {number}"),
                place=SessionTarget(session=SessionId(f"w{number}"), begin=True),
                reply=ReplyPlace(to=Address(platform="fake", chat="1")),
                cause=Cause.WEBHOOK,
            )
            await chat.gateway.submit(words)
            await chat.until_idle()
        assert len(chat.model.requests) == 2
        assert [row[3] for row in (await chat.database.read(rows))[0]] == [2]


async def test_a_reply_that_is_ended_at_a_word_is_a_call(tmp_path: Path) -> None:
    """Where the service does not know such words, the reply ends here and is billed there."""
    chosen = settings(all=Budget(calls=2))
    async with Journey(folder=tmp_path, script=lambda request: say("one STOP two"), settings=chosen) as chat:
        refused = 0
        for number in range(5):
            words = submission(number)
            given = replace(words.input, options=CallOptions(stop=("STOP",)))
            try:
                await chat.gateway.submit(replace(words, input=given))
            except BudgetSpent:
                refused += 1
            await chat.until_idle()
        assert (len(chat.model.requests), refused) == (2, 3)
