"""Pairing: how somebody whom no list names is let in, by a code that is known by its hash alone.

Two ways: a stranger in a private chat is given a code and the owner approves it, or an admin makes one with
`/pair` and the new person sends it. Every function here runs in a transaction, so a code that was shown is
stored, and one that was used is gone, whatever happens in between. Codes are never logged."""

from __future__ import annotations

import hashlib
import hmac
import secrets
from datetime import datetime, timedelta

from msgspec import Struct

from hermes.control.outbound.notices import notify
from hermes.control.people.access import account_of
from hermes.domain.chats.address import Address, Source
from hermes.domain.chats.pairing import Account, PairedUser, PairingCode, PairingCounter
from hermes.domain.chats.rows import InboundOutcome, OutcomeKind
from hermes.domain.errors import UserError
from hermes.domain.ports.store import Tx
from hermes.domain.text import one_line
from hermes.domain.word import replace

ALPHABET = "ABCDEFGHJKLMNPQRSTUVWXYZ23456789"
LENGTH = 8
LIFETIME = timedelta(hours=1)
MOST_PENDING = 3
"""Open invitations of an account."""
MOST_ASKING = 100
"""People who wait at one account, each with one code: so many that a few strangers shut out nobody."""
ASK_AGAIN = timedelta(seconds=600)
MOST_WRONG = 5
LOCKED = timedelta(hours=1)
_INVITED_LATELY = timedelta(days=1)
_NAME = 100
WELCOME = "Paired! You can talk to me now."
_LATER = "I cannot take new people just now. Please try again later."
_WRONG_CODE = "That code does not work, or does not work any more. Ask for a new one."
_TOO_OFTEN = f"{_WRONG_CODE} You have tried too often; I listen to codes of yours again in an hour."


class PairingReply(Struct, frozen=True, kw_only=True):
    """What a stranger is told. `outcome` goes into the inbox and never holds a code."""

    text: str
    outcome: InboundOutcome
    fleeting: bool = False


class PairingApproval(Struct, frozen=True, kw_only=True):
    """What an owner is told. `place` is the chat in which the new person hears of it."""

    text: str
    paired: PairedUser | None = None
    place: Address | None = None


class PendingPairing(Struct, frozen=True, kw_only=True):
    """Somebody who asked, or an invitation that nobody has used (no user)."""

    account: Account
    id: str
    user: str | None
    name: str
    created_at: datetime
    expires_at: datetime


class PairingOverview(Struct, frozen=True, kw_only=True):
    paired: list[PairedUser]
    waiting: list[PendingPairing]


# --- strangers -------------------------------------------------------------------------------------


def answer_stranger(tx: Tx, source: Source, text: str, now: datetime, *, offer: bool) -> PairingReply | None:
    """A stranger wrote privately: perhaps an invitation's code, else a request, if those are taken (`offer`).
    None is silence."""
    # A link to the bot brings what is behind its `?start=` as `/start <code>`.
    code, account = read_code(text.strip().removeprefix("/start ")), account_of(source)
    invited = tx.pairing_codes.mark(f"invited:{account}")
    if code is not None and invited is not None and _holds(invited, now):
        return _redeem(tx, source, code, now)
    return _request(tx, source, now) if offer else None


def _pairing(detail: str) -> InboundOutcome:
    return InboundOutcome(kind=OutcomeKind.PAIRING, detail=detail)


def _request(tx: Tx, source: Source, now: datetime) -> PairingReply | None:
    account, user = account_of(source), source.person
    if user is None:
        return None
    asked = f"asked:{account}:{user}"
    known = tx.pairing_codes.mark(asked)
    if known is not None and _holds(known, now):
        return None
    tx.pairing_codes.put_mark(PairingCounter(name=asked, count=1, until=now + ASK_AGAIN))
    for code in tx.pairing_codes.list():
        if code.account == account and code.user == user:
            tx.pairing_codes.remove(code.id)
    if is_locked(tx, account, now) or len(_open(tx, account, now, invitations=False)) >= MOST_ASKING:
        return PairingReply(text=_LATER, outcome=_pairing("later"))
    name = one_line(source.user_name or "", _NAME)
    made, code_word = _new_code(account, now)
    made = replace(made, user=user, name=name, place=source.address, by=name)
    tx.pairing_codes.add(made)
    told = (
        f"I do not know you yet. Your pairing code is **{code_word}**; it is good for one hour.\n\n"
        f"Ask my owner to run: `hermes pairing approve {account} {code_word}`"
    )
    return PairingReply(text=told, outcome=_pairing("code sent"), fleeting=True)


