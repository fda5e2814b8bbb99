"""The history checker must find what it is there to find."""

from __future__ import annotations

from hermes.control.outbound.answers import REPEAT_MARK
from hermes.control.turn.claim import GIVEN_UP
from hermes.testing.history import check_history, marked_repeats
from hermes.testing.world import World


async def answered(*numbers: int) -> World:
    world = World()
    for number in (1, 2):
        world.write(f"m{number} once", chat="c")
    await world.poll(0)
    await world.ack(2)
    for number in numbers:
        await world.send("c", f"answer to m{number}: done", f"k{number}")
    return world


async def test_a_whole_history_is_clean() -> None:
    world = await answered(1, 2)
    await world.effect("once", "k1", "m1")
    await world.effect("once", "k2", "m2")
    assert check_history(world) == []


async def test_a_lost_message_is_found() -> None:
    assert check_history(await answered(1)) == ["m2 was acknowledged and never answered"]


async def test_a_message_that_was_given_up_is_not_lost_if_its_person_was_told() -> None:
    world = await answered(1)
    await world.send("c", f"⚠️ {GIVEN_UP}", "k")
    assert check_history(world) == []
    world = await answered(1)
    await world.send("elsewhere", f"⚠️ {GIVEN_UP}", "k")
    assert check_history(world) == ["m2 was acknowledged and never answered"]


async def test_a_silent_duplicate_is_found_and_a_marked_one_is_not() -> None:
    world = await answered(1, 2, 2)
    assert check_history(world) == ["m2 was answered 2 times without a mark"]
    world = await answered(1, 2)
    await world.send("c", f"{REPEAT_MARK}\n\nanswer to m2: done", "k2")
    assert check_history(world) == []
    assert marked_repeats(world) == 1


async def test_a_repeated_effect_is_found() -> None:
    world = await answered(1, 2)
    await world.effect("once", "k", "m1")
    await world.effect("once", "k", "m1")
    await world.effect("keyed", "a", "m2")
    await world.effect("keyed", "b", "m2")
    assert check_history(world) == [
        "the once effect of m1 happened 2 times",
        "the keyed effect of m2 happened under 2 keys",
    ]


async def test_a_wrong_order_and_a_left_draft_are_found() -> None:
    world = await answered(2, 1)
    await world.send("c", "thinking ▉", "d")
    assert check_history(world) == [
        "chat c was answered in the order [2, 1], not [1, 2]",
        "a draft was left as it was: 'thinking ▉'",
    ]
