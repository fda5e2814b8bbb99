"""Which tools a turn has: limits narrow and never widen, sources come and go, and nothing broken gets in."""

from __future__ import annotations

import pytest

from hermes.domain.errors import UserError
from hermes.domain.tools.tool import Clarification, Tool
from hermes.domain.tools.toolbox import Toolbox, ToolsetLimit, tool_fault
from hermes.domain.turns.turn import Guidance, Turn, TurnInput
from hermes.domain.word import replace
from hermes.testing.tool_suite import tool_context
from tests.agent.driving import SESSION, Driver, tool

FILE = replace(tool("read_file"), toolset="file")
SHELL = replace(tool("terminal"), toolset="terminal")
LATER = replace(tool("measure"), toolset="lab")


def turn(**guidance: object) -> Turn:
    plain = Driver(None).turn()  # type: ignore[arg-type]
    return replace(plain, input=TurnInput(guidance=Guidance(**guidance)))  # type: ignore[arg-type]


def names(box: Toolbox, **guidance: object) -> list[str]:
    return list(box.for_turn(SESSION, turn(**guidance)))


@pytest.mark.parametrize(
    ("limit", "left"),
    [
        (ToolsetLimit(), ["read_file", "terminal"]),
        (ToolsetLimit(enabled=("file",)), ["read_file"]),
        (ToolsetLimit(enabled=("read_file",)), ["read_file"]),
        (ToolsetLimit(enabled=("all",), disabled=("file",)), ["terminal"]),
        (ToolsetLimit(enabled=("none", "file")), []),
        (ToolsetLimit(disabled=("*",)), []),
        (ToolsetLimit(enabled=("lab",)), []),
    ],
)
def test_a_limit_leaves_what_it_names(limit: ToolsetLimit, left: list[str]) -> None:
    box = Toolbox([FILE, SHELL], limits=lambda session, source: (limit,))
    assert names(box) == left and list(box.all) == left


def test_limits_only_narrow() -> None:
    box = Toolbox([FILE, SHELL], limits=lambda session, source: (ToolsetLimit(enabled=("file",)),))
    assert names(box, toolsets=("terminal", "file")) == ["read_file"]
    assert names(box, toolsets=("terminal",)) == []
    assert names(box, withheld=("read_file",)) == []


def test_limits_are_asked_each_time() -> None:
    limits: list[ToolsetLimit] = []
    box = Toolbox([FILE, SHELL], limits=lambda session, source: tuple(limits))
    assert names(box) == ["read_file", "terminal"]
    limits.append(ToolsetLimit(disabled=("terminal",)))
    assert names(box) == ["read_file"]


def test_a_source_comes_and_goes_and_the_rest_stays() -> None:
    box = Toolbox([FILE])
    box.offer("lab", [LATER])
    assert names(box) == ["read_file", "measure"]
    box.offer("lab", [])
    assert names(box) == ["read_file"]
    box.offer("lab", [LATER])
    box.withdraw("lab", "it fell over")
    assert names(box) == ["read_file"] and box.problems == {"lab": "it fell over"}
    box.offer("lab", [LATER])
    assert names(box) == ["read_file", "measure"] and not box.problems


def test_every_tool_is_dressed() -> None:
    box = Toolbox([FILE], dress=lambda tool: replace(tool, description="dressed"))
    box.offer("lab", [LATER])
    assert {tool.description for tool in box.all.values()} == {"dressed"}


DEEP: dict[str, object] = {"type": "object"}
DEEP["self"] = DEEP


