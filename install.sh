#!/bin/sh
# Installs Hermes Gateway for the user who runs it, on Linux or macOS:
#
#   sh install.sh [--yes] [--folder DIR] [--from ADDRESS] [--no-setup]
#
# In a clone it installs that clone; elsewhere it clones ADDRESS (or HERMES_REPOSITORY) first. It asks before it
# installs anything by the system's own means, and says what each thing is for. It can be run again at any time.
set -eu

yes=no setup=yes
folder=${HERMES_FOLDER:-$HOME/hermes-gateway}
address=${HERMES_REPOSITORY:-}

say() { printf '%s\n' "$@"; }
stop() { say "$@" >&2; exit 1; }
usage() { sed -n '2,7s/^# \{0,1\}//p' "$0"; }

while [ $# -gt 0 ]; do
    case $1 in
        -y | --yes) yes=yes ;;
        --no-setup) setup=no ;;
        --folder) [ $# -gt 1 ] || stop "--folder needs a folder."; folder=$2; shift ;;
        --from) [ $# -gt 1 ] || stop "--from needs an address."; address=$2; shift ;;
        -h | --help) usage; exit 0 ;;
        *) stop "There is no option $1." "See: sh install.sh --help" ;;
    esac
    shift
done

# ask QUESTION: whether somebody says yes; without a terminal only --yes does.
ask() {
    [ "$yes" = no ] || return 0
    if ! { [ -t 1 ] && : </dev/tty; } 2>/dev/null; then
        say "  Nobody can be asked here, so this is left out (--yes says yes to everything): $1"
        return 1
    fi
    printf '  %s [y/N] ' "$1"
    read -r answer </dev/tty || answer=
    case $answer in y | Y | yes | ja) return 0 ;; *) return 1 ;; esac
}

# The system's own way to install a package. Sets `installer`, empty if none is known.
find_installer() {
    sudo=
    [ "$(id -u)" = 0 ] || sudo=sudo
    for installer in apt-get dnf zypper pacman apk brew; do
        command -v "$installer" >/dev/null 2>&1 || continue
        [ "$installer" != brew ] || sudo=
        [ -z "$sudo" ] || command -v sudo >/dev/null 2>&1 || break
        return 0
    done
    installer=
}

# bring PACKAGES…: install them with the system's installer.
bring() {
    case $installer in
        apt-get)
            $sudo apt-get update -q >/dev/null 2>&1 || :
            DEBIAN_FRONTEND=noninteractive $sudo apt-get install -y -q --no-install-recommends "$@"
            ;;
        dnf) $sudo dnf install -y -q "$@" ;;
        zypper) $sudo zypper --non-interactive install "$@" ;;
        pacman) $sudo pacman -S --noconfirm --needed "$@" ;;
        apk) $sudo apk add "$@" ;;
        brew) brew install "$@" ;;
        *) return 1 ;;
    esac
}

has_python() {
    for name in "${HERMES_PYTHON:-python3}" python3 python3.14 python3.13 python3.12 python3.11; do
        "$name" -I -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && return 0
    done
    return 1
}

python_packages() {
    case $installer in
        apt-get) say python3 python3-venv ;;
        pacman | brew) say python ;;
        *) say python3 ;;
    esac
}

# offer PROGRAM PACKAGE WHAT-FOR: something that a feature wants; Hermes runs without it.
offer() {
    ! command -v "$1" >/dev/null 2>&1 || return 0
    [ -n "$installer" ] || { say "  $1 is missing ($3). Install it if you want that."; return 0; }
    if ask "Install $1 ($3)?"; then
        bring "$2" >/dev/null || say "  $1 could not be installed; Hermes works without it."
    fi
}

find_installer
here=$(CDPATH='' cd -P -- "$(dirname -- "$0")" && pwd -P)

say "1. Python"
if ! has_python; then
    [ -n "$installer" ] || stop "Hermes needs Python 3.11 or newer. Install it, and run this again."
    # shellcheck disable=SC2046  # one word for each package
    { ask "Install Python with $installer?" && bring $(python_packages) >/dev/null; } || :
    has_python || stop "Hermes needs Python 3.11 or newer, and there is none." "Install it, and run this again."
fi

say "2. Hermes"
if [ -f "$here/hermes" ] && [ -d "$here/src/hermes" ]; then
    folder=$here
elif [ ! -f "$folder/hermes" ]; then
    command -v git >/dev/null 2>&1 || stop "git is missing. Install it, and run this again."
    [ -n "$address" ] || stop "Where is Hermes to be cloned from?" "Say it with: sh install.sh --from ADDRESS"
    git clone --quiet "$address" "$folder" || stop "$address could not be cloned."
fi
"$folder/hermes" --version || stop "Hermes could not be prepared. The lines above say why."
mkdir -p "$HOME/.local/bin"
if [ -e "$HOME/.local/bin/hermes" ] && [ ! -L "$HOME/.local/bin/hermes" ]; then
    say "  $HOME/.local/bin/hermes is something else and is left alone."
else
    ln -sf "$folder/hermes" "$HOME/.local/bin/hermes"
fi
case :$PATH: in
    *":$HOME/.local/bin:"*) ;;
    *) say "  Add this to your ~/.profile, and log in again: export PATH=\"\$HOME/.local/bin:\$PATH\"" ;;
esac

say "3. What some features want"
offer git git "/undo of files, skills from repositories"
offer rg ripgrep "fast search in files"
offer ffmpeg ffmpeg "voice messages"
[ "$installer" = brew ] && npm=node || npm=npm
offer npm "$npm" "Node.js, for WhatsApp"
[ "$(uname -s)" != Linux ] || offer bwrap bubblewrap "a sandbox for commands"

say "4. Set-up"
if [ "$setup" = yes ] && { [ -t 1 ] && : </dev/tty; } 2>/dev/null; then
    exec "$folder/hermes" setup </dev/tty
fi
say "  Later: $folder/hermes setup"
