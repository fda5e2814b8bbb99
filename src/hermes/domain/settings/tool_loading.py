"""Settings of which tools a model is told of in full, and which it has to find."""

from __future__ import annotations

from hermes.domain.settings.declaring import Names, Section, setting
from hermes.domain.tools.deferral import BUDGET, LoadRule


class ToolLoading(Section, frozen=True, kw_only=True):
    """Which tools a new session is told of in full; it finds all others with `tool_search`."""

    defer: str = setting(
        "auto",
        "`auto` defers what does not fit the budget; `always` all but the core (files, terminal, `todo`, "
        "`clarify`); `never` nothing.",
        choices=("auto", "always", "never"),
    )
    budget: int = setting(BUDGET, "Bytes that the schemas of all tools may take in a request.", least=0)
    load: Names = setting((), "Tools and toolsets that are never deferred.")

    @property
    def rule(self) -> LoadRule:
        return LoadRule(defer=self.defer, budget=self.budget, load=self.load)
