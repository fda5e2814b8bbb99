"""Ciphers that vendors of China put around what they send: AES with PKCS7. The package for it is loaded when
it is used."""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from typing import Any

from hermes.domain.errors import UserError

_PACKAGE = "cryptography"
_BLOCK = 16


def require_crypto(platform: str, what: str) -> None:
    """A `UserError` if the package for ciphers is not installed."""
    if find_spec(_PACKAGE) is None:
        raise UserError(f"A package for {what} is missing.", hint=f"Run: hermes platforms install {platform}")


def cbc_opened(key: bytes, vector: bytes, sealed: bytes, block: int = 16) -> bytes:
    """What was sealed with AES-CBC, padded to blocks of so many bytes; a `ValueError` if it was not."""
    return _unpadded(_run(key, _modes().CBC(vector), sealed, seal=False), block)


def cbc_sealed(key: bytes, vector: bytes, plain: bytes, block: int = 16) -> bytes:
    return _run(key, _modes().CBC(vector), _padded(plain, block), seal=True)


def ecb_opened(key: bytes, sealed: bytes) -> bytes:
    """What was sealed with AES-ECB; a `ValueError` if it was not."""
    return _unpadded(_run(key, _modes().ECB(), sealed, seal=False), _BLOCK)


def ecb_sealed(key: bytes, plain: bytes) -> bytes:
    return _run(key, _modes().ECB(), _padded(plain, _BLOCK), seal=True)


def _modes() -> Any:
    return import_module(f"{_PACKAGE}.hazmat.primitives.ciphers.modes")


def _run(key: bytes, mode: Any, data: bytes, *, seal: bool) -> bytes:
    ciphers = import_module(f"{_PACKAGE}.hazmat.primitives.ciphers")
    cipher = ciphers.Cipher(ciphers.algorithms.AES(key), mode)
    work = cipher.encryptor() if seal else cipher.decryptor()
    done: bytes = work.update(data) + work.finalize()
    return done


def _padded(plain: bytes, block: int) -> bytes:
    more = block - len(plain) % block
    return plain + bytes([more]) * more


def _unpadded(data: bytes, block: int) -> bytes:
    more = data[-1] if data else 0
    if not 1 <= more <= min(block, len(data)) or data[-more:] != bytes([more]) * more:
        raise ValueError("not padded as it should be")
    return data[:-more]
