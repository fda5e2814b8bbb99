"""`hermes pairing` and `hermes access`: the same with a gateway and without; what cannot be done is told."""

from __future__ import annotations

import asyncio
import json
from datetime import UTC, datetime
from pathlib import Path

import pytest

from hermes.control.people.pairing import answer_stranger
from hermes.domain.chats.address import Address, Source, SourceKind
from hermes.domain.ports.store import Tx
from hermes.state.home.homes import DATABASE_FILE
from hermes.state.store.writer import SqliteStore
from tests.cli.command import gateway, hermes
from tests.journeys.test_pairing import code_in


@pytest.fixture
def home(tmp_path: Path) -> Path:
    home = tmp_path / "home"
    home.mkdir()
    (home / "config.yaml").write_text("telegram: {require_mention: true}\n")
    return home


def asks(home: Path, user: str) -> str:
    """Somebody wrote while nobody looked; the code they were given."""
    source = Source(
        address=Address(platform="telegram", chat=user),
        kind=SourceKind.PRIVATE,
        user=user,
        user_name=f"Name {user}",
    )

    def unit(tx: Tx) -> str:
        met = answer_stranger(tx, source, "hi", datetime.now(UTC), offer=True)
        return "" if met is None else met.text

    async def ask() -> str:
        async with SqliteStore(home / DATABASE_FILE) as store:
            return await store.write(unit)

    return code_in([asyncio.run(ask())])


def walk(home: Path, code: str, other: str) -> None:
    """An owner's whole way, by commands."""
    listed = hermes(home, "pairing", "list")
    assert "Name 42" in listed.out and "WAITING" in listed.out and code not in listed.out
    for wrong, said in (
        ("telegrm", "Did you mean “telegram”?"),
        ("telegram@work", "telegram@work is this one"),
    ):
        refused = hermes(home, "pairing", "approve", wrong, code)
        assert refused.code == 1 and said in refused.err and refused.clean
    explained = hermes(home, "access", "explain", "telegram:42", "user=42")
    assert explained.code == 0 and explained.out.startswith("needs pairing: on no list")
    approved = hermes(home, "pairing", "approve", "telegram", code.lower())
    assert approved.code == 0 and approved.out == "Name 42 (42) may write on telegram now.\n"
    assert hermes(home, "pairing", "approve", "telegram", code).code == 1
    explained = hermes(home, "access", "explain", "telegram:42 user=42")
    assert explained.out.splitlines()[0] == "allowed: paired"
    away = json.loads(hermes(home, "access", "explain", "telegram:-1", "user=42", "kind=group", "--json").out)
    assert (away["outcome"], away["steps"][-1]["rule"]) == ("not for us", "telegram.require_mention")
    told = json.loads(hermes(home, "pairing", "list", "--json").out)
    assert [one["user"] for one in told["paired"]] == ["42"]
    assert [one["user"] for one in told["waiting"]] == ["43"]
    assert other not in json.dumps(told)
    assert hermes(home, "pairing", "clear-pending", "telegram").out == "Deleted 1.\n"
    assert hermes(home, "pairing", "approve", "telegram", other).code == 1
    assert hermes(home, "pairing", "revoke", "telegram", "42").code == 0
    gone = hermes(home, "pairing", "revoke", "telegram", "42")
    assert gone.code == 1 and "“42” is not paired on telegram." in gone.err
    assert hermes(home, "pairing", "list").out.startswith("Nobody is paired, and nobody is waiting.")


def test_an_owner_approves_and_revokes_without_a_gateway(home: Path) -> None:
    walk(home, asks(home, "42"), asks(home, "43"))


def test_the_same_through_a_gateway_that_runs(home: Path) -> None:
    code, other = asks(home, "42"), asks(home, "43")
    with gateway(home) as running:
        walk(home, code, other)
        assert running.stop() == 0
        assert code not in running.err


def test_a_code_outlives_a_killed_gateway(home: Path) -> None:
    code = asks(home, "42")
    with gateway(home) as running:
        running.process.kill()
        running.process.wait()
    assert hermes(home, "pairing", "approve", "telegram", code).code == 0


def test_six_wrong_codes_lock_the_platform(home: Path) -> None:
    code = asks(home, "42")
    with gateway(home) as running:
        said = [hermes(home, "pairing", "approve", "telegram", "AAAAAAAA").err for _ in range(5)]
        assert "1 more wrong ones lock" in said[3] and "It is locked now." in said[4]
        assert running.stop() == 0
    locked = hermes(home, "pairing", "approve", "telegram", code)
    assert locked.code == 1 and "Pairing on telegram is locked after 5 wrong codes." in locked.err


def test_people_of_the_existing_product_are_let_in_once(home: Path) -> None:
    folder = home / "pairing"
    folder.mkdir()
    known = {"42": {"user_name": "Ann", "approved_at": 1_700_000_000.0}, "7": {}, " ": {}, "8": None}
    (folder / "telegram-approved.json").write_text(json.dumps(known))
    (folder / "slack-approved.json").write_text("{not json")
    (folder / "telegram-pending.json").write_text(json.dumps({"9": {}}))
    with gateway(home) as running:
        paired = json.loads(hermes(home, "pairing", "list", "--json").out)["paired"]
        assert {(one["user"], one["name"], one["by"]) for one in paired} == {
            ("42", "Ann", "imported"), ("7", "", "imported"), ("8", "", "imported"),
        }  # fmt: skip
        assert paired[0]["approved_at"].startswith("2023-11-14T")
        assert "slack-approved.json cannot be read" in running.err
        assert hermes(home, "pairing", "revoke", "telegram", "42").code == 0
        assert running.stop() == 0
    with gateway(home) as running:
        paired = json.loads(hermes(home, "pairing", "list", "--json").out)["paired"]
        assert {one["user"] for one in paired} == {"7", "8"}
        assert running.stop() == 0


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["telegram"], "is not an address"),
        (["telegram:1", "usr=4"], "Did you mean “user=…”?"),
        (["telegram:1", "kind=crowd"], "is not a kind of place"),
        (["telegram:1", "mention=yes"], "says nothing about a source"),
        (["telegram:1", "user="], "says nothing about a source"),
    ],
)
def test_a_source_that_cannot_be_read_is_told(home: Path, words: list[str], says: str) -> None:
    said = hermes(home, "access", "explain", *words)
    assert said.code == 1 and says in said.err and said.clean


def test_a_platform_that_is_half_open_does_not_start(home: Path) -> None:
    (home / "config.yaml").write_text("telegram: {dm_policy: open}\n")
    said = hermes(home, "gateway", "run")
    assert (
        said.code == 78 and "telegram.dm_policy is open, but telegram.allow_all_users is not set." in said.err
    )
