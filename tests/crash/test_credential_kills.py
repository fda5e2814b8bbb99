"""A pool that rotates, killed at every step of its write: the next life answers and knows the cooldown."""

from __future__ import annotations

import asyncio
import multiprocessing
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from hermes.agent.models.pool import PooledProvider
from hermes.app.agents.credentials import CredentialStore
from hermes.domain.clock import SystemClock
from hermes.domain.errors import FaultKind, ModelFault
from hermes.domain.models.credential import Credential
from hermes.domain.ports.agent import Provider
from hermes.domain.settings.declaring import Secret
from hermes.domain.turns.event import ModelSaid
from hermes.state.home.credentials import CredentialFile
from hermes.state.settings.secrets import Secrets
from hermes.testing.model import Say, ScriptedModel, say
from tests.agent.driving import Driver, loop_of

KILLED = 9
STEPS = ("open", "fchmod", "fsync", "replace")


def provider_of(credential: Credential) -> Provider:
    spent = ModelFault("no credit", kind=FaultKind.NO_CREDIT)
    return ScriptedModel(lambda request: Say(error=spent) if credential.id == "a" else say("hi"))


async def one_turn(home: Path) -> str:
    store = CredentialStore(home, Secrets(), SystemClock())
    access = store.access("openrouter", ())
    pool = PooledProvider("openrouter", access, provider_of, clock=SystemClock())
    records = await Driver(loop_of(pool)).say("hello")
    return next(record.text for record in records if isinstance(record, ModelSaid))


def life(home: Path, steps: int) -> None:
    """A turn in a process that is gone at the n-th step."""
    left = steps

    def counted(real: Callable[..., Any]) -> Callable[..., Any]:
        def step(*given: Any, **named: Any) -> Any:
            nonlocal left
            left -= 1
            if left < 0:
                os._exit(KILLED)
            return real(*given, **named)

        return step

    for name in STEPS:
        setattr(os, name, counted(getattr(os, name)))
    assert asyncio.run(one_turn(home)) == "hi"
    os._exit(0)


def test_a_rotation_that_is_killed_at_every_step_loses_nothing(tmp_path: Path) -> None:
    context, kills = multiprocessing.get_context("fork"), 0
    for steps in range(40):
        home = tmp_path / str(steps)
        home.mkdir()
        for name in "ab":
            key = Credential(id=name, provider="openrouter", label=name, key=Secret(f"sk-{name}"))
            CredentialFile(home).add(key)
        child = context.Process(target=life, args=(home, steps))
        child.start()
        child.join()
        stored = CredentialFile(home).read()
        assert [one.id for one in stored.credentials] == ["a", "b"]
        if child.exitcode == 0:
            break
        assert child.exitcode == KILLED
        kills += 1
        assert asyncio.run(one_turn(home)) == "hi"
        assert CredentialFile(home).read().cooldowns["a"].kind is FaultKind.NO_CREDIT
    assert kills >= 5
