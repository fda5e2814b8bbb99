"""The events of the Responses API, item by item: how each begins, goes on and ends. Which are told, and in
which order, is the fold's business; their numbers are given when they are written."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from hermes.stream.faces.responses import shape

ResponseEvent = dict[str, Any]
"""One event of a stream, field by field as it is written; it gets its number then."""
TEXT_DELTA = "response.output_text.delta"
SUMMARY_DELTA = "response.reasoning_summary_text.delta"
ARGUMENTS_DELTAS = ("response.function_call_arguments.delta", "response.mcp_call_arguments.delta")
ENDINGS = ("response.completed", "response.incomplete", "response.failed")
ITEM_ADDED = "response.output_item.added"
ITEM_DONE = "response.output_item.done"


def make_event(type: str, /, **fields: object) -> ResponseEvent:
    return {"type": type, "sequence_number": 0, **fields}


def whole_item(place: int, item: shape.OutputItem) -> list[ResponseEvent]:
    """An item that is whole as soon as it is there."""
    return [make_event(kind, output_index=place, item=item) for kind in (ITEM_ADDED, ITEM_DONE)]


# --- messages ---


def _text_place(place: int, message: str) -> dict[str, object]:
    return {"output_index": place, "item_id": message, "content_index": 0}


def text_delta(place: int, message: str, delta: str) -> ResponseEvent:
    # Written out, because there are so many of them.
    return {
        "type": TEXT_DELTA,
        "sequence_number": 0,
        "output_index": place,
        "item_id": message,
        "content_index": 0,
        "delta": delta,
        "logprobs": [],
    }


def message_opened(place: int, message: shape.OutputMessage) -> list[ResponseEvent]:
    empty = shape.OutputText(text="")
    return [
        make_event(ITEM_ADDED, output_index=place, item=replace(message, content=[])),
        make_event("response.content_part.added", **_text_place(place, message.id), part=empty),
    ]


def message_closed(place: int, message: shape.OutputMessage) -> list[ResponseEvent]:
    (part,) = message.content
    at = _text_place(place, message.id)
    return [
        make_event("response.output_text.done", **at, text=part.text, logprobs=[]),
        make_event("response.content_part.done", **at, part=part),
        make_event(ITEM_DONE, output_index=place, item=message),
    ]


# --- thoughts ---


def _summary_place(place: int, item: str) -> dict[str, object]:
    return {"output_index": place, "item_id": item, "summary_index": 0}


def reasoning_opened(place: int, item: shape.ReasoningItem) -> list[ResponseEvent]:
    at, empty = _summary_place(place, item.id), shape.SummaryText(text="")
    return [
        make_event(ITEM_ADDED, output_index=place, item=replace(item, summary=[])),
        make_event("response.reasoning_summary_part.added", **at, part=empty),
    ]


def summary_delta(place: int, item: str, delta: str) -> ResponseEvent:
    return make_event(SUMMARY_DELTA, **_summary_place(place, item), delta=delta)


def reasoning_closed(place: int, item: shape.ReasoningItem) -> list[ResponseEvent]:
    (part,) = item.summary
    at = _summary_place(place, item.id)
    return [
        make_event("response.reasoning_summary_text.done", **at, text=part.text),
        make_event("response.reasoning_summary_part.done", **at, part=part),
        make_event(ITEM_DONE, output_index=place, item=item),
    ]


# --- calls ---


def function_called(place: int, item: shape.FunctionCallItem) -> list[ResponseEvent]:
    at: dict[str, object] = {"output_index": place, "item_id": item.id}
    begun = replace(item, arguments="", status="in_progress")
    done = "response.function_call_arguments.done"
    return [
        make_event(ITEM_ADDED, output_index=place, item=begun),
        make_event(ARGUMENTS_DELTAS[0], **at, delta=item.arguments),
        make_event(done, **at, name=item.name, arguments=item.arguments),
        make_event(ITEM_DONE, output_index=place, item=item),
    ]


def own_call_opened(place: int, item: shape.OwnCallItem) -> list[ResponseEvent]:
    at: dict[str, object] = {"output_index": place, "item_id": item.id}
    return [
        make_event(ITEM_ADDED, output_index=place, item=replace(item, arguments="")),
        make_event("response.mcp_call.in_progress", **at),
        make_event(ARGUMENTS_DELTAS[1], **at, delta=item.arguments),
        make_event("response.mcp_call_arguments.done", **at, arguments=item.arguments),
    ]


def own_call_closed(place: int, item: shape.OwnCallItem) -> list[ResponseEvent]:
    ending = "completed" if item.status == "completed" else "failed"
    return [
        make_event(f"response.mcp_call.{ending}", output_index=place, item_id=item.id),
        make_event(ITEM_DONE, output_index=place, item=item),
    ]
