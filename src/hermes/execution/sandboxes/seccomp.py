"""The system calls that nothing inside a sandbox may make, as a filter that the kernel runs before each call.

Denied is what opens a way to the kernel or to other processes and what ordinary programs do not need. Sockets
are allowed by family: those of paths and of other machines' hypervisors lead past a network namespace. Runs
inside the sandbox, so it imports next to nothing."""

from __future__ import annotations

import ctypes
import errno
import os
import struct
import sys

_LOAD, _EQUAL, _GREATER_OR_EQUAL, _ANY_BIT, _AND, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x54, 0x06
_ALLOW, _ERRNO = 0x7FFF0000, 0x00050000
_NUMBER, _ARCH, _ARGUMENTS = 0, 4, 16
_X32 = 0x40000000
NEW_NAMESPACES = 0x7E020080
"""Every flag of clone(2) that makes a namespace, the one for times included."""
_INJECTING = (0x5412, 0x541C)
"""Requests of ioctl(2) that type into a terminal."""
_PR_SET_NO_NEW_PRIVS, _PR_SET_SECCOMP, _MODE_FILTER = 38, 22, 2
_PR_CAPBSET_DROP, _CAPABILITIES, _CAPABILITY_VERSION = 24, 64, 0x20080522
UNIX, INET, INET6, NETLINK = 1, 2, 10, 16
_STREAM, _SEQPACKET, _KIND_OF_SOCKET = 1, 5, 0xF
_SET_ID_BITS = 0o6000
_PRIO_USER, _IOPRIO_USER = 2, 3
_Step = tuple[int, int, int, int]

# name: number on x86_64, number on aarch64 (None = there is none)
_DENIED: dict[str, tuple[int | None, int | None]] = {
    "ptrace": (101, 117), "process_vm_readv": (310, 270), "process_vm_writev": (311, 271),
    "kcmp": (312, 272), "pidfd_getfd": (438, 438), "process_madvise": (440, 440),
    "mount": (165, 40), "umount2": (166, 39), "pivot_root": (155, 41), "chroot": (161, 51),
    "open_tree": (428, 428), "move_mount": (429, 429), "fsopen": (430, 430), "fsconfig": (431, 431),
    "fsmount": (432, 432), "fspick": (433, 433), "mount_setattr": (442, 442), "open_tree_attr": (467, 467),
    "unshare": (272, 97), "setns": (308, 268),
    "add_key": (248, 217), "request_key": (249, 218), "keyctl": (250, 219),
    "bpf": (321, 280), "perf_event_open": (298, 241), "userfaultfd": (323, 282),
    "io_uring_setup": (425, 425), "io_uring_enter": (426, 426), "io_uring_register": (427, 427),
    "kexec_load": (246, 104), "kexec_file_load": (320, 294), "reboot": (169, 142),
    "init_module": (175, 105), "finit_module": (313, 273), "delete_module": (176, 106),
    "swapon": (167, 224), "swapoff": (168, 225), "acct": (163, 89), "syslog": (103, 116),
    "quotactl": (179, 60), "quotactl_fd": (443, 443), "fanotify_init": (300, 262),
    "name_to_handle_at": (303, 264), "open_by_handle_at": (304, 265), "lookup_dcookie": (212, 18),
    "settimeofday": (164, 170), "clock_settime": (227, 112), "clock_adjtime": (305, 266),
    "adjtimex": (159, 171), "sethostname": (170, 161), "setdomainname": (171, 162), "vhangup": (153, 58),
    "iopl": (172, None), "ioperm": (173, None), "modify_ldt": (154, None), "uselib": (134, None),
    "nfsservctl": (180, 42), "_sysctl": (156, None), "migrate_pages": (256, 238), "move_pages": (279, 239),
    "mbind": (237, 235), "set_mempolicy": (238, 237),
}  # fmt: skip
_SHARED: dict[str, tuple[int | None, int | None]] = {
    "shmget": (29, 194), "shmat": (30, 196), "shmctl": (31, 195), "semget": (64, 190), "semop": (65, 193),
    "semctl": (66, 191), "semtimedop": (220, 192), "msgget": (68, 186), "msgsnd": (69, 189),
    "msgrcv": (70, 188), "msgctl": (71, 187), "mq_open": (240, 180), "mq_unlink": (241, 181),
    "chown": (92, None), "lchown": (94, None), "fchownat": (260, 54), "setxattr": (188, 5),
    "lsetxattr": (189, 6), "setxattrat": (463, 463), "removexattr": (197, 14), "lremovexattr": (198, 15),
    "removexattrat": (466, 466), "file_setattr": (469, 469),
}  # fmt: skip
"""Where no namespace keeps them apart: objects of the machine, and what Landlock lets through."""
_OF_ONE_PROCESS = {
    "sched_setparam": (142, 118), "sched_setscheduler": (144, 119), "sched_setaffinity": (203, 122),
    "sched_setattr": (314, 274),
}  # fmt: skip
_OF_MANY = {"setpriority": ((141, 140), _PRIO_USER), "ioprio_set": ((251, 30), _IOPRIO_USER)}
_MODES = {"chmod": ((90, None), 1), "fchmod": ((91, 52), 1), "fchmodat": ((268, 53), 2),
          "fchmodat2": ((452, 452), 2), "creat": ((85, None), 1), "mknod": ((133, None), 1),
          "mknodat": ((259, 33), 2)}  # fmt: skip
