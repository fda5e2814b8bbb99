"""Each wrong input gives exactly one problem, on its line, with a remedy; everything else still counts."""

from __future__ import annotations

from pathlib import Path

import pytest

from hermes.domain.settings.settings import Settings
from hermes.state.settings.loader import load_settings

AFTER = "\nlogging:\n  level: ERROR\n"
BOMB = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]\n" for n in range(1, 9)
)

# What is written · the line · words of the sentence or the remedy
CASES = {
    "broken quote": ('model: "gpt', 1, "quote is opened"),
    "broken list": ("agent: {}\nallowed_users: [a, b", 2, "list is opened"),
    "broken mapping": ("display: {busy_input_mode: queue", 1, "mapping is opened"),
    "tab": ("agent:\n\tmax_turns: 5", 2, "Indent with spaces"),
    "colon in a value": ("model: a: b", 1, "colon is not expected"),
    "indentation": ("agent:\n    max_turns: 5\n  api_max_retries: 1", 3, "indentation"),
    "a stray at sign": ("model: @gpt", 1, "quotes"),
    "a text after the quotes": ("model: 'it's'", 1, "one pair of quotes"),
    "a forgotten colon": ("model gpt", 1, "name: value"),
    "a foreign tag": ("model: !!python/object:os.system x", 1, "!!python/object"),
    "a bad escape": ('model: "\\UFFFFFFFF"', 1, "not valid YAML"),
    "a lone surrogate": ('model: "\\ud800"', 1, "no text can hold"),
    "an unknown alias": ("model: *nothing", 1, "refers to nothing"),
    "a recursive alias": ("allowed_users: &a [*a]", 1, "refers to nothing"),
    "deep nesting": ("allowed_users: " + "[" * 90_000, 1, "deeper than"),
    "deep closed nesting": ("allowed_users: " + "[" * 60 + "]" * 60, 1, "deeper than"),
    "merging a value": ("agent:\n  <<: 5", 2, "take in a mapping"),
    "a list as a name": ("? [a]\n: b", 1, "name must be"),
    "a name that is missing": ("agent:\n  ~: 5", 2, "name is missing"),
    "a duplicate key": ("timezone: UTC\ntimezone: Europe/Berlin", 2, "stands twice"),
    "a nested duplicate": ("agent:\n  max_turns: 3\n  max_turns: 4", 3, "line 2"),
    "a control character": ("model: a\x07b", 1, "control character"),
    "a wrong byte": (b"agent: {}\nmodel: caf\xe9", 2, "UTF-8"),
    "unknown at top level": ("modle: x", 1, "“model”"),
    "unknown in a section": ("agent:\n  max_turn: 3", 2, "“agent.max_turns”"),
    "in the wrong section": ("max_turns: 3", 1, "“agent.max_turns”"),
    "unknown and unlike all": ("agent:\n  zzzzz: 3", 2, "Remove it"),
    "an unknown platform": ("platforms:\n  telegran: {enabled: true}", 2, "“telegram”"),
    "a platform's key mistyped": ("telegram:\n  allowed_user: [1]", 2, "“platforms.telegram.allowed_users”"),
    "a text for a number": ("agent:\n  max_turns: many", 2, "whole number of at least 1"),
    "a fraction for a whole number": ("agent: {max_turns: 1.5}", 1, "whole number"),
    "a number too small": ("agent: {max_turns: 0}", 1, "at least 1"),
    "a number too large": ("gateway: {gather_seconds: 1000}", 1, "from 0 to 60"),
    "no number at all": ("approvals: {timeout: .nan}", 1, "a number"),
    "an endless number": ("agent: {max_turns: " + "9" * 5000 + "}", 1, "whole number"),
    "a number beyond all": ("approvals: {timeout: 1e999}", 1, "a number"),
    "a text for a switch": ("streaming: {enabled: maybe}", 1, "true or false"),
    "a list for a text": ("model:\n  default: [a]", 2, "not a list"),
    "a mapping for a number": ("agent:\n  max_turns: {a: 1}", 2, "not a mapping"),
    "a value for a section": ("agent: 60", 1, "not a single value"),
    "a list for a section": ("streaming:\n  - enabled", 2, "not a list"),
    "a mapping in a list": ("allowed_users: [{a: 1}]", 1, "list of texts"),
    "a wrong choice": ("display:\n  busy_input_mode: quueue", 2, "“queue”"),
    "a wrong mode": ("approvals: {mode: never}", 1, "one of manual, smart, off"),
    "an unknown time zone": ("timezone: Mars/Base", 1, "time zone"),
    "a time zone that is a path": ("timezone: ../../etc/passwd", 1, "time zone"),
    "an address without http": ("model: {base_url: localhost}", 1, "http://"),
    "a variable that is not set": ("model: ${NOT_SET}", 1, "Set NOT_SET"),
    "an agent's name": ("agents:\n  My Agent: {}", 2, "cannot be called"),
    "a reserved name": ("agents:\n  root: {}", 2, "cannot be called"),
    "a second home for main": ("agents:\n  main: {home_dir: /x}", 2, "home itself"),
    "one home for two": ("agents:\n  a: {home_dir: /x}\n  b: {home_dir: /x}", 3, "share one"),
    "one home for two, spelled in two ways": (
        "agents:\n  a: {home_dir: /x/y}\n  b: {home_dir: /x/./z/../y}",
        3,
        "The agents a and b share one home_dir",
    ),
    "the gateway's home": ("agents:\n  a: {home_dir: .}", 2, "The agents main and a share one home_dir"),
    "a home around the gateway's": ("agents:\n  a: {home_dir: ..}", 2, "main and a have one home_dir inside"),
    "another agent's usual home": ("agents:\n  a: {home_dir: agents/b}\n  b: {}", 2, "b and a share one"),
    "a home inside another": ("agents:\n  b: {}\n  a: {home_dir: agents/b/x}", 3, "b and a have one"),
    "a home around others": ("agents:\n  a: {home_dir: agents}\n  b: {}", 2, "b and a have one"),
    "a home in a home elsewhere": ("agents:\n  a: {home_dir: /x/y}\n  b: {home_dir: /x}", 2, "b and a have"),
    "the main agent's workspace": ("agents:\n  a: {home_dir: workspace/a}", 2, "main and a have one"),
    "the profiles": ("agents:\n  a: {home_dir: profiles}", 2, "which the gateway keeps for itself"),
    "the folder of agents": ("agents:\n  a: {home_dir: agents}", 2, "which the gateway keeps for itself"),
    "what was removed": ("agents:\n  a: {home_dir: agents/.removed/b}", 2, "the gateway keeps for itself"),
    "keys of platforms": ("agents:\n  a: {home_dir: ./platforms/matrix}", 2, "the gateway keeps for itself"),
    "backups": ("agents:\n  a: {home_dir: backups}", 2, "which the gateway keeps for itself"),
    "archives": ("agents:\n  a: {home_dir: archives/a}", 2, "which the gateway keeps for itself"),
    "plugins": ("agents:\n  a: {home_dir: plugins}", 2, "which the gateway keeps for itself"),
    "the settings": ("agents:\n  a: {home_dir: config.yaml}", 2, "which the gateway keeps for itself"),
    "the database": ("agents:\n  a: {home_dir: gateway.db}", 2, "which the gateway keeps for itself"),
    "the secrets": ("agents:\n  a: {home_dir: .env}", 2, "which the gateway keeps for itself"),
    "an unknown default agent": ("agents: {work: {}}\ndefault_agent: wrok", 2, "“work”"),
    "a route to nobody": ("routes:\n  - match: {chat_id: 1}\n    agent: nobody", 3, "not declared"),
    "a route without a match": ("routes:\n  - agent: main", 2, "no match"),
    "a route without an agent": ("routes:\n  - match: {chat_id: 1}", 2, "no agent"),
    "a route with a typo": ("routes:\n  - match: {chat: 1}\n    agent: main", 2, "chat_id"),
    "a route with an empty value": ("routes:\n  - match: {chat_id: }\n    agent: main", 2, "is empty"),
    "a route for no platform": ("routes:\n  - match: {platform: telegran}\n    agent: main", 2, "“telegram”"),
    "a route for no kind": ("routes:\n  - match: {kind: grupp}\n    agent: main", 2, "“group”"),
    "routes that are no list": ("routes:\n  match: {}", 2, "must be a list"),
    "a route that is a text": ("routes: [main]", 1, "Below routes[0] must stand"),
    "a wrong platform block": ("telegram: on", 1, "not a single value"),
    "a wrong fact of a model": (
        "models: {strange-1: {context_length: 50000, price_in: abc}}",
        1,
        "models.strange-1 does not count",
    ),
    "a wrong enabled": ("telegram:\n  enabled: fasle", 2, "false is used"),
    "a placeholder": ("telegram:\n  token: <your token>", 2, "placeholder"),
    "a second document": ("agent: {}\n---\nmodel: x", 2, "second document"),
    "too many aliases": (BOMB.replace("a0", "terminal", 1), None, "aliases expand"),
}  # fmt: skip


