"""Checks of pairing: people by account, codes that are taken once, and marks."""

from __future__ import annotations

from datetime import timedelta
from functools import partial

from hermes.domain.chats.address import Address
from hermes.domain.chats.message import Body
from hermes.domain.chats.pairing import Account, PairedUser, PairingCode, PairingCounter
from hermes.domain.chats.rows import OutboxRow, OutState
from hermes.domain.errors import Refused
from hermes.domain.ids import AgentId, TurnId
from hermes.domain.ports.store import Tx
from hermes.domain.word import replace
from hermes.testing.store_suite.expect import raises
from hermes.testing.store_suite.samples import NOW, OpenStore, out

HERE = Account(platform="fake", name="default")
WORK = Account(platform="fake", name="work")


def _paired(user: str = "u1", account: Account = HERE) -> PairedUser:
    return PairedUser(account=account, user=user, name="Ann", approved_at=NOW, by="owner")


def _code(ident: str = "c1", account: Account = HERE, user: str | None = "u1") -> PairingCode:
    place = Address(platform="fake", chat="a:b", thread="7") if user is not None else None
    return PairingCode(
        id=ident,
        account=account,
        salt=b"\0salt",
        digest=b"\xffdigest",
        created_at=NOW,
        expires_at=NOW + timedelta(hours=1),
        user=user,
        name="Ann",
        place=place,
        by="boss",
    )


def _let_in(paired: PairedUser, tx: Tx) -> None:
    tx.pairings.add(paired)


def _open(code: PairingCode, tx: Tx) -> None:
    tx.pairing_codes.add(code)


def _mark(mark: PairingCounter, tx: Tx) -> None:
    tx.pairing_codes.put_mark(mark)


def _save(row: OutboxRow, tx: Tx) -> None:
    tx.outbox.save(row)


async def check_people_are_kept_by_account(open_store: OpenStore) -> None:
    async with open_store() as store:
        people = [_paired(), _paired(account=WORK), _paired("u2"), replace(_paired(), name="Anna")]
        for one in people:
            await store.write(partial(_let_in, one))
        found = await store.scoped(AgentId("coder")).read(lambda tx: tx.pairings.get(HERE, "u1"))
        assert found == replace(_paired(), name="Anna")
        assert [(one.account, one.user) for one in await store.read(lambda tx: tx.pairings.list())] == [
            (HERE, "u1"), (HERE, "u2"), (WORK, "u1"),
        ]  # fmt: skip
        assert await store.write(lambda tx: tx.pairings.remove(HERE, "u1"))
        assert not await store.write(lambda tx: tx.pairings.remove(HERE, "u1"))
        assert await store.read(lambda tx: tx.pairings.get(HERE, "u1")) is None
        assert await store.read(lambda tx: tx.pairings.get(WORK, "u1")) == _paired(account=WORK)


async def check_a_code_is_taken_once(open_store: OpenStore) -> None:
    async with open_store() as store:
        codes = [_code(), _code("c2", WORK, None)]
        for code in codes:
            await store.write(partial(_open, code))
        assert await store.read(lambda tx: tx.pairing_codes.list()) == codes
        await raises(Refused, store.write(lambda tx: tx.pairing_codes.add(_code())))
        assert await store.write(lambda tx: tx.pairing_codes.remove("c1"))
        assert not await store.write(lambda tx: tx.pairing_codes.remove("c1"))
        assert await store.read(lambda tx: tx.pairing_codes.list()) == codes[1:]


async def check_old_codes_and_marks_are_forgotten(open_store: OpenStore) -> None:
    async with open_store() as store:
        marks = [PairingCounter(name="a", count=1, until=NOW), PairingCounter(name="b", count=2)]
        for mark in marks:
            await store.write(partial(_mark, mark))
        assert await store.read(lambda tx: tx.pairing_codes.mark("a")) == marks[0]
        assert await store.read(lambda tx: tx.pairing_codes.mark("c")) is None
        await store.write(lambda tx: tx.pairing_codes.add(_code()))
        later = replace(_code("c2"), created_at=NOW + timedelta(days=2), expires_at=NOW + timedelta(days=3))
        await store.write(lambda tx: tx.pairing_codes.add(later))
        assert await store.read(lambda tx: tx.pairing_codes.list()) == [later]
        assert await store.read(lambda tx: tx.pairing_codes.mark("a")) is None
        assert await store.read(lambda tx: tx.pairing_codes.mark("b")) == marks[1]


async def check_fleeting_words_are_kept_until_they_are_sent(open_store: OpenStore) -> None:
    async with open_store() as store:
        row = replace(out("k1", of="t1"), body=Body(text="ABCD2345", fleeting=True))
        await store.write(lambda tx: tx.outbox.add(row))
        for state in (OutState.ATTEMPTING, OutState.UNKNOWN):
            await store.write(partial(_save, replace(row, state=state)))
            head = await store.read(lambda tx: tx.outbox.head(row.to))
            assert head is not None and head.body.text == "ABCD2345"
        await store.write(lambda tx: tx.outbox.save(replace(row, state=OutState.SENT)))
        [kept] = await store.read(lambda tx: tx.outbox.of_turn(TurnId("t1")))
        assert kept.body == Body(fleeting=True)


CHECKS = (
    check_people_are_kept_by_account,
    check_a_code_is_taken_once,
    check_old_codes_and_marks_are_forgotten,
    check_fleeting_words_are_kept_until_they_are_sent,
)
