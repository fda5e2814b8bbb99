"""Where a command would send something, as far as its words tell, and whether what it prints may be others'.

A look at words, not at what runs: after words from outside were read, a command that names a host is asked
for unless the person named that host, and one whose host cannot be told is asked for too. What really keeps
commands from the network is the sandbox."""

from __future__ import annotations

import re


def _listed(text: str) -> frozenset[str]:
    return frozenset(text.split())


_REACHING = _listed(
    "gh glab npx uvx pipx kubectl aws gcloud gsutil az mailx sendmail mutt msmtp swaks mosquitto_pub grpcurl "
    "yt-dlp s3cmd restic borg chromium google-chrome firefox xdg-open"
)
_BY_VERB = {
    "git": "clone fetch pull push ls-remote remote submodule archive send-email",
    "svn hg": "clone checkout co update up pull push commit",
    "pip pip3 uv poetry gem composer brew apt apt-get dnf": "install add download publish sync update",
    "npm pnpm yarn bun": "install i ci add view publish exec dlx x create login",
    "cargo": "install publish add search fetch",
    "docker podman": "pull push run build login exec",
}
"""Programs that reach other machines with some of their verbs only."""
_VERBS = {name: _listed(verbs) for names, verbs in _BY_VERB.items() for name in names.split()}
_TO_A_HOST = _listed(
    "curl wget aria2c lynx w3m elinks xh httpie lwp-request ftp sftp scp ssh rsync rclone nc ncat netcat "
    "socat telnet dig nslookup drill getent whois ping ping6 traceroute tracepath mtr websocat"
)
_ONLY_FIRST = _listed("http https host fetch links mail go open")
"""Programs that are ordinary words elsewhere in a command."""
_TEXT_ONLY = _listed(
    "echo printf cat grep egrep fgrep rg sed tee head tail wc sort uniq cut tr ls cd pwd mkdir touch rm cp "
    "mv test true false export read : [ [[ jq diff find less date"
)
_OWN_OUTPUT = _listed(
    "echo printf date pwd whoami uname df du free uptime id hostname nproc which mkdir touch rm rmdir cp mv "
    "chmod ln cd export true false sleep kill test [ : wait"
)
_LEADING = _listed("sudo env command exec nohup time nice then do else if while until ! {")
_FILES = _listed(
    "py js ts json yaml yml toml txt md rst html css csv log sh lock cfg ini xml gz zip tar whl png jpg pdf"
)
_INSIDE = _listed("localhost 127.0.0.1 ::1 0.0.0.0")
UNTOLD = "?"
_PARTS = re.compile(r"\|\||&&|[;&|\n]|\$\(|`|[<>]\(|\bdo\b|\bthen\b|\(")
_WORD = re.compile(r"[^\s'\"]+")
_ASSIGNED = re.compile(r"[A-Za-z_]\w*=")
_URL_HOST = re.compile(
    r"[A-Za-z][A-Za-z0-9+.\-]{1,20}://(?:[^\s/@'\"]{0,200}@)?"
    r"(\[[0-9a-fA-F:.%]{2,60}\]|[^\s/:?#'\"\\<>|&;)]{1,260})"
)
_AT_HOST = re.compile(r"[\w.+\-]{1,80}@([\w\-]{1,80}(?:\.[\w\-]{1,80}){0,10})")
_BARE_HOST = re.compile(
    r"(?<![\w./@=~\-])((?:[\w\-]{1,80}\.){1,12}[A-Za-z]{2,24}|\d{1,3}(?:\.\d{1,3}){3})(?![\w(\-]|\.\w)"
)
_SOCKET = re.compile(r"/dev/(?:tcp|udp)/([^\s/]{1,260})")
_FILLED_IN = re.compile(r"[$`{*?\\]")
_INSIDE_WORD = re.compile(r"(?:^|[\s/'\"])(?:localhost|127\.0\.0\.1|\[::1\])(?=[:/\s'\"]|$)")


def programs(command: str) -> set[str]:
    """The first word of each part of a command line."""
    found = set()
    for part in _PARTS.split(command):
        words = (word for word in _WORD.findall(part) if not _ASSIGNED.match(word) and word not in _LEADING)
        first = next(words, "")
        if first:
            found.add(first.rpartition("/")[2])
    return found


def reaches_out(command: str) -> bool:
    """Whether it may fetch or send: a program for that is among its words, or an address."""
    names = _names(command)
    if not (_REACHING | _TO_A_HOST).isdisjoint(names) or _SOCKET.search(command):
        return True
    if any(not _VERBS[name].isdisjoint(names) for name in names & _VERBS.keys()):
        return True
    if not _ONLY_FIRST.isdisjoint(programs(command)):
        return True
    return _URL_HOST.search(command) is not None and not programs(command) <= _TEXT_ONLY


def destinations(command: str) -> tuple[str, ...]:
    """The hosts that it names beside this machine; a part that the shell fills in is told as `?`."""
    if not reaches_out(command):
        return ()
    found: list[str] = []
    for part in re.split(r"[;&|\n]+", command):
        hosts = [match[1] for pattern in (_URL_HOST, _AT_HOST, _SOCKET) for match in pattern.finditer(part)]
        hosts += [host for host in _BARE_HOST.findall(part) if host.rpartition(".")[2].lower() not in _FILES]
        if not hosts and not _INSIDE_WORD.search(part) and "$" in part.replace("`", "$"):
            hosts = [] if _TO_A_HOST.isdisjoint(_names(part)) else [UNTOLD]
        found += (UNTOLD if _FILLED_IN.search(host) else host.strip("[].").lower() for host in hosts)
    return tuple(dict.fromkeys(host for host in found if host and host not in _INSIDE))


def _names(command: str) -> set[str]:
    """Every word that could be a program's name, without its folder."""
    return {word.rpartition("/")[2] for word in re.split(r"[^\w./+\-]+", command)}


def prints_own(command: str) -> bool:
    """Whether what it prints cannot be anybody's words: not a file's, not a program's that reads some."""
    return programs(command) <= _OWN_OUTPUT
