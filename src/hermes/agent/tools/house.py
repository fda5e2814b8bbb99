"""`ha_list_entities`, `ha_get_state` and `ha_call_service`: the devices of a house, as far as its owner
has exposed them. What lets people in, or could hurt somebody, is a person's to allow."""

from __future__ import annotations

import json
from collections.abc import Mapping
from hashlib import sha256
from typing import Any

from hermes.agent.tools.registry import ApprovalCase, ToolInvocation, tool
from hermes.domain.errors import UserError
from hermes.domain.ports.house import House, HouseEntity
from hermes.domain.text import one_line
from hermes.domain.tools.tool import ApprovalPrompt, Effect, ToolResult

_GUARDED = frozenset({"lock", "alarm_control_panel", "cover", "valve", "siren", "garage_door"})
_MOST = 200
_LONGEST = 4000


async def _guard(case: ApprovalCase, values: Mapping[str, Any]) -> ApprovalPrompt | None:
    entity = str(values.get("entity_id") or "")
    return _prompt(values) if entity.partition(".")[0] in _GUARDED else None


async def _guard_all(case: ApprovalCase, values: Mapping[str, Any]) -> ApprovalPrompt | None:
    """After words from outside nothing moves in the house by itself."""
    return _prompt(values)


def _prompt(values: Mapping[str, Any]) -> ApprovalPrompt:
    shown = json.dumps(values, ensure_ascii=False, sort_keys=True, default=str)
    action = f"{values.get('service')} on {values.get('entity_id')}"
    digest = sha256(shown.encode("utf-8", "surrogatepass")).hexdigest()
    text = f"In the house: {one_line(action, 120)}\n> {one_line(shown, 600)}"
    return ApprovalPrompt(text=text, digest=f"ha_call_service:{digest}")


@tool("homeassistant", Effect.READ, needs=House, parallel=True, seconds=60)
async def ha_list_entities(invocation: ToolInvocation, domain: str = "", words: str = "") -> ToolResult:
    """List the devices and sensors of the house that you may use.

    domain: like light
    words: in their names
    """
    found = [
        entity
        for entity in await invocation.services.get(House).entities()
        if domain in ("", entity.domain) and words.lower() in f"{entity.id} {entity.name}".lower()
    ]
    lines = [f"{entity.id}: {one_line(entity.name, 80)} = {_state(entity)}" for entity in found[:_MOST]]
    if len(found) > _MOST:
        lines.append(f"[{len(found) - _MOST} more; name a domain or words]")
    nothing = "Nothing of that kind is exposed (Home Assistant: Settings → Voice assistants → Expose)."
    return ToolResult(text="\n".join(lines) or nothing, outside=bool(found))


@tool("homeassistant", Effect.READ, needs=House, parallel=True, seconds=60)
async def ha_get_state(invocation: ToolInvocation, entity_id: str) -> ToolResult:
    """Tell how a device or sensor of the house is, with all its attributes."""
    for entity in await invocation.services.get(House).entities():
        if entity.id == entity_id:
            told = json.dumps(dict(entity.attributes), ensure_ascii=False, default=str)
            return ToolResult(text=f"{entity.id} = {_state(entity)}\n{told[:_LONGEST]}", outside=True)
    raise UserError(f"“{one_line(entity_id, 80)}” is not there, or not exposed.")


@tool("homeassistant", Effect.ONCE, needs=House, seconds=60, approval_check=_guard, after_outside=_guard_all)
async def ha_call_service(
    invocation: ToolInvocation, entity_id: str, service: str, data: str = ""
) -> ToolResult:
    """Do something with a device of the house.

    service: of its domain, like turn_on
    data: JSON, like {"brightness_pct": 40}
    """
    try:
        more = json.loads(data or "{}")
    except ValueError:
        more = None
    if not isinstance(more, dict):
        raise UserError('data is no JSON object; one is like {"brightness_pct": 40}.')
    entity = await invocation.services.get(House).act(entity_id, service, more)
    return ToolResult(text=f"Done. {entity.id} = {_state(entity)}", outside=True)


def _state(entity: HouseEntity) -> str:
    unit = one_line(str(entity.attributes.get("unit_of_measurement") or ""), 20)
    return f"{one_line(entity.state, 200)} {unit}".strip()
