"""Is a command dangerous? Read as a shell reads it, judged by a table of rules, unknown = ask.

This is help for people, not a boundary: the boundary is the sandbox a command runs in."""

from hermes.agent.danger.judge import digest, judge_command, judge_input
from hermes.agent.danger.paths import CommandScope, is_free_workspace, read_fault, write_fault
from hermes.agent.danger.rules import RULES, DangerFinding, DangerVerdict

__all__ = [
    "RULES",
    "DangerFinding",
    "CommandScope",
    "DangerVerdict",
    "digest",
    "is_free_workspace",
    "judge_command",
    "judge_input",
    "read_fault",
    "write_fault",
]
