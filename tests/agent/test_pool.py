"""Several keys for one provider, and other models behind an agent's own: who answers after which fault."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path

import pytest

from hermes.agent.models.fallback import FallbackModel, FallbackProvider
from hermes.agent.models.pool import CredentialAccess, PooledProvider
from hermes.agent.models.remedies import REMEDIES, Remedy
from hermes.agent.run.speech import BACKGROUND_SECONDS, RetryBackoff
from hermes.domain.errors import FaultKind, ModelFault, NeedsLogin, Unreachable
from hermes.domain.models.credential import Cooldown, Credential, CredentialKind, PoolStrategy
from hermes.domain.ports.agent import ModelEnd, ModelPiece, ModelRequest, Provider
from hermes.domain.settings.declaring import Secret
from hermes.domain.turns.event import Failed, Finished, ModelSaid, Notice, Record, Retrying, TextDelta
from hermes.domain.turns.turn import Guidance
from hermes.domain.word import replace
from hermes.testing.clock import FakeClock, settle
from hermes.testing.model import Say, ScriptedModel, call, say
from hermes.testing.provider_suite import ask
from tests.agent.driving import Driver, loop_of, quick, tool

K = FaultKind


def fault(kind: FaultKind, after: float | None = None) -> Say:
    return Say(error=ModelFault(f"it is {kind}", kind=kind, after=after))


def broken_after(text: str, words: int, kind: FaultKind) -> Say:
    return Say(text=text, breaks_after=words, error=ModelFault(f"it is {kind}", kind=kind))


@dataclass
class Keys:
    """A pool in memory, with a model behind each key."""

    scripts: dict[str, Sequence[Say]]
    clock: FakeClock = field(default_factory=FakeClock)
    strategy: PoolStrategy = PoolStrategy.FILL_FIRST
    alone: bool = True
    credentials: dict[str, Credential] = field(default_factory=dict)
    models: dict[str, ScriptedModel] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)
    renewals: list[str] = field(default_factory=list)
    renewal: Exception | None = None

    def __post_init__(self) -> None:
        for label in self.scripts:
            own = Credential(id=label, provider="p", label=label, key=Secret(f"key-{label}"))
            self.credentials.setdefault(label, own)
        self.models = {label: ScriptedModel(script) for label, script in self.scripts.items()}

    async def read(self) -> Sequence[Credential]:
        return list(self.credentials.values())

    async def rest(self, id: str, cooldown: Cooldown, uses: dict[str, int]) -> None:
        self.credentials[id] = replace(self.credentials[id], cooldown=cooldown)

    async def renew(self, credential: Credential) -> Credential:
        self.renewals.append(credential.id)
        if self.renewal is not None:
            raise self.renewal
        later = self.clock.now() + timedelta(hours=1)
        fresh = replace(credential, key=Secret(f"new-{credential.id}"), expires_at=later)
        self.credentials[credential.id] = fresh
        return fresh

    def make(self, credential: Credential) -> Provider:
        keys = self

        class Asked:
            def call(self, request: ModelRequest) -> AsyncIterator[ModelPiece]:
                keys.asked.append(credential.key.reveal().removeprefix("key-"))
                return keys.models[credential.id].call(request)

        return Asked()

    def provider(self) -> PooledProvider:
        access = CredentialAccess(read=self.read, rest=self.rest, renew=self.renew)
        return PooledProvider(
            "p", access, self.make, clock=self.clock, strategy=self.strategy, alone=self.alone
        )


def chained(own: Provider, *models: ScriptedModel, clock: FakeClock | None = None) -> FallbackProvider:
    chain = [
        FallbackModel(provider=model, model=f"spare-{number}", name=f"other{number}")
        for number, model in enumerate(models, 1)
    ]
    return FallbackProvider(own, chain, clock or FakeClock())


def answers(records: Sequence[Record]) -> list[ModelSaid]:
    return [record for record in records if isinstance(record, ModelSaid)]


def reason(records: Sequence[Record]) -> str:
    assert isinstance(records[-1], Failed), records
    return records[-1].reason


# --- the table ---


def test_every_kind_has_its_rule_and_the_guide_tells_it() -> None:
    assert set(REMEDIES) == set(FaultKind)
    guide = (Path(__file__).parents[2] / "docs/guides/models.md").read_text()
    rows = {
        found[1]: found[2].strip() for found in re.finditer(r"^\| `(\w+)` \|[^|]*\|([^|]*)\|", guide, re.M)
    }
    for kind, remedies in REMEDIES.items():
        assert rows[kind.value] == ", ".join(remedies), kind
        assert remedies[-1] is Remedy.TELL


# --- pools ---


@pytest.mark.parametrize(
    ("kind", "after", "seconds"),
    [
        (K.BAD_KEY, None, 300),
        (K.NO_CREDIT, None, 3600),
        (K.LIMITED_UNTIL, None, 3600),
        (K.LIMITED_UNTIL, 90.0, 90),
    ],
)
async def test_a_refused_key_rests_and_the_next_one_answers(
    kind: FaultKind, after: float | None, seconds: int
) -> None:
    keys = Keys({"a": [fault(kind, after), say("back")], "b": [say("hi"), say("again")]})
    driver = Driver(loop_of(keys.provider()))
    (said,) = answers(await driver.say("hello"))
    assert (said.text, said.via) == ("hi", "#b")
    cooldown = keys.credentials["a"].cooldown
    assert cooldown is not None and cooldown.by_service == (after is not None)
    assert cooldown.until - keys.clock.now() == timedelta(seconds=seconds)
    await driver.say("more")
    await keys.clock.advance(seconds + 1)
    await driver.say("later")
    assert keys.asked == ["a", "b", "b", "a"]
    assert not [live for live in driver.live if isinstance(live, Notice | Retrying)]


async def test_a_short_wait_is_waited_where_it_is() -> None:
    keys = Keys({"a": [fault(K.LIMITED_UNTIL, 0.01), say("hi")], "b": []})
    assert answers(await Driver(loop_of(keys.provider())).say("hello"))[0].text == "hi"
    assert keys.asked == ["a", "a"] and keys.credentials["a"].cooldown is None


async def test_busy_is_no_keys_fault() -> None:
    keys = Keys({"a": [fault(K.BUSY), say("hi")], "b": []})
    assert answers(await Driver(loop_of(keys.provider())).say("hello"))[0].text == "hi"
    assert keys.asked == ["a", "a"]


@pytest.mark.parametrize(
    ("strategy", "asked"),
    [("fill_first", "aaaa"), ("round_robin", "abca"), ("least_used", "bcab")],
)
async def test_strategies(strategy: str, asked: str) -> None:
    keys = Keys({label: [say("hi")] * 4 for label in "abc"}, strategy=PoolStrategy(strategy))
    keys.credentials["a"] = replace(keys.credentials["a"], uses=1)
    driver = Driver(loop_of(keys.provider()))
    for _ in range(4):
        await driver.say("hello")
    assert "".join(keys.asked) == asked


async def test_the_random_strategy_uses_every_key() -> None:
    keys = Keys({label: [say("hi")] * 60 for label in "ab"}, strategy=PoolStrategy.RANDOM)
    driver = Driver(loop_of(keys.provider()))
    for _ in range(60):
        await driver.say("hello")
    assert {*keys.asked} == {"a", "b"}


async def test_an_empty_pool_says_until_when_and_how_to_help() -> None:
    keys = Keys({"a": [fault(K.NO_CREDIT, 7200)], "b": [fault(K.LIMITED_UNTIL, 3600)]})
    driver = Driver(loop_of(keys.provider()))
    assert "it is limited_until" in reason(await driver.say("hello"))
    words = reason(await driver.say("and now?"))
    assert "until 13:00:00 UTC" in words and "hermes auth add p" in words
    assert keys.asked == ["a", "b"], "nobody is asked before its time"


async def test_a_guessed_cooldown_locks_nobody_out() -> None:
    keys = Keys({"a": [fault(K.BAD_KEY), say("hi")]})
    driver = Driver(loop_of(keys.provider()))
    assert "did not accept our credentials" in reason(await driver.say("hello"))
    assert answers(await driver.say("now?"))[0].text == "hi"


async def test_a_broken_answer_is_gone_on_with_by_the_next_key() -> None:
    keys = Keys({"a": [broken_after("one two three", 4, K.LIMITED_UNTIL)], "b": [say("one two three")]})
    driver = Driver(loop_of(keys.provider()))
    (said,) = answers(await driver.say("count"))
    assert said.text == "one two three"
    assert "".join(live.text for live in driver.live if isinstance(live, TextDelta)) == "one two three"
    assert keys.models["b"].requests[0].spoken == "one "


# --- logins ---


def login(keys: Keys, label: str, ends: timedelta) -> None:
    keys.credentials[label] = replace(
        keys.credentials[label],
        kind=CredentialKind.OAUTH,
        refresh=Secret("refresh-me"),
        expires_at=keys.clock.now() + ends,
    )


async def test_a_token_is_renewed_before_it_ends() -> None:
    keys = Keys({"a": [say("hi"), say("again")]})
    login(keys, "a", timedelta(seconds=60))
    driver = Driver(loop_of(keys.provider()))
    await driver.say("hello")
    await driver.say("hello")
    assert keys.asked == ["new-a", "new-a"] and keys.renewals == ["a"]


async def test_renewing_one_login_closes_no_other_that_still_speaks() -> None:
    halt = asyncio.Event()
    slow = Say(text="one two", pieces=2, halt=halt)
    keys = Keys({"a": [slow, say("hi")], "b": [say("hi"), say("hi")]}, strategy=PoolStrategy.ROUND_ROBIN)
    closed: list[str] = []
    make = keys.make

    def closable(credential: Credential) -> Provider:
        made = make(credential)

        async def close() -> None:
            closed.append(credential.key.reveal())

        made.close = close  # type: ignore[attr-defined]
        return made

    keys.make = closable  # type: ignore[method-assign]
    pool = keys.provider()

    async def hear() -> None:
        async for _ in pool.call(ask("hi")):
            pass

    first = asyncio.create_task(hear())
    await settle()
    await hear()
    for label in "ab":
        login(keys, label, timedelta(seconds=60))
    await hear()
    await hear()
    assert closed == ["key-b"], "nobody speaks with this one any more"
    halt.set()
    await first
    assert closed == ["key-b", "key-a"]
    await pool.close()
    assert sorted(closed) == ["key-a", "key-b", "new-a", "new-b"]


async def test_calls_at_once_after_a_renewal_share_a_provider() -> None:
    keys = Keys({"a": [say("hi")] * 5})
    made: list[str] = []
    make = keys.make

    def closable(credential: Credential) -> Provider:
        made.append(credential.key.reveal())
        provider = make(credential)
        provider.close = lambda: asyncio.sleep(0)  # type: ignore[attr-defined]
        return provider

    keys.make = closable  # type: ignore[method-assign]
    pool = keys.provider()

    async def hear() -> None:
        async for _ in pool.call(ask("hi")):
            pass

    for key in ("k1", "k2", "k3"):
        keys.credentials["a"] = replace(keys.credentials["a"], key=Secret(key))
        await asyncio.gather(*(hear() for _ in range(1 if key != "k3" else 3)))
    assert made == ["k1", "k2", "k3"]
    await pool.close()


async def test_a_refused_token_is_renewed_once() -> None:
    keys = Keys({"a": [fault(K.BAD_KEY), fault(K.BAD_KEY)], "b": [say("hi")]})
    login(keys, "a", timedelta(hours=1))
    await Driver(loop_of(keys.provider())).say("hello")
    assert keys.asked == ["a", "new-a", "b"] and keys.renewals == ["a"]


async def test_an_unreachable_token_server_does_not_stop_a_token_that_lives() -> None:
    keys = Keys({"a": [say("hi")]}, renewal=Unreachable("no answer"))
    login(keys, "a", timedelta(seconds=60))
    assert answers(await Driver(loop_of(keys.provider())).say("hello"))[0].text == "hi"
    assert keys.credentials["a"].refresh.reveal() == "refresh-me"


async def test_a_token_server_in_trouble_leaves_the_other_credentials() -> None:
    keys = Keys({"a": [], "b": [say("hi")]}, renewal=Unreachable("no answer"))
    login(keys, "a", timedelta(seconds=-1))
    assert answers(await Driver(loop_of(keys.provider())).say("hello"))[0].text == "hi"
    assert keys.credentials["a"].cooldown is None


async def test_a_login_that_is_over_says_how_to_log_in_again() -> None:
    keys = Keys({"a": []}, renewal=NeedsLogin("The login is over: hermes login p"))
    login(keys, "a", timedelta(seconds=-1))
    assert "hermes login p" in reason(await Driver(loop_of(keys.provider())).say("hello"))


# --- the chain ---


@pytest.mark.parametrize("kind", [K.NO_MODEL, K.NO_CREDIT, K.BAD_KEY, K.LIMITED_UNTIL])
async def test_another_model_answers_and_that_is_said_once(kind: FaultKind) -> None:
    own, spare = ScriptedModel([fault(kind)]), ScriptedModel([call("look"), say("done")])
    driver = Driver(loop_of(chained(own, spare), tool("look")))
    first, last = answers(await driver.say("hello"))
    assert (last.text, first.via, last.via) == ("done", "other1", "other1")
    (notice,) = [live for live in driver.live if isinstance(live, Notice)]
    assert notice.text == f"fake-model cannot answer now (it is {kind}): spare-1 by other1 does."
    assert own.requests[0].system == spare.requests[0].system, "the prompt stays as it is"
    assert {request.model for request in spare.requests} == {"spare-1"}


@pytest.mark.parametrize("kind", [K.TOO_LONG, K.FILTERED, K.BAD_REQUEST])
async def test_what_no_other_model_mends_is_told(kind: FaultKind) -> None:
    own, spare = ScriptedModel([fault(kind)]), ScriptedModel([])
    records = await Driver(loop_of(chained(own, spare))).say("hello")
    assert isinstance(records[-1], Failed) and records[-1].cause is not None
    assert records[-1].cause.kind is kind, "the loop decides what to do about it"
    assert not spare.requests


async def test_what_passes_is_retried_before_another_model_is_asked() -> None:
    own, spare = ScriptedModel([fault(K.BROKEN)] * 3), ScriptedModel([say("hi")])
    driver = Driver(loop_of(chained(own, spare), limits=quick(retries=2)))
    assert answers(await driver.say("hello"))[0].text == "hi"
    assert len(own.requests) == 3
    assert len([live for live in driver.live if isinstance(live, Retrying)]) == 2


async def test_a_service_that_is_busy_for_long_is_left_at_once() -> None:
    own, spare = ScriptedModel([fault(K.BUSY, 300)]), ScriptedModel([say("hi")])
    assert answers(await Driver(loop_of(chained(own, spare))).say("hello"))[0].text == "hi"


async def test_the_own_model_comes_back_after_its_cooldown() -> None:
    clock = FakeClock()
    own = ScriptedModel([fault(K.NO_CREDIT), say("back")])
    spare = ScriptedModel([say("one"), say("two")])
    driver = Driver(loop_of(chained(own, spare, clock=clock)))
    texts = [answers(await driver.say("a"))[0].text, answers(await driver.say("b"))[0].text]
    await clock.advance(61)
    back = answers(await driver.say("c"))[0]
    assert [*texts, back.text] == ["one", "two", "back"] and back.via == ""
    assert len([live for live in driver.live if isinstance(live, Notice)]) == 2, "once in each answer"


async def test_a_turn_stays_with_the_model_that_answered() -> None:
    clock = FakeClock()

    async def passing() -> None:
        await clock.advance(120)

    own = ScriptedModel([fault(K.NO_CREDIT)])
    spare = ScriptedModel([replace(call("look"), beat=passing, text="hm"), say("done")])
    records = await Driver(loop_of(chained(own, spare, clock=clock), tool("look"))).say("hello")
    assert isinstance(records[-1], Finished) and len(own.requests) == 1


async def test_the_next_model_goes_on_in_the_middle_of_an_answer() -> None:
    own = ScriptedModel([broken_after("one two three", 4, K.NO_CREDIT)])
    spare = ScriptedModel([say("one two three")])
    driver = Driver(loop_of(chained(own, spare)))
    (said,) = answers(await driver.say("count"))
    assert (said.text, said.via) == ("one two three", "other1")
    assert "".join(live.text for live in driver.live if isinstance(live, TextDelta)) == "one two three"


async def test_a_chain_that_is_used_up_tells_the_last_fault() -> None:
    models = [ScriptedModel([fault(kind)]) for kind in (K.NO_CREDIT, K.NO_MODEL, K.BAD_KEY)]
    driver = Driver(loop_of(chained(*models)))
    assert "it is bad_key" in reason(await driver.say("hello"))
    assert [len(model.requests) for model in models] == [1, 1, 1]


async def test_an_exhausted_pool_moves_to_the_chain() -> None:
    keys = Keys({"a": [fault(K.BAD_KEY)], "b": [fault(K.NO_CREDIT)]}, alone=False)
    spare = ScriptedModel([say("hi"), say("again")])
    driver = Driver(loop_of(chained(keys.provider(), spare, clock=keys.clock)))
    assert answers(await driver.say("hello"))[0].text == "hi"
    await keys.clock.advance(120)
    assert answers(await driver.say("hello"))[0].text == "again"
    assert keys.asked == ["a", "b"], "they rest longer than the chain's own cooldown"


# --- waiting ---


async def test_a_job_waits_longer_than_a_chat() -> None:
    said = [fault(K.LIMITED_UNTIL, 400), say("hi")]
    assert "it is limited_until" in reason(await Driver(loop_of(ScriptedModel(said))).say("hello"))
    clock = FakeClock()
    driver = Driver(loop_of(ScriptedModel(said)), guidance=Guidance(unattended="deny"))
    driver.loop._clock = clock
    running = asyncio.create_task(driver.say("hello"))
    await settle()
    await clock.advance(401)
    assert answers(await running)[0].text == "hi"
    assert RetryBackoff().bearable < 400 < BACKGROUND_SECONDS


async def test_an_end_keeps_what_the_wrappers_do_not_know() -> None:
    keys = Keys({"a": [say("hi")]})
    pieces = [piece async for piece in keys.provider().call(_request())]
    assert isinstance(pieces[-1], ModelEnd) and pieces[-1].via == "", "there is only one key"


def _request() -> ModelRequest:
    return ModelRequest(model="m", system="", entries=[], tools=())
