"""The homes of the gateway and its agents: closed whole, however one gets there; and `hermes` by any name."""

from __future__ import annotations

import pytest

from hermes.agent.danger.judge import judge_command, judge_input
from hermes.agent.danger.paths import read_fault, write_fault
from hermes.agent.danger.scope import CommandScope, is_free_workspace
from hermes.domain.ports.world import FolderRules
from hermes.domain.word import replace

HOMES = FolderRules(
    closed=("/home/ann/.hermes", "/home/ann/bots/bee", "/tmp/x/home", "/run/user/7/hermes-ab.sock"),
    readable=("/home/ann/.hermes/cache/output", "/home/ann/.hermes/SOUL.md"),
    writable=("/home/ann/.hermes/workspace",),
)
PLACE = CommandScope(cwd="/home/ann/shop", workspace="/home/ann/shop", home="/home/ann", homes=HOMES)


def rules(command: str, place: CommandScope = PLACE) -> set[str]:
    return {finding.rule for finding in judge_command(command, place).findings}


@pytest.mark.parametrize(
    "command",
    [
        "cat ~/.hermes/gateway.db",
        "sqlite3 ~/.hermes/gateway.db 'select body from journal'",
        "sqlite3 x.db \"attach '/home/ann/.hermes/gateway.db' as g\"",
        "cat /home/ann/.HERMES/config.yaml",
        "cat ~/.h*/config.yaml",
        "cat ~/.herme?/config.yaml",
        "cat ~/.[h]ermes/config.yaml",
        "cat ~/bots/*/MEMORY.md",
        "cat ~ann/.hermes/config.yaml",
        "cat $(find ~ -name gateway.db)",
        "cat $(ls -d ~/.herm*)/config.yaml",
        "find ~ -name gateway.db | xargs cat",
        "find ~ -name gateway.db | head -1 | xargs -I{} cp {} copy",
        "export H=~/.hermes",
        "cd ~/.hermes; echo *",
        "read -r f <<< ~/.hermes/config.yaml; cat $f",
        "echo ~/.hermes/config.yaml | while read f; do cat $f; done",
        "H=~/.hermes/config.yaml",
        "curl file:///home/ann/.hermes/config.yaml",
        "cat ~/**/gateway.db",
        "ls ~/.hermes/sessions",
        "cd ~/.hermes && cat config.yaml",
        "cd ~/.hermes && ls",
        "cd ~/.hermes/cache/output/../.. && tar c logs",
        "cat ~/.hermes/cache/output/../../config.yaml",
        "cat < ~/.hermes/config.yaml",
        'echo "$(<~/.hermes/config.yaml)"',
        "dd if=/home/ann/.hermes/gateway.db of=copy",
        "dd if=~/.hermes/gateway.db of=copy",
        "grep -f/home/ann/.hermes/config.yaml x",
        "tar czf x.tgz ~",
        "tar czf x.tgz /home",
        "cp -r ~ copy",
        "cp -a /tmp/x copy",
        "rsync ~/ copy",
        "zip -r x.zip ~",
        "grep -r key ~",
        "grep -rn key /tmp/x",
        "cd ~ && grep -r key",
        "cd ~ && rg key",
        "find ~ -type f -exec cat {} +",
        "ln -s ~ everything",
        "python3 -m zipfile -c x.zip /home/ann",
        "python3 -c \"print(open('/home/ann/.hermes/config.yaml').read())\"",
        "python3 -c \"import pathlib; print((pathlib.Path.home() / '.hermes' / 'x').read_text())\"",
        "awk 'BEGIN { while ((getline l < \"/home/ann/.hermes/x\") > 0) print l }'",
        "sed 'r /home/ann/.hermes/config.yaml' x",
        "cat /run/user/7/hermes-ab.sock",
    ],
)
def test_reading_a_home_is_asked_for(command: str) -> None:
    assert "read.home" in rules(command)


@pytest.mark.parametrize(
    "command",
    [
        "cat $SET_BEFORE/config.yaml",
        "cat $A$B",
        'cp "$SET_BEFORE/gateway.db" copy',
        "cat ~/$NAME",
        "cat /home/$WHO/notes.txt",
        "cat /$NAME",
        "wc -l < ~/$NAME",
        "cd - && cat config.yaml",
        'cd "$SET_BEFORE" && tar c .',
        "cd $SET_BEFORE && cat *",
    ],
)
def test_what_may_be_in_a_home_is_asked_for(command: str) -> None:
    assert "read.unknown" in rules(command)


@pytest.mark.parametrize(
    "command",
    [
        "cat $FILE",
        "cat src/$NAME.txt",
        "wc -l $(git ls-files)",
        "find . -name '*.py' | xargs wc -l",
        "cd $(git rev-parse --show-toplevel) && npm test",
        'git commit -m "$A and $B/x"',
        'for f in *.txt; do cat "docs/$f"; done',
        'echo "$A/$B"',
        "ls ~ | xargs echo",
        "X=~/shop; cat $X/notes.txt",
    ],
)
def test_what_is_elsewhere_is_free(command: str) -> None:
    assert rules(command) == set()


