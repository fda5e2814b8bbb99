"""Pairing, as people live it: a stranger and an owner, an admin and somebody new; and who tries tricks."""

from __future__ import annotations

import logging
import re
import secrets
from datetime import timedelta
from pathlib import Path

import pytest

from hermes.control.people.pairing import (
    ALPHABET,
    ASK_AGAIN,
    LENGTH,
    LIFETIME,
    LOCKED,
    MOST_ASKING,
    MOST_PENDING,
    PairingApproval,
    answer_stranger,
    approve,
    clear_pending,
    invite,
    overview,
    read_code,
    revoke,
)
from hermes.domain.chats.address import Address, Source, SourceKind
from hermes.domain.chats.pairing import Account
from hermes.domain.errors import UserError
from hermes.domain.ids import AgentId
from hermes.domain.ports.store import Tx
from hermes.domain.settings.platforms import PlatformSettings
from hermes.domain.settings.settings import Route, RouteMatch, Settings
from hermes.state.store.writer import SqliteStore
from hermes.testing.clock import START, FakeClock
from hermes.testing.harness import Journey, open_settings

FAKE = Account(platform="fake", name="default")
CODE = re.compile(rf"(?<![A-Z0-9])[{ALPHABET}]{{{LENGTH}}}(?![A-Z0-9])")
CLOSED = open_settings(platforms={})
ADMIN = open_settings(
    platforms={"fake": PlatformSettings(allowed_users=("boss",), allow_admin_from=("boss",))}
)


def code_in(seen: list[str]) -> str:
    found = [code for text in seen for code in CODE.findall(text)]
    assert found, seen
    return found[-1]


async def owner_approves(chat: Journey, code: str, account: Account = FAKE) -> PairingApproval:
    now = chat.clock.now()
    approval = await chat.store.write(lambda tx: approve(tx, account, code, "owner", now))
    if approval.place is not None:
        chat.gateway.delivery.ring(approval.place)
    return approval


async def outcomes(chat: Journey) -> list[str | None]:
    await chat.until_idle()
    rows = [await chat.database.read(lambda tx, d=u.delivery: tx.inbox.find(d)) for u in chat.world.updates]  # type: ignore[misc]
    return [row[0].outcome for row in rows]


# --- the two ways in ---------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["edits", "plain"])
async def test_a_stranger_asks_the_owner_approves_and_the_next_message_is_answered(
    tmp_path: Path, kind: str
) -> None:
    async with Journey(folder=tmp_path, settings=CLOSED, kind=kind) as chat:
        chat.world.write("hello?", user="ann")
        [told] = await chat.until_seen("I do not know you yet.", "hermes pairing approve fake ")
        code = code_in([told])
        approval = await owner_approves(chat, code.lower())
        assert approval.text == "ann (ann) may write on fake now."
        await chat.until_seen("Paired! You can talk to me now.")
        chat.world.write("hello again", user="ann")
        await chat.until_seen("You said: hello again")
        assert "hello?" not in str(chat.model.requests)
        assert await outcomes(chat) == ["pairing: code sent", "turn"]


async def test_an_admin_makes_a_code_and_the_new_person_sends_it(tmp_path: Path) -> None:
    async with Journey(folder=tmp_path, settings=ADMIN) as chat:
        chat.world.write("let me in", chat="2", user="ann")
        await chat.until_idle()
        chat.world.write("/pair", chat="1", user="boss")
        await chat.until_seen("Pairing code for fake: ")
        code = code_in(chat.world.seen("1"))
        chat.world.write(f" {code.lower()}\n", chat="2", user="ann")
        await chat.until_seen("Paired! You can talk to me now.", chat="2")
        chat.world.write("hi", chat="2", user="ann")
        await chat.until_seen("You said: hi", chat="2")
        [paired] = await chat.database.read(lambda tx: tx.pairings.list())
        assert (paired.user, paired.account, paired.by) == ("ann", FAKE, "invited by fake:boss")
        # It was good for one person.
        chat.world.write(code, chat="3", user="bob")
        await chat.until_seen("That code does not work", chat="3")
        assert len(await chat.database.read(lambda tx: tx.pairings.list())) == 1
        chat.world.write("/pair", chat="2", user="ann")
        named = "It is for admins: the operator names them in fake.allow_admin_from."
        await chat.until_seen(f"You may not use /pair here. {named} You may use /help, /whoami.", chat="2")


