"""What programs do by themselves: deleting, formatting, installing, sending, stopping.

What can be told from a program's words alone is a row of the table; what needs more is a function."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from hermes.agent.danger import code, names
from hermes.agent.danger.paths import delete_fault, holds_home
from hermes.agent.danger.shell.expand import UNKNOWN, to_plain

if TYPE_CHECKING:
    from hermes.agent.danger.judge import ShellCall

_CODE_KEYS = re.compile(
    r"(alias\..*|core\.(sshcommand|fsmonitor|hookspath|pager|editor|askpass|gitproxy)|credential\..*helper"
    r"|diff\..*|difftool\..*|merge\..*|filter\..*|pager\..*|gpg\..*program|protocol\..*|sequence\.editor|uploadpack\..*)"
    r"(=.*)?",
    re.IGNORECASE,
)
_LOCAL = re.compile(r"(https?://)?(localhost|127\.[\d.]+|\[::1\]|0\.0\.0\.0)([:/].*)?")
_METADATA = re.compile(
    r"169\.254\.169\.254|metadata\.google|100\.100\.100\.200|fd00:ec2|2852039166|0xa9fea9fe"
)


def _git(call: ShellCall) -> None:
    args = list(call.plain_args)
    while args and args[0].startswith("-"):
        option = args.pop(0)
        if (
            option in ("-C", "-c", "--git-dir", "--work-tree", "--namespace", "--exec-path", "--config-env")
            and args
        ):
            value = args.pop(0)
            if option in ("-c", "--config-env") and _CODE_KEYS.fullmatch(value):
                call.find("git.code")
    if not args:
        return
    verb, rest = args[0], args[1:]
    if UNKNOWN in verb:
        call.find("run.unknown")
    given = _Git(
        options="".join(arg[1:] for arg in rest if re.fullmatch(r"-[A-Za-z]+", arg)),
        words=[arg for arg in rest if not arg.startswith("-")],
        flags={arg.partition("=")[0] for arg in rest if arg.startswith("--")},
    )
    faults = _FAULTS[verb](given) if verb in _FAULTS else {}
    for rule in (rule for rule, found in faults.items() if found):
        call.find(rule)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Git:
    """The words behind a git verb, sorted."""

    options: str
    words: list[str]
    flags: set[str]

    @property
    def first(self) -> str:
        return self.words[0] if self.words else ""

    @property
    def whole(self) -> bool:
        return any(word in (".", "*", ":/", "./") for word in self.words)

    def has(self, letter: str, *flags: str) -> bool:
        return (bool(letter) and letter in self.options) or not self.flags.isdisjoint(flags)


def _push(given: _Git) -> dict[str, bool]:
    forced = given.has("f", "--force", "--force-with-lease", "--force-if-includes", "--mirror")
    removed = given.has("d", "--delete", "--prune") or any(word[:1] in ("+", ":") for word in given.words[1:])
    address = any(re.match(r"\w+://|[\w.-]+@[\w.-]+:", word) for word in given.words)
    return {"git.force": forced or removed, "git.push": address}


def _config(given: _Git) -> dict[str, bool]:
    reading = given.has("l", "--get", "--list", "--get-all", "--get-regexp") or len(given.words) < 2
    wide = given.has("", "--global", "--system") and given.first not in ("user.name", "user.email")
    code = _CODE_KEYS.fullmatch(given.first) is not None
    return {"git.code": code and not reading, "write.startup": wide and not reading}


def _fetch(given: _Git) -> dict[str, bool]:
    foreign = any(word.startswith(("ext::", "fd::")) for word in given.words)
    return {"git.code": foreign or given.has("u", "--upload-pack", "--config")}


_VERBS: dict[str, Callable[[_Git], dict[str, bool]]] = {
    # What may lose work that is not committed, or that exists only here.
    "reset": lambda given: {"git.discard": given.has("", "--hard", "--merge", "--keep")},
    "clean": lambda given: {"git.discard": given.has("f", "--force") and not given.has("n", "--dry-run")},
    "branch": lambda given: {"git.discard": given.has("D") or {"--force", "--delete"} <= given.flags},
    "checkout": lambda given: {"git.discard": given.whole or given.has("f", "--force")},
    "restore": lambda given: {"git.discard": given.whole and not given.has("S", "--staged")},
    "switch": lambda given: {"git.discard": given.has("f", "--discard-changes", "--force")},
    "stash": lambda given: {"git.discard": given.first in ("drop", "clear")},
    "worktree submodule": lambda given: {
        "git.discard": given.has("f", "--force"),
        "git.code": given.first == "foreach",
    },
    "rm": lambda given: {"delete.everything": given.whole or (given.has("r") and given.has("f"))},
    # What may lose or send away what is committed, or run something else.
    "push": _push,
    "filter-branch filter-repo replace fast-import prune": lambda given: {"git.rewrite": True},
    "reflog": lambda given: {"git.rewrite": given.first in ("expire", "delete")},
    "gc": lambda given: {"git.rewrite": given.has("", "--prune")},
    "update-ref symbolic-ref": lambda given: {"git.rewrite": given.has("d", "--delete")},
    "rebase": lambda given: {"git.rewrite": given.has("", "--root"), "git.code": given.has("x", "--exec")},
    "config": _config,
    "bisect": lambda given: {"git.code": given.first == "run"},
    "clone fetch pull ls-remote": _fetch,
}
_FAULTS = names.by_name(_VERBS)


def _web(call: ShellCall) -> None:
    """curl, wget: what leaves with the request."""
    args = call.plain_args
    addresses = [arg for arg in args if re.match(r"(\w+://|[\w-]+(\.[\w-]+)+(/|$|:))", arg)]
    local = bool(addresses) and all(_LOCAL.fullmatch(address) for address in addresses)
    if any(_METADATA.search(arg) for arg in args):
        call.find("net.metadata")
    if any(re.match("--(abstract-)?unix-socket", arg) for arg in args):
        call.find("net.socket")
    for i, arg in enumerate(args):
        option, glued, value = arg.partition("=")
        value = value if glued else args[i + 1] if i + 1 < len(args) else ""
        if _sends_file(call.name, option, value, arg) and not local:
            call.find("net.upload")
        if option in ("-K", "--config") or (call.name == "wget" and option in ("--use-askpass", "-e")):
            call.find("run.unknown")
    if any(UNKNOWN in arg for arg in call.args) and not local:
        sending = any(
            arg.startswith(("-d", "--data", "-F", "--form", "--post-data", "-H", "--header")) for arg in args
        )
        if sending or any(UNKNOWN in address for address in addresses):
            call.find("net.upload")


_SENDING = names.names("-F --form -d --data --data-binary --data-raw --data-urlencode --json")


def _sends_file(name: str, option: str, value: str, arg: str) -> bool:
    if name == "curl":
        if option in ("-T", "--upload-file") or re.fullmatch(r"-\w*T", option):
            return True
        if option in _SENDING:
            named = re.match(r"@|.*(=@|=<)", value, re.DOTALL) is not None
            return "@" in value and (named or option == "-F")
        return re.match(r"-[dF]@|-F\w+=@", arg) is not None
    return option in ("--post-file", "--body-file")


def _raw_connection(call: ShellCall) -> None:
    args = call.args
    if call.name in ("nc", "ncat", "netcat"):
        options = "".join(arg[1:] for arg in args if re.fullmatch(r"-[A-Za-z]+", arg))
        if "z" not in options or call.feed is not None or {"e", "c", "l", "U"} & set(options):
            call.find("net.socket")
    elif call.name == "openssl":
        if args[:1] == ["s_client"] and call.feed is not None and call.feed.text is None:
            call.find("net.socket")
    else:
        call.find("net.socket")


_ELSEWHERE = re.compile(r"([\w.-]+@)?[\w.-]+::?[^\\]|rsync://|\w[\w.-]+:|.*:\Z", re.DOTALL)


def _copy_away(call: ShellCall) -> None:
    there = [_ELSEWHERE.match(to_plain(word)) is not None for word in call.words]
    if there and (there[-1] or call.name in ("sftp", "ftp", "tftp")):
        call.find("net.upload")
    if any(
        arg in ("-e", "--rsh") or arg.startswith(("-oProxyCommand", "--rsync-path", "--rsh="))
        for arg in call.args
    ):
        call.find("run.unknown")
    if call.name == "rsync" and any(arg.startswith("--delete") for arg in call.args):
        call.find("delete.unknown")


def ssh(call: ShellCall) -> None:
    if set(call.args) & {"-V", "-G", "-Q"}:
        return
    call.find("run.remote")
    for arg, next_ in call.walk("-b -c -D -E -e -F -I -i -J -L -l -m -O -o -p -Q -R -S -W -w"):
        if not arg.startswith("-"):
            call.read(call.args[next_:])
            return


def _containers(call: ShellCall) -> None:
    words = call.words
    if call.name in ("docker", "podman", "nerdctl") and words[:1] and words[0] in names.CONTAINER_KINDS:
        words = words[1:]
    if words and words[0] not in names.CONTAINER_READING:
        call.find("container")


def _add_key(call: ShellCall) -> None:
    if call.args and call.args[0] not in ("-l", "-L"):
        call.find("write.ssh")


JUNK = re.compile(
    r"(\*?\.(pyc|pyo|tmp|log|bak|swp|swo|o|obj|orig|rej|class|DS_Store)|\*~|__pycache__|\.DS_Store"
    r"|\.(pytest|mypy|ruff)_cache|\*/__pycache__/?\*?|Thumbs\.db)"
)


Find = Callable[["ShellCall"], None]
Rows = Sequence[tuple[str, Find]]


def find_effects(call: ShellCall) -> None:
    for find in _TABLE.get(_MAKES_DISKS.sub("mkfs", call.name), ()):
        find(call)


def breaks(rule: str, when: str = "", unless: str = "") -> Find:
    """Breaks a rule by its words alone: one of them is like `when`, and none like `unless`."""
    wanted, excused = re.compile(when, re.DOTALL), re.compile(unless, re.DOTALL)

    def find(call: ShellCall) -> None:
        words = call.plain_args
        if when and not any(map(wanted.fullmatch, words)):
            return
        if not unless or not any(map(excused.fullmatch, words)):
            call.find(rule)

    return find


def _bundle(letters: str) -> str:
    """Short options, alone or bundled, with one of these letters among them."""
    return f"-[A-Za-z0-9]*[{letters}][A-Za-z0-9]*"


def begins_like(rule: str, beginning: str) -> Find:
    """Breaks a rule if its words that are not options begin like this."""
    pattern = re.compile(beginning)

    def find(call: ShellCall) -> None:
        if pattern.match(" ".join(map(to_plain, call.words))):
            call.find(rule)

    return find


def writes(options: str) -> Find:
    """Writes whatever it has to what stands behind one of these options."""

    def find(call: ShellCall) -> None:
        for target in call.values_of(*options.split()):
            if target != "-":
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
    named += call.values_of("-t")
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
    options = names.DOWNLOAD_TARGETS - ({"-O"} if call.name == "curl" else set())
    for target in call.values_of(*options):
        if target != "-":
            call.judge.check_write(target)
    remote_name = (call.name == "curl" and re.search("O", _options(call))) or call.name == "wget"
    if remote_name:
        for arg in _operands(call):
            if "/" in arg and UNKNOWN not in arg:
                call.judge.check_write("./" + to_plain(arg).partition("?")[0].rpartition("/")[2])


# --- the machine ---


def _packages(call: ShellCall) -> None:
    verb = next(iter(_operands(call)), "")
    if verb and verb not in names.PACKAGE_READING and "--version" not in call.args:
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
    if not call.args or not set(call.args) <= names.SYSTEM_READING:
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
    ground = call.judge.place.ground
    for path in map(call.judge.path, call.values_of("-d", "--directory")):
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
    ("shred wipe srm", breaks("delete.unknown")),
    ("cp mv ln install rsync scp", _write_last),
    ("tee touch truncate mkdir sponge", _write_all),
    ("sed gsed", code.sed),
    ("dd", _copy_blocks),
    (_RIGHTS, breaks("rights.recursive", _bundle("R") + "|--recursive")),
    ("chown chgrp chattr setfacl", breaks("rights.owner")),
    ("chmod", _modes),
    (
        "fdisk sfdisk cfdisk gdisk sgdisk parted wipefs blkdiscard mke2fs mkfs badblocks format diskpart"
        " hdparm",
        breaks("disk.format", unless="-l|--list|-h|--help|--version|print"),
    ),
    (
        "mount umount losetup swapon swapoff cryptsetup lvremove vgremove pvremove lvcreate zpool zfs mdadm"
        " dmsetup fsck diskutil",
        breaks("disk.change", r"(?!(-l|-a|-j|status|list|-V|--version)$).*"),
    ),
    ("curl wget", _download_target),
    (
        _UNPACKING,
        breaks("run.unknown", "(--to-command|--checkpoint-action|--use-compress-program|-I).*"),
    ),
    (_UNPACKING, writes("-C --directory -d")),
    (_UNPACKING, breaks("write.system", "-P|--absolute-names")),
    (
        "pip pip3 pipx npm yarn pnpm gem cargo uv cpan cpanm composer conda mamba go poetry",
        _language_packages,
    ),
    (
        "apt apt-get aptitude yum dnf zypper apk brew snap flatpak port pkg choco winget scoop",
        _packages,
    ),
    ("dpkg", breaks("package.change", _bundle("irPeUF"), unless=_bundle("q"))),
    ("rpm", breaks("package.change", _bundle("ieUF"), unless=_bundle("q"))),
    ("pacman", breaks("package.change", _bundle("SRU"), unless=_bundle("si"))),
    ("nix-env emerge xbps-install", breaks("package.change", ".*")),
    (
        "systemctl service launchctl rc-service supervisorctl initctl sc rc-update update-rc.d chkconfig pm2",
        _services,
    ),
    ("shutdown reboot halt poweroff", breaks("power", unless="--help|-c|--version")),
    ("init telinit", breaks("power", "[016sS]")),
    (
        "useradd userdel usermod groupadd groupdel adduser deluser passwd chpasswd visudo vipw chsh iptables"
        " ip6tables nft firewall-cmd insmod rmmod modprobe setenforce update-alternatives ldconfig"
        " grub-install update-grub efibootmgr networksetup scutil csrutil spctl setcap kexec depmod",
        _system,
    ),
    (
        "ip ifconfig route nmcli sysctl hostname hostnamectl timedatectl loginctl ufw defaults",
        breaks("system.change", names.SYSTEM_CHANGING),
    ),
    ("crontab at batch atrm systemd-run", breaks("write.schedule", unless="-l|-V")),
    ("kill killall pkill skill killall5", _kill),
    (
        "psql mysql mariadb sqlite3 mongo mongosh redis-cli dropdb dropuser mysqladmin clickhouse-client"
        " cqlsh sqlcmd duckdb",
        code.sql,
    ),
    ("history", breaks("history.erase", _bundle("cdw"))),
    ("journalctl", breaks("history.erase", "--(vacuum|rotate|flush).*")),
    ("dmesg", breaks("history.erase", "-C|-c|--clear")),
    ("wevtutil", breaks("history.erase")),
    ("gpg", breaks("read.secret", ".*--export-secret.*")),
    ("security", breaks("read.secret", "(find|dump|export).*")),
    ("secret-tool kwallet-query bw op vault pass", breaks("read.secret", ".+")),
    ("hermes", _agent),
    ("python-http.server", _web_server),
    (
        "vim vi nvim ex emacs ed less man",
        breaks("run.unknown", r"\+?:?!.*|.*(:!|system\(|:r!|call\s+system).*"),
    ),
    ("vim vi nvim view ex emacs", code.editor),
    ("gdb lldb", code.debugger),
    ("strace ltrace perf py-spy rbspy", breaks("process.control", r"-[A-Za-z]*p\d*|--(attach|pid).*")),
    ("gcore reptyr jattach", breaks("process.control", ".+")),
    ("prlimit ulimit", code.limits),
    (
        "bwrap proot nsjail schedtool chpst softlimit start-stop-daemon daemonize xterm rr",
        breaks("run.unknown"),
    ),
    ("man", breaks("run.unknown", "-[PH].*|--(pager|html).*")),
    ("zip", breaks("run.unknown", "-TT.*|--unzip-command.*")),
    ("enable", breaks("run.code", "-[a-z]*f.*")),
    ("hash", breaks("run.unknown", "-[a-z]*p.*")),
    ("bind", breaks("run.unknown", "-[a-z]*[xf].*")),
    ("fc", breaks("run.unknown", unless="-[a-z]*l[a-z]*")),
    (
        "tmux screen dtach abduco zellij",
        breaks("run.unknown", unless="-?-?(ls|list.*|has.*|kill.*|capture.*|version)|-V|-v|--help"),
    ),
    ("mail mailx sendmail mutt swaks", breaks("net.upload")),
    ("nmap tcpdump ngrok cloudflared bore chisel frpc", breaks("net.socket")),
    # Name look-ups and pings carry data out in the names.
    ("dig nslookup host ping", breaks("net.upload", f".*{UNKNOWN}.*")),
    ("ssh-copy-id", breaks("write.ssh")),
    ("ssh-keygen", writes("-f")),
    ("git", _git),
    ("curl wget", _web),
    ("nc ncat netcat socat telnet openssl", _raw_connection),
    ("scp rsync sftp ftp tftp", _copy_away),
    ("docker podman nerdctl docker-compose lxc ctr", _containers),
    (
        "kubectl helm oc",
        begins_like(
            "cluster",
            r"(delete|apply|create|replace|patch|drain|cordon|scale|edit|exec|rollout (restart|undo)|cp|run"
            r"|uninstall|upgrade|install|set|taint|label|annotate)\b",
        ),
    ),
    ("kubectl helm oc", begins_like("read.secret", r"get secrets?|config view")),
    (
        "terraform tofu pulumi",
        begins_like("cluster", r"(apply|destroy|import|taint|state (rm|mv|push)|up)\b"),
    ),
    ("ansible ansible-playbook", breaks("cluster")),
    (
        "aws gcloud az gsutil rclone s3cmd b2 mc doctl flyctl heroku",
        begins_like(
            "cluster",
            r"(?s).*\b(rm|rb|delete\S*|terminate\S*|destroy|put\S*|cp|mv|sync|copy|move|upload|create\S*|update\S*"
            r"|run\S*|deploy|purge|set\S*|attach\S*|get-secret\S*|get-session-token|print-access-token)\b",
        ),
    ),
    (
        "gh glab",
        begins_like(
            "cluster",
            r"gist create|release (upload|delete)|repo (delete|edit)|secret|auth token|ssh-key|gpg-key"
            r"|workflow run|api .*(DELETE|PUT|POST|PATCH)",
        ),
    ),
    ("ssh-add", _add_key),
)


_TABLE: dict[str, list[Find]] = {}
for _programs, _find in _ROWS:
    for _name in _programs.split():
        _TABLE.setdefault(_name, []).append(_find)
