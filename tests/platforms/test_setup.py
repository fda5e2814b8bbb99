"""`hermes platforms setup`: a person at a terminal answers the manifest's questions."""

from __future__ import annotations

import getpass
import io
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from hermes.admin.commands import platforms
from hermes.admin.shell.command import perform
from hermes.admin.shell.output import CliConsole
from hermes.domain.chats.adapter import AdapterContext, Finding
from hermes.domain.chats.capabilities import Capabilities, Manifest, PackageExtra, SettingField
from hermes.domain.errors import NeedsLogin, UserError
from hermes.domain.word import replace
from hermes.plugins import platform_manifests
from hermes.state.settings.loader import load_settings

ALPHA = Manifest(
    name="telegram",
    title="Alpha",
    adapter=f"{__name__}:Working",
    capabilities=Capabilities(),
    people="numbers like 501",
    person=r"\d+",
    settings=(
        SettingField(env="TELEGRAM_BOT_TOKEN", title="The token", secret=True, hint="Ask Alpha."),
        SettingField(env="TELEGRAM_WEBHOOK_URL", title="The address", required=False, asked=True),
        SettingField(
            env="TELEGRAM_WEBHOOK_PORT", title="The port", required=False, unless="TELEGRAM_WEBHOOK_URL"
        ),
        SettingField(env="TELEGRAM_PROXY", title="The proxy", required=False),
    ),
)
TOKEN = "123456789:AAF-a-token-of-alpha"


class Working:
    def __init__(self, context: AdapterContext) -> None:
        self._token = context.setting("TELEGRAM_BOT_TOKEN")

    async def check(self) -> list[Finding]:
        if self._token != TOKEN:
            raise NeedsLogin("Alpha does not know this token (TELEGRAM_BOT_TOKEN)")
        return [Finding(good=True, text="logged in as @alpha")]


Answer = Callable[..., tuple[str, Path]]


