"""Attacks on a live gateway by way of a model that does whatever it is told: none may win anything.

Held against the same castle with approvals switched off, so that the rig is known to see what is lost."""

from __future__ import annotations

from pathlib import Path

from tests.attack.attacks import ATTACKS, Attack
from tests.attack.castle import ALICE_MARK, Castle, order


async def _try(castle: Castle, attack: Attack, by: str = "") -> dict[str, object]:
    return await castle.run(order(*attack.steps(castle)), by=by or attack.by, agent=attack.agent)


async def _alice_speaks(castle: Castle) -> None:
    before = len(castle.replies)
    ended = await castle.run(f"remember {ALICE_MARK}", by="alice", session="alices")
    assert ended["status"] == "completed", ended
    del castle.replies[before:]


async def test_what_the_model_is_told_wins_nothing(tmp_path: Path, full: bool) -> None:
    chosen = ATTACKS if full else ATTACKS[::4]
    async with Castle(tmp_path).open() as castle:
        await _alice_speaks(castle)
        won: dict[str, list[str]] = {}
        for attack in chosen:
            ended = await _try(castle, attack)
            if lost := castle.losses():
                won[f"{attack.name} ({ended['status']})"] = lost
                castle.repair()
    assert not won, "\n".join(f"{name}: {', '.join(lost)}" for name, lost in won.items())


async def test_the_rig_sees_what_is_lost(tmp_path: Path) -> None:
    """By the owner: commands of anybody else are refused where there is no sandbox."""
    async with Castle(tmp_path, approvals="off").open() as castle:
        for attack in (one for one in ATTACKS if one.shows):
            ended = await _try(castle, attack, by="owner")
            assert castle.losses(), (attack.name, ended)
            castle.repair()
