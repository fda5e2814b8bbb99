"""`hermes profile clone|export|import`: what a copy holds, and what it never does."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path

import pytest

from tests.cli.command import hermes
from tests.cli.test_chat import chat

KEY, TOKEN = "sk-of-the-model-0123456789", "123456:token-of-a-bot"


@pytest.fixture
def home(tmp_path: Path) -> Path:
    home = tmp_path / "home"
    for folder in (home / "skills" / "plan", home / "agents" / "bee", home / "platforms" / "matrix"):
        folder.mkdir(mode=0o700, parents=True)
    home.chmod(0o700)
    (home / "config.yaml").write_text("model: demo  # mine\nagents: {bee: {}}\n")
    (home / ".env").write_text(f"OPENAI_API_KEY={KEY}\nTELEGRAM_BOT_TOKEN={TOKEN}\n")
    (home / ".env.bak").write_text(f"TELEGRAM_BOT_TOKEN={TOKEN}\n")
    (home / "SOUL.md").write_text("You are calm.")
    (home / "skills" / "plan" / "SKILL.md").write_text("# plan")
    (home / "agents" / "bee" / ".env").write_text(f"OPENAI_API_KEY={KEY}\n")
    (home / "platforms" / "matrix" / "keys").write_text("olm")
    (home / "config_history").mkdir()
    (home / "config_history" / "1.yaml").write_text(
        f"model: {{api_key: {KEY}}}\ntelegram: {{token: {TOKEN}}}\n"
    )
    (home / "webhook_subscriptions.json").write_text(
        json.dumps({"orders": {"secret": KEY, "prompt": "look"}})
    )
    return home


def test_a_clone_has_everything_but_the_accounts(home: Path) -> None:
    said = hermes(home, "profile", "clone", "default", "twin")
    assert said.code == 0 and "no accounts of chat platforms" in said.err, said
    twin = home / "profiles" / "twin"
    for name in ("config.yaml", "SOUL.md", "skills/plan/SKILL.md", "agents/bee/.env"):
        assert (twin / name).read_text() == (home / name).read_text()
    assert (twin / ".env").read_text() == f"OPENAI_API_KEY={KEY}\n"
    assert TOKEN not in (twin / ".env.bak").read_text()
    assert not [*twin.rglob("*.part"), *twin.glob(".clone-*"), *(home / "profiles").glob(".clone-*")]
    assert not (twin / "config_history").exists() and (twin / "webhook_subscriptions.json").exists()
    assert not (twin / "platforms").exists() and not (twin / "before-restore").exists()
    assert hermes(home, "-p", "twin", "config", "check").code == 0
    assert "on one port" not in said.err
    (home / "config.yaml").write_text("platforms: {api_server: {port: 8701}}\n")
    said = hermes(home, "profile", "clone", "default", "third")
    assert "hermes -p third config set platforms.api_server.port" in said.err
    again = hermes(home, "profile", "clone", "default", "twin")
    assert again.code == 1 and "There is a profile “twin” already" in again.err


def test_an_exported_profile_holds_no_secret_and_comes_back_elsewhere(home: Path, tmp_path: Path) -> None:
    chat(home, "-z", "hello")
    hermes(home, "gateway", "stop")
    file = tmp_path / "twin.zip"
    words = ("profile", "export", "default", "-o", str(file), "--conversations")
    assert hermes(home, *words).code == 0
    with zipfile.ZipFile(file) as archive:
        inside = b"".join(archive.read(name) for name in archive.namelist())
    assert KEY.encode() not in inside and TOKEN.encode() not in inside and b"olm" not in inside
    assert hermes(home, *words).code == 1, "a file is never overwritten"
    other = tmp_path / "other"
    said = hermes(other, "profile", "import", str(file), "twin")
    assert said.code == 0, said
    sessions = json.loads(hermes(other, "-p", "twin", "sessions", "list", "--json").out)
    assert len(sessions) == 1
    assert (other / "profiles" / "twin" / "SOUL.md").read_text() == "You are calm."
    assert (
        hermes(home, "profile", "export", "default", "-o", str(tmp_path / "all.zip"), "--secrets").code == 0
    )
    with zipfile.ZipFile(tmp_path / "all.zip") as archive:
        assert KEY.encode() in archive.read("home/.env")


def test_a_profile_is_made_from_an_encrypted_backup(home: Path, tmp_path: Path) -> None:
    phrase = {"HERMES_BACKUP_PASSPHRASE": "correct horse"}
    file = str(tmp_path / "b.zip")
    assert hermes(home, "backup", "create", "-e", "-o", file, **phrase).code == 0
    asked = hermes(tmp_path / "other", "profile", "import", file, "twin")
    assert asked.code == 1 and "passphrase" in asked.err, asked
    assert hermes(tmp_path / "other", "profile", "import", file, "twin", **phrase).code == 0
    assert (tmp_path / "other/profiles/twin/SOUL.md").read_text() == "You are calm."


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("clone", "nobody", "x"), "There is no profile “nobody”"),
        (("clone", "default", "Ü"), "A profile cannot be called “Ü”."),
        (("export", "nobody"), "There is no profile “nobody”"),
        (("import", "{tmp}/none.zip", "x"), "No such file"),
        (("import", "{tmp}/text.zip", "x"), "is no whole backup of Hermes"),
    ],
)
def test_what_cannot_be_leaves_nothing_behind(
    home: Path, tmp_path: Path, words: tuple[str, ...], told: str
) -> None:
    (tmp_path / "text.zip").write_text("hello")
    said = hermes(home, "profile", *(word.format(tmp=tmp_path) for word in words))
    assert said.code == 1 and said.clean and told in said.err, said
    assert not (home / "profiles").exists() or not [*(home / "profiles").iterdir()]


def test_a_clone_takes_a_folder_for_no_file_of_secrets(home: Path) -> None:
    (home / "workspace" / ".env").mkdir(parents=True)
    (home / "workspace" / ".env" / "pyvenv.cfg").write_text("home = /usr/bin\n")
    (home / "workspace" / ".env.png").write_bytes(b"\x89PNG\r\n\xff")
    said = hermes(home, "profile", "clone", "default", "twin")
    twin = home / "profiles" / "twin"
    assert said.code == 0 and (twin / "workspace" / ".env" / "pyvenv.cfg").exists(), said
    assert (twin / "workspace" / ".env.png").read_bytes() == b"\x89PNG\r\n\xff"
    assert TOKEN not in (twin / ".env").read_text()
