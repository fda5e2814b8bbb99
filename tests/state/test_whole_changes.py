"""Changes of config.yaml that are taken back, and copies of secrets without accounts."""

from __future__ import annotations

from pathlib import Path

import pytest

from hermes.state.settings.loader import without_accounts
from hermes.state.settings.whole_changes import plan_change, take_back, write_change


def test_what_another_wrote_meanwhile_is_not_taken_back(tmp_path: Path) -> None:
    file = tmp_path / "config.yaml"
    file.write_text("model: demo\n")
    refused = plan_change(tmp_path, lambda data: data.update(agents={"a": {}}))
    write_change(refused)
    accepted = plan_change(tmp_path, lambda data: data.update(timezone="UTC"))
    write_change(accepted)
    take_back(refused)
    assert file.read_text() == accepted.after
    take_back(accepted)
    assert file.read_text() == refused.after


@pytest.mark.parametrize(
    "account",
    [
        "TELEGRAM_BOT_TOKEN=1:a",
        "  export  TELEGRAM_BOT_TOKEN=1:a",
        'TELEGRAM_BOT_TOKEN="1:a\n2:b\n3:c"',
        "TELEGRAM_BOT_TOKEN='1:a\n2:b'",
        'TELEGRAM_BOT_TOKEN="1:a\n2:b',
        "TELEGRAM_BOT_TOKEN='1:a' and\n2:b",
        "# old: TELEGRAM_BOT_TOKEN = 1:a",
    ],
)
def test_a_copy_has_no_part_of_an_account(account: str) -> None:
    kept = "# mine\nOPENAI_API_KEY=sk-1\n"
    assert without_accounts(f"{kept}{account}\nOTHER=x\n") == f"{kept}OTHER=x\n"
