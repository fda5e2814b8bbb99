"""What looks like a secret is taken out, what only reminds of one stays; pieces tell no more than a whole."""

from __future__ import annotations

import base64
import json
import random
import re
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from html import escape
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hermes.state.redaction.patterns import pattern_spans
from hermes.state.redaction.redactor import Redactor
from hermes.state.redaction.values import LoadedValues
from hermes.state.settings.secrets import Secrets
from tests.secret_corpus import LOOKING_ALIKE, foreign_secrets, harmless_lines, loaded_secrets

FOREIGN = Secrets(patterns=True)


def shows(secret: str, text: str, size: int) -> bool:
    """Whether a text still has so many characters of a secret in a row; rulers are none."""
    parts = [line for line in secret.splitlines() if "-----" not in line]
    return any(part[at : at + size] in text for part in parts for at in range(len(part) - size + 1))


def test_keys_of_vendors_and_named_values_are_masked(full: bool) -> None:
    cases = list(foreign_secrets(40 if full else 4))
    shown = [line for secret, line in cases if shows(secret, FOREIGN.redact(line), min(len(secret), 21))]
    assert len(cases) >= 300 and len(shown) <= len(cases) * 0.02, shown


def test_harmless_lines_stay_as_they_are(full: bool) -> None:
    lines = harmless_lines(2500 if full else 500)
    changed = [line for line in lines if FOREIGN.redact(line) != line]
    assert len(changed) <= len(lines) * 0.01, changed


@pytest.mark.parametrize(
    "line",
    [
        "token = read_token(path)",
        "password = getpass.getpass()",
        "if key == api_key: return",
        "api_key=os.environ['OPENAI_API_KEY']",
        "apiKey: process.env.HERMES_KEY,",
        "password: ${DB_PASSWORD}",
        "secret_key=<your key here>",
        "max_tokens=4096 total_tokens: 123456",
        "The password is wrong. The token is missing.",
        'type="password" name="password"',
        "Authorization: Bearer ***",
        "https://example.org:8443/path@v2?key=name",
        "class TokenStream(Protocol): key: str",
        "sk-something-that-was-named-by-a-person",
        "see /etc/passwd: it is a file",
    ],
)
def test_code_and_words_about_secrets_stay(line: str) -> None:
    assert FOREIGN.redact(line) == line


@pytest.mark.parametrize("line", LOOKING_ALIKE)
def test_what_only_looks_alike_stays(line: str) -> None:
    assert FOREIGN.redact(line) == line
    assert shown(FOREIGN, *line) == line


def test_short_names_tell_of_passwords_where_they_are_words() -> None:
    for line in (
        "pass: hunter2x",
        "--pass test1234",
        "DB_PASS=kiwi42",
        "dbPass: kiwi42",
        "smtp-pass: kiwi42",
    ):
        assert "‹secret›" in FOREIGN.redact(line), line
    told = FOREIGN.redact("AWS_SECRET_ACCESS_KEY=/wJalrXUt1FEMI/K7MDENG/bPxRfiCYz")
    assert told == "AWS_SECRET_ACCESS_KEY=‹secret›", "a key is no path"


def test_what_stands_around_a_secret_stays_readable() -> None:
    redact = FOREIGN.redact
    assert redact("Authorization: Bearer abc123DEF456ghi789") == "Authorization: Bearer ‹secret›"
    assert redact("postgres://app:hunter2@db/main") == "postgres://app:‹secret›@db/main"
    assert redact('{"password": "hunter2!", "user": "ann"}') == '{"password": "‹secret›", "user": "ann"}'
    assert redact("DB_PASSWORD=swordfish1 ./run") == "DB_PASSWORD=‹secret› ./run"
    assert redact("mysql --password hunter22 -u app") == "mysql --password ‹secret› -u app"


