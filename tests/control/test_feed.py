"""Feeds: any number of watchers, none lost, none held back, late joiners and slow readers included."""

from __future__ import annotations

import asyncio
import gc
import tracemalloc
import weakref
from datetime import UTC, datetime

from hermes.control.feed import Feed, Feeds
from hermes.domain.ids import TurnId
from hermes.domain.turns.event import (
    Entry,
    FeedItem,
    Finished,
    Live,
    ModelSaid,
    Notice,
    Reset,
    Snapshot,
    TextDelta,
    ThoughtDelta,
    UserSaid,
)
from hermes.domain.turns.open_call import PIECE, OpenCall, Place

TURN = TurnId("t")
NOW = datetime(2026, 1, 1, tzinfo=UTC)


def entry(seq: int, record: object) -> Entry:
    return Entry(seq=seq, turn=TURN, at=NOW, record=record)  # type: ignore[arg-type]


async def collect(feed: Feed, after: int = 0) -> list[FeedItem]:
    return [seen async for seen in feed.watch(after)]


def words(seen: list[FeedItem]) -> str:
    return "".join(item.text for item in seen if isinstance(item, TextDelta | Snapshot))


async def test_a_watcher_from_the_start_hears_every_word_once() -> None:
    feed = Feed(TURN)
    watching = asyncio.create_task(collect(feed))
    await asyncio.sleep(0)
    feed.publish(entry(1, UserSaid(text="hi")))
    for piece in ("a", "b", "c"):
        feed.show(TextDelta(text=piece))
        await asyncio.sleep(0)
    feed.publish(entry(2, ModelSaid(text="abc")))
    feed.publish(entry(3, Finished()))
    feed.end()
    seen = await watching
    assert words(seen) == "abc"
    assert [item.seq for item in seen if isinstance(item, Entry)] == [1, 2, 3]


async def test_who_wants_records_alone_is_not_woken_for_words() -> None:
    feed = Feed(TURN)
    seen: list[FeedItem] = []
    watching = feed.watch(live=False)
    waiting = asyncio.ensure_future(anext(watching))
    await asyncio.sleep(0)
    for piece in ("a", "b"):
        feed.show(TextDelta(text=piece))
        await asyncio.sleep(0)
    assert not waiting.done()
    feed.publish(entry(1, ModelSaid(text="ab")))
    seen.append(await waiting)
    feed.publish(entry(2, Finished()))
    feed.end()
    seen += [item async for item in watching]
    assert [item.seq for item in seen if isinstance(item, Entry)] == [1, 2] and len(seen) == 2


async def test_words_that_come_together_are_given_together() -> None:
    feed = Feed(TURN)
    watching = asyncio.create_task(collect(feed))
    await asyncio.sleep(0)
    for piece in "abcdefgh":
        feed.show(TextDelta(text=piece))
    await asyncio.sleep(0)
    feed.publish(entry(1, ModelSaid(text="abcdefgh")))
    feed.end()
    seen = await watching
    assert [item for item in seen if not isinstance(item, Entry)] == [TextDelta(text="abcdefgh")]


async def test_long_text_comes_in_pieces_that_a_stalled_watcher_can_hold() -> None:
    words = [f"{number} " for number in range(30_000)]
    feed = Feed(TURN)
    watching = feed.watch()
    feed.show(TextDelta(text="first "))
    heard = [await anext(watching)]
    for word in words[:20_000]:
        feed.show(TextDelta(text=word))
    heard.append(await anext(watching))
    # The rest comes with the record, while the watcher has not read what was shown.
    feed.publish(entry(1, ModelSaid(text="first " + "".join(words))))
    feed.end()
    heard += [item async for item in watching]
    text = [item.text for item in heard if isinstance(item, TextDelta | Snapshot)]
    assert "".join(text) == "first " + "".join(words)
    assert max(map(len, text)) < 17_000 and len(text) > 8


def read_all(call: OpenCall) -> list[Live]:
    events: list[Live] = []
    place = Place()
    while (news := call.after(place)) is not None:
        event, place = news
        events.append(event)
    return events


def test_words_thoughts_and_notices_keep_their_order() -> None:
    call = OpenCall()
    for event in (
        ThoughtDelta(text="let me "),
        ThoughtDelta(text="see"),
        TextDelta(text="It "),
        TextDelta(text="is"),
        Notice(text="another model"),
        TextDelta(text=" so"),
    ):
        call.add(event)
    assert read_all(call) == [
        ThoughtDelta(text="let me see"),
        TextDelta(text="It is"),
        Notice(text="another model"),
        TextDelta(text=" so"),
    ]
    assert call.text == "It is so" and call.after(call.end) is None


