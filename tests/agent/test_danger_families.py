"""Whole families of dangerous commands, and what coding agents run all day: how many are asked for."""

from __future__ import annotations

import pytest

from hermes.agent.danger.judge import judge_command
from tests.agent import danger_families, everyday_commands
from tests.agent.test_danger_corpus import PLACE

FAMILIES = danger_families.commands()


def asked(command: str) -> bool:
    return judge_command(command, PLACE).needs_approval


def test_there_are_enough_of_them() -> None:
    assert len(FAMILIES) >= 25
    assert len({command for family in FAMILIES.values() for command in family}) >= 500
    assert len(set(everyday_commands.commands())) >= 300


@pytest.mark.parametrize("family", FAMILIES)
def test_a_family_is_asked_for(family: str) -> None:
    assert [command for command in FAMILIES[family] if not asked(command)] == []


def test_everyday_work_is_not() -> None:
    assert [command for command in everyday_commands.commands() if asked(command)] == []
