"""What becomes of a model that runs in circles: from how often a call failed or led nowhere, what it is told
next, and whether it gets tools any more."""

from __future__ import annotations

from hermes.agent.run.progress import TurnProgress
from hermes.domain.settings.tool_limits import LoopGuard, LoopStops, LoopWarnings

FAILS_AGAIN = "{tool} failed {times} times with the same arguments"
FAILS_OFTEN = "{tool} failed {times} times in a row"
REPEATS = "You called {tool} {times} times with the same arguments and the same result"
_ADVICE = {
    FAILS_AGAIN: "The same call fails again: read why, and change something first.",
    FAILS_OFTEN: "Find out why before you call it again, or do without it.",
    REPEATS: "Do something else, or answer. If you wait for something, wait longer in one call.",
}
_STOP = "Do not call tools any more. Say what was done, what was found, and what is left."


def warning(progress: TurnProgress, guard: LoopGuard) -> str:
    """What a model in a circle is told with its next call; empty if it is in none."""
    found = _circle(progress, guard.warn_after) if guard.warnings_enabled else None
    return "" if found is None else f"[{found[1]}. {_ADVICE[found[0]]}]"


def stop_words(progress: TurnProgress, guard: LoopGuard) -> str:
    """What it is told when it gets no tools any more; empty while it does."""
    found = _circle(progress, guard.hard_stop_after) if guard.hard_stop_enabled else None
    return "" if found is None else f"[{found[1]}. {_STOP}]"


def _circle(progress: TurnProgress, most: LoopWarnings | LoopStops) -> tuple[str, str] | None:
    again = ((name, times) for (name, _), times in progress.failures.items())
    seen = (
        (FAILS_AGAIN, again, most.exact_failure),
        (FAILS_OFTEN, progress.tool_failures.items(), most.same_tool_failure),
        (REPEATS, [(progress.repeated, progress.repeats)], most.idempotent_no_progress),
    )
    for words, counts, limit in seen:
        for tool, times in counts:
            if times >= limit:
                return words, words.format(tool=tool, times=times)
    return None
