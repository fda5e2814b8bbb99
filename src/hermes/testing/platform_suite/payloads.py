"""Payloads that no service should ever send, made from those it does send. A converter leaves out what it
cannot read; it never breaks, and what it does give can be stored."""

from __future__ import annotations

import copy
import random
from typing import Any

from hermes.domain.chats.message import Inbound
from hermes.state.store.codec import decode, encode
from hermes.testing.platform_suite.testbed import MakeTestbed

_STRANGE: tuple[Any, ...] = (
    None, "", " ", "x", "0", "-1", 0, -1, 1, 2**31, 2**63, 2**80, -(2**70), 1.5, float("inf"), float("nan"),
    True, False, [], {}, [[]], [None], [{}], {"": None}, {"id": None}, "\x00", "\ud800", "😀" * 300, "%", ":",
    "a:b%c", "9" * 400, "../../etc/passwd", "2026-13-45T99:99:99Z",
)  # fmt: skip
_FULL = 20_000
_SAMPLE = 500


async def check_malformed_payloads_are_left_out(make: MakeTestbed) -> None:
    bed = make()
    samples = list(bed.samples())
    assert samples, "no recorded payloads"
    for sample in samples:
        assert bed.convert(copy.deepcopy(sample)) is not None
    assert any(bed.convert(copy.deepcopy(sample)) for sample in samples), (
        "nothing of what was recorded is read"
    )
    dice = random.Random(2026)
    for case in range(_FULL if bed.full else _SAMPLE):
        payload = _mutated(copy.deepcopy(dice.choice(samples)), dice)
        try:
            for item in bed.convert(payload):
                _check_storable(item)
        except Exception as error:
            error.add_note(f"case {case}: {payload!r:.2000}")
            raise


def _check_storable(item: Inbound) -> None:
    assert isinstance(item, Inbound)
    texts = [item.delivery, item.text, item.source.address.chat, item.ref or "", item.source.user or ""]
    assert all(isinstance(text, str) for text in texts)
    assert item.delivery and item.source.address.chat, "without these it cannot be told apart or answered"
    assert item.at.tzinfo is not None
    for name in (item.delivery, item.ref or "", item.source.address.chat, item.source.address.thread or ""):
        name.encode()
    assert decode(Inbound, encode(item)).delivery == item.delivery


def _mutated(payload: Any, dice: random.Random) -> Any:
    if isinstance(payload, bytes | str):
        return _torn(payload, dice)
    if dice.random() < 0.02:
        return copy.deepcopy(dice.choice(_STRANGE))
    for _ in range(dice.choice((1, 1, 1, 2, 3, 8))):
        places = list(_places(payload))
        if not places:
            return payload
        holder, key = dice.choice(places)
        match dice.randrange(5):
            case 0:
                del holder[key]
            case 1:
                other, name = dice.choice(places)
                holder[key] = copy.deepcopy(other[name]) if _has(other, name) else None
            case 2 if isinstance(holder[key], str):
                holder[key] = _torn(holder[key], dice)
            case _:
                holder[key] = copy.deepcopy(dice.choice(_STRANGE))
    return payload


def _has(holder: Any, key: Any) -> bool:
    return key in holder if isinstance(holder, dict) else key < len(holder)


def _places(value: Any) -> Any:
    """Every place in nested lists and mappings, as a holder and a key."""
    if isinstance(value, dict):
        pairs: list[tuple[Any, Any]] = list(value.items())
    elif isinstance(value, list):
        pairs = list(enumerate(value))
    else:
        return
    for key, child in pairs:
        yield value, key
        yield from _places(child)


def _torn(text: Any, dice: random.Random) -> Any:
    """Cut, doubled, or with strange characters in it."""
    if not text:
        return text
    at, end = sorted((dice.randrange(len(text) + 1), dice.randrange(len(text) + 1)))
    junk = dice.choice(("\x00", "\r\n", "😀", "%s", '"', "\\u0000", "=?utf-8?q?", "\ud800", "<", ";"))
    filling = junk.encode("utf-8", "surrogatepass") if isinstance(text, bytes) else junk
    match dice.randrange(4):
        case 0:
            return text[:at]
        case 1:
            return text[:at] + text[end:]
        case 2:
            return text[:at] + filling + text[at:]
        case _:
            return text[:end] + text[at:]
