# Prepares the Python environment of a checkout. Sourced by ./hermes and ./test, which set `root`
# (the checkout, absolute, links resolved) and then call `prepare`; it sets `venv`.
#
# Life of an environment: it is ready when its `stamp` says what `prepare` wants to hear (checksums
# and paths of the files it was made from). Otherwise it is made again, under a lock that dies with its
# holder; the stamp is written last, so what was interrupted is simply made again. Where packages have
# changed, a new environment grows beside the old one, which stays in use until it can be replaced whole.
# Extras (`hermes platforms install`) are named in a file beside it, so that a new one has them too.
# shellcheck shell=sh
# shellcheck disable=SC2154  # `root` comes from the caller

say() { printf '%s\n' "$*" >&2; }

stop() {
    say "$@"
    exit 1
}

# prepare <lock file> <folder in the checkout> <folder to use instead, or ''>
prepare() {
    lock=$1
    venv=$root/$2
    case $3 in
        '') ;;
        /*) venv=$3 ;;
        *) venv=$PWD/$3 ;;
    esac
    want_files
    is_ready && return 0
    if [ -z "$3" ] && ! { [ -w "$root" ] && { [ ! -e "$venv" ] || [ -w "$venv" ]; }; }; then
        in_cache "$2"
        want_files
        is_ready && return 0
    fi
    # A subshell: what is exported, opened and trapped here ends here.
    (make_ready) || exit $?
}

# A checkout that belongs to somebody else gets its environment in the user's cache.
in_cache() {
    caches=${XDG_CACHE_HOME:-${HOME:+$HOME/.cache}}
    [ -n "$caches" ] || stop "Hermes cannot write to $root and there is no HOME to prepare an environment in." \
        "Set HERMES_VENV to a folder of yours."
    id=$(printf '%s' "$root" | cksum)
    venv=$caches/hermes-gateway/venv-${id%% *}${1#.venv}
}

# What the stamp must say: the checksums of all that the environment is made from.
want_files() {
    set -- "$lock" "$root/pyproject.toml" "$root/src/hermes/__init__.py" "$root/tools/prepare.sh" \
        "$root/tools/link.py"
    if [ -r "$venv.extras" ]; then
        while IFS= read -r extra; do
            [ ! -f "$(extra_lock)" ] || set -- "$@" "$(extra_lock)"
        done <"$venv.extras"
    fi
    want=$(cksum "$@") || exit 1
}

extra_lock() { printf '%s' "$root/src/hermes/admin/extras/$extra.lock"; }

is_ready() {
    [ -x "$venv/bin/python" ] && [ -r "$venv/stamp" ] || return 1
    have=
    while IFS= read -r line; do
        have="$have${have:+
}$line"
    done <"$venv/stamp"
    [ "$have" = "$want" ]
}

make_ready() {
    exec 8>&2 # a trap may run while stderr is the log
    trap 'say "Interrupted. Run the same command again: it starts over by itself." 2>&8; exit 130' INT
    trap 'exit 143' TERM
    trap 'exit 129' HUP
    unset PYTHONHOME PYTHONPATH
    find_python
    mkdir -p "${venv%/*}" || stop "Hermes cannot create ${venv%/*}. Set HERMES_VENV to a folder of yours."
    hold_lock
    place=$venv extras=$venv.extras
    [ -e "$place" ] || [ ! -e "$place.hermes-old" ] || mv "$place.hermes-old" "$place"
    is_ready && exit 0
    [ -f "$venv/installed" ] && read -r installed <"$venv/installed" || installed=
    if [ ! -x "$venv/bin/python" ] || [ "$installed" != "$(cksum "$lock")" ]; then
        install_packages
    fi
    [ ! -r "$extras" ] || install_extras
    rm -rf "$venv/bootstrap"
    "$venv/bin/python" -I "$root/tools/link.py" "$root" || exit 1
    # Otherwise the first start would compile, and keep the memory that this takes.
    "$venv/bin/python" -I -m compileall -q -j 0 "$root/src/hermes" >/dev/null 2>&1 || :
    printf '%s\n' "$want" >"$venv/stamp.new" && mv -f "$venv/stamp.new" "$venv/stamp" || exit 1
    [ "$venv" = "$place" ] || put_in_place
}

# The real file, not a link or a shim: should this Python go away, `bin/python` dangles and the
# environment is made again with the next one.
find_python() {
    python=
    for name in "${HERMES_PYTHON:-python3}" python3 python3.14 python3.13 python3.12 python3.11 python; do
        python=$("$name" -I -c 'import os, sys
if sys.version_info >= (3, 11): print(os.path.realpath(getattr(sys, "_base_executable", sys.executable)))' \
            2>/dev/null) && [ -n "$python" ] && return 0
    done
    stop "Hermes needs Python 3.11 or newer, and none was found." \
        "On Debian or Ubuntu: sudo apt-get install python3 python3-venv" \
        "(or name one: HERMES_PYTHON=/path/to/python3 $0)"
}

# The kernel drops the lock when its last holder ends; an installer that outlives a killed set-up
# still holds it, so nobody works in the same folder at the same time.
hold_lock() {
    [ -e "$venv.lock" ] || (: >"$venv.lock") 2>/dev/null ||
        stop "Hermes cannot write to ${venv%/*}. Set HERMES_VENV to a folder of yours."
    exec 9<"$venv.lock"
    "$python" -I -c 'import fcntl, sys
try:
    fcntl.flock(0, fcntl.LOCK_EX | fcntl.LOCK_NB)
except BlockingIOError:
    print("Another set-up of Hermes is running; waiting for it …", file=sys.stderr, flush=True)
    fcntl.flock(0, fcntl.LOCK_EX)
except OSError:
    pass  # a file system without locks' <&9 || exit 130
}

install_packages() {
    if [ -z "$installed" ]; then
        say "Setting up Hermes (first run only) …"
    else
        say "Setting up Hermes again: its packages or its location have changed …"
    fi
    began=$(date +%s)
    make_folder
    set_tools
    say "  Python: $python"
    "$python" -I -m venv --without-pip "$venv" >>"$log" 2>&1 || { add_venv_module && "$python" -I -m venv \
        --without-pip "$venv" >>"$log" 2>&1; } || give_up "Python could not create an environment."
    say "  Installing $(grep -c '==' "$lock") packages …"
    install_locked "$lock" || give_up "The packages could not be installed."
    cksum "$lock" >"$venv/installed"
    say "  Ready after $(($(date +%s) - began)) s."
}

# An extra that cannot be had keeps nobody from the rest; the command that needs it says so.
install_extras() {
    set_tools
    while IFS= read -r extra; do
        [ -f "$(extra_lock)" ] || continue
        [ -f "$venv/extra-$extra" ] && read -r installed <"$venv/extra-$extra" || installed=
        [ "$installed" != "$(cksum "$(extra_lock)")" ] || continue
        say "  Installing the packages for $extra …"
        if install_locked "$(extra_lock)" </dev/null; then
            cksum "$(extra_lock)" >"$venv/extra-$extra"
        else
            tail -n 4 "$log" >&2
            say "  The packages for $extra could not be installed. Check the network, then:" \
                "hermes platforms install $extra"
        fi
    done <"$extras"
}

set_tools() {
    log=$venv/setup.log
    export PIP_USER=0 PIP_REQUIRE_VIRTUALENV=0 PIP_NO_INPUT=1 PIP_DISABLE_PIP_VERSION_CHECK=1 \
        PIP_ROOT_USER_ACTION=ignore UV_SYSTEM_CERTS="${UV_SYSTEM_CERTS:-1}" \
        UV_NATIVE_TLS="${UV_NATIVE_TLS:-1}" UV_NO_PROGRESS=1
    unset PIP_TARGET PIP_PREFIX PIP_REQUIREMENT UV_REQUIRE_HASHES
    [ -n "${HOME:-}" ] && [ -w "$HOME" ] || export UV_NO_CACHE=1 PIP_NO_CACHE_DIR=1
}

# Nothing is ever removed that Hermes did not make.
make_folder() {
    if [ -e "$place" ] && [ ! -e "$place/made-by-hermes" ] && [ -n "$(ls -A "$place" 2>/dev/null)" ]; then
        stop "$place was not made by Hermes and is left alone." "Remove it, or set HERMES_VENV to another folder."
    fi
    venv=$place.hermes-new
    rm -rf "$venv"
    mkdir "$venv" && : >"$venv/made-by-hermes" || stop "Hermes cannot create $venv."
}

# Scripts name the folder that they were made in.
put_in_place() {
    "$venv/bin/python" -I -c 'import os, pathlib, sys
new, place = (os.fsencode(os.path.basename(path)) for path in sys.argv[1:])
for file in pathlib.Path(sys.argv[1], "bin").iterdir():
    text = b"" if file.is_symlink() or not file.is_file() else file.read_bytes()
    if new in text and (text.startswith(b"#!") or file.name.lower().startswith("activate")):
        file.write_bytes(text.replace(new, place))' "$venv" "$place" || exit 1
    rm -rf "$place.hermes-old"
    if [ -e "$place" ] || [ -L "$place" ]; then
        mv "$place" "$place.hermes-old" || stop "Hermes cannot replace $place. Set HERMES_VENV to a folder of yours."
    fi
    mv "$venv" "$place" || { mv "$place.hermes-old" "$place"; exit 1; }
    rm -rf "$place.hermes-old"
}

install_locked() {
    { install_with_uv "$1" && has_packages "$1"; } || { install_with_pip "$1" && has_packages "$1"; }
}

# An installer that was led elsewhere says that all is well. What depends on the system may be left out.
has_packages() {
    "$venv/bin/python" -I -c 'import re, sys
from importlib.metadata import distributions
def plain(name): return re.sub(r"[-_.]+", "-", name).lower()
there = {plain(each.metadata["Name"] or "") for each in distributions()}
wanted = re.findall(r"^([\w.-]+)(?:\[[^]]*\])?==[^\s;]+ *\\?$", open(sys.argv[1], encoding="utf-8").read(), re.M)
missing = [name for name in wanted if plain(name) not in there]
if missing: sys.exit("The installer put these somewhere else: " + ", ".join(missing))' "$1" >>"$log" 2>&1
}

# Locks name every package: nothing is looked for beyond them. (Asked to, older pips take the newest release of
# a package that is wanted with an extra, and refuse it because it is not pinned.)
install_with_uv() {
    if uv --version >/dev/null 2>&1; then
        uv=uv
    else
        find_pip || return 1
        uv=$venv/bootstrap/bin/uv
        [ -x "$uv" ] || run_pip install --quiet --no-deps --require-hashes --target "$venv/bootstrap" \
            --requirement "$root/tools/bootstrap-uv.lock" >>"$log" 2>&1 || return 1
    fi
    # A `uv.toml` or `pyproject.toml` of the folder we were started in is not ours; variables (`UV_…`) count.
    (cd "$venv" && "$uv" pip install --no-config --quiet --python "$venv/bin/python" --compile-bytecode \
        --no-deps --require-hashes --requirement "$1") >>"$log" 2>&1
}

# Slower, but it knows pip's own configuration (mirrors, certificates), which uv does not read.
install_with_pip() {
    find_pip || return 1
    run_pip install --quiet --no-deps --require-hashes --requirement "$1" >>"$log" 2>&1
}

# Debian splits pip and ensurepip off; whichever way is there first serves.
find_pip() {
    [ -z "${pip:-}" ] || return 0
    if "$python" -I -m pip --python "$venv/bin/python" --version >/dev/null 2>&1; then
        pip=outside
    elif "$venv/bin/python" -I -m ensurepip >>"$log" 2>&1; then
        pip=inside
    elif "$python" -I "$root/tools/fetch_pip.py" "$root/tools/bootstrap-pip.lock" "$venv/bootstrap" \
        >>"$log" 2>&1; then
        pip=wheel
    elif add_venv_module && "$venv/bin/python" -I -m ensurepip >>"$log" 2>&1; then
        pip=inside
    else
        return 1
    fi
}

run_pip() {
    case $pip in
        outside) "$python" -I -m pip --python "$venv/bin/python" "$@" ;;
        inside) "$venv/bin/python" -I -m pip "$@" ;;
        wheel) "$venv/bin/python" "$venv/bootstrap/pip.whl/pip" "$@" ;;
    esac
}

# The last resort, and only for root: Debian's own package.
add_venv_module() {
    [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1 || return 1
    say "  Installing Debian's ${python##*/}-venv …"
    { apt-get update && DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends \
        "${python##*/}-venv"; } </dev/null >>"$log" 2>&1
}

give_up() {
    tail -n 12 "$log" >&2
    say "$1 The lines above say why (all of them: $log)."
    say "Check the network and run the same command again. If Python has neither pip nor venv:" \
        "sudo apt-get install ${python##*/}-venv"
    exit 1
}
