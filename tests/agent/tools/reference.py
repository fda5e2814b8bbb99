"""The reference page of the tools, made from the registry (docs/reference/tools.md)."""

from __future__ import annotations

from collections.abc import Mapping

from hermes.agent.tools.registry import TOOLS, RegisteredTool
from hermes.domain.tools.tool import Effect

_EFFECTS = {
    Effect.READ: "repeats freely",
    Effect.KEYED: "may be repeated after a crash: a second time changes nothing",
    Effect.ONCE: "never repeated: after a crash its outcome is reported as unknown",
}


def tools_page() -> str:
    toolsets = dict.fromkeys(spec.toolset for spec in TOOLS.values())
    parts = [
        "# Tools",
        "What the agent can do, by toolset. Made from the code by `tests/agent/tools/reference.py`.",
        "Toolsets are named in `enabled_toolsets` and `disabled_toolsets`; `none` means no tool at all. "
        "Results are plain text of at most 100,000 characters.",
    ]
    for toolset in toolsets:
        parts.append(f"## {toolset}")
        parts += [_section(spec) for spec in TOOLS.values() if spec.toolset == toolset]
    return "\n\n".join(parts) + "\n"


def _section(spec: RegisteredTool) -> str:
    facts = [f"Effect `{spec.effect.value}` ({_EFFECTS[spec.effect]})"]
    if spec.parallel:
        facts.append("runs beside others")
    if spec.approval_check is not None:
        facts.append("asks first where it matters ([approvals](../explain/approvals.md))")
    if spec.asks is not None:
        facts.append("answered by a person")
    rows = ["| Argument | Type | Meaning |", "|---|---|---|", *_rows(spec)]
    return "\n\n".join(
        [f"### `{spec.name}`", spec.signature.description, "; ".join(facts) + ".", "\n".join(rows)]
    )


def _rows(spec: RegisteredTool) -> list[str]:
    properties = spec.signature.parameters["properties"]
    assert isinstance(properties, Mapping)
    rows: list[str] = []
    for name, schema in properties.items():
        kind = schema.get("type", "")
        if "enum" in schema:
            kind = " · ".join(f"`{value}`" for value in schema["enum"])
        elif kind == "array":
            fields = schema["items"].get("properties")
            kind = f"list of {{{', '.join(fields)}}}" if fields else f"list of {schema['items']['type']}"
        need = "" if name in spec.signature.required else " (optional)"
        rows.append(f"| `{name}` | {kind}{need} | {schema.get('description', '')} |")
    return rows
