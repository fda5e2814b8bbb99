"""Secrets are found by name and never shown."""

from __future__ import annotations

import base64
import io
import logging
import pickle
import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hermes.domain.settings.declaring import Secret
from hermes.state.home.findings import SettingsFindings
from hermes.state.home.textfile import TextFile
from hermes.state.settings.dotenv import parse_dotenv
from hermes.state.settings.loader import load_settings
from hermes.state.settings.secrets import RedactingFilter, Secrets


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
    assert secrets.redact("secret-longer secret short unnamed-value") == "‹secret› ‹secret› short ‹secret›"
    assert secrets.redact("x?k=a%2Bb%2Fc%20d%3D%C3%A9&y") == "x?k=‹secret›&y"
    assert secrets.redact('{"k": "a+b/c d=\\u00e9"}') == '{"k": "‹secret›"}'
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
    assert "very-secret" not in shown and shown.count("‹secret›") >= 7
    assert "with ‹secret› and 5" in shown and "ValueError: ‹secret›" in shown and "Traceback" in shown


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
        assert loaded.secrets.redact(f"x{value}y") == "x‹secret›y"
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
    found = SettingsFindings("")
    entries = parse_dotenv(TextFile(text=f"# first\n{line}\nLAST=1\n"), found)
    assert [(entry.name, entry.value) for entry in entries] == [("A", value), ("LAST", "1")]
    assert not found.problems and entries[0].first == 2


