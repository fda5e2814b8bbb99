"""A terminal that talks with a gateway of another home, over the API's port."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from hermes.domain.errors import UserError
from hermes.entry.terminal.elsewhere import read_address
from tests.cli.command import ROOT, gateway, hermes
from tests.entry.terminal.glass import Glass
from tests.entry.terminal.person import at_terminal

KEY = "4hGx-p0_TzQ9wLm2VbYc7RkJ1sNe8UdA3fXi6oWq"
CHILD = str(ROOT / "tests" / "cli" / "words_gateway.py")


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def test_it_is_a_chat_like_any_other_and_outlives_the_gateway(tmp_path: Path) -> None:
    there, here, port = tmp_path / "there", tmp_path / "here", free_port()
    there.mkdir(mode=0o700)
    here.mkdir(mode=0o700)
    facts = {"API_SERVER_KEY": KEY, "API_SERVER_PORT": str(port), "PYTHONPATH": f"{ROOT / 'src'}:{ROOT}"}
    url = f"http://127.0.0.1:{port}"
    (there / "hold").touch()
    with gateway(there, script=[CHILD, str(there)], **facts) as running:
        with at_terminal(here, "--gateway", url, rich=True, HERMES_GATEWAY_KEY=KEY) as person:
            glass = Glass(person)
            glass.until("Gateway", url, "❯")
            person.type("danger zone")
            glass.until("May I do zone?", "the word answers")
            person.keys("1")
            glass.until("The tool said: danger did zone")
            person.type("count")
            glass.until("8 9 10")
            running.process.kill()
            running.process.wait()
            glass.until("The gateway is gone; waiting for it")
            (there / "hold").unlink()
            with gateway(there, script=[CHILD, str(there)], **facts):
                glass.until("It is back.", "30 done counting")
                person.keys("\x04")
                assert person.ends() == 0
                glass.look()
                assert f"hermes --gateway {url} --resume" in " ".join(glass.text.split())
    assert (there / "effects").read_text() == "danger zone\n"
    assert not (here / "gateway.db").exists()


def test_what_is_in_the_way_is_one_sentence(tmp_path: Path) -> None:
    home, port = tmp_path / "here", free_port()
    home.mkdir(mode=0o700)
    url = f"http://127.0.0.1:{port}"

    def ask(**more: str) -> tuple[int, str]:
        said = hermes(home, "--gateway", url, "-q", "hi", **more)
        return said.code, said.err

    code, err = ask()
    assert code == 1 and "There is no key for this gateway." in err
    code, err = ask(HERMES_GATEWAY_KEY=KEY)
    assert code == 1 and f"No gateway answers at {url}" in err and "Traceback" not in err
    with gateway(home, API_SERVER_KEY=KEY, API_SERVER_PORT=str(port)):
        code, err = ask(HERMES_GATEWAY_KEY=KEY[::-1])
        assert code == 1 and "The key is wrong." in err
        (home / ".env").write_text(f"HERMES_GATEWAY_KEY={KEY}\n")
        (home / ".env").chmod(0o600)
        assert ask() == (0, "")


@pytest.mark.parametrize(
    ("url", "says"),
    [
        ("hermes.example.org", "is no address of a gateway"),
        ("ftp://hermes.example.org", "is no address of a gateway"),
        ("http://[::1", "is no address of a gateway"),
        ("https://host:99999", "is no address of a gateway"),
        ("https://key@host", "The key does not belong into the address"),
        ("http://hermes.example.org", "is not sent to hermes.example.org without encryption"),
        ("http://8.8.8.8:8642", "is not sent to 8.8.8.8 without encryption"),
    ],
)
def test_addresses_that_are_refused(url: str, says: str) -> None:
    with pytest.raises(UserError, match=says):
        read_address(url, KEY)


@pytest.mark.parametrize(
    "url", ["https://h.example/agent", "http://localhost:8642/", "http://192.168.0.4", "http://[::1]:1"]
)
def test_addresses_that_are_taken(url: str) -> None:
    address = read_address(url, KEY)
    assert address.key.reveal() == KEY and KEY not in repr(address)
    assert (address.tls, address.prefix) == (url.startswith("https"), "/agent" if "agent" in url else "")


@pytest.mark.parametrize("key", ["", "  ", "a\nb", "schlüssel"])
def test_keys_that_are_none(key: str) -> None:
    with pytest.raises(UserError, match="no key"):
        read_address("https://h.example", key)
