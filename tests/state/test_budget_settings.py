"""Budgets as they are written: a limit that cannot be read denies."""

from __future__ import annotations

from pathlib import Path

import pytest

from hermes.domain.settings.budgets import Budget
from hermes.state.settings.loader import load_settings


def test_a_budget_is_read_whole(tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text("budgets: {family: {person: '*', per: month, dollars: 2.5}}\n")
    loaded = load_settings(tmp_path, {})
    assert not loaded.problems
    assert loaded.settings.budgets == {"family": Budget(person="*", per="month", dollars=2.5)}


@pytest.mark.parametrize(
    ("written", "words"),
    [
        ("{family: {person: '*'}}", "limits neither dollars, tokens nor calls"),
        ("{family: {person: '*', dollars: much}}", "nothing is spent where budgets.family counts"),
        ("{family: {person: '*', dollars: -1}}", "nothing is spent where budgets.family counts"),
        ("{family: {person: '*', dolars: 5}}", "dollars"),
        ("{family: {person: '*', per: week, calls: 5}}", "nothing is spent where budgets.family counts"),
        ("{family: 5}", "budgets.family"),
        ("5", "budgets"),
        ("[a, b]", "budgets"),
    ],
)
def test_one_with_a_mistake_lets_nothing_through(tmp_path: Path, written: str, words: str) -> None:
    (tmp_path / "config.yaml").write_text(f"budgets: {written}\nlogging: {{level: ERROR}}\n")
    loaded = load_settings(tmp_path, {})
    assert loaded.problems and any(words in str(problem) for problem in loaded.problems), loaded.problems
    (budget,) = loaded.settings.budgets.values()
    assert budget.calls == 0
    assert loaded.settings.logging.level == "ERROR"


def test_no_budget_is_no_limit(tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text("budgets:\n")
    assert load_settings(tmp_path, {}).settings.budgets == {}
