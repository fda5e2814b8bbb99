"""Is a line for a running process dangerous? To a shell it is a command; to anything else it may be anything.

A line is judged alone: nothing is known of earlier ones, so it is judged as if the shell stood where it
began, and as if it stood anywhere. What would change the meaning of later lines is asked for."""

from __future__ import annotations

import re

from hermes.agent.danger.judge import follow
from hermes.agent.danger.names import SHELLS, names
from hermes.agent.danger.paths import Place
from hermes.agent.danger.rules import RULES
from hermes.agent.danger.verdict import Finding, Verdict

_LASTING = names("cd pushd popd alias exec hash enable set shopt")
_UNFINISHED = re.compile(r"\\\Z|<<|(^|[\s;&|(])![^\s=(]|^\^")
"""What goes on in the next line, or brings back an earlier one."""
_ANSWER = re.compile(r"|y|n|yes|no|ok|q|quit|exit|\?|help|\d{1,4}", re.IGNORECASE)


def judge_input(text: str, command: str, place: Place) -> Verdict:
    """What a person should know before this line is sent to what the command has started there."""
    line = follow(text, place, None)
    for finding in follow(text, place, place.cwd).findings:
        line.find(finding.rule, finding.what)
    readers = follow(command, place, place.cwd).readers
    if readers and readers <= SHELLS:
        if line.readers or line.ran & _LASTING or _UNFINISHED.search(text.rstrip("\n")):
            line.find("run.later", "")
        return Verdict(findings=tuple(line.findings))
    never = [finding for finding in line.findings if RULES[finding.rule].never]
    asked = [] if _ANSWER.fullmatch(text.strip()) else [Finding(rule="run.input", what="")]
    return Verdict(findings=(*never, *asked))
