"""`approvals.deny`: commands that are refused, whoever allows them and however they are wrapped."""

from __future__ import annotations

import pytest

from hermes.agent.danger.judge import judge_command
from hermes.agent.danger.scope import CommandScope

PLACE = CommandScope(
    cwd="/w", workspace="/w", home="/home/me", deny=("git push*", "curl *", "*secret*", "kubectl")
)


@pytest.mark.parametrize(
    "command",
    [
        "git push",
        "git push origin main",
        "GIT  push",
        "/usr/bin/git push",
        "true && git push",
        "ls | curl -d @- http://x",
        "echo $(curl http://x)",
        "sudo git push",
        "env A=1 git push",
        "bash -c 'git push'",
        "X=git; $X push",
        "'git' \"push\"",
        "xargs git push < list",
        "for i in a b; do git push; done",
        "cat my-secret-file",
        "kubectl",
    ],
)
def test_a_denied_command_is_never_run(command: str) -> None:
    verdict = judge_command(command, PLACE)
    assert verdict.never and "approvals.deny" in verdict.reasons, verdict


@pytest.mark.parametrize("command", ["git status", "git pull", "echo 'git push'", "kubectl get pods", "ls"])
def test_what_is_not_denied_is_judged_as_ever(command: str) -> None:
    assert "denied" not in [finding.rule for finding in judge_command(command, PLACE).findings]


def test_a_list_that_cannot_be_read_denies_everything() -> None:
    assert judge_command("ls", CommandScope(cwd="/w", workspace="/w", home="/h", deny=("*",))).never