def _redeem(tx: Tx, source: Source, word: str, now: datetime) -> PairingReply | None:
    account, user = account_of(source), source.person
    guessed = f"guessed:{account}:{user}"
    if user is None or _wrong(tx, guessed, now) >= MOST_WRONG or is_locked(tx, account, now):
        return None
    found = _fitting(_open(tx, account, now, invitations=True), word)
    if found is None or not tx.pairing_codes.remove(found.id):
        many = _count_wrong(tx, guessed, now) >= MOST_WRONG
        return PairingReply(text=_TOO_OFTEN if many else _WRONG_CODE, outcome=_pairing("wrong code"))
    _let_in(tx, replace(found, user=user, name=one_line(source.user_name or "", _NAME)), found.by, now)
    return PairingReply(text=WELCOME, outcome=InboundOutcome(kind=OutcomeKind.PAIRED))


# --- owners and admins -------------------------------------------------------------------------------


def invite(tx: Tx, account: Account, by: str, now: datetime) -> str:
    """A code for whoever sends it first to this account, in a private chat."""
    if is_locked(tx, account, now):
        raise UserError(f"Pairing on {account} is locked after {MOST_WRONG} wrong codes.", hint=_WAIT)
    if len(_open(tx, account, now, invitations=True)) >= MOST_PENDING:
        raise UserError(
            f"{MOST_PENDING} invitations to {account} are open already.",
            hint="Wait until one is used or an hour old, or run: hermes pairing clear-pending",
        )
    made, word = _new_code(account, now)
    tx.pairing_codes.add(replace(made, by=by))
    tx.pairing_codes.put_mark(PairingCounter(name=f"invited:{account}", count=1, until=now + _INVITED_LATELY))
    return word


def approve(tx: Tx, account: Account, text: str, by: str, now: datetime) -> PairingApproval:
    """The owner says yes to the person who was given this code, and to nobody else. A wrong code is counted,
    so this returns what went wrong instead of raising it; what cannot be a code guesses nothing."""
    if is_locked(tx, account, now):
        return PairingApproval(text=f"Pairing on {account} is locked after {MOST_WRONG} wrong codes. {_WAIT}")
    word = read_code(text)
    if word is None:
        return PairingApproval(
            text=f"“{one_line(text, 40)}” cannot be a code: codes have {LENGTH} letters and digits."
        )
    found = _fitting(_open(tx, account, now, invitations=False), word)
    if found is None or not tx.pairing_codes.remove(found.id):
        left = MOST_WRONG - _count_wrong(tx, f"wrong:{account}", now)
        tries = (
            f"{left} more wrong ones lock pairing there for an hour."
            if left
            else f"It is locked now. {_WAIT}"
        )
        return PairingApproval(
            text=f"No open code of {account} is this one: they last an hour and work once. {tries}"
        )
    tx.pairing_codes.put_mark(PairingCounter(name=f"wrong:{account}", until=now))
    paired = _let_in(tx, found, by, now)
    if found.place is not None:
        notify(tx, f"paired:{found.id}", found.place, WELCOME, now)
    who = f"{paired.name} ({paired.user})" if paired.name else paired.user
    return PairingApproval(text=f"{who} may write on {account} now.", paired=paired, place=found.place)


def revoke(tx: Tx, account: Account, user: str) -> None:
    """Whoever is not paired cannot be unpaired: a `UserError` says who is."""
    if tx.pairings.remove(account, user):
        return
    known = [one.user for one in tx.pairings.list() if one.account == account]
    hint = f"Paired there: {', '.join(known[:10])}." if known else "Nobody is paired there."
    raise UserError(f"“{one_line(user, 60)}” is not paired on {account}.", hint=hint)


