"""Encrypted rooms: matrix-nio keeps the keys, in the platform's folder, and does the cryptography; the
adapter stays the one who syncs and sends. nio is imported only where encryption is on.

The keys of messages come with a sync and are stored here before the sync's point is; so nothing that was
stored is waited for again, and a sync that is told twice does no harm. Keys of ours are stored before they
are told to anybody. Devices are trusted as they appear; ours is verified by its account, see
`cross_signing`."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Mapping, Sequence
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import aiohttp

from hermes.domain.chats.adapter import AdapterContext, Finding, good, wrong
from hermes.domain.errors import NeedsLogin, Refused, Unreachable, UserError
from hermes.entry.kit.payload import Recent, as_dict, as_dicts, as_text, dig
from hermes.entry.platforms.matrix.api import MatrixClient
from hermes.entry.platforms.matrix.convert import ENCRYPTED, Room
from hermes.entry.platforms.matrix.cross_signing import DeviceTrust, ask_trust, open_signer, sign_device
from hermes.entry.platforms.matrix.rooms import Rooms
from hermes.entry.platforms.matrix.sync import MatrixIdentity

log = logging.getLogger("hermes.matrix")

LACKING = "MATRIX_ENCRYPTION needs matrix-nio."
REMEDY = "hermes platforms install matrix"
UNVERIFIED = "Nobody has verified its device, so that many programs give it no keys and hide what it writes"
OTHER_KEYS = "The homeserver has keys of another program for this login"
OTHER_LOGIN = "Set MATRIX_USER_ID, MATRIX_PASSWORD and a new MATRIX_DEVICE_ID in place of the token."
_MODES = {
    **dict.fromkeys(("off", "false", "no", "0"), "off"),
    # hermes-agent's word for it: encrypted rooms, and others too.
    **dict.fromkeys(("optional", "true", "yes", "on", "1"), "optional"),
    "required": "required",
}
_NEVER = frozenset({"m.unverified", "m.blacklisted", "m.unauthorised"})
"""Reasons for which a key will not come (Matrix 1.18, `m.room_key.withheld`); with others it still may."""
_MOST_WITHHELD, _MOST_ROOMS = 1000, 200


def read_mode(context: AdapterContext) -> tuple[str, bool]:
    """Whether encrypted rooms are wanted, and whether the operator said so."""
    word = context.setting("MATRIX_ENCRYPTION").lower()
    if word and word not in _MODES:
        raise UserError("MATRIX_ENCRYPTION is neither off, optional nor required.")
    return _MODES.get(word, "optional"), bool(word)


async def encrypted_rooms_finding(rooms: Rooms, joined: Sequence[str], *, chosen: bool) -> list[Finding]:
    """How many rooms are silent because they are encrypted."""
    if joined[:_MOST_ROOMS] and (
        count := sum([await rooms.is_encrypted(room) for room in joined[:_MOST_ROOMS]])
    ):
        text = f"{count} of its {len(joined)} rooms are encrypted and not read."
        hint = f"hermes config set MATRIX_ENCRYPTION optional; it needs matrix-nio: {REMEDY}"
        return [good(text, hint) if chosen else wrong(text, hint)]
    return []


async def encryption_findings(
    mode: str, client: MatrixClient, me: MatrixIdentity, context: AdapterContext, *, chosen: bool
) -> list[Finding]:
    """What a look from outside says of encryption, and of the key by which the bot's device is known."""
    if mode == "off":
        return [good("Encrypted rooms are not read (MATRIX_ENCRYPTION is off).")]
    if find_spec("nio") is None or find_spec("vodozemac") is None:
        if not chosen:
            return [good("Encrypted rooms are not read (matrix-nio is not installed).", REMEDY)]
        return [wrong(LACKING, REMEDY)]
    findings = [good(f"Encrypted rooms are read and written in (it is {mode}).")]
    folder, recovery = context.folder, context.setting("MATRIX_RECOVERY_KEY")
    ours = None if folder is None else await asyncio.to_thread(_stored_key, folder, me)
    trust = await ask_trust(client, me)
    theirs = trust.key
    if ours is not None and theirs in (ours, None):
        findings.append(good(f"Its device is {me.device}, with the key {ours}."))
        if trust.signed:
            findings.append(good("Its account vouches for the device."))
        elif not recovery:
            findings.append(wrong(f"{UNVERIFIED}.", _way_to_verify(me, ours)))
    elif theirs is not None:
        findings.append(wrong(f"{OTHER_KEYS} ({me.device}).", OTHER_LOGIN))
    else:
        findings.append(good(f"Its device is {me.device}; its key is made at the first start."))
    if recovery and not trust.signed:
        try:
            await open_signer(client, me, trust, recovery)
            findings.append(good("Its account will vouch for the device from the next start on."))
        except UserError as error:
            findings.append(wrong(error.message, error.hint))
    return findings


