"""Ways out of a sandbox, as commands that print ESCAPED if they found one. `{out}` is a folder beside the
workspace that holds what must not be reached; the rest is told by `Outside.words`.

`open` ones work where nothing holds the commands, which shows that the attempt is a real one. `weak` ones are
also promised by a sandbox that only has file rules and a system-call filter."""
# ruff: noqa: E501

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    name: str
    text: str
    open: bool = True
    weak: bool = True


def _shell(name: str, text: str, *, open: bool = True, weak: bool = True) -> Attempt:
    return Attempt(name=name, text=text, open=open, weak=weak)


def _python(name: str, text: str, *, open: bool = True, weak: bool = True) -> Attempt:
    lines = "import os, socket, ctypes, sys\nlibc = ctypes.CDLL(None, use_errno=True)\n" + text
    return Attempt(name=name, text=f"$PY -I - <<'PYTHON'\n{lines}\nPYTHON", open=open, weak=weak)


def _reads(name: str, path: str, **more: bool) -> Attempt:
    return _shell(name, f"grep -aqs {{mark}} {path} && echo ESCAPED", **more)


def _connects(name: str, family: str, address: str, **more: bool) -> Attempt:
    text = f"s = socket.socket(socket.{family}, socket.SOCK_STREAM)\ns.settimeout(2)\ns.connect({address})\n"
    return _python(name, text + "print('ESCAPED')", **more)


def _calls(name: str, call: str, arguments: str, **more: bool) -> Attempt:
    """A call to the kernel. Refused means: for want of rights, or because there is no such call."""
    text = f"n = libc.syscall({{call_{call}}}, {arguments})\n"
    text += "print('ESCAPED' if n != -1 or ctypes.get_errno() not in (1, 13, 38) else 'refused')"
    return _python(name, text, **more)


