"""The fingerprint of settings changes with what Hermes reads, and with nothing else."""

from __future__ import annotations

from pathlib import Path

import pytest

from hermes.state.settings.fingerprint import settings_fingerprint

DECLARED = ("MATRIX_ENCRYPTION",)


def changes(home: Path, **variables: str) -> bool:
    return settings_fingerprint(home, variables, DECLARED) != settings_fingerprint(home, {}, DECLARED)


@pytest.mark.parametrize(
    "name",
    [
        *("TELEGRAM_ALLOWED_USERS", "TELEGRAM_BOT_TOKEN", "TELEGRAM_BOT_TOKEN__WORK", "MATRIX_ENCRYPTION"),
        *("MATRIX_ENCRYPTION__WORK", "HTTPS_PROXY", "no_proxy", "OPENAI_API_KEY", "OPENROUTER_API_KEY"),
        *("OPENAI_BASE_URL", "HERMES_TIMEZONE", "API_SERVER_PORT", "MY_OWN_NAME", "ANTHROPIC_API_KEY"),
    ],
)
def test_what_is_read_counts(tmp_path: Path, name: str) -> None:
    (tmp_path / "config.yaml").write_text("model:\n  provider: anthropic\n  base_url: ${MY_OWN_NAME}\n")
    assert changes(tmp_path, **{name: "x"}) and not changes(tmp_path, **{name: ""})


@pytest.mark.parametrize(
    "name",
    [
        *("KITTY_PUBLIC_KEY", "AWS_SESSION_TOKEN", "VSCODE_GIT_IPC_AUTH_TOKEN", "STRIPE_API_KEY", "DB_HOST"),
        *("HERMES_HOME", "HERMES_PROFILE", "MY_OWN_NAME", "SOMEBODYS_API_KEY", "COLUMNS"),
    ],
)
def test_what_is_not_read_does_not(tmp_path: Path, name: str) -> None:
    assert not changes(tmp_path, **{name: "x"})


def test_a_provider_may_be_named_by_a_variable(tmp_path: Path) -> None:
    before = settings_fingerprint(tmp_path, {"HERMES_INFERENCE_PROVIDER": "z-ai"}, ())
    given = {"HERMES_INFERENCE_PROVIDER": "z-ai", "Z_AI_API_KEY": "k"}
    assert settings_fingerprint(tmp_path, given, ()) != before


def test_a_file_that_is_written_counts(tmp_path: Path) -> None:
    before = settings_fingerprint(tmp_path, {}, ())
    (tmp_path / ".env").write_text("A=b\n")
    assert settings_fingerprint(tmp_path, {}, ()) != before
