"""Several accounts of one platform: blocks and variables of their own, nothing passes between them."""

from __future__ import annotations

from pathlib import Path

import pytest

from hermes.domain.errors import UserError
from hermes.state.settings.by_key import set_setting
from hermes.state.settings.loader import LoadedSettings, load_settings
from hermes.state.settings.names import PLATFORMS, is_key_like

TOKEN = "TELEGRAM_BOT_TOKEN"
TWO = """\
telegram:
  bot_token: 1:default-token
  allowed_users: [1]
  home_channel: "10"
telegram@work:
  allowed_users: [2]
platforms:
  telegram@my-shop: {enabled: false, require_mention: true, webhook_port: 9001, bot_token: "${SHOP}"}
  slack@work: {group_policy: allowlist}
"""


def load(home: Path, config: str = "", env: str = "", **environ: str) -> LoadedSettings:
    (home / "config.yaml").write_text(config)
    (home / ".env").write_text(env)
    (home / ".env").chmod(0o600)
    return load_settings(home, environ)


def found(loaded: LoadedSettings, account: str, variable: str) -> str | None:
    secret = loaded.find(account, variable)
    return None if secret is None else secret.reveal()


def test_each_account_has_a_block_of_its_own(tmp_path: Path) -> None:
    loaded = load(tmp_path, TWO, "SHOP=3:shop-token\n")
    assert loaded.problems == ()
    platforms = loaded.settings.platforms
    assert platforms.keys() == {"telegram", "telegram@work", "telegram@my-shop", "slack@work"}
    assert platforms["telegram@work"].allowed_users == ("2",)
    assert platforms["telegram@work"].home_channel == ""
    assert platforms["telegram@my-shop"].enabled is False
    assert platforms["slack@work"].group_policy == "allowlist"
    assert found(loaded, "telegram", TOKEN) == "1:default-token"
    assert found(loaded, "telegram@work", TOKEN) is None, "a credential passed from one account to another"
    assert found(loaded, "telegram@my-shop", TOKEN) == "3:shop-token"
    assert found(loaded, "telegram@my-shop", "TELEGRAM_WEBHOOK_PORT") == "9001"


def test_variables_carry_the_account_behind_two_underscores(tmp_path: Path) -> None:
    env = "TELEGRAM_BOT_TOKEN=1:a-token\nTELEGRAM_BOT_TOKEN__WORK=2:b-token\nTELEGRAM_ALLOWED_USERS=1\n"
    loaded = load(
        tmp_path,
        "telegram@work: {allowed_users: [9]}\n",
        env,
        TELEGRAM_ALLOWED_USERS__WORK="2,3",
        TELEGRAM_HOME_CHANNEL__MY_SHOP="77",
        TELEGRAM_WEBHOOK_URL__MY_SHOP="https://x.example",
        MATRIX_HOME_ROOM__WORK="!r:x",
    )
    assert loaded.problems == ()
    platforms = loaded.settings.platforms
    assert platforms["telegram"].allowed_users == ("1",)
    assert platforms["telegram@work"].allowed_users == ("2", "3")
    assert platforms["telegram@my-shop"].home_channel == "77"
    assert platforms["matrix@work"].home_channel == "!r:x"
    assert found(loaded, "telegram", TOKEN) == "1:a-token"
    assert found(loaded, "telegram@work", TOKEN) == "2:b-token"
    assert found(loaded, "telegram@my-shop", TOKEN) is None
    assert found(loaded, "telegram@my-shop", "TELEGRAM_WEBHOOK_URL") == "https://x.example"
    assert found(loaded, "telegram", "TELEGRAM_WEBHOOK_URL") is None
    assert loaded.secrets.redact("2:b-token") == "‹secret›"


def test_a_token_alone_is_an_account(tmp_path: Path) -> None:
    loaded = load(tmp_path, "", "WHATSAPP_CLOUD_ACCESS_TOKEN__WORK=abcdefg\nTWILIO_AUTH_TOKEN__B=hijklmn\n")
    assert loaded.settings.platforms.keys() == {"whatsapp_cloud@work", "sms@b"}


def test_enabled_false_beats_the_variables_of_an_account(tmp_path: Path) -> None:
    loaded = load(
        tmp_path, "telegram@work: {enabled: false}\n", TELEGRAM_ENABLED__WORK="1", TELEGRAM_ENABLED="1"
    )
    assert loaded.settings.platforms["telegram@work"].enabled is False
    assert loaded.settings.platforms["telegram"].enabled is True


@pytest.mark.parametrize("account", ["URL", "FILE", "NAME", "PATH"])
def test_a_secret_is_one_whatever_its_account_is_called(tmp_path: Path, account: str) -> None:
    assert is_key_like(f"TELEGRAM_BOT_TOKEN__{account}")
    loaded = load(tmp_path, "", f"TELEGRAM_BOT_TOKEN__{account}=2:b-token\n")
    assert "2:b-token" not in str(loaded.variables)
    assert loaded.secrets.redact("it is 2:b-token") == "it is ‹secret›"


def test_variables_of_others_are_left_alone(tmp_path: Path) -> None:
    loaded = load(tmp_path, "", "", LINE_COLOR__RED="1", NODE__TOKEN="123456", TELEGRAM__X="y", PS__1="z")
    assert loaded.problems == ()
    assert loaded.settings.platforms == {}


