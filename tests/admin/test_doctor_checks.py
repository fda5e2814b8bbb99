"""The doctor's further checks, each on a home that has what it looks for."""

from __future__ import annotations

import asyncio
import io
import json
from pathlib import Path

import pytest

from hermes.admin.commands import doctor, doctor_checks, platforms, sandbox_services
from hermes.admin.shell.command import perform
from hermes.admin.shell.output import CliConsole
from hermes.domain.chats.adapter import Finding
from hermes.domain.models.credential import Credential
from hermes.domain.settings.declaring import Secret
from hermes.execution.browser import program
from hermes.state.home.credentials import CredentialFile
from hermes.testing.backends import fake_probes
from hermes.testing.model_server import FakeModelServer
from tests.cli.command import hermes, until_gone

Checks = dict[str, dict[str, str]]


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(doctor, "_ROOT", -1)
    monkeypatch.setattr(program, "find_browser", lambda path, environ: "")
    monkeypatch.setattr(doctor, "SandboxProbes", lambda environ, **told: fake_probes("bubblewrap"))
    place = tmp_path / "home"
    place.mkdir(mode=0o700)
    return place


def write(home: Path, text: str) -> Path:
    path = home / "config.yaml"
    path.write_text(text)
    path.chmod(0o600)
    return path


def look(home: Path, *words: str, **environ: str) -> tuple[int, Checks]:
    out = io.StringIO()
    console = CliConsole(out=out, err=io.StringIO())
    given = {"HERMES_NO_PROBE": "1", **environ}
    code = perform("doctor", ["--json", *words], home, given, console, "1.0")
    return code, {check["name"]: check for check in json.loads(out.getvalue())["checks"]}


def test_what_is_always_there(home: Path) -> None:
    code, checks = look(home, "--offline")
    assert code == 0 and checks["python"]["state"] == checks["certificates"]["state"] == "ok"
    assert checks["home"]["state"] == "note" and "skills" in checks["home"]["detail"]
    assert look(home, "--offline", "--fix")[1]["home"]["detail"].startswith("fixed: ")
    assert "home" not in look(home, "--offline")[1]


def test_certificates_and_packages_that_are_not_there(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    code, checks = look(home, "--offline", SSL_CERT_FILE="/no/such/file")
    assert code == 1 and "SSL_CERT_FILE" in checks["certificates"]["remedy"]
    monkeypatch.setattr(doctor_checks, "_PACKAGES", ("no_such_package",))
    code, checks = look(home, "--offline")
    assert code == 1 and checks["packages"]["detail"] == "missing: no_such_package"


def test_settings(home: Path) -> None:
    path = write(home, "model: {model: x}  # mine\nkanban: {}\n")
    code, checks = look(home, "--offline")
    assert code == 0 and checks["config"]["remedy"] == "hermes config migrate"
    assert look(home, "--offline", "--fix")[1]["config"]["detail"].startswith("fixed: migrated")
    assert "default: x" in path.read_text() and "# mine" in path.read_text()
    assert "accepted, but not used: kanban" in look(home, "--offline")[1]["config"]["detail"]
    write(home, "_config_version: 999\n")
    code, checks = look(home, "--offline")
    assert code == 1 and "newer Hermes" in checks["config"]["detail"]
    write(home, "agent: {max_turn: 1}\nfoo: 1\n")
    code, checks = look(home, "--offline")
    assert code == 1 and "and 1 more" in checks["config"]["detail"]


def test_files_are_closed_by_a_fix(home: Path) -> None:
    (home / ".env").write_text("A=1\n")
    home.chmod(0o755)
    assert look(home, "--offline")[0] == 1
    code, _ = look(home, "--offline", "--fix")
    assert code == 0 and home.stat().st_mode & 0o777 == 0o700
    assert (home / ".env").stat().st_mode & 0o777 == 0o600


def test_a_damaged_database(home: Path) -> None:
    assert hermes(home, "-z", "hello").code == 0
    until_gone(home)
    assert "sound" in look(home, "--offline")[1]["database"]["detail"]
    path = home / "gateway.db"
    data = bytearray(path.read_bytes())
    data[4096 * 2 : 4096 * 6] = b"\xff" * (4096 * 4)
    path.write_bytes(data)
    for log in home.glob("gateway.db-*"):
        log.unlink()
    code, checks = look(home, "--offline")
    assert code == 1 and "damaged" in checks["database"]["detail"] and checks["database"]["remedy"]


def test_credentials_hooks_and_the_worst_of_the_audit(home: Path) -> None:
    CredentialFile(home).add(
        Credential(id="a", provider="groq", label="key", key=Secret("gsk-0123456789"), dead="revoked")
    )
    (home / "hooks" / "mine").mkdir(parents=True)
    (home / "hooks" / "mine" / "HOOK.yaml").write_text("events: [no:such]\n")
    write(home, "approvals: {mode: off}\nmemory: {provider: honcho}\n")
    code, checks = look(home, "--offline")
    assert code == 1 and "revoked" in checks["credentials"]["detail"]
    assert checks["hooks"]["state"] == "problem" and checks["security"]["remedy"].endswith(
        "approvals.mode manual"
    )


async def test_the_provider_is_asked(home: Path) -> None:
    async with FakeModelServer(key="right-key-0123456789") as server:
        write(home, f"model: {{default: fake-model, base_url: '{server.base_url}'}}\n")
        code, checks = await asyncio.to_thread(look, home, OPENAI_API_KEY="right-key-0123456789")
        assert code == 0 and checks["model"]["state"] == "ok", checks["model"]
        code, checks = await asyncio.to_thread(look, home, OPENAI_API_KEY="wrong-key-0123456789")
        assert code == 1 and "hermes setup model" in checks["model"]["remedy"]
    code, checks = await asyncio.to_thread(look, home, OPENAI_API_KEY="right-key-0123456789")
    assert code == 1 and checks["model"]["state"] == "problem"


def test_platforms_in_use_are_asked(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def findings(declared: object, home: Path) -> list[Finding]:
        return [Finding(good=False, text="The token is refused.", hint="Ask BotFather.")]

    monkeypatch.setattr(platforms, "findings_of", findings)
    token = "123456789:AAF-a-token-of-alpha"
    code, checks = look(home, TELEGRAM_BOT_TOKEN=token)
    assert code == 1 and checks["telegram"]["remedy"] == "Ask BotFather."
    assert "telegram" not in look(home, "--offline", TELEGRAM_BOT_TOKEN=token)[1]
    assert "model" in look(home)[1] and look(home)[0] == 0


def test_a_service_that_is_to_run_commands_and_cannot(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sandbox_services, "is_installed", lambda extra: False)
    write(home, "terminal: {backend: daytona}\n")
    check = look(home, "--offline", DAYTONA_API_KEY="dtn-1")[1]["daytona"]
    assert (check["state"], check["detail"]) == ("problem", "its packages are not installed")
    assert check["remedy"] == "hermes platforms install daytona"
    monkeypatch.setattr(sandbox_services, "is_installed", lambda extra: True)
    assert look(home, "--offline")[1]["daytona"]["remedy"] == "hermes config set DAYTONA_API_KEY"
    assert "daytona" not in look(home, "--offline", DAYTONA_API_KEY="dtn-1")[1]