def load(home: Path, config: str | bytes, env: str = "", **environ: str):  # type: ignore[no-untyped-def]
    (home / "config.yaml").write_bytes(config if isinstance(config, bytes) else config.encode())
    if env:
        (home / ".env").write_text(env)
        (home / ".env").chmod(0o600)
    return load_settings(home, environ)


@pytest.mark.parametrize("name", [name for name in CASES if name != "too many aliases"])
def test_one_mistake_is_one_problem(tmp_path: Path, name: str) -> None:
    written, line, words = CASES[name]
    tail = AFTER.encode() if isinstance(written, bytes) else AFTER
    loaded = load(tmp_path, written + tail)  # type: ignore[operator]
    assert [problem.line for problem in loaded.problems] == [line]
    (problem,) = loaded.problems
    assert words in str(problem)
    assert problem.file == str(tmp_path / "config.yaml")
    assert problem.hint
    if name != "a second document":
        assert loaded.settings.logging.level == "ERROR"


@pytest.mark.parametrize("name", CASES)
def test_what_is_wrong_counts_as_its_default(tmp_path: Path, name: str) -> None:
    written, _, _ = CASES[name]
    settings = load(tmp_path, written).settings
    plain = Settings()
    assert settings.agent.max_turns in (60, 4, 5)
    assert settings.approvals == plain.approvals
    assert settings.display == plain.display
    assert settings.routes == () and settings.allowed_users == () and settings.default_agent == "main"
    assert all(not block.allowed_users for block in settings.platforms.values())


