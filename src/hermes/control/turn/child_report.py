"""What the parent of a child is told when the child ends: who worked with which model, what it took, which
tools and files it used, and its answer. All of it is read from the child's records."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from hermes.control.outbound.answers import closing_words
from hermes.domain.text import one_line
from hermes.domain.turns.event import (
    Asked,
    Entry,
    Failed,
    Finished,
    ModelSaid,
    Stopped,
    ToolFinished,
    ToolOutput,
    ToolStarted,
    calls_in,
    usage_of,
)
from hermes.domain.turns.transcript import changed_files
from hermes.domain.turns.turn import ParentCall, Turn
from hermes.stream.fold.questions import for_people
from hermes.stream.fold.tool_lines import plain_line

LONGEST = 24_000
_MOST_FILES = 30
_MOST_TOOLS = 12


def report_child(turn: Turn, entries: Sequence[Entry], below: Sequence[Entry] = ()) -> str:
    """`entries` are the child's records, with its end, and `below` those of its own children: what they took
    and changed is part of it."""
    records = [entry.record for entry in entries]
    words = closing_words(entries, turn.id).strip() or "(It said nothing.)"
    if len(words) > LONGEST:
        cut = f"\n[… {len(words) - LONGEST} characters left out; all of it is in session {turn.session} …]\n"
        words = words[: LONGEST * 2 // 5] + cut + words[-LONGEST * 3 // 5 :]
    replies = [record for record in records if isinstance(record, ModelSaid) and record.model]
    others = ((said.model, said.other_provider) for said in replies)
    names = dict.fromkeys(f"{model} via {other}" if other else model for model, other in others)
    every = [*records, *(entry.record for entry in below)]
    used, calls = usage_of(every), len(calls_in(every))
    cost = "price not known" if used.cost is None else f"${used.cost:.4f}"
    seconds = (entries[-1].at - turn.created_at).total_seconds()
    state = "done" if isinstance(records[-1], Finished) else "not finished"
    facts = [
        state,
        f"agent {turn.agent}",
        f"model {', '.join(names) or 'none was asked'}",
        f"{calls} model calls, {used.prompt:,} tokens read, {used.completion:,} written, {cost}",
        f"{seconds:.0f} s",
        *(["with the tasks that it gave"] if below else []),
    ]
    lines = [f"[{' · '.join(facts)}]", *_tools(records), *_files([*entries, *below]), words]
    return "\n".join(lines)


def child_steps(parent: ParentCall, new: Sequence[Entry]) -> list[ToolOutput]:
    """What those who watch the parent see of new records of a child."""
    place = f"[{parent.place}] " if parent.place else ""
    told: list[str] = []
    for record in (entry.record for entry in new):
        match record:
            case ModelSaid(calls=calls):
                told += map(plain_line, calls)
            case Asked() if for_people(record):
                told.append("waits for an approval")
            case Finished():
                told.append("done")
            case Failed(reason=reason) | Stopped(reason=reason):
                told.append(one_line(f"not finished: {reason}", 120))
    return [] if parent.call is None else [ToolOutput(call=parent.call, text=f"{place}{t}\n") for t in told]


def _tools(records: Sequence[object]) -> list[str]:
    started = {one.call: one.name for one in records if isinstance(one, ToolStarted) and not one.inside}
    failed = sum(isinstance(one, ToolFinished) and one.failed and one.call in started for one in records)
    used = Counter(started.values()).most_common(_MOST_TOOLS)
    if not used:
        return []
    told = ", ".join(f"{name} ×{times}" if times > 1 else name for name, times in used)
    return [f"[tools: {told}{f'; {failed} calls failed' if failed else ''}]"]


def _files(entries: Sequence[Entry]) -> list[str]:
    files = changed_files(entries)
    more = f" and {len(files) - _MOST_FILES} more" if len(files) > _MOST_FILES else ""
    told = ", ".join(one_line(path, 200) for path in files[:_MOST_FILES])
    return [f"[files changed: {told}{more}; read them again before you rely on them]"] if files else []