def test_no_piece_ends_within_a_character() -> None:
    call = OpenCall()
    said = "".join(chr(0x1F600 + number % 60) + "é…" for number in range(PIECE // 2)) + "\ud83d"
    for character in said:
        call.add(TextDelta(text=character))
    pieces = [event.text for event in read_all(call) if isinstance(event, TextDelta)]
    assert "".join(pieces) == said == call.text and len(pieces) > 3
    assert all(PIECE - 4 < len(piece.encode("utf-8", "surrogatepass")) <= PIECE for piece in pieces[:-1])


def test_many_small_words_take_little_more_than_what_they_say() -> None:
    call = OpenCall()
    tracemalloc.start()
    try:
        for number in range(20_000):
            call.add(TextDelta(text=f"{number % 10:04} "))
        taken, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert taken < 1.5 * 100_000


async def test_who_stands_still_holds_no_text_of_a_call_that_is_over() -> None:
    feed = Feed(TURN)
    watching = feed.watch()
    feed.show(TextDelta(text="first"))
    await anext(watching)
    over = weakref.ref(feed._call)
    feed.publish(entry(1, ModelSaid(text="first")))
    gc.collect()
    assert over() is None
    await watching.aclose()  # type: ignore[attr-defined]


async def test_a_late_joiner_gets_a_snapshot_and_the_rest() -> None:
    feed = Feed(TURN)
    feed.publish(entry(1, UserSaid(text="hi")))
    feed.show(ThoughtDelta(text="hm, "))
    feed.show(TextDelta(text="one "))
    feed.show(ThoughtDelta(text="so"))
    feed.show(TextDelta(text="two "))
    watching = asyncio.create_task(collect(feed))
    await asyncio.sleep(0)
    feed.show(TextDelta(text="three"))
    await asyncio.sleep(0)
    feed.publish(entry(2, ModelSaid(text="one two three")))
    feed.end()
    seen = await watching
    assert seen[1] == Snapshot(text="one two ", thought="hm, so", thought_late=2)
    assert words(seen) == "one two three"


async def test_a_slow_watcher_gets_the_missed_words_from_the_record() -> None:
    feed = Feed(TURN)
    seen: list[FeedItem] = []
    reading = feed.watch()
    feed.show(TextDelta(text="half "))
    seen.append(await anext(reading))
    feed.show(TextDelta(text="and "))
    feed.publish(entry(1, ModelSaid(text="half and whole")))
    feed.show(TextDelta(text="next call"))
    feed.publish(entry(2, ModelSaid(text="next call")))
    feed.end()
    async for item in reading:
        seen.append(item)
    assert [item.text for item in seen if isinstance(item, Snapshot | TextDelta)] == ["half ", "and whole"]
    assert [item.seq for item in seen if isinstance(item, Entry)] == [1, 2]


async def test_a_reset_comes_before_the_words_are_said_again() -> None:
    feed = Feed(TURN)
    watching = asyncio.create_task(collect(feed))
    await asyncio.sleep(0)
    feed.show(TextDelta(text="wrong"))
    await asyncio.sleep(0)
    feed.show(Reset())
    feed.show(TextDelta(text="right"))
    await asyncio.sleep(0)
    feed.end()
    assert await watching == [TextDelta(text="wrong"), Reset(), TextDelta(text="right")]


async def test_who_comes_back_asks_from_where_they_were() -> None:
    feed = Feed(TURN)
    for number in range(1, 6):
        feed.publish(entry(number, UserSaid(text=str(number))))
    feed.end()
    seen = await collect(feed, after=3)
    assert [item.seq for item in seen if isinstance(item, Entry)] == [4, 5]


async def test_a_watcher_that_leaves_or_stands_still_holds_nobody_back() -> None:
    feed = Feed(TURN)
    stuck = feed.watch()
    feed.publish(entry(1, UserSaid(text="hi")))
    await anext(stuck)
    watching = asyncio.create_task(collect(feed))
    for number in range(2, 200):
        feed.publish(entry(number, UserSaid(text="x")))
    feed.end()
    assert len(await watching) == 199
    await stuck.aclose()
    assert feed.watchers == 0


def test_feeds_are_kept_only_while_somebody_needs_them() -> None:
    feeds = Feeds()
    feed = feeds.open(TURN)
    assert feeds.open(TURN) is feed
    feeds.release(TURN)
    assert len(feeds) == 0
    feeds.open(TURN)
    feeds.end(TURN)
    assert len(feeds) == 0
