"""Where a command would send something, as far as its words tell, and whether what it prints may be others'.

Judged by the programs that it runs, as the judge of dangerous commands reads it; a command that cannot be
read is judged by its words. After words from outside were read, a command that names a host is asked for
unless the person named that host, and one whose host cannot be told is asked for too. What really keeps
commands from the network is the sandbox."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from itertools import pairwise

from hermes.agent.danger.names import TAKES_CODE
from hermes.agent.danger.shell.expand import UNKNOWN


def _listed(text: str) -> frozenset[str]:
    return frozenset(text.split())


_REACHING = _listed(
    "gh glab npx uvx pipx bunx pnpx kubectl aws gcloud gsutil az mailx sendmail mutt msmtp swaks "
    "mosquitto_pub grpcurl yt-dlp s3cmd restic borg chromium google-chrome firefox xdg-open"
)
_BY_VERB = {
    "git": "clone fetch pull push ls-remote remote submodule send-email",
    "svn hg": "clone checkout co update up pull push commit",
    "pip pip3 uv poetry gem composer brew apt apt-get dnf": "install add download publish sync update",
    "npm pnpm yarn bun": "install i ci add view publish exec dlx x create login",
    "cargo": "install publish add search fetch",
    "docker podman": "pull push run build login exec",
    "go": "get install mod generate",
    "getent": "hosts ahosts ahostsv4 ahostsv6",
}
"""Programs that reach other machines with some of their verbs only."""
_VERBS = {name: _listed(verbs) for names, verbs in _BY_VERB.items() for name in names.split()}
_TO_A_HOST = _listed(
    "curl wget aria2c lynx w3m elinks xh httpie lwp-request ftp sftp scp ssh rsync rclone nc ncat netcat "
    "socat telnet dig nslookup drill getent whois ping ping6 traceroute tracepath mtr websocat "
    "http https host fetch links mail lftp tftp finger nmap ntpdate sntp chronyd snmpwalk snmpget ldapsearch "
    "smbclient rdate nping hping3 mosh telnet-ssl tnftp axel curlie xhs kcat mosquitto_sub"
)
_BY_OPTION = {
    "psql pg_dump pg_dumpall pg_restore pg_isready createdb mysql mariadb mysqldump mysqladmin mongo mongosh "
    "mongodump cqlsh clickhouse-client influx": "-h --host --uri --server -H",
    "redis-cli": "-h -u",
    "sqlcmd": "-S",
    "openssl": "-connect -proxy -host -url",
}
"""Programs that reach another machine if one of these options names it."""
_HOST_OPTIONS = {name: _listed(options) for names, options in _BY_OPTION.items() for name in names.split()}
_GLUED_HOST = re.compile(r"-[hHS]([\w.\[\]:-]+)|--(?:host|uri|server|url)=(.+)")
_BY_CODE = re.compile(
    r"socket|urllib|https?\b|requests|aiohttp|ftplib|smtplib|imaplib|poplib|telnetlib|xmlrpc|urlopen|fetch\s?\("
    r"|\bnet\b|\bconnect|IO::Socket|LWP|Net::|TCPSocket|open-uri|\bcurl\b|\bwget\b|subprocess|os\.system|popen"
    r"|\bexec|\bspawn|child_process|/inet/|file_get_contents|fsockopen|ctypes|__import__|importlib|getattr|\beval"
    r"|\bdgram\b|\bdns\b|\btls\b|asyncio|\bssl\b|paramiko|nodename|gethostby|\bsystem\b|`",
    re.IGNORECASE,
)
"""What code needs that reaches other machines, itself or by another program."""
_CALL_OR_IMPORT = re.compile(
    r"[\w.]{1,80}\(\s{0,9}['\"][a-z]{2,9}://[^\s'\"{}\\$]{1,2000}['\"]|\bimport\s{1,9}[\w.]{1,80}(?:\s+as\s+\w{1,80})?"
)
"""What tells where it leads: an address that a function is called with, and modules by themselves."""
_RUNS_CODE = frozenset({"run.code", "run.fresh", "run.decoded"})
_ROUTE = re.compile(
    r"(?:proxy|registry|index_url|endpoint_url)=['\"]?(?:[a-z0-9]{2,9}://)?(?:[^\s/@'\"]{0,200}@)?([^\s'\"/:;]{1,260})",
    re.IGNORECASE,
)
_NUMERIC = re.compile(
    r"(?:0x[0-9a-f]{1,16}|\d{5,12}|\d{1,10}(?:\.(?:0x)?[0-9a-f]{1,10}){1,3})(?=[:/]|$)", re.IGNORECASE
)
_NAME = re.compile(r"([\w.-]{1,260})(?:[:/].*)?", re.DOTALL)
_ALL = _REACHING | _TO_A_HOST | _VERBS.keys()
_BY_PATH = _listed("gh glab npx uvx pipx bunx pnpx kubectl aws gcloud gsutil az") | (
    _VERBS.keys() - {"getent"}
)
"""Programs whose words are names of packages and files: a host has a path or a port behind it."""
_TEXT_ONLY = _listed(
    "echo printf cat grep egrep fgrep rg sed tee head tail wc sort uniq cut tr ls cd pwd mkdir touch rm cp "
    "mv test true false export read : [ [[ jq diff find less date which type man apropos whatis"
)
_OWN_OUTPUT = _listed(
    "echo printf date pwd whoami uname df du free uptime id hostname nproc which mkdir touch rm rmdir cp mv "
    "chmod ln cd export true false sleep kill test [ : wait"
)
_FILES = _listed(
    "py js ts json yaml yml toml txt md rst html css csv log sh lock cfg ini xml gz zip tar whl png jpg pdf "
    "tsx jsx mts cts mjs cjs rs go java kt c h cc cpp hpp rb php swift scala sql proto ipynb tf vue conf pem"
)
_INSIDE = _listed("localhost 127.0.0.1 ::1 0.0.0.0")
_OPTIONS_WITH_VALUE = _listed(
    "-C -c --git-dir --work-tree --prefix --directory --project -H --host --context"
)
_SAYS_ITSELF = _listed("--version -V --help -h help version")
_ABOUT_COMMITS = _listed("commit log grep tag notes show diff blame status")
_LISTS = _listed("-v --verbose get-url show")
_FROM_A_FILE = re.compile(r"-[a-zA-Z]*K.*|--config(=.*)?|-i|--input-file(=.*)?")
_TAKES_LISTS = _listed("curl wget aria2c nmap fping")
UNTOLD = "?"
_WORDS = re.compile(r"[^\s'\"]+")
_SPLIT = re.compile(r"[;&|\n]+")
_URL_HOST = re.compile(
    r"[A-Za-z][A-Za-z0-9+.\-]{1,20}://(?:[^\s/@'\"]{0,200}@)?"
    r"(\[[0-9a-fA-F:.%]{2,60}\]|[^\s/:?#'\"\\<>|&;)]{1,260})"
)
_AT_HOST = re.compile(r"[\w.+\-]{1,80}@([\w\-]{1,80}(?:\.[\w\-]{1,80}){0,10})")
_BARE_HOST = re.compile(
    r"(?<![\w./@=~\-])((?:[\w\-]{1,80}\.){1,12}[A-Za-z]{2,24}|\d{1,3}(?:\.\d{1,3}){3})(?![\w(\-]|\.\w)([/:]?)"
)
_SOCKET = re.compile(r"/dev/(?:tcp|udp)/([^\s/]{1,260})")
_FILLED_IN = re.compile(rf"[$`{{*?\\{UNKNOWN}]")
_INSIDE_WORD = re.compile(r"(?:^|[\s/'\"])(localhost|127\.0\.0\.1|\[::1\]|0\.0\.0\.0)(?=[:/\s'\"]|$)")


Runs = tuple[tuple[str, ...], ...]
Scripts = tuple[tuple[str, str | None], ...]


@lru_cache(maxsize=32)
def _runs(command: str, cwd: str | None = None, scripts: Scripts = ()) -> Runs:
    """The programs that a command runs, each with its words and with what it is fed; without a name, what
    cannot be read. `scripts` are the files among them whose texts are known."""
    from hermes.agent.danger.judge import follow
    from hermes.agent.danger.scope import CommandScope

    judge = follow(command, CommandScope(cwd="/", workspace="/", home="/", scripts=scripts), cwd)
    if any(finding.rule == "text.unreadable" for finding in judge.findings):
        parts = (_WORDS.findall(part) for part in _SPLIT.split(command))
        return tuple(("", *words) for words in parts if words)
    broken = {finding.rule for finding in judge.findings}
    texts = [" ".join(words) for name, *words in judge.calls if name in TAKES_CODE or _OTHERS.match(name)]
    texts += (text or "" for _, text in scripts)
    code = "\n".join([*texts, command] if "run.fresh" in broken else texts)
    unread = any(text is None for _, text in scripts)
    reaches = unread or (not _RUNS_CODE.isdisjoint(broken) and _BY_CODE.search(code))
    return (*judge.calls, (_CODE, code)) if reaches else tuple(judge.calls)


_OTHERS = re.compile(r"python|pypy|ipython|[gmn]?awk\b")
_CODE = "(code)"
"""Stands for code that may reach any machine."""


def reaches_out(command: str) -> bool:
    """Whether it may fetch or send: it runs a program for that, or one that is given an address."""
    return _SOCKET.search(command) is not None or any(map(_reaches, _runs(command)))


def _reaches(call: Sequence[str]) -> bool:
    name, *words = call
    if not name:
        programs = {word.rpartition("/")[2] for word in words}
        return not _ALL.isdisjoint(programs) or any(map(_URL_HOST.search, words))
    if words and _SAYS_ITSELF.issuperset(words):
        return False
    if name in _VERBS:
        verbs = _verbs(words)
        if verbs[:1] == ["remote"]:
            return bool(verbs[1:2]) and verbs[1] not in _LISTS
        if name == "git" and _ABOUT_COMMITS.issuperset(verbs[:1]):
            return False
        if name == "git" and verbs[:1] == ["archive"]:
            return any(word.startswith("--remote") for word in words)
        return not _VERBS[name].isdisjoint(verbs[: 1 if name == "git" else 2]) or _has_url(name, words)
    if name in _HOST_OPTIONS:
        return bool(_hosts_by_option(name, words)) or _has_url(name, words)
    if name in ("resolvectl", "systemd-resolve"):
        return words[:1] == ["query"] or name == "systemd-resolve"
    return (
        name in _REACHING or name in _TO_A_HOST or UNKNOWN in name or _has_url(name, words) or name == _CODE
    )


def _has_url(name: str, words: Sequence[str]) -> bool:
    return name not in _TEXT_ONLY and any(map(_URL_HOST.search, words))


def _verbs(words: Sequence[str]) -> list[str]:
    found, skip = [], False
    for word in words:
        if not skip and not word.startswith("-"):
            found.append(word)
        skip = not skip and word in _OPTIONS_WITH_VALUE
    return found


def destinations(command: str, cwd: str | None = None, scripts: Scripts = ()) -> tuple[str, ...]:
    """The hosts that it names beside this machine; one that is filled in or that code chooses is `?`."""
    return tuple(host for host in _all_hosts(command, cwd, scripts) if host not in _INSIDE)


def own_services(command: str, cwd: str | None = None, scripts: Scripts = ()) -> tuple[str, ...]:
    """The names by which it reaches programs on this machine."""
    return tuple(host for host in _all_hosts(command, cwd, scripts) if host in _INSIDE)


def _all_hosts(command: str, cwd: str | None, scripts: Scripts) -> dict[str, None]:
    found = _SOCKET.findall(command) + _ROUTE.findall(command)
    for call in _runs(command, cwd, scripts):
        if _reaches(call):
            found += _hosts(call[0], call[1:])
            found += _INSIDE_WORD.findall(" ".join(call[1:]))
    told = (UNTOLD if _FILLED_IN.search(host) else host.strip("[].").lower() for host in found)
    return dict.fromkeys(host for host in told if host)


def _hosts_by_option(name: str, words: Sequence[str]) -> list[str]:
    options = _HOST_OPTIONS[name]
    named = [value for option, value in pairwise(words) if option in options]
    if name != "openssl":
        named += (match[1] or match[2] for match in map(_GLUED_HOST.fullmatch, words) if match)
    # A socket of this machine is a path.
    return [_host_part(value) for value in named if not value.startswith("/")]


def _host_part(word: str) -> str:
    match = _URL_HOST.match(word) or _NAME.fullmatch(word)
    return match[1] if match else UNTOLD


def _hosts(name: str, words: Sequence[str]) -> list[str]:
    if name == _CODE:
        hosts = _URL_HOST.findall(words[0])
        return [*hosts, UNTOLD] if not hosts or _BY_CODE.search(_CALL_OR_IMPORT.sub("", words[0])) else hosts
    if name in _HOST_OPTIONS:
        return [*_hosts_by_option(name, words), *_URL_HOST.findall(" ".join(words))]
    if name in ("docker", "podman") and "login" in words[:2] and len(words) > 1:
        return [_host_part(words[-1])]
    if name == "git":
        words = [word.partition("=")[2] if word.startswith("--remote=") else word for word in words]
    hosts = _hosts_in_words(name, words)
    if name in _TO_A_HOST:
        hosts += (match[0] for match in map(_NUMERIC.match, _operands(words)) if match)
        if name in _TAKES_LISTS and any(map(_FROM_A_FILE.fullmatch, words)):
            hosts.append(UNTOLD)
        last = _operands(words)[-1:]
        if not hosts and last and not _INSIDE_WORD.search(" ".join(words)):
            hosts.append(_host_part(last[0]))
    elif name in ("resolvectl", "systemd-resolve") and not hosts:
        hosts += words[-1:]
    return hosts


def _operands(words: Sequence[str]) -> list[str]:
    return [word for word in words if word and not word.startswith("-")]


def _hosts_in_words(name: str, words: Sequence[str]) -> list[str]:
    text = " ".join(words)
    hosts = _URL_HOST.findall(text)
    is_code = name and name not in _ALL and UNKNOWN not in name
    hosts += () if is_code else _AT_HOST.findall(text)
    for host, behind in () if is_code else _BARE_HOST.findall(text):
        if behind or (name not in _BY_PATH and host.rpartition(".")[2].lower() not in _FILES):
            hosts.append(host)
    if hosts or _INSIDE_WORD.search(text) or (name and name not in _TO_A_HOST):
        return hosts
    untold = UNKNOWN in text or "$" in text or "`" in text
    return [UNTOLD] if untold else []


def prints_own(command: str) -> bool:
    """Whether what it prints cannot be anybody's words: not a file's, not a program's that reads some."""
    calls = _runs(command)
    return bool(calls) and {call[0] for call in calls} <= _OWN_OUTPUT