FILES = (
    _reads("the gateway's keys", "{home}/.env"),
    _reads("a person's private key", "{out}/person/.ssh/id_ed25519"),
    _reads("by the folder above", "../outside/secret"),
    _reads("by many folders above", "../../../../../../../../../../..{out}/secret"),
    _reads("by a link that was there", "link-out"),
    _reads("by a link to a folder that was there", "folder-out/secret"),
    _shell("by a link of its own", "ln -sf {out}/secret own; grep -aqs {mark} own && echo ESCAPED"),
    _shell("by a relative link", "ln -sf ../outside/secret rel; grep -aqs {mark} rel && echo ESCAPED"),
    _shell("by a hard link", "ln {out}/secret hard && grep -aqs {mark} hard && echo ESCAPED"),
    _shell("by a hard link through a link", "ln -L link-out hard2 && grep -aqs {mark} hard2 && echo ESCAPED"),
    _reads("by the root of a process", "/proc/self/root{out}/secret"),
    _reads("by the folder of a process", "/proc/self/cwd/../outside/secret"),
    _reads("by the root of the first process", "/proc/1/root{out}/secret", open=False),
    _reads("by the root of the gateway", "/proc/{gateway}/root{out}/secret"),
    _reads("by the root of the runner's parent", "/proc/$PPID/root{out}/secret"),
    _shell("by a descriptor of a parent", "for f in /proc/[0-9]*/fd/*; do [ -d $f ] && "
           "grep -aqs {mark} $f/../outside/secret && echo ESCAPED; done", open=False),
    _reads("the memory of the gateway", "/proc/{gateway}/environ", open=False),
    _reads("the variables of another process", "/proc/{victim}/environ"),
    _shell("writing beside the workspace", "echo x > {out}/written && echo ESCAPED"),
    _shell("writing by a link", "echo x > link-new && [ -e {out}/new ] && echo ESCAPED"),
    _shell("deleting beside the workspace", "rm {out}/doomed && echo ESCAPED"),
    _shell("renaming out of the workspace", "touch mine && mv mine {out}/mine && echo ESCAPED"),
    _python("owners beside the workspace", "os.chown('{out}/secret', -1, -1)\nprint('ESCAPED')"),
    _python("attributes beside the workspace", "os.setxattr('{out}/secret', 'user.x', b'x')\nprint('ESCAPED')"),
    _shell("the rights of an owner beside the workspace", "chmod u+s {out}/secret && echo ESCAPED"),
    _shell("listing the folder above", "ls .. | grep -q outside && echo ESCAPED"),
    _shell("a program in the system", "echo x > /usr/local/bin/hermes-escape-{tag} && "
           "rm /usr/local/bin/hermes-escape-{tag} && echo ESCAPED", open=False),
    _shell("the system's users", ": >> /etc/passwd && echo ESCAPED", open=False),
    _shell("the passwords", "cat /etc/shadow >/dev/null && echo ESCAPED", open=False),
    _shell("our own code inside", "echo x >> /opt/hermes/lib/hermes/__init__.py && echo ESCAPED", open=False),
    _shell("the tools inside", "echo x > /opt/hermes/bin/ls && echo ESCAPED", open=False),
    _shell("a shared temporary folder", "ls /tmp/hermes-escape-{tag} && echo ESCAPED"),
    _shell("a file of the machine's memory", "ls /dev/shm/hermes-escape-{tag} && echo ESCAPED"),
    _shell("a disk", "for d in /dev/vd? /dev/sd? /dev/nvme* /dev/mem /dev/kmsg; do "
           "head -c1 $d >/dev/null 2>&1 && echo ESCAPED; done", open=False),
    _python("a device of its own", "os.mknod('disk', 0o60600, os.makedev(254, 0))\nprint('ESCAPED')", open=False),
)  # fmt: skip
SOCKETS = (
    _connects("the docker socket", "AF_UNIX", "'{out}/run/docker.sock'"),
    _connects("the podman socket", "AF_UNIX", "'{out}/run/podman.sock'"),
    _connects("the bus of the system", "AF_UNIX", "'{out}/run/dbus'"),
    _connects("the person's systemd", "AF_UNIX", "'{out}/run/systemd'"),
    _connects("the owner's socket", "AF_UNIX", "'{home}/gateway.sock'"),
    _connects("a socket in the workspace", "AF_UNIX", "'socket'"),
    _connects("an abstract socket", "AF_UNIX", "'\\0hermes-escape-{tag}'"),
    _python("a socket of packets with a path", "socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)"
            ".sendto(b'x', '{out}/run/packets')\nprint('ESCAPED')"),
    _python("a pair of packet sockets that reaches a path", "a, b = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)\n"
            "a.sendto(b'x', '{out}/run/packets')\nprint('ESCAPED')"),
    _python("a pair of packet sockets that reaches an abstract one",
            "a, b = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC)\n"
            "a.sendto(b'x', '\\0hermes-escape-packets-{tag}')\nprint('ESCAPED')"),
    _python("a pair of raw sockets", "a, b = socket.socketpair(socket.AF_UNIX, socket.SOCK_RAW)\n"
            "a.sendto(b'x', '{out}/run/packets')\nprint('ESCAPED')"),
    _shell("the real docker socket", "[ -S /var/run/docker.sock ] && echo ESCAPED", open=False, weak=False),
    _shell("the real podman socket", "[ -S /run/podman/podman.sock ] && echo ESCAPED", open=False, weak=False),
    _shell("the real bus", "[ -S /run/dbus/system_bus_socket ] && echo ESCAPED", open=False, weak=False),
    _shell("the real bus of a person", "ls /run/user/*/bus && echo ESCAPED", open=False, weak=False),
    _connects("the machine's loopback", "AF_INET", "('127.0.0.1', {port})"),
    _connects("the machine's loopback by its other name", "AF_INET6", "('::ffff:127.0.0.1', {port})"),
    _connects("another address of the machine", "AF_INET", "('127.0.0.2', {port})"),
    _shell("by the shell's own sockets", "echo x > /dev/tcp/127.0.0.1/{port} && echo ESCAPED"),
    _python("a packet to the machine", "socket.socket(socket.AF_INET, socket.SOCK_DGRAM)"
            ".sendto(b'x', ('127.0.0.1', {udp}))", open=False),
    _python("a question to the name server", "import socket\ns = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)\n"
            "s.connect(('192.0.2.53', 53))\nprint('ESCAPED')", open=False),
    _python("a name", "socket.getaddrinfo('escape.invalid.example', 80)\nprint('ESCAPED')", open=False),
    _python("raw packets", "socket.socket(socket.AF_PACKET, socket.SOCK_RAW)\nprint('ESCAPED')", open=False),
    _python("the hypervisor", "socket.socket(40, socket.SOCK_STREAM)\nprint('ESCAPED')", open=False),
    _python("the kernel's own ciphers", "socket.socket(38, socket.SOCK_SEQPACKET)\nprint('ESCAPED')", open=False),
    _shell("other network cards", "grep -q eth /proc/net/dev && echo ESCAPED", open=False, weak=False),
)  # fmt: skip
PROCESSES = (
    _shell("a signal to a process of the machine", "kill -USR1 {victim} && echo ESCAPED"),
    _shell("a signal to the gateway", "kill -0 {gateway} && echo ESCAPED"),
    _shell("seeing processes of the machine", "[ -d /proc/{victim} ] && echo ESCAPED", weak=False),
    _python("the priority of the gateway",
            "os.setpriority(os.PRIO_PROCESS, {gateway}, os.getpriority(os.PRIO_PROCESS, {gateway}))\n"
            "print('ESCAPED')"),
    _python("the processors of another process",
            "os.sched_setaffinity({victim}, os.sched_getaffinity(0))\nprint('ESCAPED')"),
    _python("the limits of another process", "import resource\n"
            "resource.prlimit({victim}, resource.RLIMIT_NOFILE, (4, 4))\nprint('ESCAPED')"),
    _python("the limits of the gateway", "import resource\nmost = resource.prlimit({gateway}, resource.RLIMIT_RSS)\n"
            "resource.prlimit({gateway}, resource.RLIMIT_RSS, most)\nprint('ESCAPED')"),
    _calls("tracing a process", "ptrace", "16, {victim}, 0, 0", open=False),
    _calls("tracing its runner", "ptrace", "16, os.getppid(), 0, 0", open=False),
    _calls("reading another's memory", "process_vm_readv", "{victim}, 0, 0, 0, 0, 0", open=False),
    _calls("taking a descriptor", "pidfd_getfd", "3, 0, 0", open=False),
    _python("its runner's memory", "os.open(f'/proc/{{os.getppid()}}/mem', os.O_RDWR)\n"
            "pid = int(open(f'/proc/{{os.getppid()}}/stat').read().split()[3])\n"
            "os.open(f'/proc/{{pid}}/mem', os.O_RDWR)\nprint('ESCAPED')", open=False),
    _shell("shared memory of the machine", "ipcs -m | grep -q {shared} && echo ESCAPED", open=False, weak=False),
    _python("attaching shared memory of the machine", "n = libc.shmget({shared}, 0, 0)\n"
            "print('ESCAPED' if n != -1 else 'refused')"),
)  # fmt: skip
KERNEL = (
    _calls("a new user namespace", "unshare", "0x10000000"),
    _calls("a new mount namespace", "unshare", "0x00020000", open=False),
    _calls("a namespace by clone", "clone", "0x10000000 | 17, 0, 0, 0, 0", open=False),
    _calls("a namespace by clone3", "clone3", "0, 0", open=False),
    _calls("entering a namespace", "setns", "os.open('/proc/self/ns/net', 0), 0", open=False),
    _shell("unshare, the program", "unshare -Ur true && echo ESCAPED", open=False),
    _shell("a mount", "mount -t tmpfs none /workspace && echo ESCAPED", open=False),
    _calls("a mount by the new calls", "fsopen", "b'tmpfs', 0", open=False),
    _calls("moving the root", "pivot_root", "b'.', b'.'", open=False),
    _calls("another root", "chroot", "b'/usr'", open=False),
    _calls("a handle past all paths", "open_by_handle_at", "-100, 0, 0", open=False),
    _calls("kernel keys", "keyctl", "0, -3, 1", open=False),
    _calls("a program for the kernel", "bpf", "0, 0, 0", open=False),
    _calls("counters of the processor", "perf_event_open", "0, 0, -1, -1, 0", open=False),
    _calls("faults handled by itself", "userfaultfd", "1", open=False),
    _calls("calls behind the filter", "io_uring_setup", "8, ctypes.create_string_buffer(120)", open=False),
    _calls("a module", "init_module", "0, 0, b''", open=False),
    _calls("another kernel", "kexec_load", "0, 0, 0, 0", open=False),
    _calls("the clock", "settimeofday", "0, 0", open=False),
    _calls("the machine's name", "sethostname", "os.uname().nodename.encode(), len(os.uname().nodename)", open=False),
    _shell("where core files go", "(: >> /proc/sys/kernel/core_pattern) && echo ESCAPED", open=False),
    _shell("a key of the system", "(: >> /proc/sysrq-trigger) && echo ESCAPED", open=False),
    _shell("a control group", "mkdir /sys/fs/cgroup/escape-{tag} && echo ESCAPED", open=False),
    _shell("rights by a program", "cp /bin/sh own-sh; chmod u+s own-sh; su -c true root </dev/null && echo ESCAPED",
           open=False),
    _shell("rights at all", "grep -q 'CapEff:.*[1-9a-f]' /proc/self/status && echo ESCAPED", open=False),
    _shell("new privileges", "grep -q 'NoNewPrivs:.*0' /proc/self/status && echo ESCAPED", open=False),
    _shell("no filter", "grep -q 'Seccomp:.*0' /proc/self/status && echo ESCAPED", open=False),
    _python("typing into a terminal", "import fcntl\nfcntl.ioctl(0, 0x5412, b'x')\nprint('ESCAPED')", open=False),
)  # fmt: skip
SHARED = (
    _python("the priority of all processes of the user",
            "os.setpriority(os.PRIO_USER, 0, os.getpriority(os.PRIO_PROCESS, 0))\nprint('ESCAPED')"),
    _python("a queue of the machine", "n = libc.mq_open(b'/hermes-escape-{tag}', 0o100, 0o600, None)\n"
            "libc.mq_unlink(b'/hermes-escape-{tag}')\nprint('ESCAPED' if n != -1 else 'refused')"),
    _python("new shared memory", "n = libc.shmget(0, 4096, 0o600)\nlibc.shmctl(n, 0, 0)\n"
            "print('ESCAPED' if n != -1 else 'refused')"),
)  # fmt: skip
"""Out of a sandbox that shares the machine's objects; in one that has its own, they are harmless."""
ATTEMPTS = (*FILES, *SOCKETS, *PROCESSES, *KERNEL)
