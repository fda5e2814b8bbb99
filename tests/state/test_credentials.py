"""`auth.json`: what is stored, what survives a power cut, and what several processes do to it at once."""

from __future__ import annotations

import json
import multiprocessing
import os
import stat
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from hermes.domain.errors import FaultKind, UserError
from hermes.domain.models.credential import Cooldown, Credential, CredentialKind, secrets_of
from hermes.domain.settings.declaring import Secret
from hermes.domain.word import replace
from hermes.state.home.credentials import AUTH_FILE, CredentialFile

NOW = datetime(2026, 1, 5, 12, 0, tzinfo=UTC)


def key(id: str, provider: str = "openrouter", **more: Any) -> Credential:
    return Credential(id=id, provider=provider, label=f"{id} key", key=Secret(f"sk-{id}"), **more)


def resting(hours: float, *, by_service: bool = False) -> Cooldown:
    return Cooldown(until=NOW + timedelta(hours=hours), kind=FaultKind.NO_CREDIT, by_service=by_service)


def test_what_is_stored_is_read_again_and_closed_to_others(tmp_path: Path) -> None:
    file = CredentialFile(tmp_path)
    login = key("b", "nous", kind=CredentialKind.OAUTH, refresh=Secret("again"), expires_at=NOW)
    file.add(key("a"))
    file.add(login)
    file.rest({"a": resting(1, by_service=True), "env:X#1": resting(2)}, NOW, {"a": 3})
    assert stat.S_IMODE((tmp_path / AUTH_FILE).stat().st_mode) == 0o600
    read = CredentialFile(tmp_path).read()
    assert read.of("openrouter") == [key("a", uses=3, cooldown=resting(1, by_service=True))]
    assert read.of("nous") == [login]
    outside = Credential.outside("openrouter", "X", Secret("sk-outside"))
    assert read.rested(replace(outside, id="env:X#1")).cooldown == resting(2)
    assert "sk-a" not in repr(read) and secrets_of(read.credentials) == ["sk-a", "sk-b", "again"]


def test_keys_of_the_environment_are_never_written(tmp_path: Path) -> None:
    file = CredentialFile(tmp_path)
    outside = Credential.outside("openrouter", "OPENROUTER_API_KEY", Secret("sk-or-secret"))
    file.rest({outside.id: resting(1)}, NOW, {outside.id: 7})
    text = (tmp_path / AUTH_FILE).read_text()
    assert "sk-or-secret" not in text and outside.id in text
    assert not file.read().credentials
    other = Credential.outside("openrouter", "OPENROUTER_API_KEY", Secret("sk-or-other"))
    assert file.read().rested(other).cooldown is None, "a new key does not rest for the old one"


def test_cooldowns_that_are_over_and_removed_keys_leave_nothing(tmp_path: Path) -> None:
    file = CredentialFile(tmp_path)
    file.add(key("a"))
    file.rest({"a": resting(1), "env:X#1": resting(2)}, NOW, {})
    file.rest({}, NOW + timedelta(hours=1.5), {})
    assert [*file.read().cooldowns] == ["env:X#1"]
    file.remove("a")
    assert json.loads((tmp_path / AUTH_FILE).read_text())["credential_pool"] == {}


def test_a_file_of_hermes_agent_keeps_what_we_do_not_know(tmp_path: Path) -> None:
    entry = {"id": "x1", "access_token": "sk-x", "auth_type": "api_key", "priority": 4, "base_url": None}
    older = {"version": 1, "active_provider": "nous", "providers": {"nous": {"scope": "s"}}}
    pool = {"openrouter": [entry, {"id": "e", "source": "env:OPENROUTER_API_KEY"}, "nonsense"], "odd": 7}
    (tmp_path / AUTH_FILE).write_text(json.dumps(older | {"credential_pool": pool}))
    file = CredentialFile(tmp_path)
    (read,) = file.read().credentials
    assert (read.id, read.key.reveal(), read.base_url, read.label) == ("x1", "sk-x", "", "x1")
    file.add(key("b"))
    tree = json.loads((tmp_path / AUTH_FILE).read_text())
    assert tree["providers"] == older["providers"] and tree["active_provider"] == "nous"
    assert tree["credential_pool"]["openrouter"][0]["priority"] == 4


def test_a_broken_file_is_told_and_never_overwritten(tmp_path: Path) -> None:
    (tmp_path / AUTH_FILE).write_text("{broken")
    file = CredentialFile(tmp_path)
    assert not file.read().credentials and "is not JSON" in file.problem
    with pytest.raises(UserError, match="is not JSON"):
        file.add(key("a"))
    assert (tmp_path / AUTH_FILE).read_text() == "{broken"


class PowerCut(BaseException):
    """The process is gone."""


CHANGES: list[Callable[[CredentialFile], object]] = [
    lambda file: file.add(key("new")),
    lambda file: file.rest({"a": resting(1), "b": None}, NOW, {"a": 2}),
    lambda file: file.update("b", lambda one: replace(one, key=Secret("sk-newer"))),
    lambda file: file.remove("a"),
]


@pytest.mark.parametrize("change", CHANGES)
def test_a_change_is_there_whole_or_not_at_all(
    tmp_path: Path, change: Callable[[CredentialFile], object], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Cut at every step of a write: each call that the system is asked for on the way."""
    steps = ("open", "fchmod", "fsync", "replace", "close")
    cuts = 0
    for number in range(40):
        home = tmp_path / str(number)
        home.mkdir()
        file = CredentialFile(home)
        file.add(key("a"))
        file.add(key("b"))
        before = CredentialFile(home).read()
        left = number

        def cutting(name: str, real: Callable[..., Any]) -> Callable[..., Any]:
            def step(*given: Any, **named: Any) -> Any:
                nonlocal left
                left -= 1
                if left < 0 and name != "close":
                    raise PowerCut
                return real(*given, **named)

            return step

        with monkeypatch.context() as patched:
            for name in steps:
                patched.setattr(os, name, cutting(name, getattr(os, name)))
            try:
                change(file)
            except PowerCut:
                cuts += 1
        after = CredentialFile(home).read()
        whole = tmp_path / f"whole-{number}"
        whole.mkdir()
        other = CredentialFile(whole)
        other.add(key("a"))
        other.add(key("b"))
        change(other)
        assert after in (before, other.read())
        CredentialFile(home).add(key("later"))
        if left > 0:
            break
    assert cuts >= 4


def _add_many(home: Path, start: int) -> None:
    for number in range(start, start + 20):
        CredentialFile(home).add(key(str(number)))


def test_processes_lose_nothing_of_each_other(tmp_path: Path) -> None:
    context = multiprocessing.get_context("fork")
    workers = [context.Process(target=_add_many, args=(tmp_path, start)) for start in (0, 20, 40)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
        assert worker.exitcode == 0
    stored = CredentialFile(tmp_path).read().credentials
    assert sorted(int(one.id) for one in stored) == list(range(60))
