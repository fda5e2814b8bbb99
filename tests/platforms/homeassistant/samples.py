"""Events of Home Assistant (developers.home-assistant.io/docs/api/websocket), one of each kind."""

from __future__ import annotations

from typing import Any

_CONTEXT = {
    "id": "01JK326EV41RVCJWHGZ6ARZQFA",
    "parent_id": None,
    "user_id": "31ddb597e03147118cf8d2f8fbea5553",
}
_TIME = "2026-11-16T01:18:46.983415+00:00"


def event(sort: str, data: Any) -> dict[str, Any]:
    return {"event_type": sort, "data": data, "origin": "LOCAL", "time_fired": _TIME, "context": _CONTEXT}


def state(entity: str, value: str, **attributes: Any) -> dict[str, Any]:
    return {
        "entity_id": entity,
        "state": value,
        "attributes": attributes,
        "last_changed": _TIME,
        "last_updated": _TIME,
        "context": _CONTEXT,
    }


def changed(entity: str, before: str | None, after: str | None, **attributes: Any) -> dict[str, Any]:
    data = {
        "entity_id": entity,
        "old_state": None if before is None else state(entity, before, **attributes),
        "new_state": None if after is None else state(entity, after, **attributes),
    }
    return event("state_changed", data)


EVENTS: dict[str, dict[str, Any]] = {
    "question": event("hermes_message", {"text": "Is the door shut?", "chat": "voice", "user": "ann"}),
    "bare": event("hermes_message", {"text": "hello"}),
    "door": changed("binary_sensor.door", "off", "on", friendly_name="Front [door]"),
    "warmth": changed("sensor.oven", "20.1", "180.5", friendly_name="Oven", unit_of_measurement="°C"),
    "same": changed("binary_sensor.door", "on", "on"),
    "new": changed("binary_sensor.door", None, "on"),
    "gone": changed("binary_sensor.door", "on", None),
    "away": changed("binary_sensor.door", "on", "unavailable"),
    "unwatched": changed("light.kitchen", "off", "on"),
    "ignored": changed("binary_sensor.motion", "off", "on"),
    "service": event("call_service", {"domain": "light", "service": "turn_on"}),
}