@pytest.mark.parametrize(
    ("config", "told", "remedy"),
    [
        ("telegram@Work: {}", "An account of telegram cannot be called “Work”.", "small letters"),
        ("telegram@my_shop: {}", "An account of telegram cannot be called “my_shop”.", "small letters"),
        ("telegram@a--b: {}", "cannot be called “a--b”", "single “-”"),
        ('"telegram@": {}', "cannot be called “”", "small letters"),
        ("telegram@x@y: {}", "cannot be called “x@y”", "small letters"),
        (f"telegram@{'x' * 33}: {{}}", "cannot be called", "at most 32"),
        ("telegram@default: {}", "telegram@default is telegram itself.", "Write telegram alone."),
        ("webhook@work: {}", "webhook has no accounts", "Write webhook alone."),
        ("api_server@work: {}", "api_server has no accounts", "Write api_server alone."),
        ("platforms: {telegrm@work: {}}", "There is no platform “telegrm@work”.", "“telegram@work”"),
        ("telegrm@work: {}", "“telegrm@work” is not a known setting.", ""),
        (
            "routes: [{match: {platform: telegram@work}, agent: main}]",
            "There is no platform “telegram@work”.",
            "Write platform: telegram, and account: work beside it.",
        ),
    ],
)
def test_a_wrong_name_is_one_problem(tmp_path: Path, config: str, told: str, remedy: str) -> None:
    loaded = load(tmp_path, config + "\n")
    assert len(loaded.problems) == 1
    assert told in str(loaded.problems[0]) and remedy in str(loaded.problems[0])
    assert not any(name.partition("@")[0] in PLATFORMS for name in loaded.settings.platforms)


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("TELEGRAM_BOT_TOKEN__DEFAULT", "telegram@default is telegram itself."),
        ("TELEGRAM_BOT_TOKEN__work", "Write it TELEGRAM_BOT_TOKEN__WORK."),
        ("TELEGRAM_ALLOWED_USERS___X", "cannot be called"),
        ("API_SERVER_KEY__WORK", "api_server has no accounts"),
    ],
)
def test_a_wrong_variable_is_one_problem(tmp_path: Path, name: str, told: str) -> None:
    loaded = load(tmp_path, "", f"\n{name}=long-enough\n")
    assert len(loaded.problems) == 1
    assert told in str(loaded.problems[0]) and ".env:2" in str(loaded.problems[0]).replace("line ", "")
    assert "long-enough" not in str(loaded.problems[0])
    assert loaded.settings.platforms.keys() <= {"telegram"}


@pytest.mark.parametrize(
    ("key", "value", "file", "name"),
    [
        ("telegram@work.allowed_users", "5,6", "config.yaml", "platforms.telegram@work.allowed_users"),
        ("platforms.telegram@work.home_channel", "7", "config.yaml", "platforms.telegram@work.home_channel"),
        ("telegram@work.webhook_port", "9001", "config.yaml", "platforms.telegram@work.webhook_port"),
        ("telegram@work.bot_token", "5:abcdef", ".env", "TELEGRAM_BOT_TOKEN__WORK"),
        ("matrix@my-shop.token", "abcdefg", ".env", "MATRIX_ACCESS_TOKEN__MY_SHOP"),
        ("TELEGRAM_BOT_TOKEN__WORK", "5:abcdef", ".env", "TELEGRAM_BOT_TOKEN__WORK"),
        ("TELEGRAM_ALLOWED_USERS__WORK", "5,6", ".env", "TELEGRAM_ALLOWED_USERS__WORK"),
    ],
)
def test_a_setting_of_an_account_is_written(
    tmp_path: Path, key: str, value: str, file: str, name: str
) -> None:
    before = "# mine\ntelegram:\n  allowed_users: [1]\n"
    (tmp_path / "config.yaml").write_text(before)
    written = set_setting(tmp_path, key, value)
    assert (written.file, written.name) == (tmp_path / file, name)
    assert (tmp_path / "config.yaml").read_text().startswith(before)
    loaded = load_settings(tmp_path, {})
    assert loaded.problems == ()
    assert loaded.settings.platforms["telegram"].allowed_users == ("1",)


def test_a_block_that_is_there_is_written_into(tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text("telegram@work:\n  allowed_users: [1]  # me\n")
    set_setting(tmp_path, "telegram@work.require_mention", "true")
    text = (tmp_path / "config.yaml").read_text()
    assert text == "telegram@work:\n  allowed_users: [1]  # me\n  require_mention: true\n"


@pytest.mark.parametrize(
    ("key", "told"),
    [
        ("telegram@Work.allowed_users", "cannot be called “Work”"),
        ("telegram@default.allowed_users", "telegram@default is telegram itself"),
        ("webhook@work.port", "webhook has no accounts"),
        ("nothing@work.allowed_users", "is not a known setting"),
        ("telegram@work.alowed_users", "Did you mean “platforms.telegram@work.allowed_users”?"),
        ("TELEGRAM_BOT_TOKEN__DEFAULT", "telegram@default is telegram itself"),
        ("TELEGRAM_ALOWED_USERS__WORK", "Did you mean “TELEGRAM_ALLOWED_USERS__WORK”?"),
    ],
)
def test_what_cannot_be_set_changes_nothing(tmp_path: Path, key: str, told: str) -> None:
    with pytest.raises(UserError) as error:
        set_setting(tmp_path, key, "5")
    assert told in str(error.value)
    assert [path.name for path in tmp_path.iterdir() if path.suffix != ".lock"] == []
