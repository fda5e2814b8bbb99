"""What programs do by themselves: deleting, formatting, installing, sending, stopping.

What can be told from a program's words alone is a row of a table; what needs more is a function."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import partial
from itertools import pairwise, takewhile
from typing import TYPE_CHECKING

from hermes.agent.danger import code
from hermes.agent.danger.shell.expand import UNKNOWN, to_plain
from hermes.domain.word import replace

if TYPE_CHECKING:
    from hermes.agent.danger.judge import ShellCall

Find = Callable[["ShellCall"], None]
Row = tuple[str, Find]
"""The programs it is about, and what finds the rules that they break."""

_LOCAL = re.compile(r"(https?://)?(localhost|127\.[\d.]+|\[::1\]|0\.0\.0\.0)([:/].*)?")
_METADATA = re.compile(
    r"169\.254\.169\.254|metadata\.google|100\.100\.100\.200|fd00:ec2|2852039166|0xa9fea9fe"
)
_PATTERNS = {
    "unknown": UNKNOWN,
    "packagers": "pip pip3 pipx npm yarn pnpm gem cargo uv cpan cpanm composer conda mamba go poetry",
    "installers": "apt apt-get aptitude yum dnf zypper apk brew snap flatpak port pkg choco winget scoop",
    "services": "systemctl service launchctl rc-service supervisorctl initctl sc rc-update update-rc.d"
    " chkconfig pm2",
    "gitcode": r"(?i-s:(alias\..*|core\.(sshcommand|fsmonitor|hookspath|pager|editor|askpass|gitproxy)"
    r"|credential\..*helper|diff\..*|difftool\..*|merge\..*|filter\..*|pager\..*|gpg\..*program|protocol\..*"
    r"|sequence\.editor|uploadpack\..*)(=.*)?)",
    "power": "poweroff|reboot|halt|kexec|suspend|hibernate|rescue",
    "calmservice": r"status|list-units|list-unit-files|is-active|is-enabled|show|cat|list|print|list-timers"
    r"|list-dependencies|is-failed|is-system-running|help|--status-all|--version",
    "calmcontainer": r"\Z|(ps|images|logs|inspect|version|info|stats|top|port|diff|history|search|events|ls"
    r"|list|build|config|context|help)\n",
    "adds": r"((pip|tool|cargo)\n)*(install|add|i|update|upgrade|ci)\n",
}
"""Parts of rows by the name that stands for them in the tables."""


def _rules(table: str, *, bundled: str = "A-Za-z0-9") -> Iterator[Row]:
    r"""Programs that break a rule by their words alone, a row each; an indented line continues a row.

    All conditions of a row have to hold: `starts` = its words without the options begin like this, `args` =
    all its words do (with `\n` behind each), `if` = one of its words is like this, `unless` = none is. `<xy>`
    means short options in one word with x or y among them, `{name}` a part that `_PATTERNS` has."""

    table = re.sub(r"<(\w+)>", rf"-[{bundled}]*[\1][{bundled}]*", table.strip())
    table = re.sub(r"\{([a-z]+)\}", lambda part: _PATTERNS[part[1]], table)
    rows = re.sub(r"\n +(\|?)", lambda gap: gap[1] or " ", table).splitlines()
    for row in (row for row in rows if not row.startswith("#")):
        programs, _, breach = row.partition(": ")
        rule, *conditions = re.split(" (starts|args|if|unless) ", breach)
        patterns = [re.compile(text, re.DOTALL) for text in conditions[1::2]]
        yield programs, partial(_find_rule, rule, list(zip(conditions[::2], patterns, strict=True)))


def _find_rule(rule: str, conditions: list[tuple[str, re.Pattern[str]]], call: ShellCall) -> None:
    words = call.plain_args
    for kind, pattern in conditions:
        if kind in ("starts", "args"):
            chosen = (word for word in words if kind == "args" or not word.startswith("-"))
            lines = "".join(word.replace("\n", " ") + "\n" for word in chosen)
            holds = pattern.match(lines) is not None
        else:
            holds = any(map(pattern.fullmatch, words)) is (kind == "if")
        if not holds:
            return
    call.find(rule)


def find_effects(call: ShellCall) -> None:
    for find in _TABLE.get(_MAKES_DISKS.sub("mkfs", call.name), ()):
        find(call)


def _options(call: ShellCall) -> str:
    """The letters of all short options."""
    return "".join(arg[1:] for arg in call.args if re.fullmatch(r"-[A-Za-z0-9]+", arg))


def _operands(call: ShellCall) -> list[str]:
    before = list(takewhile(lambda arg: arg != "--", call.args))
    behind = [arg for arg in call.args[len(before) :] if arg != "--"]
    return [arg for arg in before if not arg.startswith("-")] + behind


# --- files ---


def _reads_folders(when: str = "", *, here: bool = False) -> Find:
    """Reads whole folders if one of the words is like `when`: the homes in them too. `here`: with no folder
    named, it reads the one it stands in."""
    wanted = re.compile(when, re.DOTALL)

    def find(call: ShellCall) -> None:
        if when and not any(map(wanted.fullmatch, call.plain_args)):
            return
        operands = _operands(call)
        places = [*operands, "."] if here and len(operands) < 2 else operands
        if call.judge.holds_home(*places):
            call.find("read.home")

    return find


def _write_folder(call: ShellCall, target: str) -> None:
    """Whole folders are written there: they may bring a home of Hermes along."""
    call.judge.check_write(target)
    if call.judge.holds_home(target):
        call.find("write.agent")


def _unpacks_to(*options: str) -> Find:
    def find(call: ShellCall) -> None:
        for target in call.values_of(*options):
            if target != "-":
                _write_folder(call, target)

    return find


def _delete(call: ShellCall) -> None:
    recursive = (call.name == "rm" and bool({"r", "R"} & set(_options(call)))) or "--recursive" in call.args
    if "--no-preserve-root" in call.args:
        call.find("delete.root")
    for target in _operands(call):
        fault = call.judge.delete_fault(target, recursive=recursive)
        if fault:
            call.find(fault, to_plain(target))


def _write_last(call: ShellCall) -> None:
    """cp, mv, ln, install …: the last operand is written; mv also removes the others."""
    operands = _operands(call)
    named = [arg.partition("=")[2] for arg in call.args if arg.startswith("--target-directory=")]
    named += call.values_of("-t")
    whole = re.search("[rRa]", _options(call)) or {"--recursive", "--archive"} & set(call.args)
    write = partial(_write_folder, call) if whole else call.judge.check_write
    for target in named or operands[-1:]:
        write(target)
        for source in operands[:-1]:
            if UNKNOWN not in target and UNKNOWN not in source:
                call.judge.check_write(f"{target.rstrip('/')}/{source.rstrip('/').rpartition('/')[2]}")
    if call.name == "mv":
        for source in operands[:-1]:
            fault = call.judge.delete_fault(source)
            if fault and fault != "delete.unknown":
                call.find(fault, to_plain(source))


def _write_all(call: ShellCall) -> None:
    copied = [arg[3:] for arg in call.args if arg.startswith("of=")]
    for target in copied if call.name == "dd" else _operands(call):
        call.judge.check_write(target)


def _modes(call: ShellCall) -> None:
    modes = [arg for arg in call.plain_args if re.fullmatch(r"[0-7]{3,5}|[-+=,ugoarwxXst]+", arg)][:1]
    for mode in modes:
        others_write = re.fullmatch(r"0*[0-7]{2}[2367]", mode) or (
            re.search(r"(^|,)(a|[ug]*o[ug]*|)[+=][rxX]*w", mode) and not re.match(r"[ug]+[+=]", mode)
        )
        if others_write or re.fullmatch(r"0*[2-7][0-7]{3}", mode) or re.search(r"[+=][rwx]*s", mode):
            call.find("rights.open")
    for target in call.args:
        if to_plain(target) not in modes and not target.startswith("--"):
            call.judge.check_write(target, fresh=False)


# --- the network ---


def _download_target(call: ShellCall) -> None:
    curl = call.name == "curl"
    options = ("-o", "--output", "--output-document", "-P", "--directory-prefix", *(() if curl else ("-O",)))
    for target in call.values_of(*options):
        if target != "-":
            call.judge.check_write(target)
    if not curl or "O" in _options(call):
        for arg in _operands(call):
            if "/" in arg and UNKNOWN not in arg:
                call.judge.check_write("./" + to_plain(arg).partition("?")[0].rpartition("/")[2])


def _web(call: ShellCall) -> None:
    """curl, wget: what leaves with the request."""
    args = call.plain_args
    addresses = [arg for arg in args if re.match(r"(\w+://|[\w-]+(\.[\w-]+)+(/|$|:))", arg)]
    local = bool(addresses) and all(map(_LOCAL.fullmatch, addresses))
    if any(map(_METADATA.search, args)):
        call.find("net.metadata")
    if any(re.match("--(abstract-)?unix-socket", arg) for arg in args):
        call.find("net.socket")
    for arg, following in pairwise([*args, ""]):
        option, glued, value = arg.partition("=")
        if not local and _sends_file(call.name, option, value if glued else following, arg):
            call.find("net.upload")
        if option in ("-K", "--config") or (call.name == "wget" and option in ("--use-askpass", "-e")):
            call.find("run.unknown")
    if any(UNKNOWN in arg for arg in args) and not local:
        sending = ("-d", "--data", "-F", "--form", "--post-data", "-H", "--header")
        if any(arg.startswith(sending) for arg in args) or any(UNKNOWN in address for address in addresses):
            call.find("net.upload")


_SENDS = re.compile(r"-F|--form|-d|--data(-binary|-raw|-urlencode)?|--json")


def _sends_file(name: str, option: str, value: str, arg: str) -> bool:
    if name != "curl":
        return option in ("--post-file", "--body-file")
    if option == "--upload-file" or re.fullmatch(r"-\w*T", option):
        return True
    if _SENDS.fullmatch(option):
        named = re.match(r"@|.*(=@|=<)", value, re.DOTALL) is not None
        return "@" in value and (named or option == "-F")
    return re.match(r"-[dF]@|-F\w+=@", arg) is not None


def _send_feed(call: ShellCall) -> None:
    secured = call.name == "openssl"
    if call.feed is not None and (not secured or (call.args[:1] == ["s_client"] and call.feed.text is None)):
        call.find("net.socket")


def _web_server(call: ShellCall) -> None:
    """Shares a folder with whoever can reach this machine: its own workspace is fine."""
    ground = call.judge.place.ground
    for path in map(call.judge.path, call.values_of("-d", "--directory")):
        if path is None or not ground or not (path + "/").startswith(ground + "/"):
            call.find("net.upload")


# --- processes ---


def _kill(call: ShellCall) -> None:
    if {"-l", "-L"} & set(call.args) or call.args[:1] == ["-0"]:
        return
    targets = list(call.args)
    if targets and re.fullmatch(r"-[A-Za-z0-9]+", targets[0]) and len(targets) > 1:
        targets = targets[2:] if targets[0] in ("-s", "-n") else targets[1:]
    own = {str(pid) for pid in call.judge.place.own_pids}
    for target in targets:
        if target in ("-1", "1"):
            call.find("kill.all")
        elif target == "0" or UNKNOWN in target:
            call.find("kill.many")
        elif target.lstrip("-") in own:
            call.find("agent.self")


def _kill_by_name(call: ShellCall) -> None:
    call.find("kill.all" if call.name == "killall5" else "kill.many")
    if "hermes" in call.shown:
        call.find("agent.self")


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


# --- git ---


def _git(call: ShellCall) -> None:
    args = call.plain_args
    while args and args[0].startswith("-"):
        option = args.pop(0)
        if args and re.fullmatch("-[Cc]|--(git-dir|work-tree|namespace|exec-path|config-env)", option):
            value = args.pop(0)
            if option in ("-c", "--config-env") and re.fullmatch(_PATTERNS["gitcode"], value):
                call.find("git.code")
    if args:
        if UNKNOWN in args[0]:
            call.find("run.unknown")
        find_effects(replace(call, name=f"git/{args[0]}", args=args[1:]))


_GIT_RULES = r"""
# What may lose work that is not committed, or that exists only here.
git/reset: git.discard if --(hard|merge|keep)(=.*)?
git/clean: git.discard if <f>|--force(=.*)? unless <n>|--dry-run(=.*)?
git/branch: git.discard if <D>
git/branch: git.discard args (?=(.*\n)?--force[=\n])(.*\n)?--delete[=\n]
git/checkout: git.discard if \.|\*|:/|\./|<f>|--force(=.*)?
git/restore: git.discard if \.|\*|:/|\./ unless <S>|--staged(=.*)?
git/switch: git.discard if <f>|--(discard-changes|force)(=.*)?
git/stash: git.discard starts (drop|clear)\n
git/worktree git/submodule: git.discard if <f>|--force(=.*)?
git/worktree git/submodule: git.code starts foreach\n
git/rm: delete.everything if \.|\*|:/|\./
git/rm: delete.everything args (?=(.*\n)?<r>\n)(.*\n)?<f>\n
# What may lose or send away what is committed, or run something else.
git/push: git.force if <fd>|--(force|force-with-lease|force-if-includes|mirror|delete|prune)(=.*)?
git/push: git.force starts .*\n[+:]
git/push: git.push if (?!-)(\w+://|[\w.-]+@[\w.-]+:).*
git/filter-branch git/filter-repo git/replace git/fast-import git/prune: git.rewrite
git/reflog: git.rewrite starts (expire|delete)\n
git/gc: git.rewrite if --prune(=.*)?
git/update-ref git/symbolic-ref: git.rewrite if <d>|--delete(=.*)?
git/rebase: git.rewrite if --root(=.*)?
git/rebase: git.code if <x>|--exec(=.*)?
git/config: git.code starts {gitcode}\n. unless <l>|--(get|list|get-all|get-regexp)(=.*)?
git/config: write.startup starts (?!user\.(name|email)\n)[^\n]*\n. if --(global|system)(=.*)?
    unless <l>|--(get|list|get-all|get-regexp)(=.*)?
git/bisect: git.code starts run\n
git/clone git/fetch git/pull git/ls-remote: git.code if (ext|fd)::.*|<u>|--(upload-pack|config)(=.*)?
"""
_RULES = r"""
shred wipe srm: delete.unknown
chmod chown chgrp chattr setfacl: rights.recursive if <R>|--recursive
chown chgrp chattr setfacl: rights.owner
fdisk sfdisk cfdisk gdisk sgdisk parted wipefs blkdiscard mke2fs mkfs badblocks format diskpart hdparm:
    disk.format unless -l|--list|-h|--help|--version|print
mount umount losetup swapon swapoff cryptsetup lvremove vgremove pvremove lvcreate zpool zfs mdadm dmsetup
    fsck diskutil: disk.change if (?!(-l|-a|-j|status|list|-V|--version)$).*
tar bsdtar unzip cpio: run.unknown if (--to-command|--checkpoint-action|--use-compress-program|-I).*
{packagers}: package.change starts {adds} if -g|--global|--location=global|--break-system-packages
gem cpan cpanm: package.change starts {adds}
{packagers}: package.foreign starts {adds}
    if (--(extra-)?index-url|--trusted-host|--registry|-i|-f|--find-links|git\+|https?://|ssh://|git@|file:).*
{packagers}: package.change starts ((pip|tool|cargo)\n)*(uninstall|remove|rm|publish|unpublish|login|adduser
    |yank|token|owner)\n
{packagers}: write.startup starts (?=([^\n]*\n){3})((pip|tool|cargo)\n)*(config|set)\n
{installers}: package.change args (-[^\n]*\n)*?--\n- unless --version
{installers}: package.change
    starts (?!(|list|search|show|info|policy|outdated|query|contents|depends|help|why|files)\n)
    args (.*\n)?(--\n.|[^-]) unless --version
dpkg: package.change if <irPeUF> unless <q>
rpm: package.change if <ieUF> unless <q>
pacman: package.change if <SRU> unless <si>
nix-env emerge xbps-install: package.change if .*
{services}: power if {power}
{services}: agent.self starts .*hermes unless {power}|{calmservice}
{services}: service.change starts (?!.*hermes) args (.*\n)?(--\n.|[^-]) unless {power}|{calmservice}
shutdown reboot halt poweroff: power unless --help|-c|--version
init telinit: power if [016sS]
useradd userdel usermod groupadd groupdel adduser deluser passwd chpasswd visudo vipw chsh iptables ip6tables
    nft firewall-cmd insmod rmmod modprobe setenforce update-alternatives ldconfig grub-install update-grub
    efibootmgr networksetup scutil csrutil spctl setcap kexec depmod: system.change
    args (?!((-l|-L|--list|list|show|status|-S|-a|--help|--version|-n|-nL|-v)\n)+\Z)
ip ifconfig route nmcli sysctl hostname hostnamectl timedatectl loginctl ufw defaults: system.change
    if set|add|del|delete|flush|down|up|-w|change|replace|-s|--set|enable|disable|allow|deny|reset
    |set-hostname|set-time|write|-p|kill-session|terminate-user|-f|connection|reload|[\w.]+=.*
crontab at batch atrm systemd-run: write.schedule unless -l|-V
history: history.erase if <cdw>
journalctl: history.erase if --(vacuum|rotate|flush).*
dmesg: history.erase if -C|-c|--clear
wevtutil: history.erase
gpg: read.secret if .*--export-secret.*
security: read.secret if (find|dump|export).*
secret-tool kwallet-query bw op vault pass: read.secret if .+
vim vi nvim ex emacs ed less man: run.unknown if \+?:?!.*|.*(:!|system\(|:r!|call\s+system).*
strace ltrace perf py-spy rbspy: process.control if -[A-Za-z]*p\d*|--(attach|pid).*
gcore reptyr jattach: process.control if .+
# An agent's processes are known by a limit of theirs (`-m`, RSS).
ulimit: process.control args [^\n]*\n. if -[a-zA-Z]*m\w*
prlimit: process.control if -m.+|--rs?s?=.+
prlimit: process.control args (.*\n)?--?p if -[^po-].+|--(?!pid|out)\w+=.+
bwrap proot nsjail schedtool chpst softlimit start-stop-daemon daemonize xterm rr: run.unknown
man: run.unknown if -[PH].*|--(pager|html).*
zip: run.unknown if -TT.*|--unzip-command.*
enable: run.code if -[a-z]*f.*
hash: run.unknown if -[a-z]*p.*
bind: run.unknown if -[a-z]*[xf].*
fc: run.unknown unless -[a-z]*l[a-z]*
tmux screen dtach abduco zellij: run.unknown
    unless -?-?(ls|list.*|has.*|kill.*|capture.*|version)|-V|-v|--help
mail mailx sendmail mutt swaks: net.upload
nmap tcpdump ngrok cloudflared bore chisel frpc: net.socket
# Name look-ups and pings carry data out in the names.
dig nslookup host ping: net.upload if .*{unknown}.*
ssh-copy-id: write.ssh
ssh-add: write.ssh args (?!-[lL]\n).
make: run.unknown if (SHELL=|--eval).*
make: run.unknown args (?=(.*\n)?-f\n)(.*\n)?-\n
nc ncat netcat: net.socket unless -[A-Za-z]*z[A-Za-z]*
nc ncat netcat: net.socket if -[A-Za-z]*[eclU][A-Za-z]*
socat telnet: net.socket
sftp ftp tftp: net.upload starts .
scp rsync: net.upload
    starts (.*\n)?((([\w.-]+@)?[\w.-]+::?[^\\\n]|rsync://|\w[\w.-]+:)[^\n]*\n|[^\n]*:\n)\Z
scp rsync sftp ftp tftp: run.unknown if -e|--rsh|(-oProxyCommand|--rsync-path|--rsh=).*
rsync: delete.unknown if --delete.*
docker podman nerdctl: container
    starts (?!((compose|container|image|volume|network|system)\n)?({calmcontainer}))
docker-compose lxc ctr: container starts (?!{calmcontainer})
kubectl helm oc: cluster starts (delete|apply|create|replace|patch|drain|cordon|scale|edit|exec
    |rollout\s(restart|undo)|cp|run|uninstall|upgrade|install|set|taint|label|annotate)\b
kubectl helm oc: read.secret starts get\ssecrets?|config\sview
terraform tofu pulumi: cluster starts (apply|destroy|import|taint|state\s(rm|mv|push)|up)\b
ansible ansible-playbook: cluster
aws gcloud az gsutil rclone s3cmd b2 mc doctl flyctl heroku: cluster starts .*\b(rm|rb|delete\S*|terminate\S*
    |destroy|put\S*|cp|mv|sync|copy|move|upload|create\S*|update\S*|run\S*|deploy|purge|set\S*|attach\S*
    |get-secret\S*|get-session-token|print-access-token)\b
gh glab: cluster starts gist\screate|release\s(upload|delete)|repo\s(delete|edit)|secret|auth\stoken|ssh-key
    |gpg-key|workflow\srun|api\s.*(DELETE|PUT|POST|PATCH)
"""
_MAKES_DISKS = re.compile(r"(mkfs\..+|mkswap|newfs.*)$")
_RECURSES = r"-\w*[rRa]\w*|--(dereference-)?recursive|--archive|--directories=recurse|recurse"
_ROWS: tuple[Row, ...] = (
    ("grep egrep fgrep zgrep diff", _reads_folders(_RECURSES, here=True)),
    ("rg ag ack", _reads_folders(here=True)),
    ("cp scp", _reads_folders(_RECURSES)),
    ("rsync tar bsdtar zip 7z 7za 7zz rar pax cpio ln restic borg", _reads_folders()),
    ("python-tarfile python-zipfile", _reads_folders()),
    ("rm unlink rmdir shred wipe srm", _delete),
    ("cp mv ln install rsync scp", _write_last),
    ("tee touch truncate mkdir sponge dd", _write_all),
    ("sed gsed", code.sed),
    ("psql mysql mariadb sqlite3 mongo mongosh redis-cli dropdb dropuser mysqladmin", code.sql),
    ("clickhouse-client cqlsh sqlcmd duckdb", code.sql),
    ("git", _git),
    *_rules(_GIT_RULES, bundled="A-Za-z"),
    *_rules(_RULES),
    ("chmod", _modes),
    ("tar bsdtar unzip cpio", _unpacks_to("-C", "--directory", "-d")),
    *_rules("tar bsdtar unzip cpio: write.system if -P|--absolute-names"),
    ("ssh-keygen", _unpacks_to("-f")),
    ("curl wget", _download_target),
    ("curl wget", _web),
    ("nc ncat netcat openssl", _send_feed),
    ("python-http.server", _web_server),
    ("ps", _processes),
    ("kill", _kill),
    ("killall pkill skill killall5", _kill_by_name),
    ("vim vi nvim view ex emacs", code.editor),
    ("gdb lldb", code.debugger),
    ("hermes", _agent),
)
_TABLE: dict[str, list[Find]] = {}
for _programs, _find in _ROWS:
    for _name in _programs.split():
        _TABLE.setdefault(_name, []).append(_find)
