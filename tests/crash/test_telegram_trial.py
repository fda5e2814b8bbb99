"""A hundred kills with faults on both sides: nothing is lost, nothing is said twice without a mark."""

from __future__ import annotations

from pathlib import Path

from tests.crash.telegram_trial import Trial


async def test_killed_between_a_faulty_telegram_and_a_faulty_model(tmp_path: Path, full: bool) -> None:
    async with Trial(tmp_path, seed="trial").open() as trial:
        while trial.kills < (100 if full else 4):
            await trial.live(trial.chance.randrange(1, 8), stop=trial.chance.random() < 0.15)
        await trial.settle()
        assert trial.lost() == []
        assert trial.given_up() == [], "no message of these ends a gateway"
        assert trial.misplaced() == []
        assert trial.unmarked_doubles() == []
        assert trial.repeated_effects() == []
