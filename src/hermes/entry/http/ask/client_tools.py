"""Functions of the client's own, as a chat request brings them: the agent may call them beside its own tools,
and the client runs them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import msgspec

from hermes.domain.turn import ClientTool
from hermes.entry.http.site.errors import bad_request
from hermes.stream.faces.response_shape import FunctionTool

MOST_TOOLS = 128
_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")


class ToolOffer(msgspec.Struct, kw_only=True):
    """A tool that the client runs itself; only functions are."""

    type: str = "function"
    function: FunctionTool | None = None


def read_tools(
    offers: Sequence[ToolOffer] | None, choice: str | dict[str, Any] | None
) -> tuple[ClientTool, ...]:
    """The tools that the agent may call. What cannot be promised is refused: the agent decides by itself
    whether it calls one, so a call cannot be forced."""
    tools = read_offers([_function(offer, f"tools[{place}]") for place, offer in enumerate(offers or ())])
    check_choice(choice)
    return () if choice == "none" else tools


def check_choice(choice: str | dict[str, Any] | None) -> None:
    if choice not in (None, "auto", "none"):
        raise bad_request(
            "tool_choice may be “auto” or “none”: the agent decides itself which tools it calls.",
            param="tool_choice",
            code="unsupported_tool_choice",
        )


def read_offers(offers: Sequence[FunctionTool]) -> tuple[ClientTool, ...]:
    if len(offers) > MOST_TOOLS:
        raise bad_request(f"More than {MOST_TOOLS} tools.", param="tools")
    seen: set[str] = set()
    tools: list[ClientTool] = []
    for place, offer in enumerate(offers):
        if not _NAME.fullmatch(offer.name):
            raise bad_request(
                "A tool's name is 1 to 64 letters, digits, “_” and “-”.", param=f"tools[{place}]"
            )
        if offer.name in seen:
            raise bad_request(f"There are two tools “{offer.name}”.", param=f"tools[{place}]")
        seen.add(offer.name)
        parameters = msgspec.json.encode(offer.parameters or {"type": "object", "properties": {}})
        tools.append(
            ClientTool(name=offer.name, description=offer.description or "", parameters=parameters.decode())
        )
    return tuple(tools)


def _function(offer: ToolOffer, at: str) -> FunctionTool:
    if offer.type != "function" or offer.function is None:
        raise bad_request("A tool is a function, with its name.", param=at, code="unsupported_tool")
    return offer.function
