"""A batch run as files: samples of the items that came to an answer, those of the others, and statistics."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from hermes.admin.batch.distributions import choose_toolsets, read_distribution
from hermes.admin.batch.run_files import RunFiles
from hermes.control.sessions.batches import ItemStanding
from hermes.domain.turns.turn import TurnState
from hermes.entry.batches import ItemSample
from hermes.state.home.textfile import replace_text

SAMPLES, FAILED, STATISTICS = "trajectories.jsonl", "failed_trajectories.jsonl", "statistics.json"


def export_run(
    run: RunFiles,
    standings: Iterable[ItemStanding],
    sample: Callable[[int], ItemSample],
    redact: Callable[[str], str],
    folder: Path,
    *,
    reasoned: bool = False,
) -> dict[str, Any]:
    """Write the samples of all items that are over; the statistics. With `reasoned`, samples without any
    thought are left out."""
    items, manifest = run.items(), run.manifest()
    distribution = read_distribution(manifest.distribution)
    good: list[str] = []
    bad: list[str] = []
    count: Counter[str] = Counter()
    tools: dict[str, Counter[str]] = {}
    for standing in standings:
        if standing.state.open:
            continue
        read = sample(standing.index)
        completed = standing.state is TurnState.DONE
        count["completed" if completed else "failed"] += 1
        count["with_reasoning"] += read.reasoned
        for name, numbers in read.sample["tool_stats"].items():
            tools.setdefault(name, Counter()).update(numbers)
        if reasoned and not read.reasoned:
            count["left_out"] += 1
            continue
        line = {
            "prompt_index": standing.index,
            **read.sample,
            "metadata": items[standing.index].metadata,
            "timestamp": read.timestamp.isoformat(),
            "model": read.model,
            "completed": completed,
            "partial": standing.state is TurnState.STOPPED,
            "toolsets_used": list(choose_toolsets(distribution, run.name, standing.index)) or ["all"],
        }
        clean = _without_secrets(line, redact)
        (good if completed else bad).append(json.dumps(clean, ensure_ascii=False) + "\n")
    statistics = {
        "run": run.name,
        "items": len(items),
        **{name: count[name] for name in ("completed", "failed", "with_reasoning", "left_out")},
        "tool_stats": {name: dict(numbers) for name, numbers in sorted(tools.items())},
    }
    folder.mkdir(parents=True, exist_ok=True)
    replace_text(folder / SAMPLES, "".join(good), 0o600)
    replace_text(folder / FAILED, "".join(bad), 0o600)
    replace_text(folder / STATISTICS, json.dumps(statistics, indent=2) + "\n", 0o600)
    return statistics


def _without_secrets(value: Any, redact: Callable[[str], str]) -> Any:
    """A value without secrets in its texts, and in texts that stand in JSON there: quoted once more, a secret
    looks like none."""
    if isinstance(value, dict):
        return {redact(name): _without_secrets(part, redact) for name, part in value.items()}
    if isinstance(value, list):
        return [_without_secrets(part, redact) for part in value]
    if isinstance(value, str):
        return "\n".join(_clean_line(line, redact) for line in redact(value).split("\n"))
    told = json.dumps(value)
    return value if redact(told) == told else redact(told)


def _clean_line(line: str, redact: Callable[[str], str]) -> str:
    if not line.startswith(("{", "[")):
        return line
    try:
        read = json.loads(line)
        clean = _without_secrets(read, redact)
    except (ValueError, RecursionError):
        return line
    return line if clean == read else json.dumps(clean, ensure_ascii=False)
