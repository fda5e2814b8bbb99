"""Installing the packages of a platform with the Python that runs Hermes, wherever somebody stands."""

from __future__ import annotations

import io
import sys
from pathlib import Path

import pytest

from hermes.admin.commands import platform_packages
from hermes.admin.shell.output import CliConsole
from hermes.domain.chats.capabilities import PackageExtra
from hermes.domain.errors import UserError

EXTRA = PackageExtra(name="socks", modules=("no_such_module_at_all",))


def refusal() -> str:
    with pytest.raises(UserError) as error:
        platform_packages.install_extra(EXTRA, "socks", CliConsole(out=io.StringIO(), err=io.StringIO()))
    return str(error.value)


@pytest.fixture(autouse=True)
def with_pip(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(platform_packages, "checkout_in_use", lambda: None)
    monkeypatch.setattr(platform_packages, "is_importable", lambda module: module == "pip")


def test_nothing_of_the_current_folder_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "pip.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w').close()\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    refusal()
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize(
    ("said", "why"),
    [
        ("", "the installer does not say why"),
        ("ERROR: no space\nsee above", "no space"),
        ("error: no\n  cause: dns", "cause: dns"),
    ],
)
def test_an_installer_that_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, said: str, why: str
) -> None:
    installer = tmp_path / "python"
    installer.write_text(f"#!/bin/sh\npwd -P > {tmp_path}/where\nprintf '%s' '{said}' >&2\nexit 3\n")
    installer.chmod(0o700)
    monkeypatch.setattr(sys, "executable", str(installer))
    assert refusal().startswith(f"The packages could not be installed: {why} Check the network")
    assert Path((tmp_path / "where").read_text().strip()) == Path(sys.prefix).resolve()
