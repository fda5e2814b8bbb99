"""`hermes auth`, `login` and `logout` from the command line, and the flows behind them."""

from __future__ import annotations

import asyncio
import io
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from hermes.agent.models.login.oauth import refresh_tokens, request_code, wait_for_tokens
from hermes.agent.models.login.services import LOGINS, account_headers, claims_of, login_of
from hermes.cli import main
from hermes.domain.errors import FaultKind, HermesError, NeedsLogin, UserError
from hermes.domain.models.credential import Cooldown
from hermes.domain.word import replace
from hermes.state.home.credentials import AUTH_FILE, CredentialFile
from hermes.testing.login_server import FakeLoginServer
from tests.cli.command import gateway, hermes

NOW = datetime(2026, 1, 5, 12, 0, tzinfo=UTC)


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HERMES_HOME", str(tmp_path))
    for name in ("OPENROUTER_API_KEY", "OPENAI_API_KEY", "NOUS_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path


@contextmanager
def served(server: FakeLoginServer) -> Iterator[FakeLoginServer]:
    """The server in a thread of its own: commands have their own loop."""
    loop, ready = asyncio.new_event_loop(), threading.Event()

    async def serve() -> None:
        async with server:
            ready.set()
            await stop.wait()

    stop = asyncio.Event()
    thread = threading.Thread(target=lambda: loop.run_until_complete(serve()))
    thread.start()
    ready.wait(10)
    try:
        yield server
    finally:
        loop.call_soon_threadsafe(stop.set)
        thread.join()
        loop.close()


def typed(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO(text))


def test_keys_are_added_listed_and_removed(
    home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["auth", "list"]) == 0
    assert "There are no credentials." in capsys.readouterr().out
    assert main(["auth", "status"]) == 1
    typed(monkeypatch, "sk-or-v1-first-secret\n")
    assert main(["auth", "add", "openrouter"]) == 0
    assert (
        main(["auth", "add", "or", "--api-key", "sk-or-v1-second-secret", "--label", "work", "--json"]) == 0
    )
    monkeypatch.setenv("OPENROUTER_API_KEY", "sk-or-v1-outer-secret")
    capsys.readouterr()
    assert main(["auth", "list", "--json"]) == 0
    listed = json.loads(capsys.readouterr().out)
    assert [(one["label"], one["source"]) for one in listed] == [
        ("OPENROUTER_API_KEY", "env:OPENROUTER_API_KEY"),
        ("key", "manual"),
        ("work", "manual"),
    ]
    assert main(["auth", "list", "openrouter"]) == 0
    assert main(["auth", "status", "openrouter"]) == 0
    shown = capsys.readouterr()
    assert "secret" not in shown.out + shown.err and "work" in shown.out
    assert (home / AUTH_FILE).stat().st_mode & 0o777 == 0o600
    assert "outer-secret" not in (home / AUTH_FILE).read_text()
    assert main(["auth", "remove", "openrouter", "work"]) == 0
    assert main(["auth", "remove", "openrouter", "2"]) == 0
    assert CredentialFile(home).read().credentials == ()
    assert main(["auth", "remove", "openrouter", "1"]) == 1
    assert "hermes config unset OPENROUTER_API_KEY" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "given", "sentence"),
    [
        (["auth", "add", "opnrouter"], "", "Did you mean openrouter?"),
        (["auth", "add", "openrouter"], "\n", "That is no key"),
        (["auth", "add", "openrouter"], "two words\n", "That is no key"),
        (["auth", "add", "openrouter"], "<your-key>\n", "placeholder"),
        (["auth", "add", "openrouter", "--type", "magic"], "k\n", "There are: api-key, oauth."),
        (["auth", "add", "openrouter", "--type", "oauth"], "k\n", "One cannot log in to openrouter."),
        (["auth", "add", "custom"], "k-1\n", "needs its address"),
        (["auth", "add", "ollama"], "k-1\n", "Ollama needs no key"),
        (["auth", "add", "openrouter", "--base-url", "nowhere"], "k-1\n", "no address"),
        (["auth", "add", "openrouter", "--agent", "bee"], "k-1\n", "There is no agent “bee”."),
        (["auth", "remove", "openrouter", "x"], "", "No credential is called “x”"),
        (["login"], "", "hermes login nous | openai-codex"),
        (["logout"], "", "There is no login."),
    ],
)
def test_mistakes_are_told_in_a_sentence(
    home: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    words: list[str],
    given: str,
    sentence: str,
) -> None:
    typed(monkeypatch, given)
    assert main(words) == 1
    said = capsys.readouterr().err
    assert sentence in said and "Traceback" not in said