@pytest.mark.parametrize(
    ("wrong", "why"),
    [
        ("no tool", "not a tool"),
        (replace(LATER, name="read file"), "its name"),
        (replace(LATER, name=""), "its name"),
        (replace(LATER, description=None), "must be texts"),
        (replace(LATER, effect="idempotent"), "its effect"),
        (replace(LATER, effect=None), "its effect"),
        (replace(LATER, approval="maybe"), "its approval"),
        (replace(LATER, approval=None), "its approval"),
        (replace(LATER, parallel="yes"), "its parallel"),
        (replace(LATER, asks=Clarification(text="?")), "must be functions"),
        (replace(LATER, run=None), "must be functions"),
        (replace(LATER, seconds="long"), "its seconds"),
        (replace(LATER, seconds=-1), "its seconds"),
        (replace(LATER, seconds=float("nan")), "its seconds"),
        (replace(LATER, seconds=float("inf")), "its seconds"),
        (replace(LATER, parameters=[]), "no JSON schema"),
        (replace(LATER, parameters={"type": "string"}), "no JSON schema"),
        (replace(LATER, parameters={"properties": 3}), "no mapping"),
        (replace(LATER, parameters={"properties": {"x": object()}}), "no JSON"),
        (replace(LATER, parameters=DEEP), "no JSON"),
        (replace(LATER, parameters={"properties": {"x": "y" * 70_000}}), "too long"),
        (replace(LATER, parameters={"properties": {"x": {"type": "str"}}}), "parameters.x has the type str"),
        (replace(LATER, parameters={"properties": {"x": {"type": ["string", "none"]}}}), "has the type none"),
        (replace(LATER, parameters={"properties": {"x": {"items": {"type": "int"}}}}), "parameters.x.items"),
        (
            replace(LATER, parameters={"properties": {"x": {"anyOf": [{"type": 3}]}}}),
            "x.anyOf[0] has",
        ),
        (replace(LATER, parameters={"properties": {"x": "a text"}}), "parameters.x is no JSON schema"),
        (
            replace(LATER, parameters={"properties": {"x": {"items": {"$ref": "#/$defs/Gone"}}}}),
            "refer to #/$defs/Gone",
        ),
        (replace(LATER, name="read_file"), "of this name already"),
    ],
)
def test_what_cannot_be_used_is_left_out_with_a_sentence(wrong: Tool, why: str) -> None:
    box = Toolbox([FILE])
    box.offer("lab", [wrong, LATER])
    assert names(box) == ["read_file", "measure"]
    (sentence,) = box.problems.values()
    assert why in sentence


def test_tools_without_parameters_are_fine() -> None:
    assert tool_fault(LATER) == ""


def test_schemas_of_every_kind_are_fine() -> None:
    """Also a property that is called `type`, as many have one."""
    kinds = {"type": {"type": "string"}, "items": {"type": ["array", "null"], "items": {"type": "integer"}}}
    other = {"any": {"anyOf": [{"type": "number"}, {"$ref": "#/$defs/x"}, True]}, "free": {"enum": [1, "a"]}}
    schema = {"type": "object", "properties": kinds | other, "$defs": {"x": {"type": "boolean"}}}
    assert tool_fault(replace(LATER, parameters=schema | {"additionalProperties": False})) == ""


# --- the tools that a session keeps ---


async def test_a_session_keeps_the_tools_it_began_with() -> None:
    box = Toolbox([FILE])
    box.offer("lab", [LATER])
    kept = replace(SESSION, tool_list=box.freeze(SESSION, None))
    box.offer("lab", [replace(LATER, description="another"), replace(SHELL, toolset="lab")])
    offered = box.for_turn(kept, turn())
    bridge = ["tool_search", "tool_call"]
    assert list(offered) == ["read_file", "measure", *bridge], "an added tool changed the list"
    assert offered["measure"].description == LATER.description
    box.withdraw("lab")
    offered = box.for_turn(kept, turn())
    assert list(offered) == ["read_file", "measure", *bridge], "a tool that went away changed the list"
    assert list(box.usable(kept, turn())) == ["read_file"]
    with pytest.raises(UserError, match="measure is not available any more"):
        await offered["measure"].run(tool_context(), {})
    assert list(box.for_turn(kept, turn(toolsets=("file",)))) == ["read_file"]


def test_a_list_is_the_same_text_while_nothing_changes() -> None:
    limits: list[ToolsetLimit] = []
    box = Toolbox([FILE, SHELL], limits=lambda session, source: tuple(limits))
    assert box.freeze(None, None) is box.freeze(SESSION, None)
    limits.append(ToolsetLimit(enabled=("file",)))
    assert "terminal" not in box.freeze(None, None)