def clear_pending(tx: Tx, account: Account | None = None) -> int:
    """Forget open requests and invitations, of one account or of all; says how many."""
    codes = [one for one in tx.pairing_codes.list() if account in (None, one.account)]
    return sum(tx.pairing_codes.remove(code.id) for code in codes)


def overview(tx: Tx, now: datetime) -> PairingOverview:
    waiting = [
        PendingPairing(
            account=code.account,
            id=code.id,
            user=code.user,
            name=code.name if code.user is not None else code.by,
            created_at=code.created_at,
            expires_at=code.expires_at,
        )
        for code in tx.pairing_codes.list()
        if code.expires_at > now
    ]
    return PairingOverview(paired=tx.pairings.list(), waiting=waiting)


def import_paired(tx: Tx, label: str, people: list[PairedUser]) -> int:
    """Let in whom another program had let in; once for each label, so that nobody revoked comes back."""
    done = f"imported:{label}"
    if tx.pairing_codes.mark(done) is not None:
        return 0
    new = [one for one in people if tx.pairings.get(one.account, one.user) is None]
    for one in new:
        tx.pairings.add(one)
    tx.pairing_codes.put_mark(PairingCounter(name=done, count=len(new)))
    return len(new)


def is_locked(tx: Tx, account: Account, now: datetime) -> bool:
    return _wrong(tx, f"wrong:{account}", now) >= MOST_WRONG


# --- codes -----------------------------------------------------------------------------------------

_WAIT = "Try again in an hour."


def read_code(text: str) -> str | None:
    """The code that a text is, None if it is none. Letters that only look alike are other letters."""
    word = text.strip()
    if len(word) != LENGTH or not word.isascii():
        return None
    word = word.upper()
    return word if set(word) <= set(ALPHABET) else None


def _new_code(account: Account, now: datetime) -> tuple[PairingCode, str]:
    word = "".join(secrets.choice(ALPHABET) for _ in range(LENGTH))
    salt = secrets.token_bytes(16)
    made = PairingCode(
        id=secrets.token_hex(4),
        account=account,
        salt=salt,
        digest=_digest(account, salt, word),
        created_at=now,
        expires_at=now + LIFETIME,
    )
    return made, word


def _digest(account: Account, salt: bytes, word: str) -> bytes:
    return hmac.new(salt, f"{account} {word}".encode(), hashlib.sha256).digest()


def _fitting(codes: list[PairingCode], word: str) -> PairingCode | None:
    """Compared with every code in full, so that the time it takes tells nothing."""
    found: PairingCode | None = None
    for code in codes:
        if hmac.compare_digest(code.digest, _digest(code.account, code.salt, word)):
            found = code
    return found


def _open(tx: Tx, account: Account, now: datetime, *, invitations: bool) -> list[PairingCode]:
    return [
        code
        for code in tx.pairing_codes.list()
        if code.account == account and code.expires_at > now and (code.user is None) == invitations
    ]


def _let_in(tx: Tx, code: PairingCode, by: str, now: datetime) -> PairedUser:
    assert code.user is not None
    paired = PairedUser(account=code.account, user=code.user, name=code.name, approved_at=now, by=by)
    tx.pairings.add(paired)
    for other in tx.pairing_codes.list():
        if other.account == code.account and other.user == code.user:
            tx.pairing_codes.remove(other.id)
    return paired


# --- counting ----------------------------------------------------------------------------------------


def _holds(mark: PairingCounter, now: datetime) -> bool:
    return mark.until is not None and mark.until > now


def _wrong(tx: Tx, name: str, now: datetime) -> int:
    mark = tx.pairing_codes.mark(name)
    return mark.count if mark is not None and _holds(mark, now) else 0


def _count_wrong(tx: Tx, name: str, now: datetime) -> int:
    """One more; what is an hour old is forgotten, and a lock lasts an hour from its last wrong code."""
    count = _wrong(tx, name, now) + 1
    tx.pairing_codes.put_mark(PairingCounter(name=name, count=count, until=now + LOCKED))
    return count
