"""What programs do by themselves: deleting, formatting, installing, sending, stopping.

What can be told from a program's words alone is a row of the table; what needs more is a function."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from hermes.agent.danger import names, remote, scripts
from hermes.agent.danger.paths import delete_fault, holds_home
from hermes.agent.danger.shell.expand import UNKNOWN, to_plain

if TYPE_CHECKING:
    from hermes.agent.danger.judge import ShellCall

JUNK = re.compile(
    r"(\*?\.(pyc|pyo|tmp|log|bak|swp|swo|o|obj|orig|rej|class|DS_Store)|\*~|__pycache__|\.DS_Store"
    r"|\.(pytest|mypy|ruff)_cache|\*/__pycache__/?\*?|Thumbs\.db)"
)


Find = Callable[["ShellCall"], None]
Rows = Sequence[tuple[str, Find]]


def find_effects(call: ShellCall) -> None:
    for find in _TABLE.get(_MAKES_DISKS.sub("mkfs", call.name), ()):
        find(call)


def breaks_by_words(rule: str, when: str = "", unless: str = "") -> Find:
    """Breaks a rule by its words alone: one of them is like `when`, and none like `unless`."""
    wanted, excused = re.compile(when, re.DOTALL), re.compile(unless, re.DOTALL)

    def find(call: ShellCall) -> None:
        words = call.plain_args
        if when and not any(map(wanted.fullmatch, words)):
            return
        if not unless or not any(map(excused.fullmatch, words)):
            call.find(rule)

    return find


def writes(options: str) -> Find:
    """Writes whatever it has to what stands behind one of these options."""

    def find(call: ShellCall) -> None:
        for option, target in zip(call.args, call.args[1:], strict=False):
            if option in options.split() and target != "-":
                call.judge.check_write(target)
                _fills(call, target)

    return find


def _fills(call: ShellCall, target: str) -> None:
    """Whole folders are written there: they may bring a home of Hermes along."""
    if holds_home(call.judge.path(target), call.judge.place):
        call.find("write.agent")


def takes_whole(when: str = "", *, here: bool = False) -> Find:
    """Reads whole folders if one of the words is like `when`: the homes in them too. `here`: with no folder
    named, it reads the one it stands in."""
    wanted = re.compile(when, re.DOTALL)

    def find(call: ShellCall) -> None:
        if when and not any(map(wanted.fullmatch, call.plain_args)):
            return
        operands = _operands(call)
        places = [*operands, "."] if here and len(operands) < 2 else operands
        if any(holds_home(call.judge.path(place), call.judge.place) for place in places):
            call.find("read.home")

    return find


def _options(call: ShellCall) -> str:
    """The letters of all short options."""
    return "".join(arg[1:] for arg in call.args if re.fullmatch(r"-[A-Za-z0-9]+", arg))


def _operands(call: ShellCall) -> list[str]:
    found: list[str] = []
    ended = False
    for arg in call.args:
        if arg == "--":
            ended = True
        elif ended or not arg.startswith("-"):
            found.append(arg)
    return found


# --- files ---


def _delete(call: ShellCall) -> None:
    recursive = (call.name == "rm" and bool({"r", "R"} & set(_options(call)))) or "--recursive" in call.args
    if "--no-preserve-root" in call.args:
        call.find("delete.root")
    for target in _operands(call):
        fault = delete_fault(call.judge.path(target), call.judge.place, recursive=recursive)
        if fault:
            call.find(fault, to_plain(target))


def find_deletes(call: ShellCall, starts: list[str]) -> None:
    for start in starts or ["."]:
        fault = delete_fault(call.judge.path(start), call.judge.place, recursive=True)
        call.find(fault or "delete.everything", call.shown)


def _write_last(call: ShellCall) -> None:
    """cp, mv, ln, install …: the last operand is written; mv also removes the others."""
    operands = _operands(call)
    named = [arg.partition("=")[2] for arg in call.args if arg.startswith("--target-directory=")]
    for i, arg in enumerate(call.args[:-1]):
        if arg == "-t":
            named.append(call.args[i + 1])
    whole = re.search("[rRa]", _options(call)) or {"--recursive", "--archive"} & set(call.args)
    for target in named or operands[-1:]:
        call.judge.check_write(target)
        if whole:
            _fills(call, target)
        for source in operands[:-1]:
            if UNKNOWN not in target and UNKNOWN not in source:
                call.judge.check_write(f"{target.rstrip('/')}/{source.rstrip('/').rpartition('/')[2]}")
    if call.name == "mv":
        for source in operands[:-1]:
            fault = delete_fault(call.judge.path(source), call.judge.place, recursive=True)
            if fault and fault != "delete.unknown":
                call.find(fault, to_plain(source))


def _write_all(call: ShellCall) -> None:
    for target in _operands(call):
        call.judge.check_write(target)


def _modes(call: ShellCall) -> None:
    modes = [arg for arg in call.plain_args if re.fullmatch(r"[0-7]{3,5}|[-+=,ugoarwxXst]+", arg)]
    for mode in modes[:1]:
        others_write = re.fullmatch(r"0*[0-7]{2}[2367]", mode) or (
            re.search(r"(^|,)(a|[ug]*o[ug]*|)[+=][rxX]*w", mode) and not re.match(r"[ug]+[+=]", mode)
        )
        if others_write or re.fullmatch(r"0*[2-7][0-7]{3}", mode) or re.search(r"[+=][rwx]*s", mode):
            call.find("rights.open")
    for target in call.args:
        if to_plain(target) not in modes[:1] and not target.startswith("--"):
            call.judge.check_write(target, fresh=False)


def _download_target(call: ShellCall) -> None:
    for i, arg in enumerate(call.args[:-1]):
        if arg in ("-o", "-O", "--output", "--output-document", "-P", "--directory-prefix") and not (
            call.name == "curl" and arg == "-O"
        ):
            target = call.args[i + 1]
            if target != "-":
                call.judge.check_write(target)
    remote_name = (call.name == "curl" and re.search("O", _options(call))) or call.name == "wget"
    if remote_name:
        for arg in _operands(call):
            if "/" in arg and UNKNOWN not in arg:
                call.judge.check_write("./" + to_plain(arg).partition("?")[0].rpartition("/")[2])


# --- the machine ---


def _packages(call: ShellCall) -> None:
    words = _operands(call)
    verb = words[0] if words else ""
    options = _options(call)
    if call.name in ("dpkg", "rpm"):
        if re.search("[irPeUF]" if call.name == "dpkg" else "[ieUF]", options) and "q" not in options:
            call.find("package.change")
    elif call.name == "pacman":
        if re.search("[SRU]", options) and not re.search("s|i", options):
            call.find("package.change")
    elif verb and verb not in names.PACKAGE_READING and "--version" not in call.args:
        call.find("package.change")
    elif call.name in ("nix-env", "emerge", "xbps-install") and call.args:
        call.find("package.change")


_EVERYWHERE = re.compile(r"-g|--global|--location=global|--break-system-packages")
_FOREIGN = re.compile(
    r"--(extra-)?index-url|--trusted-host|--registry|-i|-f|--find-links|git\+|https?://|ssh://|git@|file:"
)


def _language_packages(call: ShellCall) -> None:
    words = [to_plain(arg) for arg in _operands(call)]
    verb = next((word for word in words if word not in ("pip", "tool", "cargo")), "")
    if verb in names.PACKAGE_ADDING:
        if call.name in ("gem", "cpan", "cpanm") or any(map(_EVERYWHERE.fullmatch, call.args)):
            call.find("package.change")
        if any(map(_FOREIGN.match, call.plain_args)):
            call.find("package.foreign")
    elif verb in names.PACKAGE_REMOVING:
        call.find("package.change")
    elif verb in ("config", "set") and len(words) > 2:
        call.find("write.startup")


def _services(call: ShellCall) -> None:
    words = _operands(call)
    if set(words) & names.POWER_VERBS:
        call.find("power")
    elif words and not set(call.args) & names.SERVICE_READING:
        call.find("agent.self" if "hermes" in " ".join(words) else "service.change")


def _system(call: ShellCall) -> None:
    if call.name in names.SYSTEM_REPORTERS:
        if set(call.plain_args) & names.SYSTEM_CHANGING or any(
            re.match(r"[\w.]+=", arg) for arg in call.args
        ):
            call.find("system.change")
    elif not call.args or not set(call.args) <= names.SYSTEM_READING:
        call.find("system.change")


def _kill(call: ShellCall) -> None:
    if call.name in ("killall", "pkill", "skill", "killall5"):
        call.find("kill.all" if call.name == "killall5" else "kill.many")
        if re.search("hermes", call.shown):
            call.find("agent.self")
        return
    if {"-l", "-L"} & set(call.args) or call.args[:1] == ["-0"]:
        return
    targets = list(call.args)
    if targets and re.fullmatch(r"-[A-Za-z0-9]+", targets[0]) and len(targets) > 1:
        targets = targets[2:] if targets[0] in ("-s", "-n") else targets[1:]
    own = {str(pid) for pid in call.judge.place.own_pids}
    for target in targets:
        if target in ("-1", "1"):
            call.find("kill.all")
        elif target == "0":
            call.find("kill.many")
        elif target.lstrip("-") in own:
            call.find("agent.self")
        elif UNKNOWN in target:
            call.find("kill.many")


_CALM = re.compile(r"(status|version|help|doctor|config (path|check)|.*--help|-h|--version|-V)( .*)?")


def _agent(call: ShellCall) -> None:
    """Whoever runs `hermes` is its owner: all but a look at its state is the person's to allow."""
    if not _CALM.fullmatch(" ".join(call.plain_args)):
        call.find("agent.self")


