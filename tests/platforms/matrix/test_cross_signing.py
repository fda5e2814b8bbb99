"""Recovery keys and what is made of them, as far as it needs no ciphers; the rest is tried on a Synapse."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from hermes.domain.errors import UserError
from hermes.entry.platforms.matrix.cross_signing import DeviceTrust, _derived, canonical, read_recovery_key
from hermes.entry.platforms.matrix.encryption import Encryption
from hermes.entry.platforms.matrix.sync import MatrixIdentity

KEY = bytes(range(32))
SPELLED = "EsSz ykH7 LCZx 7Cae cmKD wcmY JRXi Ybtu 8iQ3 t8Ez nRwK pUY1"
"""As another program spells it (tests/foreign/clients/matrix_recovery.py)."""


@pytest.mark.parametrize("text", [SPELLED, SPELLED.replace(" ", ""), f"  {SPELLED}\n"])
def test_a_recovery_key_is_read_as_element_shows_it(text: str) -> None:
    assert read_recovery_key(text) == KEY


@pytest.mark.parametrize(
    "text",
    ["", "EsTx", SPELLED[:-1], f"{SPELLED[:-1]}2", SPELLED.replace("E", "F", 1), f"{SPELLED}1", "0OIl"],
)
def test_a_slip_of_the_pen_is_noticed(text: str) -> None:
    with pytest.raises(UserError, match="MATRIX_RECOVERY_KEY is no recovery key") as error:
        read_recovery_key(text)
    assert SPELLED[5:] not in str(error.value)


def test_keys_are_derived_as_the_standard_says() -> None:
    """RFC 5869, appendix A.3."""
    cipher, seal = _derived(b"\x0b" * 22, "")
    assert cipher.hex() == "8da4e775a563c18f715f802a063c5a31b8a11f5c5ee1879ec3454e5f3c738d2d"
    assert seal.hex().startswith("9d201395faa4b61a96c8")


def test_what_is_signed() -> None:
    """The examples of the specification's appendix on canonical JSON."""
    assert canonical({"one": 1, "two": "Two"}) == b'{"one":1,"two":"Two"}'
    assert canonical({"b": "2", "a": "1"}) == b'{"a":"1","b":"2"}'
    assert canonical({"a": "日本語"}) == '{"a":"日本語"}'.encode()


@pytest.mark.parametrize(
    ("signer", "signatures", "signed"),
    [
        ("SSK", {"@a:b": {"ed25519:D": "x", "ed25519:SSK": "y"}}, True),
        ("SSK", {"@a:b": {"ed25519:D": "x"}}, False),
        ("SSK", {"@other:b": {"ed25519:SSK": "y"}}, False),
        ("", {"@a:b": {"ed25519:": "y"}}, False),
        ("SSK", None, False),
    ],
)
def test_who_vouches_for_a_device(signer: str, signatures: object, signed: bool) -> None:
    trust = DeviceTrust(key="k", device={"user_id": "@a:b", "signatures": signatures}, signer=signer)
    assert trust.signed is signed


async def test_a_wrong_recovery_key_is_told_and_leaves_encryption_on() -> None:
    device = {"keys": {"ed25519:D": "ours"}}

    class Homeserver:
        async def call(self, method: str, path: str, body: object = None) -> object:
            return {"device_keys": {"@a:b": {"D": device}}}

    account = SimpleNamespace(identity_keys={"ed25519": "ours"})
    encryption = Encryption(
        None, SimpleNamespace(olm=SimpleNamespace(account=account)), MatrixIdentity(id="@a:b", device="D")
    )
    trust = DeviceTrust(key="ours", device=device, signer="SSK")
    await encryption._vouch(Homeserver(), trust, "EsTc")  # type: ignore[arg-type]
    assert encryption.doubt.startswith("MATRIX_RECOVERY_KEY is no recovery key")