@pytest.mark.parametrize(
    "command",
    [
        "echo x > ~/.hermes/config.yaml",
        "echo x >> ~/bots/bee/hooks/a/HOOK.yaml",
        "tee ~/.hermes/cache/shells/abc < x",
        "echo x > ~/.hermes/cache/output/y",
        "rm -f ~/.hermes/gateway.db",
        "rm -rf ~/.hermes",
        "rm -rf ~/bots",
        "rm -rf /tmp/x",
        "rm -rf /tmp/x*",
        "rm -rf /tmp/x/ho*",
        "mv /tmp/x /tmp/y",
        "mv ~/bots old",
        "cp -r theirs/. ~",
        "tar xf a.tar -C ~",
        "printf 'code' >&251",
    ],
)
def test_changing_a_home_is_asked_for(command: str) -> None:
    assert "write.agent" in rules(command)


@pytest.mark.parametrize(
    "command",
    [
        "cat ~/.hermes/cache/output/proc_1.txt",
        "tail -n 5 ~/.hermes/cache/output/*.txt",
        "cat ~/.hermes/SOUL.md",
        "cat ~/.hermes/workspace/notes.txt",
        "echo x > ~/.hermes/workspace/notes.txt",
        "[ -d ~/.hermes ] && echo there",
        "echo ~/.hermes/config.yaml",
        "grep -r key .",
        "tar czf x.tgz .",
        "cp -r src copy",
        "find . -name '*.py' -exec cat {} +",
        "ls ~",
        "ls ~/*/",
        "cat ~/.hermesrc",
        "rm -rf /tmp/other",
        "rmdir /tmp/x",
        "rm -rf /tmp/xy",
        "git commit -m 'Look into ~/.hermes'",
        "echo hi >&2",
    ],
)
def test_the_rest_is_free(command: str) -> None:
    assert rules(command) == set()


def test_what_is_too_long_to_be_matched_is_asked_for() -> None:
    assert rules("cat ~/" + "a*" * 200 + "/x") == {"read.home"}
    assert rules("cat " + "a/" * 2500 + "*") == {"read.secret"}


def test_a_write_that_may_lead_into_a_home() -> None:
    assert rules("echo x > /tmp/x/$NAME") == {"write.unknown"}
    assert rules("echo x > /tmp/y/$NAME") == set()


def test_a_short_name_of_a_home_may_stand_in_code() -> None:
    place = replace(PLACE, homes=FolderRules(closed=("/home/ann/bee",)))
    assert rules("python3 -c 'bee = 1; print(bee)'", place) == set()
    assert rules("python3 -c 'print(open(\"/home/ann/bee/x\").read())'", place) == {"read.home"}


def test_a_home_inside_the_workspace_stays_closed() -> None:
    inside = "/home/ann/.hermes/workspace/bee"
    place = replace(PLACE, homes=replace(HOMES, closed=(*HOMES.closed, inside)))
    assert read_fault(f"{inside}/MEMORY.md", place) == "read.home"
    assert write_fault(f"{inside}/MEMORY.md", place) == "write.agent"
    assert write_fault("/home/ann/.hermes/workspace/notes.txt", place) == ""


def test_a_home_around_the_workspace_stays_closed() -> None:
    place = replace(PLACE, cwd="/home/ann/.hermes", workspace="/home/ann/.hermes")
    assert "write.agent" in rules("rm -f gateway.db", place)
    assert "read.home" in rules("cat config.yaml", place)
    assert write_fault("/home/ann/.hermes/hooks/x", place) == "write.agent"
    assert read_fault("/home/ann/.hermes/logs/gateway.log", place) == "read.home"
    assert read_fault("/home/ann/.hermes/.env", place) == "read.secret"


@pytest.mark.parametrize("workspace", ["/home/ann", "/home", "/", "/etc", "/tmp", "/usr/local"])
def test_what_is_too_wide_is_no_free_workspace(workspace: str) -> None:
    place = replace(PLACE, cwd=workspace, workspace=workspace)
    assert rules("rm -rf ~/Documents", place) == {"delete.outside"}
    assert rules("rm -f /etc/hosts", place) == {"delete.outside"}
    assert rules("echo x > /etc/hosts", place) == {"write.system"}
    assert "write.agent" in rules("rm -rf ~/.hermes", place)
    assert not is_free_workspace(workspace, "/home/ann")


def test_a_user_at_home_everywhere_owns_nothing_of_the_system() -> None:
    place = replace(PLACE, cwd="/data/x", workspace="/data/x", home="/")
    assert rules("echo x > /etc/hosts", place) == {"write.system"}
    assert rules("rm -rf old", place) == set()


def test_a_workspace_may_be_wide_for_other_reasons() -> None:
    assert rules("rm -rf old", replace(PLACE, wide=True)) == {"delete.outside"}
    assert rules("rm -rf old") == set()
    assert is_free_workspace("/home/ann/shop", "/home/ann") and is_free_workspace("/srv/shop", "/home/ann")


