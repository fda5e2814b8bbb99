"""Accounts as settings tell of them: which there are, what each lacks, and which two are the same one."""

from __future__ import annotations

from io import StringIO
from pathlib import Path

import pytest

from hermes.admin.shell.command import perform
from hermes.admin.shell.output import CliConsole
from hermes.app.accounts import DeclaredAccount, declared_accounts, make_adapter
from hermes.domain.chats.adapter import AdapterContext
from hermes.domain.clock import SystemClock
from hermes.domain.errors import UserError
from hermes.plugins import platform_manifests
from hermes.state.settings.loader import LoadedSettings, load_settings
from tests.cli.command import hermes

MANIFESTS = {one.name: one for one in platform_manifests()}


def load(home: Path, config: str = "", **environ: str) -> LoadedSettings:
    (home / "config.yaml").write_text(config)
    return load_settings(home, environ, platforms=MANIFESTS)


def declared(loaded: LoadedSettings, platform: str) -> dict[str, DeclaredAccount]:
    return {one.name: one for one in declared_accounts([MANIFESTS[platform]], loaded)}


def test_an_account_is_used_when_its_own_credentials_are_there(tmp_path: Path) -> None:
    config = "telegram@shop: {allowed_users: [1]}\ntelegram@off: {enabled: false, bot_token: 9:of-nobody}\n"
    loaded = load(tmp_path, config, TELEGRAM_BOT_TOKEN="1:main", TELEGRAM_BOT_TOKEN__WORK="2:work")
    accounts = declared(loaded, "telegram")
    assert list(accounts) == ["telegram", "telegram@off", "telegram@shop", "telegram@work"]
    assert [name for name, one in accounts.items() if one.enabled] == ["telegram", "telegram@work"]
    assert accounts["telegram@shop"].missing == ["TELEGRAM_BOT_TOKEN__SHOP"]
    assert accounts["telegram@work"].title == "Telegram (work)"
    sentence = "TELEGRAM_BOT_TOKEN is wrong; MY_TELEGRAM_BOT_TOKEN and TELEGRAM_BOT_TOKENS are not ours"
    assert accounts["telegram"].worded(sentence) == sentence
    assert accounts["telegram@work"].worded(sentence) == sentence.replace(
        "TELEGRAM_BOT_TOKEN is", "TELEGRAM_BOT_TOKEN__WORK is"
    )


@pytest.mark.parametrize(
    ("platform", "one", "other", "same"),
    [
        ("telegram", {"BOT_TOKEN": "1:a"}, {"BOT_TOKEN": "1:a"}, True),
        ("telegram", {"BOT_TOKEN": "1:a"}, {"BOT_TOKEN": "1:a", "WEBHOOK_SECRET": "x"}, True),
        ("telegram", {"BOT_TOKEN": "1:a"}, {"BOT_TOKEN": "2:b"}, False),
        (
            "slack",
            {"BOT_TOKEN": "xoxb-1", "APP_TOKEN": "a"},
            {"BOT_TOKEN": "xoxb-1", "SIGNING_SECRET": "b"},
            True,
        ),
        # Two mailboxes, or two users, may have one password.
        ("email", {"ADDRESS": "a@x", "PASSWORD": "p"}, {"ADDRESS": "b@x", "PASSWORD": "p"}, False),
        ("email", {"ADDRESS": "a@x", "PASSWORD": "p"}, {"ADDRESS": "a@x", "PASSWORD": "p"}, True),
        ("matrix", {"USER_ID": "@a:x", "PASSWORD": "p"}, {"USER_ID": "@b:x", "PASSWORD": "p"}, False),
        ("matrix", {"USER_ID": "@a:x", "PASSWORD": "p"}, {"USER_ID": "@a:x", "PASSWORD": "p"}, True),
        ("matrix", {"ACCESS_TOKEN": "t"}, {"ACCESS_TOKEN": "t"}, True),
        ("matrix", {"ACCESS_TOKEN": "t"}, {"ACCESS_TOKEN": "u"}, False),
    ],
)
def test_which_credentials_are_one(
    tmp_path: Path, platform: str, one: dict[str, str], other: dict[str, str], same: bool
) -> None:
    prefix = platform.upper()
    said = {f"{prefix}_{name}": value for name, value in one.items()}
    said |= {f"{prefix}_{name}__WORK": value for name, value in other.items()}
    accounts = declared(load(tmp_path, **said), platform)
    first, second = accounts[platform].credential, accounts[f"{platform}@work"].credential
    assert first and second
    assert (first == second) is same


def test_without_a_secret_there_is_no_credential(tmp_path: Path) -> None:
    loaded = load(tmp_path, EMAIL_ADDRESS="a@x", MATRIX_HOMESERVER="https://x", MATRIX_USER_ID="@a:x")
    assert declared(loaded, "email")["email"].credential == ""
    assert declared(loaded, "matrix")["matrix"].credential == ""