def test_the_setting_governs_patterns_alone() -> None:
    secrets = Secrets({"KEY": "loaded-value-1"}, patterns=False)
    line = "password=hunter2 and loaded-value-1"
    assert secrets.redact(line) == "password=hunter2 and ‹secret›"
    secrets.follow(FOREIGN)
    assert secrets.redact(line) == "password=‹secret› and ‹secret›"
    assert secrets.conceal(line) == "password=hunter2 and ‹secret›"


@given(st.text(alphabet="akeyps=:/.@-_ \"'\n0A<", max_size=300))
def test_patterns_end_on_any_text(text: str) -> None:
    for start, end in pattern_spans(text):
        assert 0 <= start < end <= len(text)


REPEATED = ["a", "a_", "pass", "token=", "://", "-----BEGIN ", "eyJ", "key-", "Aa1", "key=",
            "cookie:=abcdefgh", "authorization:aaaa", "password=", "-"]  # fmt: skip


@pytest.mark.parametrize("sign", REPEATED)
def test_patterns_take_no_long_time_for_a_text_that_repeats_itself(sign: str) -> None:
    text = sign * (40_000 // len(sign))
    FOREIGN.redact(text)
    FOREIGN.stream().take(text)


@pytest.mark.parametrize("sign", ["Aa1+", "-", "-----BEGIN PRIVATE KEY-----\na b ", "key="])
def test_small_pieces_are_read_a_few_times_only(sign: str, monkeypatch: pytest.MonkeyPatch) -> None:
    read, whole = list[int](), sign * (40_000 // len(sign))
    spans = Redactor.spans

    def counting(self: Redactor, text: str) -> list[tuple[int, int]]:
        read.append(len(text))
        return spans(self, text)

    monkeypatch.setattr(Redactor, "spans", counting)
    shown(FOREIGN, *(whole[at : at + 4] for at in range(0, len(whole), 4)))
    assert sum(read) < 60 * len(whole)


# --- loaded values ---


def _is_long(value: str) -> bool:
    return len(value) > 24 and "\n" not in value


FORMS: dict[str, Callable[[str], str]] = {
    "as it is": str,
    "in an address": lambda value: quote(value, safe=""),
    "in JSON": lambda value: json.dumps(value)[1:-1],
    "in JSON as it is": lambda value: json.dumps(value, ensure_ascii=False)[1:-1],
    "in HTML": escape,
    "in base64": lambda value: base64.b64encode(f"x{value}y".encode()).decode(),
    "in hexadecimal": lambda value: value.encode().hex().upper(),
    "over lines": lambda value: re.sub("(.{20})", r"\1\n", value) if _is_long(value) else value,
    "with hidden signs": lambda value: "\u200b".join(value) if _is_long(value) else value,
}


@pytest.mark.parametrize("form", FORMS)
def test_loaded_values_are_masked_in_every_form(form: str) -> None:
    values = loaded_secrets(200)
    secrets = Secrets(values)
    for value in values.values():
        told = FORMS[form](value)
        left = secrets.redact(f"It is {told} indeed.")
        assert left.startswith("It is") and left.endswith("indeed.")
        assert not shows(told, left, 6), (value, left)


def test_a_text_that_was_harmless_before_is_looked_at_again() -> None:
    secrets = Secrets(patterns=False)
    secrets.learn("first-loaded-value")
    line = "the word is kiwi-42-marmalade, twice"
    assert secrets.conceal(line) == line == secrets.conceal(line)
    secrets.learn("kiwi-42-marmalade")
    assert secrets.conceal(line) == "the word is ‹secret›, twice"


def test_values_that_were_learnt_later_are_masked_too() -> None:
    secrets, later = Secrets({"A": "first-value"}), Secrets({"B": "second-value"})
    secrets.learn("third-value")
    later.join(secrets)
    secrets.learn("fourth-value")
    for both in (secrets, later):
        assert both.redact("first-value second-value third-value fourth-value") == " ".join(["‹secret›"] * 4)


def test_what_is_hidden_stays_hidden_though_a_value_were_part_of_the_stand_in() -> None:
    secrets = Secrets({"A": "secret"})
    told = secrets.redact("a secret here")
    assert told == "a ‹secret› here" == secrets.redact(told)


# --- in pieces ---

SPLIT = {
    "KEY": "sk-live-0c91f3d2b7-nobody-guesses",
    "WORD": "hunter22",
    "PHRASE": "correct horse battery",
    "ODD": "p@ss/w0rd&x<y>é",
}
LINES = ["It is {} so.", "{}", "KEY={}&more", '{{"a": "{}"}}', "first\n{}\nlast words of it"]


@pytest.mark.parametrize("value", SPLIT.values(), ids=SPLIT)
@pytest.mark.parametrize("form", ["as it is", "in an address", "in JSON", "in hexadecimal"])
def test_a_value_that_comes_in_pieces_is_masked_wherever_it_is_split(value: str, form: str) -> None:
    secrets = Secrets(SPLIT, patterns=True)
    told = FORMS[form](value)
    for line in LINES:
        text = line.format(told)
        for first in range(len(text) + 1):
            for second in {first, min(first + 1, len(text)), min(first + 5, len(text))}:
                pieces = (text[:first], text[first:second], text[second:])
                assert not shows(told, shown(secrets, *pieces), 5), pieces
        assert not shows(told, shown(secrets, *text), 5)


def test_foreign_secrets_that_come_in_pieces_are_masked(full: bool) -> None:
    rng = random.Random(7)
    cases = list(foreign_secrets(8 if full else 1))
    for secret, line in cases:
        text = f"Here: {line} and so on."
        for size in (1, 3, rng.randrange(4, 40)):
            told = shown(FOREIGN, *(text[at : at + size] for at in range(0, len(text), size)))
            assert not shows(secret, told, 21), (text, told)


@given(st.lists(st.text(max_size=30), max_size=20))
def test_pieces_without_secrets_come_through_whole(pieces: list[str]) -> None:
    assert shown(Secrets(SPLIT), *pieces) == Secrets(SPLIT).redact("".join(pieces))


def test_ordinary_words_are_not_held_back() -> None:
    stream = Secrets(SPLIT, patterns=True).stream()
    for piece in (
        "Hello",
        " there",
        ",",
        " the",
        " answer",
        " is",
        " forty",
        ".",
        "\n\nNext",
        " line",
    ):
        assert stream.take(piece) == piece
    assert stream.take(" sk-live") == " " and stream.take(" words") == "sk-live words"
    assert stream.close() == ""


TEXTS = {
    "Chinese": "人工智能是计算机科学的一个分支，它企图了解智能的实质，并生产出一种新的智能机器。"
    "该领域的研究包括机器人、语言识别。key: 这是一个很长的句子没有空格",
    "Thai": "ปัญญาประดิษฐ์คือความฉลาดเทียมที่สร้างขึ้นให้กับสิ่งที่ไม่มีชีวิต" * 3,
    "Japanese": "人工知能とは、計算という概念とコンピュータという道具を用いて知能を研究する計算機科学" * 3,
    "Korean": "인공지능은인간의학습능력추론능력지각능력을인공적으로구현하려는컴퓨터과학의세부분야" * 3,
}


@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS)
def test_scripts_without_spaces_are_not_held_back(text: str) -> None:
    stream, told = Secrets(SPLIT, patterns=True).stream(), 0
    for at in range(0, len(text), 2):
        told += len(stream.take(text[at : at + 2]))
        assert at + 2 - told <= 4


@pytest.mark.parametrize("value", ["hunter2", "sk-proj-AbCdEf1234567890abcdEFGH"])
@pytest.mark.parametrize("size", [1, 2, 3, 5])
def test_pieces_show_nothing_of_a_word_that_is_a_value_and_hide_it_once(value: str, size: int) -> None:
    text = f"say {value} now, {value}"
    pieces = (text[at : at + size] for at in range(0, len(text), size))
    assert shown(Secrets({"KEY": value}, patterns=True), *pieces) == "say ‹secret› now, ‹secret›"


@pytest.mark.parametrize("size", [1, 2, 3])
@pytest.mark.parametrize("before", ["It is ", "It is:"])
def test_pieces_show_no_first_letters_of_an_encoded_value(before: str, size: int) -> None:
    value = "Zq9/w+Lk 77&xTuvbN0p"
    data = value.encode()
    for encoded in (data.hex(), data.hex().upper(), base64.b64encode(data).decode(), quote(value, safe="")):
        text = f"{before}{encoded} now"
        pieces = (text[at : at + size] for at in range(0, len(text), size))
        assert shown(Secrets({"KEY": value}), *pieces).startswith(f"{before}‹secret›"), encoded


def test_values_are_learnt_in_many_threads_and_none_is_lost() -> None:
    values, names = LoadedValues(), [f"value-number-{number}" for number in range(400)]
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        with ThreadPoolExecutor(4) as pool:
            list(pool.map(lambda name: values.learn([name]), names))
    finally:
        sys.setswitchinterval(interval)
    assert values.count == 400 and all(values.spans(f"it is {name}.") for name in names)


def shown(secrets: Secrets, *pieces: str) -> str:
    stream = secrets.stream()
    return "".join([*map(stream.take, pieces), stream.close()])


BROKEN = "q7Rk2vXw9ZtB4nLm8PsD3fGh6JyC1aEu"
CODED = base64.b64encode(BROKEN.encode()).decode()
HEXED = BROKEN.encode().hex()
DUMP = "\n".join(
    f"{at:08x}  {BROKEN.encode()[at : at + 16].hex(' ')}  |{BROKEN[at : at + 16]}|" for at in (0, 16)
)
SHIFTED = f"{0:08x}  {b'the key is here'.hex(' ')} {HEXED[:2]}  |the key is here{BROKEN[0]}|\n" + "\n".join(
    f"{at + 16:08x}  {BROKEN.encode()[at + 1 : at + 17].hex(' ')}  |{BROKEN[at + 1 : at + 17]}|"
    for at in (0, 16)
)
APART = {
    "hex with blanks": BROKEN.encode().hex(" "),
    "hex with dashes": BROKEN.encode().hex("-"),
    "C": ", ".join(f"0x{byte:02x}" for byte in BROKEN.encode()),
    "hexdump": DUMP,
    "hexdump from its last byte on": SHIFTED,
    "lines": "\n".join(BROKEN[at : at + 8] for at in range(0, 32, 8)),
    "base64 in lines": "\n".join(CODED[at : at + 12] for at in range(0, 44, 12)),
    "invisible": "\u200b".join(BROKEN),
    "wide": "     ".join(BROKEN),
}


@pytest.mark.parametrize("form", APART)
@pytest.mark.parametrize("size", [1, 2, 3, 7, 40, 300])
@pytest.mark.parametrize("patterns", [False, True])
def test_a_value_that_is_broken_up_is_hidden_word_by_word_too(form: str, size: int, patterns: bool) -> None:
    secrets = Secrets({"KEY": BROKEN}, patterns=patterns)
    text = f"It is, as you asked:\n{APART[form]}\nDone."
    stream = secrets.stream()
    shown = "".join(stream.take(text[at : at + size]) for at in range(0, len(text), size)) + stream.close()
    assert shown.startswith("It is, as you asked:\n") and shown.endswith("Done.")
    kept = re.sub(r"0x|[^!-~]|[-,]", "", shown)
    for whole, most in ((BROKEN, 4), (CODED, 5), (HEXED, 8)):
        assert not [at for at in range(len(whole) - most) if whole[at : at + most] in kept]