def _processes(call: ShellCall) -> None:
    """`ps e` shows what other processes were started with, keys included; `ps -e` does not."""
    words = call.walk("-C -o -p -u -U -t -g -G -s -q -O --sort --format --pid --user")
    asked = any(re.fullmatch(r"[A-Za-z]*e[A-Za-z]*|-[A-Za-z]*E[A-Za-z]*", word) for word, _ in words)
    if asked or any("environ" in arg for arg in call.args):
        call.find("read.secret")


def _web_server(call: ShellCall) -> None:
    """Shares a folder with whoever can reach this machine: its own workspace is fine."""
    for option, value in zip(call.args, call.args[1:], strict=False):
        if option in ("-d", "--directory"):
            path = call.judge.path(value)
            ground = call.judge.place.ground
            if path is None or not ground or not (path + "/").startswith(ground + "/"):
                call.find("net.upload")


def _copy_blocks(call: ShellCall) -> None:
    for arg in call.args:
        if arg.startswith("of="):
            call.judge.check_write(arg[3:])


_MAKES_DISKS = re.compile(r"(mkfs\..+|mkswap|newfs.*)$")
_RIGHTS = "chmod chown chgrp chattr setfacl"
_UNPACKING = "tar bsdtar unzip cpio"
_RECURSES = r"-\w*[rRa]\w*|--(dereference-)?recursive|--archive|--directories=recurse|recurse"
_ROWS: Rows = (
    ("grep egrep fgrep zgrep diff", takes_whole(_RECURSES, here=True)),
    ("rg ag ack", takes_whole(here=True)),
    ("cp scp", takes_whole(_RECURSES)),
    (
        "rsync tar bsdtar zip 7z 7za 7zz rar pax cpio ln restic borg python-tarfile python-zipfile",
        takes_whole(),
    ),
    ("ps", _processes),
    ("rm unlink rmdir shred wipe srm", _delete),
    ("shred wipe srm", breaks_by_words("delete.unknown")),
    ("cp mv ln install rsync scp", _write_last),
    ("tee touch truncate mkdir sponge", _write_all),
    ("sed gsed", scripts.sed),
    ("dd", _copy_blocks),
    (_RIGHTS, breaks_by_words("rights.recursive", r"-[A-Za-z0-9]*R[A-Za-z0-9]*|--recursive")),
    ("chown chgrp chattr setfacl", breaks_by_words("rights.owner")),
    ("chmod", _modes),
    (
        "fdisk sfdisk cfdisk gdisk sgdisk parted wipefs blkdiscard mke2fs mkfs badblocks format diskpart"
        " hdparm",
        breaks_by_words("disk.format", unless="-l|--list|-h|--help|--version|print"),
    ),
    (
        "mount umount losetup swapon swapoff cryptsetup lvremove vgremove pvremove lvcreate zpool zfs mdadm"
        " dmsetup fsck diskutil",
        breaks_by_words("disk.change", r"(?!(-l|-a|-j|status|list|-V|--version)$).*"),
    ),
    ("curl wget", _download_target),
    (
        _UNPACKING,
        breaks_by_words("run.unknown", "(--to-command|--checkpoint-action|--use-compress-program|-I).*"),
    ),
    (_UNPACKING, writes("-C --directory -d")),
    (_UNPACKING, breaks_by_words("write.system", "-P|--absolute-names")),
    (
        "pip pip3 pipx npm yarn pnpm gem cargo uv cpan cpanm composer conda mamba go poetry",
        _language_packages,
    ),
    (
        "apt apt-get aptitude dpkg yum dnf rpm zypper pacman apk brew snap flatpak port emerge nix-env pkg"
        " xbps-install choco winget scoop",
        _packages,
    ),
    (
        "systemctl service launchctl rc-service supervisorctl initctl sc rc-update update-rc.d chkconfig pm2",
        _services,
    ),
    ("shutdown reboot halt poweroff", breaks_by_words("power", unless="--help|-c|--version")),
    ("init telinit", breaks_by_words("power", "[016sS]")),
    (
        "useradd userdel usermod groupadd groupdel adduser deluser passwd chpasswd visudo vipw chsh iptables"
        " ip6tables nft ufw firewall-cmd sysctl insmod rmmod modprobe ip ifconfig route nmcli hostname"
        " hostnamectl timedatectl setenforce update-alternatives ldconfig grub-install update-grub efibootmgr"
        " loginctl networksetup scutil csrutil spctl defaults setcap kexec depmod",
        _system,
    ),
    ("crontab at batch atrm systemd-run", breaks_by_words("write.schedule", unless="-l|-V")),
    ("kill killall pkill skill killall5", _kill),
    (
        "psql mysql mariadb sqlite3 mongo mongosh redis-cli dropdb dropuser mysqladmin clickhouse-client"
        " cqlsh sqlcmd duckdb",
        scripts.sql,
    ),
    ("history", breaks_by_words("history.erase", "-[A-Za-z0-9]*[cdw][A-Za-z0-9]*")),
    ("journalctl", breaks_by_words("history.erase", "--(vacuum|rotate|flush).*")),
    ("dmesg", breaks_by_words("history.erase", "-C|-c|--clear")),
    ("wevtutil", breaks_by_words("history.erase")),
    ("gpg", breaks_by_words("read.secret", ".*--export-secret.*")),
    ("security", breaks_by_words("read.secret", "(find|dump|export).*")),
    ("secret-tool kwallet-query bw op vault pass", breaks_by_words("read.secret", ".+")),
    ("hermes", _agent),
    ("python-http.server", _web_server),
    (
        "vim vi nvim ex emacs ed less man",
        breaks_by_words("run.unknown", r"\+?:?!.*|.*(:!|system\(|:r!|call\s+system).*"),
    ),
    ("vim vi nvim view ex emacs", scripts.editor),
    ("gdb lldb", scripts.debugger),
    (
        "strace ltrace perf py-spy rbspy",
        breaks_by_words("process.control", r"-[A-Za-z]*p\d*|--(attach|pid).*"),
    ),
    ("gcore reptyr jattach", breaks_by_words("process.control", ".+")),
    ("prlimit ulimit", scripts.limits),
    (
        "bwrap proot nsjail schedtool chpst softlimit start-stop-daemon daemonize xterm rr",
        breaks_by_words("run.unknown"),
    ),
    ("man", breaks_by_words("run.unknown", "-[PH].*|--(pager|html).*")),
    ("zip", breaks_by_words("run.unknown", "-TT.*|--unzip-command.*")),
    ("enable", breaks_by_words("run.code", "-[a-z]*f.*")),
    ("hash", breaks_by_words("run.unknown", "-[a-z]*p.*")),
    ("bind", breaks_by_words("run.unknown", "-[a-z]*[xf].*")),
    ("fc", breaks_by_words("run.unknown", unless="-[a-z]*l[a-z]*")),
    (
        "tmux screen dtach abduco zellij",
        breaks_by_words("run.unknown", unless="-?-?(ls|list.*|has.*|kill.*|capture.*|version)|-V|-v|--help"),
    ),
    ("mail mailx sendmail mutt swaks", breaks_by_words("net.upload")),
    ("nmap tcpdump ngrok cloudflared bore chisel frpc", breaks_by_words("net.socket")),
    # Name look-ups and pings carry data out in the names.
    ("dig nslookup host ping", breaks_by_words("net.upload", f".*{UNKNOWN}.*")),
    ("ssh-copy-id", breaks_by_words("write.ssh")),
    ("ssh-keygen", writes("-f")),
    *remote.ROWS,
)


def _by_name(rows: Rows) -> dict[str, list[Find]]:
    table: dict[str, list[Find]] = {}
    for row, find in rows:
        for name in row.split():
            table.setdefault(name, []).append(find)
    return table


_TABLE = _by_name(_ROWS)