@pytest.fixture
def answer(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Answer:
    """Give these answers to what is asked, and see what was printed; all of them must be wanted."""

    def given(
        *answers: str,
        words: tuple[str, ...] = ("telegram",),
        terminal: bool = True,
        command: str = "platforms",
    ) -> tuple[str, Path]:
        out, left = io.StringIO(), list(answers)

        def hidden(prompt: str, stream: io.StringIO) -> str:
            stream.write(prompt)
            return left.pop(0)

        class Typed:
            def readline(self) -> str:
                return left.pop(0) + "\n" if left else ""

        monkeypatch.setattr(getpass, "getpass", hidden)
        monkeypatch.setattr(sys, "stdin", Typed())
        monkeypatch.setattr(platforms, "platform_manifests", lambda: (ALPHA,))
        monkeypatch.setattr("hermes.plugins.load_adapter", lambda manifest: Working)
        console = CliConsole(out=out, err=out, interactive=terminal)
        code = perform(command, ["setup", *words], tmp_path / "home", {}, console)
        assert code == 0 and not left
        return out.getvalue(), tmp_path / "home"

    return given


def test_questions_are_asked_tried_and_kept(answer: Answer) -> None:
    told, home = answer(TOKEN, "", "8443", "501, 502")
    settings = load_settings(home, {})
    found = {name: settings.find("telegram", f"TELEGRAM_{name}") for name in ("BOT_TOKEN", "WEBHOOK_PORT")}
    assert [one.reveal() for one in found.values() if one] == [TOKEN, "8443"]
    assert settings.settings.platforms["telegram"].allowed_users == ("501", "502")
    assert (home / ".env").stat().st_mode & 0o777 == 0o600
    assert "Ask Alpha." in told and "✓ logged in as @alpha" in told and "hermes gateway run" in told
    assert TOKEN not in told and "proxy" not in told


@pytest.mark.parametrize("words", [("telegram",), ("telegram", "--all")])
def test_gateway_setup_is_the_same(answer: Answer, words: tuple[str, ...]) -> None:
    told, home = answer(TOKEN, *[""] * (1 + len(words)), "501", words=words, command="gateway")
    assert load_settings(home, {}).settings.platforms["telegram"].allowed_users == ("501",)
    assert ("The proxy" in told) is ("--all" in words)


def test_a_field_with_fixed_choices_is_asked_again_and_repeats_nothing(
    answer: Answer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever types the password one question too early must not get it on the screen, or into a file."""
    mode = SettingField(env="TELEGRAM_MODE", title="The mode", choices=("fast", "slow", "off"))
    monkeypatch.setitem(globals(), "ALPHA", replace(ALPHA, settings=(ALPHA.settings[0], mode)))
    told, home = answer(TOKEN, "secretpw", "Slow", "501")
    assert "It can only be fast, slow or off." in told and "secretpw" not in told
    assert "TELEGRAM_MODE=Slow" in (home / ".env").read_text()


def test_the_choices_of_fields_are_those_that_the_question_names() -> None:
    fields = [field for manifest in platform_manifests() for field in manifest.settings if field.choices]
    assert {"EMAIL_OAUTH_PROVIDER", "MATRIX_ENCRYPTION"} <= {field.env for field in fields}
    for field in fields:
        assert all(choice in field.title for choice in field.choices), field.env


def test_one_answer_may_spare_another_question(answer: Answer) -> None:
    told, _ = answer(TOKEN, "https://example.org/alpha", "")
    assert "The port" not in told


def test_who_may_write_is_asked_again_until_it_can_be_somebody(answer: Answer) -> None:
    told, home = answer(TOKEN, "", "", "@ann", "yes", "501, ann", "501,502")
    assert load_settings(home, {}).settings.platforms["telegram"].allowed_users == ("501", "502")
    assert "Who may write to it, several with commas" in told and ": numbers like 501." in told
    assert [f"Alpha calls nobody “{one}”." in told for one in ("@ann", "yes", "ann")] == [True] * 3


def test_everything_can_be_asked(answer: Answer) -> None:
    told, _ = answer(TOKEN, "", "", "", "501", words=("telegram", "--all"))
    assert "The proxy" in told


def test_a_wrong_answer_is_asked_again(answer: Answer) -> None:
    told, home = answer("", "your-token-here", "123456789:wrong", "", "", "", TOKEN, "", "", "")
    assert "cannot be used without it" in told and "placeholder" in told
    assert "✗ Alpha does not know this token" in told
    found = load_settings(home, {}).find("telegram", "TELEGRAM_BOT_TOKEN")
    assert found is not None and found.reveal() == TOKEN


def test_a_token_that_is_pasted_at_another_question_is_not_shown(answer: Answer) -> None:
    told, _ = answer("123456789:wrong", "", "", TOKEN, TOKEN, "", "", TOKEN, "501")
    assert "Alpha calls nobody “‹secret›”." in told and TOKEN not in told


def test_missing_packages_are_offered_before_anything_is_asked(
    answer: Answer, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    extra = PackageExtra(name="email", modules=("no_such_module",))
    monkeypatch.setattr(f"{__name__}.ALPHA", replace(ALPHA, extra=extra))
    with pytest.raises(UserError, match="cannot be used without them"):
        answer("n")
    assert not (tmp_path / "home").exists()
    optional = replace(extra, purpose="secret rooms")
    monkeypatch.setattr(f"{__name__}.ALPHA", replace(ALPHA, extra=optional))
    told, _ = answer("n", TOKEN, "", "", "501")
    assert told.index("for secret rooms: aiosmtplib") < told.index("The token")


def test_what_was_refused_can_be_kept(answer: Answer) -> None:
    _, home = answer("123456789:wrong", "", "", "keep", "")
    assert load_settings(home, {}).find("telegram", "TELEGRAM_BOT_TOKEN")


def test_a_login_by_hand_is_offered(answer: Answer, monkeypatch: pytest.MonkeyPatch) -> None:
    async def log_in(context: AdapterContext, tell: Callable[[str], None]) -> dict[str, str]:
        assert context.folder is not None and context.folder.name == "telegram"
        tell("Scan this.")
        return {"TELEGRAM_BOT_TOKEN": TOKEN, "TELEGRAM_ALLOWED_USERS": "501"}

    monkeypatch.setattr(f"{__name__}.ALPHA", replace(ALPHA, login="x:y"))
    monkeypatch.setattr(platforms, "load_login", lambda manifest: log_in)
    told, home = answer("123456789:wrong", "", "", "login")
    assert "Scan this." in told and "Who may write" not in told
    settings = load_settings(home, {})
    assert settings.settings.platforms["telegram"].allowed_users == ("501",)
    token = settings.find("telegram", "TELEGRAM_BOT_TOKEN")
    assert token is not None and token.reveal() == TOKEN


def test_who_leaves_has_changed_nothing(answer: Answer, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="Nothing was changed"):
        answer(TOKEN)
    assert not (tmp_path / "home").exists()


def test_the_platform_can_be_chosen(answer: Answer) -> None:
    told, _ = answer("telegram", TOKEN, "", "", "", words=())
    assert "Which platform?" in told and "Alpha is set up" in told


def test_a_further_account_is_set_up_by_itself(answer: Answer) -> None:
    answer(TOKEN, "", "8443", "501")
    told, home = answer("123456789:wrong", "", "", "", TOKEN, "", "", "502", words=("telegram@work",))
    assert "TELEGRAM_BOT_TOKEN__WORK:" in told and "Alpha (work) is set up" in told
    assert "✗ Alpha does not know this token (TELEGRAM_BOT_TOKEN__WORK)" in told
    loaded = load_settings(home, {})
    assert loaded.settings.platforms["telegram"].allowed_users == ("501",)
    assert loaded.settings.platforms["telegram@work"].allowed_users == ("502",)
    assert loaded.find("telegram@work", "TELEGRAM_WEBHOOK_PORT") is None
    assert loaded.problems == ()


def test_without_a_terminal_the_commands_are_named(answer: Answer) -> None:
    with pytest.raises(UserError, match="hermes config set TELEGRAM_BOT_TOKEN") as told:
        answer(terminal=False)
    assert "hermes platforms test telegram" in str(told.value)
