"""Cross-signing: the account vouches for the bot's device. The account's recovery key opens its secret
storage on the homeserver (Client-Server API, “Secrets”), which holds the key that signs the account's own
devices. matrix-nio knows nothing of this; the ciphers come with it. What is opened here is not kept."""

from __future__ import annotations

import asyncio
import base64
import hmac
import json
from collections.abc import Mapping
from functools import partial
from hashlib import sha256
from importlib import import_module
from typing import Any

from msgspec import Struct

from hermes.domain.errors import Refused, Unreachable, UserError
from hermes.entry.kit.payload import as_dict, as_text, dig
from hermes.entry.platforms.matrix.api import MatrixClient, path
from hermes.entry.platforms.matrix.sync import MatrixIdentity

_SECRET = "m.cross_signing.self_signing"
_ALGORITHM = "m.secret_storage.v1.aes-hmac-sha2"
_BASE58 = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz"
_PREFIX = b"\x8b\x01"
_HINT = "Log in to Element as the bot; Settings → Encryption shows or makes a recovery key."


class DeviceTrust(Struct, frozen=True, kw_only=True):
    """What the homeserver tells others of our device."""

    key: str | None
    device: dict[str, Any]
    """The device's keys as they were signed by itself."""
    signer: str
    """The public key that signs the account's devices; empty if the account has none."""

    @property
    def signed(self) -> bool:
        """Whether the account vouches for the device."""
        return bool(self.signer) and f"ed25519:{self.signer}" in _signatures(self.device)


async def ask_trust(client: MatrixClient, me: MatrixIdentity) -> DeviceTrust:
    answer = await client.call("POST", "v3/keys/query", {"device_keys": {me.id: [me.device]}})
    device = as_dict(dig(answer, "device_keys", me.id, me.device))
    signers = as_dict(dig(answer, "self_signing_keys", me.id, "keys"))
    return DeviceTrust(
        key=as_text(dig(device, "keys", f"ed25519:{me.device}")) or None,
        device=device,
        signer=next((as_text(key) for key in signers.values()), ""),
    )


async def sign_device(client: MatrixClient, me: MatrixIdentity, ours: str, recovery: str) -> None:
    """Sign the device with the key that the secret storage holds."""
    trust = await ask_trust(client, me)
    if trust.key != ours:
        raise Unreachable("The homeserver does not know the keys of our device yet")
    sign = await open_signer(client, me, trust, recovery)
    plain = {name: trust.device[name] for name in trust.device if name not in ("signatures", "unsigned")}
    signed = {**plain, "signatures": {me.id: {f"ed25519:{sign.public}": sign(canonical(plain))}}}
    answer = await client.call("POST", "v3/keys/signatures/upload", {me.id: {me.device: signed}})
    if dig(answer, "failures"):
        raise Refused("The homeserver does not take the signature of our device")


async def open_signer(
    client: MatrixClient, me: MatrixIdentity, trust: DeviceTrust, recovery: str
) -> DeviceSigner:
    """The key that signs the account's devices, as it lies in the account's secret storage."""
    seed = await _stored_secret(client, me, read_recovery_key(recovery))
    sign = await asyncio.to_thread(DeviceSigner, seed)
    if sign.public != trust.signer:
        raise UserError("The account's secret storage holds an old key for signing devices.", hint=_HINT)
    return sign


async def _stored_secret(client: MatrixClient, me: MatrixIdentity, key: bytes) -> bytes:
    read = partial(_account_data, client, me)
    number = as_text((await read("m.secret_storage.default_key")).get("key"))
    about = await read(f"m.secret_storage.key.{number}") if number else {}
    if about.get("algorithm") != _ALGORITHM:
        raise UserError("The account has no secret storage that MATRIX_RECOVERY_KEY could open.", hint=_HINT)
    if not fits(key, about):
        raise UserError("MATRIX_RECOVERY_KEY is not that of the account's secret storage.", hint=_HINT)
    locked = as_dict(dig(await read(_SECRET), "encrypted", number))
    seed = _decoded(unlock(key, _SECRET, locked).decode("ascii", "replace"))
    if len(seed) != 32:
        raise UserError("The account's secret storage holds no key for signing devices.", hint=_HINT)
    return seed


