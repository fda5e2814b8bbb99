"""Updates of a checkout: real git, and a program that only says whether it can be prepared."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from hermes.domain.errors import UserError
from hermes.execution.service.checkout import checkout_in_use, look_for_update, passed_on, update_checkout
from tests.cli.command import hermes

ENVIRON = {"PATH": os.environ["PATH"], "GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1"}
WORKS, BREAKS = "#!/bin/sh\necho ready\n", "#!/bin/sh\necho no such package >&2\nexit 1\n"


class Repositories:
    """Where changes are made, and the clone that somebody runs."""

    def __init__(self, folder: Path) -> None:
        self.source, self.clone = folder / "source", folder / "clone"
        self.git(folder, "init", "-q", "-b", "main", str(self.source))
        self.change("the first", WORKS)
        self.git(folder, "clone", "-q", str(self.source), str(self.clone))

    def git(self, place: Path, *words: str) -> str:
        who = ["-c", "user.name=x", "-c", "user.email=x@example.org"]
        done = subprocess.run(
            ["git", *who, *words], cwd=place, env=ENVIRON, capture_output=True, text=True, check=True
        )
        return done.stdout.strip()

    def change(self, subject: str, program: str) -> None:
        (self.source / "hermes").write_text(program + f"# {subject}\n")
        (self.source / "hermes").chmod(0o755)
        self.git(self.source, "add", "-A")
        self.git(self.source, "commit", "-q", "-m", subject)

    @property
    def head(self) -> str:
        return self.git(self.clone, "log", "-1", "--format=%s")


@pytest.fixture
def repositories(tmp_path: Path) -> Repositories:
    return Repositories(tmp_path)


def test_what_is_new_is_said_and_taken(repositories: Repositories) -> None:
    assert str(look_for_update(repositories.clone, ENVIRON)) == "Hermes is up to date."
    for subject in ("Hear better", "Speak better"):
        repositories.change(subject, WORKS)
    state = look_for_update(repositories.clone, ENVIRON)
    assert (
        str(state) == "2 changes to come:\n- Speak better\n- Hear better" and repositories.head == "the first"
    )
    update_checkout(state, ENVIRON)
    assert repositories.head == "Speak better" and look_for_update(repositories.clone, ENVIRON).behind == 0


def test_one_that_cannot_be_prepared_is_taken_back(repositories: Repositories) -> None:
    repositories.change("Break it", BREAKS)
    with pytest.raises(UserError, match="the old one stays: no such package"):
        update_checkout(look_for_update(repositories.clone, ENVIRON), ENVIRON)
    assert repositories.head == "the first"
    prepared = repositories.clone.parent / "prepared"
    repositories.change("Say when", f"#!/bin/sh\necho ready >>{prepared}\n")
    update_checkout(look_for_update(repositories.clone, ENVIRON), ENVIRON)
    repositories.change("Break it again", BREAKS)
    with pytest.raises(UserError, match="the old one stays"):
        update_checkout(look_for_update(repositories.clone, ENVIRON), ENVIRON)
    assert prepared.read_text() == "ready\n" * 2, "the environment of the old one is prepared again too"


def test_one_that_never_gets_ready_is_taken_back(
    repositories: Repositories, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hermes.execution.service.checkout._PREPARING", 0.5)
    repositories.change("Hang", "#!/bin/sh\nexec sleep 60\n")
    with pytest.raises(UserError, match=r"the old one stays: .*timed out"):
        update_checkout(look_for_update(repositories.clone, ENVIRON), ENVIRON)
    assert repositories.head == "the first"
    repositories.change("Run nowhere", "#!/no/such/program\n")
    with pytest.raises(UserError, match=r"the old one stays: .*No such file"):
        update_checkout(look_for_update(repositories.clone, ENVIRON), ENVIRON)
    assert repositories.head == "the first"


def test_changes_by_hand_are_never_lost(repositories: Repositories) -> None:
    repositories.change("Hear better", WORKS)
    (repositories.clone / "hermes").write_text("mine")
    with pytest.raises(UserError, match="changed by hand"):
        update_checkout(look_for_update(repositories.clone, ENVIRON), ENVIRON)
    assert (repositories.clone / "hermes").read_text() == "mine" and repositories.head == "the first"
    repositories.git(repositories.clone, "commit", "-qam", "my own")
    with pytest.raises(UserError, match="git merge failed"):
        update_checkout(look_for_update(repositories.clone, ENVIRON), ENVIRON)
    assert repositories.head == "my own"


def test_what_cannot_be_updated_is_said(repositories: Repositories, tmp_path: Path) -> None:
    for place in (None, tmp_path / "nothing"):
        with pytest.raises(UserError, match="does not run from a clone"):
            look_for_update(place, ENVIRON)
    repositories.git(repositories.clone, "remote", "set-url", "origin", str(tmp_path / "gone"))
    with pytest.raises(UserError, match="git fetch failed"):
        look_for_update(repositories.clone, ENVIRON)
    told = hermes(tmp_path / "home", "update", "--check")  # the tests' own environment was made by ./test
    assert (
        told.code == 1
        and "does not run from a clone" in told.err
        and told.clean
        and checkout_in_use() is None
    )


def test_git_hears_of_no_secret() -> None:
    needed = {"PATH": "/bin", "GIT_ASKPASS": "x", "https_proxy": "http://proxy:1"}
    assert passed_on(needed | {"OPENAI_API_KEY": "sk-1", "TELEGRAM_BOT_TOKEN": "1"}) == needed
