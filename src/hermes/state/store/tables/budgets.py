"""What was spent of budgets, and what running turns hold of them. A turn holds its share from its claim on;
each commit with a model's reply adds what it took, and the one that ends the turn lets go. A hold counts only
while its turn is open, so none outlives its turn, whoever ends that."""

from __future__ import annotations

import math

from hermes.domain.errors import Refused
from hermes.domain.ids import TurnId
from hermes.domain.models.spending import BudgetStanding, Spent
from hermes.domain.word import field_names
from hermes.state.store.table import TableFamily

_PARTS = tuple(field_names(Spent))
_OPEN = "state IN ('accepted', 'running', 'waiting')"
_SPEND = f"""INSERT INTO budget_spend (budget, period, turns, {", ".join(_PARTS)}) {{values}}
ON CONFLICT DO UPDATE SET {", ".join(f"{part} = {part} + excluded.{part}" for part in _PARTS)}"""
_SUMS = ", ".join(f"coalesce(sum(h.{part}), 0)" for part in _PARTS)


class BudgetsTable(TableFamily):
    def standing(self, budget: str, period: str, beside: TurnId | None = None) -> BudgetStanding:
        spent = self._db.one(
            f"SELECT turns, {', '.join(_PARTS)} FROM budget_spend WHERE budget = ? AND period = ?",
            budget,
            period,
        ) or (0,) * (1 + len(_PARTS))
        held = self._db.one(
            f"""SELECT {_SUMS} FROM budget_holds h JOIN turns t ON t.id = h.turn
            WHERE h.budget = ? AND h.period = ? AND h.turn != ? AND t.{_OPEN}""",
            budget,
            period,
            beside or "",
        )
        assert held is not None
        if not all(isinstance(value, int | float) and math.isfinite(value) for value in (*spent, *held)):
            raise Refused(f"what was spent of the budget {budget} cannot be read")
        return BudgetStanding(turns=spent[0], spent=_amounts(spent[1:]), held=_amounts(held))

    def hold(self, turn: TurnId, budget: str, period: str, share: Spent) -> None:
        names = ", ".join(("turn", "budget", "period", *_PARTS))
        sql = f"INSERT OR REPLACE INTO budget_holds ({names}) VALUES (?, ?, ?, ?, ?, ?)"
        self._db.run(sql, turn, budget, period, share.calls, share.tokens, share.dollars)

    def spend(self, turn: TurnId, spent: Spent) -> None:
        values = "SELECT budget, period, 0, ?, ?, ? FROM budget_holds WHERE turn = ?"
        self._db.run(_SPEND.format(values=values), spent.calls, spent.tokens, spent.dollars, turn)

    def spend_beside(self, budget: str, period: str, spent: Spent) -> None:
        values = "VALUES (?, ?, 0, ?, ?, ?)"
        self._db.run(_SPEND.format(values=values), budget, period, spent.calls, spent.tokens, spent.dollars)

    def release(self, turn: TurnId) -> None:
        self._db.run(
            """UPDATE budget_spend SET turns = turns + 1
            WHERE (budget, period) IN (SELECT budget, period FROM budget_holds WHERE turn = ?)""",
            turn,
        )
        self._db.run("DELETE FROM budget_holds WHERE turn = ?", turn)

    def tidy(self) -> int:
        still = f"SELECT id FROM turns INDEXED BY turns_open WHERE {_OPEN}"
        return self._db.run(f"DELETE FROM budget_holds WHERE turn NOT IN ({still})")


def _amounts(values: tuple[float, ...]) -> Spent:
    return Spent(**dict(zip(_PARTS, values, strict=True)))