async def _account_data(client: MatrixClient, me: MatrixIdentity, name: str) -> dict[str, Any]:
    try:
        return as_dict(await client.call("GET", f"v3/{path('user', me.id, 'account_data', name)}"))
    except Refused:
        return {}


def read_recovery_key(text: str) -> bytes:
    """The key in what Element shows: base58 in groups, with two bytes before it and its parity behind it."""
    number = 0
    letters = "".join(text.split())
    for letter in letters:
        if letter not in _BASE58:
            letters = ""
            break
        number = number * 58 + _BASE58.index(letter)
    raw = number.to_bytes((number.bit_length() + 7) // 8, "big") if letters else b""
    parity = 0
    for byte in raw:
        parity ^= byte
    if len(raw) != 35 or parity or not raw.startswith(_PREFIX):
        raise UserError("MATRIX_RECOVERY_KEY is no recovery key, or has a slip of the pen.", hint=_HINT)
    return raw[2:-1]


def fits(key: bytes, about: Mapping[str, Any]) -> bool:
    """Whether it is the key that the description of a storage was made with: 32 zeros tell."""
    iv, mac = (as_text(about.get(name)) for name in ("iv", "mac"))
    if not mac:
        # Nothing to compare with; a wrong key is noticed by the secret itself.
        return True
    cipher, seal = _derived(key, "")
    return hmac.compare_digest(_mac(seal, _crypted(cipher, _decoded(iv), bytes(32))), _decoded(mac))


def unlock(key: bytes, name: str, locked: Mapping[str, Any]) -> bytes:
    iv, text, mac = (_decoded(as_text(locked.get(part))) for part in ("iv", "ciphertext", "mac"))
    cipher, seal = _derived(key, name)
    if not text or not hmac.compare_digest(_mac(seal, text), mac):
        raise UserError("MATRIX_RECOVERY_KEY does not open the account's key for signing.", hint=_HINT)
    return _crypted(cipher, iv, text)


def canonical(value: Mapping[str, Any]) -> bytes:
    """JSON as it is signed (“Canonical JSON”)."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), sort_keys=True).encode()


def _signatures(device: Mapping[str, Any]) -> dict[str, Any]:
    return as_dict(dig(device, "signatures", as_text(device.get("user_id"))))


def _derived(key: bytes, name: str) -> tuple[bytes, bytes]:
    """HKDF with SHA-256 (RFC 5869), without a salt: a key for the cipher, and one for the seal."""
    secret = hmac.digest(bytes(32), key, sha256)
    first = hmac.digest(secret, name.encode() + b"\1", sha256)
    return first, hmac.digest(secret, first + name.encode() + b"\2", sha256)


def _mac(seal: bytes, text: bytes) -> bytes:
    return hmac.digest(seal, text, sha256)


def _crypted(key: bytes, iv: bytes, data: bytes) -> bytes:
    """AES-256 in counter mode; it is its own inverse."""
    if len(iv) != 16:
        raise UserError("The account's secret storage cannot be read.", hint=_HINT)
    aes: Any = import_module("Crypto.Cipher.AES")
    cipher = aes.new(key, aes.MODE_CTR, nonce=b"", initial_value=iv)
    result: bytes = cipher.encrypt(data)
    return result


class DeviceSigner:
    def __init__(self, seed: bytes) -> None:
        ecc: Any = import_module("Crypto.PublicKey.ECC")
        self._eddsa: Any = import_module("Crypto.Signature.eddsa")
        self._key = ecc.construct(curve="Ed25519", seed=seed)
        self.public = _encoded(self._key.public_key().export_key(format="raw"))

    def __call__(self, data: bytes) -> str:
        return _encoded(self._eddsa.new(self._key, "rfc8032").sign(data))


def _encoded(data: bytes) -> str:
    return base64.b64encode(data).decode("ascii").rstrip("=")


def _decoded(text: str) -> bytes:
    try:
        return base64.b64decode(text + "=" * (-len(text) % 4), validate=True)
    except ValueError:
        return b""
