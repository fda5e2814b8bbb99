"""Prices and sums of what models took."""

from __future__ import annotations

import pytest

from hermes.domain.models.model_facts import ModelFacts
from hermes.domain.models.usage import CostStatus, Usage, UsageSum, priced, sum_usage
from hermes.domain.word import replace

FACTS = ModelFacts(price_in=2.0, price_out=8.0, price_cache_read=0.5, price_cache_write=4.0)
USED = Usage(prompt=1_000_000, completion=500_000, cached=400_000, cache_written=100_000)


def test_each_part_of_a_prompt_has_its_price() -> None:
    assert priced(USED, FACTS).cost == pytest.approx(0.5 * 2 + 0.4 * 0.5 + 0.1 * 4 + 0.5 * 8)
    without = ModelFacts(price_in=2.0, price_out=8.0)
    assert priced(USED, without).cost == pytest.approx(1.0 * 2 + 0.5 * 8)


def test_what_is_not_known_is_not_guessed() -> None:
    assert priced(USED, ModelFacts(price_in=2.0)).cost is None
    assert priced(Usage(), FACTS).cost is None, "the service told no tokens"
    assert priced(Usage(), ModelFacts(price_in=0.0, price_out=0.0)).cost == 0
    assert priced(Usage(prompt=5, cost=0.25), FACTS).cost == 0.25, "the service told the cost itself"


def test_a_sum_says_how_far_its_cost_can_be_trusted() -> None:
    assert sum_usage([Usage(cost=0.5), Usage(), Usage(cost=0.25)]).cost == 0.75
    assert sum_usage([Usage(), Usage()]).cost is None
    assert UsageSum(calls=2, unpriced=2).status is CostStatus.UNKNOWN
    assert UsageSum(calls=2, unpriced=1).status is CostStatus.ESTIMATED
    assert UsageSum(calls=2).status is CostStatus.INCLUDED
    assert UsageSum(prompt=10, cached=5).hit_ratio == 0.5
    assert UsageSum().hit_ratio is None


def test_what_an_hours_cache_and_a_long_prompt_cost() -> None:
    facts = ModelFacts(price_in=3.0, price_out=15.0, price_cache_read=0.3, price_cache_write=3.75)
    kept = Usage(prompt=3_000_000, cache_written=2_000_000, cache_kept=1_000_000)
    assert priced(kept, facts).cost == pytest.approx(3.0 + 3.75 + 6.0)
    tiered = replace(facts, long_after=200_000, price_long_in=6.0, price_long_out=22.5)
    short = Usage(prompt=200_000, completion=100_000)
    assert priced(short, tiered).cost == priced(short, facts).cost == pytest.approx(0.6 + 1.5)
    long = Usage(prompt=1_000_000, cached=500_000, completion=100_000)
    assert priced(long, tiered).cost == pytest.approx(3.0 + 0.3 + 2.25)
    assert priced(long, replace(tiered, price_long_out=None)).cost == pytest.approx(3.0 + 0.3 + 1.5)
