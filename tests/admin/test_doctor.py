"""`hermes doctor`: what works and what does not, why, and what to do; with and without a gateway."""

from __future__ import annotations

import io
import json
import os
import socket
from pathlib import Path
from typing import Any

import pytest

from hermes.admin.commands import doctor
from hermes.admin.process.home_files import GATEWAY, hold_home
from hermes.admin.shell.command import perform
from hermes.admin.shell.output import CliConsole
from hermes.domain.errors import UserError
from hermes.domain.ports.world import Boundary
from hermes.execution.browser import launch, program
from hermes.execution.sandboxes import ssh_machine
from hermes.testing.backends import fake_probes
from tests.execution.ssh_server import SshServer


class Doctor:
    """The doctor on a machine where some sandboxes work, with an ordinary user."""

    def __init__(self, home: Path, patch: pytest.MonkeyPatch) -> None:
        self.home = home
        self._patch = patch
        home.mkdir(mode=0o700)
        patch.setattr(doctor, "_ROOT", -1)
        patch.setattr(program, "find_browser", lambda path, environ: "")
        self.works()

    def works(self, *names: str) -> None:
        self._patch.setattr(doctor, "SandboxProbes", lambda environ, **told: fake_probes(*names))

    def asks(self, live: dict[str, Any] | None) -> None:
        self._patch.setattr(doctor, "ask_gateway", lambda home, environ: live)

    def told(self, *words: str, **environ: str) -> tuple[int, str]:
        out = io.StringIO()
        console = CliConsole(out=out, err=io.StringIO())
        return perform("doctor", ["--offline", *words], self.home, environ, console), out.getvalue()

    def checks(self, **environ: str) -> tuple[int, dict[str, dict[str, str]]]:
        code, text = self.told("--json", **environ)
        told = json.loads(text)
        assert told["ok"] is (code == 0)
        return code, {check["name"]: check for check in told["checks"]}


