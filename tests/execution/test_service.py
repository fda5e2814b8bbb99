"""Units of systemd and agents of launchd: what they say, judged by systemd's own reader and by `plistlib`."""

from __future__ import annotations

import plistlib
import subprocess
from pathlib import Path

import pytest

from hermes.domain.errors import UserError
from hermes.domain.word import replace
from hermes.execution.service.launchd import LaunchdService
from hermes.execution.service.spec import ServiceSpec, ask_manager
from hermes.execution.service.systemd import SystemdService
from tests.cli.command import hermes
from tests.execution.beds import install

SPEC = ServiceSpec(
    program=("/usr/bin/env", "gateway", "run", "--quiet"),
    home=Path('/tmp/my home 100% $HOME "quoted"'),
    environ={"PATH": "/opt/a b/bin:/usr/bin", "HOME": "/home/me"},
    user="root",
)


@pytest.mark.server
@pytest.mark.parametrize("system", [False, True])
@pytest.mark.parametrize("sudo", [False, True])
def test_systemd_itself_finds_nothing_wrong(tmp_path: Path, system: bool, sudo: bool) -> None:
    install("systemd", "systemd-analyze")
    service = SystemdService(replace(SPEC, system=system, sudo=sudo, profile="work"))
    unit = tmp_path / service.name
    unit.write_text(service.text())
    scope = [] if system else ["--user"]
    environ = {
        "PATH": "/usr/sbin:/usr/bin:/sbin:/bin",
        "XDG_RUNTIME_DIR": str(tmp_path),
        "HOME": str(tmp_path),
    }
    done = subprocess.run(
        ["systemd-analyze", *scope, "verify", "--man=no", "--recursive-errors=yes", str(unit)],
        env=environ, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0 and done.stderr == "", done.stderr


def test_the_unit_says_where_and_how() -> None:
    text = SystemdService(SPEC).text()
    assert 'ExecStart="/usr/bin/env" "gateway" "run" "--quiet"\n' in text
    assert r'Environment="HERMES_HOME=/tmp/my home 100%% $HOME \"quoted\""' in text
    assert "RestartForceExitStatus=75" in text and "RestartPreventExitStatus=78" in text
    assert (
        "NoNewPrivileges=yes" in text
        and "NoNewPrivileges" not in SystemdService(replace(SPEC, sudo=True)).text()
    )
    assert str(SystemdService(SPEC).file) == "/home/me/.config/systemd/user/hermes-gateway.service"
    system = SystemdService(replace(SPEC, system=True, profile="work"))
    assert (
        str(system.file) == "/etc/systemd/system/hermes-gateway-work.service"
        and "User=root\n" in system.text()
    )
    with pytest.raises(UserError, match="cannot stand in the file"):
        SystemdService(replace(SPEC, home=Path("/tmp/a\nExecStartPre=evil"))).text()


def test_the_property_list_can_be_read() -> None:
    service = LaunchdService(replace(SPEC, profile="work"))
    told = plistlib.loads(service.text().encode())
    assert told["Label"] == "ai.hermes.gateway-work" and told["RunAtLoad"] is True
    assert told["ProgramArguments"] == [*SPEC.program, "--external-supervisor"]
    assert told["EnvironmentVariables"]["HERMES_HOME"] == str(SPEC.home)
    assert Path(told["StandardErrorPath"]).is_absolute() and told["KeepAlive"] == {"SuccessfulExit": False}
    assert str(service.file) == "/home/me/Library/LaunchAgents/ai.hermes.gateway-work.plist"


def test_what_a_manager_says_reaches_the_operator() -> None:
    assert ask_manager("sh", "-c", "echo yes", environ={"PATH": "/usr/bin:/bin"}) == "yes"
    with pytest.raises(UserError, match="failed: no bus"):
        ask_manager("sh", "-c", "echo no bus >&2; exit 1", environ={"PATH": "/usr/bin:/bin"})
    with pytest.raises(UserError, match="does not work here"):
        ask_manager("/no/such/program", environ={})


@pytest.mark.skipif(Path("/run/systemd/system").is_dir(), reason="this machine has systemd")
def test_without_systemd_one_sentence_says_what_to_do(tmp_path: Path) -> None:
    told = hermes(tmp_path / "home", "gateway", "install")
    assert told.code == 1 and told.clean and "There is no systemd" in told.err and "gateway start" in told.err
    assert not (tmp_path / ".config").exists()
    shown = hermes(tmp_path / "home", "gateway", "install", "--print-only")
    assert shown.code == 0 and "Type=notify" in shown.out and "gateway" in shown.out
    for words, says in (
        (["install", "--run-as-user", "root"], "goes with --system"),
        (["install", "--system", "--run-as-user", "nobody-at-all"], "There is no user"),
        (["uninstall"], "There is no service"),
    ):
        refused = hermes(tmp_path / "home", "gateway", *words)
        assert refused.code == 1 and says in refused.err and refused.clean, refused
