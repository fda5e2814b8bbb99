"""Every platform is a folder with the same files, one line in pyproject.toml and one page; on paper it
imports no SDK, and `hermes platforms` tells of it."""

from __future__ import annotations

import io
import json
import re
import subprocess
import sys
import tomllib
from importlib import import_module
from pathlib import Path

import pytest

from hermes.admin.commands import platforms
from hermes.admin.commands.platform_packages import FURTHER_EXTRAS
from hermes.admin.process.home_files import STATE_FILE
from hermes.admin.shell.command import perform
from hermes.admin.shell.output import CliConsole
from hermes.domain.chats.adapter import AdapterContext, Finding
from hermes.domain.chats.capabilities import Manifest
from hermes.domain.errors import NeedsLogin, UserError
from hermes.state.settings.loader import load_settings

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "src" / "hermes" / "entry" / "platforms"
NAMES = sorted(path.name for path in FOLDER.iterdir() if (path / "manifest.py").exists())
ENTRIES = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["entry-points"]["hermes.platforms"]


def manifest_of(name: str) -> Manifest:
    found = import_module(f"hermes.entry.platforms.{name}.manifest").MANIFEST
    assert isinstance(found, Manifest)
    return found


def evidence_of(title: str) -> str:
    """A platform's section of the page that says what it was tested against."""
    sections = (ROOT / "docs" / "contributing" / "platform-evidence.md").read_text().split("\n## ")
    return next(section for section in sections if section.startswith(f"{title}\n"))


@pytest.mark.parametrize("name", NAMES)
def test_a_platform_is_a_folder_a_line_and_a_page(name: str) -> None:
    manifest = manifest_of(name)
    assert {"__init__.py", "manifest.py", "adapter.py", "convert.py"} <= {
        path.name for path in (FOLDER / name).iterdir()
    }
    assert ENTRIES[name] == f"hermes.entry.platforms.{name}.manifest:MANIFEST"
    assert manifest.name == name
    page = (ROOT / manifest.docs).read_text()
    assert all(field.env in page for field in manifest.settings), "the page names every variable"
    assert manifest.evidence[:1] in "ABCDE"
    assert f"Grade {manifest.evidence[:1]}" in evidence_of(manifest.title), "the evidence page has its grade"
    tested = " ".join(page.rpartition("\n## How it was tested\n")[2].split())
    assert tested.startswith(f"Grade {manifest.evidence}."), "the page ends with what it was tested against"
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    if manifest.extra is not None:
        assert manifest.extra.name in extras
        assert (ROOT / f"src/hermes/admin/extras/{manifest.extra.name}.lock").is_file(), (
            "add it to tools/lock"
        )
        assert f"hermes platforms install {name}" in page


def test_every_extra_can_be_installed() -> None:
    """Each has a lock that `tools/lock` writes, with packages that the others do not bring."""
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    offered = {one.extra.name for one in map(manifest_of, NAMES) if one.extra} | FURTHER_EXTRAS.keys()
    assert offered == extras.keys() - {"dev", "rl"}  # those are for environments of one's own
    always = set(re.findall(r"^([\w.-]+)==", (ROOT / "requirements.lock").read_text(), re.MULTILINE))
    for name in offered:
        lock = (ROOT / f"src/hermes/admin/extras/{name}.lock").read_text()
        packages = re.findall(r"^([\w.-]+)==", lock, re.MULTILINE)
        assert packages and always.isdisjoint(packages) and lock.count("--hash=sha256:") >= len(packages)


def test_paper_imports_no_sdk() -> None:
    names = ", ".join(f"hermes.entry.platforms.{name}.manifest" for name in NAMES)
    probe = f"import sys; before = set(sys.modules)\nimport {names}\nprint(sorted(set(sys.modules) - before))"
    done = subprocess.run(
        [sys.executable, "-P", "-c", probe],
        capture_output=True,
        text=True,
        env={"PYTHONPATH": str(ROOT / "src")},
    )
    assert done.returncode == 0, done.stderr
    loaded = {name.partition(".")[0] for name in eval(done.stdout)}
    # Words are made of msgspec, which loads typing_extensions.
    allowed = sys.stdlib_module_names | {"hermes", "msgspec", "typing_extensions"}
    assert loaded <= allowed, "an SDK is imported with the manifests"


# --- the command ---


class Working:
    """An adapter whose check is told by its token."""

    def __init__(self, context: AdapterContext) -> None:
        self._token = context.setting("ALPHA_TOKEN")

    async def check(self) -> list[Finding]:
        if self._token == "revoked-1":
            raise NeedsLogin("Alpha does not know the token (ALPHA_TOKEN)")
        scope = Finding(good=self._token == "whole-1", text="it may write", hint=f"see {self._token}")
        return [Finding(good=True, text="logged in as @alpha"), scope]


