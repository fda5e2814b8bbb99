"""Whatever stands in the files, loading them never raises. `HERMES_TEST_SCALE=full` tries much more."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hermes.state.home.findings import SettingsFindings
from hermes.state.home.textfile import TextFile
from hermes.state.settings.dotenv import parse_dotenv, spell_value, with_variable
from hermes.state.settings.loader import LoadedSettings, load_settings

EXAMPLES = 20_000 if os.environ.get("HERMES_TEST_SCALE") == "full" else 200
many = settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck))

WORDS = """model default provider base_url api_key agent max_turns agents routes match platform chat_id kind
    telegram enabled allowed_users home_channel token extra gateway platforms streaming display timezone
    busy_input_mode default_agent approvals mode timeout terminal work main zzz <<"""
NAMES = st.sampled_from(WORDS.split())
PIECES = """true no 0 -1 1.5 .nan ~ null "x 'y [ ] { } - & * &a *a !!int !x | > % @ ` ? : # , ${A} ${B} $${A}
    off queue telegram work ../.. 1e999 "\\x00" "\\ud800" {} []"""
LEAVES = st.one_of(st.sampled_from(PIECES.split()), st.text(max_size=8), st.integers().map(str))
LINES = st.builds(
    lambda indent, name, separator, leaf: " " * indent + name + separator + leaf,
    st.integers(0, 6),
    NAMES,
    st.sampled_from([": ", ":", " : ", ":\n    ", ": &a ", ": [", ": {", ":\t"]),
    LEAVES,
)
ITEMS = st.builds(lambda indent, leaf: " " * indent + "- " + leaf, st.integers(0, 6), LEAVES)
YAMLISH = st.lists(st.one_of(LINES, LINES, ITEMS, LEAVES, st.just("---")), max_size=12).map("\n".join)
ENVISH = st.lists(
    st.one_of(
        st.text(max_size=20),
        st.builds(
            lambda name, leaf: f"{name}={leaf}", st.sampled_from(["A", "HERMES_MODEL", "export B"]), LEAVES
        ),
    ),
    max_size=6,
).map("\n".join)


def load(config: bytes, env: bytes, environ: dict[str, str]) -> LoadedSettings:
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        (home / "config.yaml").write_bytes(config)
        (home / ".env").write_bytes(env)
        loaded = load_settings(home, environ)
    lines = config.replace(b"\r\n", b"\n").replace(b"\r", b"\n").count(b"\n") + 1
    for problem in loaded.problems:
        assert str(problem) and problem.hint
        if problem.file.endswith("config.yaml"):
            assert problem.line is None or 1 <= problem.line <= lines + 1
    repr(loaded)
    return loaded


@many
@given(st.binary(max_size=200), st.binary(max_size=60))
def test_any_bytes(config: bytes, env: bytes) -> None:
    load(config, env, {})


@many
@given(
    YAMLISH, ENVISH, st.dictionaries(st.sampled_from(["A", "HERMES_TIMEZONE", "OPENAI_BASE_URL"]), st.text())
)
def test_any_yaml_like_text(config: str, env: str, environ: dict[str, str]) -> None:
    load(config.encode("utf-8", "surrogatepass"), env.encode("utf-8", "surrogatepass"), environ)


@many
@given(st.text(max_size=200))
def test_any_text(config: str) -> None:
    load(config.encode("utf-8", "surrogatepass"), config.encode("utf-8", "surrogatepass"), {})


@many
@given(st.text(st.characters(codec="utf-8", exclude_characters="\0")), ENVISH)
def test_a_variable_is_read_back_as_it_was_written(value: str, env: str) -> None:
    assert "\n" not in spell_value(value)
    text = with_variable(env, "MY_NAME", value)
    entries = parse_dotenv(TextFile(text=text), SettingsFindings(""))
    before = parse_dotenv(TextFile(text=env), SettingsFindings(""))
    read = {entry.name: entry.value for entry in entries}
    if not any(quote in env for quote in "'\""):
        assert read == {entry.name: entry.value for entry in before} | {"MY_NAME": value}