def test_the_command_line_names_accounts(tmp_path: Path) -> None:
    home = tmp_path / "home"
    environ = {"TELEGRAM_BOT_TOKEN__WORK": "2:the-token-of-work", "TELEGRAM_ALLOWED_USERS__WORK": "7"}
    listed = hermes(home, "platforms", "list", **environ)
    assert "telegram@work" in listed.out and "Telegram (work)" in listed.out
    shown = hermes(home, "platforms", "show", "telegram@work", **environ)
    assert shown.code == 0 and "TELEGRAM_BOT_TOKEN__WORK" in shown.out and "Tested" in shown.out
    assert "the-token-of-work" not in listed.out + shown.out
    explained = hermes(home, "access", "explain", "telegram@work:7", "user=7", **environ)
    assert "allowed: on the list of telegram@work" in explained.out


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("telegram@Work", "An account of telegram cannot be called “Work”. Use small letters"),
        ("telegram@", "An account of telegram cannot be called “”."),
        ("webhook@work", "webhook has no accounts: there is one of it. Write webhook alone."),
        ("telegrm@work", "There is no platform “telegrm@work”. Did you mean telegram?"),
    ],
)
def test_a_wrong_account_is_one_sentence(tmp_path: Path, name: str, told: str) -> None:
    with pytest.raises(UserError) as error:
        perform("platforms", ["show", name], tmp_path, {}, CliConsole(out=StringIO(), err=StringIO()))
    assert told in str(error.value)


def test_settings_of_an_account_are_shown_and_checked(tmp_path: Path) -> None:
    environ = {"TELEGRAM_BOT_TOKEN__WORK": "2:the-token-of-work", "TELEGRAM_ALLOWED_USERS__WORK": "7"}

    def ask(*words: str) -> str:
        out = StringIO()
        assert perform("config", words, tmp_path, environ, CliConsole(out=out, err=out)) == 0, out.getvalue()
        return out.getvalue()

    assert ask("get", "telegram@work.allowed_users") == "- '7'\n"
    assert ask("get", "telegram.allowed_users") == "\n"
    assert ask("get", "TELEGRAM_BOT_TOKEN__WORK") == "***\n"
    assert "allowed_users:\n- '7'" in ask("get", "telegram@work")
    assert ask("check") == "config ok\n"
    ask("set", "telegram@work.home_channel", "70")
    assert ask("get", "telegram@work.home_channel") == "70\n"
    assert "telegram@work:" in ask("show")


@pytest.mark.parametrize("platform", sorted(MANIFESTS.keys() - {"webhook"}))
def test_every_variable_of_an_account_can_be_set_by_command(tmp_path: Path, platform: str) -> None:
    for field in MANIFESTS[platform].settings:
        out = StringIO()
        words = ["set", f"{field.env}__WORK", "value-1"]
        assert perform("config", words, tmp_path, {}, CliConsole(out=out, err=out)) == 0, out.getvalue()
        loaded = load_settings(tmp_path, {})
        found = loaded.find(f"{platform}@work", field.env)
        assert found is not None and found.reveal() == "value-1"
        assert loaded.find(platform, field.env) is None


async def test_an_adapter_is_made_for_its_account(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[AdapterContext] = []
    monkeypatch.setattr("hermes.plugins.load_adapter", lambda manifest: made.append)
    said = {"MATRIX_HOMESERVER__WORK": "https://x.example", "MATRIX_HOMESERVER": "https://y.example"}
    loaded = load(tmp_path, "matrix@work: {allowed_users: ['@a:x']}\n", **said)
    for one in declared(loaded, "matrix").values():
        await make_adapter(one, tmp_path, clock=SystemClock())
    plain, work = made
    assert (plain.account, work.account) == ("default", "work")
    assert (plain.folder, work.folder) == (tmp_path / "platforms/matrix", tmp_path / "platforms/matrix@work")
    assert (plain.settings.allowed_users, work.settings.allowed_users) == ((), ("@a:x",))
    assert work.setting("MATRIX_HOMESERVER") == "https://x.example"


def test_the_check_tells_of_a_credential_that_two_accounts_have(tmp_path: Path) -> None:
    out = StringIO()
    environ = {"TELEGRAM_BOT_TOKEN": "1:a-token", "TELEGRAM_BOT_TOKEN__WORK": "1:a-token"}
    assert perform("config", ["check"], tmp_path, environ, CliConsole(out=out, err=out)) == 1
    told = "telegram@work has the same credential as telegram. Each account needs one of its own.\n"
    assert out.getvalue() == told
