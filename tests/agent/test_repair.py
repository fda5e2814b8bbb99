"""Calls that are nearly right, and those that must not be guessed at."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hermes.agent import call_repair
from hermes.agent.call_repair import is_cut_short, read_arguments, repair_arguments, repair_calls, repair_name
from hermes.domain.ids import CallId
from hermes.domain.tools.tool import ToolCall
from tests.regex_steps import regex_steps

TOOLS = ["read_file", "write_file", "search_files", "terminal", "process", "todo"]


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("read_file", "read_file"),
        ("Read_File", "read_file"),
        ("read-file", "read_file"),
        ("readFile", "read_file"),
        ("ReadFile", "read_file"),
        ("read_file_tool", "read_file"),
        ("functions.read_file", "read_file"),
        ("search_file", "search_file"),
        ("terminl", "terminl"),
        ("todo_tool", "todo"),
        ("delete_everything", "delete_everything"),
        ("list_files", "list_files"),
        ("create_file", "create_file"),
        ("remove_file", "remove_file"),
        ("edit_file", "edit_file"),
        ("", ""),
    ],
)
def test_names(written: str, meant: str) -> None:
    assert repair_name(written, TOOLS) == meant


@pytest.mark.parametrize("written", ["mcp__adm__disable_user", "mcp__adm__del", "disable_user"])
def test_no_other_tool_takes_the_place_of_a_missing_one(written: str) -> None:
    assert (
        repair_name(written, ["mcp__adm__enable_user", "mcp__adm__die", "mcp__adm2__disable_user"]) == written
    )


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("", {}),
        ("{}", {}),
        ('{"a": 1}', {"a": 1}),
        ('{"a": 1,}', {"a": 1}),
        ('{"a": [1, 2, ],}', {"a": [1, 2]}),
        ("{'a': 'x'}", {"a": "x"}),
        ("{'a': \"it's\"}", {"a": "it's"}),
        ('{"a": True, "b": None}', {"a": True, "b": None}),
        ('{"a": "True, None,}"}', {"a": "True, None,}"}),
        ('```json\n{"a": 1}\n```', {"a": 1}),
        ('"{\\"a\\": 1}"', {"a": 1}),
        ('{"a": "two\nlines"}', {"a": "two\nlines"}),
        ('{"a": True, "b": "it\'s",}', {"a": True, "b": "it's"}),
    ],
)
def test_arguments(written: str, meant: object) -> None:
    mended = repair_arguments(written)
    assert mended is not None and json.loads(mended) == meant


@pytest.mark.parametrize(
    "written", ['{"a": "hal', '{"a": 1', '["x"]', "3", "null", "hello", "{'a': {1}}", "{{}}", "{" * 5000]
)
def test_what_is_not_guessed_at(written: str) -> None:
    assert repair_arguments(written) is None


def test_cut_short_is_told_from_wrong() -> None:
    assert is_cut_short('{"a": "hal') and is_cut_short('{"a": [1') and not is_cut_short('{"a": nope}')


@given(st.text())
def test_any_text_is_survived(text: str) -> None:
    mended = repair_arguments(text)
    assert mended is None or isinstance(json.loads(mended), dict)
    repair_name(text, TOOLS)


@given(st.dictionaries(st.text(), st.one_of(st.text(), st.integers(), st.booleans(), st.none()), max_size=4))
def test_right_arguments_stay_as_they_are(value: dict[str, object]) -> None:
    text = json.dumps(value)
    assert repair_arguments(text) == text


def test_half_characters_do_not_reach_tools() -> None:
    assert read_arguments('{"a": "x\\ud800y", "b": ["\\udfff"]}') == {"a": "x\ufffdy", "b": ["\ufffd"]}
    assert read_arguments('{"a": "\\ud83d\\ude00"}') == {"a": "😀"}


def test_ids_are_made_unique_within_the_turn() -> None:
    calls = [ToolCall(id=CallId(name), name="todo") for name in ("a", "a", "", "before", "ok", "x y")]
    mended = repair_calls(calls, TOOLS, {"before"})
    ids = [call.id for call in mended]
    assert len(set(ids)) == 6 and ids[0] == "a" and ids[4] == "ok" and "before" not in ids and all(ids)


@pytest.mark.parametrize("pattern", ["_PYTHONIC", "_STRING_OR_BRACKET", "_FENCE", "_TAG"])
def test_arguments_that_end_too_early_are_looked_through_once(pattern: str) -> None:
    """Each quote in a file that was cut off may begin a string, and each blank may end the call."""
    text, flags = getattr(call_repair, pattern)._given
    for written in (
        '{"content": "' + '\\"k\\": ' * 60,
        "```json\n" + " " * 400 + "x",
        "<tool_call>" + " " * 400 + "x",
    ):
        assert regex_steps(text, flags, written) < 25 * len(written), pattern
