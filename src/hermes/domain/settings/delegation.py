"""Settings of tasks that an agent gives to other turns."""

from __future__ import annotations

from hermes.domain.settings.declaring import Section, setting
from hermes.domain.settings.manner import EFFORTS


class DelegationSettings(Section, frozen=True, kw_only=True):
    """How `delegate_task` works."""

    model: str = setting(
        "", "The model of children that are no agent of their own; empty = that of who delegates."
    )
    provider: str = setting("", "Who serves it; empty = as for who delegates.")
    reasoning_effort: str = setting("", "How hard it thinks; empty = as it likes.", choices=EFFORTS)
    max_iterations: int = setting(50, "Model calls that a child may make before it must answer.", least=1)
    max_concurrent_children: int = setting(
        3, "Children of one turn that run at the same time; more wait for their turn.", least=1
    )
    max_spawn_depth: int = setting(
        1, "How deep children may have children of their own; 1 = not at all.", least=1, most=5
    )
    child_timeout_seconds: float = setting(
        0.0, "Seconds that the tasks of one call may take; 0 = any number.", least=0
    )
