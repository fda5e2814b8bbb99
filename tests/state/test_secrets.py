"""Secrets are found by name and never shown."""

from __future__ import annotations

import base64
import io
import logging
import pickle
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hermes.domain.settings import Secret
from hermes.state.dotenv import parse_dotenv
from hermes.state.findings import Findings
from hermes.state.secrets import RedactingFilter, Secrets
from hermes.state.settings import load_settings
from hermes.state.textfile import TextFile


def test_found_by_name_and_shown_as_stars() -> None:
    secrets = Secrets({"B_KEY": "bbbbbbbb", "A_KEY": "aaaaaaaa", "EMPTY_KEY": ""})
    assert secrets.names == ("A_KEY", "B_KEY") and "A_KEY" in secrets and "EMPTY_KEY" not in secrets
    assert secrets.reveal("A_KEY") == "aaaaaaaa" and secrets.reveal("NONE") == ""
    assert secrets.get("NONE") is None and str(secrets.get("A_KEY")) == "***"
    assert repr(secrets) == str(secrets) == "Secrets(A_KEY, B_KEY)"
    with pytest.raises(TypeError):
        pickle.dumps(Secret("x"))


def test_redaction() -> None:
    secrets = Secrets(
        {"A": "secret", "B": "secret-longer", "C": "short", "D": "a+b/c d=é"}, also=["unnamed-value"]
    )
    assert secrets.redact("secret-longer secret short unnamed-value") == "*** *** short ***"
    assert secrets.redact("x?k=a%2Bb%2Fc%20d%3D%C3%A9&y") == "x?k=***&y"
    assert secrets.redact('{"k": "a+b/c d=\\u00e9"}') == '{"k": "***"}'
    assert secrets.redact("") == "" and Secrets().redact("anything") == "anything"


@given(st.dictionaries(st.text(), st.text(min_size=6), max_size=5), st.lists(st.text(), max_size=4))
def test_no_value_is_left_in_any_text(values: dict[str, str], around: list[str]) -> None:
    secrets = Secrets(values)
    for value in values.values():
        redacted = secrets.redact(" / ".join([*around, value]))
        # What remains may hold a value only where the stars themselves make it up.
        assert value not in redacted or set(value) <= set("*/ ")


def test_log_records_are_redacted_with_arguments_and_exceptions() -> None:
    stream = io.StringIO()
    handler = logging.StreamHandler(stream)
    handler.setFormatter(logging.Formatter("%(message)s %(place)s", defaults={"place": "-"}))
    handler.addFilter(RedactingFilter(Secrets({"A_KEY": "very-secret"})))
    logger = logging.Logger("test_secrets")
    logger.addHandler(handler)
    logger.info("plain very-secret")
    logger.info("with %s and %d", "very-secret", 5)
    logger.info({"a": "very-secret"})
    logger.info("wrong %d %s", "very-secret")  # noqa: PLE1206
    logger.info("in a mapping %(key)s", {"key": "very-secret"})
    logger.info("elsewhere", extra={"place": "very-secret"}, stack_info=True)
    try:
        raise ValueError("very-secret")
    except ValueError:
        logger.exception("failed")
    shown = stream.getvalue()
    assert "very-secret" not in shown and shown.count("***") >= 7
    assert "with *** and 5" in shown and "ValueError: ***" in shown and "Traceback" in shown


def test_no_secret_in_what_is_printed_of_loaded_settings(tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text(
        "model: {api_key: yaml-secret-1}\nslack: {app_token: yaml-secret-2, url: 'https://me:yaml-secret-3@h'}\n"
        "discord: {extra: {nested: {token: yaml-secret-4}}}\n"
    )
    (tmp_path / ".env").write_text(
        "FAL_KEY=file-secret-1\nA_TOKEN=file-secret-2\nDB_URL=pg://u:file-secret-3@h/d\n"
    )
    environ = {"A_TOKEN": "environ-secret-1", "PROXY": "http://u:environ-secret-2@h", "HARMLESS": "value-1"}
    loaded = load_settings(tmp_path, environ)
    printed = f"{loaded} {loaded!r} {loaded.settings} {loaded.secrets} {loaded.problems} {loaded.notes}"
    assert "-secret-" not in printed
    assert "-secret-" not in str(loaded.variables) and loaded.variables["HARMLESS"] == "value-1"
    for value in ("yaml-secret-1", "yaml-secret-3", "yaml-secret-4", "file-secret-2", "file-secret-3",
                  "environ-secret-1", "environ-secret-2"):  # fmt: skip
        assert loaded.secrets.redact(f"x{value}y") == "x***y"
    assert loaded.secrets.reveal("A_TOKEN") == "environ-secret-1"


@pytest.mark.parametrize(
    ("line", "value"),
    [
        ("A=b", "b"),
        ("  export   A = b  ", "b"),
        ("A=", ""),
        ("A=#x", ""),
        ("A=b # remark", "b"),
        ("A=b#c", "b#c"),
        ("A=b=c==", "b=c=="),
        ("A='b # c'", "b # c"),
        ("A='b\\n'", "b\\n"),
        ('A="b\\n\\"c\\" \\$d \\q"', 'b\n"c" $d \\q'),
        ('A="b" # remark', "b"),
        ('A="b\nc"', "b\nc"),
        ("A='-----BEGIN\nx\n-----END'", "-----BEGIN\nx\n-----END"),
        ("A=${B}", "${B}"),
    ],
)
def test_lines_of_the_secrets_file(line: str, value: str) -> None:
    found = Findings("")
    entries = parse_dotenv(TextFile(text=f"# first\n{line}\nLAST=1\n"), found)
    assert [(entry.name, entry.value) for entry in entries] == [("A", value), ("LAST", "1")]
    assert not found.problems and entries[0].first == 2


def test_importing_the_loader_is_cheap() -> None:
    code = (
        "import sys, hermes.state.settings, hermes.state.profiles;"
        "print({'yaml', 'ruamel', 'difflib'} & set(sys.modules))"
    )
    environ = {"PYTHONPATH": str(Path(__file__).parents[2] / "src")}
    out = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environ
    )
    assert out.stdout.strip() == "set()"


def test_lines_and_encodings_of_a_value_are_taken_out() -> None:
    key, pem = "sk-0123456789abcdef" * 5, "-----BEGIN KEY-----\nMIIEvQIBADANBgkq\nshort\n-----END KEY-----"
    secrets = Secrets({"KEY": key, "PEM": pem})
    for told in (
        base64.b64encode(key.encode()).decode(),
        base64.encodebytes(f"{key} and more".encode()).decode(),
        base64.urlsafe_b64encode(key.encode()).decode(),
        key.encode().hex(),
        key.encode().hex().upper(),
        "\n".join(textwrap.wrap(key.encode().hex(), 60)),
    ):
        left = secrets.redact(told)
        assert left.startswith("***") and len(left.replace("***", "")) <= 32, left
    assert secrets.redact(f"1: {pem}") == "1: ***"
    assert secrets.redact("2: MIIEvQIBADANBgkq") == "2: ***"
    assert secrets.redact("short -----BEGIN KEY-----") == "short -----BEGIN KEY-----"