def test_an_alias_bomb_is_one_problem_and_costs_nothing(tmp_path: Path) -> None:
    loaded = load(tmp_path, "terminal:\n  " + BOMB.replace("\n", "\n  ").rstrip() + AFTER)
    (problem,) = loaded.problems
    assert problem.line == 6 and "aliases expand" in problem.message
    assert loaded.settings.logging.level == "ERROR"


def test_aliases_that_pile_up_nesting_are_bounded(tmp_path: Path) -> None:
    pile = ["telegram:", "  a0: &a0 " + "{x: " * 28 + "1" + "}" * 28]
    pile += [f"  a{n}: &a{n} " + "{x: " * 28 + f"*a{n - 1}" + "}" * 28 for n in range(1, 40)]
    loaded = load(tmp_path, "\n".join(pile) + AFTER)
    assert loaded.problems[0].line == 3 and "deeper than" in loaded.problems[0].message
    assert loaded.settings.logging.level == "ERROR"


@pytest.mark.parametrize(
    ("env", "line", "words"),
    [
        ("FOO=1\nnot a line\n", 2, "NAME=value"),
        ("FOO='open\nBAR=1\n", 1, "never closed"),
        ('\nFOO="a" b\n', 2, "closing quote"),
        ("1FOO=2\n", 1, "NAME=value"),
        ("HERMES_MAX_ITERATIONS=zero\n", 1, "HERMES_MAX_ITERATIONS must be"),
        ("# x\nOPENAI_API_KEY=your-key-here\n", 2, "placeholder"),
        ("FOO=a\x00b\n", 1, "control character"),
    ],
)
def test_mistakes_in_the_secrets_file(tmp_path: Path, env: str, line: int, words: str) -> None:
    loaded = load(tmp_path, "model: gpt\n", env + "HERMES_TIMEZONE=UTC\n")
    (problem,) = loaded.problems
    assert (problem.file, problem.line) == (str(tmp_path / ".env"), line)
    assert words in str(problem)
    assert loaded.settings.timezone == "UTC" and loaded.settings.model.default == "gpt"