"""With the place of the mode among the arguments."""
_CREATING = {"open": ((2, None), 1), "openat": ((257, 56), 2)}
"""With the place of the flags, behind which the mode stands; it counts if a file is made."""
_MAKES_FILES = 0x400040
_OPENAT2 = 437
_SOCKET, _CLONE, _CLONE3, _IOCTL = (41, 198), (56, 220), (435, 435), (16, 29)
_SOCKETPAIR, _PRLIMIT = (53, 199), (302, 261)
_ARCHES = {"x86_64": (0, 0xC000003E), "aarch64": (1, 0xC00000B7)}


def seccomp_filter(families: tuple[int, ...], machine: str = "", *, shared: bool = False) -> bytes:
    """The program for this machine; a `ValueError` if there is none for it. `shared` is for processes that
    see those of the machine."""
    machine = machine or os.uname().machine
    if machine not in _ARCHES:
        raise ValueError(f"there is no filter for the processor {machine}")
    column, arch = _ARCHES[machine]
    refuse, missing = _ERRNO | errno.EPERM, _ERRNO | errno.ENOSYS
    # Calls of another architecture have other numbers: they are told that there is no such call.
    steps = [(_LOAD, 0, 0, _ARCH), (_EQUAL, 1, 0, arch), (_RETURN, 0, 0, missing), (_LOAD, 0, 0, _NUMBER)]
    if machine == "x86_64":
        steps += [(_GREATER_OR_EQUAL, 0, 1, _X32), (_RETURN, 0, 0, missing)]
    for numbers in (*_DENIED.values(), *(_SHARED.values() if shared else ())):
        if (number := numbers[column]) is not None:
            steps += [(_EQUAL, 0, 1, number), (_RETURN, 0, 0, refuse)]
    # Their flags are behind a pointer, which no filter can follow; programs then use `clone` and `openat`.
    for number in (_CLONE3[column], _OPENAT2):
        steps += [(_EQUAL, 0, 1, number), (_RETURN, 0, 0, missing)]
    steps += [(_EQUAL, 0, 4, _CLONE[column]), (_LOAD, 0, 0, _ARGUMENTS), (_ANY_BIT, 0, 1, NEW_NAMESPACES)]
    steps += [(_RETURN, 0, 0, refuse), (_RETURN, 0, 0, _ALLOW)]
    size = 2 + 2 * len(_INJECTING)
    steps += [(_EQUAL, 0, size, _IOCTL[column]), (_LOAD, 0, 0, _ARGUMENTS + 8)]
    for request in _INJECTING:
        steps += [(_EQUAL, 0, 1, request), (_RETURN, 0, 0, refuse)]
    steps += [(_RETURN, 0, 0, _ALLOW)]
    steps += _others_limits(_PRLIMIT[column]) + _pairs(_SOCKETPAIR[column])
    steps += _mode_steps(column) + (_shared_steps(column) if shared else [])
    steps += [(_EQUAL, 1, 0, _SOCKET[column]), (_RETURN, 0, 0, _ALLOW), (_LOAD, 0, 0, _ARGUMENTS)]
    for family in families:
        steps += [(_EQUAL, 0, 1, family), (_RETURN, 0, 0, _ALLOW)]
    steps += [(_RETURN, 0, 0, refuse)]
    return b"".join(struct.pack("=HBBI", *step) for step in steps)