async def test_everybody_who_may_write_may_let_people_in_if_the_settings_say_so(tmp_path: Path) -> None:
    fake = PlatformSettings(allowed_users=("boss",), allow_admin_from=("boss",), who_may_pair="users")
    own = open_settings(platforms={"fake": fake, "telegram": PlatformSettings()})
    async with Journey(folder=tmp_path, settings=own) as chat:
        chat.world.write("/pair", chat="1", user="boss")
        await chat.until_seen("Pairing code for fake: ")
        chat.world.write(code_in(chat.world.seen("1")), chat="2", user="ann")
        await chat.until_seen("Paired!", chat="2")
        chat.world.write("/help", chat="2", user="ann")
        await chat.until_seen("/pair", chat="2")
        chat.world.write("/pair telegram", chat="2", user="ann")
        await chat.until_seen("You may let people in on this account only.", chat="2")
        chat.world.write("/pair", chat="2", user="ann")
        await chat.until_seen("Pairing code for fake: ", chat="2")
        chat.world.write(code_in(chat.world.seen("2")), chat="3", user="bob")
        await chat.until_seen("Paired!", chat="3")
        chat.world.write("/pair", chat="9", user="stranger")
        await chat.until_idle()
        assert "Pairing code for" not in str(chat.world.seen("9"))
        chat.world.write("/sethome", chat="2", user="ann")
        await chat.until_seen("You may not use /sethome here.", chat="2")
        await chat.until_seen("hermes config set 'fake.home_channel' '2'", chat="2")


async def test_what_cannot_be_a_code_is_not_counted_as_a_wrong_one(tmp_path: Path) -> None:
    async with Journey(folder=tmp_path, settings=CLOSED) as chat:
        for word in ("AB", "", "ABCD 2345", "ABCDEFG1", "ABCDEFGHI") * 2:
            assert "cannot be a code" in (await owner_approves(chat, word)).text
        chat.world.write("hello?", user="ann")
        code = code_in(await chat.until_seen("pairing code"))
        assert (await owner_approves(chat, code)).paired is not None


async def test_a_code_outlives_the_process_and_is_stored_nowhere(tmp_path: Path) -> None:
    async with Journey(folder=tmp_path, settings=CLOSED) as chat:
        chat.world.write("hello?", user="ann")
        code = code_in(await chat.until_seen("pairing code"))
        await chat.until_idle()
        world = chat.world
        await chat.abandon()
    async with Journey(folder=tmp_path, settings=CLOSED, world=world) as chat:
        assert (await owner_approves(chat, code)).paired is not None
        await chat.until_seen("Paired!")
        await chat.database.write(lambda tx: tx.recovery.prune(START, START))
    stored = await _everything(tmp_path)
    assert code not in stored and "Paired!" in stored


