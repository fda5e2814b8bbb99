"""What the shell or a program sees in a command that its words do not say: each form with its rule."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from hermes.agent.danger.judge import judge_command, judge_input
from hermes.agent.danger.scope import CommandScope
from hermes.domain.ports.world import FolderRules

HOME = "/home/ann/.hermes"
BEE = "/home/ann/bots/bee"
PLACE = CommandScope(
    cwd=f"{HOME}/workspace",
    workspace=f"{HOME}/workspace",
    home="/home/ann",
    homes=FolderRules(closed=(HOME, BEE), writable=(f"{HOME}/workspace",)),
)
DELETE = "rm -rf ~/docs"


def rules(command: str) -> set[str]:
    return {finding.rule for finding in judge_command(command, PLACE).findings}


@pytest.mark.parametrize(
    ("command", "rule"),
    [
        ("echo x > ~+/../config.yaml", "write.agent"),
        ("echo x | tee ~+/../config.yaml", "write.agent"),
        ("mkdir -p ~+/../hooks/evil", "write.agent"),
        ("cp ~+/../config.yaml e", "read.home"),
        ("dd if=x of=~+/../config.yaml", "write.agent"),
        ("export H=~+/..; cat $H/config.yaml", "read.home"),
        ("H=~+/..; cat $H/config.yaml", "read.home"),
        ("cat ~-/config.yaml", "read.unknown"),
        ("echo x > ~-/config.yaml", "write.unknown"),
        ("cat ~1/config.yaml", "read.unknown"),
        ("cat ~+1/config.yaml", "read.unknown"),
        ("cat ~other/.hermes/config.yaml", "read.unknown"),
        ("cd ..; cat $PWD/config.yaml", "read.home"),
        ("cd /tmp; cd ~-; cat ../config.yaml", "read.home"),
        ("f() { cd ..; }; f; cat config.yaml", "read.unknown"),
        ("cat ${PWD::-9}config.yaml", "read.home"),
        ("cat ${PWD/workspace/config.yaml}", "read.home"),
        ("cat ${PWD%workspace}config.yaml", "read.home"),
        ("cat ${PWD%/*}/config.yaml", "read.home"),
        ("cat ${PWD:+../config.yaml}", "read.home"),
        ("x=; cat ${x:-../config.yaml}", "read.home"),
        (": ${x:=../config.yaml}; cat $x", "read.home"),
        ("x=PWD; cat ${!x}/../config.yaml", "read.home"),
        ("cat ${!x}", "read.unknown"),
        ("cat ${OLDPWD}", "read.unknown"),
        ("x=a/b; cat ${x//[a-z]/..}/config.yaml", "read.unknown"),
        ("cat ${PWD/[w]orkspace/config.yaml}", "read.unknown"),
        ("cat ${x/a/..}config.yaml", "read.unknown"),
        ("cat /proc/self/cwd/../config.yaml", "read.home"),
        ("cat /proc/self/./cwd/../config.yaml", "read.home"),
        ("cat /proc/1/../self/cwd/../config.yaml", "read.home"),
        ("cat ../../../../proc/self/cwd/../config.yaml", "read.home"),
        ("cat /proc/thread-self/cwd/../config.yaml", "read.home"),
        ("cat /proc/self/root/home/ann/.hermes/config.yaml", "read.home"),
        ("cat /proc/self/c?d/../config.yaml", "read.unknown"),
        ("cat /pro?/self/cwd/../config.yaml", "read.unknown"),
        ("cat /proc/self/task/7/cwd/../config.yaml", "read.secret"),
        ("cat /proc/$$/cwd/../config.yaml", "read.secret"),
        ("cat /proc/self/fd/3/config.yaml", "read.secret"),
        ("cat /dev/fd/3/config.yaml", "read.unknown"),
        ("echo x > /proc/self/cwd/../config.yaml", "write.agent"),
        ("echo x > /proc/7/cwd/../config.yaml", "write.unknown"),
        ("env -C .. cat config.yaml", "read.home"),
        ("declare -n r=PWD; cat $r/../config.yaml", "read.unknown"),
        (": ../config.yaml; cat $_", "read.unknown"),
        ("read a b <<< 'x ../config.yaml'; cat $b", "read.unknown"),
        ("read <<< ../config.yaml; cat $REPLY", "read.unknown"),
        ("cat $(echo ../config.yaml | cut -c1-)", "read.home"),
        ("cat .?/config.yaml", "read.unknown"),
        ("cat .*/config.yaml", "read.unknown"),
        ("curl -o../config.yaml http://localhost/x", "read.home"),
        ("env --chdir=.. cat config.yaml", "read.home"),
    ],
)
def test_a_path_is_where_the_shell_finds_it(command: str, rule: str) -> None:
    assert rule in rules(command)


@pytest.mark.parametrize(
    ("command", "rule"),
    [
        ("sed 'r ../config.yaml' x", "read.home"),
        ("sed -n '1,3{r../config.yaml\n}' x", "read.home"),
        ("sed -l 5 'R ../config.yaml' x", "read.home"),
        ("sed -e p -e '$r ../config.yaml' x", "read.home"),
        ("sed --expression='/a[/]b/r ../config.yaml' x", "read.home"),
        ("sed 's/a/b/;r ../config.yaml' x", "read.home"),
        ("sed '\\,a,Ir ../config.yaml' x", "read.home"),
        ("sed 'w ../config.yaml' x", "write.agent"),
        ("sed 's/a/b/gw ../config.yaml' x", "write.agent"),
        (f"sed '1e{DELETE}' x", "delete.outside"),
        (f"sed '1!e {DELETE}' x", "delete.outside"),
        ("sed 's/.*/rm x/e' x", "run.code"),
        ("sed 'y/a/b/;s,a,b,ge' x", "run.code"),
        ("awk 'BEGIN { while ((getline l < \"../config.yaml\") > 0) print l }'", "read.home"),
        ("awk 'BEGIN { getline l < f; print l }' f=x", "run.code"),
        ("awk --assign a=1 'BEGIN { system(\"id\") }'", "run.code"),
        ("gawk --source='BEGIN { system(\"id\") }'", "run.code"),
        ("awk 'BEGIN { ARGV[1]=\"../config.yaml\"; ARGC=2 } 1'", "read.home"),
        ("sqlite3 x '.open ../gateway.db' 'select body from journal'", "read.home"),
        ("sqlite3 x '.op ../gateway.db'", "read.home"),
        ("sqlite3 x '.import ../config.yaml t'", "read.home"),
        ("sqlite3 x '.output ../config.yaml' 'select 1'", "write.agent"),
        ("sqlite3 x '.backup main ../gateway.db'", "write.agent"),
        ("sqlite3 x '.read y.sql'", "sql.unknown"),
        ("sqlite3 x '.load ./y'", "run.unknown"),
        (f"sqlite3 x '.shell {DELETE}'", "delete.outside"),
        (f"sqlite3 x '.sys {DELETE}'", "delete.outside"),
        (f"sqlite3 x '.output |{DELETE}'", "delete.outside"),
        (f"sqlite3 x <<< '.shell {DELETE}'", "delete.outside"),
        ("sqlite3 x \"select readfile('../config.yaml')\"", "read.home"),
        ("psql -c '\\i ../x.sql'", "sql.drop"),
        ("mysql -e 'system id'", "sql.drop"),
        ("python3 -c \"print(open('../config.yaml').read())\"", "read.home"),
        ("node -p \"'../config.yaml'\"", "read.home"),
        (f"vim -c '!{DELETE}'", "delete.outside"),
        ("vim -c 'r ../config.yaml' -c 'w x' -c q", "run.code"),
        (f"ed x <<< '!{DELETE}'", "delete.outside"),
        (f"gdb -q <<< 'shell {DELETE}'", "delete.outside"),
        ("R --no-save <<< 'system(\"id\")'", "run.code"),
        ("julia -e 'run(`id`)'", "run.code"),
    ],
)
def test_a_small_language_is_read_too(command: str, rule: str) -> None:
    assert rule in rules(command)


WRAPPERS = (
    "prlimit",
    "prlimit --nofile=99 -o SOFT",
    "taskset 1",
    "taskset -c 0-3",
    "choom -n 5 --",
    "setarch -R",
    "setarch x86_64 -R",
    "linux32",
    "i386",
    "/lib64/ld-linux-x86-64.so.2",
    "/lib/ld-musl-x86_64.so.1 --argv0 x",
    "ld.so",
    "sg users -c",
    "sg users",
    "runcon -t x_t",
    "runcon u:r:t",
    "numactl -N 0 --localalloc",
    "chrt -b 0",
    "chrt 5",
    "ionice -c 3 -n 7",
    "cpulimit -l 50 --",
    "perf stat -e cycles",
    "faketime yesterday",
    "valgrind --tool=none",
    "capsh -- -c",
    "busybox",
    "env -S",
    "env -vS",
    "env -iS",
    "env --split-string",
    "gdb -batch -ex run --args",
    "trap -- '…' EXIT",
    "trap '…' EXIT",
    "compgen -C '…' x",
    "compgen -W '$(…)' x",
    "mapfile -C '…' -c 1 x",
    "env -S'…'",
    "env --split-string='…'",
    "script -qc '…' /dev/null",
    "gdb -batch -ex 'shell …'",
    "gdb -batch -ex '!…'",
    "lldb -b -o 'platform shell …'",
    "EDITOR='…' git commit",
    "history -s '…'",
    "hyperfine '…'",
    "parallel ::: '…'",
    "echo '…' | parallel",
    "gtimeout 5",
)


@pytest.mark.parametrize("wrapper", WRAPPERS)
def test_a_program_behind_another_is_judged(wrapper: str) -> None:
    def behind(command: str) -> set[str]:
        if "…" in wrapper:
            return rules(wrapper.replace("…", command))
        quoted = wrapper.endswith((" -c", "S", "--split-string"))
        return rules(f"{wrapper} '{command}'" if quoted else f"{wrapper} {command}")

    assert "delete.outside" in behind(DELETE)
    assert "agent.self" in behind("hermes config set approvals.mode off")
    assert judge_command("mkfs.ext4 /dev/sdb", PLACE).never and "disk.format" in behind("mkfs.ext4 /dev/sdb")


@pytest.mark.parametrize(
    ("command", "rule"),
    [
        ("x='a[$(id)]'; echo $((x))", "run.unknown"),
        ("x='a['; x+='$(id)]'; echo $((x))", "run.unknown"),
        ("for x in 'a[`id`]'; do echo $((x)); done", "run.unknown"),
        ("test -v 'a[$(id)]'", "run.unknown"),
        ("[[ 'a[$(id)]' -eq 1 ]]", "run.unknown"),
        ("printf -v 'a[$(id)]' x", "run.unknown"),
        ("unset 'a[$(id)]'", "run.unknown"),
        ("bash -c 'echo $(($1))' x 'a[$(id)]'", "run.unknown"),
        ("x='$(id)'; echo ${x@P}", "run.unknown"),
        ("x='$(id)'; echo ${x@E}", "run.unknown"),
        ("fc -s", "run.unknown"),
        ("enable -f ./x.so x", "run.code"),
        ("hash -p ./x ls", "run.unknown"),
        ("tmux new -d 'id'", "run.unknown"),
        ("bwrap --bind / / rm -rf ~/docs", "run.unknown"),
        ("man -P 'id' ls", "run.unknown"),
        ("PS1='$(id)'", "run.environment"),
        ("prlimit --rss=1000:1000 ls", "process.control"),
        ("prlimit -m1000 ls", "process.control"),
        ("prlimit --pid 12 --cpu=1:1", "process.control"),
        ("prlimit -p12 --nofile=5", "process.control"),
        ("ulimit -m 1", "process.control"),
        ("ulimit -Sm 1; ls", "process.control"),
        ("gdb -p 12", "process.control"),
        ("gdb --pid=12 -batch -ex 'call (int)system(\"id\")'", "process.control"),
        ("gdb ./x 12", "process.control"),
        ("gdb -ex 'attach 12'", "process.control"),
        ("gdb -batch -ex 'call (int)system(\"id\")' ./x", "run.code"),
        ("strace -fp 12", "process.control"),
        ("strace --attach=12", "process.control"),
        ("lldb -p 12", "process.control"),
        ("gcore 12", "process.control"),
    ],
)
def test_what_the_shell_or_a_debugger_does_by_itself(command: str, rule: str) -> None:
    assert rule in rules(command)


@pytest.mark.parametrize(
    "command",
    [
        "cat ~+/notes.txt",
        "cat .??*/x",
        "mkdir src && cd $_",
        "read a b <<< 'x y'; cat $b",
        "cd src && cat $PWD/a.py",
        "cat /proc/self/status",
        "ls /proc/self/cwd",
        "cat /proc/*/status",
        "for f in *.png; do convert $f ${f%.png}.jpg; done",
        "for f in a/*.png; do echo ${f##*/}; done",
        "x=src/a.txt; cat ${x%.txt}.md ${x/a/b}",
        "cat ${FILE%.txt}.md",
        "cat ${NAME:-notes}.txt",
        "files=(src/a src/b); cat ${files[0]}",
        "i=0; while [ $i -lt 3 ]; do i=$((i+1)); echo $((i * 2)); done",
        "[[ $x =~ ^[a-z]+$ ]] && echo yes",
        "sed -n '/start/,/end/p' f",
        "sed 's/[/]etc/x/; s|/a/|/b/|g' f",
        "sed -e 's/a/b/' -e '$d' -e '/x/!d' f",
        "sed '/^$/d;s/reward/were/' f",
        "sed -i -e '1i\\\nimport os' f",
        "sed 's/a/b/w out.txt' f",
        "awk '/x/ {getline; print}' f",
        "awk -v a=1 -F: '$1 < a {print}' f",
        "sqlite3 shop.db .schema '.mode csv' 'select 1'",
        "sqlite3 shop.db '.output out.csv' 'select 1'",
        "prlimit",
        "prlimit --nofile=100 npm test",
        "ulimit -n 4096; ulimit -a; ulimit -m",
        "taskset -c 0 make",
        "env -S 'npm test'",
        "trap 'rm -f /tmp/x.$$' EXIT",
        "trap - EXIT",
        "strace -f -e trace=open ls",
        "gdb -batch -ex run -ex bt --args ./app x",
        "vim +10 notes.txt",
        "bc <<< '1 + 1'",
        "echo '1 2 + p' | bc",
        "GIT_EDITOR=true git commit --amend",
        "PAGER=cat git log",
        "tmux ls",
        "julia -e 'println(1 + 1)'",
        "perf report",
    ],
)
def test_everyday_work_is_free(command: str) -> None:
    assert rules(command) == set()


# --- lines for running processes ---


def lines(text: str, command: str = "bash") -> set[str]:
    return {finding.rule for finding in judge_input(text, command, PLACE).findings}


@pytest.mark.parametrize("command", ["bash", "script -qc bash /dev/null", "npm init", ""])
@pytest.mark.parametrize("key", ["\r", "\x1b", "\x03", "\x7f", "\x00", "\x9b"])
def test_keys_are_not_sent(command: str, key: str) -> None:
    verdict = judge_input(f"echo a{key}{DELETE}", command, PLACE)
    assert verdict.never and {finding.rule for finding in verdict.findings} == {"text.keys"}


@pytest.mark.parametrize(
    "text",
    """
    sqlite3 x|sqlite3|gdb -q|gdb ./app|lldb|vim -es|vi|nvim -es|ex -s x|ed x|psql shop|mysql|mariadb shop|ftp
    |lftp host|sftp host|irb|ghci|R --no-save|julia|bc|dc|python3|python3 -i x.py|python3 -m pdb x.py|node
    |node -i|node inspect x.js|php -a|perl -de1|lua|ruby|tclsh|expect|erl|iex|jshell|redis-cli|mongosh
    |octave|gnuplot|newgrp|m4|script|script -qc bash /dev/null|tmux|screen|busybox sh|env sqlite3 x
    |. /dev/stdin|telnet host|history -s id|fc -s|fc|bind -x '"a": id'|trap 'id' EXIT|x='a['|x='$'|x+='(id)]'
    """.replace("\n", "")
    .replace("    ", "")
    .split("|"),
)
def test_a_line_that_changes_what_the_next_ones_mean(text: str) -> None:
    assert "run.later" in lines(text)


@pytest.mark.parametrize(
    "text",
    [
        "psql -c 'select 1'",
        "sqlite3 shop.db 'select 1'",
        "python3 x.py",
        "julia x.jl",
        "redis-cli ping",
        "node x.js",
        "gdb --version",
        "X=5",
        "export NAME=shop",
        "echo $((1 + 2))",
        "printf 'a\\tb'\t",
    ],
)
def test_everyday_lines_are_not_asked_for_that(text: str) -> None:
    """A name of a file may still lead anywhere, for who does not know where the shell stands."""
    assert lines(text) <= {"read.unknown"}


@pytest.mark.parametrize(
    "command",
    [
        "script -qc bash /dev/null",
        "script",
        "tmux",
        "screen bash",
        "expect -c 'spawn bash; interact'",
        "unbuffer -p bash",
        "rlwrap bash",
        "./tool; bash",
        "bash; sqlite3 x",
        "sqlite3 x",
        "vim -es && bash",
    ],
)
def test_what_is_no_plain_shell_is_asked_for(command: str) -> None:
    assert lines("ls", command) == {"run.input"}
    assert "disk.format" in lines("mkfs.ext4 /dev/sdb", command)


RUNNING = (
    "a[$({})]=1", "a[`{}`]+=1", "x=1 a[$({})]=2", "if a[$({})]=1; then :; fi",
    "for ((i=$({});i<0;i++)); do :; done", "for ((i=0;i<a[$({})];i++)); do :; done",
    "case x in $({})) ;; esac", 'case x in a|"$({})") ;; esac', "[[ x == @($({})|y) ]]",
    "echo $(( a[$({})] ))", "cat <<X\n$({})\nX", "let x=a[$({})]", "unset a[$({})]",
)  # fmt: skip


@pytest.mark.parametrize("form", RUNNING)
def test_wherever_bash_runs_a_command_it_is_judged(form: str, tmp_path: Path) -> None:
    """Bash itself is asked whether the form runs it."""
    subprocess.run(
        ["bash", "-c", form.format("touch MARK")], cwd=tmp_path, capture_output=True, check=False, timeout=30
    )
    assert (tmp_path / "MARK").exists(), "bash does not run this"
    assert judge_command(form.format("rm -rf /"), PLACE).never
