"""The conformance suite for platforms: public checks that every adapter has to pass, over a `Testbed`.

An adapter's test file subclasses `Testbed`, and runs each of `CHECKS` through `conform`."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from hermes.testing.platform_suite.payloads import check_malformed_payloads_are_left_out
from hermes.testing.platform_suite.receiving import (
    check_a_failed_accept_is_delivered_again,
    check_a_long_outage,
    check_bad_deliveries,
    check_connections_may_die,
    check_goes_on_from_its_cursor,
    check_keeps_to_its_account,
    check_receives_deletions,
    check_receives_files,
    check_receives_mentions_commands_buttons,
    check_receives_replies_threads_edits,
    check_receives_text,
    check_says_that_it_is_connected,
    check_stores_before_it_acknowledges,
)
from hermes.testing.platform_suite.sending import (
    check_a_key_is_sent_once_where_promised,
    check_declared_abilities_are_there,
    check_errors_are_translated,
    check_errors_of_edits_are_translated,
    check_replies_to_a_message,
    check_sends_edits_deletes,
    check_sends_files_of_each_kind,
    check_sends_files_together,
    check_shows_buttons,
    check_takes_its_longest_text,
    check_takes_what_the_splitter_cuts,
    check_types_and_reacts,
)
from hermes.testing.platform_suite.testbed import (
    DOUBTFUL,
    FAST_FAULTS,
    PATIENCE,
    Does,
    Fault,
    Inboxes,
    MakeTestbed,
    Shown,
    Testbed,
    hosted,
    running,
    until,
)
from hermes.testing.platform_suite.whole import (
    check_a_message_is_answered,
    check_drafts_keep_the_pace,
    check_many_replies_under_faults,
    check_one_chat_does_not_delay_another,
)

Check = Callable[[MakeTestbed], Awaitable[None]]

RECEIVING: tuple[Check, ...] = (
    check_receives_text,
    check_says_that_it_is_connected,
    check_receives_replies_threads_edits,
    check_receives_deletions,
    check_receives_files,
    check_receives_mentions_commands_buttons,
    check_keeps_to_its_account,
    check_stores_before_it_acknowledges,
    check_a_failed_accept_is_delivered_again,
    check_goes_on_from_its_cursor,
    check_connections_may_die,
    check_a_long_outage,
    check_bad_deliveries,
    check_malformed_payloads_are_left_out,
)
SENDING: tuple[Check, ...] = (
    check_declared_abilities_are_there,
    check_sends_edits_deletes,
    check_replies_to_a_message,
    check_takes_its_longest_text,
    check_takes_what_the_splitter_cuts,
    check_sends_files_of_each_kind,
    check_sends_files_together,
    check_shows_buttons,
    check_types_and_reacts,
    check_a_key_is_sent_once_where_promised,
    check_errors_are_translated,
    check_errors_of_edits_are_translated,
)
WHOLE: tuple[Check, ...] = (
    check_a_message_is_answered,
    check_drafts_keep_the_pace,
    check_one_chat_does_not_delay_another,
    check_many_replies_under_faults,
)
CHECKS: tuple[Check, ...] = (*RECEIVING, *SENDING, *WHOLE)


async def conform(check: Check, bed: type[Testbed], *, full: bool = False) -> None:
    """Run one check over an adapter, unless its testbed says why it cannot apply."""
    names = {one.__name__ for one in CHECKS}
    unknown = bed.exempt.keys() - names
    assert not unknown, f"there are no such checks: {sorted(unknown)}"
    name = getattr(check, "__name__", "")
    if name in bed.exempt:
        assert len(bed.exempt[name].split()) >= 3, "say why it cannot apply"
        return
    await check(lambda: bed(full=full))


__all__ = [
    "CHECKS",
    "DOUBTFUL",
    "FAST_FAULTS",
    "PATIENCE",
    "RECEIVING",
    "SENDING",
    "WHOLE",
    "Check",
    "Does",
    "Fault",
    "Inboxes",
    "MakeTestbed",
    "Shown",
    "Testbed",
    "conform",
    "hosted",
    "running",
    "until",
]
