"""What is thought of a command."""

from __future__ import annotations

from dataclasses import dataclass

from hermes.agent.danger.rules import RULES


@dataclass(frozen=True, slots=True, kw_only=True)
class DangerFinding:
    """A rule that a command breaks, and the words that break it."""

    rule: str
    what: str

    @property
    def line(self) -> str:
        return f"{RULES[self.rule].reason}: {self.what}" if self.what else RULES[self.rule].reason


@dataclass(frozen=True, slots=True, kw_only=True)
class DangerVerdict:
    """Empty findings = nothing to ask."""

    findings: tuple[DangerFinding, ...] = ()

    @property
    def asks(self) -> bool:
        return bool(self.findings)

    @property
    def never(self) -> bool:
        return any(RULES[finding.rule].never for finding in self.findings)

    @property
    def reasons(self) -> str:
        """One line per rule, the gravest first."""
        ranked = sorted(self.findings, key=lambda finding: not RULES[finding.rule].never)
        lines = dict.fromkeys(finding.line for finding in ranked)
        return "; ".join(list(lines)[:4])