def _others_limits(number: int) -> list[_Step]:
    """Limits are set for oneself alone; those of others may be read."""
    return _call(
        number,
        [(_LOAD, 0, 0, _ARGUMENTS), (_EQUAL, 5, 0, 0), (_LOAD, 0, 0, _ARGUMENTS + 16), (_EQUAL, 0, 2, 0)],
        [(_LOAD, 0, 0, _ARGUMENTS + 20), (_EQUAL, 1, 0, 0)],
    )


def _pairs(number: int) -> list[_Step]:
    """A pair of sockets for packets would take any address to send to, as a socket with a path does."""
    return _call(
        number,
        [(_LOAD, 0, 0, _ARGUMENTS), (_EQUAL, 0, 4, UNIX), (_LOAD, 0, 0, _ARGUMENTS + 8)],
        [(_AND, 0, 0, _KIND_OF_SOCKET), (_EQUAL, 2, 0, _STREAM), (_EQUAL, 1, 0, _SEQPACKET)],
    )


def _shared_steps(column: int) -> list[_Step]:
    """Nothing of another process is changed."""
    steps: list[_Step] = []
    for numbers in _OF_ONE_PROCESS.values():
        steps += _call(numbers[column], [(_LOAD, 0, 0, _ARGUMENTS), (_EQUAL, 1, 0, 0)])
    for numbers, of_a_user in _OF_MANY.values():
        steps += _call(
            numbers[column],
            [(_LOAD, 0, 0, _ARGUMENTS), (_EQUAL, 2, 0, of_a_user)],
            [(_LOAD, 0, 0, _ARGUMENTS + 8), (_EQUAL, 1, 0, 0)],
        )
    return steps


def _mode_steps(column: int) -> list[_Step]:
    """No file gets the rights of its owner: in the workspace it would have them outside, too."""
    steps: list[_Step] = []
    for columns, place in (*_MODES.values(), *_CREATING.values()):
        if (number := columns[column]) is None:
            continue
        making = (columns, place) in _CREATING.values()
        flags = [(_LOAD, 0, 0, _ARGUMENTS + 8 * place), (_ANY_BIT, 0, 3, _MAKES_FILES)] if making else []
        mode = (_LOAD, 0, 0, _ARGUMENTS + 8 * (place + making))
        steps += _call(number, [*flags, mode, (_ANY_BIT, 0, 1, _SET_ID_BITS)])
    return steps


def _call(number: int, *parts: list[_Step]) -> list[_Step]:
    """What is looked at in one call. Behind it stand a refusal and then a permission, to be jumped to."""
    looked = [step for part in parts for step in part]
    ends = [(_RETURN, 0, 0, _ERRNO | errno.EPERM), (_RETURN, 0, 0, _ALLOW)]
    return [(_EQUAL, 0, len(looked) + len(ends), number), *looked, *ends]


def give_up_rights() -> None:
    """All capabilities, and getting any back by starting a program."""
    libc = ctypes.CDLL(None, use_errno=True)
    for capability in range(_CAPABILITIES):
        libc.prctl(_PR_CAPBSET_DROP, ctypes.c_ulong(capability), 0, 0, 0)  # only who has some needs it
    if libc.capset(struct.pack("=Ii", _CAPABILITY_VERSION, 0), bytes(24)) != 0:
        sys.exit(f"the kernel keeps capabilities ({os.strerror(ctypes.get_errno())})")
    _prctl(_PR_SET_NO_NEW_PRIVS, 1, 0)


def install_filter(program: bytes) -> None:
    """For this process and whatever it will start; for ever. Needs `give_up_rights` before."""

    class Program(ctypes.Structure):
        _fields_ = (("length", ctypes.c_ushort), ("steps", ctypes.c_char_p))

    handed = Program(len(program) // 8, program)
    _prctl(_PR_SET_SECCOMP, _MODE_FILTER, ctypes.addressof(handed))


def _prctl(option: int, first: int, second: int) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    words = (ctypes.c_ulong(value) for value in (first, second, 0, 0))
    if libc.prctl(option, *words) != 0:
        error = ctypes.get_errno()
        sys.exit(f"the kernel refuses a part of the sandbox, prctl {option} ({os.strerror(error)})")
