"""The rooms that we are asked into, and those that take the place of one we are in: joined, or let lie. One
that cannot be joined yet is tried again; until then its point holds the stored one back."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from hermes.domain.adapter import AdapterContext
from hermes.domain.address import Address, Source, SourceKind
from hermes.domain.errors import Refused, Unreachable, UserError
from hermes.domain.text import one_line
from hermes.entry.platforms.matrix.client import MatrixClient, path
from hermes.entry.platforms.matrix.convert import NAME
from hermes.entry.platforms.matrix.rooms import Rooms
from hermes.entry.platforms.matrix.sync import Invite, MatrixIdentity

log = logging.getLogger("hermes.matrix")
_RULES = ("allowed", "everyone", "nobody")
_TRIES = 20


class Invitations:
    def __init__(
        self, context: AdapterContext, client: MatrixClient, rooms: Rooms, held: dict[str, str]
    ) -> None:
        self._rule = context.setting("MATRIX_INVITES", "allowed").lower()
        if self._rule not in _RULES:
            raise UserError("MATRIX_INVITES is neither allowed, everyone nor nobody.")
        self._welcomes = context.welcomes
        self._client = client
        self._rooms = rooms
        self._held = held
        self._open: dict[str, tuple[Invite, int]] = {}

    def __bool__(self) -> bool:
        """Whether some wait to be tried again."""
        return bool(self._open)

    async def take(self, invites: Sequence[Invite], me: MatrixIdentity, since: str) -> None:
        for invite in invites:
            self._open.setdefault(invite.room, (invite, 0))
            self._held.setdefault(invite.room, since)
        for room, (invite, tries) in list(self._open.items()):
            try:
                await self._answer(invite, me)
            except Unreachable as error:
                log.info("matrix.invite_later room=%s why=%s", one_line(room), error)
                self._open[room] = (invite, tries + 1)
                if tries + 1 < _TRIES:
                    continue
                log.warning("matrix.invite_lost room=%s: it must be sent again", one_line(room))
            except Refused as error:
                log.warning("matrix.invite_failed room=%s why=%s", one_line(room), error)
            del self._open[room], self._held[room]

    async def _answer(self, invite: Invite, me: MatrixIdentity) -> None:
        """Go where somebody asks us to who may speak there, and where a room goes on that we are in."""
        follows = await self._follows(invite, me)
        if not follows and (invite.moved or not await self._is_welcome(invite, me)):
            log.info("matrix.invite_ignored from=%s", one_line(invite.sender))
            return
        # A homeserver that is not in the room yet has to know one that is.
        server = invite.sender.partition(":")[2]
        via = {"via": server, "server_name": server} if server else None
        await self._client.call("POST", f"v3/{path('join', invite.room)}", {}, query=via)
        log.info("matrix.joined from=%s direct=%s moved=%s", one_line(invite.sender), invite.direct, follows)
        if follows and (await self._rooms.get(invite.room)).before != invite.instead_of:
            # Who may close a room could send us anywhere by it.
            await self._client.call("POST", f"v3/{path('rooms', invite.room, 'leave')}", {})
            log.warning("matrix.left room=%s: it does not go on with ours", one_line(invite.room))
        elif invite.direct:
            await self._rooms.mark_direct(invite.room, invite.sender, me)

    async def _follows(self, invite: Invite, me: MatrixIdentity) -> bool:
        """Whether the room takes the place of one we are in, as those say who rule there."""
        if self._rule == "nobody" or not invite.instead_of:
            return False
        return await self._rooms.goes_on_with(invite.room, invite.instead_of, me)

    async def _is_welcome(self, invite: Invite, me: MatrixIdentity) -> bool:
        if self._rule != "allowed":
            return self._rule == "everyone"
        address = Address(platform=NAME, account=me.account, chat=invite.room)
        kind = SourceKind.PRIVATE if invite.direct else SourceKind.GROUP
        return await self._welcomes(Source(address=address, kind=kind, user=invite.sender))
