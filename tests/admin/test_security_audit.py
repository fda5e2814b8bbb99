"""`hermes security audit`: each rule finds what it is about, and nothing on a home as it is made."""

from __future__ import annotations

import io
import json
import os
from pathlib import Path

import pytest

from hermes.admin.commands import security
from hermes.admin.shell.command import UsageError, perform
from hermes.admin.shell.output import CliConsole


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(security, "_ROOT", -1)
    place = tmp_path / "home"
    place.mkdir(mode=0o700)
    return place


def audit(home: Path, *words: str, **environ: str) -> tuple[int, dict[str, dict[str, str]]]:
    out = io.StringIO()
    console = CliConsole(out=out, err=io.StringIO())
    code = perform("security", ["audit", "--json", *words], home, environ, console)
    told = json.loads(out.getvalue())
    assert told["ok"] is (code == 0) and all(one["fix"] for one in told["findings"])
    return code, {one["id"]: one for one in told["findings"]}


def test_a_home_as_it_is_made_passes(home: Path) -> None:
    code, found = audit(home)
    assert code == 0 and found.keys() == {"yolo"}
    assert audit(home, "--fail-on", "low")[0] == 1
    assert audit(home, "--fail-on", "low", "--skip", "yolo") == (0, {})
    out = io.StringIO()
    words = ["audit", "--skip", "yolo"]
    assert perform("security", words, home, {}, CliConsole(out=out, err=io.StringIO())) == 0
    assert out.getvalue() == "Nothing was found.\n"
    with pytest.raises(UsageError, match="did you mean medium"):
        audit(home, "--fail-on", "medum")


@pytest.mark.parametrize(
    ("text", "finding", "severity"),
    [
        ("allow_all_users: true", "everybody", "high"),
        ("allow_all_users: true\nterminal: {backend: local}", "everybody", "critical"),
        ("telegram: {allowed_users: ['*']}", "everybody:telegram", "high"),
        ("telegram: {allow_bots: all}", "bots:telegram", "low"),
        ("approvals: {mode: off}", "approvals-off", "high"),
        ("approvals: {cron_mode: approve}", "cron-approves", "medium"),
        ("terminal: {docker_extra_args: [--privileged]}", "sandbox:docker_extra_args", "high"),
        (
            "terminal: {docker_volumes: ['/var/run/docker.sock:/var/run/docker.sock']}",
            "sandbox:docker_volumes",
            "high",
        ),
        ("terminal: {env_passthrough: [OPENAI_API_KEY]}", "keys-passed-on", "medium"),
        ("security: {allow_private_urls: true}", "private-urls", "medium"),
        ("security: {redact_secrets: false}", "no-redaction", "medium"),
        (
            "providers: {a: {base_url: 'http://api.example.org/v1', api_key: sk-0123456789ab}}",
            "plain-http:providers.a.base_url",
            "high",
        ),
        ("providers: {a: {base_url: 'https://a.example/v1', ssl_verify: false}}", "tls-unchecked:a", "high"),
        ("api_server: {host: 0.0.0.0}", "wide:api_server", "medium"),
        ("api_server: {cors_origins: '*'}", "cors", "medium"),
        (
            "webhook: {routes: {ci: {secret: INSECURE_NO_AUTH, prompt: hi}}}",
            "unsigned:ci",
            "high",
        ),
        ("api_server: {key: marmalade}", "weak-secret", "medium"),
        ("display: {}\nprivacy: {redact_pii: true}", "unread-limit", "high"),
    ],
)
def test_each_rule_finds_its_own(home: Path, text: str, finding: str, severity: str) -> None:
    (home / "config.yaml").write_text(text + "\n")
    (home / "config.yaml").chmod(0o600)
    code, found = audit(home)
    assert found[finding]["severity"] == severity, found
    assert code == (severity != "low")


def test_what_is_near_needs_no_encryption(home: Path) -> None:
    (home / "config.yaml").write_text(
        "providers: {a: {base_url: 'http://127.0.0.1:1/v1', api_key: sk-0123456789ab}}\n"
        "api_server: {host: 127.0.0.1}\n"
    )
    (home / "config.yaml").chmod(0o600)
    assert audit(home)[1].keys() == {"yolo"}


def test_files_that_others_can_change(home: Path) -> None:
    (home / "hooks" / "mine").mkdir(parents=True)
    (home / "hooks" / "mine").chmod(0o777)
    (home / ".env").write_text("A=1\n")
    (home / ".env").chmod(0o660)
    _, found = audit(home)
    assert found["mode:mine"]["severity"] == "critical" and "chmod 700" in found["mode:mine"]["fix"]
    assert found["mode:.env"]["fix"] == f"chmod 600 {home / '.env'}"
    home.chmod(0o770)
    assert "mode:home" in audit(home)[1]


def test_root(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(security, "_ROOT", os.getuid())
    assert audit(home)[1]["root"]["severity"] == "high"
