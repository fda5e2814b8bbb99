"""Names of programs, options and variables that the judging functions know."""

from __future__ import annotations

import re


def names(text: str) -> frozenset[str]:
    return frozenset(text.split())


SHELLS = names("sh bash dash zsh ksh ash fish csh tcsh rbash mksh")
DOWNLOADS = names("curl wget fetch aria2c lynx http https xh lwp-download GET ftp nc ncat socat dig nslookup")
DECODERS = names(
    """
    base64 base32 basenc xxd openssl gpg uudecode rev tr gunzip zcat gzip bzip2 xz unxz od hexdump uncompress
    """
)
# Interpreters, with the options behind which their code stands.
LANGUAGES = {
    "perl": names("-e -E"),
    "ruby": names("-e"),
    "node": names("-e --eval -p --print"),
    "nodejs": names("-e --eval -p --print"),
    "php": names("-r"),
    "lua": names("-e"),
    "deno": names("eval"),
    "bun": names("-e --eval"),
    "osascript": names("-e"),
    "Rscript": names("-e"),
    "tclsh": names(""),
    "guile": names("-c"),
    "pwsh": names("-c -Command -EncodedCommand -e"),
    "R": names("-e"),
    "julia": names("-e -E --eval --print"),
    "ghci": names("-e"),
    "irb": names(""),
    "pry": names("-e"),
    "octave": names("--eval"),
    "elixir": names("-e --eval"),
    "iex": names("-e --eval"),
    "erl": names("-eval"),
    "scala": names("-e"),
    "groovy": names("-e"),
    "groovysh": names("-e"),
    "jshell": names(""),
    "clojure": names("-e --eval"),
    "racket": names("-e --eval"),
    "sbcl": names("--eval"),
    "ocaml": names("-e"),
    "swipl": names("-g -t"),
    "gnuplot": names("-e"),
    "raku": names("-e"),
    "luajit": names("-e"),
    "wish": names(""),
    "expect": names("-c"),
    "tsx": names("-e --eval"),
    "ts-node": names("-e --eval"),
}
# Programs that run the command behind their options, with the options that take a value.
WRAPPERS = {
    **dict.fromkeys(
        names(
            "nohup setsid command builtin entr unbuffer busybox toybox firejail rlwrap dbus-run-session"
            " poetry pipenv uv pipx coverage setarch linux32 linux64 i386 x86_64 catchsegv eatmydata tini"
            " dumb-init faketime dbus-launch fakechroot heaptrack uftrace"
            " torsocks valgrind ssh-agent systemd-inhibit systemd-cat"
        ),
        names(""),
    ),
    "time": names("-o -f"),
    "exec": names("-a"),
    "nice": names("-n --adjustment"),
    "ionice": names("-c -n -p -P -u --class --classdata --pid --pgid --uid"),
    "stdbuf": names("-i -o -e --input --output --error"),
    "chrt": names("-T -P -D --sched-runtime --sched-period --sched-deadline"),
    "taskset": names(""),
    "choom": names("-n -p --adjust --pid"),
    "prlimit": names("-p -o --pid --output"),
    "runcon": names("-t -u -r -l --type --user --role --range"),
    "numactl": names("-N -m -C -i -p -w --cpunodebind --membind --physcpubind --interleave --preferred"),
    "cgexec": names("-g"),
    "cpulimit": names("-l -p -e -c --limit --pid --exe --cpu"),
    "perf": names("-e -o -p -F -C -r -t --event --output --pid --freq --repeat"),
    "ld.so": names(
        "--library-path --preload --audit --argv0 --inhibit-rpath --inhibit-cache --glibc-hwcaps-prepend"
    ),
    "caffeinate": names("-t -w"),
    "strace": names("-o -e -p -s -E -P -u -a -b -I -O -S -X"),
    "ltrace": names("-o -e -p -s -l -n -u -a -A -D -F -w -x"),
    "proxychains": names("-f"),
    "xvfb-run": names("-s -n"),
    "fakeroot": names("-s -i"),
    "npx": names("-p --package -c"),
    "uvx": names("-p --python --from --with"),
}
# What stands between the options of a wrapper and its command.
PRECEDED = {
    "taskset": r".*",
    "faketime": r".*",
    "chrt": r"\d+",
    "runcon": r"[^/]*:.*",
    "setarch": r"linux\d+|i\d86|x86_64|amd64|(arm|aarch|ppc|powerpc|s390|mips|riscv|sparc|ia64).*",
    "perf": r"stat|record|trace",
}
_LOADER = re.compile(r"ld(-(linux|musl).*)?\.so(\.\d+)?")
# Programs with a terminal of their own: keys, not lines, reach what runs in them.
TERMINALS = names("script tmux screen expect unbuffer rlwrap dtach abduco zellij")
# Programs that take commands from their input, with the words that make them do something else.
_SAYS_ONLY = r"--?(version|help)|-V"
COMMANDERS = {
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
READS_COMMANDS = {
    name: f"{_SAYS_ONLY}|{ending}" if ending else _SAYS_ONLY
    for listed, ending in COMMANDERS.items()
    for name in listed.split()
}
# Of these, the ones that can start programs by what they read.
ESCAPING = names("gdb lldb vim vi nvim view ex ed red emacs dc m4 ftp sftp lftp tftp smbclient newgrp virsh")
# Programs that are also known with a `g` before their name.
GNU = names(
    "rm rmdir unlink cp mv ln dd tee touch truncate shred chmod chown timeout env nice stdbuf find xargs"
)


def program_name(path: str) -> str:
    """By which name the tables know a program."""
    name = path.rpartition("/")[2]
    if _LOADER.fullmatch(name):
        return "ld.so"
    return name[1:] if name[:1] == "g" and name[1:] in GNU else name


# Commands of the shell that take a text for a name or a number, and run what stands in its brackets.
EVALUATORS = names(
    "test [ : let printf read unset declare typeset local export readonly wait mapfile readarray set"
)
RUNNERS = names("poetry pipenv uv pipx coverage")
ROOT = names("sudo su doas pkexec runuser sudoedit gosu su-exec setpriv run0")
ROOT_VALUES = names("-u -g -U -p -C -h -T -D -R -r -t --user --group")
DECLARES = names("export declare typeset readonly local")
# Variables that make other programs load or run something.
PRELOADS = names(
    """
    LD_PRELOAD LD_AUDIT LD_LIBRARY_PATH DYLD_INSERT_LIBRARIES BASH_ENV ENV PROMPT_COMMAND PS4 PYTHONSTARTUP
    PYTHONHOME PERL5OPT RUBYOPT NODE_OPTIONS GIT_SSH GIT_SSH_COMMAND GIT_EXTERNAL_DIFF IFS SHELLOPTS
    GIT_PROXY_COMMAND HISTFILE PS0 PS1 PS2
    """
)
# Variables that hold a command which other programs run.
COMMAND_VARIABLES = names(
    """
    PAGER EDITOR VISUAL GIT_EDITOR GIT_PAGER GIT_SEQUENCE_EDITOR GIT_ASKPASS SSH_ASKPASS MANPAGER BROWSER
    FCEDIT LESSOPEN LESSCLOSE
    """
)
READERS = names(
    """
    cat head tail less more grep egrep fgrep rg ls stat file wc md5sum sha256sum echo basename dirname du sort
    diff readlink realpath cut test printf awk nl strings jq
    """
)
# Programs whose words are not opened: naming a place is not reading it.
SILENT = names(
    """
    cd pushd popd pwd echo printf test [ [[ : true false exit basename dirname which type export rm rmdir
    unlink touch mkdir
    """
)
# Programs that print the names of files.
LISTERS = names("find fd fdfind ls realpath readlink locate tree")
CHANGERS = names("mv cp chmod chown sed tee dd truncate ln install sh bash python python3 perl")
PACKAGE_READING = names("list search show info policy outdated query contents depends help why files")
PACKAGE_ADDING = names("install add i update upgrade ci")
PACKAGE_REMOVING = names("uninstall remove rm publish unpublish login adduser yank token owner")
SERVICE_READING = names(
    """
    status list-units list-unit-files is-active is-enabled show cat list print list-timers list-dependencies
    is-failed is-system-running help --status-all --version
    """
)
POWER_VERBS = names("poweroff reboot halt kexec suspend hibernate rescue")
SYSTEM_READING = names("-l -L --list list show status -S -a --help --version -n -nL -v")
# Programs that mostly report; only these words make them change something.
SYSTEM_REPORTERS = names(
    "ip ifconfig route nmcli sysctl hostname hostnamectl timedatectl loginctl ufw date defaults"
)
SYSTEM_CHANGING = names(
    """
    set add del delete flush down up -w change replace -s --set enable disable allow deny reset set-hostname
    set-time write -p kill-session terminate-user -f connection reload
    """
)
CONTAINER_READING = names(
    """
    ps images logs inspect version info stats top port diff history search events ls list build config context
    help
    """
)
CONTAINER_KINDS = names("compose container image volume network system")
