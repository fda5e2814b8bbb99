"""Names of programs, options and variables that the judging functions know."""

from __future__ import annotations


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
}
# Programs that run the command behind their options, with the options that take a value.
WRAPPERS = {
    **dict.fromkeys(
        names(
            "nohup setsid command builtin entr unbuffer busybox toybox firejail rlwrap dbus-run-session"
            " poetry pipenv uv pipx coverage"
        ),
        names(""),
    ),
    "time": names("-o -f"),
    "exec": names("-a"),
    "nice": names("-n"),
    "ionice": names("-c -n -p"),
    "stdbuf": names("-i -o -e"),
    "chrt": names("-p"),
    "caffeinate": names("-t -w"),
    "strace": names("-o -e -p -s"),
    "ltrace": names("-o -e -p"),
    "proxychains": names("-f"),
    "xvfb-run": names("-s -n"),
    "fakeroot": names("-s -i"),
    "npx": names("-p --package -c"),
    "uvx": names("-p --python --from --with"),
}
RUNNERS = names("poetry pipenv uv pipx coverage")
ROOT = names("sudo su doas pkexec runuser sudoedit gosu su-exec setpriv run0")
ROOT_VALUES = names("-u -g -U -p -C -h -T -D -R -r -t --user --group")
DECLARES = names("export declare typeset readonly local")
# Variables that make other programs load or run something.
PRELOADS = names(
    """
    LD_PRELOAD LD_AUDIT LD_LIBRARY_PATH DYLD_INSERT_LIBRARIES BASH_ENV ENV PROMPT_COMMAND PS4 PYTHONSTARTUP
    PYTHONHOME PERL5OPT RUBYOPT NODE_OPTIONS GIT_SSH GIT_SSH_COMMAND GIT_EXTERNAL_DIFF IFS SHELLOPTS
    GIT_PROXY_COMMAND HISTFILE
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
