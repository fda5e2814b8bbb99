"""Questions of MCP servers: how they are put, and what becomes of the words of an answer."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hermes.domain.errors import UserError
from hermes.execution.mcp.questions import as_question, read_answer


def asked(required: tuple[str, ...] = (), **fields: dict[str, Any]) -> dict[str, Any]:
    schema = {"type": "object", "properties": fields, "required": [*required]}
    return {"message": "Well?", "requestedSchema": schema}


NUMBER, TEXT, SWITCH = {"type": "integer"}, {"type": "string"}, {"type": "boolean"}
COLOUR = {"type": "string", "enum": ["red", "blue"]}
SIZE = {"type": "string", "oneOf": [{"const": "s", "title": "small"}, {"const": "l", "title": "large"}]}


@pytest.mark.parametrize(
    ("question", "words", "content"),
    [
        (asked(n=NUMBER), "4", {"n": 4}),
        (asked(n={"type": "number"}), "4.5", {"n": 4.5}),
        (asked(name=TEXT), " Ada ", {"name": "Ada"}),
        (asked(sure=SWITCH), "yes", {"sure": True}),
        (asked(sure=SWITCH), "no", {"sure": False}),
        (asked(colour=COLOUR), "blue", {"colour": "blue"}),
        (asked(size=SIZE), "l", {"size": "l"}),
        (asked(tags={"type": "array"}), "a, b", {"tags": ["a", "b"]}),
        (asked(("n",), n=NUMBER, name=TEXT), "n: 3\n- name: Ada", {"n": 3, "name": "Ada"}),
        (asked(("n",), n=NUMBER, name=TEXT), '{"n": 3, "other": 1}', {"n": 3}),
        (asked(), "yes", {}),
    ],
)
def test_an_answer_becomes_what_the_server_wants(
    question: dict[str, Any], words: str, content: dict[str, Any]
) -> None:
    assert read_answer(question, words) == {"action": "accept", "content": content}


@pytest.mark.parametrize(
    ("question", "words"),
    [(asked(n=NUMBER), "no"), (asked(), "no"), (asked(), "perhaps"), (asked(a=TEXT, b=TEXT), "Cancel")],
)
def test_no_is_no(question: dict[str, Any], words: str) -> None:
    assert read_answer(question, words)["action"] == "decline"


@pytest.mark.parametrize(
    ("question", "words", "complaint"),
    [
        (asked(n=NUMBER), "many", "of the type integer"),
        (asked(sure=SWITCH), "perhaps", "of the type boolean"),
        (asked(colour=COLOUR), "green", "one of: red, blue"),
        (asked(("n", "m"), n=NUMBER, m=NUMBER), "n: 1", "no value for m"),
        (asked(("n", "m"), n=NUMBER, m=NUMBER), "three", "name: value"),
        (asked(n=NUMBER, m=NUMBER), "{n: 1", "no JSON"),
    ],
)
def test_what_does_not_fit_is_asked_again(question: dict[str, Any], words: str, complaint: str) -> None:
    with pytest.raises(UserError, match=complaint):
        read_answer(question, words)


def test_questions_say_who_asks_and_offer_what_can_be_said() -> None:
    assert as_question("shop", asked(colour=COLOUR)).options == ("red", "blue")
    assert (
        as_question("shop", asked(sure=SWITCH)).options
        == ("yes", "no")
        == as_question("shop", asked()).options
    )
    two = as_question("shop", asked(("n",), n=NUMBER, name={**TEXT, "description": "who\x1b[31m"}))
    assert "shop asks: Well?" in two.text and "- n (integer)" in two.text and "\x1b" not in two.text
    assert "- name (string, optional) who" in two.text and not two.options
    link = as_question("shop", {"mode": "url", "message": "Pay", "url": "https://pay.example.org"})
    assert "https://pay.example.org" in link.text and link.options == ("done", "no")
    assert read_answer({"mode": "url", "message": "Pay", "url": "https://x"}, "done") == {"action": "accept"}


@pytest.mark.parametrize("schema", [None, 5, {}, {"properties": 7}, {"properties": {"a": 3}}])
def test_a_question_that_is_none_can_still_be_answered(schema: object) -> None:
    question = {"message": None, "requestedSchema": schema}
    assert as_question("s", question).text and read_answer(question, "yes")["action"] == "accept"


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)
FIELD = st.fixed_dictionaries(
    {},
    optional={
        "type": JSON | st.sampled_from(["integer", "boolean", "array"]),
        "enum": JSON,
        "oneOf": JSON,
        "title": JSON,
    },
)
SCHEMA = JSON | st.fixed_dictionaries(
    {"properties": JSON | st.dictionaries(st.text(max_size=4), FIELD | JSON, max_size=3)},
    optional={"required": JSON},
)


@given(message=JSON, schema=SCHEMA, mode=JSON, words=st.text(max_size=40))
def test_whatever_a_server_asks_there_is_a_question_and_an_answer(
    message: object, schema: object, mode: object, words: str
) -> None:
    question = {"message": message, "requestedSchema": schema, "mode": mode, "url": message}
    assert as_question("s", question).text
    try:
        assert read_answer(question, words)["action"] in ("accept", "decline")
    except UserError as error:
        assert error.message
