"""A line that is to be sent to a running process: a command if that is a shell, else words for a program.

A line is judged alone: nothing is known of earlier ones, so it is judged as if the shell stood where it
began, and as if it stood anywhere. What would change the meaning of later lines is asked for."""

from __future__ import annotations

import re

from hermes.agent.danger.judge import CommandJudge, follow
from hermes.agent.danger.names import SHELLS, SILENT, names
from hermes.agent.danger.paths import CommandScope
from hermes.agent.danger.rules import RULES
from hermes.agent.danger.verdict import DangerFinding, DangerVerdict

_LASTING = names("cd pushd popd alias exec hash enable set shopt history fc bind complete trap")
_BESIDES = SHELLS | SILENT | names("env exec nice nohup setsid stdbuf timeout command ulimit umask set")
"""What may run beside a shell in a command: none of it takes the lines that are meant for the shell."""
_UNFINISHED = re.compile(r"\\\Z|<<|(^|[\s;&|(])![^\s=(]|^\^")
"""What goes on in the next line, or brings back an earlier one."""
_HALF_A_COMMAND = re.compile(r"[$`(\[]")
_KEYS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f\x80-\x9f]")
_ANSWER = re.compile(r"|y|n|yes|no|ok|q|quit|exit|\?|help|\d{1,4}", re.IGNORECASE)


def judge_input(text: str, command: str, place: CommandScope) -> DangerVerdict:
    """What a person should know before this line is sent to what the command has started there."""
    if _KEYS.search(text):
        return DangerVerdict(findings=(DangerFinding(rule="text.keys", what=""),))
    line = follow(text, place, None)
    for finding in follow(text, place, place.cwd).findings:
        line.find(finding.rule, finding.what)
    program = follow(command, place, place.cwd)
    if program.readers and program.readers <= SHELLS and program.ran <= _BESIDES:
        if _lasts(line) or _UNFINISHED.search(text.rstrip("\n")):
            line.find("run.later", "")
        return DangerVerdict(findings=tuple(line.findings))
    never = [finding for finding in line.findings if RULES[finding.rule].never]
    asked = [] if _ANSWER.fullmatch(text.strip()) else [DangerFinding(rule="run.input", what="")]
    return DangerVerdict(findings=(*never, *asked))


def _lasts(line: CommandJudge) -> bool:
    """Whether later lines mean something else: another program takes them, or they find half a command."""
    stored = (value for values in line.variables.values.values() for value in values)
    return bool(line.readers or line.ran & _LASTING) or any(map(_HALF_A_COMMAND.search, stored))
