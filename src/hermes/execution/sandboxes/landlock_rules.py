"""The three calls of Landlock: this process and whatever it will start may use only the files named here.

Where the kernel has them, rules also close TCP, signals and abstract sockets of processes outside. Runs
inside the sandbox, so it imports next to nothing."""

from __future__ import annotations

import ctypes
import os
import stat
import struct
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

_CREATE, _ADD, _RESTRICT = 444, 445, 446
_VERSION_FLAG, _PATH_BENEATH = 1, 1
_EXECUTE, _WRITE_FILE, _READ_FILE, _READ_DIR, _TRUNCATE, _IOCTL = (
    1 << 0,
    1 << 1,
    1 << 2,
    1 << 3,
    1 << 14,
    1 << 15,
)
_NO_DEVICES = ~(1 << 6 | 1 << 11)
"""Of a writable folder's rights: no device nodes are made."""
_USE = _READ_FILE | _WRITE_FILE | _IOCTL
_READ = _EXECUTE | _READ_FILE | _READ_DIR
_OF_A_FILE = _EXECUTE | _WRITE_FILE | _READ_FILE | _TRUNCATE | _IOCTL
_TCP = 0b11
_SCOPES = 0b11
TCP_ABI, SCOPES_ABI = 4, 6


def landlock_abi() -> int:
    """The version that the kernel speaks; 0 = it has no Landlock, or it is switched off."""
    return max(_call(_CREATE, None, 0, _VERSION_FLAG), 0)


def file_rights(abi: int) -> int:
    """All rights on files that this version knows."""
    return (1 << (13 if abi < 2 else 14 if abi < 3 else 15 if abi < 5 else 16)) - 1


def confine(
    *, readable: Sequence[str], writable: Sequence[str], devices: Sequence[str], network: bool
) -> None:
    """For ever. `devices` are files that may be read and written, and nothing else. Needs that new privileges
    were forbidden before. Ends the process if the kernel refuses any of it."""
    abi = landlock_abi()
    if not abi:
        sys.exit("this kernel has no Landlock")
    every = file_rights(abi)
    tcp = 0 if network or abi < TCP_ABI else _TCP
    attributes = struct.pack("=QQQ", every, tcp, _SCOPES if abi >= SCOPES_ABI else 0)
    size = 24 if abi >= SCOPES_ABI else 16 if abi >= TCP_ABI else 8
    rules = _checked(_CREATE, attributes, size, 0)
    rights = (
        (readable, _READ),
        (writable, every & _NO_DEVICES),
        (devices, _READ_FILE | _WRITE_FILE | _IOCTL),
    )
    for paths, allowed in rights:
        for path in paths:
            _allow(rules, path, allowed & every)
    _checked(_RESTRICT, rules, 0)
    os.close(rules)


def _allow(rules: int, path: str, rights: int) -> None:
    try:
        descriptor = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except OSError:
        return  # what is not there needs no rule
    if not stat.S_ISDIR(os.fstat(descriptor).st_mode):
        rights &= _OF_A_FILE
    _checked(_ADD, rules, _PATH_BENEATH, struct.pack("=Qi", rights, descriptor), 0)
    os.close(descriptor)


def _checked(number: int, *arguments: int | bytes | None) -> int:
    answer = _call(number, *arguments)
    if answer < 0:
        sys.exit(f"Landlock refuses a rule ({os.strerror(ctypes.get_errno())})")
    return answer


def _call(number: int, *arguments: int | bytes | None) -> int:
    words = (
        value if value is None or isinstance(value, bytes) else ctypes.c_long(value) for value in arguments
    )
    return int(ctypes.CDLL(None, use_errno=True).syscall(ctypes.c_long(number), *words))
