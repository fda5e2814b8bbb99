"""Keys that people think up count little; keys that a program makes always pass."""

from __future__ import annotations

import base64
import random
import string
import uuid

import pytest

from hermes.entry.http.site.admission import is_loopback
from hermes.entry.http.site.key_strength import WIDE_BITS, bits_of, is_guessable

GUESSABLE = (
    *("a" * 16, "a" * 64, "passwordpassword", "1234567890123456", "changemechangeme", "abcdefghijklmnop"),
    *("abababababababab", "aaaaaaaabbbbbbbb", "qwertyuiopasdfghjkl", "my-secret-api-key", "abc" * 10),
    *("PasswordPassword1", "0000000000000001", "9876543210987654", "adminadminadmin1", "short", ""),
    *("API_SERVER_KEY_SECRET", "test-key-test-key", "correcthorsebatterystaple", "zyxwvutsrqponmlkji"),
    *(
        "hermes-api-key-2024",
        "changeme12345678",
        "password12345678",
        "Password83920174",
        "admin-20261116-2026",
    ),
    *("changeme1234567890abc", "secret-87654321-123"),
)


@pytest.mark.parametrize("key", GUESSABLE)
def test_what_can_be_guessed(key: str) -> None:
    assert is_guessable(key)


THOUGHT_UP = (
    "a key that nobody guesses",
    "another long secret 1",
    "my dog ate 3 green umbrellas on a monday",
)


@pytest.mark.parametrize("key", THOUGHT_UP)
def test_a_sentence_will_do_on_this_machine_alone(key: str) -> None:
    assert not is_guessable(key) and bits_of(key) < WIDE_BITS


@pytest.mark.parametrize(
    "key",
    [
        "Summer2024Holiday!Summer",
        "4829103746582910",
        "Xk29",
        "lowercaseonlywithoutanydigits",
        "dead" * 6 + "be",
        "P@ssw0rdP@ssw0rd1",
        "p4$$w0rd-Adm1n-S3rver-T0ken-2024",
        "MyDogRexIsGood123456",
        "ILoveMyWifeAnna1985-06-01",
        "ILoveMyWifeAnnaAndMyDogRex01.06.1985",
        "2026-11-16T18:00:00Z2026",
        "1985060119870212199003041992",
        "xK9#mQ2vxK9#mQ2vxK9#mQ2w",
        "Zr8abcdefgh12345678987654321",
    ],
)
def test_what_is_too_little_for_others_to_reach(key: str) -> None:
    assert is_guessable(key) or bits_of(key) < WIDE_BITS


def test_a_row_behind_a_word_of_ones_own_will_do_on_this_machine() -> None:
    assert not is_guessable("bench-key-0123456789abcdef")


def _url_safe(dice: random.Random, size: int) -> str:
    return base64.urlsafe_b64encode(dice.randbytes(size)).rstrip(b"=").decode()


def test_made_keys_pass() -> None:
    """The same ones each time: one of some 60,000 has many a word in it by chance, and is refused."""
    letters = string.ascii_letters + string.digits
    dice = random.Random("keys that a program made")
    for _ in range(500):
        made = (
            _url_safe(dice, 32),
            dice.randbytes(16).hex(),
            dice.randbytes(32).hex().upper(),
            str(uuid.UUID(bytes=dice.randbytes(16), version=4)),
            _url_safe(dice, 24),
            "sk-" + "".join(dice.choice(letters) for _ in range(32)),
        )
        assert not [key for key in made if is_guessable(key) or bits_of(key) < WIDE_BITS]


@pytest.mark.parametrize("host", ["127.0.0.1", "127.0.0.3", "::1", "localhost", "LOCALHOST"])
def test_loopback(host: str) -> None:
    assert is_loopback(host)


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.1", "example.org", "", "127.0.0.1.example"])
def test_all_else_is_wide(host: str) -> None:
    assert not is_loopback(host)
