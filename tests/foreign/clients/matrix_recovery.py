"""What Element does with an account that is set up for recovery, by the libraries of others: signedjson,
which Synapse signs with, and pyca's ciphers. As `make` it gives an account keys that sign each other and a
secret storage with them, and prints the recovery key; as `judge` it says, as somebody else, whether the
account vouches for a device. Arguments: what to do, the homeserver's address, an access token, and for
`judge` the account."""

from __future__ import annotations

import base64
import hmac
import json
import os
import sys
import urllib.request
from hashlib import sha256

from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from signedjson.key import decode_verify_key_bytes, encode_verify_key_base64, generate_signing_key
from signedjson.sign import SignatureVerifyException, sign_json, verify_signed_json

LETTERS = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz"


def ask(url: str, token: str, method: str, path: str, body: object = None):
    data = None if body is None else json.dumps(body).encode()
    headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
    request = urllib.request.Request(f"{url}/_matrix/client/v3/{path}", data, headers, method=method)
    with urllib.request.urlopen(request, timeout=60) as answer:
        return json.load(answer)


def b64(data: bytes) -> str:
    return base64.b64encode(data).decode().rstrip("=")


def keys_for(key: bytes, name: str) -> tuple[bytes, bytes]:
    both = HKDF(algorithm=SHA256(), length=64, salt=bytes(32), info=name.encode()).derive(key)
    return both[:32], both[32:]


def locked(key: bytes, name: str, data: bytes) -> dict[str, str]:
    aes, seal = keys_for(key, name)
    iv = bytearray(os.urandom(16))
    iv[8] &= 0x7F
    text = Cipher(algorithms.AES(aes), modes.CTR(bytes(iv))).encryptor().update(data)
    return {"iv": b64(bytes(iv)), "ciphertext": b64(text), "mac": b64(hmac.digest(seal, text, sha256))}


def spelled(key: bytes) -> str:
    raw = bytearray(b"\x8b\x01" + key)
    parity = 0
    for byte in raw:
        parity ^= byte
    raw.append(parity)
    number, text = int.from_bytes(raw, "big"), ""
    while number:
        number, rest = divmod(number, 58)
        text = LETTERS[rest] + text
    return " ".join(text[start : start + 4] for start in range(0, len(text), 4))


def public(usage: str, user: str, key) -> dict[str, object]:
    name = encode_verify_key_base64(key.verify_key)
    return {"user_id": user, "usage": [usage], "keys": {f"ed25519:{name}": name}}


def signed(value: dict[str, object], user: str, key) -> dict[str, object]:
    key.version = encode_verify_key_base64(key.verify_key)
    return sign_json(value, user, key)


def make(url: str, token: str) -> dict[str, str]:
    user = ask(url, token, "GET", "account/whoami")["user_id"]
    master, selfs, users = (generate_signing_key("x") for _ in range(3))
    upload = {
        "master_key": public("master", user, master),
        "self_signing_key": signed(public("self_signing", user, selfs), user, master),
        "user_signing_key": signed(public("user_signing", user, users), user, master),
    }
    ask(url, token, "POST", "keys/device_signing/upload", upload)
    key = os.urandom(32)
    data = f"user/{user}/account_data"
    check = locked(key, "", bytes(32))
    about = {"algorithm": "m.secret_storage.v1.aes-hmac-sha2", "iv": check["iv"], "mac": check["mac"]}
    ask(url, token, "PUT", f"{data}/m.secret_storage.key.KEY", about)
    ask(url, token, "PUT", f"{data}/m.secret_storage.default_key", {"key": "KEY"})
    for name, one in (("master", master), ("self_signing", selfs), ("user_signing", users)):
        name = f"m.cross_signing.{name}"
        secret = {"encrypted": {"KEY": locked(key, name, b64(one.encode()).encode())}}
        ask(url, token, "PUT", f"{data}/{name}", secret)
    return {"recovery": spelled(key), "other": spelled(os.urandom(32))}


def judge(url: str, token: str, user: str) -> dict[str, bool]:
    answer = ask(url, token, "POST", "keys/query", {"device_keys": {user: []}})
    ((name, text),) = answer["self_signing_keys"][user]["keys"].items()
    signer = decode_verify_key_bytes(name, base64.b64decode(text + "=" * (-len(text) % 4)))
    vouched = {}
    for device, keys in answer["device_keys"].get(user, {}).items():
        try:
            verify_signed_json(keys, user, signer)
            vouched[device] = True
        except SignatureVerifyException:
            vouched[device] = False
    return vouched


if __name__ == "__main__":
    print(json.dumps((make if sys.argv[1] == "make" else judge)(*sys.argv[2:])))