def test_a_wrong_variable_is_told_by_its_name(tmp_path: Path) -> None:
    loaded = load(tmp_path, "agent: {max_turns: 5}\n", HERMES_GATEWAY_BUSY_INPUT_MODE="stear")
    (problem,) = loaded.problems
    assert str(problem).startswith("environment: HERMES_GATEWAY_BUSY_INPUT_MODE must be one of")
    assert "Did you mean “steer”?" in str(problem)


@pytest.mark.parametrize("name", ["config.yaml", ".env"])
def test_a_folder_or_a_pipe_in_place_of_a_file(tmp_path: Path, name: str) -> None:
    import os

    (tmp_path / name).mkdir()
    (problem,) = load_settings(tmp_path, {}).problems
    assert "a folder" in problem.message and problem.file.endswith(name)
    (tmp_path / name).rmdir()
    os.mkfifo(tmp_path / name)
    (problem,) = load_settings(tmp_path, {}).problems
    assert "regular file" in problem.message


def test_files_that_cannot_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "config.yaml").symlink_to(tmp_path / "gone")
    assert "leads nowhere" in load_settings(tmp_path, {}).problems[0].message
    (tmp_path / "config.yaml").unlink()
    (tmp_path / "config.yaml").write_text("model: x\n" * 100_000)
    assert "larger than" in load_settings(tmp_path, {}).problems[0].message
    (tmp_path / "config.yaml").write_bytes("model: x\n".encode("utf-16"))
    assert "UTF-16" in load_settings(tmp_path, {}).problems[0].message
    (tmp_path / "config.yaml").write_text("model: x\n")

    def refuse(*_: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "open", refuse)
    (problem,) = load_settings(tmp_path, {}).problems
    assert "Permission denied" in problem.message and "chmod" in problem.hint


def test_several_broken_blocks_are_several_problems_and_the_rest_counts(tmp_path: Path) -> None:
    text = 'model: "x\nagent:\n  max_turns: 7\ndisplay: {a\ntimezone: UTC\ntelegram:\n\tenabled: true\n'
    loaded = load(tmp_path, text)
    assert [problem.line for problem in loaded.problems] == [1, 4, 7]
    assert loaded.settings.agent.max_turns == 7 and loaded.settings.timezone == "UTC"


def test_a_problem_never_shows_what_a_variable_holds(tmp_path: Path) -> None:
    secret = "sk-very-secret-value"
    loaded = load(tmp_path, "agent: {max_turns: '${OPENAI_API_KEY}'}\n", f"OPENAI_API_KEY={secret}\n")
    assert loaded.problems and secret not in "".join(map(str, loaded.problems))


def test_no_flood(tmp_path: Path) -> None:
    assert len(load(tmp_path, "".join(f"zz{n}: 1\n" for n in range(5000))).problems) == 100