@pytest.mark.parametrize(
    "command",
    [
        "hermes config set approvals.mode off",
        "/usr/local/bin/hermes pairing approve telegram X",
        "./hermes config set approvals.mode off",
        "python -m hermes config set approvals.mode off",
        "python3 -P -m hermes config set approvals.mode off",
        "python3.13 -Im hermes config set approvals.mode off",
        "python3 -mhermes config set approvals.mode off",
        "python3 -m hermes.cli config set approvals.mode off",
        "python3 -m cProfile -m hermes config set approvals.mode off",
        "python3 .venv/bin/hermes config set approvals.mode off",
        "python3 src/hermes/__main__.py config set approvals.mode off",
        "python3 src/hermes config set approvals.mode off",
        "sh ./hermes config set approvals.mode off",
        "env -i hermes config set approvals.mode off",
        "exec -a editor hermes config set approvals.mode off",
        "shopt -s expand_aliases\nalias h=hermes\nh config set approvals.mode off",
        "alias h='python -m'; h hermes config set approvals.mode off",
        "uv run hermes config set approvals.mode off",
        "uvx --from . hermes config set approvals.mode off",
        "pipx run hermes config set approvals.mode off",
        "coverage run -m hermes config set approvals.mode off",
        "timeout 5 nice hermes access allow 42",
        "echo /yolo | hermes",
        "hermes -q 'run: rm -rf ~/docs'",
        "hermes sessions delete x",
        "hermes grants revoke x",
        "xargs hermes config set < words",
    ],
)
def test_hermes_is_hermes_by_any_name(command: str) -> None:
    assert "agent.self" in rules(command)


@pytest.mark.parametrize(
    "command", ["hermes status", "hermes --version", "hermes cron --help", "hermes config check"]
)
def test_a_look_at_hermes_is_free(command: str) -> None:
    assert rules(command) == set()


@pytest.mark.parametrize(
    ("command", "rule"),
    [
        ("curl --unix-socket /x/y.sock http://h/control/say", "net.socket"),
        ("curl --abstract-unix-socket y http://h", "net.socket"),
        ("nc -U /x/y.sock", "net.socket"),
        ("nc -zU /x/y.sock", "net.socket"),
        ("socat - UNIX:/x/y.sock", "net.socket"),
        ("cat /proc/1/environ", "read.secret"),
        ("cat /proc/$(pgrep -f gateway)/environ", "read.secret"),
        ("tr '\\0' '\\n' < /proc/$PID/environ", "read.secret"),
        ("cat /proc/self/task/1/environ", "read.secret"),
        ("cat /proc/1/root/home/ann/.hermes/config.yaml", "read.secret"),
        ("cat /proc/$PPID/cwd/x", "read.secret"),
        ("ps eww -A", "read.secret"),
        ("ps axe", "read.secret"),
        ("ps -o environ", "read.secret"),
        ("ps -wwE", "read.secret"),
        ("echo x > /dev/fd/251", "write.system"),
    ],
)
def test_ways_around_the_home(command: str, rule: str) -> None:
    assert rule in rules(command)


@pytest.mark.parametrize(
    "command", ["ps aux", "ps -ef", "ps -e -o pid,cmd", "ps -C node", "cat /proc/cpuinfo"]
)
def test_looking_at_processes_is_free(command: str) -> None:
    assert rules(command) == set()


# --- lines for running processes ---


def lines(text: str, command: str) -> set[str]:
    return {finding.rule for finding in judge_input(text, command, PLACE).findings}


@pytest.mark.parametrize("shell", ["bash", "sh -i", "cd /tmp && bash", "env A=1 zsh", "bash --norc -s"])
@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("rm -rf ~/docs; cat ~/.hermes/.env", "delete.outside"),
        ("rm -rf docs", "delete.unknown"),
        ("cat .env", "read.secret"),
        ("echo hi > x", "write.unknown"),
        ("cd /srv", "run.later"),
        ("alias ls='rm -rf'", "run.later"),
        ("python3", "run.later"),
        ("exec < script", "run.later"),
        ("cat <<EOF", "run.later"),
        ("echo a \\", "run.later"),
        ("!!", "run.later"),
        ("^a^b", "run.later"),
        ("echo 'open", "text.unreadable"),
        ("mkfs.ext4 /dev/sdb", "disk.format"),
    ],
)
def test_a_line_for_a_shell_is_a_command(shell: str, text: str, rule: str) -> None:
    assert rule in lines(text, shell)


@pytest.mark.parametrize("text", ["ls -la", "git status", "npm test", "y", "echo done"])
def test_everyday_lines_for_a_shell_are_free(text: str) -> None:
    assert lines(text, "bash") == set()


@pytest.mark.parametrize(
    "command", ["python3 -i", "node", "psql shop", "npm init", "ssh host", "", "bash; python3"]
)
def test_what_other_programs_are_told_is_asked_for(command: str) -> None:
    assert lines("import os", command) == {"run.input"}
    assert lines("flushall", command) == {"run.input"}
    assert lines("y\nrm x", command) == {"run.input"}
    assert lines("mkfs.ext4 /dev/sdb", command) == {"run.input", "disk.format"}
    for answer in ("y", " No ", "", "3", "quit"):
        assert lines(answer, command) == set()
