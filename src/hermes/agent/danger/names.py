"""The tables of program names, options and variables.

Each key lists the programs that its row applies to, separated by blanks."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TypeVar

_Row = TypeVar("_Row")


def listed(text: str) -> frozenset[str]:
    return frozenset(text.split())


def by_name(rows: Mapping[str, _Row]) -> dict[str, _Row]:
    """The rows by each of the names that their keys list."""
    return {name: row for listed, row in rows.items() for name in listed.split()}


SHELLS = listed("sh bash dash zsh ksh ash fish csh tcsh rbash mksh")
DOWNLOADS = listed(
    "curl wget fetch aria2c lynx http https xh lwp-download GET ftp nc ncat socat dig nslookup"
)
DECODERS = listed(
    """
    base64 base32 basenc xxd openssl gpg uudecode rev tr gunzip zcat gzip bzip2 xz unxz od hexdump uncompress
    """
)
_CODE_OPTIONS = {
    " ".join(SHELLS): "[-+][a-zA-Z]*c[a-zA-Z]*",
    "ruby lua luajit R Rscript osascript ghci pry scala groovy groovysh ocaml gnuplot raku": "<e>",
    "perl": "<eE>",
    "bun elixir iex clojure racket tsx ts-node": "<e>|--eval",
    "node nodejs": "<ep>|--eval|--print",
    "julia": "<eE>|--eval|--print",
    "octave sbcl": "--eval",
    "erl": "-eval",
    "deno": "eval",
    "python guile expect": "<c>|-c.*",
    "pwsh powershell": "<ce>|-c.*|-Command|-EncodedCommand",
    "php": "<r>",
    "swipl": "<gt>",
    "tclsh irb jshell wish": "(?!)",
}
TAKES_CODE = {
    name: re.compile(re.sub("<(.+)>", r"-[a-zA-Z0-9]*[\1]", options), re.DOTALL)
    for name, options in by_name(_CODE_OPTIONS).items()
}
"""Shells and interpreters, with the options that code follows; `<e>` is `-e`, also at the end of a bundle."""
# Programs that run the command behind their options, with the options that take a value.
WRAPPERS = by_name(
    {
        "nohup setsid command builtin entr unbuffer busybox toybox firejail rlwrap dbus-run-session poetry"
        " pipenv uv pipx coverage setarch linux32 linux64 i386 x86_64 catchsegv eatmydata tini dumb-init"
        " faketime dbus-launch fakechroot heaptrack uftrace torsocks valgrind ssh-agent systemd-inhibit"
        " systemd-cat taskset wsl proxychains4 unbuffer": "",
        "time": "-o -f",
        "exec": "-a",
        "nice": "-n --adjustment",
        "ionice": "-c -n -p -P -u --class --classdata --pid --pgid --uid",
        "stdbuf": "-i -o -e --input --output --error",
        "chrt": "-T -P -D --sched-runtime --sched-period --sched-deadline",
        "choom": "-n -p --adjust --pid",
        "prlimit": "-p -o --pid --output",
        "runcon": "-t -u -r -l --type --user --role --range",
        "numactl": "-N -m -C -i -p -w --cpunodebind --membind --physcpubind --interleave --preferred",
        "cgexec": "-g",
        "cpulimit": "-l -p -e -c --limit --pid --exe --cpu",
        "perf": "-e -o -p -F -C -r -t --event --output --pid --freq --repeat",
        "ld.so": "--library-path --preload --audit --argv0 --inhibit-rpath --inhibit-cache"
        " --glibc-hwcaps-prepend",
        "caffeinate": "-t -w",
        "strace": "-o -e -p -s -E -P -u -a -b -I -O -S -X",
        "ltrace": "-o -e -p -s -l -n -u -a -A -D -F -w -x",
        "proxychains": "-f",
        "xvfb-run": "-s -n",
        "fakeroot": "-s -i",
        "sshpass": "-p -f -P",
        "npx bunx pnpx": "-p --package -c",
        "uvx": "-p --python --from --with",
    }
)
# The same of programs that run a command as somebody else.
ROOT_OPTIONS = by_name(
    {
        "sudo": "-u -g -U -p -C -h -T -D -R -r -t --user --group",
        "unshare": "-S -G -R -w -l --setuid --setgid --root --wd --propagation --map-user --map-group",
    }
)
# What stands between the options of a wrapper and its command.
PRECEDED = {
    "taskset": r".*",
    "faketime": r".*",
    "chrt": r"\d+",
    "runcon": r"[^/]*:.*",
    "setarch": r"linux\d+|i\d86|x86_64|amd64|(arm|aarch|ppc|powerpc|s390|mips|riscv|sparc|ia64).*",
    "perf": r"stat|record|trace",
}
_WINDOWS = re.compile(r"\.(exe|com|cmd|bat|ps1)$", re.IGNORECASE)
_LOADER = re.compile(r"ld(-(linux|musl).*)?\.so(\.\d+)?")
# Programs with a terminal of their own: keys, not lines, reach what runs in them.
TERMINALS = listed("script tmux screen expect unbuffer rlwrap dtach abduco zellij")
# Programs that take commands from their input, with the words (besides --help) that stop them from that.
_STOPS_READING = by_name(
    {
        "psql": r"-[A-Za-z]*[cfl].*|--(command|file|list).*",
        "mysql mariadb": r"-[A-Za-z]*e.*|--execute.*",
        "sqlite3 duckdb": r"",
        "mongo mongosh": r"--(eval|file).*|.*\.js",
        "redis-cli": r"[A-Za-z]+",
        "clickhouse-client": r"-q|--query.*",
        "cqlsh": r"-[ef].*|--(execute|file).*",
        "sqlcmd": r"-[Qi].*",
        "gdb": r"--?batch(-silent)?",
        "lldb": r"-b|--batch",
        "vim vi nvim view ex ed red emacs nano": r"",
        "bc dc m4 newgrp ftp sftp lftp tftp telnet smbclient parallel virsh bluetoothctl": r"",
        "python-pdb python-code python-IPython python-asyncio python-sqlite3": r"",
    }
)
READS_COMMANDS = {
    name: re.compile(rf"--?(version|help)|-V{words and '|'}{words}", re.DOTALL)
    for name, words in _STOPS_READING.items()
}
# Of these, the ones that can start programs by what they read.
ESCAPING = listed("gdb lldb vim vi nvim view ex ed red emacs dc m4 ftp sftp lftp tftp smbclient newgrp virsh")
# Programs that run a file in a form of their own, with the options that name it; without any, it is the
# first.
LOADERS = by_name(
    {
        "java javaw kotlin": "-jar -cp -classpath --class-path -p --module-path -javaagent",
        "dotnet mono wine wine64 wasmtime wasmer box64 qemu-x86_64 qemu-aarch64": "",
    }
)
# Programs that are also known with a `g` before their name.
GNU = listed(
    "rm rmdir unlink cp mv ln dd tee touch truncate shred chmod chown timeout env nice stdbuf find xargs"
)


def program_name(path: str) -> str:
    """By which name the tables know a program."""
    # Who wrote one escape too many meant the program, and another shell on the way may take it off.
    name = path.rpartition("/")[2].lstrip("\\")
    if _WINDOWS.search(name):
        name = name.rpartition(".")[0].lower()
    elif name.isupper() and len(name) > 1 and name not in DOWNLOADS:
        name = name.lower()  # some disks make no difference
    if _LOADER.fullmatch(name):
        return "ld.so"
    return name[1:] if name[:1] == "g" and name[1:] in GNU else name


# Commands of the shell that take a text for a name or a number, and run what stands in its brackets.
EVALUATORS = listed(
    "test [ : let printf read unset declare typeset local export readonly wait mapfile readarray set"
)
# Runners of packages, which they fetch if they are not there.
FETCHES = listed("npx bunx pnpx uvx pipx")
RUNNERS = listed("poetry pipenv uv pipx coverage")
DECLARES = listed("export declare typeset readonly local")
# Variables that make other programs load or run something.
PRELOADS = listed(
    """
    LD_PRELOAD LD_AUDIT LD_LIBRARY_PATH DYLD_INSERT_LIBRARIES BASH_ENV ENV PROMPT_COMMAND PS4 PYTHONSTARTUP
    PYTHONHOME PERL5OPT RUBYOPT NODE_OPTIONS GIT_SSH GIT_SSH_COMMAND GIT_EXTERNAL_DIFF IFS SHELLOPTS
    GIT_PROXY_COMMAND HISTFILE PS0 PS1 PS2 GIT_CONFIG_GLOBAL GIT_CONFIG_COUNT GIT_EXEC_PATH GIT_TEMPLATE_DIR
    RUSTC_WRAPPER RUSTC MAKEFLAGS PIP_INDEX_URL PIP_EXTRA_INDEX_URL UV_INDEX_URL npm_config_registry
    SSLKEYLOGFILE PYTHONBREAKPOINT PYTHONINSPECT NODE_TLS_REJECT_UNAUTHORIZED JAVA_TOOL_OPTIONS _JAVA_OPTIONS
    GCONV_PATH LD_DEBUG_OUTPUT LD_PROFILE_OUTPUT DYLD_LIBRARY_PATH PERL5DB BASHOPTS HISTSIZE
    HISTCONTROL GIT_SSL_NO_VERIFY KUBECONFIG DOCKER_HOST
    """
)
# Variables with folders that programs load code from.
SEARCH_PATHS = listed("PATH PYTHONPATH PERL5LIB RUBYLIB NODE_PATH CLASSPATH GEM_PATH LUA_PATH GOPATH CDPATH")
CALM_VALUES = re.compile(
    r"(--(max-old-space-size=\d+|no-warnings|no-deprecation|enable-source-maps|trace-\w+|experimental-[\w-]+"
    r"|openssl-legacy-provider|unhandled-rejections=\w+)\s*)+|-j\s?\d*|0|ignore(dups|space|both)|\d{1,9}"
)
"""What variables that change programs may be set to all the same."""
# Variables that hold a command which other programs run.
COMMAND_VARIABLES = listed(
    """
    PAGER EDITOR VISUAL GIT_EDITOR GIT_PAGER GIT_SEQUENCE_EDITOR GIT_ASKPASS SSH_ASKPASS MANPAGER BROWSER
    FCEDIT LESSOPEN LESSCLOSE
    """
)
READERS = listed(
    """
    cat head tail less more grep egrep fgrep rg ls stat file wc md5sum sha256sum echo basename dirname du sort
    diff readlink realpath cut test printf awk nl strings jq
    """
)
# Programs whose words are not opened: naming a place is not reading it.
SILENT = listed(
    """
    cd pushd popd pwd echo printf test [ [[ : true false exit basename dirname which type export rm rmdir
    unlink touch mkdir
    """
)
# Programs that print the names of files.
LISTERS = listed("find fd fdfind ls realpath readlink locate tree")
# Words that make a lister leave most of them out.
NARROWS = listed(
    "-name -iname -path -ipath -regex -iregex -newer -mtime -mmin -atime -ctime -size -empty -user -maxdepth"
    " -inum -samefile -perm -group -cmin -amin -newermt"
)
# Filters that leave no line out.
KEEPS_ALL = listed("cat sort tac tee tr uniq shuf nl")
CHANGERS = listed("mv cp chmod chown sed tee dd truncate ln install sh bash python python3 perl")