def test_importing_the_loader_is_cheap() -> None:
    code = (
        "import sys, hermes.state.settings.loader, hermes.state.home.homes;"
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
        assert left.startswith("‹secret›") and len(left.replace("‹secret›", "")) <= 32, left
    assert secrets.redact(f"1: {pem}") == "1: ‹secret›"
    assert secrets.redact("2: MIIEvQIBADANBgkq") == "2: ‹secret›"
    assert secrets.redact("short -----BEGIN KEY-----") == "short -----BEGIN KEY-----"


KEY = "sk-Zq7/+x?>~é-0123456789abcdefXYZ"


@pytest.mark.parametrize("before", ["", "A", "AB", "OPENROUTER_API_KEY="])
@pytest.mark.parametrize("width", [1000, 76, 64, 20])
@pytest.mark.parametrize("encode", [base64.b64encode, base64.urlsafe_b64encode])
def test_base64_hides_no_value_wherever_it_begins_and_lines_end(
    before: str, width: int, encode: Callable[[bytes], bytes]
) -> None:
    told = encode(f"{before}{KEY}\nmore".encode()).decode()
    for between in ("\n", "\r\n", "\n    "):
        left = Secrets({"KEY": KEY}).redact(between.join(textwrap.wrap(told, width)))
        kept = len("".join(left.replace("‹secret›", "").split()))
        # At either end a digit may belong to the key and to what stands beside it.
        assert left.count("‹secret›") == 1 and kept <= len(told) - (len(KEY.encode()) * 8 // 6 - 2), left


@pytest.mark.parametrize("between", ["", " ", ":", ", ", "\n", " \n "])
@pytest.mark.parametrize("group", [1, 2, 4])
def test_hexadecimal_hides_no_value_between_separators(between: str, group: int) -> None:
    data = KEY.encode()
    told = between.join(data[place : place + group].hex() for place in range(0, len(data), group))
    assert Secrets({"KEY": KEY}).redact(f"is {told} so") == "is ‹secret› so"
    assert Secrets({"KEY": KEY}).redact(f"is {told.upper()} so") == "is ‹secret› so"


@pytest.mark.parametrize("lead", ["0x", "\\x"])
def test_bytes_as_programs_write_them_are_taken_out(lead: str) -> None:
    told = "".join(f"{lead}{byte:02x}" for byte in KEY.encode())
    assert Secrets({"KEY": KEY}).redact(told).removeprefix(lead) == "‹secret›"


def _dump(data: bytes, *, group: int, middle: str, frame: str) -> str:
    lines = []
    for place in range(0, len(data), 16):
        row = data[place : place + 16]
        words = [row[at : at + group].hex() for at in range(0, len(row), group)]
        half = 8 // group
        told = f"{' '.join(words[:half])}{middle}{' '.join(words[half:])}".ljust(49)
        shown = "".join(chr(byte) if 32 <= byte < 127 else "." for byte in row)
        lines.append(f"{place:08x}{':' if not frame else ' '} {told} {frame}{shown}{frame}")
    return "\n".join(lines)


@pytest.mark.parametrize("before", range(0, 40, 7))
@pytest.mark.parametrize(("group", "middle", "frame"), [(2, " ", ""), (1, " ", ""), (1, "  ", "|")])
def test_the_lines_of_a_dump_that_hold_a_value_are_taken_out(
    before: int, group: int, middle: str, frame: str
) -> None:
    data = b"." * before + KEY.encode() + b"." * 40
    told = _dump(data, group=group, middle=middle, frame=frame).splitlines()
    left = Secrets({"KEY": KEY}).redact("$ xxd key\n" + "\n".join(told) + "\nover").splitlines()
    assert left[0] == "$ xxd key" and left[-1] == "over"
    first, last = before // 16, (before + len(KEY.encode()) - 1) // 16
    holding, others = told[first : last + 1], [*told[:first], *told[last + 1 :]]
    hidden = [line for line in left[1:-1] if "‹secret›" in line]
    assert [line for line in left[1:-1] if line not in hidden] == others
    # Lines that belong together may become one.
    assert hidden and all(line.split() == [line.split()[0], "‹secret›"] for line in hidden)
    assert hidden[0].split()[0] == holding[0].split()[0]


def test_what_only_looks_encoded_stays() -> None:
    secrets = Secrets({"KEY": KEY})
    for told in ("c2stWnE3 is short", "00000000: 736b 2d5a 7137 2f2b", "deadbeef " * 50, "x" * 500):
        assert secrets.redact(told) == told


ORDINARY = [
    "postgres", "password", "Password", "guestuser", "my-app", "admin123", "123456", "2026-11-18", "8080:80",
    "/home/alice/.ssh/id_rsa", "/run/secrets/db", "true", "production", "none", "test-key", "POSTGRES",
]  # fmt: skip
TELLING = [
    "hunter2x9", "correct horse battery staple", "xkqzvbtw", "sk-0123456789", "aaaabbbb1c", "Tr0ub4dor&3",
    "123456789012", "/wJalrXUtnFEMIbK7MDENGbPxRfiCYzEXAMPLEKEY", "kiwi-42-marmalade", "a3f9c2d",
]  # fmt: skip


@pytest.mark.parametrize("value", ORDINARY)
def test_words_numbers_and_paths_of_the_environment_are_not_hidden(tmp_path: Path, value: str) -> None:
    loaded = load_settings(tmp_path, {"POSTGRES_PASSWORD": value, "DB_URL": f"pg://app:{value}@db/main"})
    text = f"make the folder {value} here"
    assert loaded.secrets.redact(text) == text and loaded.secrets.reveal("POSTGRES_PASSWORD") == value


@pytest.mark.parametrize("value", TELLING)
def test_what_nobody_writes_by_chance_is_hidden(tmp_path: Path, value: str) -> None:
    loaded = load_settings(tmp_path, {"DB_PASSWORD": value})
    assert loaded.secrets.conceal(f"it is {value} so") == "it is ‹secret› so"


def test_what_another_variable_says_openly_is_not_hidden(tmp_path: Path) -> None:
    loaded = load_settings(tmp_path, {"USER": "zxqvkw77", "DB_PASSWORD": "zxqvkw77"})
    assert loaded.secrets.redact("/home/zxqvkw77") == "/home/zxqvkw77"


def test_of_weak_secrets_a_note_tells_and_those_of_settings_stay_hidden(tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text("model: {api_key: marmalade}\n")
    loaded = load_settings(tmp_path, {"POSTGRES_PASSWORD": "postgres", "SSL_KEY": "/etc/ssl/a.key"})
    told = [str(note) for note in loaded.weak]
    assert len(told) == 2 and "POSTGRES_PASSWORD is an ordinary word" in told[0]
    assert "model.api_key is an ordinary word" in told[1] and set(loaded.weak) <= set(loaded.notes)
    assert loaded.secrets.redact("marmalade and postgres") == "‹secret› and postgres"
    (tmp_path / "config.yaml").write_text("model: {api_key: ollama}\n")
    loaded = load_settings(tmp_path, {})
    assert not loaded.weak and loaded.secrets.redact("ollama run") == "ollama run"