def _stored_key(folder: Path, me: MatrixIdentity) -> str | None:
    """The public key of our device as it lies in the folder; nothing is made there."""
    if not (folder / f"{me.id}_{me.device}.db").exists():
        return None
    store: Any = import_module("nio.store").MatrixStore(
        me.id, me.device, str(folder), import_module("nio").AsyncClientConfig().pickle_key
    )
    try:
        account = store.load_account()
        return None if account is None else str(account.identity_keys["ed25519"])
    finally:
        store.database.close()


def _way_to_verify(me: MatrixIdentity, key: str) -> str:
    return (
        "Log in to Element as the bot, set up recovery (Settings → Encryption) and set MATRIX_RECOVERY_KEY to"
        f" the key it shows; or write there /verify {me.device} {key}"
    )


class Encryption:
    def __init__(self, nio: Any, client: Any, me: MatrixIdentity) -> None:
        self._nio = nio
        self._client = client
        self._me = me
        self._members: dict[str, frozenset[str]] = {}
        self._withheld: Recent[str, None] = Recent(_MOST_WITHHELD)
        """Sessions whose keys their senders do not give us."""
        self.doubt = ""
        """Why others may give us no keys, and what to do about it."""
        self._alone = asyncio.Lock()

    @classmethod
    async def open(
        cls, client: MatrixClient, me: MatrixIdentity, folder: Path | None, recovery: str = ""
    ) -> Encryption:
        try:
            nio: Any = await asyncio.to_thread(import_module, "nio")
            await asyncio.to_thread(import_module, "vodozemac")
        except ImportError as error:
            raise UserError(LACKING, hint=REMEDY) from error
        if folder is None or not me.device:
            raise UserError(
                "Encryption needs a home and an access token of a device.",
                hint="Take the token of a login, not of a bridge.",
            )
        await asyncio.to_thread(folder.mkdir, mode=0o700, parents=True, exist_ok=True)
        config = nio.AsyncClientConfig(
            encryption_enabled=True,
            store_sync_tokens=False,
            max_limit_exceeded=0,
            max_timeouts=0,
            request_timeout=client.answer_seconds,
        )
        theirs = nio.AsyncClient(client.url, me.id, me.device, str(folder), config, proxy=client.proxy)
        theirs.restore_login(me.id, me.device, client.token)
        encryption = cls(nio, theirs, me)
        try:
            trust = await encryption._agree(client)
            await encryption._upkeep()
            await encryption._vouch(client, trust, recovery)
        except BaseException:
            await encryption.close()
            raise
        return encryption

    async def _vouch(self, client: MatrixClient, trust: DeviceTrust, recovery: str) -> None:
        """Have the account vouch for the device; others may give keys to no other (Matrix 1.18, MSC4153)."""
        ours = self._client.olm.account.identity_keys["ed25519"]
        if trust.signed:
            return
        self.doubt = f"{UNVERIFIED}. {_way_to_verify(self._me, ours)}"
        if recovery:
            try:
                await sign_device(client, self._me, ours, recovery)
            except UserError as error:
                # A key that does not fit is no worse than none: rooms stay encrypted, and status says it.
                self.doubt = f"{error.message} {error.hint}"
            else:
                self.doubt = ""
                log.info("matrix.device_signed id=%s", self._me.device)
        if self.doubt:
            log.warning("matrix.device_not_verified: %s", self.doubt)

    async def _agree(self, client: MatrixClient) -> DeviceTrust:
        """Others know us by the key that the homeserver has: it must be ours, and another one is let be."""
        olm, share = self._client.olm, self._client.olm.share_keys
        trust = await ask_trust(client, self._me)
        ours, theirs = olm.account.identity_keys["ed25519"], trust.key
        if theirs not in (ours, None):
            raise NeedsLogin(f"{OTHER_KEYS} ({self._me.device}). {OTHER_LOGIN}")
        # A login that was ended and made again begins without keys.
        olm.account.shared = olm.account.shared and theirs is not None
        log.info("matrix.device id=%s key=%s", self._me.device, ours)

        def share_stored() -> Any:
            keys = share()
            # Whoever is given a one-time key uses it, also if we die before we hear that it was taken.
            olm.save_account()
            return keys

        olm.share_keys = share_stored
        return trust

    async def close(self) -> None:
        await self._client.close()
        if self._client.store is not None:
            self._client.store.database.close()

    # --- what comes in ---

    async def absorb(self, sync: Mapping[str, Any]) -> None:
        """Take the keys out of a sync, and do what it asks for, before anything else is made of it."""
        ours = {
            name: sync[name]
            for name in ("next_batch", "to_device", "device_lists", "device_one_time_keys_count")
            if name in sync
        }
        for event in as_dicts(dig(sync, "to_device", "events")):
            content = as_dict(event.get("content"))
            if event.get("type") == "m.room_key.withheld" and content.get("code") in _NEVER:
                self._withheld[as_text(content.get("session_id"))] = None
        async with self._alone:
            response = self._nio.SyncResponse.from_dict({**ours, "rooms": {}})
            if not isinstance(response, self._nio.SyncResponse):
                raise Unreachable("The homeserver's keys cannot be read")
            # One that is told again after a restart counts again.
            self._client.next_batch = None
            await self._client.receive_response(response)
            changed = set(response.device_list.changed) & set(self._client.olm.tracked_users)
            self._client.olm.add_changed_users(changed)
            await self._upkeep()

    async def _upkeep(self) -> None:
        """Keys that run out are made anew, and those of others asked for."""
        client = self._client
        if client.should_upload_keys:
            await self._good(client.keys_upload())
        if client.should_query_keys:
            await self._good(client.keys_query())
        if client.should_claim_keys:
            await self._good(client.keys_claim(client.get_users_for_key_claiming()))
        if client.outgoing_to_device_messages:
            await self._good(client.send_to_device_messages())

    def decrypt(self, room: str, event: Mapping[str, Any]) -> dict[str, Any] | None:
        """The event as it was before it was encrypted; None while its key is not there."""
        try:
            locked = self._nio.Event.parse_encrypted_event({**event, "room_id": room})
            if not isinstance(locked, self._nio.MegolmEvent):
                return None
            clear = self._client.decrypt_event(locked)
        except (self._nio.EncryptionError, self._nio.LocalProtocolError, KeyError, TypeError, ValueError):
            return None
        source = getattr(clear, "source", None)
        # Who can write in two rooms could show a message of the one in the other.
        if not isinstance(source, dict) or source.get("room_id", room) != room:
            return None
        return {**event, "type": source.get("type"), "content": source.get("content")}

    def is_withheld(self, event: Mapping[str, Any]) -> bool:
        """Whether its sender said that its key will not come."""
        return as_text(dig(event, "content", "session_id")) in self._withheld

    # --- what goes out ---

    async def encrypt(self, room: Room, sort: str, content: dict[str, Any]) -> tuple[str, dict[str, Any]]:
        async with self._alone:
            client = self._client
            self._enter(room)
            if client.should_query_keys:
                await self._good(client.keys_query())
            try:
                if client.olm.should_share_group_session(room.id):
                    await self._good(client.share_group_session(room.id, ignore_unverified_devices=True))
                made, locked = client.encrypt(room.id, sort, content)
            except (self._nio.EncryptionError, self._nio.LocalProtocolError) as error:
                raise Unreachable(f"It cannot be encrypted now ({type(error).__name__})") from error
        assert made == ENCRYPTED
        return made, dict(locked)

    def _enter(self, room: Room) -> None:
        """Who is in the room gets its key; who left does not get the next."""
        members = frozenset(room.members)
        if self._members.get(room.id) == members:
            return
        theirs = self._nio.MatrixRoom(room.id, self._me.id, True)
        for user, name in room.members.items():
            theirs.add_member(user, name or None, None)
        theirs.members_synced = True
        self._client.rooms[room.id] = theirs
        self._client.invalidate_outbound_session(room.id)
        # Devices may have come while nobody looked.
        self._client.olm.add_changed_users(set(members))
        self._members[room.id] = members

    async def _good(self, call: Awaitable[Any]) -> None:
        try:
            answers = await call
        except (aiohttp.ClientError, TimeoutError, self._nio.LocalProtocolError) as error:
            raise Unreachable(f"The homeserver gives no keys ({type(error).__name__})") from None
        for answer in answers if isinstance(answers, list) else [answers]:
            if isinstance(answer, self._nio.ErrorResponse):
                wait = answer.retry_after_ms / 1000 if answer.retry_after_ms else None
                raise Unreachable(f"The homeserver gives no keys ({answer.status_code})", after=wait)

    # --- files ---

    async def lock_file(self, data: bytes) -> tuple[bytes, dict[str, Any]]:
        """An encrypted file, and what one has to know to read it."""
        attachments: Any = import_module("nio.crypto.attachments")
        locked, keys = await asyncio.to_thread(attachments.encrypt_attachment, data)
        return locked, keys

    async def open_file(self, data: bytes, secret: tuple[str, str, str]) -> bytes:
        attachments: Any = import_module("nio.crypto.attachments")
        key, iv, digest = secret
        try:
            clear: bytes = await asyncio.to_thread(attachments.decrypt_attachment, data, key, digest, iv)
        except (self._nio.EncryptionError, ValueError) as error:
            raise Refused("the file is damaged: it does not fit its key") from error
        return clear
