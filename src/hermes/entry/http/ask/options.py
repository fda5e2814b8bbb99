"""How a client wants its answer, read off a request into `CallOptions`; what is not honoured is refused.
Chat completions and Responses share it. A door's body inherits `AnswerWishes` (what both call the same); the
door calls `read_choice` (it knows both shapes of `tool_choice`), `read_form` for `response_format` or
`text.format`, and `as_options` with what it names itself. The result goes into `ConversationInput.options`,
which `turns.ask` stores with the turn, and into `TakeToolResults.options` where a turn is continued."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Annotated, Any

import msgspec
from msgspec import Struct

from hermes.domain.models.call_options import NO_OPTIONS, CallOptions, JsonAnswer
from hermes.domain.turns.turn import ClientTool
from hermes.domain.word import replace
from hermes.entry.http.site.errors import bad_request

_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
_MOST_STOPS, _LONGEST_STOP = 4, 200
_SHAPES = "“auto”, “none”, “required”, a function by its name, or allowed_tools (auto or required)"


class AnswerWishes(msgspec.Struct, kw_only=True):
    """What a request may say about its answer, under the names that both APIs have for it."""

    tool_choice: str | dict[str, Any] | None = None
    parallel_tool_calls: bool | None = None
    temperature: Annotated[float, msgspec.Meta(ge=0, le=2)] | None = None
    top_p: Annotated[float, msgspec.Meta(ge=0, le=1)] | None = None


class JsonSchemaSpec(msgspec.Struct, kw_only=True):
    """A form that a JSON answer must have."""

    name: str
    description: str | None = None
    schema: dict[str, Any] | None = None
    strict: bool | None = None


class ChosenTools(Struct, frozen=True, kw_only=True):
    """The functions that may be called, and those of which one must be."""

    tools: tuple[ClientTool, ...]
    must_call: tuple[str, ...] = ()


def read_choice(choice: str | dict[str, Any] | None, tools: tuple[ClientTool, ...]) -> ChosenTools:
    """What `tool_choice` makes of the client's functions. The agent's own tools are the agent's business:
    they are neither forced nor forbidden here."""
    match choice:
        case None | "auto":
            return ChosenTools(tools=tools)
        case "none":
            return ChosenTools(tools=())
        case "required":
            return ChosenTools(tools=tools, must_call=_named([tool.name for tool in tools], tools))
        case {"type": "function"}:
            return ChosenTools(tools=tools, must_call=_named([_name_in(choice)], tools))
        case {"type": "allowed_tools", "allowed_tools": {"mode": mode, "tools": [*listed]}} | {
            "type": "allowed_tools",
            "mode": mode,
            "tools": [*listed],
        } if mode in ("auto", "required"):
            allowed = _named([_name_in(each) for each in listed], tools)
            return ChosenTools(
                tools=tuple(tool for tool in tools if tool.name in allowed),
                must_call=allowed if mode == "required" else (),
            )
        case _:
            raise _wrong_choice(f"tool_choice may be {_SHAPES}.")


def _name_in(choice: object) -> str:
    if not isinstance(choice, dict) or choice.get("type", "function") != "function":
        raise _wrong_choice(f"tool_choice may be {_SHAPES}.")
    function = choice.get("function", choice)
    name = function.get("name") if isinstance(function, dict) else None
    return name if isinstance(name, str) else ""


def _named(names: Sequence[str], tools: Sequence[ClientTool]) -> tuple[str, ...]:
    offered = {tool.name for tool in tools}
    for name in names:
        if name not in offered:
            raise _wrong_choice(f"tool_choice names “{name[:64]}”, which is not a function in tools.")
    if not names:
        raise _wrong_choice("tool_choice asks for a call, but there are no functions in tools.")
    return tuple(names)


def _wrong_choice(why: str) -> Exception:
    return bad_request(why, param="tool_choice", code="unsupported_tool_choice")


def read_form(kind: str, spec: JsonSchemaSpec | None, *, param: str) -> JsonAnswer | None:
    """The form of the answer; None is text."""
    match kind:
        case "text":
            return None
        case "json_object":
            return JsonAnswer()
        case "json_schema" if spec is not None and _NAME.fullmatch(spec.name):
            return JsonAnswer(
                name=spec.name,
                description=spec.description or "",
                schema=msgspec.json.encode(spec.schema or {"type": "object"}).decode(),
                strict=spec.strict,
            )
        case "json_schema":
            why = f"{param} needs a json_schema with a name of 1 to 64 letters, digits, “_” and “-”."
            raise bad_request(why, param=param)
        case _:
            raise bad_request(f"{param} may be text, json_object or json_schema.", param=param)


def read_stop(stop: str | Sequence[str] | None) -> tuple[str, ...]:
    stops = (stop,) if isinstance(stop, str) else tuple(stop or ())
    if len(stops) > _MOST_STOPS or any(not each or len(each) > _LONGEST_STOP for each in stops):
        why = f"stop is up to {_MOST_STOPS} texts of 1 to {_LONGEST_STOP} characters."
        raise bad_request(why, param="stop")
    return stops


def as_options(wishes: AnswerWishes, must_call: tuple[str, ...], **further: Any) -> CallOptions | None:
    """`further` are fields of `CallOptions` that the door has read itself. None if nothing is wished for."""
    options = replace(
        NO_OPTIONS,
        must_call=must_call,
        parallel=wishes.parallel_tool_calls is not False,
        temperature=wishes.temperature,
        top_p=wishes.top_p,
        **further,
    )
    return None if options == NO_OPTIONS else options
