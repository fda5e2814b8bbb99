"""The numbers that were promised, and where they are counted. A test that is renamed fails this file."""

from __future__ import annotations

import pytest

from tests.acceptance.telling import find_test
from tests.control.test_schedule import TABLE
from tests.journeys.test_approval_spoofs import SPOOFS

COUNTS: dict[str, tuple[str, ...]] = {
    "every slot around the jumps of zones fires as a table says": (
        "tests.control.test_schedule.test_every_slot",
        "tests.journeys.test_cron.test_the_clock_is_set_back_and_no_slot_comes_twice",
        "tests.journeys.test_cron.test_a_clock_that_was_years_ahead_does_not_silence_a_job",
        "tests.journeys.test_cron.test_a_machine_that_slept_catches_up_once",
    ),
    "10,000 pairing guesses, none accepted": (
        "tests.journeys.test_pairing.test_ten_thousand_guesses_let_nobody_in",
    ),
    "30 ways to spoof an approval, none accepted": (
        "tests.journeys.test_approval_spoofs.test_nothing_is_allowed_by",
        "tests.journeys.test_approval_spoofs.test_with_two_open_a_bare_word_decides_nothing",
        "tests.journeys.test_approval_spoofs.test_always_is_kept_for_the_person_and_the_exact_action",
    ),
    "100 parked approvals over kill -9, each as it was decided, and nobody waits in memory": (
        "tests.crash.test_recovery.test_a_hundred_parked_questions_survive_a_kill",
        "tests.crash.test_recovery.test_nothing_is_held_in_memory_while_questions_wait",
        "tests.journeys.test_approval_spoofs.test_a_hundred_parked_approvals_survive_a_crash",
    ),
    "a hook that hangs, crashes or floods does not hold the loop; bench/hooks.py tells for how long": (
        "tests.execution.test_hook_processes.test_the_loop_goes_on",
        "tests.execution.test_hook_processes.test_one_that_hangs_is_killed_and_begun_anew",
        "tests.control.test_hooks.test_the_breaker_opens_and_closes",
    ),
    "two gateways on one token: one holder at every sample": (
        "tests.cli.test_token_locks.test_two_gateways_on_one_token",
    ),
    "1,000 messages, five copies of each, three restarts: 1,000 turns": (
        "tests.crash.test_recovery.test_five_copies_of_each_message_across_three_restarts_are_one_turn_each",
    ),
}


@pytest.mark.parametrize("count", COUNTS)
def test_it_is_counted(count: str) -> None:
    for path in COUNTS[count]:
        find_test(path)


def test_the_tables_are_large_enough() -> None:
    jumps = [row for row in TABLE if row[1] != "UTC"]
    assert len(jumps) >= 24 and len({row[1] for row in jumps}) >= 5
    assert len(SPOOFS) >= 30
    for sort in ("another person", "another chat", "forwarded button", "edited", "late", "Cyrillic",
                 "direction", "model's words"):  # fmt: skip
        assert any(sort in name for name in SPOOFS), f"nobody tries it with: {sort}"