@pytest.fixture
def patient(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Doctor:
    return Doctor(tmp_path / "home", monkeypatch)


def test_a_machine_on_which_all_is_well(patient: Doctor) -> None:
    patient.works("bubblewrap", "landlock")
    code, text = patient.told()
    assert code == 0
    assert "ok      bubblewrap: works (sandbox)\n" in text
    assert "note    docker: does not work: docker is not installed.\n        Install docker.\n" in text
    assert "owner and admins: bubblewrap (workspace only, network open)" in text
    assert "problem" not in text


@pytest.mark.parametrize("works", [(), ("landlock",)])
def test_a_machine_without_a_sandbox(patient: Doctor, works: tuple[str, ...]) -> None:
    patient.works(*works)
    code, checks = patient.checks()
    assert code == 1 and checks["bubblewrap"]["state"] == checks["docker"]["state"] == "problem"
    assert checks["bubblewrap"]["remedy"] == "Install bubblewrap."


def test_a_sandbox_that_was_named_must_work(patient: Doctor) -> None:
    patient.works("docker")
    code, checks = patient.checks(TERMINAL_ENV="bubblewrap")
    assert code == 1 and checks["bubblewrap"]["state"] == "problem" and checks["landlock"]["state"] == "note"
    patient.works("bubblewrap")
    assert patient.checks(TERMINAL_ENV="bubblewrap")[0] == 0


def test_files_that_others_can_read(patient: Doctor) -> None:
    patient.works("bubblewrap")
    secrets = patient.home / ".env"
    secrets.write_text("A=1\n")
    secrets.chmod(0o644)
    code, checks = patient.checks()
    assert code == 0 and checks["files"]["state"] == "note", "nobody gets into the folder"
    patient.home.chmod(0o755)
    code, text = patient.told()
    assert code == 1 and f"chmod 700 {patient.home}\n" in text and f"chmod 600 {secrets}\n" in text
    patient.home.chmod(0o700)
    secrets.chmod(0o600)
    assert patient.checks()[1]["files"]["state"] == "ok"


def test_root(patient: Doctor, monkeypatch: pytest.MonkeyPatch) -> None:
    patient.works("bubblewrap")
    monkeypatch.setattr(doctor, "_ROOT", os.getuid())
    code, checks = patient.checks()
    assert code == 1 and checks["user"]["detail"] == "this runs as root" and checks["user"]["remedy"]
    with hold_home(patient.home, GATEWAY):
        assert patient.checks()[1]["user"]["detail"] == "the gateway runs as root"


def test_settings_that_cannot_be_meant(patient: Doctor) -> None:
    patient.works("bubblewrap")
    (patient.home / "config.yaml").write_text("terminal: {network: [a b]}\n")
    (patient.home / "config.yaml").chmod(0o600)
    code, checks = patient.checks()
    assert code == 1 and "“a b” is no host" in checks["settings"]["detail"]


def test_a_secret_that_anybody_guesses(patient: Doctor) -> None:
    patient.works("bubblewrap")
    (patient.home / "config.yaml").write_text("model: {api_key: marmalade}\n")
    (patient.home / "config.yaml").chmod(0o600)
    code, checks = patient.checks()
    assert code == 0 and "model.api_key is an ordinary word" in checks["secrets"]["detail"]


def test_a_gateway_that_found_something_else_is_told_to_look_again(patient: Doctor) -> None:
    patient.works("bubblewrap")
    rungs = ("docker", "bubblewrap", "landlock")
    found = [{"sandbox": name, "works": False} for name in rungs]
    patient.asks({"facts": {"sandboxes": found, "boundaries": []}})
    code, checks = patient.checks()
    assert code == 0 and checks["gateway"]["state"] == "note"
    assert checks["gateway"]["remedy"] == "Let the gateway look again: hermes config apply"
    now = [{**each, "works": each["sandbox"] == "bubblewrap"} for each in found]
    patient.asks({"facts": {"sandboxes": now}})
    gateway = patient.checks()[1]["gateway"]
    assert gateway == {"name": "gateway", "state": "ok", "detail": "running", "remedy": "", "fixable": False}
    patient.asks(None)
    assert patient.checks()[1]["gateway"]["detail"] == "not running"


def test_it_looks_for_itself(tmp_path: Path) -> None:
    """With the real probes of this machine, whatever they find."""
    out = io.StringIO()
    console = CliConsole(out=out, err=io.StringIO())
    code = perform("doctor", ["--json"], tmp_path, {"PATH": os.environ["PATH"]}, console)
    told = json.loads(out.getvalue())
    names = {check["name"] for check in told["checks"]}
    assert code in (0, 1) and {"bubblewrap", "landlock", "settings", "files", "user"} <= names


def test_it_connects_to_the_machine_of_ssh(patient: Doctor, monkeypatch: pytest.MonkeyPatch) -> None:
    patient.works("bubblewrap")
    server = SshServer()
    config = patient.home / "config.yaml"
    config.touch(0o600)
    words = (
        f"terminal: {{backend: ssh, ssh_host: 127.0.0.1, ssh_port: {server.port}, ssh_key: {server.key}}}\n"
    )
    config.write_text(words)
    environ = {"PATH": os.environ["PATH"]}
    try:
        code, checks = patient.checks(**environ)
        assert code == 0 and checks["ssh"]["detail"] == "127.0.0.1 lets us in"
        server.make_key(server.folder / "other")
        config.write_text(words.replace(str(server.key), str(server.folder / "other")))
        code, checks = patient.checks(**environ)
        assert code == 1 and checks["ssh"]["detail"].endswith("refused the login.")
        assert "authorized_keys" in checks["ssh"]["remedy"]
    finally:
        server.close()
    monkeypatch.setattr(ssh_machine, "_PROBE_SECONDS", 0.5)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        words = words.replace(f", ssh_key: {server.key}", "")
        config.write_text(words.replace(str(server.port), str(silent.getsockname()[1])))
        code, checks = patient.checks(**environ)
    assert code == 1 and "did not answer within 0.5 s" in checks["ssh"]["detail"]
    assert "terminal.ssh_host" in checks["ssh"]["remedy"]


def test_the_browser(patient: Doctor, monkeypatch: pytest.MonkeyPatch) -> None:
    patient.works("bubblewrap")
    code, checks = patient.checks()
    assert code == 0 and checks["browser"]["state"] == "note"
    assert "apt-get install chromium" in checks["browser"]["remedy"]
    assert patient.checks(BROWSER_CDP_URL="http://127.0.0.1:9222")[1]["browser"]["state"] == "ok"
    monkeypatch.setattr(program, "find_browser", lambda path, environ: "/usr/bin/chromium")
    for boundary, state in ((Boundary.SANDBOX, "ok"), (Boundary.NONE, "note"), (None, "problem")):

        async def try_browser(program: str, environ: object, held: Boundary | None = boundary) -> launch.Way:
            if held is None:
                raise UserError("The browser does not start.", hint="Look.")
            return launch.Way(name="a way", boundary=held)

        monkeypatch.setattr(launch, "try_browser", try_browser)
        code, checks = patient.checks()
        assert checks["browser"]["state"] == state and code == (boundary is None)
    (patient.home / "config.yaml").write_text("browser: {path: /no/such}\n")
    monkeypatch.setattr(program, "find_browser", lambda path, environ: "")
    assert patient.checks()[1]["browser"]["state"] == "problem"
