"""Units of systemd and agents of launchd: what they say, judged by systemd's own reader and by `plistlib`."""

from __future__ import annotations

import os
import plistlib
import pwd
import subprocess
import sys
from pathlib import Path

import pytest

from hermes.admin.process import service
from hermes.admin.process.service import installed_service
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


def test_a_home_has_no_service_of_another(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`uninstall` would remove it, and a status would show it."""
    for platform in ("linux", "darwin"):
        monkeypatch.setattr(sys, "platform", platform)
        one, two = (tmp_path / platform / name for name in ("one <&>", "two"))
        environ = {"HOME": str(tmp_path / platform)}
        for home in (one, two):
            assert installed_service(home, environ) == ""
            made = service._kind(service._spec(home, environ, system=False))
            made.file.parent.mkdir(parents=True, exist_ok=True)
            assert not made.file.exists(), "it would replace that of another home"
            made.file.write_text(made.text())
        assert "gateway-" not in installed_service(one, environ) and "gateway-" in installed_service(
            two, environ
        )
        service._kind(service._spec(one, environ, system=False)).file.unlink()
        assert installed_service(one, environ) == "" and "gateway-" in installed_service(two, environ)


def test_a_service_finds_the_gateways_that_its_shell_finds(tmp_path: Path) -> None:
    """Otherwise one in a terminal and the service may use one token twice."""
    environ = {"HOME": str(tmp_path), "XDG_STATE_HOME": "/somewhere/state"}
    spec = service._spec(tmp_path / ".hermes", environ, system=False)
    assert 'Environment="XDG_STATE_HOME=/somewhere/state"\n' in SystemdService(spec).text()
    assert "<string>/somewhere/state</string>" in LaunchdService(spec).text()
    other = service._spec(tmp_path / ".hermes", environ, system=True, user="nobody")
    assert "XDG_STATE_HOME" not in SystemdService(other).text()


def test_a_service_for_a_user_is_on_a_home_of_that_user(tmp_path: Path) -> None:
    for home, meant in (
        (tmp_path / ".hermes", Path(pwd.getpwnam("nobody").pw_dir) / ".hermes"),
        (tmp_path / "srv", None),
    ):
        words = ("install", "--system", "--run-as-user", "nobody", "--print-only")
        shown = hermes(home, "gateway", *words)
        assert f'Environment="HERMES_HOME={meant or home}"\n' in shown.out and "User=nobody\n" in shown.out


@pytest.mark.skipif(os.getuid() != 0, reason="only root installs such a service")
def test_a_user_without_access_is_told_before_the_service_is_there(tmp_path: Path) -> None:
    spec = replace(SPEC, program=("/bin/true", "gateway"), home=tmp_path / "home", user="nobody")
    with pytest.raises(UserError, match="The user nobody cannot run"):
        service._check_access(replace(spec, program=(str(tmp_path / "hermes"), "gateway")))
    tmp_path.chmod(0o755)
    failing = ("/bin/sh", "-c", "echo no room for it >&2; exit 1", "gateway")
    with pytest.raises(UserError, match="The user nobody cannot run /bin/sh: no room for it"):
        service._check_access(replace(spec, program=failing))
    with pytest.raises(UserError, match=f"The user nobody cannot write into {tmp_path}"):
        service._check_access(spec)
    service._check_access(replace(spec, home=Path("/tmp/hermes-of-nobody")))


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