def test_labels_are_free_ones(
    home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for number in range(3):
        assert main(["auth", "add", "openrouter", "--api-key", f"sk-or-v1-number-{number}"]) == 0
    assert main(["auth", "remove", "openrouter", "key"]) == 0
    assert main(["auth", "add", "openrouter", "--api-key", "sk-or-v1-number-4"]) == 0
    assert [one.label for one in CredentialFile(home).read().of("openrouter")] == ["key 2", "key 3", "key"]
    assert main(["auth", "add", "openrouter", "--label", "key 2", "--api-key", "sk-or-v1-number-5"]) == 1
    assert "There is a credential called “key 2” already." in capsys.readouterr().err
    (home / AUTH_FILE).write_text("{broken")
    assert main(["login", "nous"]) == 1, "nobody logs in to lose it"
    assert "is not JSON" in capsys.readouterr().err


def test_an_agent_has_a_file_of_its_own(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (home / "config.yaml").write_text("agents: {bee: {}}\n")
    typed(monkeypatch, "sk-or-v1-bees-secret\n")
    assert main(["auth", "add", "openrouter", "--agent", "bee"]) == 0
    assert not (home / AUTH_FILE).exists()
    assert CredentialFile(home / "agents/bee").read().of("openrouter")


def test_cooldowns_are_shown_and_ended(
    home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    typed(monkeypatch, "sk-or-v1-first-secret\n")
    assert main(["auth", "add", "openrouter"]) == 0
    (stored,) = CredentialFile(home).read().credentials
    now = datetime.now(UTC)
    cooldown = Cooldown(until=now + timedelta(hours=1), kind=FaultKind.NO_CREDIT)
    CredentialFile(home).rest({stored.id: cooldown}, now, {})
    assert main(["auth", "status"]) == 1
    assert "no_credit until" in capsys.readouterr().out
    assert main(["auth", "reset"]) == 0
    assert "1 cooldowns ended." in capsys.readouterr().out
    assert main(["auth", "status"]) == 0


@pytest.mark.parametrize("codex", [False, True])
def test_one_logs_in_and_out(
    home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], codex: bool
) -> None:
    provider = "openai-codex" if codex else "nous"
    with served(FakeLoginServer(codex=codex)) as server:
        monkeypatch.setitem(LOGINS, provider, server.login(provider))
        assert main(["login", provider]) == 0
        shown = capsys.readouterr()
        assert (
            "https://login.test/device" in shown.err and ("ABCD-EFGH" if codex else "WDJB-MJHT") in shown.err
        )
        assert "access-1" not in shown.out + shown.err
        (stored,) = CredentialFile(home).read().credentials
        assert (stored.key.reveal(), stored.refresh.reveal()) == ("access-1", "refresh-1")
        CredentialFile(home).update(stored.id, lambda login: replace(login, dead="it is over"))
        assert main(["auth", "login", provider]) == 0
        (again,) = CredentialFile(home).read().credentials
        assert again.id == stored.id and again.key.reveal() == "access-2" and not again.dead
    assert main(["logout", provider]) == 0
    assert CredentialFile(home).read().credentials == ()


def test_vertex_takes_the_login_of_googles_program_over(
    home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    file = home / "gcloud" / "application_default_credentials.json"
    monkeypatch.setenv("CLOUDSDK_CONFIG", str(file.parent))
    monkeypatch.delenv("GOOGLE_APPLICATION_CREDENTIALS", raising=False)
    server = FakeLoginServer(rotates=False)
    given = server.tokens()
    kept = {"type": "authorized_user", "client_id": "test-client", "refresh_token": given["refresh_token"]}
    with served(server):
        monkeypatch.setattr("hermes.agent.models.login.google.TOKEN_URL", f"{server.url}/token")
        for text, words in (
            (None, "There is no login of Google's"),
            ("[" * 9000, "holds none"),
            ('{"type": "service_account"}', "holds the key of a service account"),
            (json.dumps(kept | {"refresh_token": "of-another"}), "is not valid any more"),
        ):
            file.parent.mkdir(exist_ok=True)
            if text is not None:
                file.write_text(text)
            assert main(["login", "vertex"]) == 1
            shown = capsys.readouterr().err
            assert words in shown and "gcloud auth application-default login" in shown
        assert CredentialFile(home).read().credentials == ()
        file.write_text(json.dumps(kept | {"client_secret": "not-so-secret"}))
        for _ in range(2):
            assert main(["login", "vertex"]) == 0
        (stored,) = CredentialFile(home).read().credentials
        assert stored.provider == "vertex" and stored.refresh.reveal() == given["refresh_token"]
        service = login_of(stored)
        assert service is not None and service.token_url == f"{server.url}/token"
        renewed = asyncio.run(refresh_tokens(service, stored.refresh, NOW))
        assert renewed.access.reveal() != stored.key.reveal()
    assert server.asked[-1]["client_secret"] == "not-so-secret"


# --- the flows ---


class Sleeper:
    def __init__(self) -> None:
        self.slept: list[float] = []

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)

    def now(self) -> datetime:
        return NOW + timedelta(seconds=sum(self.slept))


async def log_in(server: FakeLoginServer, sleeper: Sleeper) -> str:
    login = server.login("nous")
    code = await request_code(login)
    tokens = await wait_for_tokens(login, code, sleep=sleeper.sleep, now=sleeper.now)
    assert tokens.expires_at == sleeper.now() + timedelta(seconds=3600)
    return tokens.access.reveal()


async def test_the_server_sets_the_pace_of_asking() -> None:
    polls = ["authorization_pending", "slow_down", "authorization_pending"]
    sleeper = Sleeper()
    async with FakeLoginServer(polls=polls, interval=3) as server:
        assert await log_in(server, sleeper) == "access-1"
        assert server.asked[0] == {"client_id": "test-client", "scope": "talk"}
    assert sleeper.slept == [3, 3, 8, 8], "RFC 8628, 3.5: five seconds more from slow_down on"


async def test_openai_says_pending_by_its_status() -> None:
    sleeper = Sleeper()
    async with FakeLoginServer(codex=True, polls=["403", "404", "403"], interval=2) as server:
        assert await log_in(server, sleeper) == "access-1"
        exchange = server.asked[-1]
    assert exchange["grant_type"] == "authorization_code" and exchange["code_verifier"] == "verifier-1"
    assert sleeper.slept == [2, 2, 2, 2]


@pytest.mark.parametrize(
    ("decision", "kind", "sentence"),
    [
        ("access_denied", UserError, "was told not to let us in"),
        ("expired_token", UserError, "hermes login nous"),
        ("invalid_client", NeedsLogin, "invalid_client"),
    ],
)
async def test_a_person_or_the_server_says_no(decision: str, kind: type[HermesError], sentence: str) -> None:
    async with FakeLoginServer(decide=decision) as server:
        with pytest.raises(kind, match=sentence):
            await log_in(server, Sleeper())


async def test_a_code_that_nobody_types_in_ends() -> None:
    async with FakeLoginServer(polls=["authorization_pending"] * 1000, interval=60) as server:
        with pytest.raises(UserError, match="Nobody typed in the code in time"):
            await log_in(server, Sleeper())
        assert len(server.at) == 15


def test_the_account_of_a_token_goes_along_to_codex_only() -> None:
    # {"https://api.openai.com/auth": {"chatgpt_account_id": "acc-1"}}
    claims = "eyJodHRwczovL2FwaS5vcGVuYWkuY29tL2F1dGgiOnsiY2hhdGdwdF9hY2NvdW50X2lkIjoiYWNjLTEifX0"
    token = f"e30.{claims}.x"
    assert account_headers("https://chatgpt.com/backend-api/codex", token) == {"ChatGPT-Account-ID": "acc-1"}
    assert account_headers("https://api.openai.com/v1", token) == {}
    assert account_headers("https://chatgpt.com/backend-api/codex", "sk-plain") == {}
    assert claims_of("a.b.c") == {} and claims_of(f"e30.{claims}.x")


def test_a_gateway_that_runs_adopts_a_key(tmp_path: Path) -> None:
    folder = tmp_path / "home"
    folder.mkdir(mode=0o700)
    (folder / "config.yaml").write_text("model: {provider: openrouter, default: some/model}\n")
    with gateway(folder) as running:
        added = hermes(folder, "auth", "add", "openrouter", "--api-key", "sk-or-v1-later-secret")
        assert added.code == 0 and "The running gateway has adopted it." in added.err, added
        state = json.loads((folder / "gateway_state.json").read_text())
        assert "some/model by OpenRouter" in state["model"]
        assert "later-secret" not in running.err


def test_a_key_that_the_settings_name_by_its_variable_is_listed(home: Path) -> None:
    home.mkdir(mode=0o700, exist_ok=True)
    (home / "config.yaml").write_text(
        "providers: {house: {base_url: 'http://127.0.0.1:9/v1', key_env: HOUSE_TOKEN}}\n"
        "fallback_providers: [{provider: groq, model: m, key_env: SPARE_TOKEN},"
        " {provider: custom:house, model: m}]\n"
    )
    keys = {"HOUSE_TOKEN": "abcdefgh-0123456789", "SPARE_TOKEN": "ijklmnop-0123456789"}
    rows = json.loads(hermes(home, "auth", "list", "--json", **keys).out)
    assert {(row["provider"], row["label"]) for row in rows} == {
        ("custom:house", "HOUSE_TOKEN"),
        ("groq", "SPARE_TOKEN"),
    }
    assert hermes(home, "auth", "status", "custom:house", **keys).code == 0
    assert hermes(home, "auth", "status", "custom:house").code == 1


def test_a_key_of_an_agent_is_listed_for_it(home: Path) -> None:
    (home / "agents" / "bee").mkdir(parents=True)
    (home / "config.yaml").write_text("agents: {bee: {}}\n")
    (home / "agents" / "bee" / ".env").write_text("OPENROUTER_API_KEY=abcdefgh-0123456789\n")
    assert hermes(home, "auth", "status", "openrouter").code == 1
    assert hermes(home, "auth", "status", "openrouter", "--agent", "bee").code == 0
