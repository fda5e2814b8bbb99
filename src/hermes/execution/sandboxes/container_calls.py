"""The filter for system calls of a container, as the file that docker and podman read. It takes the place of
the engine's own, which lets programs trace each other and reach the hypervisor. What it does not name is
missing, so that a call of a newer kernel opens nothing."""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Sequence

from hermes.execution.sandboxes.seccomp import NEW_NAMESPACES

_ARCHES = {"x86_64": "SCMP_ARCH_X86_64", "aarch64": "SCMP_ARCH_AARCH64"}
_USUAL = """
    accept accept4 access alarm arch_prctl bind brk capget capset chdir chmod chown clock_getres
    clock_gettime clock_nanosleep close close_range connect copy_file_range creat dup dup2 dup3 epoll_create
    epoll_create1 epoll_ctl epoll_pwait epoll_pwait2 epoll_wait eventfd eventfd2 execve execveat exit
    exit_group faccessat faccessat2 fadvise64 fallocate fanotify_mark fchdir fchmod fchmodat fchown fchownat
    fcntl fdatasync fgetxattr flistxattr flock fork fremovexattr fsetxattr fstat fstatfs fsync ftruncate
    futex futex_waitv futimesat get_robust_list get_thread_area getcpu getcwd getdents getdents64 getegid
    geteuid getgid getgroups getitimer getpeername getpgid getpgrp getpid getppid getpriority getrandom
    getresgid getresuid getrlimit getrusage getsid getsockname getsockopt gettid gettimeofday getuid
    getxattr inotify_add_watch inotify_init inotify_init1 inotify_rm_watch io_cancel io_destroy io_getevents
    io_pgetevents io_setup io_submit ioctl ioprio_get ioprio_set kill landlock_add_rule
    landlock_create_ruleset landlock_restrict_self lchown lgetxattr link linkat listen listxattr llistxattr
    lremovexattr lseek lsetxattr lstat madvise membarrier memfd_create mincore mkdir mkdirat mknod mknodat
    mlock mlock2 mlockall mmap mprotect mq_getsetattr mq_notify mq_open mq_timedreceive mq_timedsend
    mq_unlink mremap msgctl msgget msgrcv msgsnd msync munlock munlockall munmap nanosleep newfstatat open
    openat openat2 pause pidfd_open pidfd_send_signal pipe pipe2 pkey_alloc pkey_free pkey_mprotect poll
    ppoll prctl pread64 preadv preadv2 prlimit64 pselect6 pwrite64 pwritev pwritev2 read readahead readlink
    readlinkat readv recvfrom recvmmsg recvmsg removexattr rename renameat renameat2 restart_syscall rmdir
    rseq rt_sigaction rt_sigpending rt_sigprocmask rt_sigqueueinfo rt_sigreturn rt_sigsuspend
    rt_sigtimedwait rt_tgsigqueueinfo sched_get_priority_max sched_get_priority_min sched_getaffinity
    sched_getattr sched_getparam sched_getscheduler sched_rr_get_interval sched_setaffinity sched_setattr
    sched_setparam sched_setscheduler sched_yield seccomp select semctl semget semop semtimedop sendfile
    sendmmsg sendmsg sendto set_robust_list set_thread_area set_tid_address setfsgid setfsuid setgid
    setgroups setitimer setpgid setpriority setregid setresgid setresuid setreuid setrlimit setsid
    setsockopt setuid setxattr shmat shmctl shmdt shmget shutdown sigaltstack signalfd signalfd4 socketpair
    splice stat statfs statx symlink symlinkat sync sync_file_range sync_file_range2 syncfs sysinfo tee
    tgkill time timer_create timer_delete timer_getoverrun timer_gettime timer_settime timerfd_create
    timerfd_gettime timerfd_settime times tkill truncate umask uname unlink unlinkat utime utimensat utimes
    vfork wait4 waitid write writev
"""
_PERSONALITIES = (0, 0xFFFFFFFF)
"""What it usually is, and the question what it is."""


def call_filter(families: Sequence[int], machine: str = "", *, names_errors: bool = True) -> str:
    """For sockets of these families; empty where the engine's own filter has to do. An engine that cannot
    name the error has what is missing traced: nobody does, and then the kernel says that it is missing."""
    arch = _ARCHES.get(machine or os.uname().machine)
    if arch is None:
        return ""
    rules = [_allow(_USUAL.split()), _allow(["clone"], value=NEW_NAMESPACES, op="SCMP_CMP_MASKED_EQ")]
    rules += [_allow(["socket"], value=family, op="SCMP_CMP_EQ") for family in families]
    rules += [_allow(["personality"], value=value, op="SCMP_CMP_EQ") for value in _PERSONALITIES]
    # Its flags are behind a pointer, which no filter can follow; the C library then uses `clone`.
    missing: dict[str, object] = {"names": ["clone3"], "action": "SCMP_ACT_ERRNO", "errnoRet": errno.ENOSYS}
    if not names_errors:
        told: dict[str, object] = {"defaultAction": "SCMP_ACT_TRACE"}
        return json.dumps(told | {"architectures": [arch], "syscalls": rules})
    return json.dumps(
        {
            "defaultAction": "SCMP_ACT_ERRNO",
            "defaultErrnoRet": errno.ENOSYS,
            "architectures": [arch],
            "syscalls": [*rules, missing],
        }
    )


def _allow(names: Sequence[str], **first: object) -> dict[str, object]:
    """`first` is what the first argument must be."""
    rule: dict[str, object] = {"names": list(names), "action": "SCMP_ACT_ALLOW"}
    return rule | ({"args": [{"index": 0, "valueTwo": 0, **first}]} if first else {})
