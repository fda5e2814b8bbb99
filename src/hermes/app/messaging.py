"""What the agents of a gateway need to send: how a tool posts to other chats, and which files may go out."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from hermes.app.agents.agent_backends import incoming_folder
from hermes.app.agents.world_scopes import WorldScopes
from hermes.app.homes import MEDIA
from hermes.control.core import TakeFile
from hermes.control.outbound.answers import collect_files
from hermes.control.outbound.sending import MessageSender, OutboundMessage
from hermes.domain.chats.address import Address
from hermes.domain.chats.channels import KnownChannels, MessagingPort
from hermes.domain.chats.message import Attachment
from hermes.domain.errors import UserError
from hermes.domain.ids import AgentId, TurnId
from hermes.domain.ports.world import Backend, Media, World
from hermes.domain.settings.settings import Profile
from hermes.domain.text import one_line
from hermes.domain.tools.tool import ToolContext
from hermes.state.files.media import read_file
from hermes.state.files.outgoing import OutgoingFiles, SendRules, in_home
from hermes.state.home.homes import agent_home


class Messaging:
    """`courier` is asked for when something is sent: there is one as soon as the gateway runs."""

    def __init__(self, home: Path, courier: Callable[[], MessageSender]) -> None:
        self._home = home
        self._courier = courier
        self._files: dict[AgentId, TakeFile] = {}

    @property
    def office(self) -> MessagingPort:
        return MessagingPort(send=self._send, places=self._places, spelled=self._spelled)

    def files(self, profile: Profile, backend: Backend, media: Media, scopes: WorldScopes) -> TakeFile:
        """What lets an agent's files go: those of its workspace unless that is too wide, those it was sent,
        and the folders that the settings name; nothing in a home of Hermes but these."""

        async def rules(world: World) -> SendRules:
            scope = await scopes.of(world)
            named = profile.settings.gateway.media_delivery_allow_dirs
            allowed = [path for folder in named if (path := in_home(world, folder)).startswith("/")]
            allowed += [] if scope.wide else [world.workspace]
            return SendRules(allowed=[*allowed, incoming_folder(world, profile)], homes=scope.homes.closed)

        files = OutgoingFiles(media=media, backend=backend, rules=rules)
        self._files[profile.agent] = files.take
        return files.take

    async def open(self, file: Attachment) -> bytes:
        """The bytes of a file on its way out, named by its content: whose folder has it is all one."""
        digest, courier = file.sha256 or "", self._courier()
        for agent, item in await courier.store.read(lambda tx: tx.media.copies(digest)):
            folder = agent_home(self._home, agent, courier.live.now) / MEDIA
            with contextlib.suppress(UserError, OSError):
                return await asyncio.to_thread(read_file, folder, item)
        raise UserError(f"The file {one_line(file.name or file.ref, 80)} no longer exists.")

    async def _send(self, context: ToolContext, target: str, text: str) -> Sequence[Address]:
        take = self._files.get(context.agent)
        body = await collect_files(text, None if take is None else partial(take, context.session))
        letter = OutboundMessage(key=context.key, target=target, body=body, turn=context.turn)
        return (await self._courier().post(context.agent, letter)).to

    async def _places(self, context: ToolContext) -> KnownChannels:
        known = await self._courier().known(context.agent, context.turn)
        return KnownChannels(homes=known.homes, channels=known.channels)

    async def _spelled(self, agent: AgentId, turn: TurnId, target: str) -> Sequence[Sequence[str]]:
        return await self._courier().spelled(agent, turn, target)
