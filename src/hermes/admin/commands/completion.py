"""`hermes completion`: a script for a shell that completes commands, options and profiles. Everything in it
is written out, so that pressing Tab starts no program."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from shlex import quote

from hermes.admin.shell.command import CliCommand, declare
from hermes.admin.shell.tree import CommandNode, command_tree

_WHERE = {
    "bash": "~/.local/share/bash-completion/completions/hermes",
    "zsh": "a file that ~/.zshrc sources after `compinit`",
    "fish": "~/.config/fish/completions/hermes.fish",
}
_OPTIONS = {"-p": "a profile", "--profile": "a profile", "--help": "help", "--version": "the version"}
_BASH = """# Completion of `hermes` for bash. Put it into {where}
_hermes() {{
    local word=${{COMP_WORDS[COMP_CWORD]}} command="" next=""
    local i
    for ((i = 1; i < COMP_CWORD; i++)); do
        case ${{COMP_WORDS[i]}} in
            -p|--profile) ((i++)) ;;
            -*) ;;
            *) if [[ -z $command ]]; then command=${{COMP_WORDS[i]}}
               elif [[ -z $next ]]; then next=${{COMP_WORDS[i]}}; fi ;;
        esac
    done
    case ${{COMP_WORDS[COMP_CWORD-1]}} in
        -p|--profile)
            local home=${{HERMES_HOME:-$HOME/.hermes}}
            COMPREPLY=($(compgen -W "default $(ls "$home/profiles" 2>/dev/null)" -- "$word"))
            return ;;
    esac
    local words="{top}"
    case "$command $next" in
{cases}
    esac
    COMPREPLY=($(compgen -W "$words" -- "$word"))
    [[ ${{#COMPREPLY[@]}} -gt 0 || $word == -* ]] || COMPREPLY=($(compgen -f -- "$word"))
}}
complete -o filenames -F _hermes hermes
"""
_ZSH = """# Completion of `hermes` for zsh. Put it into {where}
autoload -U +X bashcompinit && bashcompinit
{bash}"""


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.set_defaults(act=run)
    parser.description = "Print the completion script of a shell."
    shell = {"shell": "the shell that it is for"}
    declare(parser, shell, choices=tuple(_WHERE))


def run(command: CliCommand) -> None:
    make = {"bash": bash_script, "zsh": zsh_script, "fish": fish_script}[command.asked.shell]
    tree = command_tree()
    top = {name: str(node.parser.description or "") for name, node in tree.items() if " " not in name}
    command.console.out.write(make(tree, top | _OPTIONS))


def _words(node: CommandNode) -> dict[str, str]:
    """What may follow a command, with what it means."""
    below = {name: str(parser.description or "") for name, parser in node.below.items()}
    return below | dict.fromkeys(node.choices, "") | node.options


def bash_script(tree: Mapping[str, CommandNode], top: Mapping[str, str]) -> str:
    cases = []
    for name, node in tree.items():
        pattern = f'"{name}"' if " " in name else f'"{name} "*'
        cases.append(f"        {pattern}) words={quote(' '.join(_words(node)))} ;;")
    # The longer names first: a command alone matches whatever follows it.
    cases.sort(key=lambda line: "*" in line.partition(")")[0])
    return _BASH.format(where=_WHERE["bash"], top=" ".join(top), cases="\n".join(cases))


def zsh_script(tree: Mapping[str, CommandNode], top: Mapping[str, str]) -> str:
    """zsh runs what is written for bash."""
    return _ZSH.format(where=_WHERE["zsh"], bash=bash_script(tree, top))


def fish_script(tree: Mapping[str, CommandNode], top: Mapping[str, str]) -> str:
    lines = [f"# Completion of `hermes` for fish. Put it into {_WHERE['fish']}"]
    for name, text in top.items():
        lines.append(_fish("__fish_use_subcommand", name, text))
    for name, node in tree.items():
        command, _, sub = name.partition(" ")
        seen = f"__fish_seen_subcommand_from {command}"
        below = " ".join(node.below)
        if sub:
            seen += f"; and __fish_seen_subcommand_from {sub}"
        elif below:
            seen += f"; and not __fish_seen_subcommand_from {below}"
        lines += [_fish(seen, word, text) for word, text in _words(node).items()]
    return "\n".join(lines) + "\n"


def _fish(condition: str, word: str, text: str) -> str:
    head = f"complete -c hermes -n {_fish_quoted(condition)}"
    if word.startswith("--"):
        head += f" -l {word[2:]}"
    elif word.startswith("-"):
        head += f" -s {word[1:]}"
    else:
        head += f" -f -a {_fish_quoted(word)}"
    return f"{head} -d {_fish_quoted(text)}" if text else head


def _fish_quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"
