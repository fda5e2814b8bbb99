"""Records as they are stored: old ones stay readable, new fields of others are ignored, nothing changes on
the way through. Never edit a file in `records/`; add one when a kind gains a field."""

from __future__ import annotations

import json
import subprocess
import sys
import typing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, get_type_hints

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hermes.domain.chats.message import Inbound
from hermes.domain.errors import Refused
from hermes.domain.turns.event import Kept, ModelSaid, Record, UserSaid
from hermes.domain.word import field_names
from hermes.state.store.codec import KINDS, decode, decode_record, encode_record, stamp, unstamp
from hermes.testing.store_suite.samples import inbound
from tests.conftest import FULL

FILES = sorted((Path(__file__).parent / "records").glob("*.json"))


def test_every_kind_has_an_old_record() -> None:
    assert set(KINDS.values()) == set(typing.get_args(Record))
    kept = {json.loads(file.read_text("utf-8"))["kind"] for file in FILES}
    assert kept == set(KINDS)


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_an_old_record_says_what_it_said(file: Path) -> None:
    old: dict[str, Any] = json.loads(file.read_text("utf-8"))
    record = decode_record(old["kind"], json.dumps(old["record"]))
    kind, data = encode_record(record)
    assert kind == old["kind"]
    assert decode_record(kind, data) == record
    again = json.loads(data)
    for name, value in old["record"].items():
        if name in again:
            assert _says(again[name], value)
    left_out = old["record"].keys() - again.keys()
    usual = {name: value for name, value in old["record"].items() if name not in left_out}
    assert decode_record(kind, json.dumps(usual)) == record
    unknown = left_out - {*field_names(type(record))}
    assert unknown == ({"from_a_newer_program", "mood"} if ".newer" in file.name else set())


def _says(new: Any, old: Any) -> bool:
    """Whether everything that was said is still said; what is new beside it has its default."""
    if isinstance(old, dict):
        return all(name in new and _says(new[name], value) for name, value in old.items())
    if isinstance(old, list):
        return len(new) == len(old) and all(map(_says, new, old))
    return bool(new == old)


st.register_type_strategy(float, st.floats(allow_nan=False, allow_infinity=False))  # no price is endless


def _records(kind: type[Record]) -> st.SearchStrategy[Record]:
    return st.builds(kind, **{name: st.from_type(hint) for name, hint in get_type_hints(kind).items()})


@given(record=st.one_of(*map(_records, KINDS.values())))
@settings(max_examples=5000 if FULL else 200)
def test_a_record_comes_back_as_it_went(record: Record) -> None:
    kind, data = encode_record(record)
    assert decode_record(kind, data.decode()) == record


def test_half_a_character_does_not_lose_the_record() -> None:
    kind, data = encode_record(UserSaid(text="broken \ud83d end", author="\udfff"))
    assert decode_record(kind, data) == UserSaid(text="broken \ufffd end", author="\ufffd")
    kind, data = encode_record(ModelSaid(text="nul \0 stays"))
    assert decode_record(kind, data) == ModelSaid(text="nul \0 stays")


def test_what_cannot_be_read_is_one_clear_error() -> None:
    with pytest.raises(Refused, match="“dreamt” was written by a newer Hermes"):
        decode_record("dreamt", b"{}")
    for data in (b"", b"{", b"[]", b'{"text": 7}', b"\xff\xfe", b'{"text": "\xff"}'):
        with pytest.raises(Refused, match="UserSaid cannot be read"):
            decode_record("user_said", data)
    with pytest.raises(Refused, match="Inbound cannot be read"):
        decode(Inbound, b'{"delivery": "d"}')


def test_times_come_back_to_the_microsecond() -> None:
    for at in (
        datetime(2026, 1, 5, 12, 0, 0, 123457, tzinfo=UTC),
        datetime(1999, 12, 31, 23, 59, 59, 999999, tzinfo=UTC),
    ):
        assert unstamp(stamp(at)) == at
    assert inbound("d").at.tzinfo is UTC


RACE = """
import threading, time
from msgspec import _utils
from hermes.domain.chats.message import Attachment
from hermes.domain.turns.turn import TurnInput
from hermes.state.store.codec import decode, encode

stored, half, annotations = encode(TurnInput(text="x")), threading.Event(), _utils.get_class_annotations

def slowly(kind):
    if kind is Attachment:  # a part of TurnInput: half is known
        half.set()
        time.sleep(0.2)
    return annotations(kind)

_utils.get_class_annotations = slowly
first = threading.Thread(target=decode, args=(TurnInput, stored))
first.start()
half.wait(10.0)
assert decode(TurnInput, stored).text == "x"
first.join()
"""


def test_two_threads_may_read_a_kind_for_the_first_time() -> None:
    """The store's writer and a reader do, when a process takes its first message."""
    assert subprocess.run([sys.executable, "-P", "-c", RACE], check=False).returncode == 0


def test_what_a_model_wants_back_is_stored_and_older_replies_have_none() -> None:
    kept = Kept(format="chat_completions", model="m", text='{"a": "\u2028"}')
    kind, data = encode_record(ModelSaid(text="hm", kept=kept))
    assert decode_record(kind, data) == ModelSaid(text="hm", kept=kept)
    assert decode_record("model_said", b'{"text": "older"}') == ModelSaid(text="older")
