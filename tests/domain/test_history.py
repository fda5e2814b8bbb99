"""A transcript that is read from its last summary on folds as the whole one does."""

from __future__ import annotations

from datetime import UTC, datetime

from hypothesis import given
from hypothesis import strategies as st

from hermes.domain.ids import TurnId
from hermes.domain.turns.event import (
    Cleared,
    Entry,
    Finished,
    ModelSaid,
    Record,
    Restored,
    Summarised,
    Undone,
    UserSaid,
)
from hermes.domain.turns.transcript import last_compression, not_undone, number_records, summed_upto, visible

AT = datetime(2026, 1, 2, tzinfo=UTC)
ACTS = st.lists(
    st.tuples(
        st.sampled_from(("say", "say", "undo", "retry", "sum", "sum all", "clear", "restore")),
        st.integers(1, 60),
    ),
    max_size=40,
)


def marks(whole: list[Entry]) -> list[Entry]:
    return [entry for entry in whole if isinstance(entry.record, (Undone, Summarised, Restored))]


def said(entries: list[Entry]) -> list[Entry]:
    return [entry for entry in not_undone(entries) if isinstance(entry.record, UserSaid)]


def records(act: str, number: int, whole: list[Entry]) -> list[Record]:
    last = whole[-1].seq if whole else 0
    match act:
        case "say":
            return [UserSaid(text=f"{last}"), ModelSaid(text=f"to {last}"), Finished()]
        case "undo" | "retry" if said(whole):
            since = said(whole)[-min(number if act == "undo" else 1, len(said(whole)))]
            return [Undone(since=since.seq), *([since.record] if act == "retry" else [Finished()])]
        case "sum" | "sum all" if last:
            upto = last if act == "sum all" else min(number, last)
            return [Summarised(upto=upto, text=f"up to {upto}"), Finished()]
        case "clear" if last:
            return [Cleared(upto=min(number, last)), Finished()]
        case "restore" if (first := last_compression(whole)) is not None:
            return [Restored(since=first), Finished()]
        case _:
            return []


@given(ACTS)
def test_what_is_behind_the_last_summary_is_all_that_a_prompt_needs(acts: list[tuple[str, int]]) -> None:
    whole: list[Entry] = []
    for turn, (act, number) in enumerate(acts):
        whole += number_records(whole, TurnId(f"t{turn}"), records(act, number, whole), AT)
        after = summed_upto(marks(whole))
        part = [entry for entry in whole if entry.seq > after]
        assert visible(part) == visible(whole)
        # What the part holds can be undone as in the whole, and its end is numbered the same.
        assert said(part) == [entry for entry in said(whole) if entry.seq > after]
        assert part[-1:] == whole[-1:]


@given(ACTS)
def test_restoring_takes_back_exactly_the_last_compression(acts: list[tuple[str, int]]) -> None:
    whole: list[Entry] = []
    for turn, (act, number) in enumerate(acts):
        whole += number_records(whole, TurnId(f"t{turn}"), records(act, number, whole), AT)
    before = visible(whole)
    for act in ("clear", "sum all"):
        made = number_records(whole, TurnId("c"), records(act, 60, whole), AT)
        if not made:
            return
        undone = number_records([*whole, *made], TurnId("r"), [Restored(since=made[0].seq)], AT)
        again = [entry for entry in visible([*whole, *made, *undone]) if entry.turn not in ("c", "r")]
        assert again == before


def test_a_summary_that_was_undone_does_not_count() -> None:
    def entry(seq: int, record: Record) -> Entry:
        return Entry(seq=seq, turn=TurnId("t"), at=AT, record=record)

    first, second = entry(10, Summarised(upto=6, text="a")), entry(20, Summarised(upto=15, text="b"))
    assert summed_upto([]) == 0
    assert summed_upto([first]) == 6
    assert summed_upto([first, second]) == 15
    assert summed_upto([first, second, entry(30, Undone(since=16))]) == 15
    assert summed_upto([first, second, entry(30, Undone(since=15))]) == 6
    assert summed_upto([first, second, entry(30, Undone(since=3))]) == 0
    assert summed_upto([first, second, entry(30, Restored(since=20))]) == 6
    assert summed_upto([first, second, entry(30, Restored(since=10))]) == 0
    # One that claims to tell of what came after it tells of what was before it.
    assert summed_upto([entry(10, Summarised(upto=99, text="a"))]) == 9
