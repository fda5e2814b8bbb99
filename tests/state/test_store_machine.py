"""The SQLite store beside a plain model, over random operations and restarts."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import Path

from hypothesis import HealthCheck, settings
from hypothesis.stateful import run_state_machine_as_test

from hermes.testing.store_suite import OpenStore
from hermes.testing.store_suite.machine import machine
from tests.state.test_store import opening


def test_the_store_does_what_the_model_does(tmp_path: Path, full: bool) -> None:
    count = itertools.count()

    def fresh() -> OpenStore:
        return opening(tmp_path / f"{next(count)}.db")

    _run(fresh, examples=150 if full else 15)


def test_so_it_does_in_memory(full: bool) -> None:
    _run(lambda: opening(None), examples=150 if full else 15, lasting=False)


def _run(fresh: Callable[[], OpenStore], *, examples: int, lasting: bool = True) -> None:
    run_state_machine_as_test(
        machine(fresh, lasting=lasting),
        settings=settings(
            max_examples=examples, stateful_step_count=40, suppress_health_check=[HealthCheck.too_slow]
        ),
    )
