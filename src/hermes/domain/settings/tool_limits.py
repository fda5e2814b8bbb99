"""Settings of how scripts run, and of what becomes of a model that runs in circles."""

from __future__ import annotations

from msgspec import field

from hermes.domain.settings.declaring import Section, setting


class CodeExecution(Section, frozen=True, kw_only=True):
    """How scripts of `execute_code` run."""

    mode: str = setting(
        "project",
        "`project` = in the session's folder, with its variables and its virtual environment; `strict` = in "
        "an empty folder, with the Python of the system.",
        choices=("project", "strict"),
    )
    timeout: float = setting(300.0, "Seconds a script may take.", least=1, most=840)
    max_tool_calls: int = setting(50, "Tool calls a script may make.", least=0, most=1000)


class LoopWarnings(Section, frozen=True, kw_only=True):
    """How often it happens in one turn, with nothing changed in between, before the model is warned."""

    exact_failure: int = setting(2, "The same call fails.", least=1)
    same_tool_failure: int = setting(3, "One tool fails, whatever its arguments.", least=1)
    idempotent_no_progress: int = setting(2, "The same calls have the same results.", least=1)


class LoopStops(Section, frozen=True, kw_only=True):
    """The same before it gets no tools any more."""

    exact_failure: int = setting(5, "The same call fails.", least=1)
    same_tool_failure: int = setting(8, "One tool fails, whatever its arguments.", least=1)
    idempotent_no_progress: int = setting(5, "The same calls have the same results.", least=1)


class LoopGuard(Section, frozen=True, kw_only=True):
    """What becomes of a model that runs in circles: it is warned, and then has to answer without tools."""

    warnings_enabled: bool = setting(True, "Warn it.")
    hard_stop_enabled: bool = setting(True, "Take its tools away for the rest of the turn.")
    warn_after: LoopWarnings = field(default_factory=LoopWarnings)
    hard_stop_after: LoopStops = field(default_factory=LoopStops)