async def _everything(folder: Path) -> str:
    import apsw

    with apsw.Connection(str(folder / "state.db")) as db:
        tables = [row[0] for row in db.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")]
        return repr([db.execute(f"SELECT * FROM {name}").fetchall() for name in tables])


async def test_codes_are_not_logged(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    async with Journey(folder=tmp_path, settings=CLOSED) as chat:
        chat.world.write("hello?", user="ann")
        code = code_in(await chat.until_seen("pairing code"))
        await owner_approves(chat, "AAAAAAAA")
        await owner_approves(chat, code)
        await chat.until_seen("Paired!")
        await chat.until_idle()
    assert code not in caplog.text


async def test_people_are_the_gateways_whichever_agent_answers(tmp_path: Path) -> None:
    routes = (Route(match=RouteMatch(platform="fake", chat_id="1"), agent=AgentId("coder")),)
    settings = open_settings(platforms={}, routes=routes)
    async with Journey(folder=tmp_path, settings=settings, agents=("main", "coder")) as chat:
        chat.world.write("hello?", user="ann")
        code = code_in(await chat.until_seen("pairing code"))
        await owner_approves(chat, code)
        await chat.until_seen("Paired!")
        for place in ("1", "2"):
            chat.world.write(f"to {place}", user="ann", chat=place)
            await chat.until_seen(f"You said: to {place}")
        sessions = await chat.database.scoped(AgentId("coder")).read(lambda tx: tx.sessions.find(""))
        assert len(sessions) == 1


async def test_whoever_is_revoked_is_a_stranger_again(tmp_path: Path) -> None:
    clock = FakeClock()
    async with Journey(folder=tmp_path, settings=CLOSED, clock=clock) as chat:
        chat.world.write("hello?", user="ann")
        await owner_approves(chat, code_in(await chat.until_seen("pairing code")))
        await chat.until_seen("Paired!")
        await chat.store.write(lambda tx: revoke(tx, FAKE, "ann"))
        clock.jump(601)
        chat.world.write("still there?", user="ann")
        await chat.until(lambda: sum("pairing code" in text for text in chat.world.seen()) == 2)
        with pytest.raises(UserError, match=r"“ann” is not paired on fake\. Nobody is paired there."):
            await chat.store.write(lambda tx: revoke(tx, FAKE, "ann"))


async def test_groups_and_busy_chats_hear_nothing_of_strangers(tmp_path: Path) -> None:
    settings = open_settings(
        platforms={"fake": PlatformSettings(allowed_users=("ann",), dm_policy="pairing")}
    )
    async with Journey(folder=tmp_path, settings=settings) as chat:
        chat.world.write("hi all", chat="g", user="bob", kind="group")
        chat.world.write("use danger", chat="g", user="ann", kind="group")
        chat.world.write("yes", chat="g", user="bob", kind="group")
        chat.world.write("/stop", chat="g", user="bob", kind="group")
        chat.world.write("press", chat="g", user="bob", kind="group", button="x")
        assert (await outcomes(chat))[0:1] == ["denied: on no list"]
        assert (await outcomes(chat))[2:] == ["denied: on no list"] * 3
        assert not any("pairing" in text for text in chat.world.seen())


# --- the terminal --------------------------------------------------------------------------------------


async def test_pair_says_what_it_needs(tmp_path: Path) -> None:
    async with Journey(folder=tmp_path, settings=ADMIN) as chat:
        chat.world.write("/pair nowhere", user="boss")
        await chat.until_seen("There is no platform “nowhere” here. There is: fake.")
        chat.world.write("/pair", chat="g", user="boss", kind="group")
        await chat.until_seen("Everybody here would read the code.", chat="g")
        for _ in range(MOST_PENDING):
            chat.world.write("/pair fake", user="boss")
        await chat.until(lambda: sum("Pairing code" in text for text in chat.world.seen()) == MOST_PENDING)
        chat.world.write("/pair", user="boss")
        await chat.until_seen("3 invitations to fake are open already.")


@pytest.mark.parametrize(
    ("block", "may"),
    [
        (PlatformSettings(allow_all_users=True), False),
        (PlatformSettings(allowed_users=("*",)), False),
        (PlatformSettings(allowed_users=("u1",)), True),
        (PlatformSettings(allow_all_users=True, allow_admin_from=("u1",)), True),
        (PlatformSettings(allowed_users=("u1",), allow_admin_from=("boss",)), False),
    ],
)
async def test_only_whom_the_operator_named_lets_others_in(
    tmp_path: Path, block: PlatformSettings, may: bool
) -> None:
    async with Journey(folder=tmp_path, settings=open_settings(platforms={"fake": block})) as chat:
        chat.world.write("/pair")
        await chat.until_seen("Pairing code" if may else "You may not use /pair here.")


# --- limits and tricks, without a gateway around them ------------------------------------------------------


def person(user: str, *, account: str = "default", platform: str = "fake") -> Source:
    address = Address(platform=platform, account=account, chat=user)
    return Source(address=address, kind=SourceKind.PRIVATE, user=user, user_name=user.title())


class Desk:
    """Pairing at a table: strangers, an owner, a clock."""

    def __init__(self, store: SqliteStore) -> None:
        self.store = store
        self.now = START

    async def asks(self, user: str, text: str = "hi", *, offer: bool = True, **where: str) -> str:
        def unit(tx: Tx) -> str:
            met = answer_stranger(tx, person(user, **where), text, self.now, offer=offer)
            return "" if met is None else met.text

        return await self.store.write(unit)

    async def code(self, user: str, **where: str) -> str:
        return code_in([await self.asks(user, **where)])

    async def approves(self, code: str, account: Account = FAKE) -> str | None:
        now = self.now
        approval = await self.store.write(lambda tx: approve(tx, account, code, "owner", now))
        self.said = approval.text
        return None if approval.paired is None else approval.paired.user

    async def invites(self, account: Account = FAKE) -> str:
        now = self.now
        return await self.store.write(lambda tx: invite(tx, account, "boss", now))

    async def people(self) -> list[str]:
        return [one.user for one in await self.store.read(lambda tx: tx.pairings.list())]

    def later(self, by: timedelta) -> None:
        self.now += by


@pytest.fixture
async def desk(tmp_path: Path):  # type: ignore[no-untyped-def]
    async with SqliteStore(tmp_path / "state.db") as store:
        yield Desk(store)


async def test_a_code_lets_in_the_one_who_asked_and_nobody_else(desk: Desk) -> None:
    code = await desk.code("ann")
    assert await desk.asks("bob", code, offer=False) == ""
    assert await desk.people() == []
    assert await desk.approves(code) == "ann"
    assert await desk.people() == ["ann"]


async def test_a_code_of_another_platform_or_account_is_wrong(desk: Desk) -> None:
    code = await desk.code("ann", platform="slack")
    work = await desk.code("bob", account="work")
    assert await desk.approves(code) is None and await desk.approves(work) is None
    assert await desk.approves(work, Account(platform="fake", name="work")) == "bob"
    invited = await desk.invites(Account(platform="slack", name="default"))
    assert "does not" not in await desk.asks("eve", invited, offer=False)
    assert await desk.people() == ["bob"]


async def test_expired_and_used_codes_are_wrong(desk: Desk) -> None:
    late = await desk.code("ann")
    desk.later(LIFETIME)
    assert await desk.approves(late) is None
    used = await desk.code("ann")
    assert await desk.approves(used) == "ann"
    assert await desk.approves(used) is None
    invited = await desk.invites()
    desk.later(LIFETIME)
    assert "does not work any more" in await desk.asks("bob", invited, offer=False)
    assert await desk.people() == ["ann"]


@pytest.mark.parametrize(
    "change",
    [
        lambda code: code.translate(
            {ord("A"): "А", ord("E"): "Е", ord("B"): "В", ord("C"): "С", ord("2"): "２"}
        ),
        lambda code: "".join(chr(ord(letter) + 0xFEE0) for letter in code),
        lambda code: code[:4] + "\u200b" + code[4:],
        lambda code: "\u202e" + code[::-1],
        lambda code: code + code,
        lambda code: code[:-1],
        lambda code: code.replace("S", "ſ").replace("K", "\u212a") if set("SK") & set(code) else "ſ" * 8,
        lambda code: f"{code[:4]} {code[4:]}",
        lambda code: "",
    ],
)
async def test_what_only_looks_like_the_code_is_not(desk: Desk, change) -> None:  # type: ignore[no-untyped-def]
    code = await desk.invites()
    while not set("AEBC2") & set(code):
        await desk.store.write(lambda tx: clear_pending(tx))
        code = await desk.invites()
    tried = change(code)
    assert tried != code
    assert "Paired" not in await desk.asks("eve", tried, offer=False)
    assert await desk.approves(tried) is None
    assert await desk.people() == []


async def test_a_few_strangers_shut_out_nobody(desk: Desk) -> None:
    for number in range(20):
        await desk.code(f"eve{number}")
    assert await desk.approves(await desk.code("ann")) is not None


async def test_a_hundred_may_wait_and_the_next_is_told_once(desk: Desk) -> None:
    for number in range(MOST_ASKING):
        await desk.code(f"eve{number}")
    assert await desk.asks("d") == "I cannot take new people just now. Please try again later."
    assert await desk.asks("d") == ""
    assert "pairing code" in await desk.asks("d", platform="slack")
    desk.later(LIFETIME)
    assert "pairing code" in await desk.asks("d")


async def test_one_person_asks_once_in_ten_minutes_and_fills_one_place(desk: Desk) -> None:
    first = await desk.code("ann")
    assert await desk.asks("ann") == ""
    desk.later(ASK_AGAIN)
    second = await desk.code("ann")
    waiting = (await desk.store.read(lambda tx: overview(tx, desk.now))).waiting
    assert [one.user for one in waiting] == ["ann"]
    assert await desk.approves(first) is None and await desk.approves(second) == "ann"


async def test_five_wrong_approvals_lock_the_platform_for_an_hour(desk: Desk) -> None:
    code = await desk.code("ann")
    other = await desk.code("bob", platform="slack")
    for left in (4, 3, 2, 1):
        assert await desk.approves("AAAAAAAA") is None
        assert f"{left} more wrong ones" in desk.said
    assert await desk.approves("AAAAAAAA") is None and "locked now" in desk.said
    assert await desk.approves(code) is None and "is locked after 5 wrong codes" in desk.said
    assert "later" in await desk.asks("eve")
    with pytest.raises(UserError, match="locked"):
        await desk.invites()
    assert await desk.approves(other, Account(platform="slack", name="default")) == "bob"
    desk.later(LOCKED)
    assert await desk.approves(await desk.code("zoe")) == "zoe"


async def test_a_right_approval_forgets_the_wrong_ones(desk: Desk) -> None:
    for _ in range(4):
        await desk.approves("AAAAAAAA")
    assert await desk.approves(await desk.code("ann")) == "ann"
    for _ in range(4):
        await desk.approves("AAAAAAAA")
    assert await desk.approves(await desk.code("bob")) == "bob"


async def test_who_guesses_five_times_is_not_heard_even_with_the_right_code(desk: Desk) -> None:
    code = await desk.invites()
    said = [await desk.asks("eve", "AAAAAAAA", offer=False) for _ in range(6)]
    assert "tried too often" in said[4] and said[5] == ""
    assert await desk.asks("eve", code, offer=False) == ""
    assert await desk.asks("ann", code, offer=False) == "Paired! You can talk to me now."
    assert await desk.people() == ["ann"]


async def test_a_link_to_the_bot_may_bring_the_code(desk: Desk) -> None:
    code = await desk.invites()
    assert "Paired!" in await desk.asks("ann", f"/start {code}", offer=False)
    assert await desk.asks("bob", "/start", offer=False) == ""


async def test_ten_thousand_guesses_let_nobody_in(desk: Desk) -> None:
    now = desk.now
    for _ in range(MOST_PENDING):
        await desk.invites()
    for user in ("a", "b", "c"):
        await desk.code(user)

    def guess(tx: Tx) -> int:
        accepted = 0
        for number in range(5_000):
            word = "".join(secrets.choice(ALPHABET) for _ in range(LENGTH))
            met = answer_stranger(tx, person(f"eve{number // 4}"), word, now, offer=False)
            accepted += met is not None and str(met.outcome) == "paired"
            at = now + LOCKED * (number // 4)
            accepted += approve(tx, FAKE, word, "eve", at).paired is not None
        return accepted

    assert await desk.store.write(guess) == 0
    assert await desk.people() == []


async def test_requests_and_invitations_are_cleared(desk: Desk) -> None:
    code, invited = await desk.code("ann"), await desk.invites()
    await desk.code("bob", platform="slack")
    assert await desk.store.write(lambda tx: clear_pending(tx, FAKE)) == 2
    assert await desk.approves(code) is None
    assert await desk.asks("eve", invited, offer=False) != "Paired! You can talk to me now."
    assert await desk.store.write(lambda tx: clear_pending(tx)) == 1


async def test_two_gateways_know_their_own_people_only(tmp_path: Path) -> None:
    homes = [tmp_path / name for name in ("one", "two")]
    for home in homes:
        home.mkdir()
    async with SqliteStore(homes[0] / "state.db") as one, SqliteStore(homes[1] / "state.db") as two:
        first, second = Desk(one), Desk(two)
        code = await first.code("ann")
        assert await second.approves(code) is None
        assert await first.approves(code) == "ann"
        assert await second.people() == []


def test_codes_are_eight_symbols_of_thirty_two() -> None:
    assert LENGTH == 8 and len(set(ALPHABET)) == 32 and not set("01IO") & set(ALPHABET)
    assert read_code(" abcd2345\n") == "ABCD2345"
    for wrong in ("ABCD234", "ABCD23456", "ABCD 345", "ABCD234O", "ABCD2341", "АBCD2345", "ıBCD2345"):
        assert read_code(wrong) is None


def test_settings_keep_their_defaults() -> None:
    assert Settings().unauthorized_dm_behavior == "pair"