ALPHA = Manifest(
    name="alpha",
    title="Alpha",
    adapter=f"{__name__}:Working",
    capabilities=manifest_of("github").capabilities,
    settings=manifest_of("github").settings[:0],
)


def ask(monkeypatch: pytest.MonkeyPatch, home: Path, words: list[str], **environ: str) -> tuple[int, str]:
    monkeypatch.setattr(platforms, "platform_manifests", lambda: (ALPHA, manifest_of("github")))
    monkeypatch.setattr("hermes.plugins.load_adapter", lambda manifest: Working)
    out = io.StringIO()
    code = perform("platforms", words, home, environ, CliConsole(out=out, err=out))
    return code, out.getvalue()


def test_the_port_for_incoming_webhooks_is_no_state_of_the_outgoing_ones(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    state = {"webhook": {"state": "connected", "error_message": "http://127.0.0.1:8644"}}
    monkeypatch.setattr(platforms, "platform_manifests", lambda: (manifest_of("webhook"),))
    for name, shown in (("webhook", ""), ("webhook targets", "connected (http://127.0.0.1:8644)")):
        (tmp_path / STATE_FILE).write_text(json.dumps({"platforms": {name: state["webhook"]}}))
        out = io.StringIO()
        assert perform("platforms", ["list", "--json"], tmp_path, {}, CliConsole(out=out, err=out)) == 0
        assert json.loads(out.getvalue())[0]["state"] == shown


def test_list_and_show(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    code, told = ask(monkeypatch, tmp_path, ["list"], GITHUB_TOKEN="t-1234567")
    assert code == 0
    assert [line.split()[:3] for line in told.splitlines()[1:]] == [
        ["alpha", "Alpha", "off"],
        ["github", "GitHub", "on"],
    ]
    code, told = ask(monkeypatch, tmp_path, ["show", "github", "--json"])
    facts = json.loads(told)
    assert code == 0 and facts["packages"] == {"aiohttp": True} and not facts["settings"][0]["set"]
    code, told = ask(monkeypatch, tmp_path, ["show", "github"], GITHUB_TOKEN="t-1234567")
    assert "GITHUB_TOKEN  set" in told and "t-1234567" not in told


@pytest.mark.parametrize(
    ("token", "code", "words"),
    [
        ("whole-1", 0, ["✓ logged in as @alpha", "✓ it may write"]),
        ("partial-1", 1, ["✓ logged in as @alpha", "✗ it may write"]),
        ("revoked-1", 1, ["✗ Alpha does not know the token (ALPHA_TOKEN)"]),
    ],
)
def test_test(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, token: str, code: int, words: list[str]
) -> None:
    told = ask(monkeypatch, tmp_path, ["test", "alpha"], ALPHA_TOKEN=token)
    assert told[0] == code
    assert [line for line in told[1].splitlines() if line[0] in "✓✗"] == words
    assert token not in told[1], "a token is never printed"


def test_an_unknown_platform(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="Did you mean github"):
        ask(monkeypatch, tmp_path, ["test", "gihub"])


@pytest.mark.parametrize("name", NAMES)
def test_every_variable_can_be_set_by_command(name: str, tmp_path: Path) -> None:
    for field in manifest_of(name).settings:
        out, err = io.StringIO(), io.StringIO()
        assert (
            perform("config", ["set", field.env, "value-1"], tmp_path, {}, CliConsole(out=out, err=err)) == 0
        ), err.getvalue()
        found = load_settings(tmp_path, {}).find(name, field.env)
        assert found is not None and found.reveal() == "value-1"


@pytest.mark.parametrize(
    ("name", "right", "wrong"),
    [
        ("telegram", "501234567", "@ann"),
        ("discord", "501234567890123456", "ann#1234"),
        ("slack", "U0123456789", "@ann"),
        ("mattermost", "k6y7yqozoywxbaafy414zgamtc", "ann"),
        ("matrix", "@you:example.org", "you"),
        ("email", "ann@example.org", "Ann <ann@example.org>"),
        ("signal", "+15551234567", "15551234567"),
        ("sms", "+15551234567", "5551234567"),
        ("bluebubbles", "ann@icloud.com", "Ann"),
        ("whatsapp_cloud", "15551234567", "+1 555 1234567"),
    ],
)
def test_setup_knows_what_the_id_of_a_person_looks_like(name: str, right: str, wrong: str) -> None:
    manifest = import_module(f"hermes.entry.platforms.{name}.manifest").MANIFEST
    assert manifest.people
    assert re.fullmatch(manifest.person, right) and not re.fullmatch(manifest.person, wrong)
